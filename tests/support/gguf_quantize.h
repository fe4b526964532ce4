/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_quantize.h - simple quantizers for the blocks of ggml, and what the blocks say, for tests.
 *
 * The blocks are those of ggml-common.h. The quantizers are our own: they find a scale by the
 * extremes of a block, where ggml's search for a better one. So their blocks differ from ggml's,
 * and mean about the same numbers. */
#ifndef GGUF_QUANTIZE_H
#define GGUF_QUANTIZE_H

#include <stdint.h>

struct gguf_block {
    const char *name; /* "Q4_K" */
    int number;       /* of ggml_type */
    int count, bytes; /* elements of a block, and its size */
};

/* NULL: none of this name is written. */
const struct gguf_block *gguf_block(const char *name);

/* Type i of all that are written; NULL behind the last. */
const struct gguf_block *gguf_block_at(int i);

/* count is a multiple of type->count. */
void gguf_quantize(const struct gguf_block *type, const float *values, int64_t count, void *blocks);

/* The numbers that blocks mean, by the library's own attn_unpack(), which is held to ggml's numbers
 * elsewhere (tests/conformance/README.md). */
void gguf_widen(const struct gguf_block *type, const void *blocks, int64_t count, float *values);

#endif
