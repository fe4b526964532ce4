/* SPDX-License-Identifier: Apache-2.0 */
/* http_tls_bytes.c - see http_tls_bytes.h.
 *
 * GnuTLS asks for the five bytes of a record's head, then for the rest of the record, and would
 * make two system calls of it. So a read takes what the socket has, up to a record, and the next
 * one finds it in memory. What is left over when another connection of the thread reads is copied
 * to memory of its own connection; this is rare.
 *
 * libmicrohttpd writes the head of a short answer and its body one after the other, as a record
 * each. The first record is held back until the second one comes, a moment later in the same call,
 * and one system call sends both.
 *
 * Nothing of this is done before the handshake has ended. */
#include "http/http_tls_bytes.h"

#include "http/http_tls_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    AHEAD_BYTES = 16 * 1024 + 512, /* a record of the largest size */
    HELD_BYTES = 4096,
    PARTS_MAX = 8,
};

struct http_tls_bytes {
    struct http_tls_session *reader; /* of the bytes read ahead; NULL: none */
    size_t at, size;                 /* in ahead; at < size where there is a reader */
    struct http_tls_session *writer; /* of the record held back; NULL: none */
    size_t held_size;
    char ahead[AHEAD_BYTES];
    char held[HELD_BYTES];
};

struct http_tls_bytes *http_tls_bytes_create(void)
{
    return calloc(1, sizeof(struct http_tls_bytes));
}

void http_tls_bytes_free(struct http_tls_bytes *bytes)
{
    free(bytes);
}

/* ----------------------------------------------------------------- reading -- */

size_t http_tls_bytes_ahead(const struct http_tls_session *tls)
{
    const struct http_tls_bytes *bytes = tls->thread->tls_bytes;
    return (tls->rest.size - tls->rest.at) + (bytes->reader == tls ? bytes->size - bytes->at : 0);
}

void http_tls_note_read(struct http_tls_session *tls, bool more)
{
    struct http_tls_handshakes *handshakes = &tls->thread->handshakes;
    tls->read_in = tls->thread->run_count;
    if (more == LIST_HAS(&handshakes->unread, tls, in_unread))
        return;
    if (more)
        LIST_APPEND(&handshakes->unread, tls, in_unread);
    else
        LIST_TAKE_OUT(&handshakes->unread, tls, in_unread);
}

/* Copies at most size bytes that were read before; returns how many. */
static size_t take(const char *from, size_t *at, size_t end, void *data, size_t size)
{
    const size_t some = size < end - *at ? size : end - *at;
    memcpy(data, from + *at, some);
    *at += some;
    return some;
}

/* Frees the buffer for another reader. False: there is no memory for what is left in it. */
static bool put_by(struct http_tls_bytes *bytes)
{
    struct http_tls_session *reader = bytes->reader;
    if (!reader)
        return true;
    const size_t left = bytes->size - bytes->at;
    char *copy = malloc(left);
    if (!copy)
        return false;
    memcpy(copy, bytes->ahead + bytes->at, left);
    reader->rest = (struct http_tls_rest){ .data = copy, .size = left };
    bytes->reader = NULL;
    return true;
}

static ssize_t read_socket(struct http_tls_session *tls, void *data, size_t size)
{
    struct http_tls_bytes *bytes = tls->thread->tls_bytes;
    const bool reads_ahead = tls->phase == HTTP_TLS_OPEN && put_by(bytes);
    struct iovec parts[2] = { { data, size }, { bytes->ahead, AHEAD_BYTES } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = reads_ahead ? 2 : 1 };
    const ssize_t some = recvmsg(tls->connection->socket, &message, MSG_DONTWAIT);
    if (some > 0)
        tls->thread->call_count++;
    http_tls_note_read(tls, some > 0);
    if (some <= 0 || (size_t)some <= size)
        return some;
    bytes->reader = tls;
    bytes->at = 0;
    bytes->size = (size_t)some - size;
    return (ssize_t)size;
}

