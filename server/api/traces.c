/* SPDX-License-Identifier: Apache-2.0 */
/* traces.c - what is kept, the end of a trace, and what the handlers of kept traces share. */
#include "api/traces.h"

#include "api/json_answer.h"
#include "api/query_number.h"
#include "api/traces_internal.h"
#include "operations/say.h"
#include "operations/trace.h"
#include "telemetry/metrics_inference.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------- what is asked -- */

struct kept_trace *traces_find(const struct exchange *exchange, struct fault *fault)
{
    const struct service *service = exchange_context(exchange);
    const struct access_key *key = exchange_key(exchange);
    struct kept_trace *kept =
        kept_store_find(service->kept, exchange_param(exchange, 0), key, fault);
    if (!kept || access_key_may_infer(key, kept->model->name))
        return kept;
    fault_set(fault, FAULT_SCOPE, "the key may not infer with model '%s'", kept->model->name);
    kept_trace_release(kept);
    return NULL;
}

bool traces_read_layer(const struct exchange *exchange, const struct kept_trace *kept,
                       const struct kept_layer **layer, struct fault *fault)
{
    int64_t number = 0;
    if (!query_number_read(exchange, "layer", kept->model->layer_count, &number, fault))
        return false;
    if (kept->model->layers[number].lacks_attention)
        return fault_set(fault, FAULT_OPTION,
                         "layer %" PRId64 " of model '%s' is of the kind '%s' and has no attention",
                         number, kept->model->name, model_layer_kind(&kept->model->layers[number]));
    for (int64_t i = 0; i < kept->layer_count; i++)
        if (kept->layers[i].number == number) {
            *layer = &kept->layers[i];
            return true;
        }
    return fault_set(fault, FAULT_NOT_FOUND,
                     "layer %" PRId64 " is not kept; the trace was of others", number);
}

bool traces_read_head(const struct exchange *exchange, const struct kept_layer *layer,
                      int64_t *head, struct fault *fault)
{
    return query_number_read(exchange, "head", layer->q_heads, head, fault);
}

bool traces_read_two(const char *value, char between, int64_t two[2])
{
    char *end;
    if (value[0] < '0' || value[0] > '9')
        return false;
    two[0] = strtoll(value, &end, 10);
    if (*end != between || end[1] < '0' || end[1] > '9')
        return false;
    two[1] = strtoll(end + 1, &end, 10);
    return *end == '\0';
}

bool traces_read_range(const struct exchange *exchange, const char *name, int64_t count,
                       int64_t range[2], struct fault *fault)
{
    char value[QUERY_PARAM_BYTES];
    range[0] = 0;
    range[1] = count;
    if (!exchange_query(exchange, name, value, sizeof value))
        return true;
    if (!traces_read_two(value, ':', range) || range[0] >= range[1] || range[1] > count)
        return fault_set(fault, FAULT_OPTION,
                         "%s is '%.40s'; expected FIRST:END with 0 <= FIRST < END <= %" PRId64,
                         name, value, count);
    return true;
}

/* --------------------------------------------------------------------- calls -- */

bool traces_begin(struct traces_call *traces, const struct exchange *exchange,
                  const char *const *names, int name_count, struct fault *fault)
{
    arena_init(&traces->arena, service_request_bytes_max(traces->call.service->config));
    traces->arena.memory = traces->call.memory;
    traces->call.job.tasks_at_once = scheduler_worker_count(traces->call.service->scheduler);
    if (!exchange_check_query(exchange, names, name_count, fault))
        return false;
    traces->kept = traces_find(exchange, fault);
    return traces->kept != NULL;
}

bool traces_take_workspaces(struct traces_call *traces, size_t bytes, struct fault *fault)
{
    if (bytes <= SERVICE_WORKSPACE_BYTES)
        return true;
    traces->workspace_bytes = (bytes + 63) / 64 * 64;
    traces->workspaces = arena_alloc(&traces->arena, traces->workspace_bytes
                                                         * (size_t)traces->call.job.tasks_at_once);
    return traces->workspaces || fault_no_memory(fault);
}

void *traces_workspace(const struct traces_call *traces, const struct worker *worker)
{
    return traces->workspaces ? traces->workspaces + traces->workspace_bytes * (size_t)worker->slot
                              : worker->workspace;
}

void traces_price(struct traces_call *traces, double pairs, int64_t head_dim, size_t answer_bytes)
{
    const struct attn_work work = { .tasks = 1,
                                    .tile_flops = 2 * pairs * (double)head_dim,
                                    .pairs = pairs,
                                    .map_bytes = 4 * pairs };
    infer_cost_plan_work(&traces->call.cost, &work, 1, answer_bytes, 1, traces->call.answer_coding);
    traces->call.item_count = 1;
    traces->call.answer_bytes = answer_bytes;
}

void traces_record(struct call *call, struct request_record *record)
{
    if (record->fault == FAULT_NONE) {
        record->item_count = 1;
        record->cost_ns = infer_cost_ns(&call->cost);
    }
    metrics_inference(0, record);
}

