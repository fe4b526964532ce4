/* SPDX-License-Identifier: Apache-2.0 */
/* test_protobuf.c - fields of protobuf messages, and messages that lie about their sizes. */
#include "formats/protobuf.h"
#include "test.h"

#define MESSAGE(literal) protobuf_message_of((struct byte_slice){ literal, sizeof literal - 1 })

TEST(kinds)
{
    struct protobuf_message message = MESSAGE("\x08\x96\x01"
                                              "\x12\x03"
                                              "abc"
                                              "\x1d\x00\x00\x80\x3f"
                                              "\x21\1\0\0\0\0\0\0\x80"
                                              "\xc2\x02\x00"
                                              "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    struct protobuf_field field;
    struct fault fault;
    assert_true(protobuf_next(&message, &field, &fault));
    assert_int_equal(field.number, 1);
    assert_int_equal(protobuf_integer(&field), 150);
    assert_true(protobuf_next(&message, &field, &fault));
    assert_int_equal(field.number, 2);
    assert_int_equal(field.bytes.size, 3);
    assert_memory_equal(field.bytes.data, "abc", 3);
    assert_true(protobuf_next(&message, &field, &fault));
    assert_int_equal(field.number, 3);
    assert_true(protobuf_float(&field) == 1.0f);
    assert_int_equal(protobuf_integer(&field), 0);
    assert_true(protobuf_next(&message, &field, &fault));
    assert_int_equal(field.value, 0x8000000000000001);
    assert_true(protobuf_next(&message, &field, &fault));
    assert_int_equal(field.number, 40);
    assert_int_equal(field.bytes.size, 0);
    assert_true(protobuf_next(&message, &field, &fault));
    assert_int_equal(protobuf_integer(&field), -1);
    assert_false(protobuf_next(&message, &field, &fault));
    assert_false(message.failed);
}

static void expect_broken(struct protobuf_message message, const char *what)
{
    struct protobuf_field field;
    struct fault fault = { 0 };
    while (protobuf_next(&message, &field, &fault))
        continue;
    assert_true(message.failed);
    assert_non_null(strstr(fault.message, what));
}

TEST(broken)
{
    expect_broken(MESSAGE("\x08"), "cut off");
    expect_broken(MESSAGE("\x08\x80"), "cut off");
    expect_broken(MESSAGE("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), "ten bytes");
    expect_broken(MESSAGE("\x12\x04"
                          "abc"),
                  "past the end");
    expect_broken(MESSAGE("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                          "abc"),
                  "past the end");
    expect_broken(MESSAGE("\x1d\0\0\0"), "cut off");
    expect_broken(MESSAGE("\x21\0\0\0\0\0\0\0"), "cut off");
    expect_broken(MESSAGE("\x00\x00"), "without a number");
    expect_broken(MESSAGE("\x0b\x0c"), "unknown kind");
    expect_broken(MESSAGE("\x0f"), "unknown kind");
}
