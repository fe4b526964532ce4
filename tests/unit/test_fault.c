/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault.c - faults: the table of codes, cutting, pointers, words before words. */
#include "base/fault.h"
#include "test.h"

/* The codes and statuses of the API's fault table, which clients are written against. */
static const struct {
    enum fault_code code;
    const char *name;
    int http_status;
} TABLE[] = {
    { FAULT_JSON, "json", 400 },
    { FAULT_FIELD, "field", 400 },
    { FAULT_DUPLICATE, "duplicate", 400 },
    { FAULT_TYPE, "type", 400 },
    { FAULT_SHAPE, "shape", 400 },
    { FAULT_RAGGED, "ragged", 400 },
    { FAULT_NONFINITE, "nonfinite", 400 },
    { FAULT_OPTION, "option", 400 },
    { FAULT_LENGTH, "length", 400 },
    { FAULT_DTYPE, "dtype", 400 },
    { FAULT_BINARY, "binary", 400 },
    { FAULT_FORBIDDEN, "forbidden", 403 },
    { FAULT_NOT_FOUND, "not_found", 404 },
    { FAULT_METHOD, "method", 405 },
    { FAULT_TIMEOUT, "timeout", 408 },
    { FAULT_LEFT, "cancelled", 499 },
    { FAULT_CONFLICT, "conflict", 409 },
    { FAULT_TOO_LARGE, "too_large", 413 },
    { FAULT_PEER, "peer", 503 },
    { FAULT_STORAGE, "storage", 507 },
    { FAULT_ANSWER_TOO_LARGE, "answer_too_large", 413 },
    { FAULT_CODING, "encoding", 400 },
    { FAULT_ENCODING, "encoding", 415 },
    { FAULT_HTTP, "http", 400 },
    { FAULT_HEADERS, "headers", 431 },
    { FAULT_CONTENT_TYPE, "content_type", 415 },
    { FAULT_OVERLOADED, "overloaded", 429 },
    { FAULT_KEY, "key", 401 },
    { FAULT_SCOPE, "scope", 403 },
    { FAULT_QUOTA, "quota", 429 },
    { FAULT_LOADING, "loading", 503 },
    { FAULT_DRAINING, "draining", 503 },
    { FAULT_MEMORY, "memory", 503 },
    { FAULT_FULL, "memory", 503 },
    { FAULT_DEADLINE, "deadline", 504 },
};

TEST(table)
{
    for (size_t i = 0; i < sizeof TABLE / sizeof TABLE[0]; i++) {
        assert_string_equal(fault_code_name(TABLE[i].code), TABLE[i].name);
        assert_int_equal(fault_http_status(TABLE[i].code), TABLE[i].http_status);
    }
}

TEST(set)
{
    struct fault fault;
    memset(&fault, 'x', sizeof fault);
    assert_false(fault_set(&fault, FAULT_SHAPE, "query has %d columns", 5));
    assert_int_equal(fault.code, FAULT_SHAPE);
    assert_string_equal(fault.message, "query has 5 columns");
    assert_string_equal(fault.pointer, "");
    assert_false(fault_set_at(&fault, "/query", FAULT_TYPE, "%s is a string", "query"));
    assert_int_equal(fault.code, FAULT_TYPE);
    assert_string_equal(fault.message, "query is a string");
    assert_string_equal(fault.pointer, "/query");
    assert_false(fault_no_memory(&fault));
    assert_int_equal(fault.code, FAULT_MEMORY);
    assert_string_equal(fault.pointer, "");
}

/* A fault's own message and pointer may be among the arguments. */
TEST(set_from_itself)
{
    struct fault fault;
    fault_set_at(&fault, "/a", FAULT_SHAPE, "inner");
    fault_set_at(&fault, fault.pointer, FAULT_SHAPE, "outer: %s", fault.message);
    assert_string_equal(fault.message, "outer: inner");
    assert_string_equal(fault.pointer, "/a");
}

TEST(message_is_cut_at_a_character)
{
    static const char *const CHARACTERS[] = { "a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80" };
    for (size_t c = 0; c < 4; c++) {
        const size_t size = strlen(CHARACTERS[c]);
        for (int before = 0; before < 8; before++) {
            char words[2000];
            size_t used = (size_t)before;
            memset(words, '.', used);
            while (used < 1000) {
                memcpy(words + used, CHARACTERS[c], size);
                used += size;
            }
            words[used] = '\0';
            struct fault fault;
            fault_set(&fault, FAULT_JSON, "%s", words);
            const size_t length = strlen(fault.message);
            assert_true(length > FAULT_MESSAGE_MAX - 1 - size);
            assert_true(length < FAULT_MESSAGE_MAX);
            assert_int_equal((length - (size_t)before) % size, 0);
            assert_memory_equal(fault.message, words, length);
        }
    }
}

