/* SPDX-License-Identifier: Apache-2.0 */
/* attention_case.h - one call of attention with all the memory it needs.
 *
 * Every tensor ends at an unreadable page (guard.h) and every run gets its workspace poisoned
 * with NaN, so that every test also notices a read past an end, and workspace that is used
 * before it is written. */
#ifndef ATTENTION_CASE_H
#define ATTENTION_CASE_H

#include "attn.h"
#include "fill.h"
#include "guard.h"
#include "reference.h"

struct attention_sizes {
    int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_head_dim;
};

enum attention_layout {
    LAYOUT_DENSE,     /* [batch, heads, length, head_dim] */
    LAYOUT_ROWS,      /* [batch, length, heads, head_dim] */
    LAYOUT_GAPS,      /* like LAYOUT_DENSE, with unused elements after every row */
    LAYOUT_BROADCAST, /* keys and values: all heads and batch items share one, by stride 0 */
    LAYOUT_COUNT
};

/* A set of outputs: OUT_CONTEXT, OUT_WEIGHTS, ... */
enum {
#define X(NAME, name, columns, step) OUT_##NAME = 1 << ATTN_OUTPUT_##NAME,
    ATTN_OUTPUT_MAP(X)
#undef X
        OUT_COUNT = ATTN_OUTPUT_COUNT,
    OUT_ALL = (1 << OUT_COUNT) - 1,
};

enum { ATTENTION_CASE_BUFFERS = 64 };

struct attention_case {
    struct attn_problem problem;
    struct guard_buffer buffers[ATTENTION_CASE_BUFFERS];
    int buffer_count;
};

/* Query, key and value of these sizes filled from seed, uniform in [-1, 1); no outputs, default
 * options. */
void attention_case_init(struct attention_case *c, const struct attention_sizes *sizes,
                         enum attention_layout layout, uint64_t seed);
void attention_case_free(struct attention_case *c);

/* Memory that is freed with the case. */
void *attention_case_alloc(struct attention_case *c, size_t bytes);
struct attn_tensor attention_case_tensor(struct attention_case *c, enum attn_dtype dtype,
                                         enum attention_layout layout, int64_t batch, int64_t heads,
                                         int64_t length, int64_t head_dim);

/* Makes the outputs of the set (OUT_...) in this layout. All other outputs become absent. */
void attention_case_outputs(struct attention_case *c, unsigned set, enum attention_layout layout);
/* The same, but each output has its own dtype instead of F32. */
void attention_case_outputs_of(struct attention_case *c, unsigned set, enum attention_layout layout,
                               const enum attn_dtype dtypes[OUT_COUNT]);

/* The outputs of problem, by enum attn_output. */
struct attn_tensor *attention_output(struct attn_problem *problem, int index);
const char *attention_output_name(int index);

/* One element of an F32 view. */
float *attention_at(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l, int64_t d);

/* Plans the problem, which must be accepted, and runs its tasks from the first to the last. */
void attention_run(const struct attn_problem *problem);

/* The same for a layer: all tasks of all its stages in order, scratch memory and workspace full of
 * NaN. */
void attention_run_layer(const struct attn_layer_problem *problem);

/* A 64-byte aligned workspace whose end is guarded, filled with bytes. */
struct guard_buffer attention_workspace(const struct attn_plan *plan, unsigned char byte,
                                        void **workspace);

/* Compares every output that is present: |got - want| <= tolerance * (1 + |want|); infinities, and
 * zeros of weights and context, exactly. Prints the first difference of each output; returns how
 * many there are. */
int64_t attention_compare(const struct attn_problem *problem, const struct reference *reference,
                          double tolerance);

/* How many elements of two views of one shape have other bits; prints the first. */
int64_t attention_differing_bits(const struct attn_tensor *a, const struct attn_tensor *b);

#endif
