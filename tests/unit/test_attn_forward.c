/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_forward.c - attention against the double reference.
 *
 * There are two grids. The first goes through lengths and widths around the sizes of tiles and
 * vectors, and takes the next variant of masks, options and layouts for each. The second goes
 * through every variant at a few sizes, with grouped heads and a batch. Each call runs on every
 * table of kernels: once with all outputs, then with each output alone, which must have the same
 * bits. */
#include "attention_case.h"
#include "problem_count.h"
#include "test.h"

#include <inttypes.h>

/* Rounding of float: sums of up to 300 products of numbers below 1, scaled to about 1, then exp. */
static const double TOLERANCE = 4e-6;

enum past { PAST_ABSENT, PAST_BOTTOM_RIGHT, PAST_EACH, PAST_NEGATIVE };
enum mask { MASK_NONE, MASK_BOOL, MASK_FLOAT, MASK_INFINITE };
enum order { ORDER_DENSE, ORDER_TRANSPOSED, ORDER_REVERSED };
enum { B = 8, H = 4, Q = 2, K = 1 }; /* the dimensions that a mask has; the others broadcast */

struct variant {
    const char *name;
    bool causal;
    bool windowed; /* else both windows are -1 */
    int64_t window_left, window_right, chunk;
    enum past past;
    bool kv_len, row_kv_len;
    enum mask mask;
    unsigned mask_dims;
    enum order mask_order;
    float softcap;
    int64_t kv_offset;
    bool alibi, sinks, sparse;
    bool own_scale; /* else the default */
    float scale;
    enum attention_layout layout, out_layout;
};

