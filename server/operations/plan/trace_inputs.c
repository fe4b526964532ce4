/* SPDX-License-Identifier: Apache-2.0 */
/* trace_inputs.c - the input of each stream of a model: text or tokens, pixels, features, sound, or
 * rows in place of the embedding's output. Everything that a stream cannot take is a fault. Then
 * which keys, and of which rows, the sums over spans are asked for. */
#include "operations/plan/trace_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_decoder(const struct model_forward *forward, int stream)
{
    return forward->is_encoder_decoder && stream == 1;
}

/* ------------------------------------------------------------------- texts -- */

/* A text of an item, and how it becomes tokens. */
struct text_source {
    struct byte_slice text, pair; /* pair.data NULL: none */
    bool special;
    const char *pointer;
};

static struct text_source text_source_of(const struct trace_item *item, bool of_decoder)
{
    return of_decoder
               ? (struct text_source){ .text = item->decoder_text, .pointer = "/decoder_text" }
               : (struct text_source){ item->text, item->pair, !item->no_special, "/text" };
}

static bool is_same_text(struct byte_slice a, struct byte_slice b)
{
    return a.data == b.data && a.size == b.size;
}

/* The tokens of an earlier item that has the same bytes, because the batch has them for all its
 * requests; NULL: there is none. */
static const struct token_list *find_encoded(const struct trace_request *request,
                                             const struct trace_item *item, int stream,
                                             const struct text_source *source, bool of_decoder)
{
    for (const struct trace_item *earlier = request->items; earlier < item; earlier++) {
        const struct text_source other = text_source_of(earlier, of_decoder);
        if (earlier->model == item->model && earlier->streams[stream].encoded.tokens
            && is_same_text(other.text, source->text) && is_same_text(other.pair, source->pair)
            && other.special == source->special)
            return &earlier->streams[stream].encoded;
    }
    return NULL;
}

/* The same of a text and a pair by themselves: sets the parts that are known. */
static void find_parts(const struct trace_request *request, const struct trace_item *item,
                       int stream, const struct text_source *source, struct token_list parts[2])
{
    for (const struct trace_item *earlier = request->items; earlier < item; earlier++) {
        const struct token_list *known = earlier->streams[stream].parts;
        if (earlier->model != item->model || !known[0].tokens)
            continue;
        if (!parts[0].tokens && is_same_text(earlier->text, source->text))
            parts[0] = known[0];
        if (!parts[1].tokens && is_same_text(earlier->pair, source->pair))
            parts[1] = known[1];
    }
}

/* Sets the stream's encoded: the tokens of text and pair, or of decoder_text, without the token
 * that a decoder starts with. The items before this one are planned. Items of a batch may share one
 * text or one pair, which becomes tokens once: the time that a batch takes to be read then follows
 * from its bytes, not from how many of its requests have the text. */
static bool encode_text(struct trace_request *request, struct trace_item *item, int stream,
                        bool of_decoder, struct fault *fault)
{
    const struct model *model = item->model;
    const struct text_source source = text_source_of(item, of_decoder);
    struct token_list *list = &item->streams[stream].encoded;
    if (!model->tokenizer)
        return fault_set_at(fault, source.pointer, FAULT_FIELD,
                            "model '%s' has no tokenizer%s%s; send %s", model->name,
                            model->tokenizer_reason ? ": " : "",
                            model->tokenizer_reason ? model->tokenizer_reason : "",
                            item->input_name ? "ids of tokens" : "tokens");
    const struct token_list *encoded = find_encoded(request, item, stream, &source, of_decoder);
    if (encoded) {
        *list = *encoded;
        return true;
    }
    const bool may_be_shared = source.pair.data && request->item_count > 1;
    struct token_list *parts = may_be_shared ? item->streams[stream].parts : NULL;
    if (parts)
        find_parts(request, item, stream, &source, parts);
    request->tokenized_bytes += (parts && parts[0].tokens ? 0 : source.text.size)
                                + (parts && parts[1].tokens ? 0 : source.pair.size);
    if (tokenizer_encode_known(model->tokenizer, request->stop.is_stopped ? &request->stop : NULL,
                               source.text, source.pair.data ? &source.pair : NULL, source.special,
                               parts, request->arena, list, fault))
        return true;
    if (fault->code != FAULT_MEMORY && !fault->pointer[0])
        snprintf(fault->pointer, sizeof fault->pointer, "%s", source.pointer);
    return false;
}

