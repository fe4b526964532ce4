/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf.c - see protobuf.h.
 *
 * A field is a key, which is a varint of the field's number and its kind of wire, and a value. A
 * varint has 7 bits a byte, the low ones first; the high bit of a byte says that another follows,
 * and the tenth byte is the last. */
#include "formats/protobuf.h"

#include <string.h>

enum { VARINT_BYTES_MAX = 10, WIRE_BITS = 3, NUMBER_MAX = 536870911 };

struct protobuf_message protobuf_message_of(struct byte_slice bytes)
{
    return (struct protobuf_message){ .bytes = bytes.data, .size = bytes.size };
}

static bool broken(struct protobuf_message *message, struct fault *fault, const char *what)
{
    message->failed = true;
    return fault_set(fault, FAULT_JSON, "protobuf: %s at byte %zu of a message", what, message->at);
}

static bool read_varint(struct protobuf_message *message, uint64_t *value, struct fault *fault)
{
    *value = 0;
    for (int i = 0; i < VARINT_BYTES_MAX; i++) {
        if (message->at == message->size)
            return broken(message, fault, "a number that is cut off");
        const unsigned char byte = message->bytes[message->at++];
        *value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80)
            return true;
    }
    return broken(message, fault, "a number of more than ten bytes");
}

static bool read_fixed(struct protobuf_message *message, size_t size, uint64_t *value,
                       struct fault *fault)
{
    if (message->size - message->at < size)
        return broken(message, fault, "a number that is cut off");
    *value = 0;
    for (size_t i = 0; i < size; i++)
        *value |= (uint64_t)message->bytes[message->at + i] << (8 * i);
    message->at += size;
    return true;
}

static bool read_bytes(struct protobuf_message *message, struct byte_slice *bytes,
                       struct fault *fault)
{
    uint64_t size;
    if (!read_varint(message, &size, fault))
        return false;
    if (size > message->size - message->at)
        return broken(message, fault, "bytes past the end");
    *bytes = (struct byte_slice){ message->bytes + message->at, (size_t)size };
    message->at += (size_t)size;
    return true;
}

bool protobuf_next(struct protobuf_message *message, struct protobuf_field *field,
                   struct fault *fault)
{
    if (message->failed || message->at == message->size)
        return false;
    uint64_t key;
    if (!read_varint(message, &key, fault))
        return false;
    const uint64_t number = key >> WIRE_BITS;
    if (number < 1 || number > NUMBER_MAX)
        return broken(message, fault, "a field without a number");
    *field =
        (struct protobuf_field){ .number = (int32_t)number, .wire = (enum protobuf_wire)(key & 7) };
    switch (key & 7) {
    case PROTOBUF_VARINT:
        return read_varint(message, &field->value, fault);
    case PROTOBUF_FIXED64:
        return read_fixed(message, 8, &field->value, fault);
    case PROTOBUF_BYTES:
        return read_bytes(message, &field->bytes, fault);
    case PROTOBUF_FIXED32:
        return read_fixed(message, 4, &field->value, fault);
    default:
        return broken(message, fault, "an unknown kind of field");
    }
}

int64_t protobuf_integer(const struct protobuf_field *field)
{
    return field->wire == PROTOBUF_VARINT ? (int64_t)field->value : 0;
}

float protobuf_float(const struct protobuf_field *field)
{
    if (field->wire != PROTOBUF_FIXED32)
        return 0;
    const uint32_t bits = (uint32_t)field->value;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
