/* SPDX-License-Identifier: Apache-2.0 */
/* What two answers to equal requests may differ in, and what callers are called in them. */
#include "../bench/traffic_equal.h"
#include "test.h"

static void expect_left(const char *body, const char *left)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", body);
    const size_t size = equal_strip(copy, strlen(copy));
    copy[size] = '\0';
    assert_string_equal(copy, left);
}

TEST(times_and_random_names_may_differ)
{
    expect_left("{\"error\":\"no\",\"request_id\":\"0a1b\"}", "{\"error\":\"no\",\"request_id\":}");
    expect_left("{\"age_ms\":12,\"ttl_ms\":5,\"expires\":\"2026-01-01T00:00:00Z\"}",
                "{\"age_ms\":,\"ttl_ms\":5,\"expires\":}");
    expect_left("{\"id\":\"cmpl-77\",\"created\":1}", "{\"id\":,\"created\":}");
}

TEST(all_else_may_not)
{
    static const char *const BODIES[] = {
        "{\"tokens\":[{\"id\":1,\"text\":\"a\"}],\"weights\":[[0.5]]}",
        "{\"id\":\"42\",\"outputs\":[]}",
        "",
    };
    for (int i = 0; i < 3; i++)
        expect_left(BODIES[i], BODIES[i]);
}

TEST(every_caller_counts_as_the_first)
{
    char body[] = "{\"session\":\"own-17\",\"at\":\"common-02\",\"owner\":\"cyd\",\"x\":\"own-\"}";
    kinds_name_first(body, strlen(body), 17);
    assert_string_equal(
        body, "{\"session\":\"own-00\",\"at\":\"common-00\",\"owner\":\"ann\",\"x\":\"own-\"}");
}

TEST(calls_that_belong_together_are_sent_together)
{
    struct kind_calls kinds;
    int longest = 0;
    kinds_make(&kinds);
    for (int i = 0; i < kinds.count; i += kinds_length(&kinds, i)) {
        assert_false(kinds.calls[i].goes_on);
        longest = kinds_length(&kinds, i) > longest ? kinds_length(&kinds, i) : longest;
    }
    assert_true(longest >= 6);
    kinds_free(&kinds);
}