/* ------------------------------------------------------------------ tokens -- */

/* The tokens of a list of ids. */
static bool take_ids(const int64_t *ids, int64_t count, struct arena *arena,
                     struct token_list *list, struct fault *fault)
{
    *list = (struct token_list){ arena_calloc(arena, (size_t)count, sizeof *list->tokens), count };
    if (!list->tokens)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < count; i++)
        list->tokens[i].id = ids[i] <= INT32_MAX ? (int32_t)ids[i] : INT32_MAX;
    return true;
}

/* The field is the list of these ids, as they came; ids NULL: it is a text, whose tokenizer has
 * more tokens than the model. */
static bool check_ids(const struct trace_item *item, const struct model_embedding *embedding,
                      const struct token_list *list, const char *field, const int64_t *ids,
                      struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    for (int64_t i = 0; i < list->count; i++) {
        const int32_t id = list->tokens[i].id;
        if (id >= 0 && id < embedding->tokens.count)
            continue;
        if (ids)
            snprintf(pointer, sizeof pointer, "/%s/%" PRId64, field, i);
        else
            snprintf(pointer, sizeof pointer, "/%s", field);
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "token %" PRId64 " of %s has the id %" PRId64
                            "; model '%s' has ids from 0 to %" PRId64,
                            i, field, ids && id == INT32_MAX ? ids[i] : id, item->model->name,
                            embedding->tokens.count - 1);
    }
    return true;
}

static bool take_types(const struct trace_item *item, const struct model_embedding *embedding,
                       const struct token_list *list, struct fault *fault)
{
    if (!item->has_token_types)
        return true;
    if (!embedding->types.rows)
        return fault_set_at(fault, "/token_types", FAULT_FIELD, "model '%s' has no types of tokens",
                            item->model->name);
    if (item->token_type_count != list->count)
        return fault_set_at(fault, "/token_types", FAULT_SHAPE,
                            "token_types has %" PRId64 " entries; there are %" PRId64 " tokens",
                            item->token_type_count, list->count);
    for (int64_t i = 0; i < list->count; i++) {
        char pointer[FAULT_POINTER_MAX];
        const int64_t type = item->token_types[i];
        if (type < 0 || type >= embedding->types.count || type > UINT8_MAX) {
            snprintf(pointer, sizeof pointer, "/token_types/%" PRId64, i);
            return fault_set_at(fault, pointer, FAULT_OPTION,
                                "token_types[%" PRId64 "] is %" PRId64
                                "; model '%s' has types from 0 to %" PRId64,
                                i, type, item->model->name, embedding->types.count - 1);
        }
        list->tokens[i].type = (uint8_t)type;
    }
    return true;
}

/* A template may give types that this model has no rows for. */
static void limit_types(const struct model_embedding *embedding, struct token_list *list)
{
    for (int64_t i = 0; i < list->count; i++)
        if (list->tokens[i].type >= embedding->types.count)
            list->tokens[i].type = 0;
}

static bool take_tokens(struct trace_request *request, struct trace_item *item, int stream,
                        struct fault *fault)
{
    const struct model_embedding *embedding = &item->model->forward->streams[stream].embedding;
    struct token_list *list = &item->streams[stream].tokens;
    if (item->has_probe) {
        if (!trace_take_probe(item, embedding->tokens.count, request->arena, list, fault))
            return false;
    } else if (item->has_tokens) {
        if (item->text.data)
            return fault_set_at(fault, "/tokens", FAULT_FIELD,
                                "both text and tokens came; expected one of them");
        if (!take_ids(item->tokens, item->token_count, request->arena, list, fault))
            return false;
    } else {
        if (item->has_token_types)
            return fault_set_at(fault, "/token_types", FAULT_FIELD,
                                "token_types came without tokens; text has the types of its "
                                "tokenizer");
        if (!encode_text(request, item, stream, false, fault))
            return false;
        *list = item->streams[stream].encoded;
    }
    limit_types(embedding, list);
    return trace_cut(item, list, request->arena, fault) && take_types(item, embedding, list, fault)
           && check_ids(item, embedding, list,
                        item->input_name   ? item->input_name
                        : item->has_tokens ? "tokens"
                                           : "text",
                        item->has_tokens ? item->tokens : NULL, fault);
}

