/* SPDX-License-Identifier: Apache-2.0 */
/* coding.c - see coding.h.
 *
 * Bytes that do not shrink, as those of float tensors, are noticed after PROBE_BYTES and sent as
 * they are. */
#include "formats/coding.h"

#include "formats/accept.h"
#include "formats/coding_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    GZIP_FRAME = 16, /* added to the window bits, it asks zlib for the frame of gzip */
    PROBE_BYTES = 65536,
    CAPACITY_MIN = 16384,
    STEP_BYTES_MAX = 1 << 30, /* zlib counts in unsigned int */
};

/* --------------------------------------------------------------- headers -- */

static const struct {
    const char *name;
    enum coding coding;
} NAMES[] = { { "identity", CODING_IDENTITY },
              { "gzip", CODING_GZIP },
              { "x-gzip", CODING_GZIP },
              { "deflate", CODING_DEFLATE } };

enum { NAME_COUNT = sizeof NAMES / sizeof NAMES[0] };

/* More results of coding_named(), beside those of enum coding; CODING_ANY is "*". */
enum { CODING_ANY = CODING_COUNT, CODING_UNKNOWN };

static int coding_named(const char *name, size_t length)
{
    for (int i = 0; i < NAME_COUNT; i++)
        if (strlen(NAMES[i].name) == length && strncasecmp(NAMES[i].name, name, length) == 0)
            return (int)NAMES[i].coding;
    return CODING_UNKNOWN;
}

const char *coding_name(enum coding coding)
{
    return coding == CODING_GZIP ? "gzip" : coding == CODING_DEFLATE ? "deflate" : "";
}

bool coding_of_body(const char *header, enum coding *coding, struct fault *fault)
{
    const char *list = header ? header : "";
    struct accept_element element;
    *coding = CODING_IDENTITY;
    while (accept_next(&list, &element)) {
        const int named = coding_named(element.text, element.length);
        if (named == CODING_UNKNOWN || (named != CODING_IDENTITY && *coding != CODING_IDENTITY))
            return fault_set(fault, FAULT_ENCODING,
                             "Content-Encoding is '%.40s'; expected gzip, deflate or identity",
                             header);
        if (named != CODING_IDENTITY)
            *coding = (enum coding)named;
    }
    return true;
}

enum coding coding_of_answer(const char *header, bool *required)
{
    enum { UNSAID = -1 };
    int quality[CODING_ANY + 1] = { UNSAID, UNSAID, UNSAID, UNSAID };
    const char *list = header ? header : "";
    struct accept_element element;
    while (accept_next(&list, &element)) {
        const int named = *element.text == '*' && element.name_length == 1
                              ? CODING_ANY
                              : coding_named(element.text, element.name_length);
        if (named != CODING_UNKNOWN)
            quality[named] = accept_quality(&element, false);
    }
    for (int i = 0; i < CODING_COUNT; i++)
        if (quality[i] == UNSAID)
            quality[i] = quality[CODING_ANY];
    const enum coding best =
        quality[CODING_DEFLATE] > quality[CODING_GZIP] ? CODING_DEFLATE : CODING_GZIP;
    const bool packed = quality[best] > 0 && quality[best] >= quality[CODING_IDENTITY];
    *required = packed && quality[CODING_IDENTITY] == 0;
    return packed ? best : CODING_IDENTITY;
}

/* ---------------------------------------------------------------- unpack -- */

/* zlib's parameter for the frame that the first bytes show. */
static int window_bits(enum coding coding, const unsigned char *bytes, size_t size)
{
    if (coding == CODING_GZIP)
        return CODING_WINDOW_BITS + GZIP_FRAME;
    const bool framed =
        size >= 2 && (bytes[0] & 15) == Z_DEFLATED && (bytes[0] << 8 | bytes[1]) % 31 == 0;
    return framed ? CODING_WINDOW_BITS : -CODING_WINDOW_BITS;
}

/* As many of the bytes as zlib takes in one step. */
static uInt step_bytes(size_t bytes)
{
    return bytes < STEP_BYTES_MAX ? (uInt)bytes : STEP_BYTES_MAX;
}

/* A body that is being unpacked: memory has `offset` unused bytes, then the bytes that came out. */
struct unpacking {
    z_stream stream;
    const unsigned char *end; /* of the input */
    unsigned char *memory;
    size_t offset, used, capacity, bytes_max;
    struct memory_share *share;
};

