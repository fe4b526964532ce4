/* random_blocks.h - blocks of random bytes whose scales are finite. */
#ifndef RANDOM_BLOCKS_H
#define RANDOM_BLOCKS_H

#include "buffers.h"
#include "fill.h"
#include "quantize.h"

#include "kernels/kernels.h"

enum { BLOCK_DTYPES = ATTN_BLOCKS_COUNT };

/* The dtypes of blocks, in order. */
static inline enum attn_dtype block_dtype(int index)
{
    static const enum attn_dtype dtypes[] = {
#define X(NAME, numbers, bytes) ATTN_##NAME,
        ATTN_BLOCK_MAP(X)
#undef X
    };
    return dtypes[index];
}

static inline enum attn_blocks blocks_of(enum attn_dtype dtype)
{
    int index = 0;
    while (block_dtype(index) != dtype)
        index++;
    return (enum attn_blocks)index;
}

/* The places of the scales of binary16 in a block, -1 behind the last. */
static inline const int *block_scales(enum attn_dtype dtype)
{
    static const int ONE[] = { 0, -1 }, TWO[] = { 0, 2, -1 }, NONE[] = { -1 };
    static const int Q2_K[] = { 80, 82, -1 }, Q3_K[] = { 108, -1 }, Q6_K[] = { 208, -1 };

    switch (dtype) {
    case ATTN_Q4_1:
    case ATTN_Q5_1:
    case ATTN_Q4_K:
    case ATTN_Q5_K:
        return TWO;
    case ATTN_Q2_K:
        return Q2_K;
    case ATTN_Q3_K:
        return Q3_K;
    case ATTN_Q6_K:
        return Q6_K;
    case ATTN_MXFP4:
        return NONE;
    default:
        return ONE;
    }
}

/* count blocks in memory that ends at a guard page: scales of all finite sizes and both signs, but
 * mostly such that sums stay finite. */
static inline uint8_t *random_blocks(struct fill *fill, enum attn_dtype dtype, int64_t count)
{
    const int64_t bytes = (int64_t)attn_block_bytes(dtype);
    uint8_t *blocks = buffers_bytes(count * bytes);

    for (int64_t i = 0; i < count * bytes; i++)
        blocks[i] = (uint8_t)fill_bits(fill);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == ATTN_MXFP4)
            blocks[i * bytes] = (uint8_t)(fill_below(fill, 8) == 0 ? fill_below(fill, 3)
                                                                   : 110 + fill_below(fill, 20));
        for (const int *at = block_scales(dtype); *at >= 0; at++)
            if ((blocks[i * bytes + *at + 1] & 0x7c) == 0x7c)
                blocks[i * bytes + *at + 1] ^= 0x40;
    }
    return blocks;
}

#endif
