/* SPDX-License-Identifier: Apache-2.0 */
/* attn.h - scaled dot-product attention on the CPU.
 *
 *     scores     = scale * query . key^T                       [q_len, kv_len]
 *     softcapped = softcap * tanh(scores / softcap)            if softcap > 0, else scores
 *     masked     = softcapped + mask                           causal, window, kv_len, ALiBi, yours
 *     weights    = softmax(masked), or sparsemax(masked)       row by row
 *     context    = weights . value                             [q_len, v_head_dim]
 *     lse        = log(sum(exp(masked)))                       row by row
 *
 * If the problem has an additive_weight v, scores = scale * v . tanh(query + key) instead.
 *
 * The meaning is that of ONNX Attention, opset 23 to 25. A call has three steps:
 *
 *   1. Describe: fill a struct attn_problem with views of memory that you own.
 *   2. Plan:     attn_plan_init() checks the problem once and sizes the workspace.
 *   3. Run:      call attn_plan_run() once per task, from any thread. It cannot fail.
 *
 * A query row that may attend to no key has weights 0, context 0 and lse -INFINITY, never NaN. The
 * numbers of a masked key or value, NaN and infinity included, never reach the context.
 *
 * The library does no I/O, starts no threads, does not read the environment and allocates no
 * memory. Equal inputs give equal bits, for any number of threads and for any choice of outputs. */
#ifndef ATTN_H
#define ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---------------------------------------------------------------- status -- */

#define ATTN_STATUS_MAP(X)                                                                         \
    X(OK, "success")                                                                               \
    X(ERR_NO_DATA, "a required tensor has no data")                                                \
    X(ERR_DTYPE, "this tensor cannot have this dtype")                                             \
    X(ERR_SHAPE, "the shapes of these tensors do not agree")                                       \
    X(ERR_HEADS, "query heads must be a multiple of key/value heads")                              \
    X(ERR_STRIDE, "the last dimension of this tensor must be contiguous")                          \
    X(ERR_LENGTH, "a kv_len or past_len is out of range")                                          \
    X(ERR_OPTION, "an option is out of range")                                                     \
    X(ERR_TOO_LARGE, "the sizes overflow")

enum attn_status {
#define X(name, message) ATTN_##name,
    ATTN_STATUS_MAP(X)
#undef X
};

const char *attn_status_name(enum attn_status status);    /* "ATTN_ERR_SHAPE" */
const char *attn_status_message(enum attn_status status); /* a sentence */

/* --------------------------------------------------------------- tensors -- */

/* Name, bytes, and whether it is a dtype of numbers. */
#define ATTN_DTYPE_MAP(X)                                                                          \
    X(F32, 4, true)                                                                                \
    X(F64, 8, true)                                                                                \
    X(F16, 2, true)                                                                                \
    X(BF16, 2, true)                                                                               \
    X(BOOL, 1, false)                                                                              \
    X(I8, 1, false) /* with scales: key and value in pages (struct attn_page) */

/* Numbers in blocks, as GGUF files have them: name, the numbers of a block, and its bytes. A block
 * is a few integers of 2 to 8 bits for each number and the scales of all; quantize.h says more.
 * Weights of products and tables of rows can have such a dtype, other tensors cannot. */
#define ATTN_BLOCK_MAP(X)                                                                          \
    X(Q8_0, 32, 34)                                                                                \
    X(Q4_0, 32, 18)                                                                                \
    X(Q4_1, 32, 20)                                                                                \
    X(Q5_0, 32, 22)                                                                                \
    X(Q5_1, 32, 24)                                                                                \
    X(Q2_K, 256, 84)                                                                               \
    X(Q3_K, 256, 110)                                                                              \
    X(Q4_K, 256, 144)                                                                              \
    X(Q5_K, 256, 176)                                                                              \
    X(Q6_K, 256, 210)                                                                              \
    X(IQ4_NL, 32, 18)                                                                              \
    X(IQ4_XS, 256, 136)                                                                            \
    X(MXFP4, 32, 17)