/* The start token, if the model has one, and behind it the tokens of a text. */
static bool begin_decoder(const struct trace_item *item, const struct token_list *text,
                          struct arena *arena, struct token_list *list, struct fault *fault)
{
    const int64_t start_id = item->model->forward->start_id;
    const int64_t first = start_id >= 0 ? 1 : 0;
    *list = (struct token_list){ arena_calloc(arena, (size_t)(text->count + first),
                                              sizeof *list->tokens),
                                 text->count + first };
    if (!list->tokens)
        return fault_no_memory(fault);
    if (first > 0)
        list->tokens[0] = (struct token){ .id = (int32_t)start_id, .is_special = true };
    for (int64_t i = 0; i < text->count; i++)
        list->tokens[first + i] = text->tokens[i];
    return true;
}

/* Whether the decoder reads the encoder's tokens, each a place later, behind its start token: where
 * nothing else came, and its rows tell classes (BartForSequenceClassification). */
static bool is_decoder_of_classes(const struct trace_item *item)
{
    return item->outputs[TRACE_OUTPUT_LOGITS] && item->model->forward->classes.stream == 1
           && item->streams[0].tokens.count > 0;
}

static struct token_list decoder_text_of(const struct trace_item *item)
{
    struct token_list list = item->streams[1].encoded;
    if (item->decoder_text.data || !is_decoder_of_classes(item))
        return list;
    list = item->streams[0].tokens;
    list.count--;
    return list;
}

/* The decoder's text follows its start token; tokens include it. */
static bool take_decoder_tokens(struct trace_request *request, struct trace_item *item,
                                struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    struct token_list *list = &item->streams[1].tokens;
    struct arena *arena = request->arena;
    const bool has_text = item->decoder_text.data != NULL;
    if (item->has_decoder_tokens && has_text)
        return fault_set_at(fault, "/decoder_tokens", FAULT_FIELD,
                            "both decoder_text and decoder_tokens came; expected one of them");
    if (!item->has_decoder_tokens && !has_text && forward->start_id < 0)
        return fault_set_at(fault, "/decoder_tokens", FAULT_FIELD,
                            "decoder_tokens is missing: the config of model '%s' has no token that "
                            "a decoder starts with",
                            item->model->name);
    if (has_text && !encode_text(request, item, 1, true, fault))
        return false;
    const struct token_list text = decoder_text_of(item);
    if (!(item->has_decoder_tokens
              ? take_ids(item->decoder_tokens, item->decoder_token_count, arena, list, fault)
              : begin_decoder(item, &text, arena, list, fault)))
        return false;
    limit_types(&forward->streams[1].embedding, list);
    return check_ids(item, &forward->streams[1].embedding, list,
                     has_text ? "decoder_text" : "decoder_tokens",
                     item->has_decoder_tokens ? item->decoder_tokens : NULL, fault);
}

/* ----------------------------------------------------------------- streams -- */

/* What a request can bring for a stream that is no decoder. */
static bool has_input(const struct trace_item *item, enum model_input input)
{
    switch (input) {
    case MODEL_INPUT_PIXELS:
        return item->pixels.data;
    case MODEL_INPUT_FEATURES:
        return item->features.data;
    case MODEL_INPUT_SOUND:
        return item->sound.data;
    default:
        return item->text.data || item->has_tokens || item->has_probe;
    }
}

