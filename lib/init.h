/* init.h - parameters to begin with. */
#ifndef ATTN_INIT_H
#define ATTN_INIT_H

#include <stdint.h>

/* count numbers for a matrix of in inputs and out outputs, both 1 or more: uniform between minus
 * and plus sqrt(6 / (in + out)) (Glorot and Bengio 2010, equation 16). Number i is a function of
 * seed, stream and i alone, the same to the last bit on every machine; give every matrix under a
 * seed a stream of its own. */
void attn_init_glorot(float *values, int64_t count, int64_t in, int64_t out, uint64_t seed,
                      uint64_t stream);

#endif
