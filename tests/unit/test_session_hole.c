/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_hole.c - random scripts of appends, truncations, forks and positions that go, beside
 * a list of what each cache must have: zeros where positions are gone, the numbers that came
 * elsewhere; what is held is bounded by what is kept, and goes back to the budget. */
#include "fill.h"
#include "operations/session/session_rows.h"
#include "test.h"

enum { SESSIONS = 4, LENGTH_MAX = 9000, SCRIPTS = 60, STEPS = 80 };
enum { KV_HEADS = 2, HEAD_DIM = 3, V_HEAD_DIM = 5 };

static const struct session_shape SHAPE = { KV_HEADS, HEAD_DIM, V_HEAD_DIM, ATTN_F32 };

/* A cache that keeps its first positions and the last ones, and the number of each position. */
struct watched {
    struct session_rows rows;
    int64_t window, sinks;
    int64_t cut; /* where it was truncated */
    float *numbers;
};

static float *number_at(const struct attn_tensor *tensor, int64_t head, int64_t row)
{
    const struct attn_pages *pages = tensor->pages;
    int64_t i = pages->count - 1;
    while (pages->list[i].first > row)
        i--;
    const struct attn_page *page = &pages->list[i];
    return (float *)page->data + head * page->head_stride + (row - page->first) * tensor->stride[2];
}

static void expect_side(const struct watched *watched, const struct attn_tensor *tensor, float sign)
{
    const struct session_rows *rows = &watched->rows;
    for (int64_t head = 0; head < KV_HEADS; head++)
        for (int64_t row = 0; row < rows->length; row++) {
            const bool is_gone = rows->dropped_from <= row && row < rows->dropped;
            for (int64_t d = 0; d < tensor->shape[3]; d++) {
                const float number = sign * (watched->numbers[row] + (float)(head + d));
                const float want = is_gone ? 0.0f : number;
                if (memcmp(number_at(tensor, head, row) + d, &want, sizeof want) != 0)
                    fail_msg("position %d of %d, gone from %d to %d: %g, expected %g", (int)row,
                             (int)rows->length, (int)rows->dropped_from, (int)rows->dropped,
                             (double)number_at(tensor, head, row)[d], (double)want);
            }
        }
}

static void expect(struct watched *watched, struct session_budget *budget)
{
    struct fault fault = { .code = FAULT_NONE };
    if (watched->rows.length == 0)
        return;
    assert_true(session_rows_begin(&watched->rows, budget, 0, &fault));
    expect_side(watched, &watched->rows.cache.key, 1);
    expect_side(watched, &watched->rows.cache.value, -1);
    session_rows_end(&watched->rows, true);
}

static int64_t seen_from(const struct watched *watched)
{
    const int64_t from = watched->rows.length - watched->window + 1;
    return from > 0 ? from : 0;
}

static void append(struct watched *watched, struct session_budget *budget, int64_t count,
                   struct fill *fill)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session_rows *rows = &watched->rows;
    if (rows->length + count > LENGTH_MAX)
        return;
    session_rows_drop(rows, watched->sinks, seen_from(watched));
    assert_true(rows->dropped <= seen_from(watched));
    fill_floats(fill, watched->numbers + rows->length, count, -1000, 1000);
    assert_true(session_rows_begin(rows, budget, count, &fault));
    for (int64_t head = 0; head < KV_HEADS; head++)
        for (int64_t row = rows->length; row < rows->length + count; row++) {
            for (int64_t d = 0; d < HEAD_DIM; d++)
                number_at(&rows->cache.key, head, row)[d] =
                    watched->numbers[row] + (float)(head + d);
            for (int64_t d = 0; d < V_HEAD_DIM; d++)
                number_at(&rows->cache.value, head, row)[d] =
                    -(watched->numbers[row] + (float)(head + d));
        }
    session_rows_end(rows, true);
}

/* Beside the append itself: twice the window, the first positions, and some pages. A page that was
 * truncated is as large as it was, until positions of it have gone. */