enum attn_dtype {
#define X(NAME, bytes, is_number) ATTN_##NAME,
    ATTN_DTYPE_MAP(X)
#undef X
#define X(NAME, numbers, bytes) ATTN_##NAME,
        ATTN_BLOCK_MAP(X)
#undef X
};

size_t attn_dtype_size(enum attn_dtype dtype); /* bytes of a number; 0: it lies in a block */

/* The numbers of a block and its bytes; of a dtype without blocks 1 and the bytes of a number. So
 * numbers / attn_block_numbers() * attn_block_bytes() are the bytes of numbers in memory. */
int64_t attn_block_numbers(enum attn_dtype dtype);
size_t attn_block_bytes(enum attn_dtype dtype);

/* The address of number index of data; of blocks it is the first of its block. */
const void *attn_number_at(const void *data, enum attn_dtype dtype, int64_t index);

/* Rows of a paged tensor that lie together: from row first on, up to the first row of the next page
 * or the end of the tensor. Within a page the row first of head h begins head_stride * h elements
 * behind data. */
struct attn_page {
    int64_t first;
    void *data;
    int64_t head_stride; /* in elements, not bytes */

    /* Of a tensor of I8: the scales of the page's numbers, or NULL where they are F32. An int8_t q
     * is the number scale * q, rounded to float; its scale is that of head h, scale_stride * h
     * floats behind scale. Without effect in tensors of other dtypes. */
    const float *scale;
    int64_t scale_stride; /* in floats */
};

/* Rows of a page that have one scale for each channel. */
enum { ATTN_I8_ROWS = 64 };

/* Pages in the order of their rows; the first one begins at row 0, and none is empty. */
struct attn_pages {
    int64_t count; /* 1 or more */
    const struct attn_page *list;

    /* Which scales the pages of I8 have for each head. False: one for each channel of each
     * ATTN_I8_ROWS rows of the page, [rows / ATTN_I8_ROWS, rounded up][head_dim]; fast for a key.
     * True: one for each row of the page, [rows]; fast for a value (Liu et al. 2024, KIVI). */
    bool has_row_scales;
};

/* A view of memory that belongs to someone else, with a shape. A view never owns its memory.
 *
 * Dimensions are [batch, heads, length, head_dim]. Strides express any memory layout whose head_dim
 * is contiguous: [batch, length, heads, head_dim] needs no copy and no flag, and stride 0
 * broadcasts. */
struct attn_tensor {
    void *data; /* NULL: the optional tensor is absent */
    enum attn_dtype dtype;
    int64_t shape[4];
    int64_t stride[4]; /* in elements, not bytes */

    /* The key and value of a problem with a batch of 1 may lie in pages (Kwon et al. 2023,
     * PagedAttention). data is then that of the first page, stride[2] holds within each page, and
     * stride[0] and stride[1] have no effect. The bits are those of the same rows without pages,
     * and those of I8 the bits of the floats that it stands for. NULL: none. */
    const struct attn_pages *pages;
};

/* A dense row-major view of data. */
struct attn_tensor attn_tensor_dense(void *data, enum attn_dtype dtype, int64_t batch,
                                     int64_t heads, int64_t length, int64_t head_dim);

/* A [batch, heads, length, head_dim] view of memory that is [batch, length, heads * head_dim]: each
 * row holds its heads side by side, and row_stride is the number of elements from one row to the
 * next. */
struct attn_tensor attn_tensor_rows(void *data, enum attn_dtype dtype, int64_t batch, int64_t heads,
                                    int64_t length, int64_t head_dim, int64_t row_stride);

/* --------------------------------------------------------------- problem -- */

/* The outputs: name, columns of a row, and the step that computes it. An output with kv_len columns
 * is a map: it has a number for each pair of a query row and a key. A pair that a mask forbids has
 * its score in scores and softcapped, -INFINITY in masked and 0 in weights. lse is a natural
 * logarithm. */