static bool take_stream(struct trace_request *request, struct trace_item *item, int i,
                        struct fault *fault)
{
    struct arena *arena = request->arena;
    const struct model_forward *forward = item->model->forward;
    struct trace_stream *stream = &item->streams[i];
    const enum model_input input = forward->streams[i].embedding.input;
    const bool is_given = i == 0 && item->embeddings.data;
    if (!is_decoder(forward, i) && !is_given && !has_input(item, input))
        return true;
    stream->runs = true;
    if (is_given)
        return trace_take_embeddings(item, i, arena, fault);
    if (input == MODEL_INPUT_PIXELS)
        return trace_take_pixels(item, i, arena, fault);
    if (input == MODEL_INPUT_FEATURES)
        return trace_take_features(item, i, arena, fault);
    if (input == MODEL_INPUT_SOUND)
        return trace_take_samples(item, i, fault);
    if (!(is_decoder(forward, i) ? take_decoder_tokens(request, item, fault)
                                 : take_tokens(request, item, i, fault)))
        return false;
    stream->length = stream->tokens.count;
    return true;
}

/* The field that a stream's rows are from, for faults. */
static const char *field_of(const struct trace_item *item, int stream)
{
    if (is_decoder(item->model->forward, stream))
        return item->decoder_text.data ? "/decoder_text" : "/decoder_tokens";
    return item->streams[stream].is_given ? "/embeddings"
           : item->has_probe              ? "/probe"
           : item->has_tokens             ? "/tokens"
                                          : "/text";
}

static bool check_length(const struct trace_item *item, int i, struct fault *fault)
{
    const struct model_stream *stream = &item->model->forward->streams[i];
    const bool is_resized = stream->embedding.resize != MODEL_RESIZE_NONE;
    const int64_t most = is_resized ? 0 : stream->length_max;
    const int64_t past = item->past ? item->past->length : 0;
    const char *field = field_of(item, i);
    const char *name = item->input_name ? item->input_name : field + 1;
    if (i == 0 && most == 0 && item->length_most > 0 && item->streams[i].length > item->length_most)
        return fault_set_at(fault, field, FAULT_LENGTH,
                            "%s has %" PRId64 " tokens; model '%s' is for texts of at most %" PRId64
                            ", as its config.json says",
                            name, item->streams[i].length, item->model->name, item->length_most);
    if (most == 0 || item->streams[i].length <= most - past)
        return true;
    if (past > 0)
        return fault_set_at(fault, field, FAULT_LENGTH,
                            "%s has %" PRId64 " tokens, and %" PRId64
                            " came before; model '%s' has positions for %" PRId64,
                            name, item->streams[i].length, past, item->model->name, most);
    return fault_set_at(fault, field, FAULT_LENGTH,
                        "%s has %" PRId64 " tokens; model '%s' has positions for %" PRId64, name,
                        item->streams[i].length, item->model->name, most);
}

struct given_input {
    const char *name;
    bool is_given;
    enum model_input input;
};

static bool takes_input(const struct model_forward *forward, enum model_input input)
{
    for (int i = 0; i < forward->stream_count; i++)
        if (!is_decoder(forward, i) && forward->streams[i].embedding.input == input)
            return true;
    return false;
}

