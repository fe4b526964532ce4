/* top_k.h - the largest numbers of a row. */
#ifndef ATTN_TOP_K_H
#define ATTN_TOP_K_H

#include <stdint.h>

/* Write the k largest of count numbers, largest first, and their indices; k <= count. Among equal
 * numbers the lower index comes first; NaN comes after all numbers. */
void attn_top_k(const float *row, int64_t count, int64_t k, float *values, int64_t *indices);

#endif
