/* SPDX-License-Identifier: Apache-2.0 */
/* coding_blocks.h - a long answer packed block by block, by many threads, into one stream.
 *
 * This is the way of pigz (M. Adler, zlib.net/pigz). Each block of 64 KiB is deflated by itself,
 * with the 32 KiB before it as its dictionary, and ends at a byte boundary. So the blocks one after
 * the other, between the head and the tail of the format (RFC 1952 or RFC 1950), are one stream
 * like any other. */
#ifndef ATTND_CODING_BLOCKS_H
#define ATTND_CODING_BLOCKS_H

#include "base/bytes.h"
#include "base/memory_budget.h"

#include <stdatomic.h>

/* A zeroed struct has no blocks. Once finished it must not be moved: the first and the last part
 * point into it. */
struct coding_blocks {
    enum coding coding;
    bool is_required;
    const struct byte_slice *source;
    int source_count;
    size_t source_bytes;

    struct coding_block *blocks; /* malloc'd, with room behind them for the packed bytes */
    int64_t count;
    size_t bytes;         /* of that memory */
    _Atomic bool is_vain; /* there was no memory, or a block did not shrink: the rest is skipped */
    unsigned char head[10], tail[8];

    struct byte_slice *parts; /* the packed answer, once finished: head, blocks, tail */
    int part_count;
};

/* Cuts the source, which must outlive the blocks, into blocks->count blocks. required: pack also
 * where that does not shrink the answer. Memory is reserved in share. Returns false where there is
 * no memory or the source is empty; then there is nothing to free. */
bool coding_blocks_begin(struct coding_blocks *blocks, enum coding coding, bool required,
                         const struct byte_slice *source, int source_count,
                         struct memory_share *share);

/* Packs block i. Call it once for each block, from any thread. */
void coding_blocks_pack(struct coding_blocks *blocks, int64_t i);

/* Makes the parts, after all blocks are packed. False where the answer must be sent unpacked: it
 * did not shrink, or there was no memory. */
bool coding_blocks_finish(struct coding_blocks *blocks);

/* Gives back the room that the packed blocks have left. Returns the bytes that are still held; the
 * share is the caller's to correct. */
size_t coding_blocks_trim(struct coding_blocks *blocks);

/* Frees the blocks and parts. Their memory stays reserved until the share ends. */
void coding_blocks_free(struct coding_blocks *blocks);

#endif