static const struct variant VARIANTS[] = {
    { .name = "plain" },
    { .name = "causal", .causal = true },
    { .name = "causal bottom right", .causal = true, .past = PAST_BOTTOM_RIGHT },
    { .name = "causal, own past", .causal = true, .past = PAST_EACH, .layout = LAYOUT_ROWS },
    { .name = "causal, negative past", .causal = true, .past = PAST_NEGATIVE },
    { .name = "bool mask", .mask = MASK_BOOL, .mask_dims = B | H | Q | K },
    { .name = "bool mask [q, k]", .mask = MASK_BOOL, .mask_dims = Q | K, .softcap = 1.5f },
    { .name = "bool mask [b, k]", .mask = MASK_BOOL, .mask_dims = B | K, .layout = LAYOUT_GAPS },
    { .name = "bool mask [q]", .mask = MASK_BOOL, .mask_dims = Q },
    { .name = "bool mask [h, q, k] transposed",
      .mask = MASK_BOOL,
      .mask_dims = H | Q | K,
      .mask_order = ORDER_TRANSPOSED },
    { .name = "float mask", .mask = MASK_FLOAT, .mask_dims = B | H | Q | K },
    { .name = "float mask [k] reversed",
      .mask = MASK_FLOAT,
      .mask_dims = K,
      .mask_order = ORDER_REVERSED },
    { .name = "float mask [h]", .mask = MASK_FLOAT, .mask_dims = H, .out_layout = LAYOUT_ROWS },
    { .name = "float mask with -inf",
      .mask = MASK_INFINITE,
      .mask_dims = B | H | Q | K,
      .softcap = 0.5f },
    { .name = "float mask with -inf [b, q, k] transposed",
      .mask = MASK_INFINITE,
      .mask_dims = B | Q | K,
      .mask_order = ORDER_TRANSPOSED,
      .layout = LAYOUT_ROWS,
      .out_layout = LAYOUT_GAPS },
    { .name = "one float for all", .mask = MASK_FLOAT, .mask_dims = 0 },
    { .name = "kv_len", .kv_len = true },
    { .name = "row_kv_len", .row_kv_len = true, .layout = LAYOUT_GAPS },
    { .name = "kv_len, row_kv_len, causal", .causal = true, .kv_len = true, .row_kv_len = true },
    { .name = "window 3, 5", .windowed = true, .window_left = 3, .window_right = 5 },
    { .name = "window 0, 0", .windowed = true, .past = PAST_EACH },
    { .name = "window 70, any",
      .windowed = true,
      .window_left = 70,
      .window_right = -1,
      .past = PAST_BOTTOM_RIGHT },
    { .name = "window any, 20", .windowed = true, .window_left = -1, .window_right = 20 },
    { .name = "causal window 40",
      .causal = true,
      .windowed = true,
      .window_left = 40,
      .window_right = -1,
      .past = PAST_BOTTOM_RIGHT,
      .layout = LAYOUT_ROWS,
      .out_layout = LAYOUT_ROWS },
    { .name = "window beyond every position",
      .windowed = true,
      .window_left = INT64_MAX,
      .window_right = INT64_MAX,
      .past = PAST_EACH },
    { .name = "softcap", .softcap = 0.7f, .layout = LAYOUT_BROADCAST },
    { .name = "softcap, causal", .softcap = 30.0f, .causal = true, .out_layout = LAYOUT_GAPS },
    { .name = "steep", .own_scale = true, .scale = 25.0f, .layout = LAYOUT_BROADCAST },
    { .name = "alibi", .alibi = true },
    { .name = "alibi, causal bottom right, softcap",
      .alibi = true,
      .causal = true,
      .past = PAST_BOTTOM_RIGHT,
      .softcap = 3.0f,
      .out_layout = LAYOUT_GAPS },
    { .name = "alibi, float mask with -inf",
      .alibi = true,
      .past = PAST_EACH,
      .mask = MASK_INFINITE,
      .mask_dims = H | Q | K },
    { .name = "sinks", .sinks = true },
    { .name = "sinks, causal, negative past",
      .sinks = true,
      .causal = true,
      .past = PAST_NEGATIVE },
    { .name = "sinks, bool mask", .sinks = true, .mask = MASK_BOOL, .mask_dims = B | Q | K },
    { .name = "offset, causal", .kv_offset = 9, .causal = true, .past = PAST_BOTTOM_RIGHT },
    { .name = "negative offset, window 4, 30",
      .kv_offset = -7,
      .windowed = true,
      .window_left = 4,
      .window_right = 30,
      .past = PAST_EACH },
    { .name = "offset, alibi, sinks, window 25",
      .kv_offset = 20,
      .alibi = true,
      .sinks = true,
      .windowed = true,
      .window_left = 25,
      .window_right = -1,
      .kv_len = true,
      .layout = LAYOUT_ROWS },
    { .name = "sparsemax", .sparse = true, .own_scale = true, .scale = 1.0f },
    { .name = "sparsemax, steep", .sparse = true, .own_scale = true, .scale = 9.0f },
    { .name = "sparsemax, causal, sinks, alibi",
      .sparse = true,
      .causal = true,
      .past = PAST_BOTTOM_RIGHT,
      .sinks = true,
      .alibi = true,
      .layout = LAYOUT_ROWS,
      .out_layout = LAYOUT_GAPS },
    { .name = "sparsemax, float mask with -inf",
      .sparse = true,
      .mask = MASK_INFINITE,
      .mask_dims = H | Q | K,
      .softcap = 2.0f },
    { .name = "sparsemax, window 5, 90, kv_len",
      .sparse = true,
      .windowed = true,
      .window_left = 5,
      .window_right = 90,
      .past = PAST_EACH,
      .kv_len = true },
    { .name = "negative scale", .own_scale = true, .scale = -1.0f },
    { .name = "scale of nothing", .own_scale = true, .mask = MASK_BOOL, .mask_dims = H | K },
    { .name = "everything",
      .causal = true,
      .windowed = true,
      .window_left = 60,
      .window_right = 10,
      .past = PAST_EACH,
      .kv_len = true,
      .row_kv_len = true,
      .mask = MASK_INFINITE,
      .mask_dims = B | H | Q | K,
      .softcap = 2.0f,
      .layout = LAYOUT_GAPS,
      .out_layout = LAYOUT_GAPS },
    { .name = "chunks of 16", .chunk = 16, .past = PAST_EACH },
    { .name = "causal chunks of 40",
      .causal = true,
      .chunk = 40,
      .past = PAST_BOTTOM_RIGHT,
      .layout = LAYOUT_ROWS },
    { .name = "chunks of 9 from negative positions on, window 4, any",
      .chunk = 9,
      .kv_offset = -31,
      .windowed = true,
      .window_left = 4,
      .window_right = -1,
      .past = PAST_NEGATIVE },
    { .name = "a chunk of every position", .causal = true, .chunk = INT64_MAX, .past = PAST_EACH },
};

enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

/* Sets one element of a mask. If the mask can forbid, it forbids every fifth row completely. */
static void fill_mask_element(const struct attn_tensor *mask, enum mask kind, struct fill *fill,
                              const int64_t at[4])
{
    int64_t offset = 0;
    for (int i = 0; i < 4; i++)
        offset += at[i] * mask->stride[i];
    const float number = fill_float(fill, -4, 4);
    const bool forbidden = number < -0.5f || (at[2] % 5 == 4);
    if (kind == MASK_BOOL)
        ((unsigned char *)mask->data)[offset] = !forbidden;
    else
        ((float *)mask->data)[offset] = kind == MASK_INFINITE && forbidden ? -INFINITY : number;
}

static void add_mask(struct attention_case *c, const struct variant *variant, struct fill *fill)
{
    const int64_t full[4] = { c->problem.query.shape[0], c->problem.query.shape[1],
                              c->problem.query.shape[2], c->problem.key.shape[2] };
    int64_t shape[4];
    for (int i = 0; i < 4; i++)
        shape[i] = variant->mask_dims & (8u >> i) ? full[i] : 1;
    struct attn_tensor mask =
        attention_case_tensor(c, variant->mask == MASK_BOOL ? ATTN_BOOL : ATTN_F32, LAYOUT_DENSE,
                              shape[0], shape[1], shape[2], shape[3]);
    if (variant->mask_order == ORDER_TRANSPOSED) {
        mask.stride[2] = 1;
        mask.stride[3] = shape[2];
    } else if (variant->mask_order == ORDER_REVERSED && shape[3] > 0) {
        mask.data = (float *)mask.data + (shape[3] - 1);
        mask.stride[3] = -1;
    }
    int64_t at[4];
    for (at[0] = 0; at[0] < shape[0]; at[0]++)
        for (at[1] = 0; at[1] < shape[1]; at[1]++)
            for (at[2] = 0; at[2] < shape[2]; at[2]++)
                for (at[3] = 0; at[3] < shape[3]; at[3]++)
                    fill_mask_element(&mask, variant->mask, fill, at);
    for (int i = 0; i < 4; i++) /* broadcast by a stride of 0 as well as by a dimension of 1 */
        if (shape[i] == 1 && variant->mask_order == ORDER_TRANSPOSED) {
            mask.shape[i] = full[i];
            mask.stride[i] = 0;
        }
    c->problem.mask = mask;
}

static void add_lengths(struct attention_case *c, const struct variant *variant, struct fill *fill)
{
    struct attn_problem *problem = &c->problem;
    const int64_t batch = problem->query.shape[0], q_len = problem->query.shape[2];
    const int64_t key_count = problem->key.shape[2];
    int64_t *past = attention_case_alloc(c, (size_t)batch * sizeof *past);
    int64_t *lengths = attention_case_alloc(c, (size_t)batch * sizeof *lengths);
    int64_t *rows = attention_case_alloc(c, (size_t)(batch * q_len) * sizeof *rows);
    for (int64_t b = 0; b < batch; b++) {
        past[b] = variant->past == PAST_BOTTOM_RIGHT ? key_count - q_len
                  : variant->past == PAST_NEGATIVE   ? -fill_below(fill, q_len + 2)
                                                     : fill_below(fill, key_count + 2);
        lengths[b] = fill_below(fill, key_count + 4);
    }
    for (int64_t i = 0; i < batch * q_len; i++)
        rows[i] = fill_below(fill, key_count + 4);
    problem->past_len = variant->past != PAST_ABSENT ? past : NULL;
    problem->kv_len = variant->kv_len ? lengths : NULL;
    problem->row_kv_len = variant->row_kv_len ? rows : NULL;
}

