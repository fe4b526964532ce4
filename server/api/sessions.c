/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c - sessions as they are shown; and moved, all of them. */
#include "api/sessions.h"

#include "api/json_answer.h"
#include "api/query_number.h"
#include "call/disk_job.h"
#include "call/service.h"
#include "formats/accept.h"
#include "formats/format.h"
#include "operations/session/session_mover.h"
#include "operations/session/session_path.h"
#include "operations/sessions.h"
#include "json/json.h"

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

/* ------------------------------------------------------------------------ drain -- */

static void say_targets(const struct session_moved *moved, struct text *text)
{
    text_raw(text, ",\"to\":[");
    for (int i = 0; i < moved->target_count; i++) {
        text_format(text, "%s{\"url\":", i > 0 ? "," : "");
        text_string(text, moved->targets[i].url);
        text_raw(text, ",\"replica\":");
        text_string(text, moved->targets[i].replica);
        text_format(text, ",\"moved\":%lld", (long long)moved->targets[i].moved);
        if (moved->targets[i].reason[0]) {
            text_raw(text, ",\"error\":");
            text_string(text, moved->targets[i].reason);
        }
        text_raw(text, "}");
    }
    text_raw(text, "]");
}

static void say_stays(const struct session_moved *moved, struct text *text)
{
    text_raw(text, ",\"faults\":[");
    for (int i = 0; i < moved->fault_count; i++) {
        text_format(text, "%s{\"session\":", i > 0 ? "," : "");
        text_string(text, moved->faults[i].id);
        if (moved->faults[i].owner[0]) {
            text_raw(text, ",\"owner\":");
            text_string(text, moved->faults[i].owner);
        }
        text_raw(text, ",\"error\":");
        text_string(text, moved->faults[i].reason);
        text_raw(text, "}");
    }
    text_raw(text, "]}\n");
}

/* The body may be empty, or have "to". */
static bool read_target(const struct disk_job *disk_job, struct json_document *document,
                        const char **to, struct fault *fault)
{
    static const struct json_options OPTIONS = { .values_max = 16 };
    const cJSON *member;
    *to = NULL;
    if (disk_job->body.size == 0)
        return true;
    if (!json_read(document, disk_job->body.data, disk_job->body.size, &OPTIONS, fault))
        return false;
    if (!cJSON_IsObject(document->root))
        return fault_set(fault, FAULT_TYPE, "the body is no object; expected {\"to\": URL}");
    cJSON_ArrayForEach(member, document->root) {
        if (strcmp(member->string, "to") != 0)
            return fault_set(fault, FAULT_FIELD, "there is no field '%.60s'; expected to",
                             member->string);
        if (!cJSON_IsString(member))
            return fault_set_at(fault, "/to", FAULT_TYPE,
                                "to is no text; expected one of the "
                                "addresses of --move-to");
        *to = member->valuestring;
    }
    return true;
}

static bool drain(struct disk_job *disk_job)
{
    const struct service *service = disk_job->service;
    struct json_document document = { .root = NULL };
    struct session_moved moved;
    const char *to;
    const bool done = read_target(disk_job, &document, &to, &disk_job->fault)
                      && session_mover_run(service->mover, service->sessions, to, false,
                                           disk_job->job.deadline_ns, &moved, &disk_job->fault);
    json_free(&document);
    if (!done)
        return false;
    text_format(&disk_job->answer, "{\"moved\":%lld,\"stay\":%lld,\"bytes\":%zu",
                (long long)moved.moved, (long long)moved.stay, moved.bytes);
    say_targets(&moved, &disk_job->answer);
    say_stays(&moved, &disk_job->answer);
    return true;
}

void sessions_drain(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct fault fault;
    if (!service->mover)
        fault_set(&fault, FAULT_FORBIDDEN, "sessions are not moved without --move-to");
    else if (service_accepts(service, &fault)
             && service_takes_json(exchange, "application/json", &fault)) {
        disk_job_start(exchange, "", drain);
        return;
    }
    exchange_fail(exchange, &fault);
}
