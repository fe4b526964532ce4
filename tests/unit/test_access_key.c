/* SPDX-License-Identifier: Apache-2.0 */
/* test_access_key.c - what a key may do: scopes that hold others, and patterns of models. */
#include "access/access_key.h"
#include "test.h"

static struct access_key key_with(unsigned scopes, char *patterns)
{
    return (struct access_key){ .scopes = scopes, .patterns = patterns };
}

TEST(scopes)
{
    for (int has = ACCESS_ANY + 1; has < ACCESS_SCOPE_COUNT; has++) {
        const struct access_key key = key_with(1u << has, NULL);
        for (int asked = 0; asked < ACCESS_SCOPE_COUNT; asked++) {
            const bool expected = asked == ACCESS_OPEN || asked == ACCESS_ANY || asked == has
                                  || has == ACCESS_ADMIN
                                  || (has == ACCESS_SESSIONS_ALL && asked == ACCESS_SESSIONS);
            assert_int_equal(access_key_may(&key, (enum access_scope)asked), expected);
        }
        assert_int_equal(access_scope_find(access_scope_name((enum access_scope)has)), has);
    }
    for (int asked = 0; asked < ACCESS_SCOPE_COUNT; asked++)
        assert_true(access_key_may(NULL, (enum access_scope)asked));
    assert_int_equal(access_scope_find(""), ACCESS_OPEN);
    assert_int_equal(access_scope_find("any"), ACCESS_OPEN);
    assert_string_equal(access_scope_nearest("metric"), "metrics");
    assert_null(access_scope_nearest("zebra"));
}

TEST(models)
{
    static const struct {
        char patterns[32]; /* each ended by NUL, then an empty one */
        const char *name;
        bool may;
    } cases[] = {
        { "demo\0", "demo", true },
        { "demo\0", "demo2", false },
        { "demo\0", "dem", false },
        { "demo\0", "Demo", false },
        { "a\0demo\0", "demo", true },
        { "team-*\0", "team-", true },
        { "team-*\0", "team-a.b", true },
        { "team-*\0", "team", false },
        { "*\0", "x", true },
        { "*-a\0", "x-a", true },
        { "*-a\0", "x-a-a", true },
        { "*-a\0", "x-ab", false },
        { "a*b*c\0", "abc", true },
        { "a*b*c\0", "aXbYbZc", true },
        { "a*b*c\0", "aXcYb", false },
        { "a**b\0", "ab", true },
        { "*a*a*a*a*b\0", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char patterns[32];
        memcpy(patterns, cases[i].patterns, sizeof patterns);
        struct access_key key = key_with(1u << ACCESS_INFER, patterns);
        assert_int_equal(access_key_may_infer(&key, cases[i].name), cases[i].may);
        key.scopes = 1u << ACCESS_INFER | 1u << ACCESS_ADMIN;
        assert_true(access_key_may_infer(&key, cases[i].name));
        key.scopes = 1u << ACCESS_MODELS;
        assert_false(access_key_may_infer(&key, cases[i].name));
    }
    const struct access_key all = key_with(1u << ACCESS_INFER, NULL);
    assert_true(access_key_may_infer(&all, "demo"));
    assert_true(access_key_may_infer(NULL, "demo"));
}
