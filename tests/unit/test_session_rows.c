/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_rows.c - random scripts of appends, kept and dropped, truncations and forks, beside
 * a list of what each session must see. Rows that one session sees change for no other one; what is
 * released goes back to the budget. */
#include "fill.h"
#include "operations/session/session_rows.h"
#include "test.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SESSIONS = 6, LENGTH_MAX = 6000, SCRIPTS = 30, STEPS = 120 };
enum { KV_HEADS = 2, HEAD_DIM = 3, V_HEAD_DIM = 2 };

static const struct session_shape SHAPE = { KV_HEADS, HEAD_DIM, V_HEAD_DIM, ATTN_F32 };

/* A session, and the number of each of its positions. */
struct watched {
    struct session_rows rows;
    float *numbers;
};

static void add(struct watched *watched)
{
    *watched = (struct watched){ .rows.shape = SHAPE };
    watched->numbers = calloc(LENGTH_MAX, sizeof(float));
}

static void drop(struct watched *watched)
{
    session_rows_free(&watched->rows);
    free(watched->numbers);
}

static float *number_at(const struct attn_tensor *tensor, int64_t head, int64_t row)
{
    const struct attn_pages *pages = tensor->pages;
    int64_t i = pages->count - 1;
    while (pages->list[i].first > row)
        i--;
    const struct attn_page *page = &pages->list[i];
    return (float *)page->data + head * page->head_stride + (row - page->first) * tensor->stride[2];
}

static void expect_side(const struct attn_tensor *tensor, const float *numbers, int64_t length,
                        float sign)
{
    for (int64_t head = 0; head < KV_HEADS; head++)
        for (int64_t row = 0; row < length; row++)
            for (int64_t d = 0; d < tensor->shape[3]; d++) {
                const float want = sign * (numbers[row] + 0.25f * (float)(head + d));
                if (memcmp(number_at(tensor, head, row) + d, &want, sizeof want) != 0)
                    fail_msg("position %d of %d, head %d: %g, expected %g", (int)row, (int)length,
                             (int)head, (double)number_at(tensor, head, row)[d], (double)want);
            }
}

static void write_side(const struct attn_tensor *tensor, int64_t first, const float *numbers,
                       float sign)
{
    for (int64_t head = 0; head < KV_HEADS; head++)
        for (int64_t row = first; row < tensor->shape[2]; row++)
            for (int64_t d = 0; d < tensor->shape[3]; d++)
                number_at(tensor, head, row)[d] =
                    sign * (numbers[row - first] + 0.25f * (float)(head + d));
}

static void expect_watched(struct watched *watched, struct session_budget *budget)
{
    struct fault fault = { .code = FAULT_NONE };
    assert_true(session_rows_begin(&watched->rows, budget, 0, &fault));
    const struct attn_layer_cache *cache = &watched->rows.cache;
    assert_int_equal(cache->key.shape[2], watched->rows.length);
    expect_side(&cache->key, watched->numbers, watched->rows.length, 1);
    expect_side(&cache->value, watched->numbers, watched->rows.length, -1);
    session_rows_end(&watched->rows, true);
}

static void append(struct watched *watched, struct session_budget *budget, struct fill *fill,
                   bool keeps)
{
    static float added[LENGTH_MAX];
    struct fault fault = { .code = FAULT_NONE };
    const int64_t left = LENGTH_MAX - watched->rows.length;
    const int64_t count = fill_below(fill, 3) ? fill_below(fill, 5) : fill_below(fill, 700);
    if (count > left)
        return;
    fill_floats(fill, added, count, -1000, 1000);
    assert_true(session_rows_begin(&watched->rows, budget, count, &fault));
    const int64_t first = watched->rows.length;
    write_side(&watched->rows.cache.key, first, added, 1);
    write_side(&watched->rows.cache.value, first, added, -1);
    session_rows_end(&watched->rows, keeps);
    if (keeps)
        memcpy(watched->numbers + first, added, (size_t)count * sizeof(float));
    assert_int_equal(watched->rows.length, keeps ? first + count : first);
}

static void fork_into(const struct watched *from, struct watched *to)
{
    drop(to);
    add(to);
    assert_true(session_rows_fork(&from->rows, &to->rows));
    memcpy(to->numbers, from->numbers, LENGTH_MAX * sizeof(float));
}

