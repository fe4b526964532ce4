/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_regex.c - the matches of patterns of tokenizer files, and patterns that take too
 * long. */
#include "models/tokenizer/regex.h"
#include "test.h"

static struct regex *compiled(const char *pattern)
{
    struct regex *regex;
    struct fault fault = { 0 };
    if (!regex_create(&regex, pattern, strlen(pattern), &fault))
        fail_msg("%s: %s", pattern, fault.message);
    return regex;
}

/* Writes "start-end " of each match, or the fault's code. */
static void write_matches(char *out, size_t out_size, const struct regex *regex, const char *text,
                          size_t size)
{
    struct regex_scan scan;
    struct fault fault = { 0 };
    bool found = true;
    int64_t start, end;
    size_t used = 0;
    out[0] = 0;
    struct work_limit limit;
    work_limit_init(&limit, NULL);
    limit.text_bytes = (int64_t)size;
    regex_scan_init(&scan, regex, text, (int64_t)size, &limit);
    while (found) {
        if (!regex_scan_next(&scan, &found, &start, &end, &fault)) {
            snprintf(out, out_size, "%s", fault_code_name(fault.code));
            break;
        }
        if (found && used < out_size)
            used += (size_t)snprintf(out + used, out_size - used, "%d-%d ", (int)start, (int)end);
    }
    regex_scan_free(&scan);
}

static void assert_matches(const char *pattern, const char *text, const char *expected)
{
    struct regex *regex = compiled(pattern);
    char matches[1024];
    write_matches(matches, sizeof(matches), regex, text, strlen(text));
    assert_string_equal(matches, expected);
    regex_free(regex);
}

TEST(matches_lie_from_left_to_right)
{
    assert_matches("'s|'t| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                   "it's  12 \xc3\xa4rger!\n", "0-2 2-4 4-5 5-8 8-15 15-16 16-17 ");
    assert_matches("\\p{Han}+",
                   "a\xe4\xb8\xad\xe6\x96\x87"
                   "b\xe4\xb8\xad",
                   "1-7 8-11 ");
    assert_matches("x", "abc", "");
    assert_matches("x", "", "");
}

/* An empty match directly behind another match is left out. */
TEST(empty_matches)
{
    assert_matches("",
                   "\xc3\xa4"
                   "b",
                   "0-0 2-2 3-3 ");
    assert_matches("b*", "abba", "0-0 1-3 4-4 ");
    assert_matches("b|(?=d)", "abcdd", "1-2 3-3 4-4 ");
}

/* Each of these characters is in Unicode 16, as in the reference's engine, whatever the version of
 * the engine here. */
TEST(properties_are_those_of_unicode_16)
{
    assert_matches("\\p{L}", "\u1c89\U0002EBF0\U00031350\uA7DA", "0-3 3-7 7-11 11-14 ");
    assert_matches("\\p{Lu}+|\\p{Ll}+", "\u1c89\u1c8a", "0-3 3-6 ");
    assert_matches("[^\\p{N}]|\\p{Nd}{2}", "\U00010D40\U00010D41", "0-8 ");
    assert_matches("\\P{M}", "a\u0897", "0-1 ");
    assert_matches("[\\p{P}\\p{S}]", "\u1b4e\u2427a", "0-3 3-6 ");
    assert_matches("\\p{Han}+", "\U00031350\u4e00", "0-7 ");
    assert_matches("\\p{Cn}", "\u1c89\u1c8b", "3-6 ");
}

TEST(a_scan_goes_over_several_texts)
{
    struct regex *regex = compiled("a+");
    struct regex_scan scan;
    struct fault fault;
    bool found;
    int64_t start, end;
    struct work_limit limit;
    work_limit_init(&limit, NULL);
    regex_scan_init(&scan, regex, "xaa", 3, &limit);
    assert_true(regex_scan_next(&scan, &found, &start, &end, &fault));
    assert_true(found && start == 1 && end == 3);
    regex_scan_restart(&scan, "a", 1);
    assert_true(regex_scan_next(&scan, &found, &start, &end, &fault));
    assert_true(found && start == 0 && end == 1);
    assert_true(regex_scan_next(&scan, &found, &start, &end, &fault));
    assert_false(found);
    regex_scan_free(&scan);
    regex_scan_free(&scan);
    regex_free(regex);
}

static void assert_refused(const char *pattern, size_t size, const char *part)
{
    struct regex *regex = NULL;
    struct fault fault = { 0 };
    assert_false(regex_create(&regex, pattern, size, &fault));
    assert_null(regex);
    assert_int_equal(fault.code, FAULT_OPTION);
    if (!strstr(fault.message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, fault.message);
}

TEST(what_is_no_pattern_is_refused)
{
    static const char *const wrong[] = { "(a", "[a", "\\p{Nothing}", "*a", "(?<n>a)\\k<m>" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_refused(wrong[i], strlen(wrong[i]), "is no regular expression");
    static char deep[8000];
    memset(deep, '(', sizeof(deep));
    assert_refused(deep, sizeof(deep), "is no regular expression");
    static char wide[REGEX_PATTERN_BYTES_MAX + 1];
    memset(wide, 'a', sizeof(wide));
    assert_refused(wide, sizeof(wide), "at most 16384");
}

/* The text is `size` times 'a' and "!". */
static void assert_takes_too_long(const char *pattern, size_t size)
{
    struct regex *regex = compiled(pattern);
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'a', size);
    text[size] = '!';
    char matches[64];
    write_matches(matches, sizeof(matches), regex, text, size + 1);
    if (strcmp(matches, "length") != 0)
        fail_msg("%s: %s", pattern, matches);
    free(text);
    regex_free(regex);
}

TEST(patterns_that_explode_are_a_fault)
{
    assert_takes_too_long("(a+a+)+!.", 40);
    assert_takes_too_long("(?:a|a)*b?!.", 64);
    assert_takes_too_long("(a*)*\\1!.", 200);
    assert_takes_too_long("a*?a*?a*?a*?a*?a*?!.", 3000);
    assert_takes_too_long("(?<n>a\\g<n>?\\g<n>?)!.", 64);
    assert_takes_too_long("(?:a+a+)+!.", 300000);
}

TEST(a_long_text_without_a_cut)
{
    struct regex *regex = compiled("\\s+(?!\\S)|\\s+");
    enum { SIZE = 600000 };
    char *text = malloc(SIZE + 1);
    assert_non_null(text);
    memset(text, ' ', SIZE);
    text[SIZE] = 'x';
    char matches[64];
    write_matches(matches, sizeof(matches), regex, text, SIZE + 1);
    assert_string_equal(matches, "0-599999 599999-600000 ");
    regex_free(regex);

    /* A pattern of a kind that is tried position by position finds the same. */
    memset(text, 'y', SIZE);
    regex = compiled("(?>x+)y*+|(?<=y)x");
    write_matches(matches, sizeof(matches), regex, text, SIZE + 1);
    assert_string_equal(matches, "600000-600001 ");
    free(text);
    regex_free(regex);
}
