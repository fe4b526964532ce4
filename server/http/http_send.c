/* SPDX-License-Identifier: Apache-2.0 */
/* http_send.c - the bytes of an answer, as libmicrohttpd takes them.
 *
 * A short answer is sent from where it lies. The parts of a very short one are put together first:
 * libmicrohttpd sends parts apart from the headers, and to copy them costs less than one more
 * system call.
 *
 * Of a long answer, a socket takes as much as its client reads meanwhile. That may be tens of
 * megabytes in one call, and while it lasts, some milliseconds, all other clients of the connection
 * thread wait. So libmicrohttpd is given one block of a long answer at a time, and serves the other
 * clients between two blocks. The extra copy of each block costs next to nothing: the second read
 * of its bytes finds them in a cache.
 *
 * The kernel does not tell how much the client of a Unix socket has taken. But libmicrohttpd asks
 * for a block when all of the one before has gone to the socket. So answers over a Unix socket go
 * by shorter blocks, and http_timers.c looks at how many bytes have been asked for. */
#include "http/http_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    GATHERED_BYTES = 16 << 10,     /* parts of at most so many in all are put together */
    LONG_BYTES = 1 << 20,          /* an answer of at least so many goes block by block */
    BLOCK_BYTES = 256 << 10,       /* some 50 us of copying */
    BLOCK_BESIDE_BYTES = 32 << 10, /* of a block while the thread reads bodies */

    /* Over a Unix socket. Its buffer holds more than the shortest answer that is long. */
    UNIX_LONG_BYTES = 128 << 10,
    UNIX_BLOCK_BYTES = 32 << 10, /* the shortest block */
    UNIX_BLOCKS = 64,            /* of an answer, at least, where they are longer than that */
};

/* A long answer on its way. */
struct sending {
    struct http_connection *connection;
    struct http_thread *thread;
    const struct byte_slice *parts;
    int part_count;
    void (*release)(void *owner);
    void *owner;
    struct byte_slice whole; /* the only part of an answer that has no parts */

    int part;         /* index of the part that holds the next byte */
    uint64_t part_at; /* position of that part in the answer */
};

static void end_sending(void *context)
{
    struct sending *sending = context;
    sending->release(sending->owner);
    free(sending);
}

/* Whether the thread has read of a body in this run of libmicrohttpd or the last one. */
static bool reads_bodies(const struct http_thread *thread)
{
    return thread->run_count - thread->read_in <= 1;
}

/* Fills a block with the bytes of the answer from position on; position only grows. */
static ssize_t next_block(void *context, uint64_t position, char *block, size_t block_bytes)
{
    struct sending *sending = context;
    size_t used = 0;
    sending->thread->call_count++;
    if (block_bytes > BLOCK_BESIDE_BYTES && reads_bodies(sending->thread))
        block_bytes = BLOCK_BESIDE_BYTES;
    while (used < block_bytes && sending->part < sending->part_count) {
        const struct byte_slice *part = &sending->parts[sending->part];
        const size_t offset = (size_t)(position + used - sending->part_at);
        const size_t left = part->size - offset, room = block_bytes - used;
        const size_t some = left < room ? left : room;
        memcpy(block + used, (const char *)part->data + offset, some);
        used += some;
        if (some == left) {
            sending->part_at += part->size;
            sending->part++;
        }
    }
    sending->connection->given_bytes += used;
    return used > 0 ? (ssize_t)used : MHD_CONTENT_READER_END_OF_STREAM;
}

static size_t block_bytes(const struct http_connection *connection, size_t answer_bytes)
{
    const size_t part = answer_bytes / UNIX_BLOCKS;
    if (!connection->listener->is_unix || part > BLOCK_BYTES)
        return BLOCK_BYTES;
    return part > UNIX_BLOCK_BYTES ? part : UNIX_BLOCK_BYTES;
}

static struct MHD_Response *take_long(struct http_thread *thread,
                                      struct http_connection *connection,
                                      const struct exchange_answer *answer)
{
    struct sending *sending = calloc(1, sizeof *sending);
    if (!sending)
        return NULL;
    sending->connection = connection;
    sending->thread = thread;
    if (answer->parts) {
        sending->parts = answer->parts;
        sending->part_count = answer->part_count;
        sending->release = answer->release;
        sending->owner = answer->owner;
    } else {
        sending->whole = (struct byte_slice){ answer->data, answer->size };
        sending->parts = &sending->whole;
        sending->part_count = 1;
        sending->release = free;
        sending->owner = answer->data;
    }
    struct MHD_Response *response = MHD_create_response_from_callback(
        answer->size, block_bytes(connection, answer->size), next_block, sending, end_sending);
    if (!response)
        free(sending);
    return response;
}

static struct MHD_Response *take_short(const struct exchange_answer *answer)
{
    struct MHD_IoVec vector[EXCHANGE_PARTS_MAX];
    if (!answer->parts)
        return MHD_create_response_from_buffer(answer->size, answer->data, MHD_RESPMEM_MUST_FREE);
    for (int i = 0; i < answer->part_count; i++)
        vector[i] = (struct MHD_IoVec){ answer->parts[i].data, answer->parts[i].size };
    return MHD_create_response_from_iovec(vector, (unsigned)answer->part_count, answer->release,
                                          answer->owner);
}

/* Puts the parts of an answer together in data. Without memory the answer keeps its parts. */
static void gather(struct exchange_answer *answer)
{
    char *data = malloc(answer->size);
    if (!data)
        return;
    size_t used = 0;
    for (int i = 0; i < answer->part_count; i++) {
        memcpy(data + used, answer->parts[i].data, answer->parts[i].size);
        used += answer->parts[i].size;
    }
    answer->release(answer->owner);
    answer->release = NULL;
    answer->parts = NULL;
    answer->data = data;
}

struct MHD_Response *http_take_bytes(struct exchange *exchange)
{
    struct exchange_answer *answer = &exchange->answer;
    if (!answer->parts && !answer->data)
        return MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    if (answer->parts && answer->size > 0 && answer->size <= GATHERED_BYTES)
        gather(answer);
    struct http_connection *connection = http_connection_of(exchange->connection);
    const size_t long_bytes = connection->listener->is_unix ? UNIX_LONG_BYTES : LONG_BYTES;
    const bool is_long =
        answer->size >= long_bytes || (answer->parts && answer->part_count > EXCHANGE_PARTS_MAX);
    struct MHD_Response *response =
        is_long ? take_long(exchange->thread, connection, answer) : take_short(answer);
    if (response && answer->parts)
        answer->release = NULL;
    else if (response)
        answer->data = NULL;
    return response;
}
