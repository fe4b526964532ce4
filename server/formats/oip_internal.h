/* SPDX-License-Identifier: Apache-2.0 */
/* oip_internal.h - what the files of the Open Inference Protocol share to read a request. */
#ifndef ATTND_FORMAT_OIP_INTERNAL_H
#define ATTND_FORMAT_OIP_INTERNAL_H

#include "formats/oip.h"

/* 2^24: the numbers of a JSON array are read as floats, which hold every integer up to it. */
static const int64_t OIP_INTEGER_MAX = 16777216;

struct oip_reader {
    struct format_body *body;
    struct oip_request *oip;
    struct fault *fault;
    const char *tail; /* the bytes behind the JSON */
    size_t tail_size, tail_used;

    /* The entry of "inputs" or "outputs" that is read. */
    const char *list;
    int index;
    const struct message *entry, *parameters; /* parameters: empty where it has none */
    const char *name;
};

extern const struct message oip_nothing;

/* Sets a fault at "/list/index/member", or at "/list/index" where member is "". Returns false. */
bool oip_refuse(const struct oip_reader *reader, const char *member, enum fault_code code,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

#ifdef __clang_analyzer__ /* as in base/fault.h */
#define oip_refuse(...) ((oip_refuse)(__VA_ARGS__), false)
#endif

/* Makes the fault one of a parameter of an entry. Returns false. */
bool oip_at_parameter(struct fault *fault, const char *list, int index, const char *name);

/* A string among the entry's members, or NULL and a fault. */
const char *oip_string_member(const struct oip_reader *reader, const char *name);

/* Sets the entry's parameters. False, with a fault, where they are no object. */
bool oip_read_entry(struct oip_reader *reader);

/* ------------------------------------------------------------- oip_data.c -- */

/* Reads the tensor of the entry, an input that is known so. */
bool oip_read_tensor(struct oip_reader *reader, const struct oip_tensor *known,
                     struct tensor *tensor);

/* Makes a tensor of bytes: a view, or a copy where they are not aligned. */
bool oip_take_bytes(const struct oip_reader *reader, const struct oip_datatype *datatype,
                    const void *bytes, struct tensor *tensor);

/* Reads the parameters shared_memory_* of the entry into the place of an output. Its region is NULL
 * where the entry has none; else it is found, holds the bytes, and is the request's until it ends.
 */
bool oip_find_region(const struct oip_reader *reader, struct oip_output *place);

#define OIP_REGION      "shared_memory_region"
#define OIP_REGION_SIZE "shared_memory_byte_size"

#endif
