/* infer_cost.h - the cost of one inference: predicted when its body is there, again when it is
 * planned, and compared in the end with the CPU time that it took. */
#ifndef ATTND_INFER_COST_H
#define ATTND_INFER_COST_H

#include "http/http.h"
#include "infer/infer.h"
#include "service/admission.h"
#include "work/batcher.h"
#include "work/cost.h"

#include <stdatomic.h>

enum infer_phase { INFER_READ, INFER_COMPUTE, INFER_WRITE, INFER_PACK, INFER_PHASE_COUNT };

struct infer_cost {
    struct cost phases[INFER_PHASE_COUNT];
    struct cost products[ATTN_PRODUCT_OUTPUT + 1]; /* what of computing they are, of a request of
                                                      one item of attention */
    double flops;                                  /* of computing, whoever does it */
    int64_t saved_ns;              /* predicted, of what others of a batch will pay; not in ns */
    int64_t ns[INFER_PHASE_COUNT]; /* predicted */
    bool measured[INFER_PHASE_COUNT];
    _Atomic int64_t cpu_ns[INFER_PHASE_COUNT], clock_ns[INFER_PHASE_COUNT];
};

/* What reading the body costs: so many bytes, of the type that the headers say. */
void infer_cost_read(struct infer_cost *cost, const struct exchange *exchange, size_t body_bytes);

/* What is left to do of a request whose items are planned. */
void infer_cost_plan(struct infer_cost *cost, const struct infer_request *request,
                     enum coding answer_coding);

/* The same of a softmax of so many numbers, as text. */
void infer_cost_plan_softmax(struct infer_cost *cost, int64_t numbers, enum coding answer_coding);

/* Predicted time of one worker: of the whole request, and of what comes after reading. */
int64_t infer_cost_ns(const struct infer_cost *cost);
int64_t infer_cost_left_ns(const struct infer_cost *cost);

/* The same as admission asks for it; by_size_ns is of what is known of the whole request. */
struct admission_cost infer_cost_to_admit(const struct infer_cost *cost,
                                          const struct service *service);
struct admission_cost infer_cost_left_to_admit(const struct infer_cost *cost,
                                               const struct service *service);

/* Of the product's parameters it is to pay but a part. */
void infer_cost_expect_part(struct infer_cost *cost, enum attn_layer_product product, double part);

/* What the job has still to do when it joins others in the product, its rows of that included. */
int64_t infer_cost_joined_ns(const struct infer_cost *cost, enum attn_layer_product product);

/* A batch has made the product, and has been measured for it. Returns what is left to do. */
int64_t infer_cost_was_shared(struct infer_cost *cost, enum attn_layer_product product);

/* Fills all of member but its job and go_on. False where this stage of the item's plan is no
 * product that could be shared. */
bool infer_batch_member(struct batch_member *member, const struct infer_request *request,
                        int stage);

/* Takes off the cost of the request what it saves if it shares its products with those who are
 * there now or were of late. */
void infer_batch_expect(struct infer_cost *cost, const struct infer_request *request,
                        struct batcher *batcher);

/* Around whatever a worker does for the request; tasks may run at the same time. The clock of CPU
 * time is not for nothing, so of what is short only a part is measured. */
struct infer_stopwatch {
    int64_t cpu_ns, clock_ns;
};
void infer_cost_start(const struct infer_cost *cost, enum infer_phase phase,
                      struct infer_stopwatch *watch);
void infer_cost_stop(struct infer_cost *cost, enum infer_phase phase,
                     const struct infer_stopwatch *watch);

/* So many bytes were packed, block by block, or 0: they did not shrink, were left as they are, and
 * what that took tells nothing. */
void infer_cost_was_packed(struct infer_cost *cost, size_t bytes);

/* The request was answered well: what was measured corrects the rates. */
void infer_cost_learn(struct infer_cost *cost);

#endif
