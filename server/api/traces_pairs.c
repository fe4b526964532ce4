/* SPDX-License-Identifier: Apache-2.0 */
/* traces_pairs.c - GET /v1/traces/{id}/pair and /pairs: one score stage by stage, and those of
 * several keys of a row. */
#include "api/traces.h"

#include "api/query_number.h"
#include "api/traces_internal.h"
#include "operations/trace/kept_piece.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_MAX = 32, KEYS_BYTES = 512 };

struct pairs {
    struct traces_call traces; /* first */
    const struct kept_layer *layer;
    int64_t head, row, keys[PAIRS_MAX];
    int count;
    struct kept_pair numbers[PAIRS_MAX];
};

static struct pairs *pairs_of(struct call *call)
{
    return (struct pairs *)call;
}

/* The layer, the head and the row, of a query that has these and the parameter last. */
static bool begin(struct call *call, const struct exchange *exchange, const char *last,
                  struct fault *fault)
{
    const char *const names[] = { "layer", "head", "row", last };
    struct pairs *pairs = pairs_of(call);
    return traces_begin(&pairs->traces, exchange, names, 4, fault)
           && traces_read_layer(exchange, pairs->traces.kept, &pairs->layer, fault)
           && traces_read_head(exchange, pairs->layer, &pairs->head, fault)
           && query_number_read(exchange, "row", pairs->layer->q_len, &pairs->row, fault);
}

static bool begin_pair(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    struct pairs *pairs = pairs_of(call);
    pairs->count = 1;
    return begin(call, exchange, "key", fault)
           && query_number_read(exchange, "key", pairs->layer->kv_len, &pairs->keys[0], fault);
}

/* Keys as "5,0,17". False where text is none such list. */
static bool read_keys(struct pairs *pairs, const char *text)
{
    for (const char *at = text; pairs->count < PAIRS_MAX; at++) {
        char *end;
        if (*at < '0' || *at > '9')
            return false;
        const long long key = strtoll(at, &end, 10);
        if (key >= pairs->layer->kv_len)
            return false;
        pairs->keys[pairs->count++] = key;
        at = end;
        if (*at != ',')
            return !*at;
    }
    return false;
}

static bool begin_pairs(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    struct pairs *pairs = pairs_of(call);
    char keys[KEYS_BYTES];
    if (!begin(call, exchange, "keys", fault))
        return false;
    if (!exchange_query(exchange, "keys", keys, sizeof keys))
        return fault_set(fault, FAULT_FIELD, "keys is missing; expected ?keys=N,N in the address");
    return read_keys(pairs, keys)
           || fault_set(fault, FAULT_OPTION,
                        "keys is '%.40s'; expected 1 to %d whole numbers from 0 to %" PRId64
                        " with commas between them",
                        keys, PAIRS_MAX, pairs->layer->kv_len - 1);
}

static bool read_pairs(struct call *call, struct fault *fault)
{
    struct pairs *pairs = pairs_of(call);
    traces_price(&pairs->traces, pairs->count, pairs->layer->head_dim,
                 ((size_t)pairs->layer->head_dim * 3 * 16 + 512) * (size_t)pairs->count);
    return traces_take_workspaces(&pairs->traces, kept_pair_workspace_bytes(pairs->layer), fault);
}

static int64_t pairs_tasks(struct call *call, int stage)
{
    return stage == 0 ? pairs_of(call)->count : 0;
}

static void run_pairs(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct pairs *pairs = pairs_of(call);
    (void)stage;
    kept_pair_compute(pairs->layer, pairs->head, pairs->row, pairs->keys[task],
                      &pairs->numbers[task], traces_workspace(&pairs->traces, worker));
}

static void write_number(struct text *text, const char *name, float value)
{
    text_raw(text, ",");
    text_key(text, name);
    text_float(text, value);
}

static void write_vector(struct text *text, const char *name, const float *values, int64_t count)
{
    text_raw(text, ",");
    text_key(text, name);
    text_tensor(text, values, 1, &count);
}