#define ATTN_OUTPUT_MAP(X)                                                                         \
    X(CONTEXT, context, V_HEAD_DIM, SOFTMAX)                                                       \
    X(WEIGHTS, weights, KV_LEN, SOFTMAX)                                                           \
    X(SCORES, scores, KV_LEN, SCORE)                                                               \
    X(SOFTCAPPED, softcapped, KV_LEN, SCORE)                                                       \
    X(MASKED, masked, KV_LEN, MASK)                                                                \
    X(LSE, lse, ONE, SOFTMAX)

enum attn_output {
#define X(NAME, name, columns, step) ATTN_OUTPUT_##NAME,
    ATTN_OUTPUT_MAP(X)
#undef X
        ATTN_OUTPUT_COUNT
};

bool attn_output_is_map(enum attn_output output);

/* How masked scores become weights. lse is that of the softmax for both. */
enum attn_normalizer {
    ATTN_SOFTMAX,
    ATTN_SPARSEMAX, /* Euclidean projection onto the simplex (Martins and Astudillo 2016): scores
                       far below the maximum get weight 0. Partial answers over parts of the keys
                       cannot be merged */
};

/* How exact the products of float numbers have to be at least, where a table of kernels has a
 * matrix unit, which multiplies parts of 8 bits and is the faster the fewer parts there are: name,
 * and the parts of a float that are multiplied. Tables without one compute in float and are finer
 * than each of them. Which of the two computes a problem follows from its shapes and options alone;
 * maps are always those of float, and gradients of the highest precision. */
#define ATTN_PRECISION_MAP(X)                                                                      \
    X(HIGHEST, highest, 3) /* no worse than the formulas in float */                               \
    X(HIGH, high, 2)       /* weights to some 16 bits */                                           \
    X(MEDIUM, medium, 1)   /* weights to 8 bits, as bf16 has them */

enum attn_precision {
#define X(NAME, name, parts) ATTN_PRECISION_##NAME,
    ATTN_PRECISION_MAP(X)
#undef X
        ATTN_PRECISION_COUNT
};

const char *attn_precision_name(enum attn_precision precision); /* "highest" */

/* Query row i is at position p = past_len + i; key j is at position k = kv_offset + j, which is
 * negative for the first keys where kv_offset is. */
struct attn_options {
    double scale;   /* usually 1/sqrt(head_dim); must be finite, also when converted to float */
    double softcap; /* 0: off; else positive and finite, also when converted to float */
    bool causal;    /* a row sees keys at k <= p */
    int64_t window_left;  /* a row sees keys at k >= p - window_left; -1: no bound on this side */
    int64_t window_right; /* a row sees keys at k <= p + window_right; -1: no bound on this side */
    int64_t chunk; /* a row sees keys of its own chunk of so many positions, the first of which is
                      position 0: floor(k / chunk) = floor(p / chunk); 0: no chunks */

    /* Inverted dropout of the weights (Srivastava et al. 2014): each weight becomes 0 with this
     * probability, and otherwise is divided by 1 - dropout. The context is computed from the
     * weights after dropout; lse does not change. Which weights are dropped depends only on the
     * seed, batch item, head, query row and key position (Philox4x32-10). */
    float dropout; /* 0: off; below 1 */
    uint64_t seed;

    enum attn_normalizer normalizer;

    /* The least precision in which scores, softmax and sums are computed (ONNX Attention,
     * softmax_precision). F64: everything in double, as it also is when any tensor of the problem
     * is F64. F32, F16 and BF16: float, which is finer than F16 and BF16 ask for. */
    enum attn_dtype softmax_precision;

    enum attn_precision precision;

    /* A row has the same bits in every problem that differs only in rows and keys behind those that
     * the row sees: a causal row keeps its bits when rows and keys are put behind it. Tiles are
     * those of long problems then, also for few rows. Without effect in double. */
    bool is_prefix_stable;
};

/* scale = 1/sqrt(head_dim); no softcap, not causal, no window, no dropout; the highest precision.
 */
struct attn_options attn_options_default(int64_t head_dim);

