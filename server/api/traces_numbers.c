/* SPDX-License-Identifier: Apache-2.0 */
/* traces_numbers.c - GET /v1/traces/{id}/statistics: what heads do. */
#include "api/traces.h"

#include "api/traces_internal.h"
#include "operations/trace/kept_statistics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct statistics {
    struct traces_call traces; /* first */
    struct kept_statistics kept;
    bool is_known; /* computed for an earlier request */
};

static struct statistics *statistics_of(struct call *call)
{
    return (struct statistics *)call;
}

static bool begin_statistics(struct call *call, const struct exchange *exchange,
                             struct fault *fault)
{
    return traces_begin(&statistics_of(call)->traces, exchange, NULL, 0, fault);
}

static double pairs_of(const struct kept_trace *kept)
{
    double pairs = 0;
    for (int64_t i = 0; i < kept->layer_count; i++)
        pairs += (double)kept->layers[i].q_heads * (double)kept->layers[i].q_len
                 * (double)kept->layers[i].kv_len;
    return pairs;
}

/* The columns of the widest head: hybrids have layers without any. */
static int64_t head_dim_of(const struct kept_trace *kept)
{
    int64_t head_dim = 1;
    for (int64_t i = 0; i < kept->layer_count; i++)
        if (kept->layers[i].head_dim > head_dim)
            head_dim = kept->layers[i].head_dim;
    return head_dim;
}

static bool read_statistics(struct call *call, struct fault *fault)
{
    struct statistics *statistics = statistics_of(call);
    struct kept_trace *kept = statistics->traces.kept;
    const size_t answer = (size_t)kept_statistics_heads(kept) * 8 * 16 + 256;
    statistics->is_known = atomic_load(&kept->statistics) != NULL;
    traces_price(&statistics->traces, statistics->is_known ? 0 : 2 * pairs_of(kept),
                 head_dim_of(kept), answer);
    if (statistics->is_known)
        return true;
    if (!kept_statistics_plan(&statistics->kept, kept, &statistics->traces.arena))
        return fault_no_memory(fault);
    return traces_take_workspaces(&statistics->traces,
                                  kept_statistics_workspace_bytes(&statistics->kept), fault);
}

static int64_t statistics_tasks(struct call *call, int stage)
{
    const struct statistics *statistics = statistics_of(call);
    return stage == 0 && !statistics->is_known ? kept_statistics_tasks(&statistics->kept) : 0;
}

static void run_statistics(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    const struct statistics *statistics = statistics_of(call);
    (void)stage;
    kept_statistics_run(&statistics->kept, task, traces_workspace(&statistics->traces, worker));
}

/* The first of several requests that compute the same leaves its numbers for those to come. */
static const struct kept_head *settle(struct statistics *statistics)
{
    struct kept_trace *kept = statistics->traces.kept;
    struct kept_head *none = NULL;
    struct kept_head *made =
        statistics->is_known ? NULL : kept_statistics_finish(&statistics->kept);
    if (made && !atomic_compare_exchange_strong(&kept->statistics, &none, made))
        free(made);
    return atomic_load(&kept->statistics);
}

struct member {
    const char *name;
    size_t offset;
};

static void write_layer(struct text *text, const struct kept_layer *layer,
                        const struct kept_head *heads)
{
    static const struct member MEMBERS[] = {
        { "entropy", offsetof(struct kept_head, entropy) },
        { "distance", offsetof(struct kept_head, distance) },
        { "first", offsetof(struct kept_head, first) },
        { "previous", offsetof(struct kept_head, previous) },
        { "self", offsetof(struct kept_head, self) },
        { "delimiters", offsetof(struct kept_head, delimiters) },
        { "duplicate", offsetof(struct kept_head, duplicate) },
        { "induction", offsetof(struct kept_head, induction) },
    };
    text_raw(text, "{\"layer\":");
    text_integer(text, layer->number);
    text_raw(text, ",\"kind\":");
    text_string(text, layer->kind);
    for (size_t i = 0; i < sizeof MEMBERS / sizeof MEMBERS[0]; i++) {
        text_raw(text, ",");
        text_key(text, MEMBERS[i].name);
        text_raw(text, "[");
        for (int64_t h = 0; h < layer->q_heads; h++) {
            float value;
            memcpy(&value, (const char *)&heads[h] + MEMBERS[i].offset, sizeof value);
            text_raw(text, h > 0 ? "," : "");
            text_float(text, value);
        }
        text_raw(text, "]");
    }
    text_raw(text, "}");
}

static bool write_statistics(struct call *call, struct fault *fault)
{
    struct statistics *statistics = statistics_of(call);
    const struct kept_trace *kept = statistics->traces.kept;
    const struct kept_head *heads = settle(statistics);
    struct text *text = &call->text;
    if (!heads)
        return fault_no_memory(fault);
    text_raw(text, "{\"trace\":");
    text_string(text, kept->id);
    text_raw(text, ",\"layers\":[");
    for (int64_t i = 0; i < kept->layer_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        write_layer(text, &kept->layers[i], heads);
        heads += kept->layers[i].q_heads;
    }
    text_raw(text, "]}\n");
    return true;
}

void traces_statistics(struct exchange *exchange)
{
    static const struct call_kind KIND = { .begin = begin_statistics,
                                           .read = read_statistics,
                                           .tasks = statistics_tasks,
                                           .run = run_statistics,
                                           .write = write_statistics,
                                           .record = traces_record,
                                           .drop = traces_drop };
    struct statistics *statistics = calloc(1, sizeof *statistics);
    if (statistics)
        statistics->traces.call.kind = &KIND;
    call_handle(exchange, statistics ? &statistics->traces.call : NULL);
}
