/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors.c - every rule of the safetensors format, each with files that keep it and files
 * that break it.
 *
 * A case is a header and the size of the data behind it; the test makes the file, which ends at
 * an unreadable page. Where the README of the format and its reference parser differ, the README
 * counts. */
#include "made_model.h"
#include "test.h"

#define ENTRY(name, dtype, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin        \
    "," #end "]}"
#define FLOAT(name, begin, end) ENTRY(name, "F32", "1", begin, end)
#define DIGITS_20               "18446744073709551615" /* 2^64 - 1 */

struct format_case {
    const char *header;
    size_t data_size;
    enum fault_code code; /* FAULT_NONE: a good file */
    const char *words;    /* in the message */
};

/* ---------------------------------------------------------------- helpers -- */

static void expect_case(const struct format_case *c, size_t header_size)
{
    struct safetensors file;
    struct guard_buffer guard;
    struct fault fault = { .code = FAULT_NONE };
    const bool good = made_file_read(&file, &guard, c->header, header_size, c->data_size, &fault);
    if (good != (c->code == FAULT_NONE) || (!good && fault.code != c->code)
        || (!good && !strstr(fault.message, c->words)))
        fail_msg("%s\n    %s: %s; expected %s: %s", c->header,
                 good ? "read" : fault_code_name(fault.code), fault.message,
                 fault_code_name(c->code), c->words);
    safetensors_free(&file);
    assert_null(file.entries);
    guard_free(&guard);
}

static void expect_cases(const struct format_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_case(&cases[i], strlen(cases[i].header));
}

#define EXPECT_CASES(cases) expect_cases(cases, sizeof(cases) / sizeof(cases)[0])

/* ------------------------------------------------------------------ rules -- */

TEST(length)
{
    static const struct {
        size_t size;
        uint64_t length;
        const char *words;
    } CASES[] = {
        { 0, 0, "has 0 in all" },
        { 7, 0, "has 7 in all" },
        { 8, 0, "expected an object" },
        { 8, 1, "only 0 bytes follow" },
        { 9, 2, "only 1 bytes follow" },
        { 64, 57, "only 56 bytes follow: the file is cut" },
        { 64, 100000000, "only 56 bytes follow" },
        { 64, 100000001, "at most 100000000" },
        { 64, UINT64_MAX, "at most 100000000" },
        { 64, UINT64_MAX - 7, "at most 100000000" },
        { 64, (uint64_t)1 << 63, "at most 100000000" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct safetensors file;
        struct guard_buffer guard;
        struct fault fault = { .code = FAULT_NONE };
        guard = guard_alloc(CASES[i].size);
        unsigned char *bytes = guard.data;
        memset(bytes, ' ', CASES[i].size);
        for (size_t j = 0; j < 8 && j < CASES[i].size; j++)
            bytes[j] = (unsigned char)(CASES[i].length >> (8 * j));
        assert_false(safetensors_read(&file, bytes, CASES[i].size, &fault));
        if (!strstr(fault.message, CASES[i].words))
            fail_msg("%s; expected %s", fault.message, CASES[i].words);
        guard_free(&guard);
    }
}

TEST(text)
{
    static const struct format_case CASES[] = {
        { "{}", 0, FAULT_NONE, "" },
        { "{}      ", 0, FAULT_NONE, "" },
        { " \t\r\n{} \t\r\n", 0, FAULT_NONE, "" },
        { "{ \"a\" : { \"dtype\" : \"F32\" , \"shape\" : [ 1 ] , \"data_offsets\" : [ 0 , 4 ] } }",
          4, FAULT_NONE, "" },
        { "", 0, FAULT_JSON, "expected an object" },
        { "   ", 0, FAULT_JSON, "expected an object" },
        { "[]", 0, FAULT_JSON, "expected an object" },
        { "null", 0, FAULT_JSON, "expected an object" },
        { "{", 0, FAULT_JSON, "text ends" },
        { "{}{}", 0, FAULT_JSON, "expected the end" },
        { "{},", 0, FAULT_JSON, "expected the end" },
        { "{} x", 0, FAULT_JSON, "expected the end" },
        { "{} // no", 0, FAULT_JSON, "expected the end" },
        { "/* no */{}", 0, FAULT_JSON, "expected an object" },
        { "\xEF\xBB\xBF{}", 0, FAULT_JSON, "expected an object" },
        { "\v{}", 0, FAULT_JSON, "expected an object" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},}", 4, FAULT_JSON,
          "expected a string" },
        { "{,}", 0, FAULT_JSON, "expected a string" },
        { "{a:1}", 0, FAULT_JSON, "expected a string" },
        { "{'a':1}", 0, FAULT_JSON, "expected a string" },
        { "{\"a\"}", 0, FAULT_JSON, "expected ':'" },
        { "{\"a\":}", 0, FAULT_JSON, "expected an object" },
        { "{\"a\":1}", 0, FAULT_JSON, "expected an object" },
        { "{\"a\":null}", 0, FAULT_JSON, "tensor 'a'" },
        { "{\"a\":\"F32\"}", 0, FAULT_JSON, "expected an object" },
        { "{\"\xC3\":{}}", 0, FAULT_JSON, "not UTF-8 at its byte 2" },
        { "{\"\xED\xA0\x80\":{}}", 0, FAULT_JSON, "not UTF-8" },
        { "{\"\xC0\xAF\":{}}", 0, FAULT_JSON, "not UTF-8" },
        { "{\"\xFF\":{}}", 0, FAULT_JSON, "not UTF-8" },
        { "[\xFF", 0, FAULT_JSON, "not UTF-8" },
    };
    EXPECT_CASES(CASES);
    expect_case(&(struct format_case){ "{}\0", 0, FAULT_JSON, "expected the end" }, 3);
    expect_case(&(struct format_case){ "\0{}", 0, FAULT_JSON, "expected an object" }, 3);
}

