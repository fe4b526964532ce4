/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_store.c - many sessions: what each of them costs, that they are found, end by their
 * time whatever the clock says, and share what forks of forks share. */
#include "base/clock.h"
#include "operations/session/session_store.h"
#include "problem_count.h"
#include "sdpa_model.h"
#include "test.h"

#include <malloc.h>

enum { MANY = 100000, BYTES_EACH = 1024 };

static const int64_t SECOND = 1000000000;

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

static struct session *add(const char *id, int64_t ttl_ns)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = session_create(model, NULL, model->layer_count);
    assert_non_null(session);
    session->ttl_ns = ttl_ns;
    assert_true(session_store_add(store, session, id, NULL, &fault));
    return session;
}

static void delete (const char *id)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = session_store_look(store, id, NULL, NULL, &fault);
    assert_non_null(session);
    assert_true(session_store_delete(store, session, &fault));
    session_release(session);
}

static int64_t count_all(void)
{
    int64_t total;
    session_store_list(store, NULL, 0, NULL, 0, &total);
    return total;
}

static const char *name_of(char name[16], uint64_t number)
{
    snprintf(name, 16, "n%u", (unsigned)number);
    return name;
}

/* Each takes less than 1 KB, and what it takes is counted; every second one has expired, and the
 * others stay. */
TEST(many)
{
    const uint64_t count = problem_count(MANY);
    struct fault fault = { .code = FAULT_NONE };
    char name[16];
    const size_t before = mallinfo2().uordblks;
    for (uint64_t i = 0; i < count; i++)
        add(name_of(name, i), i % 2 == 0 ? 600 * SECOND : 86400 * SECOND);
    const size_t each = (mallinfo2().uordblks - before) / count;
    print_message("    %zu bytes each\n", each);
    if (PROBLEM_SHARE == 1) /* a sanitizer has an allocator of its own */
        assert_in_range(each, 100, BYTES_EACH);
    assert_in_range(atomic_load(&session_store_budget(store)->bytes) / count, each, BYTES_EACH);
    assert_int_equal(count_all(), count);
    for (uint64_t i = 0; i < count; i += 997) {
        struct session *session = session_store_look(store, name_of(name, i), NULL, NULL, &fault);
        assert_non_null(session);
        session_release(session);
    }
    session_store_sweep(store, clock_now_ns() + 3600 * SECOND);
    assert_int_equal(count_all(), count / 2);
    for (uint64_t i = 1; i < count; i += 2)
        delete (name_of(name, i));
    assert_int_equal(count_all(), 0);
    assert_null(session_store_look(store, name_of(name, count - 1), NULL, NULL, &fault));
    assert_int_equal(fault.code, FAULT_GONE);
    assert_int_equal(atomic_load(&session_store_budget(store)->bytes), 0);
}

/* A clock that stands still, goes back or jumps ends nothing too early, and nothing twice. A call
 * that holds a session keeps it. */
TEST(clock)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *held = add("held", 600 * SECOND);
    const int64_t made_ns = held->used_ns;
    add("soon", 600 * SECOND);
    add("late", 86400 * SECOND);
    const int64_t early[] = { made_ns, made_ns - 1, 0, INT64_MIN / 2, made_ns + 300 * SECOND };
    session_hold(held);
    for (size_t i = 0; i < sizeof early / sizeof early[0]; i++) {
        session_store_sweep(store, early[i]);
        assert_int_equal(count_all(), 3);
    }
    session_store_sweep(store, made_ns + 1200 * SECOND);
    assert_int_equal(count_all(), 2); /* "soon" is gone */
    assert_null(session_store_look(store, "soon", NULL, NULL, &fault));
    assert_int_equal(fault.code, FAULT_GONE);
    session_store_sweep(store, INT64_MAX);
    assert_int_equal(count_all(), 1);
    session_release(held);
    session_store_sweep(store, made_ns);
    assert_int_equal(count_all(), 1);
    session_store_sweep(store, INT64_MAX);
    assert_int_equal(count_all(), 0);
}

