/* SPDX-License-Identifier: Apache-2.0 */
/* traces_weights.c - GET /v1/traces/{id}/weights: one piece of a map, or of the maps of all heads
 * of a layer, as bytes. */
#include "api/traces.h"

#include "api/query_number.h"
#include "api/traces_internal.h"
#include "base/clock.h"
#include "operations/trace/kept_piece.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS_DEFAULT = 256, TAG_BYTES = 24 };

struct weights {
    struct traces_call traces; /* first */
    struct kept_piece piece;
    bool of_all; /* heads; the answer then has a dimension of heads */
    char tag[TAG_BYTES];
};

static struct weights *weights_of(struct call *call)
{
    return (struct weights *)call;
}

/* --------------------------------------------------------------- the address -- */

static bool read_cells(const struct exchange *exchange, struct kept_piece *piece,
                       struct fault *fault)
{
    char value[QUERY_PARAM_BYTES];
    int64_t cells[2] = { CELLS_DEFAULT, CELLS_DEFAULT };
    if (exchange_query(exchange, "cells", value, sizeof value)
        && (!traces_read_two(value, 'x', cells) || cells[0] < 1 || cells[1] < 1
            || cells[0] > KEPT_CELLS_MAX || cells[1] > KEPT_CELLS_MAX))
        return fault_set(fault, FAULT_OPTION,
                         "cells is '%.40s'; expected ROWSxKEYS, 1 to %d of each", value,
                         KEPT_CELLS_MAX);
    piece->cell_rows = cells[0];
    piece->cell_columns = cells[1];
    return true;
}

/* Reads a parameter that is one of the names; the first where it is absent. */
static bool read_choice(const struct exchange *exchange, const char *name,
                        const char *const *choices, int count, int *choice, struct fault *fault)
{
    char value[QUERY_PARAM_BYTES];
    *choice = 0;
    if (!exchange_query(exchange, name, value, sizeof value))
        return true;
    for (int i = 0; i < count; i++)
        if (strcmp(choices[i], value) == 0) {
            *choice = i;
            return true;
        }
    return fault_set(fault, FAULT_OPTION, "%s is '%.40s'; expected %s%s%s%s%s", name, value,
                     choices[0], count > 2 ? ", " : " or ", choices[1], count > 2 ? " or " : "",
                     count > 2 ? choices[2] : "");
}

/* One head by its number, or all of the layer. */
static bool read_heads(const struct exchange *exchange, struct kept_piece *piece, bool *of_all,
                       struct fault *fault)
{
    char value[QUERY_PARAM_BYTES];
    const bool is_there = exchange_query(exchange, "head", value, sizeof value);
    *of_all = is_there && strcmp(value, "all") == 0;
    piece->head = 0;
    piece->head_count = *of_all ? piece->layer->q_heads : 1;
    if (*of_all || traces_read_head(exchange, piece->layer, &piece->head, fault))
        return true;
    if (is_there)
        return fault_set(fault, fault->code,
                         "head is '%.40s'; expected all or a whole number from 0 to %" PRId64,
                         value, piece->layer->q_heads - 1);
    return fault_set(fault, fault->code,
                     "head is missing; expected ?head=N or ?head=all in the address");
}

