/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - declarations that the library's files share, hidden from its callers. */
#ifndef ATTN_INTERNAL_H
#define ATTN_INTERNAL_H

#include "attn.h"

struct attn_threshold; /* sparsemax.h */
struct key_range;      /* mask.h */

/* A check in one line: return status and the name of the field at fault. */
#define RETURN_IF(condition, status, field)                                                        \
    do {                                                                                           \
        if (condition) {                                                                           \
            if (where != NULL)                                                                     \
                *where = (field);                                                                  \
            return (status);                                                                       \
        }                                                                                          \
    } while (0)

/* Return the failure of another check, which has set *where itself. */
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

/* Holds sums and differences of any two positions. */
__extension__ typedef __int128 attn_wide;

static inline int64_t attn_divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Return the next part of memory, count elements of size bytes: aligned; NULL if count is 0. If
 * memory is NULL, only *offset moves, so that one function both counts a workspace and lays it
 * out. */
static inline void *attn_cut(void *memory, size_t *offset, int64_t count, size_t size)
{
    void *part = memory != NULL && count > 0 ? (char *)memory + *offset : NULL;

    *offset += attn_align_up((size_t)count * size);
    return part;
}

/* Does the caller want this output? */
static inline bool attn_is_wanted(const struct attn_tensor *output)
{
    return output->data != NULL;
}

/* Columns of a row of the output. */
int64_t attn_output_columns(const struct attn_problem *problem, enum attn_output output);

/* Whether the output has one number for each query row; and the number of a row whose largest
 * masked score is max, with sum the sum of exp(score - max); of a row that sees nothing sum is 0.
 */
bool attn_output_is_number(enum attn_output output);
double attn_row_number(enum attn_output output, double max, double sum);

/* Does the caller want any output? Any map? */
bool attn_wants_output(const struct attn_problem *problem);
bool attn_wants_map(const struct attn_problem *problem);

/* What a task has to do for the outputs of its problem. */
struct attn_needs {
    bool scores;      /* a map shows scores before the mask: hidden pairs need a score too */
    bool masked;      /* a map shows scores, before or after the mask */
    bool weight_rows; /* weights are F32: their rows hold masked scores until the last tile */
    bool pairs;       /* masked or weight_rows: the first pass visits hidden pairs too */
    bool softmax;     /* else the work ends with the masked scores */
};

struct attn_needs attn_needs_of(const struct attn_problem *problem);

/* The first number of a row, in elements from data on, of a tensor without pages. */
int64_t attn_tensor_index(const struct attn_tensor *tensor, int64_t batch, int64_t head,
                          int64_t row);

/* Rows of one head that lie together: row is where the row asked for begins, and count rows from it
 * on, at least 1, are stride[2] elements apart. Of I8, number d of row i of them is row[i *
 * stride[2] + d] * scale[(at + i) / ATTN_I8_ROWS * columns + d], or has_row_scales, times scale[at
 * + i]. */
struct attn_run {
    const void *row;
    int64_t count;
    enum attn_dtype dtype; /* of these rows; F32 or I8 where the tensor is I8 */
    const float *scale;
    int64_t at;
    bool has_row_scales;
};

/* The rows from row on that lie together, of row_count at most; the tensor may be paged. */
struct attn_run attn_tensor_run(const struct attn_tensor *tensor, int64_t batch, int64_t head,
                                int64_t row, int64_t row_count);

/* The first number of a row of an F32 tensor without pages. */
float *attn_tensor_row(const struct attn_tensor *tensor, int64_t batch, int64_t head, int64_t row);

/* The names of one tensor's fields, as constant strings. */
struct attn_tensor_names {
    const char *self, *data, *dtype, *pages;
    const char *shape[4];
    const char *stride[4];
};

#define ATTN_TENSOR_NAMES(name)                                                                    \
    {                                                                                              \
        name, name ".data", name ".dtype", name ".pages",                                          \
            { name ".shape[0]", name ".shape[1]", name ".shape[2]", name ".shape[3]" },            \
            { name ".stride[0]", name ".stride[1]", name ".stride[2]", name ".stride[3]" },        \
    }

/* Is this a dtype of numbers, not BOOL? */
bool attn_is_number(enum attn_dtype dtype);

/* The checks that query, key and value share: at least one head and one column; the other
 * dimensions may be 0. */
enum attn_status attn_check_input(const struct attn_tensor *tensor,
                                  const struct attn_tensor_names *names, const char **where);

/* An output, if present, must have exactly this shape and no two rows in one place. The strides of
 * an empty dense view are 0 and allowed. */
enum attn_status attn_check_output(const struct attn_tensor *tensor,
                                   const struct attn_tensor_names *names, const int64_t shape[4],
                                   const char **where);

