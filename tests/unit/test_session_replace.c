/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_replace.c - sessions in place of others of the same id, for every order in which
 * those that begin them succeed and fail: the last one that succeeds has the place, or else the one
 * that was there. */
#include "operations/session/session_store.h"
#include "sdpa_model.h"
#include "test.h"

enum { BEGUN = 3, OUTCOMES = 1 << BEGUN, ORDERS = 6 };

static const int ORDER[ORDERS][BEGUN] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                          { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

static struct model_store *models;
static struct model *model;
static struct session_store *store;

static int open_store(void **state)
{
    model = sdpa_model_open(&models);
    store = session_store_create(SIZE_MAX, INT64_MAX, NULL);
    assert_non_null(store);
    return 0;
}

static int close_store(void **state)
{
    session_store_free(store);
    sdpa_model_close(models, model);
    return 0;
}

/* Held for the caller. */
static struct session *begin(void)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = session_create(model, NULL, model->layer_count);
    assert_non_null(session);
    session->ttl_ns = INT64_C(86400) * 1000000000;
    session_hold(session);
    assert_true(session_store_replace(store, session, "m:1", NULL, &fault));
    return session;
}

static void end(struct session *session, bool is_good)
{
    if (is_good)
        session_store_keep(store, session);
    else
        session_store_put_back(store, session);
}

/* How many there are; *first is the first of them, held. */
static int64_t list_all(struct session **first)
{
    int64_t total;
    const int64_t held = session_store_list(store, NULL, 0, first, first ? 1 : 0, &total);
    assert_int_equal(held, first ? 1 : 0);
    return total;
}

static void expect_in_place(const struct session *expected)
{
    struct fault fault;
    struct session *listed;
    struct session *found = session_store_look(store, "m:1", NULL, NULL, &fault);
    assert_ptr_equal(found, expected);
    session_release(found);
    assert_int_equal(list_all(&listed), 1);
    assert_ptr_equal(listed, expected);
    session_release(listed);
}

static void delete_it(struct session *session, bool is_there)
{
    struct fault fault;
    assert_int_equal(session_store_delete(store, session, &fault), is_there);
    if (!is_there)
        assert_int_equal(fault.code, FAULT_GONE);
}

TEST(orders)
{
    for (int outcome = 0; outcome < OUTCOMES; outcome++)
        for (int order = 0; order < ORDERS; order++) {
            struct session *there = begin(), *begun[BEGUN], *expected = there;
            session_store_keep(store, there);
            for (int i = 0; i < BEGUN; i++) {
                begun[i] = begin();
                if (outcome >> i & 1)
                    expected = begun[i];
            }
            expect_in_place(begun[BEGUN - 1]);
            for (int i = 0; i < BEGUN; i++)
                end(begun[ORDER[order][i]], outcome >> ORDER[order][i] & 1);
            expect_in_place(expected);
            delete_it(expected, true);
            for (int i = 0; i < BEGUN; i++)
                session_release(begun[i]);
            session_release(there);
            assert_int_equal(list_all(NULL), 0);
        }
}

/* What has lost its place is not ended by name: who has the place stays. */
TEST(delete_aside)
{
    struct session *one = begin(), *other = begin();
    session_store_keep(store, one);
    delete_it(one, false);
    expect_in_place(other);
    end(other, true);
    delete_it(one, false);
    expect_in_place(other);
    delete_it(other, true);
    session_release(one);
    session_release(other);
}

/* The one in place is deleted before it is known whether it stays: the ones before it end, too. */
TEST(deleted_in_place)
{
    for (int is_good = 0; is_good < 2; is_good++) {
        struct session *one = begin(), *other = begin();
        session_store_keep(store, one);
        delete_it(other, true);
        end(other, is_good);
        assert_int_equal(list_all(NULL), 0);
        session_release(one);
        session_release(other);
    }
}

ALL_TESTS(open_store, close_store);
