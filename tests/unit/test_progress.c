/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress.c - places of calls in flight: who sees them, what they say, and how many there
 * are. */
#include "access/access_account.h"
#include "call/progress.h"
#include "test.h"

#include <stdio.h>

static bool is_seen(struct progress_store *store, const char *id, const struct access_key *key,
                    struct progress_seen *seen)
{
    struct fault fault = { .code = FAULT_NONE };
    const bool found = progress_find(store, id, key, seen, &fault);
    assert_int_equal(fault.code, found ? FAULT_NONE : FAULT_NOT_FOUND);
    return found;
}

TEST(life)
{
    struct progress_store *store = progress_store_create();
    struct progress_seen seen;
    assert_non_null(store);
    assert_false(is_seen(store, "a", NULL, &seen));
    struct progress *place = progress_begin(store, "a", NULL);
    assert_true(is_seen(store, "a", NULL, &seen));
    assert_true(seen.queued && seen.layers == 0 && seen.of == 0);
    progress_start(place);
    progress_set(place, 3, 12);
    assert_true(is_seen(store, "a", NULL, &seen));
    assert_true(!seen.queued && seen.layers == 3 && seen.of == 12);
    progress_end(store, place);
    assert_false(is_seen(store, "a", NULL, &seen));
    progress_store_free(store);
}

/* A place is for its account, and for keys that see all. */
TEST(owners)
{
    struct progress_store *store = progress_store_create();
    struct access_account one = { .name = "one" }, two = { .name = "two" };
    const struct access_key first = { .account = &one, .scopes = 1U << ACCESS_INFER };
    const struct access_key other = { .account = &two, .scopes = 1U << ACCESS_INFER };
    const struct access_key all = { .account = &two, .scopes = 1U << ACCESS_ADMIN };
    struct progress_seen seen;
    struct progress *place = progress_begin(store, "a", &first);
    assert_true(is_seen(store, "a", &first, &seen));
    assert_false(is_seen(store, "a", &other, &seen));
    assert_true(is_seen(store, "a", &all, &seen));
    progress_end(store, place);
    progress_store_free(store);
}

/* Beyond the last place calls have none, and a place that comes free is taken again. Of equal ids
 * the latest is seen. */
TEST(places)
{
    struct progress_store *store = progress_store_create();
    struct progress *places[PROGRESS_MAX];
    struct progress_seen seen;
    char id[32];
    for (int i = 0; i < PROGRESS_MAX; i++) {
        snprintf(id, sizeof id, "%d", i / 2);
        places[i] = progress_begin(store, id, NULL);
        assert_non_null(places[i]);
        progress_set(places[i], i, PROGRESS_MAX);
    }
    assert_null(progress_begin(store, "more", NULL));
    assert_false(is_seen(store, "more", NULL, &seen));
    progress_end(store, NULL);
    assert_true(is_seen(store, "7", NULL, &seen) && seen.layers == 15);
    progress_end(store, places[15]);
    assert_true(is_seen(store, "7", NULL, &seen) && seen.layers == 14);
    places[15] = progress_begin(store, "more", NULL);
    assert_true(is_seen(store, "more", NULL, &seen) && seen.queued && seen.layers == 0);
    for (int i = 0; i < PROGRESS_MAX; i++)
        progress_end(store, places[i]);
    assert_false(is_seen(store, "0", NULL, &seen));
    progress_store_free(store);
}

ALL_TESTS(NULL, NULL);
