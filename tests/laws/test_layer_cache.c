/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_cache.c - a layer that appends its keys and values to a cache, call by call, answers
 * what the layer answers to all rows at once, to the bit, wherever the calls and the pages of the
 * cache are cut. Rows of F16 and BF16 are those that a caller would have rounded. */
#include "attention_case.h"
#include "fill.h"
#include "kernel_tables.h"
#include "number.h"
#include "problem_count.h"
#include "test.h"

#include <inttypes.h>

enum { USUAL = 300, D_MODEL = 40, ROWS_MAX = 400, PAGES_MAX = 8, NUMBERS_MAX = 1 << 16 };
enum { SIDES = 2 };

/* A layer with random parameters, its rows, and a cache of pages. */
struct cached {
    struct attn_layer layer;
    struct attn_options options;
    float parameters[4][D_MODEL * 128], norms[2][32];
    float rows[ROWS_MAX * D_MODEL];
    struct attn_layer_cache cache;
    struct attn_page list[SIDES][PAGES_MAX];
    struct attn_pages pages[SIDES];
    void *memory[SIDES][PAGES_MAX];
    int64_t length;
};

static bool chance(struct fill *fill, int64_t in)
{
    return fill_below(fill, in) == 0;
}

static void make_layer(struct cached *c, struct fill *fill)
{
    const int64_t kv_heads = 1 + fill_below(fill, 2);
    const int64_t q_heads = kv_heads * (1 + fill_below(fill, 2));
    const int64_t head_dim = 2 * (1 + fill_below(fill, 12));
    const int64_t v_head_dim = 1 + fill_below(fill, 20);
    for (int i = 0; i < 4; i++)
        fill_floats(fill, c->parameters[i], D_MODEL * 128, -0.3f, 0.3f);
    fill_floats(fill, c->norms[0], 32, 0.5f, 1.5f);
    fill_floats(fill, c->norms[1], 32, 0.5f, 1.5f);
    fill_floats(fill, c->rows, c->length * D_MODEL, -1, 1);
    c->layer = (struct attn_layer){
        .q_heads = q_heads,
        .kv_heads = kv_heads,
        .head_dim = head_dim,
        .v_head_dim = v_head_dim,
        .q_proj = { .weight = c->parameters[0], .out = q_heads * head_dim, .in = D_MODEL },
        .k_proj = { .weight = c->parameters[1], .out = kv_heads * head_dim, .in = D_MODEL },
        .v_proj = { .weight = c->parameters[2], .out = kv_heads * v_head_dim, .in = D_MODEL },
    };
    if (chance(fill, 2))
        c->layer.o_proj = (struct attn_linear){ .weight = c->parameters[3],
                                                .out = D_MODEL,
                                                .in = q_heads * v_head_dim };
    if (chance(fill, 2))
        c->layer.rope = (struct attn_rope){ .dim = head_dim, .theta = 10000 };
    if (chance(fill, 3))
        c->layer.k_norm = (struct attn_norm){ .weight = c->norms[0], .eps = 1e-5 };
    c->options = attn_options_default(head_dim);
    c->options.causal = chance(fill, 2);
    c->options.window_left = chance(fill, 4) ? fill_below(fill, 50) : -1;
}

/* Pages of the cache, cut at random; each row of memory is full of NaN until it is written. */
static void make_side(struct cached *c, int side, enum attn_dtype dtype, int64_t columns,
                      struct fill *fill)
{
    struct attn_tensor *tensor = side == 0 ? &c->cache.key : &c->cache.value;
    const int64_t heads = c->layer.kv_heads;
    int64_t first = 0, count = 0;
    while (first < c->length) {
        const int64_t left = c->length - first;
        const int64_t rows = count == PAGES_MAX - 1 ? left : 1 + fill_below(fill, left);
        const size_t bytes = (size_t)(heads * rows * columns) * attn_dtype_size(dtype);
        c->memory[side][count] = malloc(bytes);
        memset(c->memory[side][count], 0xFF, bytes);
        c->list[side][count] = (struct attn_page){ .first = first,
                                                   .data = c->memory[side][count],
                                                   .head_stride = rows * columns };
        first += rows;
        count++;
    }
    c->pages[side] = (struct attn_pages){ .count = count, .list = c->list[side] };
    *tensor = attn_tensor_dense(c->memory[side][0], dtype, 1, heads, c->length, columns);
    tensor->pages = &c->pages[side];
}

