/* SPDX-License-Identifier: Apache-2.0 */
/* test_coding.c - gzip and deflate: what headers mean, and bodies packed by others.
 *
 * The packed bytes below are of gzip(1), Python's gzip and Python's zlib. What we pack
 * is unpacked by zlib itself, called here as its manual says. */
#include "formats/coding.h"
#include "test.h"

#include <zlib.h>

static const char TEXT[] = "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0]]}";

#define STREAM                                                                                     \
    "\xab\x56\xca\xcd\x4f\x49\xcd\x51\xb2\x52\x4a\x49\xcd\xcd\x57\xd2\x51\x2a\x2c\x4d\x2d\xaa\x54" \
    "\xb2\x8a\x8e\x36\xd4\x31\xd0\x31\x88\xd5\x89\x36\xd0\x01\xb2\x62\x63\x6b\x01"
#define GZIP_END  "\xef\x93\x02\x51\x2a\x00\x00\x00"
#define GZIP      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03" STREAM GZIP_END
#define GZIP_NAME "\x1f\x8b\x08\x08\x01\x00\x00\x00\x02\xffname.json\x00" STREAM GZIP_END
#define ZLIB      "\x78\x9c" STREAM "\x1a\xad\x0c\x77"

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct {
    const char *what;
    enum coding coding;
    const char *bytes;
    size_t size;
} PACKED[] = {
    { "gzip -9n", CODING_GZIP, BYTES(GZIP) },
    { "gzip.GzipFile('name.json')", CODING_GZIP, BYTES(GZIP_NAME) },
    { "zlib.compress", CODING_DEFLATE, BYTES(ZLIB) },
    { "zlib.compressobj(9, DEFLATED, -15)", CODING_DEFLATE, BYTES(STREAM) },
};

enum { PACKED_COUNT = sizeof PACKED / sizeof PACKED[0] };

/* A body of its own memory, offset bytes behind its begin. */
static struct byte_slice make_body(const char *bytes, size_t size, size_t offset, void **memory)
{
    char *copy = malloc(offset + size + 1);
    assert_non_null(copy);
    memcpy(copy + offset, bytes, size);
    *memory = copy;
    return (struct byte_slice){ copy + offset, size };
}

/* Unpacks the bytes. The result must be text; or the call must fail with code and leave the body
 * as it was. */
static void expect(enum coding coding, const char *bytes, size_t size, size_t bytes_max,
                   const char *text, size_t text_size, enum fault_code code)
{
    for (size_t offset = 0; offset < 16; offset += 5) {
        struct fault fault = { .code = FAULT_NONE };
        void *memory;
        const struct byte_slice packed = make_body(bytes, size, offset, &memory);
        struct byte_slice body = packed;
        const bool done = coding_unpack(coding, &body, &memory, bytes_max, NULL, &fault);
        assert_int_equal(fault.code, code);
        assert_int_equal(done, code == FAULT_NONE);
        assert_int_equal((const char *)body.data - (const char *)memory, offset);
        if (done) {
            assert_int_equal(body.size, text_size);
            assert_memory_equal(body.data, text, text_size);
        } else {
            assert_ptr_equal(body.data, packed.data);
            assert_int_equal(body.size, packed.size);
        }
        free(memory);
    }
}

