/* SPDX-License-Identifier: Apache-2.0 */
/* test_kept_store.c - many kept traces: each takes no more memory than it counts for, all are found
 * by their ids, and they end in the order of their times. */
#include "base/clock.h"
#include "operations/trace/kept_store.h"
#include "problem_count.h"
#include "sdpa_model.h"
#include "test.h"

#include <malloc.h>

enum { MANY = 100000, FEW = 1000 };

static const int64_t SECOND = 1000000000;

static struct model_store *models;
static struct model *model;
static struct kept_store *store;

static int open_store(void **state)
{
    model = sdpa_model_open(&models);
    store = kept_store_create(SIZE_MAX);
    assert_non_null(store);
    return 0;
}

static int close_store(void **state)
{
    kept_store_free(store);
    sdpa_model_close(models, model);
    return 0;
}

/* Keeps a trace of one layer, as trace_keep.c does. Returns the bytes that it counts for. */
static size_t keep(int64_t length, int64_t keep_ns, char id[TRACE_ID_MAX + 1])
{
    const struct kept_shape shape = {
        .q_heads = 2, .kv_heads = 1, .head_dim = 8, .q_len = length, .kv_len = length
    };
    struct fault fault = { .code = FAULT_NONE };
    struct kept_size size = kept_trace_size(1);
    assert_true(kept_layer_count(&size, &shape));
    assert_true(kept_store_reserve(store, size.block + size.beside, NULL, &fault));
    struct kept_trace *kept = kept_trace_create(model, 1, &size);
    assert_non_null(kept);
    assert_true(kept_layer_make(kept, 0, &shape));
    assert_true(kept_store_publish(store, kept, keep_ns, id, &fault));
    return size.block + size.beside;
}

static void skip_one(void *context, const struct kept_trace *kept)
{
    (void)context;
    (void)kept;
}

static int64_t count_all(void)
{
    return kept_store_list(store, NULL, 0, 0, skip_one, NULL);
}

/* Memory that stays is counted as it is held, not by what was asked for of it: an arena of a
 * request takes blocks of 64 KiB. */
TEST(bytes)
{
    const int64_t lengths[] = { 0, 1, 7, 40, 300, 3000 };
    char id[TRACE_ID_MAX + 1];
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        const uint64_t count = problem_count(lengths[i] < 1000 ? FEW : FEW / 20);
        size_t counted = 0;
        for (uint64_t n = 0; n < count; n++)
            counted += keep(lengths[i], 3600 * SECOND, id);
        const size_t held = mallinfo2().uordblks + mallinfo2().hblkhd - before;
        print_message("    %d rows: %zu bytes held, %zu counted\n", (int)lengths[i],
                      held / (size_t)count, counted / (size_t)count);
        if (PROBLEM_SHARE == 1) /* a sanitizer has an allocator of its own */
            assert_in_range(held, 1, counted);
    }
}

/* To find one of many, or that none has ended, does not look at all of them: this ends soon. */
TEST(many)
{
    const uint64_t count = problem_count(MANY);
    struct fault fault = { .code = FAULT_NONE };
    char(*ids)[TRACE_ID_MAX + 1] = calloc(count, sizeof *ids);
    assert_non_null(ids);
    for (uint64_t i = 0; i < count; i++)
        keep(0, (int64_t)(i * 7919 % count + 600) * SECOND, ids[i]);
    assert_int_equal(count_all(), count);
    for (uint64_t i = 0; i < count; i++) {
        struct kept_trace *kept = kept_store_find(store, ids[i], NULL, &fault);
        assert_non_null(kept);
        assert_string_equal(kept->id, ids[i]);
        kept_trace_release(kept);
    }
    for (uint64_t i = 0; i < count; i += 2) /* those behind them in the list take their places */
        assert_true(kept_store_delete(store, ids[i], NULL, &fault));
    assert_int_equal(count_all(), count / 2);
    for (uint64_t i = 0; i < count; i++) {
        struct kept_trace *kept = kept_store_find(store, ids[i], NULL, &fault);
        assert_int_equal(kept != NULL, i % 2 == 1);
        kept_trace_release(kept);
    }
    assert_null(kept_store_find(store, "none", NULL, &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    free(ids);
}

/* Each ends at its time, however many others were made, ended or deleted before. */
TEST(ends)
{
    enum { COUNT = 1000 };
    static char ids[COUNT][TRACE_ID_MAX + 1];
    struct fault fault = { .code = FAULT_NONE };
    const int64_t now_ns = clock_now_ns();
    int64_t left = 0;
    for (int i = 0; i < COUNT; i++)
        keep(1, (i * 619 % COUNT + 1) * 100 * SECOND, ids[i]);
    for (int i = 0; i < COUNT; i += 10)
        assert_true(kept_store_delete(store, ids[i], NULL, &fault));
    for (int step = 0; step < COUNT; step += 50) {
        kept_store_sweep(store, now_ns + step * 100 * SECOND + 50 * SECOND);
        left = 0;
        for (int i = 0; i < COUNT; i++)
            left += i % 10 != 0 && i * 619 % COUNT >= step;
        assert_int_equal(count_all(), left);
    }
    kept_store_sweep(store, now_ns + (COUNT + 1) * 100 * SECOND);
    assert_int_equal(count_all(), 0);
    assert_null(kept_store_find(store, ids[1], NULL, &fault));
    assert_int_equal(fault.code, FAULT_GONE);
}

EACH_TEST(open_store, close_store);
