/* init.h - initial values of parameters. */
#ifndef ATTN_INIT_H
#define ATTN_INIT_H

#include <stdint.h>

/* Fill values with count numbers for a matrix of in inputs and out outputs, both 1 or more: uniform
 * between minus and plus sqrt(6 / (in + out)) (Glorot and Bengio 2010, equation 16). Number i
 * depends only on seed, stream and i, and has the same bits on every machine. Give each matrix
 * under one seed its own stream. */
void attn_init_glorot(float *values, int64_t count, int64_t in, int64_t out, uint64_t seed,
                      uint64_t stream);

#endif
