/* SPDX-License-Identifier: Apache-2.0 */
/* test_rope.c - rotary embedding, seen from outside.
 *
 * The test reads the rotated rows of a layer through the layer's scores. The scale is 1, and the
 * single key is the unit vector of column d at position 0, which is never rotated. So the score
 * of query row i is column d of the rotated row i. With the roles changed, the test reads the
 * rotated keys. A key at position 0 is not rotated, but it is still multiplied by YaRN's attention
 * factor. */
#include "attention_case.h"
#include "test.h"

enum { ROWS = 19, DIM_MAX = 16 };

struct rope_case {
    int64_t head_dim;
    struct attn_rope rope;
    int64_t past_len;
};

#define ROPE(d, t, i)                                                                              \
    {                                                                                              \
        .dim = d, .theta = t, .interleaved = i                                                     \
    }
#define LENGTHENED(d, t, i, ...)                                                                   \
    {                                                                                              \
        .dim = d, .theta = t, .interleaved = i, .scaling = { __VA_ARGS__ }                         \
    }
#define LINEAR(f)     .type = ATTN_ROPE_LINEAR, .factor = f
#define DYNAMIC(f, l) .type = ATTN_ROPE_DYNAMIC, .factor = f, .original_max_position_embeddings = l
#define LLAMA3(f, l)                                                                               \
    .type = ATTN_ROPE_LLAMA3, .factor = f, .original_max_position_embeddings = l,                  \
    .low_freq_factor = 1, .high_freq_factor = 4
#define YARN(f, l)                                                                                 \
    .type = ATTN_ROPE_YARN, .factor = f, .original_max_position_embeddings = l, .beta_fast = 32,   \
    .beta_slow = 1

static const struct rope_case CASES[] = {
    { 8, { .dim = 8, .theta = 100.0, .pairs = 3 }, 5 },
    { 8, { .dim = 6, .theta = 100.0, .interleaved = true, .pairs = 1 }, 5 },
    { 2, ROPE(2, 10000.0, true), 0 },
    { 2, ROPE(2, 10000.0, false), 0 },
    { 8, ROPE(8, 10000.0, true), 0 },
    { 8, ROPE(8, 10000.0, false), 0 },
    { 8, ROPE(4, 10000.0, true), 3 },
    { 8, ROPE(4, 10000.0, false), 3 },
    { 16, ROPE(16, 500000.0, false), 0 },
    { 16, ROPE(16, 10000.0, true), 4000 },
    { 16, ROPE(10, 1000000.0, true), 100000 },
    { 16, ROPE(6, 10000.0, false), 131072 },
    { 7, ROPE(6, 100.5, false), 11 },
    { 5, ROPE(0, 10000.0, true), 9 },
    { 8, ROPE(8, 10000.0, true), -1000 },
    { 16, ROPE(16, 10000.0, false), 1000000 },
    { 8, LENGTHENED(8, 10000.0, true, LINEAR(2.5)), 77 },
    { 8, LENGTHENED(4, 10000.0, false, LINEAR(1)), 0 },
    { 8, LENGTHENED(8, 10000.0, false, DYNAMIC(2, 64)), 0 },
    { 8, LENGTHENED(8, 10000.0, false, DYNAMIC(2, 64)), 1000000 },
    { 2, LENGTHENED(2, 10000.0, true, DYNAMIC(8, 4)), 5 },
    { 16, LENGTHENED(16, 500000.0, false, LLAMA3(8, 8192)), 1000000 },
    { 16, LENGTHENED(12, 10000.0, true, LLAMA3(32, 100)), -50 },
    { 16, LENGTHENED(16, 10000.0, false, YARN(4, 4096), .truncate = true), 1000000 },
    { 16, LENGTHENED(16, 150000.0, true, YARN(32, 4096)), 9000 },
    { 16,
      LENGTHENED(10, 10000.0, false, YARN(40, 4096), .truncate = true, .mscale = 0.7,
                 .mscale_all_dim = 1.1),
      123 },
    { 16, LENGTHENED(16, 10000.0, true, YARN(4, 100), .attention_factor = 0.5), 7 },
};

enum { CASE_COUNT = sizeof CASES / sizeof CASES[0] };

