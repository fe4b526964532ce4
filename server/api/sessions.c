/* sessions.c - see sessions.h: sessions as they are shown. */
#include "api/sessions.h"

#include "api/query_number.h"
#include "service/service.h"
#include "session/session_path.h"
#include "wire/safetensors_body.h"
#include "wire/session_text.h"

#include <string.h>

struct list {
    struct text *text;
    int64_t count;
};

static void write_one(void *context, struct session *session)
{
    struct list *list = context;
    text_raw(list->text, list->count++ > 0 ? "," : "");
    session_text_write(session, list->text);
}

void sessions_list(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct fault fault;
    struct text text;
    int64_t offset, limit;
    if (!query_number_read_part(exchange, &offset, &limit, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    text_init(&text, service->config->answer_bytes_max);
    text.memory = exchange_memory(exchange);
    struct list list = { &text, 0 };
    text_raw(&text, "{\"sessions\":[");
    const int64_t total = session_store_list(service->sessions, exchange_key(exchange), offset,
                                             limit, write_one, &list);
    text_raw(&text, "],\"total\":");
    text_integer(&text, total);
    text_raw(&text, "}\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
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
    *is_file = safetensors_forms_is_answer(exchange, false);
    return true;
}

void sessions_get(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct fault fault;
    struct text text;
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
    text_init(&text, service->config->answer_bytes_max);
    text.memory = exchange_memory(exchange);
    session_text_write(session, &text);
    text_raw(&text, "\n");
    session_release(session);
    exchange_reply_text(exchange, 200, "application/json", &text);
}