/* The vectors that are of one key alone. products is room for them. */
static void write_vectors(struct text *text, const struct pairs *pairs, int i, float *products)
{
    const struct kept_pair *numbers = &pairs->numbers[i];
    const int64_t head_dim = pairs->layer->head_dim;
    for (int64_t d = 0; d < head_dim; d++)
        products[d] = numbers->query[d] * numbers->key[d];
    write_vector(text, "key_vector", numbers->key, head_dim);
    write_vector(text, "products", products, head_dim);
}

/* The stages of a score before the row's lse. */
static void write_stages(struct text *text, const struct kept_pair *numbers)
{
    write_number(text, "score", numbers->score);
    write_number(text, "softcapped", numbers->softcapped);
    write_number(text, "masked", numbers->masked);
}

static void write_query(struct text *text, const struct pairs *pairs)
{
    write_vector(text, "query_vector", pairs->numbers[0].query, pairs->layer->head_dim);
}

static void write_scale(struct text *text, const struct pairs *pairs)
{
    write_number(text, "scale", (float)pairs->layer->options.scale);
}

static float *products_of(struct pairs *pairs)
{
    return arena_calloc(&pairs->traces.arena, (size_t)pairs->layer->head_dim, sizeof(float));
}

static void write_place(struct text *text, const struct pairs *pairs)
{
    text_format(text, "{\"layer\":%" PRId64 ",\"head\":%" PRId64 ",\"row\":%" PRId64,
                pairs->layer->number, pairs->head, pairs->row);
}

static bool write_pair(struct call *call, struct fault *fault)
{
    struct pairs *pairs = pairs_of(call);
    float *products = products_of(pairs);
    if (!products)
        return fault_no_memory(fault);
    write_place(&call->text, pairs);
    text_format(&call->text, ",\"key\":%" PRId64, pairs->keys[0]);
    write_query(&call->text, pairs);
    write_vectors(&call->text, pairs, 0, products);
    write_scale(&call->text, pairs);
    write_stages(&call->text, &pairs->numbers[0]);
    write_number(&call->text, "lse", pairs->numbers[0].lse);
    write_number(&call->text, "weight", pairs->numbers[0].weight);
    text_raw(&call->text, "}\n");
    return true;
}

static bool write_pairs(struct call *call, struct fault *fault)
{
    struct pairs *pairs = pairs_of(call);
    float *products = products_of(pairs);
    if (!products)
        return fault_no_memory(fault);
    write_place(&call->text, pairs);
    write_query(&call->text, pairs);
    write_scale(&call->text, pairs);
    write_number(&call->text, "lse", pairs->numbers[0].lse);
    text_raw(&call->text, ",\"keys\":[");
    for (int i = 0; i < pairs->count; i++) {
        text_format(&call->text, "%s{\"key\":%" PRId64, i > 0 ? "," : "", pairs->keys[i]);
        write_vectors(&call->text, pairs, i, products);
        write_stages(&call->text, &pairs->numbers[i]);
        write_number(&call->text, "weight", pairs->numbers[i].weight);
        text_raw(&call->text, "}");
    }
    text_raw(&call->text, "]}\n");
    return true;
}

static void handle(struct exchange *exchange, const struct call_kind *kind)
{
    struct pairs *pairs = calloc(1, sizeof *pairs);
    if (pairs)
        pairs->traces.call.kind = kind;
    call_handle(exchange, pairs ? &pairs->traces.call : NULL);
}

void traces_pair(struct exchange *exchange)
{
    static const struct call_kind KIND = { .begin = begin_pair,
                                           .read = read_pairs,
                                           .tasks = pairs_tasks,
                                           .run = run_pairs,
                                           .write = write_pair,
                                           .record = traces_record,
                                           .drop = traces_drop };
    handle(exchange, &KIND);
}

void traces_pairs(struct exchange *exchange)
{
    static const struct call_kind KIND = { .begin = begin_pairs,
                                           .read = read_pairs,
                                           .tasks = pairs_tasks,
                                           .run = run_pairs,
                                           .write = write_pairs,
                                           .record = traces_record,
                                           .drop = traces_drop };
    handle(exchange, &KIND);
}
