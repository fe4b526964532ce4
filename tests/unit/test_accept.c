/* SPDX-License-Identifier: Apache-2.0 */
/* test_accept.c - which media type an Accept line chooses (RFC 9110, sections 12.4.2 and 12.5.1).
 * Codings are in test_coding.c. */
#include "formats/accept.h"
#include "test.h"

enum { FILE_TYPE, JSON_TYPE, TYPE_COUNT };
static const char *const TYPES[TYPE_COUNT] = { "application/x-safetensors", "application/json" };

TEST(lines)
{
    static const struct {
        const char *line;
        int by_file, by_json; /* what is chosen where the file, and where JSON, is usual */
    } CASES[] = {
        { NULL, FILE_TYPE, JSON_TYPE },
        { "", FILE_TYPE, JSON_TYPE },
        { "*/*", FILE_TYPE, JSON_TYPE },
        { "application/*", FILE_TYPE, JSON_TYPE },
        { "text/html, */*;q=0.8", FILE_TYPE, JSON_TYPE },
        { "application/json", JSON_TYPE, JSON_TYPE },
        { "APPLICATION/JSON", JSON_TYPE, JSON_TYPE },
        { "application/x-safetensors", FILE_TYPE, FILE_TYPE },
        { "application/x-safetensors, */*", FILE_TYPE, FILE_TYPE },
        { "application/json, text/plain, */*", JSON_TYPE, JSON_TYPE },
        { "application/json, application/x-safetensors", FILE_TYPE, FILE_TYPE },
        { "application/json;q=0.5, application/x-safetensors;q=0.4", JSON_TYPE, JSON_TYPE },
        { "application/json;q=0.4,application/x-safetensors;q=0.5", FILE_TYPE, FILE_TYPE },
        { "application/json;q=0.999, application/x-safetensors", FILE_TYPE, FILE_TYPE },
        /* The most specific range of a type counts, wherever it stands. */
        { "application/x-safetensors;q=0, */*", JSON_TYPE, JSON_TYPE },
        { "*/*, application/x-safetensors;q=0", JSON_TYPE, JSON_TYPE },
        { "application/*;q=0.1, application/json;q=0.05, */*", FILE_TYPE, FILE_TYPE },
        { "application/json;q=0, */*;q=0.1", FILE_TYPE, FILE_TYPE },
        { "application/*;q=0, */*", FILE_TYPE, JSON_TYPE },
        /* None is accepted. */
        { "text/html", FILE_TYPE, JSON_TYPE },
        { "application/json;q=0, application/x-safetensors;q=0", FILE_TYPE, JSON_TYPE },
        { "application/jsonl, application/x-safetensors2, x/json", FILE_TYPE, JSON_TYPE },
        { "application, */json, *", FILE_TYPE, JSON_TYPE },
        /* Parameters, blanks and quoted strings. */
        { "application/json; charset=utf-8", JSON_TYPE, JSON_TYPE },
        { "application/json;charset=utf-8;q=0, */*", FILE_TYPE, FILE_TYPE },
        { " ,, application/json ; q=0.2 ,\tapplication/x-safetensors ;\tQ=0.1", JSON_TYPE,
          JSON_TYPE },
        { "application/json;p=\"a,b;q=0\\\",\";q=0.9, application/x-safetensors;q=0.8", JSON_TYPE,
          JSON_TYPE },
        { "application/json;p=\"open, application/x-safetensors;q=1", JSON_TYPE, JSON_TYPE },
        /* Malformed quality values are 0. */
        { "application/json;q=, application/x-safetensors;q=0.1", FILE_TYPE, FILE_TYPE },
        { "application/json;q=2, application/x-safetensors;q=0.1", FILE_TYPE, FILE_TYPE },
        { "application/json;q=1.001, application/x-safetensors;q=0.1", FILE_TYPE, FILE_TYPE },
        { "application/json;q=0.1234, application/x-safetensors;q=0.1", FILE_TYPE, FILE_TYPE },
        { "application/json;q=-1, application/x-safetensors;q=0.1", FILE_TYPE, FILE_TYPE },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        for (int usual = 0; usual < TYPE_COUNT; usual++) {
            const int want = usual == FILE_TYPE ? CASES[i].by_file : CASES[i].by_json;
            if (accept_choose(CASES[i].line, TYPES, TYPE_COUNT, usual) != want)
                fail_msg("%s: expected %s where %s is usual", CASES[i].line, TYPES[want],
                         TYPES[usual]);
        }
}

/* No cut of a line is read past its end. */
TEST(cuts)
{
    static const char LINE[] = "a/b;p=\"x\\\"y,z\" ; q=0.5 , */* ;q=0.25,, application/*; q=1.000";
    for (size_t length = 0; length < sizeof LINE; length++) {
        char cut[sizeof LINE] = "";
        memcpy(cut, LINE, length);
        const char *list = cut;
        struct accept_element element;
        while (accept_next(&list, &element)) {
            assert_true(element.text >= cut && element.length <= strlen(element.text));
            assert_in_range(accept_quality(&element, true), 0, 1000);
        }
        assert_ptr_equal(list, cut + length);
    }
}
