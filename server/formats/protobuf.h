/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf.h - the fields of a message of Protocol Buffers, read one by one from its bytes.
 *
 * Nothing is copied and nothing is allocated: a message within a message is a view of its bytes,
 * which the caller reads in the same way. So the depth and the work are the caller's, and every
 * length is checked against the bytes that are there.
 *
 * Source: https://protobuf.dev/programming-guides/encoding/ */
#ifndef ATTND_PROTOBUF_H
#define ATTND_PROTOBUF_H

#include "base/bytes.h"
#include "base/fault.h"

enum protobuf_wire {
    PROTOBUF_VARINT = 0,
    PROTOBUF_FIXED64 = 1,
    PROTOBUF_BYTES = 2, /* strings, bytes, messages and packed numbers */
    PROTOBUF_FIXED32 = 5
};

struct protobuf_field {
    int32_t number;
    enum protobuf_wire wire;
    uint64_t value;          /* of the three kinds of numbers, as they lie there */
    struct byte_slice bytes; /* of PROTOBUF_BYTES, in the message */
};

/* A message that is being read. */
struct protobuf_message {
    const unsigned char *bytes;
    size_t size, at;
    bool failed;
};

struct protobuf_message protobuf_message_of(struct byte_slice bytes);

/* Reads the next field. False: there is none, or message->failed, and then the fault (json, with
 * the byte of the message) is set. Groups, which nobody writes any more, are faults. */
bool protobuf_next(struct protobuf_message *message, struct protobuf_field *field,
                   struct fault *fault);

/* What the field says; 0 or false where it is of another kind of wire. */
int64_t protobuf_integer(const struct protobuf_field *field);
float protobuf_float(const struct protobuf_field *field);

#endif