static bool read_piece(const struct exchange *exchange, const struct kept_trace *kept,
                       struct kept_piece *piece, bool *of_all, struct fault *fault)
{
    static const char *const REDUCES[] = { "max", "mean" };
    static const char *const DTYPES[] = { "f32", "f16", "u8" };
    static const enum kept_dtype DTYPE_OF[] = { KEPT_F32, KEPT_F16, KEPT_U8 };
    static const char *const SCALES[] = { "linear", "sqrt", "log" };
    static const char *const HIDDEN[] = { "0", "nan" };
    enum { DTYPE_U8 = 2 };
    int reduce = 0, dtype = 0, scale = 0, hidden = 0;
    if (!traces_read_layer(exchange, kept, &piece->layer, fault)
        || !read_heads(exchange, piece, of_all, fault)
        || !traces_read_range(exchange, "rows", piece->layer->q_len, piece->rows, fault)
        || !traces_read_range(exchange, "keys", piece->layer->kv_len, piece->keys, fault)
        || !read_cells(exchange, piece, fault)
        || !read_choice(exchange, "reduce", REDUCES, 2, &reduce, fault)
        || !read_choice(exchange, "dtype", DTYPES, 3, &dtype, fault)
        || !read_choice(exchange, "scale", SCALES, 3, &scale, fault)
        || !read_choice(exchange, "hidden", HIDDEN, 2, &hidden, fault))
        return false;
    if (hidden && dtype == DTYPE_U8)
        return fault_set(fault, FAULT_OPTION,
                         "hidden is 'nan', and dtype is 'u8', which has none; expected f32 or f16");
    piece->reduce = reduce == 0 ? ATTN_REDUCE_MAX : ATTN_REDUCE_MEAN;
    piece->dtype = DTYPE_OF[dtype];
    piece->scale = (enum kept_scale)scale;
    piece->marks_hidden = hidden == 1;
    return true;
}

/* A kept trace does not change, so what is asked tags the answer. The tag is weak (RFC
 * 9110, 8.8.3), for it is that of packed answers, too. */
