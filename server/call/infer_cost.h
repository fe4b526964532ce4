/* SPDX-License-Identifier: Apache-2.0 */
/* infer_cost.h - the cost of one call: predicted when its body has arrived and again when it is
 * planned, compared in the end with the CPU time that it took; and what it saves where it shares
 * products with other calls (batcher.h). */
#ifndef ATTND_INFER_COST_H
#define ATTND_INFER_COST_H

#include "base/clock.h"
#include "call/admission.h"
#include "call/infer.h"
#include "http/http.h"
#include "scheduler/batcher.h"
#include "scheduler/cost.h"

#include <stdatomic.h>

enum infer_phase { INFER_READ, INFER_COMPUTE, INFER_WRITE, INFER_PACK, INFER_PHASE_COUNT };

struct infer_cost {
    struct cost phases[INFER_PHASE_COUNT];
    struct cost products[ATTN_PRODUCT_OUTPUT + 1]; /* the part of each product in computing, if the
                                                      request is one item of attention */
    double flops;                                  /* of computing, alone or in batches */
    int64_t saved_ns;              /* predicted to be paid by others of a batch; not in ns */
    int64_t ns[INFER_PHASE_COUNT]; /* predicted */
    bool measured[INFER_PHASE_COUNT];
    int64_t batched_ns; /* CPU time of batches for the request's own rows */
    bool is_less; /* computing may take less than is predicted, which is all that it could be, and
                     says nothing about the rates: items share what they read, or select keys */
    _Atomic int64_t cpu_ns[INFER_PHASE_COUNT], clock_ns[INFER_PHASE_COUNT];
};

/* The cost of reading a body, by the type and the coding in the headers; unpacked_bytes is its size
 * or a guess of it. */
void infer_cost_read(struct infer_cost *cost, const struct exchange *exchange,
                     size_t unpacked_bytes);

/* Reading is measured however short it is predicted to be: some bodies take many times as long as
 * others of their size, so a client that pays what it uses must not pay what is predicted. */
void infer_cost_measure_reading(struct infer_cost *cost);

/* A packed body has been unpacked, to so many bytes. */
void infer_cost_was_unpacked(struct infer_cost *cost, size_t bytes);

/* Texts of so many bytes were tokenized while the body was read. */
void infer_cost_was_tokenized(struct infer_cost *cost, size_t bytes);

/* The cost of the rest of a request whose items are planned. */
void infer_cost_plan(struct infer_cost *cost, const struct infer_request *request,
                     enum coding answer_coding);

/* The same for work that the caller has counted, and an answer of so many bytes at most, whose
 * numbers take number_bytes each; 0: as text. */
void infer_cost_plan_work(struct infer_cost *cost, const struct attn_work *work, int64_t item_count,
                          size_t answer_bytes, size_t number_bytes, enum coding answer_coding);

/* The same for a softmax of so many numbers, answered as text. */
void infer_cost_plan_softmax(struct infer_cost *cost, int64_t numbers, enum coding answer_coding);

/* The same for a text of so many bytes that is tokenized, or as many tokens. */
void infer_cost_plan_tokens(struct infer_cost *cost, int64_t bytes, enum coding answer_coding);

/* Predicted time of one worker: for the whole request, and for what comes after reading. */
int64_t infer_cost_ns(const struct infer_cost *cost);
int64_t infer_cost_left_ns(const struct infer_cost *cost);

/* The same in the form of admission.h; by_size_ns is for all known phases of the request. */
struct admission_cost infer_cost_to_admit(const struct infer_cost *cost,
                                          const struct service *service);
struct admission_cost infer_cost_left_to_admit(const struct infer_cost *cost,
                                               const struct service *service);

/* Charge the request only `part` of the cost of reading the product's parameters. */
void infer_cost_expect_part(struct infer_cost *cost, enum attn_layer_product product, double part);

/* The remaining cost of a job that joins others in the product, with its own rows of it. */
int64_t infer_cost_joined_ns(const struct infer_cost *cost, enum attn_layer_product product);

/* A batch has computed the product and was charged for it: paid_ns of CPU time for the request's
 * own rows. Returns the job's remaining cost. */
int64_t infer_cost_was_shared(struct infer_cost *cost, enum attn_layer_product product,
                              int64_t paid_ns);

/* Fills in member, except job and go_on. False where this stage of the item's plan is no product
 * that can be shared. Only requests of one item share products. */
bool infer_batch_member(struct batch_member *member, const struct infer_request *request,
                        int stage);

/* Subtracts from the cost of the request what it saves if it shares its products with the requests
 * that wait now or came recently. */
void infer_batch_expect(struct infer_cost *cost, const struct infer_request *request,
                        struct batcher *batcher);

/* Called around all that a worker does for the request, also by tasks that run at the same time.
 * Reading the CPU clock costs time, so only some of the short phases are measured. */
struct infer_stopwatch {
    bool is_on;
    struct clock_task task;
};
void infer_cost_start(const struct infer_cost *cost, enum infer_phase phase,
                      struct infer_stopwatch *watch);
void infer_cost_stop(struct infer_cost *cost, enum infer_phase phase,
                     const struct infer_stopwatch *watch);

/* The CPU time of a request that is over, with its part of the batches. A phase that was not
 * measured counts as predicted, if it is one of the phases up to `last`, which the request came
 * to. */
int64_t infer_cost_used_ns(const struct infer_cost *cost, enum infer_phase last);

/* So many bytes were packed, block by block. 0: they did not shrink and stay unpacked, so the time
 * says nothing about the rate. */
void infer_cost_was_packed(struct infer_cost *cost, size_t bytes);

/* Corrects the rates by what was measured. For requests that were answered without a fault. */
void infer_cost_learn(struct infer_cost *cost);

#endif
