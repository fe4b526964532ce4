/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - blocks of random bytes whose scales are finite, of every dtype that has blocks. */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "attn.h"
#include "fill.h"

enum {
#define X(NAME, numbers, bytes) BLOCKS_##NAME,
    ATTN_BLOCK_MAP(X)
#undef X
        BLOCKS_DTYPES
};

/* The dtypes in order, and their names. */
enum attn_dtype blocks_dtype(int index);
const char *blocks_name(int index);

/* Fills count blocks: scales of both signs and of all sizes of binary16, of MXFP4 mostly between
 * 2^-18 and 4. So numbers are finite, and so are their sums. */
void blocks_fill(struct fill *fill, int index, int64_t count, uint8_t *blocks);

#endif
