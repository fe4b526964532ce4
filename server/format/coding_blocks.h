/* coding_blocks.h - a long answer packed block by block, by many threads, into one stream.
 *
 * As pigz does it (M. Adler, zlib.net/pigz): each block of 64 KiB is deflated by itself, with the
 * 32 KiB before it for a dictionary, and ends at a byte, so that the blocks one after the other,
 * between the head and the tail of the format, are one stream like any other. */
#ifndef ATTND_CODING_BLOCKS_H
#define ATTND_CODING_BLOCKS_H

#include "base/bytes.h"
#include "base/memory_budget.h"

#include <stdatomic.h>

/* Zeroed is none. It must not be moved once it is finished: the first and the last part are in it.
 */
struct coding_blocks {
    enum coding coding;
    bool is_required;
    const struct byte_slice *source;
    int source_count;
    size_t source_bytes;

    struct coding_block *blocks; /* and behind them room for what they are packed to; malloc'd */
    int64_t count;
    _Atomic bool is_vain; /* there was no memory, or it does not shrink */
    unsigned char head[10], tail[8];

    struct byte_slice *parts; /* when it is finished */
    int part_count;
};

/* There are count blocks to pack. required: also where they do not shrink. What that takes is
 * reserved in share. False: there is no memory, and none. */
bool coding_blocks_begin(struct coding_blocks *blocks, enum coding coding, bool required,
                         const struct byte_slice *source, int source_count,
                         struct memory_share *share);

/* Packs block i, each once, by any thread. */
void coding_blocks_pack(struct coding_blocks *blocks, int64_t i);

/* When all are packed: makes the parts. False where the answer is to go unpacked: it did not
 * shrink, or there was no memory. */
bool coding_blocks_finish(struct coding_blocks *blocks);

/* Memory stays reserved until its share ends. */
void coding_blocks_free(struct coding_blocks *blocks);

#endif