static void append_row(struct session *session, float number)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session_rows *rows = &session->layers[0].rows;
    if (rows->shape.kv_heads == 0)
        rows->shape = (struct session_shape){
            .kv_heads = 1, .head_dim = 1, .v_head_dim = 1, .dtype = ATTN_F32
        };
    assert_true(session_rows_begin(rows, session_store_budget(store), 1, &fault));
    const struct session_part *last = &rows->parts[rows->part_count - 1];
    const int64_t place = last->row + rows->length - last->first;
    ((float *)(void *)last->page->key)[place] = number;
    ((float *)(void *)last->page->value)[place] = -number;
    session_rows_end(rows, true);
}

/* Each is a fork of the one before, and all of them live: one page for all. */
TEST(forks_of_forks)
{
    const uint64_t count = problem_count(MANY);
    struct session **all = calloc(count, sizeof *all);
    assert_non_null(all);
    all[0] = session_create(model, NULL, 1);
    append_row(all[0], 1);
    const size_t one = atomic_load(&session_store_budget(store)->bytes);
    for (uint64_t i = 1; i < count; i++)
        assert_non_null(all[i] = session_fork(all[i - 1]));
    assert_int_equal(atomic_load(&session_store_budget(store)->bytes), one);
    for (uint64_t i = 0; i + 1 < count; i++)
        session_release(all[i]);
    assert_int_equal(session_kv_len(all[count - 1]), 1);
    session_release(all[count - 1]);
    assert_int_equal(atomic_load(&session_store_budget(store)->bytes), 0);
    free(all);
}

/* Each fork appends a row, and the one before ends: the rows of all are there, in few pages. */
TEST(a_line_of_forks)
{
    const uint64_t count = problem_count(20000);
    struct session *session = session_create(model, NULL, 1);
    for (uint64_t i = 0; i < count; i++) {
        append_row(session, (float)i);
        struct session *fork = session_fork(session);
        assert_non_null(fork);
        session_release(session);
        session = fork;
    }
    const struct session_rows *rows = &session->layers[0].rows;
    assert_int_equal(rows->length, count);
    for (int64_t i = 0; i < rows->part_count; i++) {
        const struct session_part *part = &rows->parts[i];
        const int64_t end = i + 1 < rows->part_count ? rows->parts[i + 1].first : rows->length;
        for (int64_t at = part->first; at < end; at++)
            assert_true(((float *)(void *)part->page->key)[part->row + at - part->first]
                        == (float)at);
    }
    assert_true(session_rows_bytes_held(rows) <= 3 * session_rows_bytes(rows) + 65536);
    session_release(session);
    assert_int_equal(atomic_load(&session_store_budget(store)->bytes), 0);
}

/* A session of evictable rows, each a page of its own that is larger than all sessions without
 * theirs. */
static struct session *add_evictable(const char *id, struct session *fork)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = fork ? fork : session_create(model, NULL, 1);
    session->is_evictable = true;
    session->ttl_ns = SECOND * 3600;
    if (!fork) {
        session->layers[0].rows.shape = (struct session_shape){
            .kv_heads = 1, .head_dim = 64, .v_head_dim = 64, .dtype = ATTN_F32
        };
        append_row(session, 1);
    }
    session_layer_show(&session->layers[0]);
    assert_true(session_store_add(store, session, id, NULL, &fault));
    return session;
}

static bool is_there(const char *id)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = session_store_look(store, id, NULL, NULL, &fault);
    session_release(session);
    return session != NULL;
}

/* Where memory is short, pages that forks share count once, and none ends whose end does not help.
 */