/* The members below that have a number for each query head. */
#define ATTN_PER_HEAD_MAP(X)                                                                       \
    X(ALIBI_SLOPES, alibi_slopes, false)                                                           \
    X(SINKS, sinks, true)

enum attn_per_head {
#define X(NAME, name, may_be_none) ATTN_PER_HEAD_##NAME,
    ATTN_PER_HEAD_MAP(X)
#undef X
        ATTN_PER_HEAD_COUNT
};

struct attn_per_head_field {
    const char *name;
    bool may_be_none; /* -INFINITY: the head has none */
};

extern const struct attn_per_head_field attn_per_head_fields[ATTN_PER_HEAD_COUNT];

#define ATTN_PER_HEAD_MEMBER(NAME, name, may_be_none) const float *name;

/* What hides keys from query rows or changes their scores: members of a problem and of a layer's
 * problem. All are optional.
 *
 * mask: each dimension is that of [batch, q_heads, q_len, kv_len], or 1, which broadcasts; any
 * stride. BOOL (one byte): true may attend. F32, F16, BF16 or F64: added to the scores; -INFINITY
 * forbids. The last dimension may be shorter than kv_len (ONNX Attention-24: "can also be
 * shorter"): keys past the mask's end are forbidden. A last dimension of 1 still broadcasts.
 *
 * kv_len, row_kv_len: keys j >= the length are hidden, from all rows or from one query row. Lengths
 * are 0 or more and count keys, not positions. A length greater than kv_len hides nothing.
 *
 * kv_offset: the position of key 0, for keys that are a part of a longer sequence; may be negative.
 *
 * alibi_slopes: finite; attention with linear biases (Press, Smith and Lewis 2022). slope * |p - k|
 * is subtracted from the score of a key at position k, together with the masks.
 *
 * first_keys, last_keys: with last_keys above 0 a row sees of the keys that all else lets it see
 * those at j < first_keys and those at k > p - last_keys alone (Xiao et al. 2024, StreamingLLM).
 * first_keys is 0 or more. last_keys 0: no effect. Not for gradients and selections.
 *
 * sinks: finite or -INFINITY; an attention sink, which is one more key with this score and no value
 * (Xiao et al. 2024). It counts in the softmax and lse of a row but appears in no map. A row that
 * sees nothing else has context 0 and lse = sink. -INFINITY: the head has no sink. */
#define ATTN_MASKING_MAP(X)                                                                        \
    X(struct attn_tensor, mask)                                                                    \
    X(const int64_t *, kv_len)     /* [batch] */                                                   \
    X(const int64_t *, row_kv_len) /* [batch, q_len] */                                            \
    X(int64_t, kv_offset)                                                                          \
    X(int64_t, first_keys)                                                                         \
    X(int64_t, last_keys)

#define ATTN_MASKING_MEMBER(type, name) type name;
#define ATTN_MASKING_MEMBERS                                                                       \
    ATTN_MASKING_MAP(ATTN_MASKING_MEMBER)                                                          \
    union {                                                                                        \
        const float *per_head[ATTN_PER_HEAD_COUNT]; /* [q_heads] each */                           \
        struct {                                                                                   \
            ATTN_PER_HEAD_MAP(ATTN_PER_HEAD_MEMBER)                                                \
        };                                                                                         \
    };

struct attn_masking {
    ATTN_MASKING_MEMBERS
};

struct attn_problem {
    struct attn_options options;

    /* Each F32, F16, BF16 or F64; key and value in pages also I8. All arithmetic is in float. If a
     * tensor of the problem is F64 or softmax_precision asks for it, all arithmetic is in double,
     * on a slower path. */
    struct attn_tensor query; /* [batch, q_heads,  q_len,  head_dim]   */
    struct attn_tensor key;   /* [batch, kv_heads, kv_len, head_dim]   */
    struct attn_tensor value; /* [batch, kv_heads, kv_len, v_head_dim] */

