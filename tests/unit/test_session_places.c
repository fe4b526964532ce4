/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_places.c - random makings, ends, uses and changes of sessions, against a plain list:
 * what expires next, what was used longest ago, and what a list shows, are always the same. */
#include "fill.h"
#include "operations/session/session_places.h"
#include "problem_count.h"
#include "test.h"

enum { SESSIONS = 200, STEPS = 20000 };

static struct access_account anna = { .name = "anna" }, bert = { .name = "bert" };

/* In the order of their making. */
static struct session *there[SESSIONS];
static int count;
static struct session_places places;
static struct fill fill;

static int64_t draw(int64_t below)
{
    return fill_below(&fill, below);
}

static void make(int64_t now_ns)
{
    struct session *session = calloc(1, sizeof *session);
    assert_non_null(session);
    session->account = draw(2) ? &anna : &bert;
    session->created_ns = now_ns;
    session->used_ns = now_ns - draw(50); /* as one that a start has read */
    session->ttl_ns = 1 + draw(1000);
    session->is_evictable = draw(3) == 0;
    assert_true(session_places_put(&places, session));
    there[count++] = session;
}

static void end(int number)
{
    struct session *session = there[number];
    session_places_take_out(&places, session);
    count--;
    memmove(&there[number], &there[number + 1], (size_t)(count - number) * sizeof *there);
    free(session);
}

static void use_or_change(struct session *session, int64_t now_ns)
{
    session->used_ns = now_ns;
    if (draw(4) > 0)
        return;
    session->ttl_ns = 1 + draw(1000);
    session->is_evictable = draw(3) == 0;
    session_places_change(&places, session);
}

static void expect_expired(int64_t now_ns)
{
    int64_t first_ns = INT64_MAX;
    for (int i = 0; i < count; i++)
        if (there[i]->used_ns + there[i]->ttl_ns < first_ns)
            first_ns = there[i]->used_ns + there[i]->ttl_ns;
    struct session *expired = session_places_expired(&places, now_ns);
    assert_int_equal(expired != NULL, count > 0 && first_ns <= now_ns);
    if (expired)
        assert_int_equal(expired->used_ns + expired->ttl_ns, first_ns);
}

static void expect_unused(void)
{
    const struct session *oldest = NULL;
    for (int i = 0; i < count; i++)
        if (there[i]->is_evictable && (!oldest || there[i]->used_ns < oldest->used_ns))
            oldest = there[i];
    struct session *unused = session_places_unused(&places);
    assert_int_equal(unused != NULL, oldest != NULL);
    if (unused)
        assert_int_equal(unused->used_ns, oldest->used_ns);
}

static void expect_list(const struct access_account *account)
{
    int64_t next = 0;
    for (int i = 0; i < count; i++)
        if (!account || there[i]->account == account)
            assert_ptr_equal(session_places_next(&places, !account, account, &next), there[i]);
    assert_null(session_places_next(&places, !account, account, &next));
}

static void step(int64_t now_ns)
{
    const int64_t what = draw(10);
    if (what < 3 && count < SESSIONS)
        make(now_ns);
    else if (what < 5 && count > 0)
        end((int)draw(count));
    else if (count > 0)
        use_or_change(there[draw(count)], now_ns);
    if (draw(50) == 0)
        for (int number = count - 1; number >= 0; number -= 3)
            end(number); /* many holes */
    assert_int_equal(places.count, count);
    expect_expired(now_ns - 500 + draw(1000));
    expect_unused();
    expect_list(draw(2) ? NULL : draw(2) ? &anna : &bert);
}

TEST(random)
{
    fill.state = 1;
    for (uint64_t i = 0; i < problem_count(STEPS); i++)
        step(1000000 + (int64_t)i);
    while (count > 0)
        end(count - 1);
    session_places_free(&places);
}

/* What is passed over is found again once it is let in. */
TEST(pass)
{
    fill.state = 2;
    while (count < SESSIONS)
        make(1000000 + count);
    int64_t left = SESSIONS;
    for (struct session *session; (session = session_places_expired(&places, INT64_MAX)); left--)
        session_places_pass(&places, session);
    assert_int_equal(left, 0);
    assert_null(session_places_unused(&places));
    expect_list(NULL);
    for (int i = 0; i < count; i++)
        session_places_let_in(&places, there[i]);
    expect_expired(INT64_MAX);
    expect_unused();
    while (count > 0)
        end((int)draw(count));
    session_places_free(&places);
}

/* A start reads sessions from a directory in any order. */
TEST(sort)
{
    fill.state = 3;
    for (int i = 0; i < SESSIONS; i++)
        make(1000000 + i * 619 % SESSIONS);
    for (int i = SESSIONS - 1; i > 0; i -= 7)
        end(i);
    session_places_sort(&places);
    for (int i = 1; i < count; i++) /* the plain list, sorted */
        for (int j = i; j > 0 && there[j]->created_ns < there[j - 1]->created_ns; j--) {
            struct session *other = there[j];
            there[j] = there[j - 1];
            there[j - 1] = other;
        }
    expect_list(NULL);
    expect_list(&anna);
    expect_unused();
    while (count > 0)
        end((int)draw(count));
    session_places_free(&places);
}
