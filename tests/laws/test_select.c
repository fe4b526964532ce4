/* SPDX-License-Identifier: Apache-2.0 */
/* test_select.c - attention that leaves keys (select.h): no row leaves more of the softmax than
 * mass_left says, nor more than epsilon; context and lse are those of the keys that were read; and
 * with epsilon 0 the bits are those of attention without a selection.
 *
 * Value column g of a key is 1 if the key is in group g, else 0: the context of a row tells which
 * groups it has read. What the others weigh is summed in double over all keys. */
#include "attention_case.h"
#include "kernel_tables.h"
#include "layer.h"
#include "number.h"
#include "problem_count.h"
#include "test.h"

#include <inttypes.h>

enum { USUAL = 400, KEYS_MAX = 1000, GROUPS_MAX = KEYS_MAX / ATTN_SELECT_KEYS + 2, HEADS_MAX = 8 };
enum { ROWS_MAX = ATTN_SELECT_ROWS, DIM_MAX = 24 };

/* Smaller weights may be 0 in float: such a group is not told from one that was left. */
static const double WEIGHT_MIN = 1e-30;

struct chosen {
    struct attn_layer layer;
    struct attn_layer_problem problem;
    struct attn_selection selection;
    struct attn_bounds bounds;
    int64_t shift; /* keys before the first group of 64 */
    float rows[HEADS_MAX * GROUPS_MAX * 64], largest[HEADS_MAX * DIM_MAX];
    float sinks[HEADS_MAX];
    int64_t kv_len[1], row_kv_len[ROWS_MAX], keys_read[HEADS_MAX * ROWS_MAX];
    int64_t keys_seen[HEADS_MAX * ROWS_MAX];
    float mass_left[HEADS_MAX * ROWS_MAX], lse[HEADS_MAX * ROWS_MAX];
    float context[HEADS_MAX * ROWS_MAX * GROUPS_MAX];
    double keys[2][KEYS_MAX * DIM_MAX], score[KEYS_MAX]; /* keys as doubles */
    double terms; /* the largest sum of |terms| of a score of the row: rounding grows with it */
};

struct tally {
    int64_t rows, keys_left, keys;
    double tightest; /* the largest true share of what mass_left says */
};

static bool chance(struct fill *fill, int64_t in)
{
    return fill_below(fill, in) == 0;
}

static struct attn_tensor tensor(struct attention_case *memory, enum attn_dtype dtype,
                                 int64_t heads, int64_t length, int64_t columns)
{
    return attention_case_tensor(memory, dtype, LAYOUT_DENSE, 1, heads, length, columns);
}

/* Keys of a group lie around a place of their own, some far out; of a few problems everywhere. */
static void fill_keys(struct chosen *c, struct fill *fill)
{
    const struct attn_tensor *key = &c->problem.key;
    const float reach = powf(10, fill_float(fill, -0.5F, 2.5F));
    const float near = powf(10, fill_float(fill, -2, 0));
    float center[DIM_MAX] = { 0 };
    for (int64_t h = 0; h < key->shape[1]; h++)
        for (int64_t j = 0; j < key->shape[2]; j++)
            for (int64_t d = 0; d < key->shape[3]; d++) {
                if (j % ATTN_SELECT_KEYS == 0)
                    center[d] = fill_float(fill, -reach, reach);
                number_put(key, 0, h, j, d, (double)(center[d] + near * fill_float(fill, -1, 1)));
                c->keys[h][j * key->shape[3] + d] = number_at(key, 0, h, j, d);
            }
}

static void draw_options(struct chosen *c, struct fill *fill)
{
    struct attn_layer_problem *problem = &c->problem;
    const int64_t q_len = problem->query.shape[2], kv_len = problem->key.shape[2];
    problem->options.causal = chance(fill, 2);
    problem->options.softcap = chance(fill, 4) ? (double)fill_float(fill, 1, 30) : 0;
    if (chance(fill, 8))
        problem->options.scale = -problem->options.scale;
    problem->past_len = chance(fill, 4) ? fill_below(fill, kv_len + 1) : kv_len - q_len;
    c->kv_len[0] = fill_below(fill, kv_len + 1);
    for (int64_t i = 0; i < q_len; i++)
        c->row_kv_len[i] = fill_below(fill, kv_len + 1);
    if (chance(fill, 8))
        problem->row_kv_len = c->row_kv_len;
    else if (chance(fill, 4))
        problem->kv_len = c->kv_len;
    for (int h = 0; h < HEADS_MAX; h++)
        c->sinks[h] = chance(fill, 4) ? -INFINITY : fill_float(fill, -4, 4);
    if (chance(fill, 3))
        problem->sinks = c->sinks;
}

