/* SPDX-License-Identifier: Apache-2.0 */
/* coding_internal.h - how coding.c and coding_blocks.c ask zlib to pack; the only header that
 * includes zlib.h.
 *
 * They use level 1: the digits of floats shrink to a little under half at any level, and higher
 * levels only take longer. */
#ifndef ATTND_CODING_INTERNAL_H
#define ATTND_CODING_INTERNAL_H

#include <stdbool.h>
#include <zlib.h>

enum { CODING_WINDOW_BITS = 15 }; /* negative: without a frame, as zlib has it */

/* Begins packing with a zeroed stream. False: there is no memory, and deflateEnd() is not needed.
 */
static inline bool coding_deflate_begin(z_stream *stream, int window_bits)
{
    enum { LEVEL = 1, MEMORY_LEVEL = 8 };
    return deflateInit2(stream, LEVEL, Z_DEFLATED, window_bits, MEMORY_LEVEL, Z_DEFAULT_STRATEGY)
           == Z_OK;
}

#endif
