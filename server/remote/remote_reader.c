/* SPDX-License-Identifier: Apache-2.0 */
/* remote_reader.c - lines of the head one by one, then the body by its length, by its chunks, or
 * until the connection ends. */
#include "remote/remote_reader.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { STATUS_LINE_MIN = 12, DIGITS_MAX = 15, BODY_BYTES_MIN = 4096 };

void remote_reader_begin(struct remote_reader *reader, size_t bytes_max)
{
    char *body = reader->body;
    const size_t capacity = reader->capacity;
    *reader = (struct remote_reader){ .bytes_max = bytes_max, .body = body, .capacity = capacity };
}

void remote_reader_free(struct remote_reader *reader)
{
    free(reader->body);
    *reader = (struct remote_reader){ .bytes_max = 0 };
}

/* ------------------------------------------------------------------- lines -- */

/* Reads "HTTP/1.1 200". No change of the protocol (101) was asked for. */
static bool read_status(struct remote_reader *reader)
{
    const char *line = reader->line;
    const size_t size = reader->line_used;
    if (size < STATUS_LINE_MIN || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' '
        || (line[7] != '0' && line[7] != '1') || (size > STATUS_LINE_MIN && line[12] != ' '))
        return false;
    reader->status = 0;
    for (int i = 9; i < STATUS_LINE_MIN; i++) {
        if (line[i] < '0' || line[i] > '9')
            return false;
        reader->status = reader->status * 10 + (line[i] - '0');
    }
    reader->closes = line[7] == '0';
    reader->part = REMOTE_HEADERS;
    return reader->status >= 100 && reader->status != 101 && reader->status <= 599;
}

/* Digits alone; false where there are others, none, or too many. */
static bool read_number(size_t *number, const char *text, size_t size, int base)
{
    *number = 0;
    if (size == 0 || size > DIGITS_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        static const char DIGITS[] = "0123456789abcdef";
        const char *digit =
            memchr(DIGITS, text[i] >= 'A' && text[i] <= 'F' ? text[i] + 32 : text[i], (size_t)base);
        if (!digit)
            return false;
        *number = *number * (size_t)base + (size_t)(digit - DIGITS);
    }
    return true;
}

