/* tensor_text.h - the numbers of a tensor as nested JSON arrays, or a stretch of them.
 *
 * Rank 2 and shape {2, 3} give [[a,b,c],[d,e,f]]. Stretches that follow one another make the
 * whole, to the byte, whoever writes them and wherever to. */
#ifndef ATTND_TENSOR_TEXT_H
#define ATTND_TENSOR_TEXT_H

#include "attn.h"

#include <stddef.h>
#include <stdint.h>

enum { TENSOR_TEXT_RANK_MAX = 8, TENSOR_TEXT_NUMBER_BYTES_MAX = 48 };

struct tensor_text {
    const void *values; /* dense, row-major; read from here as long as it is written */
    enum attn_dtype dtype;
    bool is_integers; /* values are int64_t, and of no dtype */
    int rank;         /* 1 or more */
    int64_t shape[TENSOR_TEXT_RANK_MAX];
    int64_t count; /* of all numbers */
};

/* Counts them; shape is copied. */
struct tensor_text tensor_text_make(const void *values, enum attn_dtype dtype, int rank,
                                    const int64_t *shape);

/* The most bytes that a number takes with its comma and brackets, and what may be touched behind
 * it; at most TENSOR_TEXT_NUMBER_BYTES_MAX. */
size_t tensor_text_number_bytes(const struct tensor_text *tensor);

/* The most bytes that a stretch takes, and what may be touched behind it. */
size_t tensor_text_bytes(const struct tensor_text *tensor, int64_t count);

/* Writes count numbers, 1 or more, from number first on, with the brackets before, between and
 * behind them, where there is room for them; returns how many bytes that took. */
size_t tensor_text_write(const struct tensor_text *tensor, int64_t first, int64_t count, char *out);

#endif