/* Every given input has to be of use, and each model needs one. */
static bool check_given(const struct trace_item *item, struct fault *fault)
{
    static const char *const NEEDS[] = { "text or tokens", "pixels", "sound or features", "sound" };
    const struct model_forward *forward = item->model->forward;
    const struct given_input givens[] = {
        { "/text", item->text.data, MODEL_INPUT_TOKENS },
        { "/tokens", item->has_tokens, MODEL_INPUT_TOKENS },
        { "/probe", item->has_probe, MODEL_INPUT_TOKENS },
        { "/pixels", item->pixels.data, MODEL_INPUT_PIXELS },
        { "/features", item->features.data, MODEL_INPUT_FEATURES },
        { "/sound", item->sound.data && !item->features.data, MODEL_INPUT_SOUND },
    };
    const enum model_input first = forward->streams[0].embedding.input;
    bool is_any_given = item->embeddings.data;
    for (int i = 0; i < (int)(sizeof givens / sizeof givens[0]); i++) {
        is_any_given = is_any_given || givens[i].is_given;
        if (givens[i].is_given && !takes_input(forward, givens[i].input))
            return fault_set_at(fault, givens[i].name, FAULT_FIELD,
                                "model '%s' takes no %s; expected %s", item->model->name,
                                givens[i].name + 1, NEEDS[first]);
    }
    if (item->embeddings.data && forward->streams[0].token_inputs.width > 0)
        return fault_set_at(fault, "/embeddings", FAULT_FIELD,
                            "model '%s' takes no embeddings, for its layers read the tokens "
                            "themselves, too; expected text or tokens, and an edit at "
                            "'embeddings'",
                            item->model->name);
    if (item->embeddings.data && has_input(item, first))
        return fault_set_at(fault, "/embeddings", FAULT_FIELD,
                            "embeddings take the place of %s; expected one of them", NEEDS[first]);
    if (!is_any_given)
        return fault_set_at(fault, first == MODEL_INPUT_TOKENS ? "/text" : "", FAULT_FIELD,
                            "%s is missing", NEEDS[first]);
    if (item->pair.data && !item->text.data)
        return fault_set_at(fault, "/pair", FAULT_FIELD, "pair came without text");
    if ((item->has_decoder_tokens || item->decoder_text.data) && !forward->is_encoder_decoder)
        return fault_set_at(fault, item->has_decoder_tokens ? "/decoder_tokens" : "/decoder_text",
                            FAULT_FIELD, "model '%s' has no decoder beside an encoder",
                            item->model->name);
    return true;
}

/* Padding at the end changes no row before it; a state takes any other token that is hidden. */
static bool check_hybrid_mask(const struct trace_item *item, struct fault *fault)
{
    for (int64_t i = 1; model_is_hybrid(item->model) && i < item->attention_mask_count; i++)
        if (item->attention_mask[i] != 0 && item->attention_mask[i - 1] == 0)
            return fault_set_at(fault, "/attention_mask", FAULT_OPTION,
                                "attention_mask hides token %" PRId64 " and not the next, and some "
                                "layers of model '%s' have no attention and take every token into "
                                "their state; only tokens at the end can be hidden",
                                i - 1, item->model->name);
    return true;
}

/* attention_mask: 1 for tokens that may be attended to. */
static bool take_mask(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    struct trace_stream *stream = &item->streams[0];
    if (!item->has_attention_mask)
        return true;
    if (item->attention_mask_count != stream->length)
        return fault_set_at(fault, "/attention_mask", FAULT_SHAPE,
                            "attention_mask has %" PRId64 " entries; there are %" PRId64 " tokens",
                            item->attention_mask_count, stream->length);
    if (!check_hybrid_mask(item, fault))
        return false;
    uint8_t *visible = arena_alloc(arena, (size_t)stream->length);
    if (!visible)
        return fault_no_memory(fault);
    bool is_any_hidden = false;
    for (int64_t i = 0; i < stream->length; i++) {
        visible[i] = item->attention_mask[i] != 0;
        is_any_hidden = is_any_hidden || !visible[i];
    }
    stream->visible = is_any_hidden ? visible : NULL;
    return true;
}

bool trace_plan_inputs(struct trace_request *request, struct trace_item *item, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    if (!check_given(item, fault))
        return false;
    for (int i = 0; i < forward->stream_count; i++)
        if (!take_stream(request, item, i, fault) || !check_length(item, i, fault))
            return false;
    return take_mask(item, request->arena, fault);
}

/* ------------------------------------------------------------------- spans -- */

/* A span is a range of tokens, or a part of the text, which means every token that has a byte of
 * it. */

/* What a request may have searched for span_texts: about a second. */
#define SEARCHED_BYTES_MAX ((size_t)1 << 32)

/* The stream whose tokens spans count. */
static const struct trace_stream *span_stream(const struct trace_item *item)
{
    const struct model_forward *forward = item->model->forward;
    const bool is_second =
        forward->stream_count > 1 && !forward->is_encoder_decoder && !item->streams[0].runs;
    return &item->streams[is_second ? 1 : 0];
}

