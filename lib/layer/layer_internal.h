/* SPDX-License-Identifier: Apache-2.0 */
/* layer_internal.h - what the plan of a layer and its tasks share. */
#ifndef ATTN_LAYER_INTERNAL_H
#define ATTN_LAYER_INTERNAL_H

#include "base/internal.h"
#include "layer.h"
#include "rows/rows_internal.h"

enum attn_layer_stage {
    ATTN_LAYER_PROJECT,
    ATTN_LAYER_PREPARE,
    ATTN_LAYER_LATENT_UP,    /* of a latent layer: queries from what q_down left, */
    ATTN_LAYER_LATENT_QUERY, /* and what attention compares with rows */
    ATTN_LAYER_APPEND,       /* to a cache */
    ATTN_LAYER_ATTEND,
    ATTN_LAYER_ATTEND_PART, /* in place of ATTEND, if its tasks can be divided: first the parts, */
    ATTN_LAYER_ATTEND_JOIN, /* then the joins of the parts */
    ATTN_LAYER_BOUND,       /* of a selection: the bounds of keys, */
    ATTN_LAYER_ATTEND_SOME, /* then the rows, in place of ATTEND */
    ATTN_LAYER_MERGE,
    ATTN_LAYER_SELECT,
    ATTN_LAYER_GIVEN,        /* rows with given weights */
    ATTN_LAYER_LATENT_VALUE, /* of a latent layer: contexts of heads from sums of rows */
    ATTN_LAYER_GATE,         /* rows of the context times their gates */
    ATTN_LAYER_OUTPUT
};

/* Scratch has at most nine parts. If nine times the bytes of each part do not overflow, neither
 * does their sum. */
enum { ATTN_ROW_PARTS_BYTES = 9 * sizeof(float) };

/* Rows of one task of PREPARE, APPEND, GATE or MERGE. */
enum { ATTN_LAYER_CHUNK_ROWS = 256 };

/* Rows of one head that a task of GIVEN looks at. */
enum { ATTN_LAYER_GIVEN_ROWS = 16 };

static inline float *attn_scratch_at(void *scratch, size_t offset)
{
    return (float *)(void *)((char *)scratch + offset);
}

/* A struct attn_layer_plan as the library sees it. */
struct __attribute__((may_alias)) attn_layer_plan_full {
    int stage_count; /* up to problem as in layer.h */
    int64_t task_count[ATTN_LAYER_STAGES_MAX];
    size_t scratch_bytes, workspace_bytes;
    struct attn_layer_problem problem;

    const struct attn_layer_merge *merge; /* merge of parts ; NULL: attention */
    struct attn_plan_full attention; /* its tensors in scratch get addresses when a task runs */
    int stage_kind[ATTN_LAYER_STAGES_MAX];
    size_t q_offset, k_offset, v_offset, gate_offset, context_offset,
        shared_offset;                             /* bytes into scratch */
    size_t up_offset, absorbed_offset, sum_offset; /* of a latent layer: q_proj's rows, queries as
                                                      attention reads them, and sums of rows */
    bool keeps_projected[3];    /* keep query, key and value from before norm and rotary embedding,
                                   for gradients, */
    size_t projected_offset[3]; /* at this offset */
    bool keeps_lse;             /* keep lse, for gradients, */
    size_t lse_offset;
    size_t largest_offset; /* and the largest weight of each row at this one */
};

ATTN_FULL_PLAN(attn_layer_plan, problem)

/* Query, key or value, and how it is prepared for attention. */
struct attn_operand {
    const struct attn_tensor *input;
    const struct attn_linear *linear;
    int64_t heads, head_dim;
    int64_t first_position;       /* of its row 0 */
    const struct attn_norm *norm; /* NULL: none */
    bool is_rotated;              /* by rotary embedding */
    bool is_prepared;       /* attention reads it from scratch, not from the caller's memory */
    bool has_prepare;       /* it has a norm or a rotary embedding */
    int64_t normed_columns; /* of a row, which has one head: the others alone are rotated. 0: norm
                               and rotary embedding are of all columns */
    bool is_of_key;         /* the first columns of each row of the key */
    const struct attn_tensor_names *names;
    const char *linear_name;
};

enum { ATTN_OPERAND_COUNT = 3 };

/* Query, key and value, in this order. */
void attn_layer_operands(const struct attn_layer_problem *problem,
                         struct attn_operand operands[ATTN_OPERAND_COUNT]);

/* Rotate rows of an operand to their positions in the call; row 0 of rows is row first of the
 * operand. The caller fills the fields of memory, heads, row_count and transposed. */