TEST(names)
{
    static const struct format_case CASES[] = {
        { "{" FLOAT("", 0, 4) "}", 4, FAULT_NONE, "" },
        { "{" FLOAT(" ", 0, 4) "}", 4, FAULT_NONE, "" },
        { "{" FLOAT("\\u0000", 0, 4) "}", 4, FAULT_NONE, "" },
        { "{" FLOAT("a", 0, 4) "," FLOAT("a\\u0000", 4, 8) "," FLOAT("a\\u0000b", 8, 12) "}", 12,
          FAULT_NONE, "" },
        { "{" FLOAT("\\\"\\\\\\/\\b\\f\\n\\r\\t", 0, 4) "}", 4, FAULT_NONE, "" },
        { "{" FLOAT("\\ud83d\\ude00", 0, 4) "}", 4, FAULT_NONE, "" },
        { "{" FLOAT("\xF0\x9F\x98\x80", 0, 4) "}", 4, FAULT_NONE, "" },
        { "{" FLOAT("A", 0, 4) "," FLOAT("a", 4, 8) "}", 8, FAULT_NONE, "" },
        { "{" FLOAT("\\ud83d", 0, 4) "}", 4, FAULT_JSON, "surrogate" },
        { "{" FLOAT("\\ude00\\ud83d", 0, 4) "}", 4, FAULT_JSON, "surrogate" },
        { "{" FLOAT("\\ud83dx\\ude00", 0, 4) "}", 4, FAULT_JSON, "surrogate" },
        { "{" FLOAT("\\u12g4", 0, 4) "}", 4, FAULT_JSON, "hexadecimal" },
        { "{" FLOAT("\\u 123", 0, 4) "}", 4, FAULT_JSON, "hexadecimal" },
        { "{\"\\u12", 0, FAULT_JSON, "hexadecimal" },
        { "{\"\\", 0, FAULT_JSON, "escape" },
        { "{\"abc", 0, FAULT_JSON, "ends inside a string" },
        { "{" FLOAT("\\x41", 0, 4) "}", 4, FAULT_JSON, "escape" },
        { "{" FLOAT("\\U0041", 0, 4) "}", 4, FAULT_JSON, "escape" },
        { "{" FLOAT("a\tb", 0, 4) "}", 4, FAULT_JSON, "control character" },
        { "{" FLOAT("a\nb", 0, 4) "}", 4, FAULT_JSON, "control character" },
        { "{" FLOAT("a", 0, 4) "," FLOAT("a", 4, 8) "}", 8, FAULT_DUPLICATE, "'a' stands twice" },
        { "{" FLOAT("a", 0, 4) "," FLOAT("b", 4, 8) "," FLOAT("\\u0061", 8, 12) "}", 12,
          FAULT_DUPLICATE, "'a' stands twice" },
        { "{" FLOAT("\\u0000", 0, 4) "," FLOAT("\\u0000", 4, 8) "}", 8, FAULT_DUPLICATE, "twice" },
    };
    EXPECT_CASES(CASES);
}

