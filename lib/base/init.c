/* init.c - initial values of parameters; see init.h.
 *
 * All arithmetic is in double and either exact or rounded once (the square root), so all machines
 * have the same bits. 24 random bits make an odd multiple of 2^-24: never 0, and symmetric about
 * 0. */
#include "init.h"

#include "base/philox.h"

#include <math.h>

void attn_init_glorot(float *values, int64_t count, int64_t in, int64_t out, uint64_t seed,
                      uint64_t stream)
{
    const double bound = sqrt(6.0 / ((double)in + (double)out));
    uint32_t bits[4] = { 0 };

    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            attn_philox(seed, (uint64_t)(i / 4), stream, bits);
        const double odd = 2.0 * (double)(bits[i % 4] >> 8) + 1.0;
        values[i] = (float)(bound * (odd * 0x1p-24 - 1.0));
    }
}
