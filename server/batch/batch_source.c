/* SPDX-License-Identifier: Apache-2.0 */
/* batch_source.c - see batch_source.h. */
#include "batch/batch_source.h"

#include "base/grow.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 20 };

static bool fail(const struct batch_source *source, const char *what, struct fault *fault)
{
    return !fault_from_shortage(fault, errno)
           && fault_set(fault, FAULT_STORAGE, "%s: %s%s", source->path, what, strerror(errno));
}

/* Reads up to size bytes; less only at the end of the file. -1: an error. */
static ssize_t read_at(int file, char *bytes, size_t size, int64_t offset)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t got = pread(file, bytes + done, size - done, offset + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/* -------------------------------------------------------------------- its lines -- */

static bool add_chunk(struct batch_source *source, int64_t offset, int64_t *capacity,
                      struct fault *fault)
{
    int64_t *offsets = array_with_room(source->chunk_offsets, source->chunk_count, capacity,
                                       sizeof *source->chunk_offsets);
    if (!offsets)
        return fault_no_memory(fault);
    source->chunk_offsets = offsets;
    offsets[source->chunk_count++] = offset;
    return true;
}

/* Notes where chunks begin in a block of the file, in which a line begins at *line_begin. */
static bool find_lines(struct batch_source *source, const char *block, size_t size, int64_t offset,
                       int64_t *line_begin, int64_t *capacity, struct fault *fault)
{
    const char *at = block, *end = block + size;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        if (source->line_count % source->chunk_lines == 0
            && !add_chunk(source, *line_begin, capacity, fault))
            return false;
        source->line_count++;
        at++;
        *line_begin = offset + (at - block);
        if (at == end)
            break;
    }
    return true;
}

static bool read_through(struct batch_source *source, char *block, struct sha256 *hash,
                         struct fault *fault)
{
    int64_t line_begin = 0, capacity = 0, offset = 0;
    ssize_t got;
    while ((got = read_at(source->file, block, BLOCK_BYTES, offset)) > 0) {
        sha256_add(hash, block, (size_t)got);
        if (!find_lines(source, block, (size_t)got, offset, &line_begin, &capacity, fault))
            return false;
        offset += got;
    }
    if (got < 0)
        return fail(source, "", fault);
    source->bytes = offset;
    if (offset > line_begin) {
        if (source->line_count % source->chunk_lines == 0
            && !add_chunk(source, line_begin, &capacity, fault))
            return false;
        source->line_count++;
    }
    if (!add_chunk(source, offset, &capacity, fault))
        return false;
    source->chunk_count--;
    return true;
}

bool batch_source_open(struct batch_source *source, struct fault *fault)
{
    struct sha256 hash;
    struct stat status;
    /* A named pipe that nobody writes to would else be waited for. */
    source->file = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (source->file < 0)
        return fail(source, "", fault);
    source->buffer = malloc(BLOCK_BYTES);
    source->capacity = BLOCK_BYTES;
    sha256_begin(&hash);
    bool good = source->buffer || fault_no_memory(fault);
    if (good && (fstat(source->file, &status) != 0 || !S_ISREG(status.st_mode)))
        good = fault_set(fault, FAULT_STORAGE,
                         "%s is no plain file; a batch reads its requests again where it goes on",
                         source->path);
    good = good && read_through(source, source->buffer, &hash, fault);
    if (!sha256_end(&hash, source->sha256) && good)
        good = fault_no_memory(fault);
    if (!good)
        batch_source_close(source);
    return good;
}

void batch_source_close(struct batch_source *source)
{
    if (source->file >= 0)
        close(source->file);
    source->file = -1;
    free(source->chunk_offsets);
    free(source->buffer);
    source->chunk_offsets = NULL;
    source->buffer = NULL;
}

int64_t batch_source_lines(const struct batch_source *source, int64_t chunk)
{
    const int64_t left = source->line_count - chunk * source->chunk_lines;
    return left < source->chunk_lines ? left : source->chunk_lines;
}

/* ------------------------------------------------------------------ line by line -- */

void batch_source_seek(struct batch_source *source, int64_t chunk)
{
    source->begin = source->end = 0;
    source->read_to = source->chunk_offsets[chunk];
    source->chunk_end = source->chunk_offsets[chunk + 1];
    source->line = chunk * source->chunk_lines + 1;
}

static bool make_room(struct batch_source *source, struct fault *fault)
{
    if (source->begin > 0) {
        memmove(source->buffer, source->buffer + source->begin, source->end - source->begin);
        source->end -= source->begin;
        source->begin = 0;
    }
    if (source->end < source->capacity)
        return true;
    assert(source->capacity > 0);
    char *larger = realloc(source->buffer, 2 * source->capacity);
    if (!larger)
        return fault_no_memory(fault);
    source->buffer = larger;
    source->capacity *= 2;
    return true;
}

/* Reads on; false, also where the chunk ends. */
static bool fill(struct batch_source *source, struct fault *fault)
{
    if (!make_room(source, fault))
        return false;
    const int64_t left = source->chunk_end - source->read_to;
    const size_t room = source->capacity - source->end;
    const size_t size = left < (int64_t)room ? (size_t)left : room;
    const ssize_t got = read_at(source->file, source->buffer + source->end, size, source->read_to);
    if (got < 0)
        return fail(source, "", fault);
    if ((size_t)got < size)
        return fault_set(fault, FAULT_STORAGE, "%s has become shorter while it is read",
                         source->path);
    source->end += (size_t)got;
    source->read_to += got;
    return true;
}

/* Begins to look behind the first seen bytes. Returns the size of the line that begins the buffer's
 * rest, SIZE_MAX where it is not known yet. */
static size_t find_end(const struct batch_source *source, size_t seen)
{
    const char *begin = source->buffer + source->begin;
    const size_t size = source->end - source->begin;
    const char *end = memchr(begin + seen, '\n', size - seen);
    if (end)
        return (size_t)(end - begin);
    return source->read_to == source->chunk_end ? size : SIZE_MAX;
}

enum batch_read batch_source_next(struct batch_source *source, struct batch_text *text,
                                  struct fault *fault)
{
    size_t seen = 0, size;
    *text = (struct batch_text){ .number = source->line };
    text->offset = source->read_to - (int64_t)(source->end - source->begin);
    if (text->offset == source->chunk_end)
        return BATCH_CHUNK_ENDS;
    while ((size = find_end(source, seen)) == SIZE_MAX) {
        seen = source->end - source->begin;
        if (seen > source->line_bytes_max) { /* the bytes of a line that is too long are dropped */
            text->is_too_long = true;
            source->begin = source->end = seen = 0;
        }
        if (!fill(source, fault))
            return BATCH_FAILED;
    }
    text->is_too_long = text->is_too_long || size > source->line_bytes_max;
    text->bytes = source->buffer + source->begin;
    text->size = size;
    source->begin += size;
    if (source->begin < source->end)
        source->begin++; /* the line feed */
    source->line++;
    return BATCH_READ;
}

bool batch_source_again(const struct batch_source *source, int64_t offset, size_t size,
                        char **bytes, struct fault *fault)
{
    *bytes = malloc(size + 1);
    if (!*bytes)
        return fault_no_memory(fault);
    if (read_at(source->file, *bytes, size, offset) == (ssize_t)size)
        return true;
    free(*bytes);
    *bytes = NULL;
    return fault_set(fault, FAULT_STORAGE, "%s cannot be read again", source->path);
}