TEST(evict_forks)
{
    struct session_budget *budget = session_store_budget(store);
    assert_int_equal(atomic_load(&budget->bytes), 0);
    struct session *firm = add_evictable("firm", NULL);
    session_store_set(store, firm, firm->ttl_ns, false);
    add_evictable("of firm", session_fork(firm)); /* its end frees no page */
    struct session *first = add_evictable("first", NULL);
    add_evictable("fork", session_fork(first));
    add_evictable("other", NULL);
    const size_t own = session_own_bytes(firm), page = firm->layers[0].rows.parts[0].page->bytes;
    assert_int_equal(atomic_load(&budget->bytes), 5 * own + 3 * page);
    assert_true(page > 5 * own);
    budget->bytes_max = 5 * own + 3 * page;
    /* two pages and four sessions are all that there is to win */
    assert_false(session_store_evict(store, 4 * own + 2 * page + 1));
    assert_int_equal(count_all(), 5);
    assert_true(session_store_evict(store, page));
    assert_int_equal(atomic_load(&budget->bytes), 3 * own + 2 * page);
    assert_false(is_there("first"));
    assert_false(is_there("fork"));
    assert_true(session_store_evict(store, page)); /* there is room: nobody ends */
    assert_int_equal(count_all(), 3);
    assert_true(session_store_evict(store, 2 * page));
    assert_false(is_there("other"));
    assert_false(session_store_evict(store, 4 * own + 2 * page + 1));
    assert_true(is_there("of firm"));
    delete ("of firm");
    delete ("firm");
    budget->bytes_max = SIZE_MAX;
    assert_int_equal(atomic_load(&budget->bytes), 0);
}

/* For anna; NULL where it has no room, with the fault. */
static struct session *fork_for(struct access_account *account, const struct session *session,
                                struct fault *fault)
{
    struct session *fork = session_fork(session);
    assert_non_null(fork);
    fork->account = access_account_hold(account);
    if (session_count_own(fork, session_store_budget(store), fault))
        return fork;
    session_release(fork);
    return NULL;
}

/* The list of many pages counts for each fork, and goes with it. */
TEST(lists_count)
{
    enum { PARTS = 200 };
    struct session_budget *budget = session_store_budget(store);
    struct access_accounts *accounts = access_accounts_create();
    struct access_account *account = access_accounts_hold(accounts, "anna");
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = session_create(model, NULL, 1);
    const size_t without = session_own_bytes(session);
    append_row(session, 0);
    for (int i = 1; i < PARTS; i++) {
        struct session *fork = session_fork(session);
        append_row(fork, 1); /* behind the same rows, so that the other one needs a page */
        append_row(session, 2);
        session_release(fork);
    }
    assert_int_equal(session->layers[0].rows.part_count, PARTS);
    assert_null(session->layers[0].rows.list);
    const size_t before = atomic_load(&budget->bytes);
    struct session *fork = fork_for(account, session, &fault);
    const size_t one = atomic_load(&budget->bytes) - before;
    assert_int_equal(one, without + PARTS * sizeof(struct session_part));
    assert_int_equal(atomic_load(&account->session_bytes), one);
    budget->bytes_max = before + 2 * one - 1;
    assert_null(fork_for(account, session, &fault));
    assert_int_equal(fault.code, FAULT_FULL);
    budget->bytes_max = SIZE_MAX;
    access_account_limit(account,
                         &(struct access_limits){ .session_bytes = (int64_t)(2 * one - 1) });
    assert_null(fork_for(account, session, &fault));
    assert_int_equal(fault.code, FAULT_QUOTA);
    assert_int_equal(atomic_load(&account->session_bytes), one);
    session_release(fork);
    assert_int_equal(atomic_load(&account->session_bytes), 0);
    access_account_release(account);
    access_accounts_free(accounts);
    assert_int_equal(atomic_load(&budget->bytes), before);
    session_release(session);
    assert_int_equal(atomic_load(&budget->bytes), 0);
}

/* As many as there may be: one more is refused, or ends what has expired or may be evicted, and
 * nothing else. */