/* Some problems bring the bounds of consecutive groups. */
static void draw_bounds(struct chosen *c, struct fill *fill)
{
    const struct attn_tensor *key = &c->problem.key;
    const int64_t groups = key->shape[2] / ATTN_SELECT_KEYS;
    const int64_t columns = attn_bounds_columns(key->shape[3]);
    const int64_t head_dim = key->shape[3];
    if (groups == 0 || (c->shift == 0 && chance(fill, 3)))
        return;
    c->bounds = (struct attn_bounds){ .first = c->shift,
                                      .group_count = 1 + fill_below(fill, groups),
                                      .rows = c->rows,
                                      .largest = c->largest };
    c->bounds.head_stride = c->bounds.group_count * columns;
    memset(c->largest, 0, sizeof c->largest);
    for (int64_t h = 0; h < key->shape[1]; h++)
        for (int64_t g = 0; g < c->bounds.group_count; g++)
            attn_bounds_make(key, h, c->bounds.first + g * ATTN_SELECT_KEYS, ATTN_SELECT_KEYS, NULL,
                             c->rows + h * c->bounds.head_stride + g * columns,
                             c->largest + h * head_dim);
    c->selection.bounds = &c->bounds;
    c->selection.bounds_count = 1;
}

static int64_t group_of(const struct chosen *c, int64_t key)
{
    return key < c->shift ? 0 : (c->shift > 0) + (key - c->shift) / ATTN_SELECT_KEYS;
}

static void draw(struct chosen *c, struct attention_case *memory, uint64_t seed, struct fill *fill)
{
    static const enum attn_dtype DTYPES[] = { ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16 };
    const int64_t kv_heads = 1 + fill_below(fill, 2),
                  group = chance(fill, 2) ? 1 : 1 + fill_below(fill, 4);
    const int64_t head_dim = 1 + fill_below(fill, chance(fill, 2) ? 4 : DIM_MAX);
    const int64_t kv_len =
        chance(fill, 8) ? fill_below(fill, 300) + 1 : 256 + fill_below(fill, KEYS_MAX - 256);
    const int64_t q_len = chance(fill, 4) ? 1 : kv_len < ROWS_MAX ? kv_len : ROWS_MAX;
    const enum attn_dtype dtype = DTYPES[fill_below(fill, 4)];
    memset(c, 0, sizeof *c);
    c->shift = chance(fill, 2) ? 0 : fill_below(fill, kv_len % ATTN_SELECT_KEYS + 1);
    const int64_t groups = group_of(c, kv_len - 1) + 1;
    c->layer = (struct attn_layer){ .q_heads = kv_heads * group,
                                    .kv_heads = kv_heads,
                                    .head_dim = head_dim,
                                    .v_head_dim = groups };
    c->problem = (struct attn_layer_problem){
        .layer = &c->layer,
        .options = attn_options_default(head_dim),
        .query = tensor(memory, ATTN_F32, kv_heads * group, q_len, head_dim),
        .key = tensor(memory, dtype, kv_heads, kv_len, head_dim),
        .value = tensor(memory, dtype, kv_heads, kv_len, groups),
        .partial = true,
        .context = c->context,
        .lse = c->lse,
        .selection = &c->selection,
        .kernels = kernel_table_of_turn(seed),
    };
    const float reach = fill_float(fill, 0.1F, 4);
    fill_floats(fill, c->problem.query.data, kv_heads * group * q_len * head_dim, -reach, reach);
    fill_keys(c, fill);
    for (int64_t h = 0; h < kv_heads; h++)
        for (int64_t j = 0; j < kv_len; j++)
            for (int64_t g = 0; g < groups; g++)
                number_put(&c->problem.value, 0, h, j, g, g == group_of(c, j));
    draw_options(c, fill);
    c->selection.epsilon = pow(10, (double)fill_float(fill, -7, -0.05F));
    c->selection.mass_left = c->mass_left;
    c->selection.keys_read = c->keys_read;
    c->selection.keys_seen = c->keys_seen;
}

/* How many keys the row sees. */
static int64_t seen_by(const struct chosen *c, int64_t row)
{
    const struct attn_layer_problem *problem = &c->problem;
    int64_t seen = problem->key.shape[2];
    if (problem->row_kv_len && problem->row_kv_len[row] < seen)
        seen = problem->row_kv_len[row];
    if (problem->kv_len && problem->kv_len[0] < seen)
        seen = problem->kv_len[0];
    if (problem->options.causal && problem->past_len + row + 1 < seen)
        seen = problem->past_len + row + 1;
    return seen;
}