static void free_cache(struct cached *c)
{
    for (int side = 0; side < SIDES; side++)
        for (int64_t i = 0; i < c->pages[side].count; i++)
            free(c->memory[side][i]);
}

/* The first `length` rows of the cache, whose pages may go on behind them. */
static void cut_cache(struct cached *c, int64_t length)
{
    c->cache.key.shape[2] = c->cache.value.shape[2] = length;
    for (int side = 0; side < SIDES; side++)
        while (c->list[side][c->pages[side].count - 1].first >= length)
            c->pages[side].count--;
}

static struct attn_layer_problem problem_of(struct cached *c, int64_t first, int64_t rows)
{
    float *data = c->rows + first * D_MODEL;
    return (struct attn_layer_problem){
        .layer = &c->layer,
        .options = c->options,
        .query = attn_tensor_dense(data, ATTN_F32, 1, 1, rows, D_MODEL),
        .key = attn_tensor_dense(data, ATTN_F32, 1, 1, rows, D_MODEL),
        .value = attn_tensor_dense(data, ATTN_F32, 1, 1, rows, D_MODEL),
        .past_len = first,
    };
}

/* Appends all rows in calls of random lengths; the last call's outputs are those of all rows at
 * once. Returns how many rows the last call has. */
static int64_t append_all(struct cached *c, struct fill *fill, float *context, float *lse,
                          const struct attn_kernels *kernels)
{
    const int64_t counts[SIDES] = { c->pages[0].count, c->pages[1].count };
    int64_t first = 0, rows = 0;
    while (first < c->length) {
        rows = 1 + fill_below(fill, chance(fill, 2) ? 3 : c->length - first);
        if (rows > c->length - first)
            rows = c->length - first;
        for (int side = 0; side < SIDES; side++)
            c->pages[side].count = counts[side];
        cut_cache(c, first + rows);
        c->cache.length = first;
        struct attn_layer_problem problem = problem_of(c, first, rows);
        problem.cache = &c->cache;
        problem.kernels = kernels;
        const bool is_last = first + rows == c->length;
        problem.context = is_last ? context : NULL;
        problem.lse = is_last ? lse : NULL;
        attention_run_layer(&problem);
        first += rows;
    }
    return rows;
}

static void check(uint64_t seed, const struct attn_kernels *kernels)
{
    static float got[2][NUMBERS_MAX], want[2][NUMBERS_MAX];
    static struct cached c;
    struct fill fill = { seed };
    memset(&c, 0, sizeof c);
    c.length = 1 + fill_below(&fill, ROWS_MAX - 1);
    make_layer(&c, &fill);
    make_side(&c, 0, ATTN_F32, c.layer.head_dim, &fill);
    make_side(&c, 1, ATTN_F32, c.layer.v_head_dim, &fill);
    const int64_t rows = append_all(&c, &fill, got[0], got[1], kernels);
    struct attn_layer_problem whole = problem_of(&c, c.length - rows, rows);
    whole.key = whole.value = attn_tensor_dense(c.rows, ATTN_F32, 1, 1, c.length, D_MODEL);
    whole.kernels = kernels;
    whole.context = want[0];
    whole.lse = want[1];
    attention_run_layer(&whole);
    const size_t context_bytes = (size_t)(rows * attn_layer_d_out(&c.layer)) * sizeof(float);
    if (memcmp(got[0], want[0], context_bytes) != 0
        || memcmp(got[1], want[1], (size_t)(rows * c.layer.q_heads) * sizeof(float)) != 0)
        fail_msg("seed %" PRIu64 " on %s: %d rows in %d pages, %d of them last, have other bits",
                 seed, attn_kernels_name(kernels), (int)c.length, (int)c.pages[0].count, (int)rows);
    free_cache(&c);
}

TEST(calls)
{
    for (uint64_t n = 0; n < problem_count(USUAL); n++)
        check(700000 + n, kernel_table_of_turn(n));
}

