/* text.h - JSON text that is being written.
 *
 * A growing buffer with a bound. A failure (no memory, past the bound) is
 * remembered; what is written after it is dropped, so that only the end needs a
 * check. */
#ifndef ATTND_TEXT_H
#define ATTND_TEXT_H

#include "base/fault.h"
#include "base/memory_budget.h"
#include "text/tensor_text.h"

/* A tensor of a text that somebody else writes, behind so many bytes of the text. */
struct text_deferral {
    struct tensor_text tensor;
    size_t at;
};

/* What is noted in place of long tensors. */
struct text_deferred {
    struct text_deferral *gaps; /* malloc'd, counted in the text's share */
    int64_t count, capacity;
};

enum { TEXT_DEFERRED_NUMBERS_MIN = 256 };

struct text {
    char *data; /* malloc'd, not NUL-terminated; whoever takes it sets it to NULL here */
    size_t used;
    size_t capacity;
    size_t bytes_max;
    struct memory_share *memory;    /* of the request, may be set after text_init(); NULL: none */
    struct text_deferred *deferred; /* NULL, as at first: every tensor is written at once */
    enum fault_code failed;         /* FAULT_NONE, FAULT_MEMORY or FAULT_ANSWER_TOO_LARGE */
};

void text_init(struct text *text, size_t bytes_max);
void text_free(struct text *text);

/* A text in a buffer of the caller's, of which the last byte is left; it asks for no memory and is
 * not to be freed. */
struct text text_in(char *buffer, size_t buffer_size);

/* Room for size more bytes; NULL where it failed. Advance text->used by what was written. */
char *text_reserve(struct text *text, size_t size);

void text_raw(struct text *text, const char *literal);              /* as it is */
void text_bytes(struct text *text, const char *bytes, size_t size); /* as they are */
void text_string(struct text *text, const char *string);            /* "quoted, escaped" */
void text_key(struct text *text, const char *key);                  /* "key": */
void text_integer(struct text *text, int64_t value);
void text_decimal(struct text *text, int64_t value, int places); /* value * 10^-places: "0.120" */
void text_float(struct text *text, float value);                 /* null where not finite */
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Nested arrays, see tensor_text.h; of rank 0 the number alone. The second for every kind of
 * numbers, of rank 1 or more. Long ones are put off where there is somebody who writes them. */
void text_tensor(struct text *text, const float *values, int rank, const int64_t *shape);
void text_numbers(struct text *text, const struct tensor_text *tensor);

/* False where something failed on the way; then the fault says what. */
bool text_finish(const struct text *text, struct fault *fault);

/* Copies a string, cut where it does not fit with its NUL byte. */
void text_copy(char *out, size_t out_size, const char *string);

#endif