/* A slope and a sink for each head. One head in four has no sink. */
static void add_per_head(struct attention_case *c, const struct variant *variant, struct fill *fill)
{
    const int64_t q_heads = c->problem.query.shape[1];
    float *slopes = attention_case_alloc(c, (size_t)q_heads * sizeof *slopes);
    float *sinks = attention_case_alloc(c, (size_t)q_heads * sizeof *sinks);
    for (int64_t h = 0; h < q_heads; h++) {
        slopes[h] = h % 3 == 2 ? -0.01f : exp2f(-(float)(h + 3));
        sinks[h] = h % 4 == 1 ? -INFINITY : fill_float(fill, -2, 8);
    }
    c->problem.kv_offset = variant->kv_offset;
    c->problem.alibi_slopes = variant->alibi ? slopes : NULL;
    c->problem.sinks = variant->sinks ? sinks : NULL;
}

static void make_case(struct attention_case *c, const struct attention_sizes *sizes,
                      const struct variant *variant, uint64_t seed)
{
    struct fill fill = { seed * 31 + 7 };
    attention_case_init(c, sizes, variant->layout, seed);
    struct attn_options *options = &c->problem.options;
    options->causal = variant->causal;
    options->softcap = variant->softcap;
    options->window_left = variant->windowed ? variant->window_left : -1;
    options->window_right = variant->windowed ? variant->window_right : -1;
    options->chunk = variant->chunk;
    if (variant->sparse)
        options->normalizer = ATTN_SPARSEMAX;
    if (variant->own_scale)
        options->scale = variant->scale;
    if (variant->mask != MASK_NONE)
        add_mask(c, variant, &fill);
    add_lengths(c, variant, &fill);
    add_per_head(c, variant, &fill);
}

/* The library must not write elements between the rows of an output. */
static int64_t count_written_gaps(const struct attn_tensor *output)
{
    int64_t written = 0;
    for (int64_t b = 0; b < output->shape[0]; b++)
        for (int64_t h = 0; h < output->shape[1]; h++)
            for (int64_t i = 0; i < output->shape[2]; i++)
                for (int64_t gap = 0; gap < output->stride[2] - output->shape[3]; gap++) {
                    const unsigned char untouched[sizeof(float)] = { 0xA5, 0xA5, 0xA5, 0xA5 };
                    const float *at = attention_at(output, b, h, i, output->shape[3] + gap);
                    written += memcmp(at, untouched, sizeof untouched) != 0;
                }
    return written;
}

/* Fresh memory for outputs of the same shapes; the case keeps the inputs. */
static void drop_outputs(struct attention_case *c, int buffer_count)
{
    while (c->buffer_count > buffer_count)
        guard_free(&c->buffers[--c->buffer_count]);
}

/* Context and lse without a map take the path that never holds all scores; the maps take the
 * other path. On either path the bits are those of the run with all outputs. */
static int64_t check_alone(struct attention_case *c, const struct variant *variant, unsigned set,
                           const struct attn_problem *whole)
{
    struct attn_problem all = *whole;
    const int buffer_count = c->buffer_count;
    int64_t wrong = 0;
    attention_case_outputs(c, set, variant->out_layout);
    attention_run(&c->problem);
    for (int i = 0; i < OUT_COUNT; i++)
        if (set & (1u << i))
            wrong += attention_differing_bits(attention_output(&c->problem, i),
                                              attention_output(&all, i));
    drop_outputs(c, buffer_count);
    return wrong;
}

