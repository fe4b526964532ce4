/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_case.h - a call of attention with its gradients and all the memory they need, and their
 * comparison with finite differences of the double reference.
 *
 * The gradients are poisoned and end at unreadable pages, like the tensors of attention_case.h. */
#ifndef GRADIENT_CASE_H
#define GRADIENT_CASE_H

#include "attention_case.h"
#include "difference.h"
#include "gradient.h"

/* The differences of a case, in the order in which they are compared. */
struct gradient_differences;

struct gradient_case {
    struct attention_case forward;
    struct attn_gradient_problem problem;     /* its attention is set when it is planned */
    struct gradient_differences *differences; /* NULL: the first comparison computes them */
};

/* What may differ from scaled dot-product attention with softmax, one bit each. */
enum { GRADIENT_ADDITIVE = 1, GRADIENT_SPARSE = 2 };

/* Query, key, value and the context's gradient of these sizes from seed, in steps that
 * difference.h can move; room for the gradients of the three. */
void gradient_case_init(struct gradient_case *c, const struct attention_sizes *sizes,
                        enum attention_layout layout, uint64_t seed);

/* Makes the case one of these kinds, with room for the additive weight's gradient. */
void gradient_case_set_kinds(struct gradient_case *c, unsigned kinds, uint64_t seed);

/* A float mask of this shape, with some pairs forbidden, and room for its gradient. */
void gradient_case_add_mask(struct gradient_case *c, const int64_t shape[4], uint64_t seed);

/* Slopes and sinks, one for each query head, where wanted, and room for their gradients. */
void gradient_case_add_heads(struct gradient_case *c, bool alibi, bool sinks, uint64_t seed);

/* Options, and what else a problem may have. */
struct gradient_variant {
    const char *name;
    float scale, softcap;
    bool causal;
    int64_t window_left, window_right, past_len, kv_len; /* kv_len -1: none */
    bool row_kv_len;
    int mask; /* bits: the dimensions that the mask has; 16: its keys end early; -1: none */
    bool alibi, sinks;
    float dropout;
    int64_t kv_offset;
};

/* seed gives the lengths of rows, the numbers of each head and the numbers of the mask. */
void gradient_case_apply(struct gradient_case *c, const struct gradient_variant *variant,
                         uint64_t seed);

/* The case must be accepted. kernels NULL: the best table. */
void gradient_case_plan(struct gradient_case *c, const struct attn_kernels *kernels,
                        struct attn_gradient_plan *plan);
void gradient_case_run(struct gradient_case *c, const struct attn_kernels *kernels);

/* All tasks of each stage from the first to the last, or the other way round. */
void gradient_run(const struct attn_gradient_plan *plan, bool backwards);

/* Compares every number of the gradients. If a tensor has more than some numbers, compares some
 * of them. Skips numbers at a kink of sparsemax, where there is no derivative; returns how many
 * it skipped. */
int64_t gradient_case_compare(const struct gradient_case *c, uint64_t seed);

/* Runs the case on every kernel table and compares each time; returns the sum. */
int64_t gradient_case_compare_tables(struct gradient_case *c, uint64_t seed);

/* Runs and compares a case of these sizes and kinds under every kind of mask and option, or
 * under one in step of them. The last kind, which has most of them together, is always included.
 * Each runs on every kernel table. */
void gradient_run_variants(const struct attention_sizes *sizes, unsigned kinds, size_t step,
                           uint64_t seed);

#endif
