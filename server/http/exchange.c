/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - an exchange, apart from libmicrohttpd: its id, its body and its answer. */
#include "http/exchange.h"

#include "base/unique_id.h"
#include "formats/coding.h"
#include "telemetry/metrics.h"
#include "json/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------ request id -- */

static bool id_acceptable(const char *id)
{
    const size_t length = strlen(id);
    if (length == 0 || length > EXCHANGE_ID_MAX)
        return false;
    for (const char *c = id; *c; c++)
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            return false;
    return true;
}

void exchange_set_request_id(struct exchange *exchange, const char *given)
{
    enum { MADE_DIGITS = 16 };
    if (given && id_acceptable(given)) {
        text_copy(exchange->request_id, sizeof exchange->request_id, given);
        return;
    }
    uint64_t id = unique_id_next();
    for (int i = 0; i < MADE_DIGITS; i++, id <<= 4)
        exchange->request_id[i] = "0123456789abcdef"[id >> 60];
    exchange->request_id[MADE_DIGITS] = '\0';
}

/* ------------------------------------------------------------------ body -- */

enum {
    BODY_CLAIMED_BYTES = 1 << 20, /* for an announced body of which nothing has come */
    BODY_TRUSTED_BYTES = 8 << 20, /* for an announced body that has filled the first */
    BODY_FIRST_BYTES = 16384,     /* for a body that was not announced */
    STEP_FIRST_BYTES = 16384,     /* a short body counts in such steps, */
    STEP_BYTES = 65536,           /* and a longer one in these */
};

/* The buffer has as many bytes as were announced, so that the body is not moved as it grows. But a
 * client may announce more than it sends, so the buffer grows in the steps above, and doubles from
 * there on. The buffer of a body that was not announced doubles each time. */
static size_t next_capacity(const struct exchange *exchange)
{
    const size_t doubled = 2 * exchange->body_capacity;
    if (!exchange->body_announced)
        return doubled ? doubled : BODY_FIRST_BYTES;
    const size_t announced = exchange->body_offset + exchange->body_announced;
    const size_t trusted = doubled == 0                   ? BODY_CLAIMED_BYTES
                           : doubled < BODY_TRUSTED_BYTES ? BODY_TRUSTED_BYTES
                                                          : doubled;
    return announced < trusted ? announced : trusted;
}

/* Reserves the budget for a body that grows to size bytes: less than a step more than size, and
 * never more than was announced. The rest of the buffer does not count: nothing has been written to
 * it, so it takes no memory. */
static bool reserve_for_body(struct exchange *exchange, size_t size)
{
    const size_t step = size <= MEMORY_SMALL_BODY_BYTES ? STEP_FIRST_BYTES : STEP_BYTES;
    const size_t before = exchange->memory.body_bytes;
    const size_t announced = exchange->body_offset + exchange->body_announced;
    size_t reserved = (size + step - 1) / step * step;
    if (size <= announced && reserved > announced)
        reserved = announced;
    return reserved <= before || memory_reserve_body(&exchange->memory, reserved - before);
}

static bool body_reserve(struct exchange *exchange, size_t size, size_t bytes_max)
{
    if (!reserve_for_body(exchange, size)) {
        if (!exchange->memory.owner_refused)
            metrics_refused("memory");
        return fault_no_memory(&exchange->fault);
    }
    if (size <= exchange->body_capacity)
        return true;
    size_t capacity = next_capacity(exchange);
    if (capacity < size)
        capacity = size;
    if (capacity > bytes_max)
        capacity = bytes_max;
    char *body = realloc(exchange->body, capacity);
    if (!body)
        return fault_no_memory(&exchange->fault);
    exchange->body = body;
    exchange->body_capacity = capacity;
    return true;
}

bool exchange_receive(struct exchange *exchange, const char *bytes, size_t size, size_t bytes_max)
{
    const size_t offset = exchange->body_offset;
    exchange->received += size;
    if (exchange->received > bytes_max && exchange->fault.code == FAULT_NONE)
        fault_set(&exchange->fault, FAULT_TOO_LARGE, "the body is longer than %zu bytes",
                  bytes_max);
    if (exchange->fault.code == FAULT_NONE
        && body_reserve(exchange, offset + exchange->body_size + size, offset + bytes_max)) {
        memcpy(exchange->body + offset + exchange->body_size, bytes, size);
        exchange->body_size += size;
        return true;
    }
    free(exchange->body);
    exchange->body = NULL;
    exchange->body_size = exchange->body_capacity = 0;
    memory_return_all(&exchange->memory);
    return exchange->received / 2 <= bytes_max;
}

enum coding exchange_body_coding(const struct exchange *exchange)
{
    return exchange->body_coding;
}

enum coding exchange_answer_coding(const struct exchange *exchange)
{
    return exchange->answer_coding;
}

struct byte_slice exchange_take_body_in_place(struct exchange *exchange, void **memory)
{
    const struct byte_slice body = { exchange->body ? exchange->body + exchange->body_offset : NULL,
                                     exchange->body_size };
    *memory = exchange->body;
    exchange->body = NULL;
    exchange->body_size = exchange->body_capacity = 0;
    return body;
}