static void run_script(uint64_t seed)
{
    struct session_budget budget = { .bytes_max = SIZE_MAX };
    struct watched sessions[SESSIONS];
    struct fill fill = { seed };
    for (int i = 0; i < SESSIONS; i++)
        add(&sessions[i]);
    for (int step = 0; step < STEPS; step++) {
        struct watched *one = &sessions[fill_below(&fill, SESSIONS)];
        struct watched *other = &sessions[fill_below(&fill, SESSIONS)];
        const int64_t verb = fill_below(&fill, 10);
        if (verb < 6)
            append(one, &budget, &fill, verb > 0);
        else if (verb < 8)
            session_rows_truncate(&one->rows, fill_below(&fill, one->rows.length + 2));
        else if (one != other)
            fork_into(one, other);
        if (step % 10 == 9)
            for (int i = 0; i < SESSIONS; i++)
                expect_watched(&sessions[i], &budget);
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

/* A cache that grows row by row lies in few pages, and not much more memory than its rows. */
TEST(few_pages)
{
    struct session_budget budget = { .bytes_max = SIZE_MAX };
    struct watched one;
    struct fault fault;
    add(&one);
    for (int i = 0; i < 5000; i++) {
        assert_true(session_rows_begin(&one.rows, &budget, 1, &fault));
        session_rows_end(&one.rows, true);
    }
    assert_true(one.rows.part_count <= 4);
    assert_true(session_rows_bytes_held(&one.rows)
                <= session_rows_bytes(&one.rows)
                       + session_shape_bytes(&SHAPE, SESSION_PAGE_ROWS_MAX));
    drop(&one);
}

/* What has no room, or never will, is refused and changes nothing; a fork takes no room. */
TEST(budget)
{
    const size_t row_bytes = session_shape_bytes(&SHAPE, 1);
    struct session_budget budget = { .bytes_max = 100 * row_bytes };
    struct watched one, other;
    struct fault fault = { .code = FAULT_NONE };
    add(&one);
    assert_true(session_rows_begin(&one.rows, &budget, 3, &fault));
    session_rows_end(&one.rows, true);
    const size_t held = atomic_load(&budget.bytes);
    assert_false(session_rows_begin(&one.rows, &budget, 500, &fault));
    assert_int_equal(fault.code, FAULT_TOO_LARGE);
    assert_false(session_rows_begin(&one.rows, &budget, 62, &fault));
    assert_int_equal(fault.code, FAULT_FULL);
    assert_int_equal(one.rows.length, 3);
    assert_int_equal(atomic_load(&budget.bytes), held);
    assert_true(session_rows_fork(&one.rows, &other.rows));
    assert_int_equal(atomic_load(&budget.bytes), held);
    session_rows_free(&one.rows);
    assert_int_equal(atomic_load(&budget.bytes), held);
    session_rows_free(&other.rows);
    assert_int_equal(atomic_load(&budget.bytes), 0);
    free(one.numbers);
}

/* A cache that grows row by row fills the budget but for a page of 64, whatever it has at once: a
 * larger page that has no room is not waited for. So do groups of I8, but for rows in F32. */
TEST(full_budget)
{
    static const enum attn_dtype DTYPES[] = { ATTN_F32, ATTN_I8 };
    for (int i = 0; i < 2; i++) {
        const struct session_shape shape = { 2, 16, 16, DTYPES[i] };
        const struct session_shape floats = { 2, 16, 16, ATTN_F32 };
        struct session_budget budget = { .bytes_max = session_shape_bytes(&shape, 3008) };
        struct session_rows rows = { .shape = shape };
        struct fault fault = { .code = FAULT_NONE };
        while (session_rows_begin(&rows, &budget, 1, &fault)) {
            assert_int_equal(fault.code, FAULT_NONE);
            for (int64_t h = 0; h < shape.kv_heads; h++) {
                memset(number_at(&rows.cache.key, h, rows.length), 0, 16 * sizeof(float));
                memset(number_at(&rows.cache.value, h, rows.length), 0, 16 * sizeof(float));
            }
            session_rows_end(&rows, true);
        }
        assert_int_equal(fault.code, FAULT_FULL);
        assert_true(atomic_load(&budget.bytes)
                    > budget.bytes_max - session_shape_bytes(&floats, 3 * SESSION_PAGE_ROWS));
        assert_true(rows.length >= 3008 - 64 - (i == 0 ? 0 : 4 * 192));
        session_rows_free(&rows);
        assert_int_equal(atomic_load(&budget.bytes), 0);
    }
}

/* A row needs the memory that it is written to: a page of 2048 positions is not cleared for it. */
TEST(first_row_of_a_page)
{
    enum { FULL = 2048, MACHINE = 4096, MOST = 16 << 20 };
    static unsigned char is_there[MOST / MACHINE + 1];
    const struct session_shape shape = { 8, 128, 128, ATTN_F32 };
    struct session_budget budget = { .bytes_max = SIZE_MAX };
    struct session_rows rows = { .shape = shape };
    struct fault fault = { .code = FAULT_NONE };
    size_t resident = 0;
    assert_true(session_rows_begin(&rows, &budget, FULL, &fault));
    session_rows_end(&rows, true);
    assert_true(session_rows_begin(&rows, &budget, 1, &fault));
    assert_int_equal(rows.part_count, 2);
    const struct session_page *page = rows.parts[1].page;
    assert_int_equal(page->bytes, MOST);
    for (int64_t h = 0; h < shape.kv_heads; h++) {
        memset(number_at(&rows.cache.key, h, FULL), 0, 128 * sizeof(float));
        memset(number_at(&rows.cache.value, h, FULL), 0, 128 * sizeof(float));
    }
    char *begin = page->key - (uintptr_t)page->key % MACHINE;
    assert_int_equal(mincore(begin, MOST, is_there), 0);
    for (size_t i = 0; i < MOST / MACHINE; i++)
        resident += is_there[i] & 1;
    assert_in_range(resident, 16, MOST / MACHINE / 4);
    session_rows_end(&rows, true);
    session_rows_free(&rows);
    assert_int_equal(atomic_load(&budget.bytes), 0);
}

/* Whether the kernel has this flag (proc(5), smaps: "nh", "hg") for the memory of an address. */
static bool has_flag(const char *at, const char *flag)
{
    char line[512];
    bool is_here = false, has = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        uintptr_t begin, end;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
            is_here = (uintptr_t)at >= begin && (uintptr_t)at < end;
        else if (is_here && strncmp(line, "VmFlags:", 8) == 0)
            has = strstr(line, flag) != NULL;
    }
    fclose(file);
    return has;
}

/* Nor is it where the machine makes large pages of whatever it can, and where the memory was that
 * of a full page before: large pages are for full ones. */
TEST(large_pages_are_of_full_ones)
{
    enum { FULL = 2048, MIDDLE = 8 << 20 };
    const struct session_shape shape = { 8, 128, 128, ATTN_F32 };
    struct session_budget budget = { .bytes_max = SIZE_MAX };
    struct session_rows rows = { .shape = shape };
    struct fault fault = { .code = FAULT_NONE };
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0)
        skip(); /* the kernel has none */
    for (int round = 0; round < 3; round++) {
        session_rows_truncate(&rows, 0);
        assert_true(session_rows_begin(&rows, &budget, FULL, &fault));
        assert_true(has_flag(rows.parts[0].page->key + MIDDLE, " hg"));
        session_rows_end(&rows, true);
        assert_true(session_rows_begin(&rows, &budget, 1, &fault));
        assert_true(has_flag(rows.parts[1].page->key + MIDDLE, " nh"));
        session_rows_end(&rows, true);
        assert_true(session_rows_begin(&rows, &budget, FULL - 1, &fault));
        session_rows_end(&rows, true);
        assert_true(session_rows_begin(&rows, &budget, 1, &fault));
        assert_true(has_flag(rows.parts[1].page->key + MIDDLE, " hg"));
        assert_true(has_flag(rows.parts[2].page->key + MIDDLE, " nh"));
        session_rows_end(&rows, true);
    }
    session_rows_free(&rows);
    assert_int_equal(atomic_load(&budget.bytes), 0);
}

