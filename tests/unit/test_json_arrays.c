/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_arrays.c - what json_read() makes of arrays: of numbers, ragged, plain, mixed.
 *
 * Arrays of numbers are described in a line of text, with shape, kinds and elements,
 * and compared with the line expected. */
#include "guarded_json.h"
#include "test.h"
#include "json/text.h"

#include <time.h>

static const struct json_options STRICT = { .nonfinite_allowed = false };
static const struct json_options NONFINITE = { .nonfinite_allowed = true };

/* Writes what an array is: its shape, kinds, elements and what is ragged. */
static void describe(const struct json_numbers *numbers, struct text *text)
{
    for (int i = 0; i < numbers->rank; i++)
        text_format(text, "%s%lld", i > 0 ? "x" : "", (long long)numbers->shape[i]);
    text_format(text, "%s%s%s%s", numbers->is_deep ? " deep" : "",
                numbers->has_number ? " number" : "", numbers->has_bool ? " bool" : "",
                numbers->has_null ? " null" : "");
    text_raw(text, ":");
    for (int64_t i = 0; i < numbers->count; i++)
        text_format(text, " %g", (double)numbers->values[i]);
    if (numbers->nonfinite_index >= 0)
        text_format(text, " nonfinite %lld", (long long)numbers->nonfinite_index);
    for (int i = 0; i < numbers->ragged_depth; i++)
        text_format(text, "%s[%lld]", i > 0 ? "" : " ragged ", (long long)numbers->ragged_index[i]);
    if (numbers->ragged_depth > 0)
        text_format(text, " %s", numbers->ragged_message);
    text_bytes(text, "", 1);
}

static void expect_array(const char *array, const struct json_options *options,
                         const char *expected)
{
    char body[1024];
    const int size = snprintf(body, sizeof body, JSON({"a":["x",1],"n": %s ,"z":[9]}), array);
    struct json_document document;
    struct fault fault;
    struct text text;
    text_init(&text, SIZE_MAX);
    assert_true(guarded_json_read(&document, body, (size_t)size, options, &fault));
    const struct json_numbers *numbers =
        json_numbers_of(&document, cJSON_GetObjectItemCaseSensitive(document.root, "n"));
    assert_non_null(numbers);
    describe(numbers, &text);
    assert_string_equal(text.data, expected);
    if (numbers->count > 0 || numbers->rank > 1)
        assert_int_equal(numbers->offset, strlen("{\"a\":[\"x\",1],\"n\": "));
    const cJSON *z = cJSON_GetObjectItemCaseSensitive(document.root, "z");
    assert_true(json_numbers_of(&document, z)->values[0] == 9);
    text_free(&text);
    json_free(&document);
}

