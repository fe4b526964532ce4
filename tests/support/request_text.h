/* request_text.h - the text of requests that are too long to type. */
#ifndef REQUEST_TEXT_H
#define REQUEST_TEXT_H

#include "http_client.h"

#include <stdint.h>

/* Text that grows; zeroed is empty. data is the caller's to free(). */
struct request_text {
    char *data; /* ended by NUL */
    size_t used, capacity;
};

void request_text_add(struct request_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* [[a,b],[c,d]], each number with the nine digits that make it the same float again. */
void request_text_matrix(struct request_text *text, const float *values, int64_t rows,
                         int64_t columns);

/* The same of numbers made from seed, uniform in [-1, 1). */
void request_text_random(struct request_text *text, uint64_t seed, int64_t rows, int64_t columns);

/* The same of digits, which are short to send and to read. */
void request_text_digits(struct request_text *text, int64_t rows, int64_t columns);

/* The body of an attention request on "sdpa" that is small and takes about so long to compute on
 * an idle daemon: 64 query heads of width 1 over one key head, of which only lse is asked. How long
 * is measured, with smaller ones of the same kind. more is inserted before the end of the object:
 * "" or ",\"causal\":true". */
char *request_text_slow(struct http_client *client, double seconds, const char *more);

#endif
