/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - what a body says, whatever format it came in: values by name.
 *
 * A format (formats/format.h) makes a message of a body, and a table of fields (field.h) reads the
 * message into a struct. Between the two, nothing knows JSON or files, and nothing knows
 * operations. A message says what came, and a field says whether it fits. So a message may hold
 * anything: rows of unequal length, booleans among numbers, tensors of a dtype that nobody takes.
 *
 * Values and lists lie in the arena of the request. Strings, numbers and the bytes of tensors stay
 * where the format found them, in the body or in its document: both must stay as long as what was
 * read from the message. A message is read once, because reading a mask changes its numbers. */
#ifndef ATTND_MESSAGE_H
#define ATTND_MESSAGE_H

#include "base/array.h"
#include "base/bytes.h"
#include "json/json.h"

/* Bytes that came as a tensor, as the format describes them. Only that the bytes are there is
 * checked. */
struct tensor {
    const char *dtype; /* the name that files of safetensors have for it: "F32", "I64" */
    const void *bytes; /* little-endian, row-major, any alignment */
    size_t size;
    int64_t rank; /* any; shape has the first dimensions */
    uint64_t shape[ARRAY_RANK_MAX];
};

enum value_kind {
    VALUE_NULL, /* means absent */
    VALUE_BOOL,
    VALUE_NUMBER,
    VALUE_STRING,
    VALUE_NUMBERS, /* an array of numbers, booleans and null in text; [] is one, too */
    VALUE_LIST,    /* any other array: its values have no names */
    VALUE_OBJECT,
    VALUE_TENSOR,
};

struct message {
    struct value *values; /* [count], in the order in which they came */
    int64_t count;
};

struct value {
    const char *name; /* ends with a NUL byte; NULL in a list */
    enum value_kind kind;
    union {
        bool flag;
        double number;
        const char *string; /* where it may have U+0000: as json.h has it */
        struct json_numbers *numbers;
        struct message inner; /* of a list or an object */
        const struct tensor *tensor;
    };
};

/* The values of a list, where [] is one too. False: the value is no list. */
bool value_is_list(const struct value *value, const struct message **list);

/* The value of that name; NULL where it is absent. Of message_member() also where it is null. */
const struct value *message_find(const struct message *message, const char *name);
const struct value *message_member(const struct message *message, const char *name);

/* What a value is, for a fault: "a string", "an array of numbers". */
const char *value_words(const struct value *value);

#endif