TEST(body_header)
{
    static const struct {
        const char *header;
        int coding; /* -1: refused */
    } CASES[] = {
        { NULL, CODING_IDENTITY },
        { "", CODING_IDENTITY },
        { "identity", CODING_IDENTITY },
        { "IDENTITY", CODING_IDENTITY },
        { "gzip", CODING_GZIP },
        { "GZip", CODING_GZIP },
        { " gzip ", CODING_GZIP },
        { "x-gzip", CODING_GZIP },
        { "deflate", CODING_DEFLATE },
        { "identity, gzip", CODING_GZIP },
        { "deflate,identity", CODING_DEFLATE },
        { ",gzip,,", CODING_GZIP },
        { "gzip, gzip", -1 },
        { "gzip, deflate", -1 },
        { "br", -1 },
        { "zstd", -1 },
        { "compress", -1 },
        { "gzip;q=1", -1 },
        { "gzi", -1 },
        { "gzipp", -1 },
        { "x-deflate", -1 },
        { "*", -1 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct fault fault = { .code = FAULT_NONE };
        enum coding coding = CODING_COUNT;
        const bool taken = coding_of_body(CASES[i].header, &coding, &fault);
        if (taken != (CASES[i].coding >= 0) || (taken && (int)coding != CASES[i].coding))
            fail_msg("'%s'", CASES[i].header);
        assert_int_equal(fault.code, taken ? FAULT_NONE : FAULT_ENCODING);
    }
}

TEST(answer_header)
{
    static const struct {
        const char *header;
        enum coding coding;
        bool required;
    } CASES[] = {
        { NULL, CODING_IDENTITY, false },
        { "", CODING_IDENTITY, false },
        { "identity", CODING_IDENTITY, false },
        { "gzip", CODING_GZIP, false },
        { "x-gzip", CODING_GZIP, false },
        { "deflate", CODING_DEFLATE, false },
        { "gzip, deflate", CODING_GZIP, false },
        { "deflate, gzip", CODING_GZIP, false },
        { "gzip, deflate, br, zstd", CODING_GZIP, false },
        { "br", CODING_IDENTITY, false },
        { "*", CODING_GZIP, false },
        { "gzip;q=0.5, deflate;q=0.6", CODING_DEFLATE, false },
        { "gzip;q=0.501, deflate;q=0.5", CODING_GZIP, false },
        { "gzip;q=0", CODING_IDENTITY, false },
        { "gzip;q=0.0, deflate", CODING_DEFLATE, false },
        { "gzip;q=0.000", CODING_IDENTITY, false },
        { "gzip;q=0.001", CODING_GZIP, false },
        { "gzip; q=1.000", CODING_GZIP, false },
        { "gzip ; Q=0.3", CODING_GZIP, false },
        { "identity, gzip;q=0.5", CODING_IDENTITY, false },
        { "identity;q=0.5, gzip", CODING_GZIP, false },
        { "identity;q=0.5, gzip;q=0.5", CODING_GZIP, false },
        { "identity;q=0, gzip", CODING_GZIP, true },
        { "*;q=0, deflate", CODING_DEFLATE, true },
        { "gzip, *;q=0", CODING_GZIP, true },
        { "identity;q=0, *", CODING_GZIP, true },
        { "*;q=0.5, gzip;q=0", CODING_DEFLATE, false },
        { "*;q=0, identity", CODING_IDENTITY, false },
        { "*;q=0", CODING_IDENTITY, false },
        { "identity;q=0", CODING_IDENTITY, false },
        { "identity;q=0, br", CODING_IDENTITY, false },
        { "gzip;q=", CODING_IDENTITY, false },
        { "gzip;q=2", CODING_IDENTITY, false },
        { "gzip;q=1.5", CODING_IDENTITY, false },
        { "gzip;q=0.5x", CODING_IDENTITY, false },
        { "gzip;q=-1", CODING_IDENTITY, false },
        { "gzip;level=9", CODING_IDENTITY, false },
        { "*gzip", CODING_IDENTITY, false },
        { ", ,gzip", CODING_GZIP, false },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        bool required = !CASES[i].required;
        const enum coding coding = coding_of_answer(CASES[i].header, &required);
        if (coding != CASES[i].coding || required != CASES[i].required)
            fail_msg("'%s'", CASES[i].header);
    }
}

TEST(packed_by_others)
{
    char twice[4 * sizeof TEXT], members[256];
    for (int i = 0; i < PACKED_COUNT; i++) {
        const char *bytes = PACKED[i].bytes;
        const size_t size = PACKED[i].size, text_size = sizeof TEXT - 1;
        expect(PACKED[i].coding, bytes, size, 1 << 20, TEXT, text_size, FAULT_NONE);
        expect(PACKED[i].coding, bytes, size, text_size, TEXT, text_size, FAULT_NONE);
        expect(PACKED[i].coding, bytes, size, text_size - 1, NULL, 0, FAULT_TOO_LARGE);
        expect(PACKED[i].coding, bytes, size, 0, NULL, 0, FAULT_TOO_LARGE);
        expect(CODING_IDENTITY, bytes, size, 1, bytes, size, FAULT_NONE);
        /* Followed by the other one of gzip, or by itself. */
        const int next = PACKED[i].coding == CODING_GZIP ? !i : i;
        memcpy(members, bytes, size);
        memcpy(members + size, PACKED[next].bytes, PACKED[next].size);
        snprintf(twice, sizeof twice, "%s%s", TEXT, TEXT);
        expect(PACKED[i].coding, members, size + PACKED[next].size, 1 << 20, twice, 2 * text_size,
               PACKED[i].coding == CODING_GZIP ? FAULT_NONE : FAULT_CODING);
    }
    expect(CODING_GZIP, "", 0, 1 << 20, "", 0, FAULT_NONE); /* no body at all */
}

TEST(broken)
{
    char bytes[128];
    for (int i = 0; i < PACKED_COUNT; i++) {
        const size_t size = PACKED[i].size;
        for (size_t cut = 1; cut < size; cut++)
            expect(PACKED[i].coding, PACKED[i].bytes, cut, 1 << 20, NULL, 0, FAULT_CODING);
        memcpy(bytes, PACKED[i].bytes, size);
        for (int more = 0; more < 256; more++) {
            bytes[size] = (char)more;
            expect(PACKED[i].coding, bytes, size + 1, 1 << 20, NULL, 0, FAULT_CODING);
        }
        /* Any wrong byte is refused, unless it is in a part of a header that does not matter. */
        for (size_t at = 0; at < size; at++) {
            struct fault fault = { .code = FAULT_NONE };
            void *memory;
            struct byte_slice body = make_body(PACKED[i].bytes, size, 0, &memory);
            ((char *)memory)[at] ^= 0x15;
            if (!coding_unpack(PACKED[i].coding, &body, &memory, 1 << 20, NULL, &fault))
                assert_int_equal(fault.code, FAULT_CODING);
            else if (PACKED[i].size != sizeof STREAM - 1) /* that one has no check sum */
                assert_memory_equal(body.data, TEXT, sizeof TEXT - 1);
            free(memory);
        }
    }
    expect(CODING_GZIP, BYTES(ZLIB), 1 << 20, NULL, 0, FAULT_CODING);
    expect(CODING_GZIP, TEXT, sizeof TEXT - 1, 1 << 20, NULL, 0, FAULT_CODING);
    expect(CODING_DEFLATE, TEXT, sizeof TEXT - 1, 1 << 20, NULL, 0, FAULT_CODING);
    expect(CODING_DEFLATE, BYTES(GZIP), 1 << 20, NULL, 0, FAULT_CODING);
}

/* What zlib makes of it, called by its manual. */
static void expect_unpacks(enum coding coding, const char *packed, size_t packed_size,
                           const unsigned char *bytes, size_t size)
{
    unsigned char *out = malloc(size + 1);
    z_stream stream = { .next_in = (unsigned char *)packed, .avail_in = (uInt)packed_size };
    assert_non_null(out);
    stream.next_out = out;
    stream.avail_out = (uInt)size + 1;
    assert_int_equal(inflateInit2(&stream, coding == CODING_GZIP ? 31 : 15), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(stream.total_out, size);
    assert_int_equal(stream.avail_in, 0);
    if (size > 0)
        assert_memory_equal(out, bytes, size);
    inflateEnd(&stream);
    free(out);
}

static void fill(unsigned char *bytes, size_t size, bool digits)
{
    uint64_t state = 88172645463325252;
    for (size_t i = 0; i < size; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = digits ? (unsigned char)('0' + state % 10) : (unsigned char)(state >> 32);
    }
}

TEST(packed_by_us)
{
    static unsigned char bytes[700000];
    static const size_t SIZES[] = { 1, 100, 20000, 65535, 65536, 65537, sizeof bytes };
    for (int digits = 0; digits < 2; digits++)
        for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++)
            for (int coding = CODING_GZIP; coding < CODING_COUNT; coding++)
                for (int required = 0; required < 2; required++) {
                    const size_t size = SIZES[i];
                    fill(bytes, size, digits);
                    const struct byte_slice parts[] = { { bytes, size / 3 },
                                                        { bytes, 0 },
                                                        { bytes + size / 3, size - size / 3 } };
                    size_t packed_size = 0;
                    char *packed =
                        coding_pack((enum coding)coding, parts, 3, required, &packed_size);
                    const bool pays = digits && size > 60;
                    assert_int_equal(packed != NULL, required || pays);
                    if (pays && size > 1000)
                        assert_in_range(packed_size, size * 4 / 10, size * 6 / 10);
                    if (packed)
                        expect_unpacks((enum coding)coding, packed, packed_size, bytes, size);
                    free(packed);
                }
}

/* A thousand bytes for each that came. */
TEST(bomb)
{
    enum { SIZE = 8 << 20 };
    unsigned char *zeros = calloc(1, SIZE);
    const struct byte_slice part = { zeros, SIZE };
    size_t size = 0;
    char *bomb = coding_pack(CODING_GZIP, &part, 1, false, &size);
    assert_non_null(bomb);
    assert_in_range(size, 1000, SIZE / 200);
    expect(CODING_GZIP, bomb, size, SIZE, (char *)zeros, SIZE, FAULT_NONE);
    expect(CODING_GZIP, bomb, size, SIZE - 1, NULL, 0, FAULT_TOO_LARGE);
    expect(CODING_GZIP, bomb, size, 100000, NULL, 0, FAULT_TOO_LARGE);
    free(bomb);
    free(zeros);
}

/* What is guessed of a body before it is unpacked. */
TEST(unpacked_guess)
{
    const size_t most = 1 << 30;
    assert_int_equal(coding_unpacked_guess(CODING_IDENTITY, TEXT, 42, most), 42);
    assert_int_equal(coding_unpacked_guess(CODING_GZIP, GZIP, sizeof GZIP - 1, most),
                     sizeof GZIP - 1); /* it says 42, which is less than came */
    assert_int_equal(coding_unpacked_guess(CODING_GZIP, NULL, 1000, most), 3000);
    assert_int_equal(coding_unpacked_guess(CODING_DEFLATE, ZLIB, sizeof ZLIB - 1, most),
                     3 * (sizeof ZLIB - 1));
    assert_int_equal(coding_unpacked_guess(CODING_GZIP, GZIP, 17, most), 51); /* too short */
    assert_int_equal(coding_unpacked_guess(CODING_GZIP, NULL, SIZE_MAX, most), SIZE_MAX);

    enum { SIZE = 8 << 20 };
    unsigned char *zeros = calloc(1, SIZE);
    const struct byte_slice part = { zeros, SIZE };
    size_t size = 0;
    char *bomb = coding_pack(CODING_GZIP, &part, 1, false, &size);
    assert_non_null(bomb);
    assert_int_equal(coding_unpacked_guess(CODING_GZIP, bomb, size, most), SIZE);
    assert_int_equal(coding_unpacked_guess(CODING_GZIP, bomb, size, 100000), 100000);
    memset(bomb + size - 4, 0xff, 4); /* a lie, believed as far as it can be true */
    assert_int_equal(coding_unpacked_guess(CODING_GZIP, bomb, size, most), 1032 * size);
    assert_int_equal(coding_unpacked_guess(CODING_GZIP, bomb, size, 10), size);
    free(bomb);
    free(zeros);
}