/* Scores in double, and the largest of them and of the sink. */
static double score_row(struct chosen *c, int64_t head, int64_t row, int64_t seen)
{
    const struct attn_layer_problem *problem = &c->problem;
    const struct attn_options *options = &problem->options;
    const int64_t kv_head = head / (c->layer.q_heads / c->layer.kv_heads);
    const double *key = c->keys[kv_head];
    double query[DIM_MAX], most = -INFINITY;
    c->terms = 0;
    for (int64_t d = 0; d < c->layer.head_dim; d++)
        query[d] = number_at(&problem->query, 0, head, row, d);
    for (int64_t j = 0; j < seen; j++) {
        double sum = 0, terms = 0;
        for (int64_t d = 0; d < c->layer.head_dim; d++) {
            sum += query[d] * key[j * c->layer.head_dim + d];
            terms += fabs(query[d] * key[j * c->layer.head_dim + d] * options->scale);
        }
        c->terms = fmax(c->terms, terms);
        sum *= options->scale;
        c->score[j] = options->softcap > 0 ? options->softcap * tanh(sum / options->softcap) : sum;
        most = fmax(most, c->score[j]);
    }
    return problem->sinks ? fmax(most, (double)problem->sinks[head]) : most;
}

static void check_row(struct chosen *c, int64_t head, int64_t row, uint64_t seed,
                      struct tally *tally)
{
    const int64_t q_len = c->problem.query.shape[2], groups = c->layer.v_head_dim;
    const int64_t kv_head = head / (c->layer.q_heads / c->layer.kv_heads);
    const int64_t seen = seen_by(c, row), at = head * q_len + row;
    const float *context = c->context + at * groups;
    const double most = score_row(c, head, row, seen), said = (double)c->mass_left[at];
    double read = c->problem.sinks ? exp((double)c->problem.sinks[head] - most) : 0, left = 0;
    for (int64_t j = 0; j < seen; j++)
        *(context[group_of(c, j)] > 0 ? &read : &left) += exp(c->score[j] - most);
    assert_int_equal(c->keys_seen[kv_head * q_len + row], seen);
    if (seen == 0 || said < 0 || said > c->selection.epsilon || isnan(said)) {
        if (seen > 0)
            fail_msg("seed %" PRIu64 ": mass_left %g, epsilon %g", seed, said,
                     c->selection.epsilon);
        return;
    }
    const double share = left / (left + read);
    if (share > said && share > WEIGHT_MIN)
        fail_msg("seed %" PRIu64 " head %" PRId64 " row %" PRId64 ": %g is left, mass_left is %g",
                 seed, head, row, share, said);
    if (fabs(most + log(read) - (double)c->lse[at])
        > 1e-5 * (1 + fabs((double)c->lse[at])) + 1e-6 * c->terms)
        fail_msg("seed %" PRIu64 ": lse %g, want %g", seed, (double)c->lse[at], most + log(read));
    tally->tightest = fmax(tally->tightest, said > WEIGHT_MIN ? share / said : 0);
    tally->rows++;
    tally->keys += seen;
    tally->keys_left += seen - c->keys_read[kv_head * q_len + row];
}

TEST(never_more_is_left_than_said)
{
    static struct chosen c;
    struct tally tally = { 0 };
    for (uint64_t seed = 1; seed <= problem_count(USUAL); seed++) {
        struct attention_case memory = { .buffer_count = 0 };
        struct fill fill = { seed };
        draw(&c, &memory, seed, &fill);
        draw_bounds(&c, &fill);
        attention_run_layer(&c.problem);
        for (int64_t h = 0; h < c.layer.q_heads; h++)
            for (int64_t i = 0; i < c.problem.query.shape[2]; i++)
                check_row(&c, h, i, seed, &tally);
        attention_case_free(&memory);
    }
    print_message("%" PRId64 " rows of a head left %.1f %% of the keys they saw; the largest true "
                  "share was %.3f of what mass_left said\n",
                  tally.rows, 100.0 * (double)tally.keys_left / (double)tally.keys, tally.tightest);
    assert_true(tally.keys_left > tally.keys / 10);
}

TEST(epsilon_0_has_the_bits_of_the_whole)
{
    static struct chosen c;
    static float context[HEADS_MAX * ROWS_MAX * GROUPS_MAX], lse[HEADS_MAX * ROWS_MAX];
    for (uint64_t seed = 1; seed <= problem_count(40); seed++) {
        struct attention_case memory = { .buffer_count = 0 };
        struct fill fill = { seed };
        draw(&c, &memory, seed, &fill);
        c.selection.epsilon = 0;
        attention_run_layer(&c.problem);
        memcpy(context, c.context, sizeof context);
        memcpy(lse, c.lse, sizeof lse);
        c.problem.selection = NULL;
        attention_run_layer(&c.problem);
        assert_memory_equal(context, c.context, sizeof context);
        assert_memory_equal(lse, c.lse, sizeof lse);
        for (int64_t i = 0; i < c.layer.q_heads * c.problem.query.shape[2]; i++)
            assert_true(c.mass_left[i] == 0);
        attention_case_free(&memory);
    }
}