static bool grow(struct unpacking *unpacking, struct fault *fault)
{
    size_t capacity =
        unpacking->capacity < CAPACITY_MIN / 2 ? CAPACITY_MIN : 2 * unpacking->capacity;
    /* Room for one byte over the bound, to see that the body is longer. */
    if (capacity > unpacking->bytes_max)
        capacity = unpacking->bytes_max + 1;
    if (!memory_reserve(unpacking->share, capacity - unpacking->capacity))
        return fault_no_memory(fault);
    unsigned char *memory = realloc(unpacking->memory, unpacking->offset + capacity);
    if (!memory)
        return fault_no_memory(fault);
    unpacking->memory = memory;
    unpacking->capacity = capacity;
    return true;
}

/* Runs inflate() once with the input and the room that there is; returns its result. */
static int inflate_some(struct unpacking *unpacking)
{
    z_stream *stream = &unpacking->stream;
    stream->avail_in = step_bytes((size_t)(unpacking->end - stream->next_in));
    stream->avail_out = step_bytes(unpacking->capacity - unpacking->used);
    stream->next_out = unpacking->memory + unpacking->offset + unpacking->used;
    const int result = inflate(stream, Z_NO_FLUSH);
    unpacking->used = (size_t)(stream->next_out - unpacking->memory) - unpacking->offset;
    return result;
}

static bool inflate_all(struct unpacking *unpacking, enum coding coding, struct fault *fault)
{
    const char *name = coding_name(coding);
    for (;;) {
        if (unpacking->used == unpacking->capacity && !grow(unpacking, fault))
            return false;
        const int result = inflate_some(unpacking);
        const bool all_in = unpacking->stream.next_in == unpacking->end;
        if (unpacking->used > unpacking->bytes_max)
            return fault_set(fault, FAULT_TOO_LARGE,
                             "the body is longer than %zu bytes when it is unpacked",
                             unpacking->bytes_max);
        if (result == Z_STREAM_END && all_in)
            return true;
        if (result == Z_STREAM_END && coding == CODING_GZIP) {
            inflateReset(&unpacking->stream); /* another member, or bytes that inflate() refuses */
            continue;
        }
        if (result == Z_STREAM_END)
            return fault_set(fault, FAULT_CODING, "bytes follow the end of the body's %s stream",
                             name);
        if (result == Z_MEM_ERROR)
            return fault_no_memory(fault);
        if (result != Z_OK && result != Z_BUF_ERROR)
            return fault_set(fault, FAULT_CODING, "the body is not %s: %s", name,
                             unpacking->stream.msg ? unpacking->stream.msg : "wrong bytes");
        if (all_in && unpacking->used < unpacking->capacity)
            return fault_set(fault, FAULT_CODING, "the body ends within its %s stream", name);
    }
}

bool coding_unpack(enum coding coding, struct byte_slice *body, void **memory, size_t bytes_max,
                   struct memory_share *share, struct fault *fault)
{
    if (coding == CODING_IDENTITY || body->size == 0)
        return true;
    const unsigned char *bytes = body->data;
    struct unpacking unpacking = {
        .stream = { .next_in = (unsigned char *)bytes }, /* zlib only reads there */
        .end = bytes + body->size,
        .offset = (size_t)(bytes - (const unsigned char *)*memory),
        .bytes_max = bytes_max < SIZE_MAX / 4 ? bytes_max : SIZE_MAX / 4,
        .share = share,
    };
    const int result = inflateInit2(&unpacking.stream, window_bits(coding, bytes, body->size));
    if (result != Z_OK)
        return fault_no_memory(fault);
    const bool done = inflate_all(&unpacking, coding, fault);
    inflateEnd(&unpacking.stream);
    if (!done) {
        free(unpacking.memory);
        return false;
    }
    free(*memory);
    memory_return(share, body->size);
    *memory = unpacking.memory;
    *body = (struct byte_slice){ unpacking.memory + unpacking.offset, unpacking.used };
    return true;
}

/* The size at the end of gzip (RFC 1952, section 2.3.1), modulo 2^32. */
static size_t gzip_size(const unsigned char *bytes, size_t size)
{
    const unsigned char *last = bytes + size - 4;
    return (size_t)last[0] | (size_t)last[1] << 8 | (size_t)last[2] << 16 | (size_t)last[3] << 24;
}