static bool is_word(const char *text, size_t size, const char *word)
{
    return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

/* Two lengths that differ make it unknown where the body ends. */
static bool take_length(struct remote_reader *reader, const char *value, size_t size)
{
    size_t length;
    if (!read_number(&length, value, size, 10) || (reader->has_length && length != reader->length))
        return false;
    reader->has_length = true;
    reader->length = length;
    return true;
}

/* Retry-After may also be a date, which is not read: the wait is then the caller's own. */
static void take_retry_after(struct remote_reader *reader, const char *value, size_t size)
{
    size_t seconds;
    if (read_number(&seconds, value, size, 10))
        reader->retry_after_s =
            seconds < REMOTE_RETRY_AFTER_MAX_S ? (int)seconds : REMOTE_RETRY_AFTER_MAX_S;
}

/* It becomes a header of answers: one that has other characters than visible ones is none. */
static void take_replica(struct remote_reader *reader, const char *value, size_t size)
{
    if (size >= REMOTE_REPLICA_MAX)
        return;
    for (size_t i = 0; i < size; i++)
        if (value[i] <= ' ' || value[i] > '~')
            return;
    memcpy(reader->replica, value, size);
    reader->replica[size] = '\0';
}

static bool take_header(struct remote_reader *reader)
{
    const char *line = reader->line, *end = line + reader->line_used;
    const char *colon = memchr(line, ':', reader->line_used);
    if (!colon || colon == line || line[0] == ' ' || line[0] == '\t')
        return false;
    const size_t name_size = (size_t)(colon - line);
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    const size_t size = (size_t)(end - value);
    if (is_word(line, name_size, "Content-Length"))
        return take_length(reader, value, size);
    if (is_word(line, name_size, "Transfer-Encoding")) {
        const bool again = reader->is_chunked;
        reader->is_chunked = true;
        return !again && is_word(value, size, "chunked");
    }
    if (is_word(line, name_size, "Retry-After"))
        take_retry_after(reader, value, size);
    else if (is_word(line, name_size, "Connection") && !is_word(value, size, "keep-alive"))
        reader->closes = true;
    else if (is_word(line, name_size, "Attnd-Replica"))
        take_replica(reader, value, size);
    return true;
}

/* Makes room for size more bytes of the body, and a NUL. */
static enum remote_reading grow(struct remote_reader *reader, size_t size)
{
    if (size > reader->bytes_max - reader->size)
        return REMOTE_TOO_LONG;
    const size_t wanted = reader->size + size + 1;
    if (wanted <= reader->capacity)
        return REMOTE_MORE;
    size_t capacity = reader->capacity < BODY_BYTES_MIN ? BODY_BYTES_MIN : reader->capacity * 2;
    if (capacity < wanted)
        capacity = wanted;
    char *body = realloc(reader->body, capacity);
    if (!body)
        return REMOTE_NO_MEMORY;
    reader->body = body;
    reader->capacity = capacity;
    return REMOTE_MORE;
}

static enum remote_reading finish(struct remote_reader *reader)
{
    const enum remote_reading room = grow(reader, 0);
    if (room != REMOTE_MORE)
        return room;
    reader->body[reader->size] = '\0';
    reader->part = REMOTE_WHOLE;
    return REMOTE_DONE;
}

/* Heads with a status of 100 to 199 go before the answer, whether they were asked for or not
 * (RFC 9110, 15.2). A length beside chunks is how two readers come to read two answers. */
static enum remote_reading end_head(struct remote_reader *reader)
{
    if (reader->status < 200) {
        const size_t head_bytes = reader->head_bytes, bytes_max = reader->bytes_max;
        remote_reader_begin(reader, bytes_max);
        reader->began = true;
        reader->head_bytes = head_bytes;
        return REMOTE_MORE;
    }
    if (reader->is_chunked && reader->has_length)
        return REMOTE_BAD;
    if (reader->status == 204 || reader->status == 304)
        return finish(reader);
    if (reader->is_chunked) {
        reader->part = REMOTE_CHUNK_LINE;
        return REMOTE_MORE;
    }
    if (!reader->has_length) {
        reader->closes = true;
        reader->part = REMOTE_UNTIL_END;
        return REMOTE_MORE;
    }
    reader->left = reader->length;
    reader->part = REMOTE_LENGTH;
    const enum remote_reading room = grow(reader, reader->length);
    return room != REMOTE_MORE || reader->left > 0 ? room : finish(reader);
}

static enum remote_reading begin_chunk(struct remote_reader *reader)
{
    const char *end = memchr(reader->line, ';', reader->line_used);
    const size_t size = end ? (size_t)(end - reader->line) : reader->line_used;
    if (!read_number(&reader->left, reader->line, size, 16))
        return REMOTE_BAD;
    reader->part = reader->left > 0 ? REMOTE_CHUNK : REMOTE_TRAILER;
    return grow(reader, reader->left);
}

static enum remote_reading read_line(struct remote_reader *reader)
{
    const bool is_empty = reader->line_used == 0;
    switch (reader->part) {
    case REMOTE_STATUS_LINE:
        return read_status(reader) ? REMOTE_MORE : REMOTE_BAD;
    case REMOTE_HEADERS:
        if (is_empty)
            return end_head(reader);
        return take_header(reader) ? REMOTE_MORE : REMOTE_BAD;
    case REMOTE_CHUNK_LINE:
        return begin_chunk(reader);
    case REMOTE_CHUNK_END:
        reader->part = REMOTE_CHUNK_LINE;
        return is_empty ? REMOTE_MORE : REMOTE_BAD;
    default:
        return is_empty ? finish(reader) : REMOTE_MORE;
    }
}

/* Takes a byte of a line, which ends with "\r\n". Lines of chunks are few bytes beside their data,
 * and count for no head. */
static enum remote_reading take_of_line(struct remote_reader *reader, char byte)
{
    const bool is_chunk = reader->part == REMOTE_CHUNK_LINE || reader->part == REMOTE_CHUNK_END;
    if (!is_chunk && ++reader->head_bytes > REMOTE_HEAD_MAX)
        return REMOTE_BAD;
    if (byte == '\n') {
        if (reader->line_used == 0 || reader->line[reader->line_used - 1] != '\r')
            return REMOTE_BAD;
        reader->line_used--;
        const enum remote_reading reading = read_line(reader);
        reader->line_used = 0;
        return reading;
    }
    if (reader->line_used == REMOTE_LINE_MAX || byte == '\0')
        return REMOTE_BAD;
    reader->line[reader->line_used++] = byte;
    return REMOTE_MORE;
}

/* -------------------------------------------------------------------- body -- */

/* Takes bytes of the body; *taken of them. */
static enum remote_reading take_of_body(struct remote_reader *reader, const char *bytes,
                                        size_t size, size_t *taken)
{
    const bool has_end = reader->part != REMOTE_UNTIL_END;
    *taken = has_end && reader->left < size ? reader->left : size;
    const enum remote_reading room = grow(reader, *taken);
    if (room != REMOTE_MORE)
        return room;
    memcpy(reader->body + reader->size, bytes, *taken);
    reader->size += *taken;
    if (!has_end)
        return REMOTE_MORE;
    reader->left -= *taken;
    if (reader->left > 0)
        return REMOTE_MORE;
    if (reader->part == REMOTE_LENGTH)
        return finish(reader);
    reader->part = REMOTE_CHUNK_END;
    return REMOTE_MORE;
}

enum remote_reading remote_reader_take(struct remote_reader *reader, const char *bytes, size_t size)
{
    enum remote_reading reading = reader->part == REMOTE_WHOLE ? REMOTE_DONE : REMOTE_MORE;
    size_t at = 0;
    reader->began |= size > 0;
    while (at < size && reading == REMOTE_MORE) {
        size_t taken = 1;
        if (reader->part == REMOTE_LENGTH || reader->part == REMOTE_CHUNK
            || reader->part == REMOTE_UNTIL_END)
            reading = take_of_body(reader, bytes + at, size - at, &taken);
        else
            reading = take_of_line(reader, bytes[at]);
        at += taken;
    }
    reader->closes |= reading != REMOTE_MORE && (reading != REMOTE_DONE || at < size);
    return reading;
}

enum remote_reading remote_reader_end(struct remote_reader *reader)
{
    reader->closes = true;
    return reader->part == REMOTE_WHOLE       ? REMOTE_DONE
           : reader->part == REMOTE_UNTIL_END ? finish(reader)
                                              : REMOTE_BAD;
}