/* A layer without parameters: what is appended is what came, rounded once to the cache's dtype. */
static void check_dtype(enum attn_dtype dtype, enum attn_dtype from)
{
    enum { HEADS = 2, HEAD_DIM = 6, LENGTH = 70 };
    static struct cached c;
    struct fill fill = { 9 };
    uint32_t input[LENGTH * HEADS * HEAD_DIM];
    float lse[HEADS];
    memset(&c, 0, sizeof c);
    c.length = LENGTH;
    c.layer = (struct attn_layer){
        .q_heads = HEADS, .kv_heads = HEADS, .head_dim = HEAD_DIM, .v_head_dim = HEAD_DIM
    };
    make_side(&c, 0, dtype, HEAD_DIM, &fill);
    make_side(&c, 1, dtype, HEAD_DIM, &fill);
    for (int64_t i = 0; i < LENGTH * HEADS * HEAD_DIM; i++)
        number_set(input, from, i, (double)fill_float(&fill, -2, 2));
    struct attn_layer_problem problem = {
        .layer = &c.layer,
        .options = attn_options_default(HEAD_DIM),
        .query = attn_tensor_dense(input, from, 1, 1, 1, HEADS * HEAD_DIM),
        .key = attn_tensor_dense(input, from, 1, 1, LENGTH, HEADS * HEAD_DIM),
        .value = attn_tensor_dense(input, from, 1, 1, LENGTH, HEADS * HEAD_DIM),
        .cache = &c.cache,
        .lse = lse,
    };
    attention_run_layer(&problem);
    for (int side = 0; side < SIDES; side++)
        for (int64_t p = 0; p < c.pages[side].count; p++) {
            const struct attn_page *page = &c.list[side][p];
            const int64_t end = p + 1 < c.pages[side].count ? page[1].first : LENGTH;
            for (int64_t h = 0; h < HEADS; h++)
                for (int64_t i = page->first; i < end; i++)
                    for (int64_t d = 0; d < HEAD_DIM; d++) {
                        const int64_t at = (i * HEADS + h) * HEAD_DIM + d;
                        const int64_t place =
                            h * page->head_stride + (i - page->first) * HEAD_DIM + d;
                        uint32_t rounded;
                        number_set(&rounded, dtype, 0, number_get(input, from, at));
                        assert_true(number_get(&rounded, dtype, 0)
                                    == number_get(page->data, dtype, place));
                    }
        }
    free_cache(&c);
}

TEST(dtypes)
{
    static const enum attn_dtype DTYPES[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            check_dtype(DTYPES[i], DTYPES[k]);
}

static void expect_refused(struct cached *c, enum attn_status status, const char *field)
{
    struct attn_layer_problem problem = problem_of(c, 0, c->length);
    struct attn_layer_plan plan;
    const char *where = "";
    float lse[1];
    problem.cache = &c->cache;
    problem.lse = lse;
    assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), status);
    assert_string_equal(where, field);
}

TEST(refused)
{
    static struct cached c;
    struct fill fill = { 4 };
    memset(&c, 0, sizeof c);
    c.length = 5;
    make_layer(&c, &fill);
    make_side(&c, 0, ATTN_F32, c.layer.head_dim, &fill);
    make_side(&c, 1, ATTN_F32, c.layer.v_head_dim, &fill);
    c.cache.length = 1;
    expect_refused(&c, ATTN_ERR_SHAPE, "cache.key.shape[2]");
    c.cache.length = -1;
    expect_refused(&c, ATTN_ERR_LENGTH, "cache.length");
    c.cache.length = 0;
    c.cache.value.dtype = ATTN_F64;
    expect_refused(&c, ATTN_ERR_DTYPE, "cache.value.dtype");
    c.cache.value.dtype = ATTN_F32;
    c.cache.key.shape[1]++;
    expect_refused(&c, ATTN_ERR_SHAPE, "cache.key.shape[1]");
    c.cache.key.shape[1]--;
    c.cache.value.shape[3]++;
    expect_refused(&c, ATTN_ERR_SHAPE, "cache.value.shape[3]");
    c.cache.value.shape[3]--;
    c.list[0][0].data = NULL;
    expect_refused(&c, ATTN_ERR_NO_DATA, "key.pages");
    free_cache(&c);
}
