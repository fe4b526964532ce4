/* internal.h - what the files of the library share and nobody else may see. */
#ifndef ATTN_INTERNAL_H
#define ATTN_INTERNAL_H

#include "attn.h"

struct attn_threshold; /* sparsemax.h */
struct key_range;      /* mask.h */

/* One line a rule: leave with status and the name of the field at fault. */
#define RETURN_IF(condition, status, field)                                                        \
    do {                                                                                           \
        if (condition) {                                                                           \
            if (where != NULL)                                                                     \
                *where = (field);                                                                  \
            return (status);                                                                       \
        }                                                                                          \
    } while (0)

/* Leave with what another check found, which has set *where itself. */
#define RETURN_IF_FAILED(check)                                                                    \
    do {                                                                                           \
        const enum attn_status failure = (check);                                                  \
        if (failure != ATTN_OK)                                                                    \
            return failure;                                                                        \
    } while (0)

enum { ATTN_ALIGN_BYTES = 64 };

static inline size_t attn_align_up(size_t bytes)
{
    return (bytes + ATTN_ALIGN_BYTES - 1) & ~(size_t)(ATTN_ALIGN_BYTES - 1);
}

static inline int64_t attn_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t attn_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Holds sums and differences of any positions. */
__extension__ typedef __int128 attn_wide;

static inline int64_t attn_divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Whether the caller asks for this output. */
static inline bool attn_is_wanted(const struct attn_tensor *output)
{
    return output->data != NULL;
}

/* Of the first number of a row, in elements from data on. */
int64_t attn_tensor_index(const struct attn_tensor *tensor, int64_t batch, int64_t head,
                          int64_t row);

/* The first number of a row of an F32 tensor. */
float *attn_tensor_row(const struct attn_tensor *tensor, int64_t batch, int64_t head, int64_t row);

/* The names of one tensor's fields, as constant strings. */
struct attn_tensor_names {
    const char *self, *data, *dtype;
    const char *shape[4];
    const char *stride[4];
};

#define ATTN_TENSOR_NAMES(name)                                                                    \
    {                                                                                              \
        name, name ".data", name ".dtype",                                                         \
            { name ".shape[0]", name ".shape[1]", name ".shape[2]", name ".shape[3]" },            \
            { name ".stride[0]", name ".stride[1]", name ".stride[2]", name ".stride[3]" },        \
    }

/* Whether this dtype is one of numbers. */
bool attn_is_number(enum attn_dtype dtype);

/* What query, key and value have in common: there must be heads and columns, the rest may be
 * empty. */
enum attn_status attn_check_input(const struct attn_tensor *tensor,
                                  const struct attn_tensor_names *names, const char **where);

/* An output that is present has exactly this shape and no two rows in one place; the strides of a
 * dense view of nothing are 0, and that is no fault. */
enum attn_status attn_check_output(const struct attn_tensor *tensor,
                                   const struct attn_tensor_names *names, const int64_t shape[4],
                                   const char **where);

/* Every precondition of attn_plan_init(). */
enum attn_status attn_check(const struct attn_problem *problem, const char **where);

/* The tiles of one running task; kernels.h says how a tile lies. */
struct attn_workspace {
    float *query_t;   /* [head_dim][width] */
    float *context_t; /* [v_head_dim][width] */
    float *scores_t;  /* [kv_tile][width] */
    float *bias_t;    /* [kv_tile][width] */
    uint64_t *bits;   /* [kv_tile], of a mask of bytes: bit r of a key is whether lane r sees it */
    float *rows;      /* a block of what is not F32, on its way in or out; else absent */
    float *max;       /* [width], like all below */
    float *sum;
    float *rescale;
    float *factor; /* 1 / sum, or 0 */
    float
        *compensated_rescale; /* like all to sum_lost absent where sums are short: compensated.h */
    float *sum_total, *sum_lost;
    float *context_total_t, *context_lost_t; /* [v_head_dim][width] */
    float *distance; /* from the first key of the tile to the row; absent without ALiBi */
    struct attn_threshold *thresholds; /* absent without sparsemax */
    struct key_range *ranges;          /* the keys that a row may see, mask apart */
    int32_t *tile_low;                 /* the same, counted from the first key of the tile */
    int32_t *tile_high;
};

/* Cuts memory into the parts that plan needs and returns their bytes; memory NULL only counts. */
size_t attn_workspace_cut(struct attn_workspace *work, const struct attn_plan *plan, void *memory);

/* Lanes of a tile of query rows: whole vectors, of the last rows of a head fewer than plan->width.
 * Its workspace is cut by a plan that has them for its width. */
int64_t attn_plan_tile_width(const struct attn_plan *plan, int64_t q_tile);

/* The workspace of a plan that computes in double (forward_double.c), and one of its tasks: at most
 * ATTN_DOUBLE_ROWS query rows, ATTN_DOUBLE_KEYS keys at a time. */
enum { ATTN_DOUBLE_ROWS = 8, ATTN_DOUBLE_KEYS = 64 };

size_t attn_double_workspace_bytes(const struct attn_problem *problem);
void attn_double_run(const struct attn_plan *plan, int64_t task, void *workspace);

#endif
