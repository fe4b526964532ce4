/* infer_distances.h - relative positions that depend on the query: BERT's relative_key and
 * relative_key_query (Shaw, Uszkoreit and Vaswani 2018; Huang et al. 2020). */
#ifndef ATTND_INFER_DISTANCES_H
#define ATTND_INFER_DISTANCES_H

#include "infer/infer.h"

/* Adds to `count` rows of one head of item->bias, which sum points at, what the layer's rows for
 * distances give: scale * query . row, and scale * key . row where the layer has that too. The
 * layer is held, the item's lengths are settled. */
void infer_distances_add(const struct infer_item *item, int64_t head, int64_t first, int64_t count,
                         float *sum);

#endif
