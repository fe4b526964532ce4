/* SPDX-License-Identifier: Apache-2.0 */
/* json_answer.c - the text of such an answer counts in the memory of its request, and is bounded by
 * --answer-max. */
#include "api/json_answer.h"

#include "call/service.h"
#include "formats/format.h"

bool json_answer_begin(struct json_answer *answer, struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    *answer = (struct json_answer){ .exchange = exchange };
    arena_init(&answer->arena, SIZE_MAX);
    text_init(&answer->text, service->config->answer_bytes_max);
    answer->arena.memory = answer->text.memory = exchange_memory(exchange);
    const struct format_body body = { .arena = &answer->arena };
    answer->writer = writer_json.begin(&body, &answer->text, &answer->fault);
    if (!answer->writer) {
        arena_free(&answer->arena);
        exchange_fail(exchange, &answer->fault);
        return false;
    }
    answer->writer->kind->object(answer->writer, NULL);
    return true;
}

void json_answer_fail(struct json_answer *answer, const struct fault *fault)
{
    text_free(&answer->text);
    arena_free(&answer->arena);
    exchange_fail(answer->exchange, fault);
}

void json_answer_end(struct json_answer *answer)
{
    answer->writer->kind->end(answer->writer);
    answer->writer->kind->finish(answer->writer);
    arena_free(&answer->arena);
    exchange_reply_text(answer->exchange, 200, "application/json", &answer->text);
}
