/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire_session.c - any bytes as a body about sessions: one that makes, forks or truncates a
 * session, or a call on one or on many, which may come as a safetensors file.
 *
 * The first byte chooses which, and its bit 0x20 the file. Any bytes must end in a fault with a
 * message, or in what is asked: an id that is a segment of a path, layers that ascend, a time
 * within its bounds, and items that have a query. */
#include "call/call_formats.h"
#include "operations/session_attention.h"
#include "operations/sessions.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_settings(const struct session_settings *settings)
{
    if (settings->id) {
        const size_t length = strlen(settings->id);
        require(length >= 1 && length <= SESSION_ID_MAX && !strpbrk(settings->id, "/%?# ")
                && strcmp(settings->id, "..") != 0);
    }
    for (int64_t i = 0; i < settings->layer_count; i++)
        require(settings->layers[i] >= 0
                && (i == 0 || settings->layers[i] > settings->layers[i - 1]));
    require(settings->ttl_ns >= 0 && settings->ttl_ns <= SESSION_TTL_MAX_NS
            && settings->kv_len_max >= 1);
}

static bool read_body(struct call *call, uint8_t how, struct fault *fault)
{
    static const struct field_table *const TABLES[] = { &session_create_fields,
                                                        &session_fork_fields,
                                                        &session_truncate_fields };
    struct session_settings settings;
    struct message message;
    struct arena *arena = &call->arena;
    call->form.arena = arena;
    if (!call_formats_read(call, &call->form, TABLES[how], &message, fault)
        || !session_settings_read(&settings, TABLES[how], &message, arena, fault))
        return false;
    check_settings(&settings);
    return true;
}

/* Each item in its own words, as session_attention.c takes them. */
static void check_item(struct infer_item *item, const struct session_asked *asked)
{
    struct session_step step = { .has_rows = false };
    if (item->fault.code == FAULT_NONE
        && session_attention_settle(asked, item, &step, &item->fault)) {
        require(item->query.data != NULL && step.at >= SESSION_AT_NONE);
        require(step.has_rows == (item->key.data || item->is_input));
        return;
    }
    require(item->fault.code != FAULT_NONE && item->fault.message[0] != '\0');
}

static bool read_call(struct call *call, bool many, bool is_file, struct fault *fault)
{
    struct session_asked asked = { .at = SESSION_AT_NONE };
    struct field_items items = {
        .target.table = many ? &attention_batch_fields : &attention_step_fields,
        .more = { many ? &session_item_fields : &session_path_fields, &asked },
        .list_may_lack = !many,
    };
    struct infer_request *request = infer_request_of(call);
    call->form.format = is_file ? &format_safetensors : &format_json;
    if (!attention_read(call, &items, fault))
        return false;
    for (int64_t i = 0; i < request->item_count; i++)
        check_item(&request->items[i], (const struct session_asked *)items.more_items + i);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { BODIES = 3, KINDS = 5, FILE_BIT = 0x20 };
    struct fault fault = { .code = FAULT_NONE };
    if (size == 0)
        return 0;
    const uint8_t how = (uint8_t)(data[0] & ~FILE_BIT) % KINDS;
    const bool is_file = (data[0] & FILE_BIT) != 0 && how >= BODIES;
    struct infer_request request = { .items = NULL };
    struct call call = {
        .work = &request, .body_memory = malloc(size), /* aligned as a request's is */
    };
    require(call.body_memory != NULL);
    memcpy(call.body_memory, data + 1, size - 1);
    call.body = (struct byte_slice){ call.body_memory, size - 1 };
    request.arena = &call.arena;
    arena_init(request.arena, 1 << 26);
    const bool good = how < BODIES ? read_body(&call, how, &fault)
                                   : read_call(&call, how == BODIES, is_file, &fault);
    require(good || (fault.code != FAULT_NONE && fault.message[0] != '\0'));
    call_drop_body(&call);
    format_body_free(&call.form);
    infer_request_free(&request);
    return 0;
}