TEST(count_max)
{
    enum { MOST = 3 };
    struct session_store *usual = store;
    struct fault fault = { .code = FAULT_NONE };
    store = session_store_create(SIZE_MAX, MOST, NULL);
    assert_non_null(store);
    add("a", 600 * SECOND);
    session_store_set(store, add("b", 600 * SECOND), 600 * SECOND, true);
    struct session *c = add("c", 600 * SECOND);
    assert_true(session_store_takes(store, "d", NULL, &fault));
    add("d", 600 * SECOND);
    assert_false(is_there("b"));
    assert_false(session_store_takes(store, "e", NULL, &fault));
    assert_int_equal(fault.code, FAULT_FULL);
    struct session *e = session_create(model, NULL, model->layer_count);
    assert_false(session_store_add(store, e, "e", NULL, &fault));
    assert_int_equal(fault.code, FAULT_FULL);
    assert_non_null(strstr(fault.message, "3 sessions, as many as there may be (--sessions-max)"));
    assert_int_equal(count_all(), MOST);
    delete ("d");
    session_store_set(store, c, 0, false); /* it has expired, and no sweep has come */
    add("e", 600 * SECOND);
    add("f", 600 * SECOND);
    assert_false(is_there("c"));
    assert_true(is_there("a"));
    assert_int_equal(count_all(), MOST);
    session_store_free(store);
    store = usual;
}

/* Where there are as many as there may be, and memory is short, what makes room is found without a
 * look at all of them: this ends soon. The least recently used ones end, in their order. */
TEST(many_evictable)
{
    const int64_t most = (int64_t)problem_count(MANY);
    struct session_store *usual = store;
    char name[16];
    store = session_store_create(SIZE_MAX, most, NULL);
    assert_non_null(store);
    for (int64_t i = 0; i < most; i++)
        session_store_set(store, add(name_of(name, (uint64_t)i), 600 * SECOND), 600 * SECOND, true);
    for (int64_t i = 0; i < most; i += 2) { /* every second one is used, the others are not */
        struct fault fault = { .code = FAULT_NONE };
        session_release(session_store_find(store, name_of(name, (uint64_t)i), NULL, NULL, &fault));
    }
    for (int64_t i = 0; i < most / 2; i++) {
        assert_true(is_there(name_of(name, (uint64_t)(2 * i + 1))));
        add(name_of(name, (uint64_t)(most + i)), 600 * SECOND);
        assert_false(is_there(name_of(name, (uint64_t)(2 * i + 1))));
    }
    assert_int_equal(count_all(), most);
    struct session_budget *budget = session_store_budget(store);
    budget->bytes_max = atomic_load(&budget->bytes);
    const size_t own = budget->bytes_max / (size_t)most;
    for (int64_t i = 0; i < most / 2; i++) {
        assert_true(is_there(name_of(name, (uint64_t)(2 * i))));
        assert_true(session_store_evict(store, (size_t)(i + 1) * own));
        assert_false(is_there(name_of(name, (uint64_t)(2 * i))));
    }
    assert_int_equal(count_all(), most - most / 2);
    session_store_free(store);
    store = usual;
}

/* What a name has is known without a look at all sessions: this ends soon. */
TEST(many_of_others)
{
    const int64_t most = (int64_t)problem_count(MANY);
    struct fault fault = { .code = FAULT_NONE };
    struct access_accounts *accounts = access_accounts_create();
    struct access_key key = { .account = access_accounts_hold(accounts, "anna"),
                              .limits = { .sessions = 1 } };
    char name[16];
    for (int64_t i = 0; i < most; i++)
        add(name_of(name, (uint64_t)i), 600 * SECOND);
    assert_true(session_store_takes(store, "own", &key, &fault));
    struct session *own = session_create(model, NULL, model->layer_count);
    own->ttl_ns = 600 * SECOND;
    assert_true(session_store_add(store, own, "own", &key, &fault));
    for (int64_t i = 0; i < most; i++)
        assert_false(session_store_takes(store, "more", &key, &fault));
    assert_int_equal(fault.code, FAULT_QUOTA);
    session_store_set(store, own, 0, false); /* it has expired, and no sweep has come */
    assert_true(session_store_takes(store, "more", &key, &fault));
    for (int64_t i = 0; i < most; i++)
        delete (name_of(name, (uint64_t)i));
    access_account_release(key.account);
    access_accounts_free(accounts);
}

ALL_TESTS(open_store, close_store);
