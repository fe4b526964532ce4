/* SPDX-License-Identifier: Apache-2.0 */
/* operation.c - the headers, the message and the answer of a call, by the formats of its
 * operation. */
#include "call/operation.h"

#include "call/admission.h"
#include "call/call_formats.h"
#include "call/infer_statistics.h"

#include <stdlib.h>

const struct format *const operation_formats_json[] = { &format_json, NULL };
const struct format *const operation_formats_tensors[] = { &format_json, &format_safetensors,
                                                           NULL };
const struct format *const operation_formats_npy[] = { &format_json, &format_safetensors,
                                                       &format_npy, NULL };

bool operation_begin(struct call *call, struct arena *arena, const struct exchange *exchange,
                     struct fault *fault)
{
    const struct operation *operation = call->operation;
    if (!exchange)
        return true;
    if (operation->formats
        && !call_formats_choose(exchange, operation->formats, operation->address, arena,
                                &call->form, &call->answer, fault))
        return false;
    return !operation->begin || operation->begin(call, exchange, fault);
}

/* Makes the work of the operation's kind. */
static bool make_work(struct call *call, struct fault *fault)
{
    const struct call_kind *kind = call->operation->kind;
    if (!kind || call->work)
        return true;
    call->work = calloc(1, kind->work_bytes);
    if (!call->work)
        return fault_no_memory(fault);
    call->kind = kind;
    kind->init(call);
    return true;
}

bool operation_read(struct call *call, struct fault *fault)
{
    const struct operation *operation = NULL;
    while (call->operation != operation) {
        operation = call->operation;
        if (!make_work(call, fault) || !operation->read(call, fault))
            return false;
    }
    return true;
}

/* Reads the body as a message, and sets how its fields are read. */
static bool read_message(struct call *call, const struct field_table *table,
                         struct message *message, struct field_reader *reader, struct fault *fault)
{
    *reader = (struct field_reader){ .arena = &call->arena,
                                     .nonfinite_allowed = call->form.nonfinite_allowed,
                                     .fault = fault };
    call->form.arena = &call->arena;
    return call_formats_read(call, &call->form, table, message, fault);
}

/* The fields are read. Until then lists of JSON refer to the text of the body (json.h). */
static void drop_read_body(struct call *call)
{
    if (call->form.format && !call->form.format->keeps_bytes)
        call_drop_body(call);
}

bool operation_read_fields(struct call *call, const struct field_table *table, void *into,
                           struct fault *fault)
{
    struct field_reader reader;
    struct message message;
    const bool good = read_message(call, table, &message, &reader, fault)
                      && fields_read(&reader, &message, (struct field_target){ table, into },
                                     (struct field_target){ .table = NULL });
    drop_read_body(call);
    return good;
}

bool operation_read_items(struct call *call, struct field_items *items, struct fault *fault)
{
    struct field_reader reader;
    struct message message;
    const bool good = read_message(call, items->target.table, &message, &reader, fault)
                      && fields_read_items(&reader, &message, items);
    drop_read_body(call);
    return good;
}

const struct format *operation_answer(const struct call *call)
{
    return call->answer ? call->answer : &format_json;
}

bool operation_write(struct call *call, struct fault *fault)
{
    const struct operation *operation = call->operation;
    const struct writer_kind *kind = operation_answer(call)->writer;
    if (operation->finish && !operation->finish(call, fault))
        return false;
    if (!operation->say)
        return true;
    struct writer *writer = kind->begin(&call->form, &call->text, fault);
    if (!writer)
        return false;
    kind->object(writer, NULL);
    operation->say(call, writer);
    kind->end(writer);
    if (!kind->finish(writer))
        return false;
    call->parts = writer->parts;
    call->part_count = writer->part_count;
    call->content_type = writer->content_type ? writer->content_type : kind->content_type;
    call->has_header_length = writer->is_header;
    return true;
}

void operation_drop(struct call *call)
{
    if (call->operation->drop)
        call->operation->drop(call);
    format_body_free(&call->form);
}

void operation_free(struct call *call)
{
    operation_drop(call);
    model_release(call->model);
    call->model = NULL;
    arena_free(&call->arena);
}

/* ------------------------------------------------- before the kind is known -- */

static struct infer_limits limits_of(const struct service *service, const struct exchange *exchange)
{
    const struct config *config = service->config;
    return (struct infer_limits){
        .store = service->store,
        .key = exchange ? exchange_key(exchange) : NULL,
        .kernels = service->kernels,
        .precision = config->precision,
        .worker_count = scheduler_worker_count(service->scheduler),
        .workspace_bytes = SERVICE_WORKSPACE_BYTES,
        .answer_bytes_max = config->answer_bytes_max,
        .scratch_bytes_max = service_request_bytes_max(config),
    };
}

static bool begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    call->limits = limits_of(call->service, exchange);
    call->job.tasks_at_once = call->limits.worker_count;
    call->form.nonfinite_allowed = call->service->config->json_nonfinite_allowed;
    arena_init(&call->arena, call->limits.scratch_bytes_max);
    call->arena.memory = call->memory;
    return make_work(call, fault) && operation_begin(call, &call->arena, exchange, fault);
}

static void record(struct call *call, struct request_record *record)
{
    const struct infer_request request = { .model = call->model };
    infer_statistics_record(record, &request, &call->cost);
}

static struct call *create(const struct operation *operation)
{
    static const struct call_kind UNKNOWN = {
        .begin = begin, .read = operation_read, .record = record, .drop = operation_free
    };
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->kind = &UNKNOWN;
    call->operation = operation;
    return call;
}

void operation_handle(struct exchange *exchange, const struct operation *operation)
{
    call_handle(exchange, create(operation));
}

bool operation_try(struct service *service, const struct operation *operation,
                   struct byte_slice body, struct fault *fault)
{
    return call_try(service, create(operation), body, fault);
}