void attn_operand_rotate(const struct attn_layer_problem *problem,
                         const struct attn_operand *operand, int64_t first,
                         struct attn_rope_rows *rows);

/* Check every field's range; names are those of eps and scope. */
struct attn_norm_names {
    const char *eps, *scope;
};
enum attn_status attn_norm_check(const struct attn_norm *norm, const struct attn_norm_names *names,
                                 const char **where);

/* How a norm divides a row of heads: into count groups of columns numbers, which share their
 * weights or have their own. */
struct attn_norm_groups {
    int64_t count, columns;
    int64_t weight_step; /* from the weights of one group to those of the next; 0: shared */
};
struct attn_norm_groups attn_norm_groups(const struct attn_norm *norm, int64_t heads,
                                         int64_t head_dim);

/* Normalize dense rows of heads * head_dim columns in place. */
void attn_norm_rows(const struct attn_norm *norm, float *rows, int64_t row_count, int64_t heads,
                    int64_t head_dim);

/* Clamp numbers to layer.h's projected_max, if it is above 0; NaN stays NaN. */
void attn_clamp(float *numbers, int64_t count, double projected_max);

/* The workspace of one task of a product. */
size_t attn_layer_product_workspace_bytes(void);

/* One projection of dense rows, of the highest precision, divided into tasks, each with the
 * workspace of a product. */
int64_t attn_linear_tasks(const struct attn_kernels *kernels, const struct attn_linear *linear,
                          int64_t row_count);
void attn_linear_run(const struct attn_kernels *kernels, const struct attn_linear *linear,
                     const float *x, float *y, int64_t row_count, int64_t task, void *workspace);

/* Check the shape of o_proj, if there is one. */
enum attn_status attn_layer_check_output(const struct attn_layer *layer, const char **where);

/* One task of the stage MERGE of a merge. */
void attn_layer_run_merge(const struct attn_layer_plan_full *plan, int64_t task, void *scratch,
                          void *workspace);

/* Check the cache of a problem, if there is one, and run one task of the stage APPEND. */
enum attn_status attn_layer_check_cache(const struct attn_layer_problem *problem,
                                        const char **where);
int64_t attn_layer_append_tasks(const struct attn_layer_problem *problem);
void attn_layer_run_append(const struct attn_layer_plan_full *plan, int64_t task, void *scratch);

/* The plan of attention with the addresses that its tensors have in scratch. */
void attn_layer_bind_attention(const struct attn_layer_plan_full *plan, void *scratch,
                               struct attn_plan_full *attention);

/* Does a gate multiply the context? */
bool attn_layer_has_gate(const struct attn_layer_problem *problem);

/* Does the call end with the output projection? */
bool attn_layer_has_output(const struct attn_layer_problem *problem);

/* -------------------------------------------------------------- a latent layer -- */

/* The product of the projections of query: q_down, or of other layers q_proj. */
static inline const struct attn_linear *attn_layer_first(const struct attn_layer *layer)
{
    return layer->latent.q_down.weight != NULL ? &layer->latent.q_down : &layer->q_proj;
}

static inline bool attn_layer_is_latent(const struct attn_layer *layer)
{
    return layer->latent.rank > 0;
}

enum attn_status attn_latent_check(const struct attn_layer_problem *problem, const char **where);

/* Reserve scratch; tasks of a stage, 0 where it is left out, and one of them. */
void attn_latent_lay_out(struct attn_layer_plan_full *plan);
int64_t attn_latent_tasks(const struct attn_layer_plan_full *plan, enum attn_layer_stage kind);
void attn_latent_run(const struct attn_layer_plan_full *plan, enum attn_layer_stage kind,
                     int64_t task, void *scratch, void *workspace);

/* Query and context as attention has them, and the context of heads behind it. The data of each is
 * that of the caller, for the plan, where scratch is NULL. */
struct attn_tensor attn_latent_query(const struct attn_layer_plan_full *plan, void *scratch);
struct attn_tensor attn_latent_sum(const struct attn_layer_plan_full *plan, void *scratch);
struct attn_tensor attn_latent_context(const struct attn_layer_plan_full *plan, void *scratch);

/* Reserve scratch for length rows of columns numbers; returns its offset. */
static inline size_t attn_layer_reserve(struct attn_layer_plan_full *plan, int64_t length,
                                        int64_t columns)
{
    const size_t offset = plan->scratch_bytes;

    plan->scratch_bytes += attn_align_up((size_t)(length * columns) * sizeof(float));
    return offset;
}

/* The caller's tensor of an operand that is not projected, as [1, heads, length, head_dim]. */
struct attn_tensor attn_operand_caller_view(const struct attn_operand *operand);

#endif