/* One head without projections; scores[q_len, kv_len]. */
static void run_scores(const struct rope_case *c, float *query, int64_t q_len, float *key,
                       int64_t kv_len, int64_t past_len, float *scores)
{
    struct attn_layer layer = { .q_heads = 1,
                                .kv_heads = 1,
                                .head_dim = c->head_dim,
                                .v_head_dim = c->head_dim,
                                .rope = c->rope };
    struct attn_layer_problem problem = { .layer = &layer, .past_len = past_len };
    problem.options = attn_options_default(c->head_dim);
    problem.options.scale = 1.0f;
    problem.query = attn_tensor_dense(query, ATTN_F32, 1, 1, q_len, c->head_dim);
    problem.key = attn_tensor_dense(key, ATTN_F32, 1, 1, kv_len, c->head_dim);
    problem.value = problem.key;
    problem.scores = scores;
    attention_run_layer(&problem);
}

/* rotated[ROWS][head_dim]: rows as the layer rotates them, as queries or as keys. */
static void read_rotated(const struct rope_case *c, float *rows, bool as_keys, float *rotated)
{
    for (int64_t d = 0; d < c->head_dim; d++) {
        float unit[DIM_MAX] = { 0 }, column[ROWS];
        unit[d] = 1.0f;
        if (as_keys)
            run_scores(c, unit, 1, rows, ROWS, 0, column);
        else
            run_scores(c, rows, ROWS, unit, 1, c->past_len, column);
        for (int64_t i = 0; i < ROWS; i++)
            rotated[i * c->head_dim + d] = column[i];
    }
}

static void check_rotated(const struct rope_case *c, bool as_keys)
{
    float rows[ROWS * DIM_MAX], rotated[ROWS * DIM_MAX];
    struct fill fill = { (uint64_t)(c - CASES) + 1 };
    fill_floats(&fill, rows, ROWS * c->head_dim, -1, 1);
    read_rotated(c, rows, as_keys, rotated);
    const int64_t past_len = as_keys ? 0 : c->past_len;
    double unit[DIM_MAX] = { 1 };
    reference_rope(&c->rope, 0, 0, unit);
    for (int64_t i = 0; i < ROWS; i++) {
        double want[DIM_MAX];
        for (int64_t d = 0; d < c->head_dim; d++)
            want[d] = (double)rows[i * c->head_dim + d];
        reference_rope(&c->rope, past_len + i, (double)(past_len + ROWS > 1 ? past_len + ROWS : 1),
                       want);
        for (int64_t d = 0; d < c->head_dim; d++) {
            const float got = rotated[i * c->head_dim + d];
            if (d >= c->rope.dim) /* beyond dim nothing is touched */
                assert_true(got == rows[i * c->head_dim + d]);
            else if (!(fabs((double)got - unit[0] * want[d]) <= 1e-6 * fmax(1, unit[0] * unit[0])))
                fail_msg("case %d, row %d, column %d: %.9g, want %.9g", (int)(c - CASES), (int)i,
                         (int)d, (double)got, want[d]);
        }
    }
}

TEST(queries)
{
    for (int i = 0; i < CASE_COUNT; i++)
        check_rotated(&CASES[i], false);
}

TEST(keys)
{
    for (int i = 0; i < CASE_COUNT; i++)
        check_rotated(&CASES[i], true);
}

/* By hand: a quarter turn. With theta^0 = 1 the first pair turns by its position in radians, so
 * (1, 0) at position 2 is (cos 2, sin 2); interleaved the pair is columns 0 and 1, else 0 and 2. */
TEST(known_turn)
{
    const struct rope_case interleaved = { 4, ROPE(4, 10000.0, true), 0 };
    const struct rope_case halves = { 4, ROPE(4, 10000.0, false), 0 };
    float rows[ROWS * 4] = { 0 }, rotated[ROWS * 4];
    rows[2 * 4] = 1.0f;
    read_rotated(&interleaved, rows, false, rotated);
    assert_float_equal(rotated[8], -0.41614684f, 1e-6);
    assert_float_equal(rotated[9], 0.90929743f, 1e-6);
    assert_true(rotated[10] == 0.0f && rotated[11] == 0.0f);
    read_rotated(&halves, rows, false, rotated);
    assert_float_equal(rotated[8], -0.41614684f, 1e-6);
    assert_float_equal(rotated[10], 0.90929743f, 1e-6);
    assert_true(rotated[9] == 0.0f && rotated[11] == 0.0f);
}