TEST(message_that_just_fits)
{
    char words[FAULT_MESSAGE_MAX];
    memset(words, 'a', sizeof words);
    memcpy(words + FAULT_MESSAGE_MAX - 3, "\xC3\xA9", 3);
    struct fault fault;
    fault_set(&fault, FAULT_JSON, "%s", words);
    assert_string_equal(fault.message, words);
}

TEST(prefix)
{
    struct fault fault;
    fault_set_at(&fault, "/query", FAULT_SHAPE, "m");
    fault_prefix_pointer(&fault, "/requests/1");
    assert_string_equal(fault.pointer, "/requests/1/query");
    assert_string_equal(fault.message, "m");
    fault_set(&fault, FAULT_SHAPE, "m");
    fault_prefix_pointer(&fault, "/requests/1");
    assert_string_equal(fault.pointer, "/requests/1");
}

/* A pointer cut in the middle of a name would name another field. */
TEST(long_pointer_names_what_encloses)
{
    char name[200] = "/";
    memset(name + 1, 'k', sizeof name - 2);
    name[sizeof name - 1] = '\0';
    struct fault fault;
    fault_set_at(&fault, name, FAULT_FIELD, "m");
    assert_string_equal(fault.pointer, "");
    fault_set_at(&fault, "/kkkkkkkkkkkkkkkk", FAULT_FIELD, "m");
    name[120] = '\0';
    fault_prefix_pointer(&fault, name);
    assert_string_equal(fault.pointer, name);
    name[0] = 'x';
    fault_set_at(&fault, "/a", FAULT_FIELD, "m");
    name[120] = 'k';
    fault_prefix_pointer(&fault, name);
    assert_string_equal(fault.pointer, "");
}

/* The keys of RFC 6901's example document (section 5). */
TEST(steps_are_escaped)
{
    static const char *const KEYS[][2] = {
        { "foo", "/foo" }, { "", "/" },        { "a/b", "/a~1b" },  { "c%d", "/c%d" },
        { "e^f", "/e^f" }, { "g|h", "/g|h" },  { "i\\j", "/i\\j" }, { "k\"l", "/k\"l" },
        { " ", "/ " },     { "m~n", "/m~0n" },
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        char pointer[FAULT_POINTER_MAX] = "/before";
        const size_t used = fault_pointer_append(pointer, strlen("/before"), KEYS[i][0]);
        assert_int_equal(used, strlen(pointer));
        assert_memory_equal(pointer, "/before", strlen("/before"));
        assert_string_equal(pointer + strlen("/before"), KEYS[i][1]);
    }
}

/* A pointer has a whole step or none of it, however much room there is. */
TEST(steps_are_whole)
{
    char key[2 * FAULT_POINTER_MAX];
    for (size_t used = 0; used < FAULT_POINTER_MAX; used++)
        for (size_t size = 0; size < sizeof key - 1; size++) {
            char pointer[FAULT_POINTER_MAX];
            memset(pointer, '/', used);
            memset(key, size % 2 ? 'k' : '~', size);
            key[size] = '\0';
            const size_t whole = used + 1 + size * (size % 2 ? 1 : 2);
            const size_t end = fault_pointer_append(pointer, used, key);
            assert_int_equal(strlen(pointer), end);
            assert_true(end == used || end == whole);
            assert_true(end == whole || whole + 2 > FAULT_POINTER_MAX);
        }
}

TEST(from_attn)
{
    static const struct {
        enum attn_status status;
        enum fault_code code;
    } MAP[] = {
        { ATTN_ERR_NO_DATA, FAULT_FIELD }, { ATTN_ERR_DTYPE, FAULT_DTYPE },
        { ATTN_ERR_SHAPE, FAULT_SHAPE },   { ATTN_ERR_HEADS, FAULT_SHAPE },
        { ATTN_ERR_STRIDE, FAULT_SHAPE },  { ATTN_ERR_LENGTH, FAULT_LENGTH },
        { ATTN_ERR_OPTION, FAULT_OPTION }, { ATTN_ERR_TOO_LARGE, FAULT_TOO_LARGE },
    };
    for (size_t i = 0; i < sizeof MAP / sizeof MAP[0]; i++) {
        struct fault fault;
        assert_false(fault_from_attn(&fault, MAP[i].status, "query.shape[3]"));
        assert_int_equal(fault.code, MAP[i].code);
        assert_memory_equal(fault.message, "query.shape[3]: ", 16);
        assert_string_equal(fault.message + 16, attn_status_message(MAP[i].status));
    }
}