TEST(members)
{
    static const struct format_case CASES[] = {
        { "{\"a\":{\"data_offsets\":[0,4],\"shape\":[1],\"dtype\":\"F32\"}}", 4, FAULT_NONE, "" },
        { "{\"a\":{\"dt\\u0079pe\":\"F\\u00332\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          FAULT_NONE, "" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":[{\"y\":[1.5e-7,"
          "true,false,null,\"\\ud800\",{},[]]}]}}",
          4, FAULT_NONE, "" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"Shape\":[2]}}", 4,
          FAULT_NONE, "" },
        { "{\"a\":{}}", 0, FAULT_JSON, "dtype is missing" },
        { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, FAULT_JSON, "dtype is missing" },
        { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, FAULT_JSON, "shape is missing" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, FAULT_JSON, "data_offsets is missing" },
        { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          FAULT_DUPLICATE, "'dtype' stands twice" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          FAULT_DUPLICATE, "'shape' stands twice" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"data_offsets\":[0,4]}}",
          4, FAULT_DUPLICATE, "'data_offsets' stands twice" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1,\"x\":2}}", 4,
          FAULT_DUPLICATE, "'x' stands twice" },
        { "{\"a\":[\"F32\",[1],[0,4]]}", 4, FAULT_JSON, "expected an object" },
        { "{\"a\":{\"dtype\":{\"F32\":null},\"shape\":[1],\"data_offsets\":[0,4]}}", 4, FAULT_JSON,
          "expected a string" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":01}}", 4,
          FAULT_JSON, "expected" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":tru}}", 4,
          FAULT_JSON, "expected" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":NaN}}", 4,
          FAULT_JSON, "expected" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":[1,]}}", 4,
          FAULT_JSON, "expected" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":[1 2]}}", 4,
          FAULT_JSON, "expected" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":}}", 4, FAULT_JSON,
          "expected" },
    };
    EXPECT_CASES(CASES);
}

TEST(metadata)
{
    static const struct format_case CASES[] = {
        { "{\"__metadata__\":{}}", 0, FAULT_NONE, "" },
        { "{\"__metadata__\":{\"\":\"\",\"a\":\"b\\u0000c\"}}", 0, FAULT_NONE, "" },
        { "{" FLOAT("a", 0, 4) ",\"__metadata__\":{\"a\":\"b\"}}", 4, FAULT_NONE, "" },
        { "{\"__metadata__\":null}", 0, FAULT_JSON, "expected an object" },
        { "{\"__metadata__\":[]}", 0, FAULT_JSON, "expected an object" },
        { "{\"__metadata__\":\"a\"}", 0, FAULT_JSON, "expected an object" },
        { "{\"__metadata__\":{\"a\":1}}", 0, FAULT_JSON, "expected a string" },
        { "{\"__metadata__\":{\"a\":null}}", 0, FAULT_JSON, "expected a string" },
        { "{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, FAULT_JSON, "expected a string" },
        { "{\"__metadata__\":{\"a\":\"b\",\"a\":\"b\"}}", 0, FAULT_DUPLICATE, "'a' stands twice" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, FAULT_DUPLICATE, "'__metadata__'" },
        { "{\"__metadata__\":{},\"\\u005f_metadata__\":{}}", 0, FAULT_DUPLICATE, "'__metadata__'" },
        { "{" ENTRY("__metadata__", "F32", "1", 0, 4) "}", 4, FAULT_JSON, "expected a string" },
    };
    EXPECT_CASES(CASES);
}

TEST(dtypes)
{
    static const struct {
        const char *name;
        int bits;
    } DTYPES[] = {
        { "BOOL", 8 },    { "U8", 8 },      { "I8", 8 },          { "I16", 16 },
        { "U16", 16 },    { "I32", 32 },    { "U32", 32 },        { "I64", 64 },
        { "U64", 64 },    { "F16", 16 },    { "BF16", 16 },       { "F32", 32 },
        { "F64", 64 },    { "C64", 64 },    { "F8_E4M3", 8 },     { "F8_E5M2", 8 },
        { "F8_E8M0", 8 }, { "F4", 4 },      { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 },
        { "F6_E2M3", 6 }, { "F6_E3M2", 6 },
    };
    static const char *const NOT_DTYPES[] = { "f32", "F32 ", "",           "F128", "FLOAT",
                                              "F3",  "F322", "F32\\u0000", "bool", "F8" };
    char header[256];
    for (size_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; i++) {
        const int bytes = 12 * DTYPES[i].bits / 8;
        for (int wrong = -1; wrong <= 1; wrong++) {
            snprintf(header, sizeof header,
                     "{\"a\":{\"dtype\":\"%s\",\"shape\":[3,4],\"data_offsets\":[0,%d]}}",
                     DTYPES[i].name, bytes + wrong);
            expect_case(&(struct format_case){ header, (size_t)(bytes + wrong),
                                               wrong ? FAULT_BINARY : FAULT_NONE,
                                               "its shape takes" },
                        strlen(header));
        }
    }
    for (size_t i = 0; i < sizeof NOT_DTYPES / sizeof NOT_DTYPES[0]; i++) {
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,4]}}", NOT_DTYPES[i]);
        expect_case(&(struct format_case){ header, 4, FAULT_JSON, "does not have" },
                    strlen(header));
    }
}