/* Row 2 and those behind it are 2 x 4 patches. The patch of row 1, column 0 is at 1/2 and -3/4, and
 * with a dim of 4 both pairs turn by 2 pi times that: half a turn, and a quarter. */
TEST(known_patch)
{
    enum { PATCH = 2 + 4 };
    const struct rope_case c = { 4, { .dim = 4, .theta = 100, .grid = { 2, 2, 4 } }, 0 };
    float rows[ROWS * 4], rotated[ROWS * 4];
    for (int i = 0; i < ROWS; i++)
        memcpy(rows + (size_t)4 * i, (const float[]){ 1, 2, 3, 4 }, 4 * sizeof *rows);
    read_rotated(&c, rows, false, rotated);
    assert_float_equal(rotated[PATCH * 4 + 0], -1, 1e-6);
    assert_float_equal(rotated[PATCH * 4 + 2], -3, 1e-6);
    assert_float_equal(rotated[PATCH * 4 + 1], -4, 1e-6);
    assert_float_equal(rotated[PATCH * 4 + 3], 2, 1e-6);
    for (int i = 0; i < ROWS; i++) /* no patches */
        if (i < 2 || i >= 10)
            assert_memory_equal(rotated + (size_t)4 * i, rows + (size_t)4 * i, 4 * sizeof *rows);
}

/* Queries from positions 0, 5 and 10 on grow by 0, 1/2 ln 2 and 1/2 ln 3; columns that do not turn
 * grow too, and keys do not. */
TEST(known_growth)
{
    const struct rope_case plain = { 4, ROPE(2, 10000.0, true), 0 };
    struct rope_case c = plain;
    float rows[ROWS * 4], rotated[ROWS * 4], want[ROWS * 4];
    struct fill fill = { 5 };
    c.rope.query_growth = 0.5;
    c.rope.query_length = 5;
    fill_floats(&fill, rows, ROWS * 4, -1, 1);
    read_rotated(&plain, rows, false, want);
    read_rotated(&c, rows, false, rotated);
    for (int i = 0; i < ROWS; i++)
        for (int d = 0; d < 4; d++)
            assert_float_equal(rotated[4 * i + d],
                               (float)((1 + 0.5 * log(1 + i / 5)) * (double)want[4 * i + d]), 1e-6);
    read_rotated(&plain, rows, true, want);
    read_rotated(&c, rows, true, rotated);
    assert_memory_equal(rotated, want, sizeof want);
}

/* The same without rotation, and counted from one position later on. */
TEST(known_growth_alone)
{
    struct rope_case c = { 4, ROPE(0, 0, false), 0 };
    float rows[ROWS * 4], rotated[ROWS * 4];
    struct fill fill = { 6 };
    c.rope.query_growth = 0.5;
    c.rope.query_length = 5;
    c.rope.query_offset = 1;
    fill_floats(&fill, rows, ROWS * 4, -1, 1);
    read_rotated(&c, rows, false, rotated);
    for (int i = 0; i < ROWS; i++)
        for (int d = 0; d < 4; d++)
            assert_float_equal(rotated[4 * i + d],
                               (float)((1 + 0.5 * log(1 + (i + 1) / 5)) * (double)rows[4 * i + d]),
                               1e-6);
    read_rotated(&c, rows, true, rotated);
    assert_memory_equal(rotated, rows, sizeof rows);
}

/* The purpose of the embedding: a score depends on how far apart two rows are, not on where they
 * are. */
TEST(scores_are_relative)
{
    const struct rope_case c = { 8, ROPE(8, 10000.0, true), 0 };
    float query[8], key[8], keys[ROWS * 8], scores[ROWS];
    struct fill fill = { 99 };
    fill_floats(&fill, query, 8, -1, 1);
    fill_floats(&fill, key, 8, -1, 1);
    for (int j = 0; j < ROWS; j++)
        memcpy(keys + j * 8, key, sizeof key);
    float first[ROWS];
    run_scores(&c, query, 1, keys, ROWS, 0, first); /* key j is at distance j */
    for (int64_t past = 1; past < ROWS; past++) {
        run_scores(&c, query, 1, keys, ROWS, past, scores);
        for (int64_t j = past; j < ROWS; j++)
            assert_float_equal(scores[j], first[j - past], 2e-6);
    }
    assert_true(fabsf(first[1] - first[0]) > 1e-3f); /* and it does depend on the distance */
}
