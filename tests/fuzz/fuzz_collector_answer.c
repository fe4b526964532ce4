/* fuzz_collector_answer.c - any bytes as the answer of an OpenTelemetry collector.
 *
 * The result does not depend on how the bytes come in pieces: once a part is an answer, or none, a
 * longer part is the same, but for what comes behind it. The body lies within the bytes. */
#include "telemetry/collector.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_answer(const struct collector_answer *answer, const char *bytes, size_t size)
{
    char message[COLLECTOR_MESSAGE_MAX];
    require(answer->status >= 200 && answer->status <= 599);
    require(answer->retry_after_s >= 0 && answer->retry_after_s <= COLLECTOR_RETRY_AFTER_MAX_S);
    require(answer->body_at <= size && answer->body_size <= size - answer->body_at);
    require(!collector_answer_is_taken(answer->status)
            || !collector_answer_is_again(answer->status));
    collector_answer_rejected(bytes + answer->body_at, answer->body_size, message);
    require(memchr(message, '\0', sizeof message) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct collector_answer whole = { .status = 0 }, part = { .status = 0 };
    if (size > COLLECTOR_ANSWER_BYTES_MAX)
        size = COLLECTOR_ANSWER_BYTES_MAX;
    char *bytes = malloc(size + 1); /* of its own size, so that a sanitizer sees its end */
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    const enum collector_reading result = collector_answer_read(&whole, bytes, size);
    if (result == COLLECTOR_DONE)
        check_answer(&whole, bytes, size);
    const size_t step = size / 64 + 1;
    for (size_t used = 0; used < size; used += step) {
        const enum collector_reading early = collector_answer_read(&part, bytes, used);
        if (early == COLLECTOR_MORE)
            continue;
        require(early == result);
        if (early == COLLECTOR_DONE)
            require(part.status == whole.status && part.body_at == whole.body_at
                    && part.body_size == whole.body_size && (!part.closes || whole.closes));
    }
    free(bytes);
    return 0;
}