static void expect_bounded(const struct watched *watched, int64_t appended)
{
    const int64_t most = 2 * watched->window + watched->sinks + appended
                         + 4 * (SESSION_PAGE_ROWS + watched->rows.page_rows_max);
    const size_t bytes = session_page_bytes(&SHAPE, most);
    if (watched->rows.dropped == 0
        || watched->rows.length - appended < watched->cut + watched->window)
        return;
    if (session_rows_bytes_held(&watched->rows) > bytes)
        fail_msg("%zu bytes are held, expected at most %zu: window %d, length %d, %d parts",
                 session_rows_bytes_held(&watched->rows), bytes, (int)watched->window,
                 (int)watched->rows.length, (int)watched->rows.part_count);
}

static void add(struct watched *watched, struct fill *fill)
{
    static const int64_t SINKS[] = { 0, 1, 4, 63, 64, 65, 200 };
    const int64_t pages = 1 + fill_below(fill, 4);
    *watched = (struct watched){ .rows.shape = SHAPE };
    watched->rows.page_rows_max = pages * SESSION_PAGE_ROWS;
    watched->window = 1 + fill_below(fill, 4 * watched->rows.page_rows_max);
    watched->sinks = SINKS[fill_below(fill, 7)];
    watched->numbers = calloc(LENGTH_MAX, sizeof(float));
}

static void drop(struct watched *watched)
{
    session_rows_free(&watched->rows);
    free(watched->numbers);
}

/* To where all that is seen is there, or to the first positions. */
static void truncate(struct watched *watched, struct fill *fill)
{
    struct session_rows *rows = &watched->rows;
    const int64_t least = rows->dropped > 0 ? rows->dropped + watched->window - 1 : 0;
    if (fill_below(fill, 4) == 0)
        session_rows_truncate(rows, fill_below(fill, watched->sinks + 1));
    else if (least < rows->length)
        session_rows_truncate(rows, least + fill_below(fill, rows->length - least));
    watched->cut = rows->length;
}

static void fork_into(const struct watched *from, struct watched *to)
{
    float *numbers = to->numbers;
    session_rows_free(&to->rows);
    *to = *from;
    to->numbers = numbers;
    assert_true(session_rows_fork(&from->rows, &to->rows));
    memcpy(to->numbers, from->numbers, LENGTH_MAX * sizeof(float));
}

static void run_script(uint64_t seed)
{
    struct session_budget budget = { .bytes_max = SIZE_MAX };
    struct watched sessions[SESSIONS];
    struct fill fill = { seed };
    for (int i = 0; i < SESSIONS; i++)
        add(&sessions[i], &fill);
    for (int step = 0; step < STEPS; step++) {
        struct watched *one = &sessions[fill_below(&fill, SESSIONS)];
        struct watched *other = &sessions[fill_below(&fill, SESSIONS)];
        const int64_t verb = fill_below(&fill, 12);
        const int64_t count = 1 + (verb < 2 ? fill_below(&fill, 1500) : fill_below(&fill, 40));
        if (verb < 9)
            append(one, &budget, count, &fill);
        else if (verb < 11)
            truncate(one, &fill);
        else if (one != other)
            fork_into(one, other);
        if (verb < 9)
            expect_bounded(one, count);
        if (step % 5 == 4)
            for (int i = 0; i < SESSIONS; i++)
                expect(&sessions[i], &budget);
    }
    for (int i = 0; i < SESSIONS; i++)
        drop(&sessions[i]);
    assert_int_equal(atomic_load(&budget.bytes), 0);
}

TEST(scripts)
{
    for (uint64_t seed = 0; seed < SCRIPTS; seed++)
        run_script(seed);
}

/* What goes of a page that nobody else holds needs no room: the budget may be full. */
TEST(full_budget)
{
    struct session_budget budget = { .bytes_max = SIZE_MAX };
    struct fill fill = { 1 };
    struct watched one;
    add(&one, &fill);
    one.window = one.rows.page_rows_max = 64;
    one.sinks = 4;
    append(&one, &budget, 4000, &fill);
    budget.bytes_max = atomic_load(&budget.bytes);
    for (int i = 0; i < 100; i++)
        append(&one, &budget, 7, &fill);
    expect_bounded(&one, 7);
    expect(&one, &budget);
    drop(&one);
    assert_int_equal(atomic_load(&budget.bytes), 0);
}
