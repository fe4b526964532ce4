/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_remote_answer.c - any bytes as the answer of another server.
 *
 * The first byte says how long the pieces are in which the rest comes. The answer does not depend
 * on them, and its body is never longer than it may be. */
#include "remote/remote_reader.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES_MAX = 4096 };

static void require(bool condition)
{
    if (!condition)
        abort();
}

static enum remote_reading read_pieces(struct remote_reader *reader, const uint8_t *data,
                                       size_t size, size_t piece)
{
    remote_reader_begin(reader, BYTES_MAX);
    for (size_t at = 0; at < size; at += piece) {
        const size_t some = size - at < piece ? size - at : piece;
        char *copy = malloc(some); /* of its own size, so that a sanitizer sees its end */
        require(copy != NULL);
        memcpy(copy, data + at, some);
        const enum remote_reading reading = remote_reader_take(reader, copy, some);
        free(copy);
        if (reading != REMOTE_MORE)
            return reading;
    }
    return remote_reader_end(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct remote_reader whole, parts;
    if (size < 2)
        return 0;
    const enum remote_reading reading = read_pieces(&whole, data + 1, size - 1, size - 1);
    require(reading != REMOTE_MORE);
    require(read_pieces(&parts, data + 1, size - 1, (size_t)data[0] + 1) == reading);
    require(whole.size <= BYTES_MAX && parts.size <= BYTES_MAX);
    if (reading == REMOTE_DONE) {
        require(whole.status >= 200 && whole.status <= 599 && whole.status == parts.status);
        require(whole.size == parts.size && memcmp(whole.body, parts.body, whole.size + 1) == 0);
        require(whole.retry_after_s == parts.retry_after_s);
        require(strcmp(whole.replica, parts.replica) == 0);
    }
    remote_reader_free(&whole);
    remote_reader_free(&parts);
    return 0;
}
