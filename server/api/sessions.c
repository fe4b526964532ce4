/* sessions.c - sessions as they are shown. */
#include "api/sessions.h"

#include "api/json_answer.h"
#include "api/query_number.h"
#include "call/service.h"
#include "formats/accept.h"
#include "formats/format.h"
#include "operations/session/session_path.h"
#include "operations/sessions.h"

#include <string.h>

/* Those that are held, which it releases. */
static void say_all(struct writer *writer, struct session **held, int64_t count)
{
    writer->kind->list(writer, "sessions");
    for (int64_t i = 0; i < count; i++) {
        writer->kind->object(writer, NULL);
        session_say(writer, held[i]);
        writer->kind->end(writer);
        session_release(held[i]);
    }
    writer->kind->end(writer);
}

void sessions_list(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct json_answer answer;
    struct fault fault;
    int64_t offset, limit, total;
    if (!query_number_read_part(exchange, &offset, &limit, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    if (!json_answer_begin(&answer, exchange))
        return;
    struct session **held = arena_calloc(&answer.arena, (size_t)limit, sizeof(struct session *));
    if (!held) {
        fault_no_memory(&fault);
        json_answer_fail(&answer, &fault);
        return;
    }
    say_all(
        answer.writer, held,
        session_store_list(service->sessions, exchange_key(exchange), offset, held, limit, &total));
    answer.writer->kind->integer(answer.writer, "total", total);
    const struct access_key *key = exchange_key(exchange);
    answer.writer->kind->integer(
        answer.writer, "bytes_free",
        (int64_t)session_memory_free(session_store_budget(service->sessions),
                                     key ? key->account : NULL));
    json_answer_end(&answer);
}

/* Whether the query or, without one, Accept asks for a file. */
static bool read_form(const struct exchange *exchange, bool *is_file, struct fault *fault)
{
    static const char *const NAMES[] = { "format", SESSION_PATH_OWNER };
    char format[QUERY_PARAM_BYTES];
    if (!exchange_check_query(exchange, NAMES, 2, fault))
        return false;
    if (exchange_query(exchange, NAMES[0], format, sizeof format)) {
        *is_file = strcmp(format, "safetensors") == 0;
        return *is_file || strcmp(format, "json") == 0
               || fault_set(fault, FAULT_OPTION, "format is '%.40s'; expected safetensors or json",
                            format);
    }
    const char *accept = exchange_header(exchange, HTTP_HEADER_ACCEPT);
    const char *const types[] = { format_safetensors.content_type, format_json.content_type };
    *is_file = accept_choose(accept, types, 2, 1) == 0;
    return true;
}

void sessions_get(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct json_answer answer;
    struct fault fault;
    bool is_file = false;
    struct session *session = NULL;
    if (read_form(exchange, &is_file, &fault)) {
        if (is_file) {
            sessions_get_file(exchange);
            return;
        }
        session = session_path_look(exchange, service->sessions, &fault);
    }
    if (!session) {
        exchange_fail(exchange, &fault);
        return;
    }
    if (json_answer_begin(&answer, exchange)) {
        session_say(answer.writer, session);
        json_answer_end(&answer);
    }
    session_release(session);
}
