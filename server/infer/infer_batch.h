/* infer_batch.h - which inferences may share their products with others: those of one item, with
 * what the item has to say of it. */
#ifndef ATTND_INFER_BATCH_H
#define ATTND_INFER_BATCH_H

#include "infer/infer.h"
#include "infer/infer_cost.h"
#include "work/batcher.h"

/* Fills all of member but its job and go_on. False where this stage of the item's plan is no
 * product that could be shared. */
bool infer_batch_member(struct batch_member *member, const struct infer_request *request,
                        int stage);

/* Takes off the cost of the request what it saves if it shares its products with those who are
 * there now or were of late. */
void infer_batch_expect(struct infer_cost *cost, const struct infer_request *request,
                        struct batcher *batcher);

#endif