/* Every precondition of attn_plan_init(). */
enum attn_status attn_check(const struct attn_problem *problem, const char **where);

/* A struct attn_plan as the library sees it. It lies in memory that callers have declared as that
 * type, and so may alias it. */
struct __attribute__((may_alias)) attn_plan_full {
    int64_t task_count; /* up to part_workspace_bytes as in attn.h */
    size_t workspace_bytes;
    int64_t part_count, join_count;
    size_t shared_bytes, part_workspace_bytes;

    struct attn_problem problem;
    const struct attn_kernels *kernels;
    int64_t q_tile;  /* query rows of one task, at most */
    int64_t width;   /* lanes of one tile: q_tile rounded up to whole vectors */
    int64_t kv_tile; /* keys of one step */
    int64_t q_tiles; /* tasks of one head */

    /* NULL, or [batch][q_heads][q_len], written with lse: no weight of the row is larger. */
    float *largest_weights;

    /* Decode: problems with few query rows (forward_decode.c). */
    int64_t decode_heads, decode_tasks; /* query heads of one task at most; tasks of one group */
    int64_t chunk_keys, chunks;         /* keys of one part; parts of one task */
    size_t state_bytes;                 /* what one part leaves in shared */

    /* The keys and values of all heads in parts for the matrix unit, or NULL: a task cuts its
     * own. */
    const void *packed;

    bool in_double; /* double arithmetic; of the kernels, only conversions run */
    bool is_decode;
    bool is_matrix;    /* products by the table's matrix unit (matrix_plan.c) */
    bool keeps_scores; /* rows of weights keep masked scores, which weight_map.c reduces */
};

/* The full type fits, and its first members, up to the one named here, lie where callers read them.
 * type_full() and type_given() turn one type into the other; callees of the library's own headers
 * take plans as they are given. */
#define ATTN_FULL_PLAN(type, last)                                                                 \
    _Static_assert(sizeof(struct type##_full) <= sizeof(struct type)                               \
                       && offsetof(struct type##_full, last) == offsetof(struct type, last),       \
                   #type " has room for its own");                                                 \
    static inline const struct type##_full *type##_full(const struct type *plan)                   \
    {                                                                                              \
        return (const void *)plan;                                                                 \
    }                                                                                              \
    static inline const struct type *type##_given(const struct type##_full *plan)                  \
    {                                                                                              \
        return (const void *)plan;                                                                 \
    }

ATTN_FULL_PLAN(attn_plan, part_workspace_bytes)

/* attn_plan_init() of a full plan. */
enum attn_status attn_plan_make(struct attn_plan_full *plan, const struct attn_problem *problem,
                                const char **where);

/* The tiles of one running task; kernels.h gives their layout. */
struct attn_workspace {
    float *query_t;   /* [head_dim][width] */
    float *context_t; /* [v_head_dim][width] */
    float *scores_t;  /* [kv_tile][width] */
    float *bias_t;    /* [kv_tile][width] */
    uint64_t *bits;   /* [kv_tile], for a mask of bytes: bit r of a key: lane r sees the key */
    float *rows; /* a block of numbers that are not F32, while they are converted, or that lie in
                    pages; else absent */
    float *max;  /* [width], like all below */
    float *sum;
    float *rescale;
    float *factor;              /* 1 / sum, or 0 */
    float *compensated_rescale; /* this and the fields to sum_lost are absent without compensated
                                   sums: compensated.h */
    float *sum_total, *sum_lost;
    float *context_total_t, *context_lost_t; /* [v_head_dim][width] */
    float *distance; /* from the first key of the tile to the row; absent without ALiBi */
    struct attn_threshold *thresholds; /* absent without sparsemax */
    struct key_range *ranges;          /* the keys that a row may see, before the caller's mask */
    int32_t *tile_low;                 /* the same, relative to the first key of the tile */
    int32_t *tile_high;
};

/* Divide memory into the parts that plan needs and return their bytes; with memory NULL, only
 * count. */
size_t attn_workspace_cut(struct attn_workspace *work, const struct attn_plan_full *plan,
                          void *memory);

/* The lanes of a tile of query rows, in whole vectors; the last tile of a head may have fewer than
 * plan->width. For such a tile, cut the workspace with a plan of that width. */
int64_t attn_plan_tile_width(const struct attn_plan_full *plan, int64_t q_tile);

/* Plans that compute in double (forward_double.c): the size of a workspace, and one task of at most
 * ATTN_DOUBLE_ROWS query rows, ATTN_DOUBLE_KEYS keys at a time. */
enum { ATTN_DOUBLE_ROWS = 8, ATTN_DOUBLE_KEYS = 64 };

size_t attn_double_workspace_bytes(const struct attn_problem *problem);
void attn_double_run(const struct attn_plan_full *plan, int64_t task, void *workspace);

#endif