/* The row behind a full page waits until what the page has is copied into a larger one: that is
 * little, however long the cache. */
TEST(no_row_waits_for_long_copies)
{
    static const enum attn_dtype DTYPES[] = { ATTN_F32, ATTN_I8 };
    enum { ROWS = 5000, COPIED_MAX = 512, COLUMNS = 16 };
    for (int i = 0; i < 2; i++) {
        struct session_budget budget = { .bytes_max = SIZE_MAX };
        struct session_rows rows = { .shape = { 1, COLUMNS, COLUMNS, DTYPES[i] } };
        struct fault fault = { .code = FAULT_NONE };
        int64_t copied = 0;
        while (rows.length < ROWS) {
            const struct session_page *page = rows.part_count > 0 ? rows.parts[0].page : NULL;
            const int64_t there = page ? session_rows_part_length(&rows, 0) : 0;
            assert_true(session_rows_begin(&rows, &budget, 1, &fault));
            memset(number_at(&rows.cache.key, 0, rows.length), 0, COLUMNS * sizeof(float));
            memset(number_at(&rows.cache.value, 0, rows.length), 0, COLUMNS * sizeof(float));
            session_rows_end(&rows, true);
            if (rows.parts[0].page != page && there > copied)
                copied = there;
        }
        assert_in_range(copied, 1, COPIED_MAX);
        session_rows_free(&rows);
        assert_int_equal(atomic_load(&budget.bytes), 0);
    }
}