size_t coding_unpacked_guess(enum coding coding, const void *bytes, size_t packed_bytes,
                             size_t bytes_max)
{
    enum {
        USUAL_FACTOR = 3,
        MOST_FACTOR = 1032,  /* of deflate: https://zlib.net/zlib_tech.html */
        GZIP_BYTES_MIN = 18, /* an empty member */
    };
    if (coding == CODING_IDENTITY)
        return packed_bytes;
    if (coding != CODING_GZIP || !bytes || packed_bytes < GZIP_BYTES_MIN)
        return packed_bytes < SIZE_MAX / USUAL_FACTOR ? USUAL_FACTOR * packed_bytes : SIZE_MAX;
    const size_t said = gzip_size(bytes, packed_bytes);
    size_t most = packed_bytes < bytes_max / MOST_FACTOR ? MOST_FACTOR * packed_bytes : bytes_max;
    if (most < packed_bytes)
        most = packed_bytes;
    return said < packed_bytes ? packed_bytes : said < most ? said : most;
}

/* ------------------------------------------------------------------ pack -- */

struct packing {
    z_stream stream;
    unsigned char *bytes;
    size_t capacity;
    size_t taken; /* input bytes so far */
    bool required;
};

static bool make_room(struct packing *packing, size_t used)
{
    if (used < packing->capacity)
        return true;
    const size_t capacity = 2 * packing->capacity + CAPACITY_MIN;
    unsigned char *bytes = realloc(packing->bytes, capacity);
    if (!bytes)
        return false;
    packing->bytes = bytes;
    packing->capacity = capacity;
    return true;
}

/* Packs size more bytes; with Z_FINISH, also writes all that zlib still holds. */
static bool deflate_some(struct packing *packing, const unsigned char *bytes, size_t size,
                         int flush)
{
    z_stream *stream = &packing->stream;
    size_t used = stream->next_out ? (size_t)(stream->next_out - packing->bytes) : 0;
    int result;
    stream->next_in = (unsigned char *)bytes; /* zlib only reads there */
    stream->avail_in = (uInt)size;
    do {
        if (!make_room(packing, used))
            return false;
        stream->next_out = packing->bytes + used;
        stream->avail_out = step_bytes(packing->capacity - used);
        result = deflate(stream, flush);
        used = (size_t)(stream->next_out - packing->bytes);
    } while (stream->avail_out == 0 || (flush == Z_FINISH && result == Z_OK));
    packing->taken += size;
    return true;
}

static size_t packed_bytes(const struct packing *packing)
{
    return (size_t)(packing->stream.next_out - packing->bytes);
}

/* Whether to go on: required, too early to say, or less than nine tenths came out so far. */
static bool pays(const struct packing *packing)
{
    return packing->required || packing->taken < PROBE_BYTES
           || packed_bytes(packing) < packing->taken / 10 * 9;
}

static bool deflate_parts(struct packing *packing, const struct byte_slice *parts, int part_count)
{
    for (int i = 0; i < part_count; i++) {
        const unsigned char *bytes = parts[i].data;
        for (size_t at = 0; at < parts[i].size;) {
            const size_t left = parts[i].size - at;
            const size_t some = left < PROBE_BYTES ? left : PROBE_BYTES;
            if (!deflate_some(packing, bytes + at, some, Z_NO_FLUSH) || !pays(packing))
                return false;
            at += some;
        }
    }
    return deflate_some(packing, NULL, 0, Z_FINISH)
           && (packing->required || packed_bytes(packing) < packing->taken);
}

char *coding_pack(enum coding coding, const struct byte_slice *parts, int part_count, bool required,
                  size_t *size)
{
    const int bits = CODING_WINDOW_BITS + (coding == CODING_GZIP ? GZIP_FRAME : 0);
    struct packing packing = { .bytes = malloc(CAPACITY_MIN),
                               .capacity = CAPACITY_MIN,
                               .required = required };
    if (!packing.bytes || !coding_deflate_begin(&packing.stream, bits)) {
        free(packing.bytes);
        return NULL;
    }
    const bool done = deflate_parts(&packing, parts, part_count);
    *size = done ? packed_bytes(&packing) : 0;
    deflateEnd(&packing.stream);
    if (!done) {
        free(packing.bytes);
        return NULL;
    }
    return (char *)packing.bytes;
}
