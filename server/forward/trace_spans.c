/* trace_spans.c - which keys, and of which rows, the sums over spans are asked for. A span is a
 * range of tokens, or a part of the text, which stands for every token that has a byte of it. */
#include "forward/trace_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a request may have searched for span_texts: about a second. */
#define SEARCHED_BYTES_MAX ((size_t)1 << 32)

/* The stream whose tokens spans count. */
static const struct trace_stream *keys_of(const struct trace_item *item)
{
    const struct model_forward *forward = item->model->forward;
    const bool is_second =
        forward->stream_count > 1 && !forward->is_encoder_decoder && !item->streams[0].runs;
    return &item->streams[is_second ? 1 : 0];
}

static bool check_spans(const struct trace_item *item, struct fault *fault)
{
    const int64_t length = keys_of(item)->length;
    for (int64_t i = 0; i < item->span_count; i++) {
        const struct attn_map_range *span = &item->spans[i];
        char pointer[FAULT_POINTER_MAX];
        if (span->begin >= 0 && span->begin <= span->end && span->end <= length)
            continue;
        snprintf(pointer, sizeof pointer, "/spans/%" PRId64, i);
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "spans[%" PRId64 "] is [%" PRId64 ", %" PRId64
                            "]; expected a range of the %" PRId64 " tokens",
                            i, span->begin, span->end, length);
    }
    return true;
}

/* The first place of a text in another; -1: it is not there. */
static int64_t find(struct byte_slice whole, struct byte_slice part)
{
    const char *at = part.size > 0 && whole.size >= part.size
                         ? memmem(whole.data, whole.size, part.data, part.size)
                         : NULL;
    return at ? at - (const char *)whole.data : -1;
}

/* Tokens with a byte of [begin, end) of a sequence's text, which are one range. */
static struct attn_map_range tokens_of(const struct token_list *list, int32_t sequence,
                                       int64_t begin, int64_t end)
{
    struct attn_map_range range = { 0, 0 };
    for (int64_t i = 0; i < list->count; i++) {
        const struct token *token = &list->tokens[i];
        if (token->sequence != sequence || token->start >= end || token->end <= begin)
            continue;
        if (range.end == 0)
            range.begin = i;
        range.end = i + 1;
    }
    return range;
}

static bool find_span(const struct trace_item *item, int64_t i, struct attn_map_range *range,
                      struct fault *fault)
{
    const struct byte_slice part = item->span_texts[i];
    const struct token_list *list = &keys_of(item)->tokens;
    int32_t sequence = 0;
    int64_t at = find(item->text, part);
    if (at < 0 && item->pair.data) {
        sequence = 1;
        at = find(item->pair, part);
    }
    if (at >= 0)
        *range = tokens_of(list, sequence, at, at + (int64_t)part.size);
    if (at >= 0 && range->end > 0)
        return true;
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/span_texts/%" PRId64, i);
    return fault_set_at(fault, pointer, FAULT_OPTION,
                        at < 0 ? "span_texts[%" PRId64 "] is not in the text"
                               : "span_texts[%" PRId64 "] has no token of its own",
                        i);
}

/* Each part is looked for in the whole text and in all tokens. The time for that must not be as
 * long as a client likes, whose batch may share the parts among many requests. */
static bool may_search(struct trace_request *request, const struct trace_item *item,
                       struct fault *fault)
{
    size_t bytes = item->text.size + item->pair.size
                   + (size_t)keys_of(item)->tokens.count * sizeof(struct token);
    if (!__builtin_mul_overflow(bytes, (size_t)item->span_text_count, &bytes)
        && bytes <= SEARCHED_BYTES_MAX - request->searched_bytes) {
        request->searched_bytes += bytes;
        return true;
    }
    return fault_set_at(fault, "/span_texts", FAULT_TOO_LARGE,
                        "looking for %" PRId64 " span_texts in %" PRId64
                        " tokens takes too long; send fewer, or spans",
                        item->span_text_count, keys_of(item)->tokens.count);
}

static bool find_spans(struct trace_request *request, struct trace_item *item, struct fault *fault)
{
    const int64_t count = item->span_text_count;
    struct attn_map_range *ranges = arena_calloc(&request->arena, (size_t)count, sizeof *ranges);
    if (!ranges)
        return fault_no_memory(fault);
    if (item->spans)
        return fault_set_at(fault, "/span_texts", FAULT_FIELD,
                            "both spans and span_texts came; expected one of them");
    if (!item->text.data)
        return fault_set_at(fault, "/span_texts", FAULT_FIELD, "span_texts came without text");
    if (!may_search(request, item, fault))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (!find_span(item, i, &ranges[i], fault))
            return false;
    item->spans = ranges;
    item->span_count = count;
    return true;
}

static bool set_rows(const struct trace_item *item, struct trace_stream *stream,
                     struct arena *arena, struct fault *fault)
{
    int64_t *rows = arena_calloc(arena, (size_t)item->row_count, sizeof *rows);
    if (!rows)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < item->row_count; i++) {
        const int64_t row = item->rows[i];
        char pointer[FAULT_POINTER_MAX];
        rows[i] = row < 0 ? row + stream->length : row;
        if (rows[i] >= 0 && rows[i] < stream->length && (i == 0 || rows[i] > rows[i - 1]))
            continue;
        snprintf(pointer, sizeof pointer, "/rows/%" PRId64, i);
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "rows[%" PRId64 "] is %" PRId64 "; expected rows of %" PRId64
                            ", each once, in ascending order",
                            i, row, stream->length);
    }
    stream->span_rows = rows;
    stream->span_row_count = item->row_count;
    return true;
}

bool trace_plan_spans(struct trace_request *request, struct trace_item *item, struct fault *fault)
{
    struct arena *arena = &request->arena;
    if (item->span_texts ? !find_spans(request, item, fault) : !check_spans(item, fault))
        return false;
    if (item->has_rows && item->span_count == 0)
        return fault_set_at(fault, "/rows", FAULT_FIELD, "rows came without spans");
    for (int i = 0; item->has_rows && i < item->model->forward->stream_count; i++)
        if (item->streams[i].runs && !set_rows(item, &item->streams[i], arena, fault))
            return false;
    return true;
}