TEST(numbers)
{
    static const char *const BAD[] = { "-0",
                                       "-1",
                                       "2.0",
                                       "2e0",
                                       "2E0",
                                       "+1",
                                       "01",
                                       "00",
                                       "0x1",
                                       "1.",
                                       ".5",
                                       "1_0",
                                       "\"1\"",
                                       "null",
                                       "true",
                                       "[1]",
                                       "{}",
                                       "",
                                       "1,",
                                       "18446744073709551616",
                                       "99999999999999999999999",
                                       "NaN",
                                       "1e400",
                                       "1 2" };
    char header[256];
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        const bool is_empty = BAD[i][0] == '\0';
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,%s],\"data_offsets\":[0,1]}}", BAD[i]);
        expect_case(&(struct format_case){ header, 1, FAULT_JSON, "tensor 'a'" }, strlen(header));
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,%s]}}", BAD[i]);
        expect_case(&(struct format_case){ header, 1, FAULT_JSON, "tensor 'a'" }, strlen(header));
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%s%s1]}}", BAD[i],
                 is_empty ? "" : ",");
        expect_case(&(struct format_case){ header, 1, FAULT_JSON, "tensor 'a'" }, strlen(header));
    }
    static const struct format_case CASES[] = {
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, FAULT_JSON,
          "expected an array" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":null,\"data_offsets\":[0,1]}}", 1, FAULT_JSON,
          "expected an array" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":{}}}", 1, FAULT_JSON,
          "expected an array" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[]}}", 1, FAULT_JSON,
          "0 numbers; expected 2" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, FAULT_JSON,
          "3 numbers; expected 2" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0," DIGITS_20 "],\"data_offsets\":[0,0]}}", 0,
          FAULT_NONE, "" },
    };
    EXPECT_CASES(CASES);
}

TEST(offsets)
{
    static const struct format_case CASES[] = {
        { "{" FLOAT("b", 4, 8) "," FLOAT("a", 0, 4) "}", 8, FAULT_NONE, "" },
        { "{}", 1, FAULT_BINARY, "the tensors take 0 bytes; 1 follow" },
        { "{" FLOAT("a", 0, 4) "}", 5, FAULT_BINARY, "the tensors take 4 bytes; 5 follow" },
        { "{" FLOAT("a", 0, 4) "}", 3, FAULT_BINARY, "the tensors take 4 bytes; 3 follow" },
        { "{" FLOAT("a", 0, 4) "}", 0, FAULT_BINARY, "the tensors take 4 bytes; 0 follow" },
        { "{" FLOAT("a", 1, 5) "}", 5, FAULT_BINARY, "tensor 'a': data_offsets begin at 1" },
        { "{" FLOAT("a", 0, 4) "," FLOAT("b", 5, 9) "}", 9, FAULT_BINARY,
          "begin at 5; expected 4" },
        { "{" FLOAT("a", 0, 4) "," FLOAT("b", 3, 7) "}", 7, FAULT_BINARY,
          "begin at 3; expected 4" },
        { "{" FLOAT("a", 0, 4) "," FLOAT("b", 0, 4) "}", 4, FAULT_BINARY,
          "begin at 0; expected 4" },
        { "{" FLOAT("a", 4, 0) "}", 4, FAULT_BINARY, "tensor 'a': data_offsets begin at 4" },
        { "{" ENTRY("a", "U8", "4", 0, 4) "," ENTRY("b", "U8", "0", 4, 3) "}", 4, FAULT_BINARY,
          "end before they begin" },
        { "{" ENTRY("a", "U8", "4", 0, 18446744073709551615) "}", 4, FAULT_BINARY,
          "its shape takes 4 bytes" },
        { "{" ENTRY("a", "U8", DIGITS_20, 0, 18446744073709551615) "}", 4, FAULT_BINARY,
          "overflows" },
        { "{" ENTRY("a", "U8", "1152921504606846976", 0, 1152921504606846976) "}", 4, FAULT_BINARY,
          "the tensors take 1152921504606846976 bytes; 4 follow" },
    };
    EXPECT_CASES(CASES);
}