    /* Optional, [head_dim], the same for every head: additive scores (Bahdanau et al. 2015,
     * appendix A.1.2) replace the dot product,
     *     scores = scale * sum over d of additive_weight[d] * tanh(query[d] + key[d])
     * where scale is usually 1. */
    const float *additive_weight;

    union { /* one by its name, or all of them at once */
        struct attn_masking masking;
        struct {
            ATTN_MASKING_MEMBERS
        };
    };

    /* Optional, [batch]: number of keys before query row 0; absent: 0. May be negative: then, if
     * causal, the first rows see nothing. */
    const int64_t *past_len;

    /* Outputs, each optional, F32, F16, BF16 or F64: the same numbers, rounded to nearest, ties to
     * even; a number too large for the dtype becomes infinite. [batch, q_heads, q_len, columns]. No
     * output may overlap an input or another output. */
    union { /* one tensor of each name, or all of them by enum attn_output */
        struct attn_tensor out[ATTN_OUTPUT_COUNT];
        struct {
#define X(NAME, name, columns, step) struct attn_tensor name;
            ATTN_OUTPUT_MAP(X)
#undef X
        };
    };

    const struct attn_kernels *kernels; /* NULL: the best table that this CPU can run */
};

/* ------------------------------------------------------------------ plan -- */

/* A plan borrows the problem's memory and owns nothing, so there is nothing to free. */
struct attn_plan {
    int64_t task_count;     /* tasks write disjoint rows of the outputs; 0 if there are no rows */
    size_t workspace_bytes; /* needed by each running task, 64-byte aligned; does not grow with
                               kv_len */
    int64_t part_count;     /* 0, or the number of parts for attn_plan_run_part() */
    int64_t join_count;     /* and of joins that follow, for attn_plan_run_join() */
    size_t shared_bytes;    /* shared by all parts of a run, 64-byte aligned */
    size_t part_workspace_bytes; /* needed by each running part or join, at most workspace_bytes */

    uint64_t own[160]; /* what the library keeps; its layout may change, its size does not */
};

/* Check the problem and choose how to run it. q_len and kv_len may be 0; heads, head_dim and
 * v_head_dim may not. On failure *where names the field at fault ("key.shape[3]"), a constant
 * string, and the plan must not be used. where may be NULL. */
enum attn_status attn_plan_init(struct attn_plan *plan, const struct attn_problem *problem,
                                const char **where);

/* The precision that the plan's context and lse have: as asked for where a matrix unit computes
 * them, else the highest. */
enum attn_precision attn_plan_precision(const struct attn_plan *plan);

/* Run task number task, 0 <= task < plan->task_count, in any order, from any thread. Each task that
 * runs at the same time needs its workspace. */
void attn_plan_run(const struct attn_plan *plan, int64_t task, void *workspace);

/* Few query rows over many keys make few tasks; and many query rows need the same keys prepared. If
 * part_count is not 0, the same work can be run otherwise with the same bits, to use more threads
 * or to do less: first part_count parts in any order, then, when all parts are done, join_count
 * joins in any order. Each needs its workspace. Parts may read all keys and values before
 * kv_len, also those that a mask hides from every row. */
void attn_plan_run_part(const struct attn_plan *plan, int64_t part, void *shared, void *workspace);
void attn_plan_run_join(const struct attn_plan *plan, int64_t number, void *shared,
                        void *workspace);

/* --------------------------------------------------------------- kernels -- */

/* The kernel tables that this CPU can run, best first, terminated by NULL. */
const struct attn_kernels *const *attn_kernels_available(void);

/* The table avx512 with AMX beside it; NULL if the CPU or its operating system has none. It is not
 * among those available, because Linux kills a process (SIGILL) that uses tiles unasked: its caller
 * has asked, arch_prctl(ARCH_REQ_XCOMP_PERM, 18), before the threads began that run tasks. */
const struct attn_kernels *attn_kernels_amx(void);

/* "generic", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx"; "neon_bf16" */
const char *attn_kernels_name(const struct attn_kernels *kernels);

#endif
