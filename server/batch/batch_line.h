/* SPDX-License-Identifier: Apache-2.0 */
/* batch_line.h - a line of a file of requests, in the form that OpenAI's batches have:
 *
 *     {"custom_id":"a","method":"POST","url":"/v1/attention","body":{...}}
 *
 * The body is found and not read: its operation reads it, as it reads the body of a request. */
#ifndef ATTND_BATCH_LINE_H
#define ATTND_BATCH_LINE_H

#include "base/bytes.h"
#include "base/fault.h"

/* Bytes of a custom_id, and of a line beside its body. */
enum { BATCH_ID_MAX = 512, BATCH_BESIDE_MAX = 64 << 10 };

struct batch_line {
    bool has_id;
    size_t id_size;
    char id[BATCH_ID_MAX + 1]; /* no NUL is in it */
    const char *method, *url;  /* these two and the body lie in the text */
    struct byte_slice body;    /* an object, by its brackets */
};

/* Reads a line of size bytes, over which strings are decoded in place. False, with the fault, whose
 * pointer is the field; what was read before is in the line. */
bool batch_line_read(struct batch_line *line, char *text, size_t size, struct fault *fault);

#endif