TEST(shapes)
{
    static const struct format_case CASES[] = {
        { "{" ENTRY("a", "F32", "", 0, 4) "}", 4, FAULT_NONE, "" },
        { "{" ENTRY("a", "F32", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2", 0, 8) "}", 8, FAULT_NONE,
          "" },
        { "{" ENTRY("a", "F32", "0", 0, 0) "}", 0, FAULT_NONE, "" },
        { "{" ENTRY("a", "F32", "3,0,5", 0, 0) "," ENTRY("b", "F64", "0", 0, 0) "," ENTRY(
              "c", "U8", "2", 0, 2) "," ENTRY("d", "U8", "0", 2, 2) "}",
          2, FAULT_NONE, "" },
        { "{" ENTRY("a", "F4", "2", 0, 1) "}", 1, FAULT_NONE, "" },
        { "{" ENTRY("a", "F32", "", 0, 0) "}", 0, FAULT_BINARY, "its shape takes 4 bytes" },
        { "{" ENTRY("a", "F32", "2,3", 0, 20) "}", 20, FAULT_BINARY, "its shape takes 24 bytes" },
        { "{" ENTRY("a", "F32", "0", 0, 4) "}", 4, FAULT_BINARY, "its shape takes 0 bytes" },
        { "{" ENTRY("a", "F32", "1", 0, 4) "," ENTRY("b", "F32", "0", 2, 2) "}", 4, FAULT_BINARY,
          "begin at 2; expected 4" },
        { "{" ENTRY("a", "F4", "3", 0, 2) "}", 2, FAULT_BINARY, "12 bits of F4" },
        { "{" ENTRY("a", "F6_E2M3", "1", 0, 1) "}", 1, FAULT_BINARY, "6 bits of F6_E2M3" },
        { "{" ENTRY("a", "U8", "4294967296,4294967296", 0, 0) "}", 0, FAULT_BINARY, "overflows" },
        { "{" ENTRY("a", "U8", "4294967296,4294967296,0", 0, 0) "}", 0, FAULT_BINARY, "overflows" },
        { "{" ENTRY("a", "U8", "0,4294967296,4294967296", 0, 0) "}", 0, FAULT_NONE, "" },
        { "{" ENTRY("a", "F64", "2305843009213693952", 0, 0) "}", 0, FAULT_BINARY, "overflows" },
        { "{" ENTRY("a", "F4", "4611686018427387904", 0, 2305843009213693952) "}", 0, FAULT_BINARY,
          "overflows" },
    };
    EXPECT_CASES(CASES);
}

/* Which fault is reported if there are several. */
TEST(order)
{
    static const struct format_case CASES[] = {
        { "{\"a\":1,\"\xFF\":1}", 0, FAULT_JSON, "not UTF-8" },
        { "{" FLOAT("a", 1, 5) "," ENTRY("b", "F99", "1", 5, 9) "}", 9, FAULT_JSON, "F99" },
        { "{" FLOAT("a", 1, 4) "}", 9, FAULT_BINARY, "begin at 1" },
        { "{" ENTRY("b", "U8", "9", 4, 6) "," ENTRY("a", "U8", "9", 0, 4) "}", 9, FAULT_BINARY,
          "tensor 'a'" },
        { "{" ENTRY("a", "U8", "3", 0, 4) "}", 9, FAULT_BINARY, "its shape takes 3" },
    };
    EXPECT_CASES(CASES);
}

/* Nested brackets in an unknown member. The header and the entry already count as two levels. */
TEST(depth)
{
    for (int depth = 124; depth <= 127; depth++) {
        char header[512], brackets[130], closing[130];
        memset(brackets, '[', (size_t)depth);
        memset(closing, ']', (size_t)depth);
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":%.*s%.*s}}",
                 depth, brackets, depth, closing);
        expect_case(&(struct format_case){ header, 4, depth <= 125 ? FAULT_NONE : FAULT_JSON,
                                           "nested deeper" },
                    strlen(header));
    }
    char *deep = malloc(1000000);
    assert_non_null(deep);
    memset(deep, '[', 1000000);
    memcpy(deep, "{\"a\":{\"x\":", 10);
    deep[999999] = '\0';
    expect_case(&(struct format_case){ deep, 0, FAULT_JSON, "nested deeper" }, 999999);
    free(deep);
}

TEST(every_cut)
{
    static const char HEADER[] = "{\"__metadata__\":{\"a\":\"b\\n\"}," FLOAT(
        "x\\u00e9", 0, 4) "," ENTRY("y", "U8", "2,2", 4, 8) "}";
    for (size_t size = 0; size < strlen(HEADER); size++)
        expect_case(&(struct format_case){ HEADER, 8, FAULT_JSON, "" }, size);
    expect_case(&(struct format_case){ HEADER, 8, FAULT_NONE, "" }, strlen(HEADER));
}
