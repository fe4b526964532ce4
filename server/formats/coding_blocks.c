/* SPDX-License-Identifier: Apache-2.0 */
/* coding_blocks.c - see coding_blocks.h. Apart from coding.c, because here many threads pack one
 * answer, while there one thread packs or unpacks a whole body. */
#include "formats/coding_blocks.h"

#include "formats/coding_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 64 << 10, /* take a millisecond or two to pack */
    DICTIONARY_BYTES = 32 << 10,
    PACKED_BYTES_MAX = BLOCK_BYTES + BLOCK_BYTES / 8 + BLOCK_BYTES / 64 + 64, /* deflateBound() */
};

struct coding_block {
    unsigned char *place; /* of the packed bytes */
    size_t bytes, used;   /* before packing and after */
    unsigned long check;  /* of the bytes before packing: CRC-32 or Adler-32, by the format */
};

bool coding_blocks_begin(struct coding_blocks *blocks, enum coding coding, bool required,
                         const struct byte_slice *source, int source_count,
                         struct memory_share *share)
{
    size_t bytes = 0;
    for (int i = 0; i < source_count; i++)
        bytes += source[i].size;
    const size_t count = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    const size_t heads = count * sizeof(struct coding_block);
    const size_t parts = (count + 2) * sizeof(struct byte_slice);
    const size_t total = heads + parts + count * PACKED_BYTES_MAX;
    *blocks = (struct coding_blocks){ .coding = coding,
                                      .is_required = required,
                                      .source = source,
                                      .source_count = source_count,
                                      .source_bytes = bytes };
    if (count == 0 || !memory_reserve(share, total))
        return false;
    blocks->blocks = malloc(total);
    if (!blocks->blocks)
        return false;
    blocks->count = (int64_t)count;
    blocks->bytes = total;
    blocks->parts = (struct byte_slice *)((char *)blocks->blocks + heads);
    unsigned char *place = (unsigned char *)blocks->parts + parts;
    for (size_t i = 0; i < count; i++)
        blocks->blocks[i].place = place + i * PACKED_BYTES_MAX;
    return true;
}

/* ------------------------------------------------------------- one block -- */

/* The check of the format, CRC-32 or Adler-32, with more bytes; of NULL, the check of no bytes. */
static unsigned long add_to_check(const struct coding_blocks *blocks, unsigned long check,
                                  struct byte_slice bytes)
{
    return blocks->coding == CODING_GZIP ? crc32(check, bytes.data, (uInt)bytes.size)
                                         : adler32(check, bytes.data, (uInt)bytes.size);
}

/* The bytes at an offset of the source, as many as lie in one place and at most `bytes`. */
static struct byte_slice find(const struct coding_blocks *blocks, size_t offset, size_t bytes)
{
    int i = 0;
    for (; offset >= blocks->source[i].size; i++)
        offset -= blocks->source[i].size;
    const size_t there = blocks->source[i].size - offset;
    return (struct byte_slice){ (const char *)blocks->source[i].data + offset,
                                there < bytes ? there : bytes };
}

static bool set_dictionary(const struct coding_blocks *blocks, z_stream *stream, size_t offset)
{
    unsigned char before[DICTIONARY_BYTES];
    for (size_t used = 0; used < DICTIONARY_BYTES;) {
        const struct byte_slice part =
            find(blocks, offset - DICTIONARY_BYTES + used, DICTIONARY_BYTES - used);
        memcpy(before + used, part.data, part.size);
        used += part.size;
    }
    return deflateSetDictionary(stream, before, DICTIONARY_BYTES) == Z_OK;
}

static bool deflate_block(const struct coding_blocks *blocks, z_stream *stream, size_t offset,
                          struct coding_block *block)
{
    const bool is_last = offset + block->bytes == blocks->source_bytes;
    block->check = add_to_check(blocks, 0, (struct byte_slice){ NULL, 0 });
    if (offset > 0 && !set_dictionary(blocks, stream, offset))
        return false;
    stream->next_out = block->place;
    stream->avail_out = PACKED_BYTES_MAX;
    for (size_t taken = 0; taken < block->bytes;) {
        const struct byte_slice part = find(blocks, offset + taken, block->bytes - taken);
        stream->next_in = (unsigned char *)part.data; /* zlib only reads there */
        stream->avail_in = (uInt)part.size;
        block->check = add_to_check(blocks, block->check, part);
        if (deflate(stream, Z_NO_FLUSH) != Z_OK)
            return false;
        taken += part.size;
    }
    const int result = deflate(stream, is_last ? Z_FINISH : Z_SYNC_FLUSH);
    block->used = PACKED_BYTES_MAX - stream->avail_out;
    return result == (is_last ? Z_STREAM_END : Z_OK) && stream->avail_out > 0;
}

