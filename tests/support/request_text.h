/* SPDX-License-Identifier: Apache-2.0 */
/* request_text.h - the text of requests that are too long to type. */
#ifndef REQUEST_TEXT_H
#define REQUEST_TEXT_H

#include "http_client.h"

#include <stdint.h>

/* Text that grows; a zeroed struct is empty. The caller frees data with free(). */
struct request_text {
    char *data; /* ended by NUL */
    size_t used, capacity;
};

void request_text_add(struct request_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* [[a,b],[c,d]]. Each number has nine digits, which are enough to read the same float again. */
void request_text_matrix(struct request_text *text, const float *values, int64_t rows,
                         int64_t columns);

/* The same with numbers made from seed, uniform in [-1, 1). */
void request_text_random(struct request_text *text, uint64_t seed, int64_t rows, int64_t columns);

/* The same with numbers of one digit, which are short to send and to read. */
void request_text_digits(struct request_text *text, int64_t rows, int64_t columns);

/* The body of an attention request on "sdpa" whose answer has some 25 MB, which is far more than
 * the buffers of both sockets. */
char *request_text_large_answer(void);

/* The body of a small attention request on "sdpa" that takes about this many seconds to compute
 * on an idle daemon. It has 64 query heads of width 1 over one key head, and asks for lse only.
 * Smaller requests of the same kind are measured to find the size. more is inserted before the
 * end of the object: "" or ",\"causal\":true". */
char *request_text_slow(struct http_client *client, double seconds, const char *more);

#endif
