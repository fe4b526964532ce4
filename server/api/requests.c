/* SPDX-License-Identifier: Apache-2.0 */
/* requests.c - how far a call in flight has come (call/progress.h), answered at once on the
 * connection's thread while workers compute. */
#include "api/requests.h"

#include "api/json_answer.h"
#include "call/progress.h"
#include "call/service.h"

void requests_get(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    const char *id = exchange_param(exchange, 0);
    struct fault fault = { .code = FAULT_NONE };
    struct progress_seen seen;
    struct json_answer answer;
    if (!progress_find(service->progress, id, exchange_key(exchange), &seen, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    if (!json_answer_begin(&answer, exchange))
        return;
    struct writer *writer = answer.writer;
    writer->kind->string(writer, "request", id);
    writer->kind->flag(writer, "queued", seen.queued);
    writer->kind->integer(writer, "layers", seen.layers);
    writer->kind->integer(writer, "of", seen.of);
    json_answer_end(&answer);
}