TEST(arrays)
{
    static const struct {
        const char *array, *expected;
    } CASES[] = {
        { "[]", "0:" },
        { "[ ]", "0:" },
        { "[3]", "1 number: 3" },
        { "[0]", "1 number: 0" },
        { "[1,-2.5,3e2]", "3 number: 1 -2.5 300" },
        { "[ 1 ,\n2\t,\r3 ]", "3 number: 1 2 3" },
        { "[[1,2],[3,4],[5,6]]", "3x2 number: 1 2 3 4 5 6" },
        { "[[[1],[2]]]", "1x2x1 number: 1 2" },
        { "[[],[]]", "2x0:" },
        { "[[[]]]", "1x1x0:" },
        { "[ [ ] , [ ] , [ ] ]", "3x0:" },
        { "[true,false]", "2 bool: 1 0" },
        { "[null,0.5,true]", "3 number bool null: -inf 0.5 1" },
        { "[null]", "1 null: -inf" },
        { "[1,1e39,-1e999]", "3 number: 1 inf -inf nonfinite 1" },
        { "[[1e-400,-1e-400]]", "1x2 number: 0 -0" },
        { "[[[[[[[[7]]]]]]]]", "1x1x1x1x1x1x1x1 number: 7" },
        { "[[[[[[[[[7]]]]]]]]]", "1x1x1x1x1x1x1x1 deep number: 7" },
        { "[[[[[[[[[7,8],[9,9]]]]]]]]]", "1x1x1x1x1x1x1x2 deep number: 7 8 9 9" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        expect_array(CASES[i].array, &STRICT, CASES[i].expected);
}

TEST(ragged_arrays)
{
    static const struct {
        const char *array, *expected;
    } CASES[] = {
        { "[[1,2],[3]]", "2x2 number: 1 2 3 ragged [1] has 1 columns; row 0 has 2" },
        { "[[1],[2],[3,4],[5,6,7]]",
          "4x1 number: 1 2 3 4 5 6 7 ragged [2] has 2 columns; row 0 has 1" },
        { "[[1],[]]", "2x1 number: 1 ragged [1] has 0 columns; row 0 has 1" },
        { "[[],[1]]", "2x0 number: 1 ragged [1] has 1 columns; row 0 has 0" },
        { "[1,[2]]", "2x1 number: 1 2 ragged [1] is a row where the others are numbers" },
        { "[[1],2]", "2x1 number: 1 2 ragged [1] is a number where the others are rows" },
        { "[[1],null]",
          "2x1 number null: 1 -inf ragged [1] is a number where the others are rows" },
        { "[[[1,2],[3,4]],[[5,6],[7]]]",
          "2x2x2 number: 1 2 3 4 5 6 7 ragged [1][1] has 1 columns; row 0 of the first has 2" },
        { "[[[1],[2]],[[3]]]", "2x2x1 number: 1 2 3 ragged [1] has 1 rows; row 0 has 2" },
        { "[[[1]],[2]]", "2x1x1 number: 1 2 ragged [1][0] is a number where the others are rows" },
        { "[[1],[[2]]]", "2x1x1 number: 1 2 ragged [1][0] is a row where the others are numbers" },
        { "[[1,2],[3],4]", "3x2 number: 1 2 3 4 ragged [1] has 1 columns; row 0 has 2" },
        { "[[[[[[[[[7],[8,9]]]]]]]]]",
          "1x1x1x1x1x1x1x2 deep number: 7 8 9 ragged [0][0][0][0][0][0][0][1] has 2 columns; row "
          "0 of the first has 1" },
        { "[[[[[[[[1,[[2],[[3]]]]]]]]]]]",
          "1x1x1x1x1x1x1x2 deep number: 1 2 3 ragged [0][0][0][0][0][0][0][1] is a row where the "
          "others are numbers" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        expect_array(CASES[i].array, &STRICT, CASES[i].expected);
}

/* The text is refused even where NaN and Infinity are allowed. */
static void expect_refused(const char *text, const char *words)
{
    struct json_document document;
    struct fault fault;
    assert_false(guarded_json_read(&document, text, strlen(text), &NONFINITE, &fault));
    assert_int_equal(fault.code, FAULT_JSON);
    assert_non_null(strstr(fault.message, words));
}

TEST(nonfinite)
{
    expect_array("[NaN,Infinity,-Infinity,1]", &NONFINITE, "4 number: nan inf -inf 1 nonfinite 0");
    expect_array("[[1,2],[-Infinity,NaN]]", &NONFINITE, "2x2 number: 1 2 -inf nan nonfinite 2");
    expect_refused("[nan]", "expected a value, got 'n' at byte 1");
    expect_refused("[Inf]", " at byte 1");
    expect_refused("[-NaN]", " at byte 1");
    expect_refused("{\"scale\":NaN}",
                   "NaN and Infinity are taken only in arrays of numbers, not at byte 9");
    expect_refused(JSON([Infinity,"x"]), "not at byte 1");
}

/* An array that is not an array of numbers stays in the tree as it was written. */
TEST(plain_arrays)
{
    static const char *const TEXTS[] = {
        "[\"a\",1]",          "[1,\"a\"]",
        "[1,[2,[\"a\"]],3]",  "[{\"a\":null},[\"b\"]]",
        "[[[[[\"deep\"]]]]]", "[true,false,null,-7.5,\"x\"]",
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        struct json_document document;
        assert_true(guarded_json_takes(&document, TEXTS[i]));
        assert_int_equal(document.array_count, 0);
        assert_null(json_numbers_of(&document, document.root));
        char *printed = cJSON_PrintUnformatted(document.root);
        assert_string_equal(printed, TEXTS[i]);
        cJSON_free(printed);
        json_free(&document);
    }
}

/* Arrays of numbers among other arrays, each with its own numbers. */
TEST(arrays_inside_plain_arrays)
{
    struct json_document document;
    assert_true(guarded_json_takes(
        &document, "[[1,2],[[3],[\"x\",[4,5]]],{\"k\":[6],\"l\":[]},[[7],[8]],9,\"y\"]"));
    assert_int_equal(document.array_count, 5);
    const float *all = document.values;
    for (int i = 0; i < 8; i++)
        assert_true(all[i] == (float)(i + 1));
    const cJSON *root = document.root;
    assert_int_equal(cJSON_GetArraySize(root), 6);
    assert_int_equal(json_numbers_of(&document, cJSON_GetArrayItem(root, 0))->count, 2);
    const cJSON *mixed = cJSON_GetArrayItem(root, 1);
    assert_null(json_numbers_of(&document, mixed));
    assert_ptr_equal(json_numbers_of(&document, cJSON_GetArrayItem(mixed, 0)), &document.arrays[1]);
    const cJSON *inner = cJSON_GetArrayItem(mixed, 1);
    assert_null(json_numbers_of(&document, inner));
    assert_ptr_equal(json_numbers_of(&document, cJSON_GetArrayItem(inner, 1)), &document.arrays[2]);
    const cJSON *object = cJSON_GetArrayItem(root, 2);
    assert_null(json_numbers_of(&document, object));
    const cJSON *empty = cJSON_GetObjectItemCaseSensitive(object, "l");
    assert_int_equal(cJSON_GetArraySize(empty), 0);
    assert_int_equal(json_numbers_of(&document, empty)->count, 0);
    assert_int_equal(json_numbers_of(&document, cJSON_GetArrayItem(root, 3))->rank, 2);
    assert_null(json_numbers_of(&document, cJSON_GetArrayItem(root, 4)));
    assert_true(cJSON_GetArrayItem(root, 4)->valuedouble == 9);
    assert_null(json_numbers_of(&document, NULL));
    json_free(&document);
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The best time of three, for a text that is taken or refused. */
static double read_seconds(const struct text *text, bool good)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        struct json_document document;
        struct fault fault;
        const double begin = thread_seconds();
        assert_int_equal(json_read(&document, text->data, text->used, &STRICT, &fault), good);
        const double seconds = thread_seconds() - begin;
        best = seconds < best ? seconds : best;
        json_free(&document);
    }
    return best;
}

/* depth arrays around a megabyte of numbers. Each array gets tail before it closes. */
static void make_nested(struct text *text, int depth, const char *tail)
{
    text_init(text, SIZE_MAX);
    for (int i = 0; i < depth; i++)
        text_raw(text, "[");
    for (int i = 0; i < 250000; i++)
        text_raw(text, i > 0 ? ",0.5" : "[0.5");
    text_raw(text, "]");
    for (int i = 0; i < depth; i++) {
        text_raw(text, tail);
        text_raw(text, "]");
    }
}

/* A string behind the numbers makes all the arrays plain. The numbers must not be read again for
 * each array, which would take sixty times as long. */
TEST(plain_arrays_take_linear_time)
{
    struct text numbers, plain;
    make_nested(&numbers, 60, "");
    make_nested(&plain, 60, ",\"s\"");
    const double numbers_seconds = read_seconds(&numbers, true);
    const double plain_seconds = read_seconds(&plain, true);
    text_free(&plain);
    assert_true(plain_seconds < 10 * numbers_seconds);
    make_nested(&plain, 60, ",{\"s\":[1]}");
    assert_true(read_seconds(&plain, true) < 10 * numbers_seconds);
    text_free(&plain);
    text_free(&numbers);
}

/* A million numbers cost about as much as their own bytes. They do not get a node each. */
TEST(many_numbers)
{
    enum { COUNT = 1000000 };
    struct text text;
    text_init(&text, SIZE_MAX);
    text_raw(&text, "{\"query\":[");
    for (int i = 0; i < COUNT; i++) {
        text_raw(&text, i > 0 ? "," : "");
        text_float(&text, (float)i / 7);
    }
    text_raw(&text, "]}");
    struct json_document document;
    struct fault fault;
    assert_true(json_read(&document, text.data, text.used, &STRICT, &fault));
    const struct json_numbers *numbers =
        json_numbers_of(&document, cJSON_GetObjectItemCaseSensitive(document.root, "query"));
    assert_int_equal(numbers->count, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_true(numbers->values[i] == (float)i / 7);
    json_free(&document);
    text_free(&text);
}

/* The same elements once more in double. A number that is too large for a float is finite in
 * double. */
TEST(doubles)
{
    static const char body[] = "{\"x\":1,\"n\":[[0.1, -1e300],\r\n\t[5e-324,null] , [true,false],"
                               "[0.30000000000000004,\t-0]]}";
    static const double expected[] = { 0.1, -1e300, 5e-324, -INFINITY, 1, 0, 0.30000000000000004,
                                       -0.0 };
    double values[8];
    struct json_document document;
    struct fault fault;
    assert_true(json_read(&document, body, sizeof body - 1, &STRICT, &fault));
    const struct json_numbers *numbers =
        json_numbers_of(&document, cJSON_GetObjectItemCaseSensitive(document.root, "n"));
    assert_int_equal(numbers->count, 8);
    assert_int_equal(numbers->nonfinite_index, 1);
    assert_int_equal(json_read_doubles(body, numbers, values), -1);
    assert_memory_equal(values, expected, sizeof expected);
    json_free(&document);

    static const char beyond[] = "[null,1,-2e308,3e400]";
    assert_true(json_read(&document, beyond, sizeof beyond - 1, &STRICT, &fault));
    numbers = json_numbers_of(&document, document.root);
    assert_int_equal(json_read_doubles(beyond, numbers, values), 2);
    assert_true(isinf(values[2]) && values[2] < 0);
    json_free(&document);
}
