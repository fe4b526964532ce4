/* oip_reader.h - what oip_envelope.c and oip_data.c share to read an inference request. */
#ifndef ATTND_OIP_READER_H
#define ATTND_OIP_READER_H

#include "wire/wire_oip.h"

/* 2^24: the numbers of a JSON array are read as floats, which hold every integer up to it. */
static const int64_t OIP_INTEGER_MAX = 16777216;

struct oip_reader {
    struct infer_call *call;
    struct oip *oip;
    struct fault *fault;
    const char *tail; /* the bytes behind the JSON */
    size_t tail_size, tail_used;
};

/* Sets a fault at "/list/index/member", or at "/list/index" where member is "". Returns false. */
bool oip_refuse(struct fault *fault, const char *list, int index, const char *member,
                enum fault_code code, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* What kind of value a node is, in words. */
const char *oip_kind_of(const struct oip_reader *reader, const cJSON *node);

/* A member of an object; NULL where it is absent or null. */
const cJSON *oip_member(const cJSON *object, const char *name);

/* A string among an input's or output's members, or NULL and a fault. */
const char *oip_string_member(struct oip_reader *reader, const char *list, int index,
                              const cJSON *object, const char *name);

/* Finds a member of the object's "parameters"; *value is NULL where it is absent. False, with a
 * fault, where "parameters" is not an object. */
bool oip_parameter_member(struct oip_reader *reader, const char *list, int index,
                          const cJSON *object, const char *name, const cJSON **value);

/* ------------------------------------------------------------- oip_data.c -- */

/* Read members of the input in this slot, the datatype first; object is its JSON. */
bool oip_read_datatype(struct oip_reader *reader, int slot, const cJSON *object);
bool oip_read_shape(struct oip_reader *reader, int slot, const cJSON *object);

/* Read the input's numbers: from the member data, or as bytes from the tail, whose size node
 * gives. */
bool oip_read_data(struct oip_reader *reader, int slot, const cJSON *node);
bool oip_read_binary(struct oip_reader *reader, int slot, const cJSON *node);

/* Takes the input's numbers from bytes, of any alignment. */
bool oip_take_bytes(struct oip_reader *reader, int slot, const void *bytes);

#endif
