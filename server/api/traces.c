/* traces.c - see traces.h: what is kept, the end of a trace, and what its handlers share. */
#include "api/traces.h"

#include "api/query_number.h"
#include "api/traces_internal.h"
#include "watch/metrics_inference.h"
#include "wire/v1_time.h"
#include "wire/v1_token.h"

#include <inttypes.h>
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

static void write_layer(struct text *text, const struct kept_layer *layer)
{
    text_raw(text, "{\"layer\":");
    text_integer(text, layer->number);
    text_raw(text, ",\"kind\":");
    text_string(text, layer->kind);
    text_raw(text, ",\"heads\":");
    text_integer(text, layer->q_heads);
    text_raw(text, ",\"head_dim\":");
    text_integer(text, layer->head_dim);
    text_raw(text, ",\"rows\":");
    text_integer(text, layer->q_len);
    text_raw(text, ",\"keys\":");
    text_integer(text, layer->kv_len);
    text_raw(text, "}");
}

/* The tokens of a stream under this name. */
static void write_tokens(struct text *text, const struct kept_trace *kept, int stream,
                         const char *name)
{
    const struct token_list *tokens = &kept->tokens[stream];
    text_raw(text, ",");
    text_key(text, name);
    text_raw(text, "[");
    for (int64_t i = 0; i < tokens->count; i++) {
        text_raw(text, i > 0 ? "," : "");
        v1_token_write(kept->model->tokenizer, &tokens->tokens[i], kept->has_pair, text);
    }
    text_raw(text, "]");
}

/* What it is, where it ends and how large it is; the object is not closed. */
static void write_head(struct text *text, const struct kept_trace *kept)
{
    text_raw(text, "{\"trace\":");
    text_string(text, kept->id);
    text_raw(text, ",\"model\":");
    text_string(text, kept->model->name);
    if (kept->account) {
        text_raw(text, ",\"owner\":");
        text_string(text, kept->account->name);
    }
    v1_time_write_end(kept->expires_ns, text);
    text_raw(text, ",\"bytes\":");
    text_integer(text, (int64_t)kept->bytes);
}

static void write_kept(struct text *text, const struct kept_trace *kept)
{
    const bool has_decoder = kept->model->forward->is_encoder_decoder;
    write_head(text, kept);
    write_tokens(text, kept, 0, "tokens");
    if (has_decoder)
        write_tokens(text, kept, 1, "decoder_tokens");
    text_raw(text, ",\"layers\":[");
    for (int64_t i = 0; i < kept->layer_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        write_layer(text, &kept->layers[i]);
    }
    text_raw(text, "]}\n");
}

void traces_get(struct exchange *exchange)
{
    struct fault fault = { .code = FAULT_NONE };
    struct text text;
    struct kept_trace *kept = traces_find(exchange, &fault);
    if (!kept) {
        exchange_fail(exchange, &fault);
        return;
    }
    const struct service *service = exchange_context(exchange);
    text_init(&text, service->config->answer_bytes_max);
    text.memory = exchange_memory(exchange);
    write_kept(&text, kept);
    kept_trace_release(kept);
    exchange_reply_text(exchange, 200, "application/json", &text);
}

struct list {
    struct text *text;
    int64_t count;
};

static void write_one(void *context, const struct kept_trace *kept)
{
    struct list *list = context;
    text_raw(list->text, list->count++ > 0 ? "," : "");
    write_head(list->text, kept);
    text_raw(list->text, "}");
}

void traces_list(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct fault fault;
    struct text text;
    struct list list = { &text, 0 };
    int64_t offset, limit;
    if (!query_number_read_part(exchange, &offset, &limit, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    text_init(&text, service->config->answer_bytes_max);
    text.memory = exchange_memory(exchange);
    text_raw(&text, "{\"traces\":[");
    const int64_t total =
        kept_store_list(service->kept, exchange_key(exchange), offset, limit, write_one, &list);
    text_raw(&text, "],\"total\":");
    text_integer(&text, total);
    text_raw(&text, "}\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
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