struct byte_slice exchange_take_body(struct exchange *exchange)
{
    void *memory;
    struct byte_slice body = exchange_take_body_in_place(exchange, &memory);
    if (body.data != memory)
        body.data = memmove(memory, body.data, body.size);
    return body;
}

void exchange_leave_quota(struct exchange *exchange)
{
    const enum fault_code code = exchange->record.fault;
    if (!exchange->left_quota)
        access_quota_leave(exchange_quota(exchange), code ? code : exchange->fault.code);
    exchange->left_quota = true;
}

void exchange_free(struct exchange *exchange)
{
    if (!exchange)
        return;
    if (exchange->release)
        exchange->release(exchange->owner);
    exchange_settle(exchange, false);
    free(exchange->body);
    free(exchange->answer.data);
    if (exchange->answer.release)
        exchange->answer.release(exchange->answer.owner);
    memory_return_all(&exchange->memory);
    exchange_leave_quota(exchange);
    access_key_release(exchange->key);
    free(exchange->query);
    free(exchange->answer.location);
    http_headers_clear(&exchange->headers);
    free(exchange);
}

/* ---------------------------------------------------------------- answer -- */

void *exchange_context(const struct exchange *exchange)
{
    return exchange->context;
}

const char *exchange_request_id(const struct exchange *exchange)
{
    return exchange->request_id;
}

struct access_key *exchange_key(const struct exchange *exchange)
{
    return exchange->key;
}

struct access_quota *exchange_quota(const struct exchange *exchange)
{
    return exchange->key ? &exchange->key->account->quota : NULL;
}

const char *exchange_param(const struct exchange *exchange, int index)
{
    assert(index >= 0 && index < ROUTE_PARAMS_MAX);
    return exchange->params[index];
}

const char *exchange_path(const struct exchange *exchange)
{
    return exchange->path;
}

const char *exchange_header(const struct exchange *exchange, enum http_header header)
{
    return exchange->headers.values[header];
}

const char *exchange_body_type(const struct exchange *exchange)
{
    static _Thread_local char type[64];
    const char *header = exchange_header(exchange, HTTP_HEADER_CONTENT_TYPE);
    text_copy(type, sizeof type, header ? header : "");
    type[strcspn(type, "; \t")] = '\0';
    return type;
}

struct memory_share *exchange_memory(struct exchange *exchange)
{
    return &exchange->memory;
}

bool exchange_was_judged(const struct exchange *exchange)
{
    return exchange->outlook.latest_ns != 0;
}

int64_t exchange_started_ns(const struct exchange *exchange)
{
    return exchange->started_ns;
}

struct request_record *exchange_record(struct exchange *exchange)
{
    return &exchange->record;
}

void exchange_park(struct exchange *exchange, int64_t deadline_ns,
                   void (*end)(void *owner, enum exchange_end why), void (*release)(void *owner),
                   void *owner)
{
    exchange->parked = true;
    exchange->deadline_ns = deadline_ns;
    exchange->end = end;
    exchange->release = release;
    exchange->owner = owner;
}

bool exchange_packs(const struct exchange *exchange, size_t bytes, bool *is_required)
{
    const bool is_plain = exchange->route && exchange->route->plain;
    *is_required = exchange->identity_refused;
    return exchange->answer_coding != CODING_IDENTITY && bytes > 0
           && ((bytes >= exchange->pack_bytes_min && !is_plain) || *is_required);
}

void exchange_set_packed(struct exchange *exchange, bool is_packed)
{
    exchange->packing_done = true;
    exchange->answer.coding = is_packed ? exchange->answer_coding : CODING_IDENTITY;
}

/* Packs the bytes of the answer, where that is wanted and possible. Parts in whose place the packed
 * bytes come stay until the exchange ends. */
static void pack(struct exchange *exchange)
{
    struct exchange_answer *answer = &exchange->answer;
    const struct byte_slice whole = { answer->data, answer->size };
    bool required;
    if (answer->size == 0)
        return;
    answer->varies = answer->varies || answer->size >= exchange->pack_bytes_min
                     || answer->coding != CODING_IDENTITY;
    if (exchange->packing_done || !exchange_packs(exchange, answer->size, &required))
        return;
    size_t size;
    char *data = answer->parts ? coding_pack(exchange->answer_coding, answer->parts,
                                             answer->part_count, required, &size)
                               : coding_pack(exchange->answer_coding, &whole, 1, required, &size);
    if (!data)
        return;
    free(answer->data);
    memory_take(&exchange->memory, size);
    answer->data = data;
    answer->size = size;
    answer->parts = NULL;
    answer->coding = exchange->answer_coding;
    answer->varies = true;
}