static bool check_spans(const struct trace_item *item, struct fault *fault)
{
    const int64_t length = span_stream(item)->length;
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
static int64_t find_bytes(struct byte_slice whole, struct byte_slice part)
{
    const char *at = part.size > 0 && whole.size >= part.size
                         ? memmem(whole.data, whole.size, part.data, part.size)
                         : NULL;
    return at ? at - (const char *)whole.data : -1;
}

/* Tokens with a byte of [begin, end) of a sequence's text, which are one range. */
static struct attn_map_range tokens_of_bytes(const struct token_list *list, int32_t sequence,
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

bool trace_may_search(struct trace_request *request, const struct trace_item *item, int stream,
                      int64_t count)
{
    size_t bytes = item->text.size + item->pair.size + item->decoder_text.size
                   + (size_t)item->streams[stream].tokens.count * sizeof(struct token);
    if (__builtin_mul_overflow(bytes, (size_t)count, &bytes)
        || bytes > SEARCHED_BYTES_MAX - request->searched_bytes)
        return false;
    request->searched_bytes += bytes;
    return true;
}

bool trace_find_text(const struct trace_item *item, int stream, bool of_decoder,
                     struct byte_slice part, struct attn_map_range *range, const char **reason)
{
    const struct byte_slice text = of_decoder ? item->decoder_text : item->text;
    int32_t sequence = 0;
    *reason = "came without a text";
    if (!text.data)
        return false;
    int64_t at = find_bytes(text, part);
    if (at < 0 && item->pair.data && !of_decoder) {
        sequence = 1;
        at = find_bytes(item->pair, part);
    }
    *reason = "is not in the text";
    if (at < 0)
        return false;
    *range = tokens_of_bytes(&item->streams[stream].tokens, sequence, at, at + (int64_t)part.size);
    *reason = "has no token of its own";
    return range->end > 0;
}

static bool find_span(const struct trace_item *item, int64_t i, struct attn_map_range *range,
                      struct fault *fault)
{
    const int stream = (int)(span_stream(item) - item->streams);
    const char *reason = "";
    char pointer[FAULT_POINTER_MAX];
    if (trace_find_text(item, stream, false, item->span_texts[i], range, &reason))
        return true;
    snprintf(pointer, sizeof pointer, "/span_texts/%" PRId64, i);
    return fault_set_at(fault, pointer, FAULT_OPTION, "span_texts[%" PRId64 "] %s", i, reason);
}

static bool find_spans(struct trace_request *request, struct trace_item *item, struct fault *fault)
{
    const int64_t count = item->span_text_count;
    struct attn_map_range *ranges = arena_calloc(request->arena, (size_t)count, sizeof *ranges);
    if (!ranges)
        return fault_no_memory(fault);
    if (item->spans)
        return fault_set_at(fault, "/span_texts", FAULT_FIELD,
                            "both spans and span_texts came; expected one of them");
    if (!item->text.data)
        return fault_set_at(fault, "/span_texts", FAULT_FIELD, "span_texts came without text");
    if (!trace_may_search(request, item, (int)(span_stream(item) - item->streams), count))
        return fault_set_at(fault, "/span_texts", FAULT_TOO_LARGE,
                            "looking for %" PRId64 " span_texts in %" PRId64
                            " tokens takes too long; send fewer, or spans",
                            count, span_stream(item)->tokens.count);
    for (int64_t i = 0; i < count; i++)
        if (!find_span(item, i, &ranges[i], fault))
            return false;
    item->spans = ranges;
    item->span_count = count;
    return true;
}

static bool set_span_rows(const struct trace_item *item, struct trace_stream *stream,
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
    struct arena *arena = request->arena;
    if (item->span_texts ? !find_spans(request, item, fault) : !check_spans(item, fault))
        return false;
    if (item->has_rows && item->span_count == 0 && !item->outputs[TRACE_OUTPUT_ROLLOUT])
        return fault_set_at(fault, "/rows", FAULT_FIELD, "rows came without spans or rollout");
    for (int i = 0; item->has_rows && i < item->model->forward->stream_count; i++)
        if (item->streams[i].runs && !set_span_rows(item, &item->streams[i], arena, fault))
            return false;
    return true;
}
