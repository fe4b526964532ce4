/* coding_internal.h - how zlib is asked to pack, by coding.c and coding_blocks.c.
 *
 * Level 1: the digits of floats shrink to somewhat under a half at any level, and the
 * higher ones only take longer. */
#ifndef ATTND_CODING_INTERNAL_H
#define ATTND_CODING_INTERNAL_H

#include <stdbool.h>
#include <zlib.h>

enum { CODING_WINDOW_BITS = 15 }; /* negated they mean no frame */

/* Of a zeroed stream. False: there is no memory, and nothing to be ended. */
static inline bool coding_deflate_begin(z_stream *stream, int window_bits)
{
    enum { LEVEL = 1, MEMORY_LEVEL = 8 };
    return deflateInit2(stream, LEVEL, Z_DEFLATED, window_bits, MEMORY_LEVEL, Z_DEFAULT_STRATEGY)
           == Z_OK;
}

#endif
