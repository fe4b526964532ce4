/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_file_make.c - a session of a file where memory is short: evictable sessions make
 * room, and where the machine has none the fault is memory. */
#include "operations/session/session_file_read.h"
#include "sdpa_model.h"
#include "test.h"

static struct model_store *models;
static struct model *model;

static int open_models(void **state)
{
    model = sdpa_model_open(&models);
    return 0;
}

static int close_models(void **state)
{
    sdpa_model_close(models, model);
    return 0;
}

/* A session of one whole group of int8 that has this shape. The numbers are zeros of the file. */
static struct session *make(struct session_store *store, int64_t kv_heads, int64_t columns,
                            struct fault *fault)
{
    static const int64_t group_rows = ATTN_I8_ROWS;
    static const char zeros[1024];
    const struct safetensors_entry numbers = { .data = zeros };
    const struct safetensors_entry lengths = { .data = &group_rows };
    struct session_file_layer layer = {
        .shape = { kv_heads, columns, columns, ATTN_I8 },
        .lengths = { .rows = ATTN_I8_ROWS, .groups = 1 },
        .kv_len = ATTN_I8_ROWS,
    };
    for (int side = 0; side < SESSION_FILE_SIDE_COUNT; side++)
        layer.entries[side] = side == SESSION_FILE_GROUP_ROWS ? &lengths : &numbers;
    const struct session_file_read read = { .dtype = ATTN_I8,
                                            .kv_len_max = INT64_MAX,
                                            .ttl_ns = INT64_C(3600000000000),
                                            .is_evictable = true,
                                            .layers = &layer,
                                            .layer_count = 1 };
    fault->code = FAULT_NONE;
    return session_file_make(&read, model, store, NULL, fault);
}

/* The budget has room for the numbers, and none for the page that they lie in: what is evictable
 * ends. */
TEST(groups_make_room)
{
    struct session_store *store = session_store_create(SIZE_MAX, INT64_MAX, NULL);
    struct session_budget *budget = session_store_budget(store);
    struct fault fault;
    struct session *old = make(store, 1, 1, &fault);
    assert_non_null(old);
    const size_t page = atomic_load(&budget->bytes);
    assert_true(session_store_add(store, old, "old", NULL, &fault));
    budget->bytes_max = 2 * page - 1;
    struct session *made = make(store, 1, 1, &fault);
    assert_non_null(made);
    assert_int_equal(fault.code, FAULT_NONE);
    assert_int_equal(atomic_load(&budget->bytes), page);
    assert_null(session_store_look(store, "old", NULL, NULL, &fault));
    assert_int_equal(fault.code, FAULT_GONE);
    assert_null(make(store, 1, 1, &fault)); /* nothing is evictable: made is in no store */
    assert_int_equal(fault.code, FAULT_FULL);
    session_release(made);
    session_store_free(store);
}

/* The budget has room for more than the machine can have: nothing that ends helps. */
TEST(groups_without_memory)
{
    enum { HEADS = 1 << 20, COLUMNS = 1 << 20 }; /* 128 TiB */
    struct session_store *store = session_store_create(SIZE_MAX, INT64_MAX, NULL);
    struct fault fault;
    struct session *old = make(store, 1, 1, &fault);
    assert_non_null(old);
    assert_true(session_store_add(store, old, "old", NULL, &fault));
    const size_t before = atomic_load(&session_store_budget(store)->bytes);
    assert_null(make(store, HEADS, COLUMNS, &fault));
    assert_int_equal(fault.code, FAULT_MEMORY);
    assert_int_equal(atomic_load(&session_store_budget(store)->bytes), before);
    struct session *still = session_store_look(store, "old", NULL, NULL, &fault);
    assert_non_null(still);
    session_release(still);
    session_store_free(store);
}

ALL_TESTS(open_models, close_models);