static void write_tag(const struct kept_trace *kept, const struct kept_piece *piece, bool of_all,
                      char tag[TAG_BYTES])
{
    const int64_t head = of_all ? -1 : piece->head;
    const int64_t asked[] = { piece->layer->number,   head,
                              piece->rows[0],         piece->rows[1],
                              piece->keys[0],         piece->keys[1],
                              piece->cell_rows,       piece->cell_columns,
                              (int64_t)piece->reduce, (int64_t)piece->dtype,
                              (int64_t)piece->scale,  piece->marks_hidden };
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (const char *p = kept->id; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001B3u;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        for (int byte = 0; byte < 8; byte++)
            hash = (hash ^ ((uint64_t)asked[i] >> 8 * byte & 0xFF)) * 0x100000001B3u;
    snprintf(tag, TAG_BYTES, "W/\"%016" PRIx64 "\"", hash);
}

/* --------------------------------------------------------------------- the call -- */

static const char *const NAMES[] = { "layer",  "head",  "rows",  "keys",  "cells",
                                     "reduce", "dtype", "scale", "hidden" };

static bool traces_weights_begin(struct call *call, const struct exchange *exchange,
                                 struct fault *fault)
{
    struct weights *weights = weights_of(call);
    if (!traces_begin(&weights->traces, exchange, NAMES, sizeof NAMES / sizeof NAMES[0], fault)
        || !read_piece(exchange, weights->traces.kept, &weights->piece, &weights->of_all, fault))
        return false;
    write_tag(weights->traces.kept, &weights->piece, weights->of_all, weights->tag);
    return true;
}

static bool read(struct call *call, struct fault *fault)
{
    struct weights *weights = weights_of(call);
    struct kept_piece *piece = &weights->piece;
    kept_piece_plan(piece);
    const size_t cells = (size_t)kept_piece_cells(piece);
    const size_t bytes = cells * kept_dtype_bytes(piece->dtype);
    if (bytes > call->service->config->answer_bytes_max)
        return fault_set(fault, FAULT_ANSWER_TOO_LARGE,
                         "the answer takes %zu bytes; at most %zu are given", bytes,
                         call->service->config->answer_bytes_max);
    piece->cells = arena_calloc(&weights->traces.arena, cells, sizeof(float));
    if (!piece->cells)
        return fault_no_memory(fault);
    const double pairs = piece->from_levels
                             ? (double)cells
                             : (double)piece->head_count * (double)(piece->rows[1] - piece->rows[0])
                                   * (double)(piece->keys[1] - piece->keys[0]);
    traces_price(&weights->traces, pairs, piece->layer->head_dim, bytes);
    return traces_take_workspaces(&weights->traces, kept_piece_workspace_bytes(piece), fault);
}

static int64_t tasks(struct call *call, int stage)
{
    const struct kept_piece *piece = &weights_of(call)->piece;
    return stage == 0 ? kept_piece_tasks(piece) : stage == 1 ? kept_piece_hidden_tasks(piece) : 0;
}

static void traces_weights_run(struct call *call, int stage, int64_t task,
                               const struct worker *worker)
{
    const struct weights *weights = weights_of(call);
    if (stage == 0)
        kept_piece_run(&weights->piece, task, traces_workspace(&weights->traces, worker));
    else
        kept_piece_run_hidden(&weights->piece, task);
}

/* What a cache needs; a 304 has it as well (RFC 9110, 15.4.5). */
static void add_cache_headers(struct exchange *exchange, const struct kept_trace *kept,
                              const char *tag)
{
    const int64_t left_s = (kept->expires_ns - clock_now_ns()) / 1000000000;
    char value[64];
    exchange_add_header(exchange, "ETag", tag);
    snprintf(value, sizeof value, "private, max-age=%" PRId64 ", immutable",
             left_s > 0 ? left_s : 0);
    exchange_add_header(exchange, "Cache-Control", value);
}

static void add_headers(struct weights *weights)
{
    struct exchange *exchange = weights->traces.call.exchange;
    const struct kept_piece *piece = &weights->piece;
    char value[64], heads[24] = "";
    add_cache_headers(exchange, weights->traces.kept, weights->tag);
    if (weights->of_all)
        snprintf(heads, sizeof heads, "%" PRId64 "x", piece->head_count);
    snprintf(value, sizeof value, "%s%" PRId64 "x%" PRId64, heads, piece->shape[0],
             piece->shape[1]);
    exchange_add_header(exchange, "X-Tile-Shape", value);
    snprintf(value, sizeof value, "%.9g", (double)piece->least);
    exchange_add_header(exchange, "X-Tile-Min", value);
    snprintf(value, sizeof value, "%.9g", (double)piece->most);
    exchange_add_header(exchange, "X-Tile-Max", value);
}

static bool write(struct call *call, struct fault *fault)
{
    struct weights *weights = weights_of(call);
    struct kept_piece *piece = &weights->piece;
    const size_t bytes = (size_t)kept_piece_cells(piece) * kept_dtype_bytes(piece->dtype);
    char *room = text_reserve(&call->text, bytes);
    if (!room)
        return text_finish(&call->text, fault);
    kept_piece_write(piece, room);
    call->text.used += bytes;
    call->content_type = "application/octet-stream";
    add_headers(weights);
    return true;
}

/* Whether the client has the answer already; it is told so. */
static bool answer_known(struct exchange *exchange)
{
    const char *known = exchange_header(exchange, HTTP_HEADER_IF_NONE_MATCH);
    struct fault fault;
    struct kept_piece piece = { .head = 0 };
    char tag[TAG_BYTES];
    bool of_all = false;
    struct kept_trace *kept = known ? traces_find(exchange, &fault) : NULL;
    const bool is_known = kept && read_piece(exchange, kept, &piece, &of_all, &fault)
                          && (write_tag(kept, &piece, of_all, tag),
                              strcmp(known, "*") == 0 || strstr(known, strchr(tag, '"')) != NULL);
    if (is_known) {
        add_cache_headers(exchange, kept, tag);
        exchange_reply(exchange, 304, NULL, NULL, 0);
    }
    kept_trace_release(kept);
    return is_known;
}

void traces_weights(struct exchange *exchange)
{
    static const struct call_kind KIND = { .begin = traces_weights_begin,
                                           .read = read,
                                           .tasks = tasks,
                                           .run = traces_weights_run,
                                           .write = write,
                                           .record = traces_record,
                                           .drop = traces_drop };
    if (answer_known(exchange))
        return;
    struct weights *weights = calloc(1, sizeof *weights);
    if (weights)
        weights->traces.call.kind = &KIND;
    call_handle(exchange, weights ? &weights->traces.call : NULL);
}
