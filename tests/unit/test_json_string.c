/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_string.c - strings of JSON with U+0000 in them keep all their bytes. */
#include "guarded_json.h"
#include "test.h"

/* The only value of the object in text, and its key, are the bytes of `expected`, U+0000 included.
 */
static void expect_bytes(const char *text, const char *expected, size_t size)
{
    const struct json_options options = { .nul_is_kept = true };
    struct json_document document;
    struct byte_slice bytes;
    struct arena arena;
    struct fault fault;
    arena_init(&arena, SIZE_MAX);
    if (!guarded_json_read(&document, text, strlen(text), &options, &fault))
        fail_msg("%s: %s", text, fault.message);
    const cJSON *node = document.root->child;
    assert_true(json_string_read(node->valuestring, &arena, &bytes));
    assert_int_equal(bytes.size, size);
    assert_memory_equal(bytes.data, expected, size);
    assert_true(json_string_read(node->string, &arena, &bytes));
    assert_int_equal(bytes.size, size);
    assert_memory_equal(bytes.data, expected, size);
    arena_free(&arena);
    json_free(&document);
}

TEST(nul_in_strings)
{
    expect_bytes(JSON({"":""}), "", 0);
    expect_bytes(JSON({"ab":"ab"}), "ab", 2);
    expect_bytes(JSON({"\u0000":"\u0000"}), "\0", 1);
    expect_bytes(JSON({"a\u0000\u0000b\n":"a\u0000\u0000b\n"}), "a\0\0b\n", 5);
    expect_bytes(JSON({"\\u0000":"\\u0000"}), "\\u0000", 6);
    expect_bytes(JSON({"\\\u0000c":"\\\u0000c"}), "\\\0c", 3);
    expect_bytes(JSON({"\u00001":"\u00001"}), "\0001", 2);
    expect_bytes(JSON({"x\t":"x\t"}), "x\t", 2);
    expect_bytes(JSON({"\u0001\u0000":"\u0001\u0000"}), "\1\0", 2);
}
