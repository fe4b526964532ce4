/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - JSON text that is being written.
 *
 * A text is a growing buffer with a bound. It remembers a failure (no memory, past the bound) and
 * drops what is written later, so that only text_finish() needs a check. */
#ifndef ATTND_TEXT_H
#define ATTND_TEXT_H

#include "base/fault.h"
#include "base/memory_budget.h"
#include "json/tensor_text.h"

/* A tensor that is not in the text: its own text belongs behind the first `at` bytes. */
struct text_deferral {
    struct tensor_text tensor;
    size_t at;
};

/* The long tensors that are not in the text, in order. The caller writes them. */
struct text_deferred {
    struct text_deferral *gaps; /* malloc'd, the caller's; counted in the text's share */
    int64_t count, capacity;
};

enum { TEXT_DEFERRED_NUMBERS_MIN = 256 }; /* a tensor of fewer numbers is never deferred */

struct text {
    char *data; /* malloc'd, not NUL-terminated; a caller that keeps it sets it to NULL here */
    size_t used;
    size_t capacity;
    size_t bytes_max;
    struct memory_share *memory;    /* the request's; NULL: none. Set after text_init() */
    struct text_deferred *deferred; /* NULL, as at first: every tensor is written at once */
    enum fault_code failed;         /* FAULT_NONE, FAULT_MEMORY or FAULT_ANSWER_TOO_LARGE */
};

/* An empty text that grows to at most bytes_max bytes; SIZE_MAX: no bound. */
void text_init(struct text *text, size_t bytes_max);
void text_free(struct text *text);

/* Gives back room that a text which is complete has left, where that is much. What its share has
 * reserved is the caller's to correct. */
void text_trim(struct text *text);

/* A text in the caller's buffer, whose last byte stays unused. Such a text never grows and must not
 * be freed. */
struct text text_in(char *buffer, size_t buffer_size);

/* Returns room for size more bytes; NULL where the text has failed. The caller adds to text->used
 * what it writes there. */
char *text_reserve(struct text *text, size_t size);

void text_raw(struct text *text, const char *literal);                      /* as it is */
void text_bytes(struct text *text, const char *bytes, size_t size);         /* as they are */
void text_string(struct text *text, const char *string);                    /* "quoted, escaped" */
void text_string_bytes(struct text *text, const char *string, size_t size); /* NUL may be in it */
void text_key(struct text *text, const char *key);                          /* "key": */
void text_integer(struct text *text, int64_t value);
void text_decimal(struct text *text, int64_t value, int places); /* value * 10^-places: "0.120" */
void text_float(struct text *text, float value);                 /* null where not finite */
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Write nested arrays, see tensor_text.h. text_tensor() is for floats and writes rank 0 as a single
 * number; text_numbers() is for all kinds of numbers, of rank 1 or more. A long tensor is only
 * noted where text->deferred is set. */
void text_tensor(struct text *text, const float *values, int rank, const int64_t *shape);
void text_numbers(struct text *text, const struct tensor_text *tensor);

/* True where nothing has failed; else sets a fault that says what failed. */
bool text_finish(const struct text *text, struct fault *fault);

/* Copies a string and a NUL byte, cut to fit out_size bytes. */
void text_copy(char *out, size_t out_size, const char *string);

#endif
