/* SPDX-License-Identifier: Apache-2.0 */
/* remote_reader.h - reads an answer of HTTP/1.1 (RFC 9112) from pieces as they come. */
#ifndef ATTND_REMOTE_READER_H
#define ATTND_REMOTE_READER_H

#include <stdbool.h>
#include <stddef.h>

/* A longer line, or more bytes of head or trailer, are no answer. */
enum { REMOTE_LINE_MAX = 4096, REMOTE_HEAD_MAX = 16384, REMOTE_REPLICA_MAX = 128 };
enum { REMOTE_RETRY_AFTER_MAX_S = 3600 };

enum remote_reading {
    REMOTE_MORE, /* further bytes are needed */
    REMOTE_DONE,
    REMOTE_BAD,       /* this is no answer */
    REMOTE_TOO_LONG,  /* the body is longer than it may be */
    REMOTE_NO_MEMORY, /* for the body */
};

enum remote_part {
    REMOTE_STATUS_LINE,
    REMOTE_HEADERS,
    REMOTE_LENGTH,
    REMOTE_CHUNK_LINE,
    REMOTE_CHUNK,
    REMOTE_CHUNK_END,
    REMOTE_TRAILER,
    REMOTE_UNTIL_END, /* of the connection */
    REMOTE_WHOLE,
};

/* Zeroed but for bytes_max before the first answer. */
struct remote_reader {
    size_t bytes_max; /* of the body */
    int status;       /* 200 to 599, once done */
    int retry_after_s;
    bool closes; /* the connection cannot be used again */
    bool began;  /* a byte has come */
    char replica[REMOTE_REPLICA_MAX];
    char *body; /* malloc'd, kept for the next answer; with a NUL behind it once done */
    size_t size;

    /* The reader's own. */
    size_t capacity, left, length, head_bytes, line_used;
    bool has_length, is_chunked;
    enum remote_part part;
    char line[REMOTE_LINE_MAX];
};

/* Before an answer whose body may have so many bytes. */
void remote_reader_begin(struct remote_reader *reader, size_t bytes_max);

/* Reads size bytes that came. After REMOTE_DONE, bytes behind the answer make the reader say that
 * the connection closes. */
enum remote_reading remote_reader_take(struct remote_reader *reader, const char *bytes,
                                       size_t size);

/* The connection ended: the answer is done where its end says so, else bad. */
enum remote_reading remote_reader_end(struct remote_reader *reader);

void remote_reader_free(struct remote_reader *reader);

#endif
