/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.c - only the scales of a block may not have all bits. */
#include "blocks.h"

static const struct {
    enum attn_dtype dtype;
    const char *name;
    int scales[3]; /* where those of binary16 are, -1 behind the last */
} BLOCKS[BLOCKS_DTYPES] = {
    [BLOCKS_Q8_0] = { ATTN_Q8_0, "Q8_0", { 0, -1 } },
    [BLOCKS_Q4_0] = { ATTN_Q4_0, "Q4_0", { 0, -1 } },
    [BLOCKS_Q4_1] = { ATTN_Q4_1, "Q4_1", { 0, 2, -1 } },
    [BLOCKS_Q5_0] = { ATTN_Q5_0, "Q5_0", { 0, -1 } },
    [BLOCKS_Q5_1] = { ATTN_Q5_1, "Q5_1", { 0, 2, -1 } },
    [BLOCKS_Q2_K] = { ATTN_Q2_K, "Q2_K", { 80, 82, -1 } },
    [BLOCKS_Q3_K] = { ATTN_Q3_K, "Q3_K", { 108, -1 } },
    [BLOCKS_Q4_K] = { ATTN_Q4_K, "Q4_K", { 0, 2, -1 } },
    [BLOCKS_Q5_K] = { ATTN_Q5_K, "Q5_K", { 0, 2, -1 } },
    [BLOCKS_Q6_K] = { ATTN_Q6_K, "Q6_K", { 208, -1 } },
    [BLOCKS_IQ4_NL] = { ATTN_IQ4_NL, "IQ4_NL", { 0, -1 } },
    [BLOCKS_IQ4_XS] = { ATTN_IQ4_XS, "IQ4_XS", { 0, -1 } },
    [BLOCKS_MXFP4] = { ATTN_MXFP4, "MXFP4", { -1 } },
};

enum attn_dtype blocks_dtype(int index)
{
    return BLOCKS[index].dtype;
}

const char *blocks_name(int index)
{
    return BLOCKS[index].name;
}

/* An exponent of all ones is infinity or NaN. */
static void make_finite(uint8_t *scale)
{
    if ((scale[1] & 0x7c) == 0x7c)
        scale[1] ^= 0x40;
}

void blocks_fill(struct fill *fill, int index, int64_t count, uint8_t *blocks)
{
    const int64_t bytes = (int64_t)attn_block_bytes(BLOCKS[index].dtype);

    for (int64_t i = 0; i < count * bytes; i++)
        blocks[i] = (uint8_t)fill_bits(fill);
    for (int64_t i = 0; i < count; i++) {
        uint8_t *block = blocks + i * bytes;
        for (const int *at = BLOCKS[index].scales; *at >= 0; at++)
            make_finite(block + *at);
        if (index == BLOCKS_MXFP4)
            *block = (uint8_t)(fill_below(fill, 8) == 0 ? fill_below(fill, 3)
                                                        : 110 + fill_below(fill, 20));
    }
}
