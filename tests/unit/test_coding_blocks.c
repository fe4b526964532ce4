/* SPDX-License-Identifier: Apache-2.0 */
/* test_coding_blocks.c - blocks that are packed in any order, of any parts, make one stream that
 * zlib unpacks to the same bytes. A body that does not shrink is sent unpacked. */
#include "formats/coding_blocks.h"
#include "test.h"

#include <zlib.h>

enum { BYTES = 700000 };

static unsigned char text[BYTES], noise[BYTES];

static int set_up(void **state)
{
    uint64_t random = 1;
    for (int i = 0; i < BYTES; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        noise[i] = (unsigned char)(random >> 56);
        text[i] = (unsigned char)("0123456789,."[(random >> 40) % 12]);
    }
    return 0;
}

static size_t joined(const struct coding_blocks *blocks, unsigned char **bytes)
{
    size_t size = 0;
    for (int i = 0; i < blocks->part_count; i++)
        size += blocks->parts[i].size;
    *bytes = malloc(size + 1);
    unsigned char *p = *bytes;
    for (int i = 0; i < blocks->part_count; i++) {
        memcpy(p, blocks->parts[i].data, blocks->parts[i].size);
        p += blocks->parts[i].size;
    }
    return size;
}

static void expect_unpacked(const struct coding_blocks *blocks, const unsigned char *wanted,
                            size_t size)
{
    unsigned char *packed, *bytes = malloc(size + 1);
    const size_t packed_bytes = joined(blocks, &packed);
    z_stream stream = { .next_in = packed, .avail_in = (uInt)packed_bytes };
    assert_int_equal(inflateInit2(&stream, blocks->coding == CODING_GZIP ? 31 : 15), Z_OK);
    stream.next_out = bytes;
    stream.avail_out = (uInt)size + 1;
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(stream.avail_in, 0);
    assert_int_equal(stream.total_out, size);
    assert_memory_equal(bytes, wanted, size);
    inflateEnd(&stream);
    free(packed);
    free(bytes);
}

static bool pack(struct coding_blocks *blocks, enum coding coding, bool required,
                 const struct byte_slice *parts, int part_count)
{
    assert_true(coding_blocks_begin(blocks, coding, required, parts, part_count, NULL));
    for (int64_t i = 0; i < blocks->count; i++) /* the first one last */
        coding_blocks_pack(blocks, blocks->count - 1 - i);
    return coding_blocks_finish(blocks);
}

TEST(sizes)
{
    static const size_t sizes[] = { 1, 65535, 65536, 65537, 131072, 200000, BYTES };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int coding = CODING_GZIP; coding <= CODING_DEFLATE; coding++) {
            const struct byte_slice part = { text, sizes[i] };
            struct coding_blocks blocks;
            assert_true(pack(&blocks, (enum coding)coding, true, &part, 1));
            assert_int_equal(blocks.count, (sizes[i] + 65535) / 65536);
            expect_unpacked(&blocks, text, sizes[i]);
            coding_blocks_free(&blocks);
        }
}

/* Parts much smaller and larger than a block, and empty ones. */
TEST(parts)
{
    static struct byte_slice parts[1000];
    int count = 0;
    size_t at = 0;
    for (size_t size = 0; at + size < BYTES && count < 999; size = (size * 7 + 13) % 9001) {
        parts[count++] = (struct byte_slice){ text + at, size };
        at += size;
    }
    parts[count++] = (struct byte_slice){ text + at, BYTES - at };
    struct coding_blocks blocks;
    assert_true(pack(&blocks, CODING_GZIP, false, parts, count));
    expect_unpacked(&blocks, text, BYTES);
    coding_blocks_free(&blocks);
}

TEST(what_does_not_shrink)
{
    const struct byte_slice part = { noise, BYTES };
    struct coding_blocks blocks;
    assert_false(pack(&blocks, CODING_GZIP, false, &part, 1));
    coding_blocks_free(&blocks);
    assert_true(pack(&blocks, CODING_DEFLATE, true, &part, 1));
    expect_unpacked(&blocks, noise, BYTES);
    coding_blocks_free(&blocks);
}

TEST(no_memory)
{
    const struct byte_slice part = { text, BYTES };
    struct memory_share share = { 0 };
    struct coding_blocks blocks;
    memory_budget_limit(BYTES);
    assert_false(coding_blocks_begin(&blocks, CODING_GZIP, true, &part, 1, &share));
    assert_int_equal(blocks.count, 0);
    assert_int_equal(share.bytes, 0);
    coding_blocks_free(&blocks);
    memory_budget_limit(SIZE_MAX);
}

ALL_TESTS(set_up, NULL);