ssize_t http_tls_bytes_pull(gnutls_transport_ptr_t context, void *data, size_t size)
{
    struct http_tls_session *tls = context;
    struct http_tls_bytes *bytes = tls->thread->tls_bytes;
    if (tls->is_refused)
        return 0;
    if (tls->answering && tls->has_sent) {
        errno = EAGAIN;
        return -1;
    }
    if (tls->rest.data) {
        http_tls_note_read(tls, true);
        const size_t some = take(tls->rest.data, &tls->rest.at, tls->rest.size, data, size);
        if (tls->rest.at == tls->rest.size) {
            free(tls->rest.data);
            tls->rest = (struct http_tls_rest){ .data = NULL };
        }
        return (ssize_t)some;
    }
    if (bytes->reader != tls)
        return read_socket(tls, data, size);
    http_tls_note_read(tls, true);
    const size_t some = take(bytes->ahead, &bytes->at, bytes->size, data, size);
    if (bytes->at == bytes->size)
        bytes->reader = NULL;
    return (ssize_t)some;
}

/* ----------------------------------------------------------------- writing -- */

static size_t size_of(const giovec_t *parts, int part_count)
{
    size_t size = 0;
    for (int i = 0; i < part_count; i++)
        size += parts[i].iov_len;
    return size;
}

/* Keeps a record for the next call, if the body of an answer follows the head in it. */
static bool hold_back(struct http_tls_session *tls, const giovec_t *parts, int part_count,
                      size_t size)
{
    struct http_tls_bytes *bytes = tls->thread->tls_bytes;
    if (!tls->body_follows || bytes->writer || size > HELD_BYTES)
        return false;
    tls->body_follows = false;
    bytes->writer = tls;
    bytes->held_size = 0;
    for (int i = 0; i < part_count; i++) {
        memcpy(bytes->held + bytes->held_size, parts[i].iov_base, parts[i].iov_len);
        bytes->held_size += parts[i].iov_len;
    }
    return true;
}

/* As sendmsg() without waiting. */
static ssize_t write_socket(struct http_tls_session *tls, const struct iovec *parts,
                            size_t part_count)
{
    const struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)parts,
                                    .msg_iovlen = part_count };
    const ssize_t some = sendmsg(tls->connection->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    tls->has_sent = true;
    if (some > 0)
        tls->thread->call_count++;
    return some;
}

/* Notes that so many bytes have gone. Returns how many of them were not held; -1 and EAGAIN where
 * some are held still. */
static ssize_t held_has_gone(struct http_tls_bytes *bytes, size_t sent)
{
    if (sent < bytes->held_size) {
        bytes->held_size -= sent;
        memmove(bytes->held, bytes->held + sent, bytes->held_size);
        errno = EAGAIN;
        return -1;
    }
    bytes->writer = NULL;
    return (ssize_t)(sent - bytes->held_size);
}

static ssize_t write_behind_held(struct http_tls_session *tls, const giovec_t *parts,
                                 int part_count)
{
    struct http_tls_bytes *bytes = tls->thread->tls_bytes;
    struct iovec all[PARTS_MAX] = { { bytes->held, bytes->held_size } };
    const int more = part_count < PARTS_MAX - 1 ? part_count : PARTS_MAX - 1;
    for (int i = 0; i < more; i++)
        all[i + 1] = (struct iovec){ parts[i].iov_base, parts[i].iov_len };
    const ssize_t some = write_socket(tls, all, (size_t)more + 1);
    if (some >= 0)
        return held_has_gone(bytes, (size_t)some);
    if (errno != EAGAIN && errno != EINTR)
        bytes->writer = NULL;
    return -1;
}

ssize_t http_tls_bytes_push(gnutls_transport_ptr_t context, const giovec_t *parts, int part_count)
{
    struct http_tls_session *tls = context;
    if (tls->is_refused) {
        errno = EPIPE;
        return -1;
    }
    const size_t size = size_of(parts, part_count);
    if (tls->thread->tls_bytes->writer == tls)
        return write_behind_held(tls, parts, part_count);
    if (hold_back(tls, parts, part_count, size))
        return (ssize_t)size;
    return write_socket(tls, (const struct iovec *)(const void *)parts, (size_t)part_count);
}

void http_tls_bytes_ran(struct http_tls_bytes *bytes)
{
    if (bytes && bytes->writer)
        write_behind_held(bytes->writer, NULL, 0);
}

void http_tls_bytes_leave(struct http_tls_session *tls)
{
    struct http_tls_bytes *bytes = tls->thread->tls_bytes;
    if (bytes->writer == tls)
        write_behind_held(tls, NULL, 0);
    if (bytes->writer == tls)
        bytes->writer = NULL;
    if (bytes->reader == tls)
        bytes->reader = NULL;
    free(tls->rest.data);
    tls->rest = (struct http_tls_rest){ .data = NULL };
}