static void answer(struct exchange *exchange, int status, const char *content_type)
{
    memory_body_is_answered(&exchange->memory);
    if (status < 400) /* every client can read an error that is not packed */
        pack(exchange);
    if (status == 304) /* what it stands for may be packed */
        exchange->answer.varies = true;
    exchange->answer.status = status;
    exchange->answer.content_type = content_type;
    exchange->answer.retry_after_s = fault_retry_after_s(status, exchange->answer.retry_after_s);
    if (exchange->parked)
        http_exchange_answered(exchange); /* from here on the connection thread owns it */
    else
        exchange->answered = true;
}

void exchange_reply(struct exchange *exchange, int status, const char *content_type, char *data,
                    size_t size)
{
    exchange->answer.data = data;
    exchange->answer.size = size;
    answer(exchange, status, content_type);
}

void exchange_reply_parts(struct exchange *exchange, int status, const char *content_type,
                          const struct byte_slice *parts, int part_count,
                          void (*release)(void *owner), void *owner)
{
    assert(part_count > 0);
    exchange->answer.parts = parts;
    exchange->answer.part_count = part_count;
    exchange->answer.release = release;
    exchange->answer.owner = owner;
    exchange->answer.size = 0;
    for (int i = 0; i < part_count; i++)
        exchange->answer.size += parts[i].size;
    answer(exchange, status, content_type);
}

void exchange_on_settled(struct exchange *exchange,
                         void (*settle)(void *settled, bool is_delivered), void *settled)
{
    exchange->settle = settle;
    exchange->settled = settled;
}

void exchange_settle(struct exchange *exchange, bool is_delivered)
{
    if (exchange->settle)
        exchange->settle(exchange->settled, is_delivered);
    exchange->settle = NULL;
}

void exchange_set_header_length(struct exchange *exchange, size_t length)
{
    exchange->answer.header_length = length;
}

void exchange_add_header(struct exchange *exchange, const char *name, const char *value)
{
    char *copy = exchange->answer.fields[exchange->answer.field_count].copy;
    exchange_add_constant(exchange, name, copy);
    assert(strlen(value) < EXCHANGE_FIELD_MAX);
    text_copy(copy, EXCHANGE_FIELD_MAX, value);
}

void exchange_add_constant(struct exchange *exchange, const char *name, const char *value)
{
    struct exchange_answer *answer = &exchange->answer;
    assert(answer->field_count < EXCHANGE_FIELDS_MAX);
    answer->fields[answer->field_count].name = name;
    answer->fields[answer->field_count++].value = value;
}

void exchange_vary_by_coding(struct exchange *exchange)
{
    exchange->answer.varies = true;
}

void exchange_reply_text(struct exchange *exchange, int status, const char *content_type,
                         struct text *text)
{
    struct fault fault;
    if (text_finish(text, &fault)) {
        exchange_reply(exchange, status, content_type, text->data, text->used);
        return;
    }
    text_free(text);
    exchange_fail(exchange, &fault);
}

void exchange_write_fault(const struct exchange *exchange, const struct fault *fault,
                          struct text *text)
{
    text_raw(text, "{\"error\":");
    text_string(text, fault->message);
    text_raw(text, ",\"code\":");
    text_string(text, fault_code_name(fault->code));
    if (fault->pointer[0]) {
        text_raw(text, ",\"pointer\":");
        text_string(text, fault->pointer);
    }
    text_raw(text, ",\"request_id\":");
    text_string(text, exchange->request_id);
    text_raw(text, "}\n");
}

/* The same request at the place that a fault names, for clients that follow. The path is kept up to
 * a bound, which those of sessions do not reach: a longer one has no Location. */
static void tell_place(struct exchange *exchange, const struct fault_place *place)
{
    const bool is_kept = strlen(exchange->path) + 1 < sizeof exchange->path
                         && !exchange->query_is_long && !exchange->query_is_lost;
    if (place->replica[0])
        exchange_add_constant(exchange, "Attnd-Moved-To", place->replica);
    if (is_kept
        && asprintf(&exchange->answer.location, "%s%s%s%s", place->url, exchange->path,
                    exchange->query ? "?" : "", exchange->query ? exchange->query : "")
               < 0)
        exchange->answer.location = NULL;
}

void exchange_fail(struct exchange *exchange, const struct fault *fault)
{
    struct fault told = *fault;
    access_quota_explain(exchange_quota(exchange), &exchange->memory, &told);
    const enum fault_code code = told.code;
    struct text text;
    exchange->answer.field_count = 0;
    text_init(&text, EXCHANGE_FAULT_BYTES_MAX);
    exchange_write_fault(exchange, &told, &text);
    if (text.failed != FAULT_NONE)
        text_free(&text); /* there is no memory even for this: the client gets the status alone */

    if (told.place && code == FAULT_MOVED)
        tell_place(exchange, told.place);
    exchange->record.fault = code;
    exchange->answer.retry_after_s = told.retry_after_s;
    exchange->answer.close = code == FAULT_DRAINING;
    exchange->answer.encodings = code == FAULT_ENCODING;
    exchange_reply(exchange, fault_http_status(code), "application/json", text.data, text.used);
}