/* Returns the number of wrong elements. */
static int64_t check_table(struct attention_case *c, const struct variant *variant,
                           const struct reference *reference, const struct attn_kernels *kernels)
{
    const int buffer_count = c->buffer_count;
    c->problem.kernels = kernels;
    attention_case_outputs(c, OUT_ALL, variant->out_layout);
    attention_run(&c->problem);
    const struct attn_problem whole = c->problem;
    const double steepness = variant->scale > 1.0f ? variant->scale : 1.0;
    int64_t wrong = attention_compare(&whole, reference, TOLERANCE * steepness);
    struct attn_problem outputs = whole;
    if (variant->out_layout == LAYOUT_GAPS)
        for (int i = 0; i < OUT_COUNT; i++)
            wrong += count_written_gaps(attention_output(&outputs, i));
    wrong += check_alone(c, variant, OUT_CONTEXT | OUT_LSE, &whole);
    for (int i = 0; i < OUT_COUNT; i++)
        wrong += check_alone(c, variant, 1u << i, &whole);
    drop_outputs(c, buffer_count);
    return wrong;
}

static void check(const struct attention_sizes *s, const struct variant *variant, uint64_t seed)
{
    struct attention_case c;
    struct reference reference;
    int64_t wrong = 0;
    make_case(&c, s, variant, seed);
    reference_attention(&c.problem, &reference);
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        const int64_t wrong_here = check_table(&c, variant, &reference, *k);
        if (wrong_here > 0)
            print_error("%s, %s: batch %" PRId64 ", heads %" PRId64 "/%" PRId64 ", q_len %" PRId64
                        ", kv_len %" PRId64 ", head_dim %" PRId64 "/%" PRId64 ": %" PRId64
                        " wrong\n",
                        attn_kernels_name(*k), variant->name, s->batch, s->q_heads, s->kv_heads,
                        s->q_len, s->kv_len, s->head_dim, s->v_head_dim, wrong_here);
        wrong += wrong_here;
    }
    reference_free(&reference);
    attention_case_free(&c);
    assert_int_equal(wrong, 0);
}

TEST(sizes)
{
    static const int64_t q_lens[] = { 0, 1, 2, 15, 16, 17, 63, 64, 65, 130 };
    static const int64_t kv_lens[] = { 0, 1, 5, 95, 96, 97, 129, 300 };
    static const int64_t dims[][2] = { { 1, 2 },   { 3, 1 },   { 8, 8 },   { 20, 17 },
                                       { 64, 64 }, { 80, 33 }, { 128, 96 } };
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof q_lens / sizeof q_lens[0]; i++)
        for (size_t j = 0; j < sizeof kv_lens / sizeof kv_lens[0]; j++)
            for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++, n++) {
                const struct attention_sizes sizes = { .batch = n % 3 == 0 ? 2 : 1,
                                                       .q_heads = n % 3 == 1 ? 2 : 1,
                                                       .kv_heads = 1,
                                                       .q_len = q_lens[i],
                                                       .kv_len = kv_lens[j],
                                                       .head_dim = dims[d][0],
                                                       .v_head_dim = dims[d][1] };
                if (problem_is_tried(n))
                    check(&sizes, &VARIANTS[n % VARIANT_COUNT], n);
            }
}

TEST(variants)
{
    static const struct attention_sizes sizes[] = {
        { 2, 6, 2, 7, 11, 8, 10 },
        { 2, 4, 4, 33, 33, 16, 16 },
        { 3, 3, 1, 66, 131, 12, 5 },
        { 2, 2, 1, 1, 200, 32, 32 },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int v = 0; v < VARIANT_COUNT; v++)
            if (problem_is_tried(i + (uint64_t)v))
                check(&sizes[i], &VARIANTS[v], 1000 + i);
}

/* The rows are so wide that a tile has fewer of them. */
TEST(wide_rows)
{
    static const int64_t dims[][2] = { { 700, 3 }, { 5, 1300 }, { 3000, 70 } };
    for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
        for (int v = 0; v < VARIANT_COUNT; v += 8) {
            const struct attention_sizes sizes = { 1, 1, 1, 19, 101, dims[d][0], dims[d][1] };
            check(&sizes, &VARIANTS[v], 2000 + d);
        }
}