void coding_blocks_pack(struct coding_blocks *blocks, int64_t i)
{
    struct coding_block *block = &blocks->blocks[i];
    const size_t offset = (size_t)i * BLOCK_BYTES, left = blocks->source_bytes - offset;
    z_stream stream = { .next_in = NULL };
    if (atomic_load_explicit(&blocks->is_vain, memory_order_relaxed))
        return;
    block->bytes = left < BLOCK_BYTES ? left : BLOCK_BYTES;
    bool is_good = coding_deflate_begin(&stream, -CODING_WINDOW_BITS);
    if (is_good) {
        is_good = deflate_block(blocks, &stream, offset, block);
        deflateEnd(&stream);
    }
    if (!is_good || (!blocks->is_required && block->used > block->bytes / 10 * 9 + 64))
        atomic_store_explicit(&blocks->is_vain, true, memory_order_relaxed);
}

/* ------------------------------------------------------------- all blocks -- */

static void put_little(unsigned char *out, unsigned long value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

static void put_big(unsigned char *out, unsigned long value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* The head and tail of gzip (RFC 1952): no name, no time, the fastest level, Unix. */
static void frame_gzip(struct coding_blocks *blocks, unsigned long check)
{
    static const unsigned char head[] = { 0x1f, 0x8b, Z_DEFLATED, 0, 0, 0, 0, 0, 4, 3 };
    memcpy(blocks->head, head, sizeof head);
    put_little(blocks->tail, check);
    put_little(blocks->tail + 4, (unsigned long)(blocks->source_bytes & 0xffffffff));
    blocks->parts[0] = (struct byte_slice){ blocks->head, sizeof head };
    blocks->parts[blocks->count + 1] = (struct byte_slice){ blocks->tail, 8 };
}

/* The head and tail of zlib (RFC 1950): a window of 32 KiB, the fastest level. */
static void frame_zlib(struct coding_blocks *blocks, unsigned long check)
{
    static const unsigned char head[] = { 0x78, 0x01 };
    memcpy(blocks->head, head, sizeof head);
    put_big(blocks->tail, check);
    blocks->parts[0] = (struct byte_slice){ blocks->head, sizeof head };
    blocks->parts[blocks->count + 1] = (struct byte_slice){ blocks->tail, 4 };
}

bool coding_blocks_finish(struct coding_blocks *blocks)
{
    const bool is_gzip = blocks->coding == CODING_GZIP;
    unsigned long check = add_to_check(blocks, 0, (struct byte_slice){ NULL, 0 });
    size_t packed = 0;
    if (atomic_load_explicit(&blocks->is_vain, memory_order_relaxed))
        return false;
    for (int64_t i = 0; i < blocks->count; i++) {
        const struct coding_block *block = &blocks->blocks[i];
        blocks->parts[i + 1] = (struct byte_slice){ block->place, block->used };
        packed += block->used;
        check = is_gzip ? crc32_combine(check, block->check, (z_off_t)block->bytes)
                        : adler32_combine(check, block->check, (z_off_t)block->bytes);
    }
    if (is_gzip)
        frame_gzip(blocks, check);
    else
        frame_zlib(blocks, check);
    blocks->part_count = (int)blocks->count + 2;
    return blocks->is_required || packed < blocks->source_bytes;
}

size_t coding_blocks_trim(struct coding_blocks *blocks)
{
    size_t held = blocks->bytes;
    for (int64_t i = 0; i < blocks->count; i++) {
        const struct coding_block *block = &blocks->blocks[i];
        held -= memory_give_back(block->place + block->used, PACKED_BYTES_MAX - block->used);
    }
    return held;
}

void coding_blocks_free(struct coding_blocks *blocks)
{
    free(blocks->blocks);
    *blocks = (struct coding_blocks){ .count = 0 };
}
