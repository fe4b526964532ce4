/* SPDX-License-Identifier: Apache-2.0 */
/* test_nearest.c - finds the name that a mistyped name was meant to be, and shows what came. */
#include "base/names.h"
#include "test.h"

TEST(nearest)
{
    static const char *const KNOWN[] = { "query",    "key",     "value",      "q_heads",
                                         "kv_heads", "outputs", "window_left" };
    static const char *const PAIRS[][2] = {
        { "querry", "query" },   { "qurey", "query" },
        { "Query", "query" },    { "kye", "key" },
        { "keys", "key" },       { "q_head", "q_heads" },
        { "output", "outputs" }, { "k", NULL },
        { "zebra", NULL },       { "", NULL },
        { "left", NULL },        { "windowleft", "window_left" },
        { "qheads", "q_heads" }, { "kvheads", "kv_heads" },
    };
    char longer[1000];
    for (size_t i = 0; i < sizeof PAIRS / sizeof PAIRS[0]; i++) {
        const char *near = nearest_name(PAIRS[i][0], KNOWN, 7);
        if (near != PAIRS[i][1] && (!near || !PAIRS[i][1] || strcmp(near, PAIRS[i][1]) != 0))
            fail_msg("'%s' is near '%s'", PAIRS[i][0], near ? near : "nothing");
    }
    memset(longer, 'q', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_null(nearest_name(longer, KNOWN, 7));
    assert_null(nearest_name("query", KNOWN, 0));
}

TEST(show)
{
    char shown[8];
    assert_string_equal(name_show(shown, sizeof shown, "", 0), "");
    assert_string_equal(name_show(shown, sizeof shown, "abcdefg", 7), "abcdefg");
    assert_string_equal(name_show(shown, sizeof shown, "abcdefgh", 8), "abcd...");
    assert_string_equal(name_show(shown, sizeof shown, "a\0 \n\x7F\xC3z", 7), "a?\?\?\?\?z");
}