void traces_drop(struct call *call)
{
    struct traces_call *traces = (struct traces_call *)call;
    kept_trace_release(traces->kept);
    traces->kept = NULL;
    arena_free(&traces->arena);
}

/* ------------------------------------------------------------- what is kept -- */

static void say_layer(struct writer *writer, const struct kept_layer *layer)
{
    writer->kind->object(writer, NULL);
    writer->kind->integer(writer, "layer", layer->number);
    writer->kind->string(writer, "kind", layer->kind);
    writer->kind->integer(writer, "heads", layer->q_heads);
    writer->kind->integer(writer, "head_dim", layer->head_dim);
    writer->kind->integer(writer, "rows", layer->q_len);
    writer->kind->integer(writer, "keys", layer->kv_len);
    writer->kind->end(writer);
}

/* The tokens of a stream under this name. */
static void say_tokens(struct writer *writer, const struct kept_trace *kept, int stream,
                       const char *name)
{
    const struct token_list *tokens = &kept->tokens[stream];
    writer->kind->list(writer, name);
    for (int64_t i = 0; i < tokens->count; i++)
        say_token(writer, kept->model->tokenizer, &tokens->tokens[i], kept->has_pair);
    writer->kind->end(writer);
}

/* What it is, when it ends and how large it is. */
static void say_head(struct writer *writer, const struct kept_trace *kept)
{
    writer->kind->string(writer, "trace", kept->id);
    writer->kind->string(writer, "model", kept->model->name);
    if (kept->account)
        writer->kind->string(writer, "owner", kept->account->name);
    say_end(writer, kept->expires_ns);
    writer->kind->integer(writer, "bytes", (int64_t)kept->bytes);
}

static void say_kept(struct writer *writer, const struct kept_trace *kept)
{
    say_head(writer, kept);
    say_tokens(writer, kept, 0, "tokens");
    if (kept->model->forward->is_encoder_decoder)
        say_tokens(writer, kept, 1, "decoder_tokens");
    writer->kind->list(writer, "layers");
    for (int64_t i = 0; i < kept->layer_count; i++)
        say_layer(writer, &kept->layers[i]);
    writer->kind->end(writer);
}

/* Answers what say says of a trace, which is released; NULL: the fault. */
static void reply_kept(struct exchange *exchange, struct kept_trace *kept,
                       void (*say)(struct writer *, const struct kept_trace *),
                       const struct fault *fault)
{
    struct json_answer answer;
    if (!kept) {
        exchange_fail(exchange, fault);
        return;
    }
    if (json_answer_begin(&answer, exchange)) {
        say(answer.writer, kept);
        json_answer_end(&answer);
    }
    kept_trace_release(kept);
}

void traces_get(struct exchange *exchange)
{
    struct fault fault = { .code = FAULT_NONE };
    struct kept_trace *kept = traces_find(exchange, &fault);
    reply_kept(exchange, kept, say_kept, &fault);
}

/* The time of the parameter keep. */
static bool read_keep(const struct exchange *exchange, int64_t *keep_ns, struct fault *fault)
{
    static const char *const NAMES[] = { "keep" };
    char value[QUERY_PARAM_BYTES] = "";
    if (!exchange_check_query(exchange, NAMES, 1, fault))
        return false;
    if (exchange_query(exchange, "keep", value, sizeof value) && trace_keep_time(value, keep_ns))
        return true;
    return fault_set(fault, FAULT_OPTION,
                     "keep is '%.40s'; expected a time above 0 and of at most 24h: ?keep=5m",
                     value);
}

void traces_renew(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct fault fault = { .code = FAULT_NONE };
    int64_t keep_ns = 0;
    struct kept_trace *kept =
        read_keep(exchange, &keep_ns, &fault) ? traces_find(exchange, &fault) : NULL;
    if (kept)
        kept_store_renew(service->kept, kept, keep_ns);
    reply_kept(exchange, kept, say_head, &fault);
}

static void say_one(void *context, const struct kept_trace *kept)
{
    struct writer *writer = context;
    writer->kind->object(writer, NULL);
    say_head(writer, kept);
    writer->kind->end(writer);
}

void traces_list(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct json_answer answer;
    struct fault fault;
    int64_t offset, limit;
    if (!query_number_read_part(exchange, &offset, &limit, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    if (!json_answer_begin(&answer, exchange))
        return;
    struct writer *writer = answer.writer;
    writer->kind->list(writer, "traces");
    const int64_t total =
        kept_store_list(service->kept, exchange_key(exchange), offset, limit, say_one, writer);
    writer->kind->end(writer);
    writer->kind->integer(writer, "total", total);
    json_answer_end(&answer);
}

void traces_delete(struct exchange *exchange)
{
    struct fault fault = { .code = FAULT_NONE };
    const struct service *service = exchange_context(exchange);
    if (kept_store_delete(service->kept, exchange_param(exchange, 0), exchange_key(exchange),
                          &fault))
        exchange_reply(exchange, 204, NULL, NULL, 0);
    else
        exchange_fail(exchange, &fault);
}
