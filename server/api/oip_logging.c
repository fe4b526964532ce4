/* SPDX-License-Identifier: Apache-2.0 */
/* oip_logging.c - the logging extension: GET tells which lines are logged, POST changes it.
 *
 * Lines go to standard error alone, and each begins with an ISO 8601 time, so both of the
 * protocol's formats are the same here. A change is made whole or not at all. Source: Triton
 * Inference Server, docs/protocol/extension_logging.md, and src/http_server.cc for the names of the
 * keys, which differ on that page. */
#include "api/oip_handlers.h"

#include "api/oip_body.h"
#include "call/service.h"
#include "telemetry/log.h"
#include "json/text.h"

#include <stdatomic.h>
#include <string.h>

/* GET shows these two again, and nothing else depends on them: both formats are the same here, and
 * lines know a single level below info. */
static _Atomic bool format_is_iso8601;
static _Atomic uint32_t verbose_level = 1;

static const struct {
    const char *key;
    enum log_level level;
} LEVELS[] = {
    { "log_info", LOG_INFO },
    { "log_warning", LOG_WARNING },
    { "log_error", LOG_ERROR },
};
enum { LEVEL_COUNT = sizeof LEVELS / sizeof LEVELS[0] };

void oip_logging_get(struct exchange *exchange)
{
    struct text text;
    text_init(&text, 4096);
    text_raw(&text, "{\"log_file\":\"\"");
    for (int i = 0; i < LEVEL_COUNT; i++)
        text_format(&text, ",\"%s\":%s", LEVELS[i].key,
                    log_enabled(LEVELS[i].level) ? "true" : "false");
    text_format(&text, ",\"log_verbose_level\":%u,\"log_format\":\"%s\"}\n",
                log_enabled(LOG_DEBUG) ? (unsigned)atomic_load(&verbose_level) : 0,
                atomic_load(&format_is_iso8601) ? "ISO8601" : "default");
    exchange_reply_text(exchange, 200, "application/json", &text);
}

struct change {
    unsigned levels; /* as log_set_levels() takes them */
    bool format_is_iso8601;
    uint32_t verbose_level; /* 0: unchanged */
};

static void set_level(struct change *change, enum log_level level, bool on)
{
    change->levels = on ? change->levels | 1u << level : change->levels & ~(1u << level);
}

static bool read_format(struct change *change, const cJSON *member, struct fault *fault)
{
    if (!cJSON_IsString(member))
        return oip_body_wrong(member, "\"default\" or \"ISO8601\"", fault);
    change->format_is_iso8601 = strcmp(member->valuestring, "ISO8601") == 0;
    if (!change->format_is_iso8601 && strcmp(member->valuestring, "default") != 0)
        return fault_set_at(fault, "/log_format", FAULT_OPTION,
                            "log_format is '%.40s'; expected default or ISO8601",
                            member->valuestring);
    return true;
}

static bool read_member(struct change *change, const cJSON *member, struct fault *fault)
{
    for (int i = 0; i < LEVEL_COUNT; i++)
        if (strcmp(member->string, LEVELS[i].key) == 0) {
            if (!cJSON_IsBool(member))
                return oip_body_wrong(member, "a boolean", fault);
            set_level(change, LEVELS[i].level, cJSON_IsTrue(member));
            return true;
        }
    if (strcmp(member->string, "log_verbose_level") == 0) {
        const double level = cJSON_IsNumber(member) ? member->valuedouble : -1;
        if (!(level >= 0) || level > UINT32_MAX || level != (double)(uint32_t)level)
            return cJSON_IsNumber(member)
                       ? fault_set_at(fault, "/log_verbose_level", FAULT_OPTION,
                                      "log_verbose_level is %g; expected an integer of 0 or more",
                                      level)
                       : oip_body_wrong(member, "an integer of 0 or more", fault);
        set_level(change, LOG_DEBUG, level > 0);
        change->verbose_level = (uint32_t)level;
        return true;
    }
    if (strcmp(member->string, "log_format") == 0)
        return read_format(change, member, fault);
    if (strcmp(member->string, "log_file") == 0)
        return fault_set_at(fault, "/log_file", FAULT_OPTION,
                            "log_file cannot be changed; lines go to standard error");
    return fault_set(fault, FAULT_FIELD,
                     "there is no setting '%.60s'; expected log_info, log_warning, log_error, "
                     "log_verbose_level or log_format",
                     member->string);
}

void oip_logging_set(struct exchange *exchange)
{
    struct json_document document;
    struct fault fault;
    struct change change = { log_levels(), atomic_load(&format_is_iso8601), 0 };
    const cJSON *member;
    bool good = oip_body_take(&document, exchange, &fault)
                && service_may_change_logging(exchange_context(exchange), &fault);
    cJSON_ArrayForEach(member, document.root)
        good = good && read_member(&change, member, &fault);
    json_free(&document);
    if (!good) {
        exchange_fail(exchange, &fault);
        return;
    }
    log_line(LOG_WARNING, "logging changed",
             LOG_STRING("request_id", exchange_request_id(exchange)));
    log_set_levels(change.levels);
    if (change.verbose_level > 0)
        atomic_store(&verbose_level, change.verbose_level);
    atomic_store(&format_is_iso8601, change.format_is_iso8601);
    oip_logging_get(exchange);
}
