/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.c - see tokenizer.h: a text's way through the pipeline and back. */
#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/tokenizer_internal.h"
#include "models/tokenizer/unicode.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ encoding -- */

static bool check_text(struct byte_slice text, struct fault *fault)
{
    if (text.size > PIECES_TEXT_BYTES_MAX)
        return fault_set(fault, FAULT_LENGTH, "the text has %zu bytes; expected at most %d",
                         text.size, PIECES_TEXT_BYTES_MAX);
    const size_t invalid = unicode_find_invalid(text.data, text.size);
    return invalid >= text.size
           || fault_set(fault, FAULT_OPTION, "the text is not UTF-8 at byte %zu", invalid);
}

/* Cuts the text into added tokens and pieces for the model. */
static bool make_pieces(const struct tokenizer *tokenizer, struct byte_slice text,
                        struct pieces *pieces, struct work_limit *limit, struct arena *arena,
                        struct fault *fault)
{
    const struct step *normalizer = &tokenizer->normalizer;
    const struct step *pre_tokenizer = &tokenizer->pre_tokenizer;
    return pieces_init(pieces, text.data, (int64_t)text.size, limit, arena, fault)
           && added_tokens_cut(tokenizer->added, false, pieces, fault)
           && (!normalizer->type || pipeline_run(normalizer, pieces, fault))
           && added_tokens_cut(tokenizer->added, true, pieces, fault)
           && (!pre_tokenizer->type || pipeline_run(pre_tokenizer, pieces, fault));
}

/* Makes the bytes of a piece that its tokens from `first` on stand for those of the original. */
static void set_spans(struct model_output *output, int64_t first, const struct pieces *pieces,
                      const struct piece *piece)
{
    for (int64_t i = first; i < output->count; i++) {
        struct model_token *token = &output->tokens[i];
        struct pieces_span span = { piece->origin + token->start, piece->origin + token->end };
        if (token->start < token->end)
            span = pieces_span(pieces, piece->start + token->start, piece->start + token->end);
        token->start = span.start;
        token->end = span.end;
    }
}

static bool run_model(const struct tokenizer *tokenizer, const struct pieces *pieces,
                      struct model_output *output, struct fault *fault)
{
    const struct step *model = &tokenizer->model;
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        const int64_t first = output->count;
        if (piece->id >= 0) {
            model_output_add(output, piece->id, piece->start, piece->end);
            continue;
        }
        if (piece->start == piece->end)
            continue;
        if (!work_limit_spend(output->limit, piece->end - piece->start))
            return work_limit_fault(fault);
        if (!model->type->model(model->state, pieces->bytes + piece->start,
                                piece->end - piece->start, output, fault))
            return false;
        set_spans(output, first, pieces, piece);
    }
    return !output->failed || fault_no_memory(fault);
}

/* Encodes one text, without what the template adds. */
static bool encode_one(const struct tokenizer *tokenizer, struct byte_slice text, int sequence,
                       struct work_limit *limit, struct arena *arena, struct token_list *list,
                       struct fault *fault)
{
    struct pieces pieces;
    struct model_output output = { .arena = arena, .limit = limit };
    if (!check_text(text, fault) || !make_pieces(tokenizer, text, &pieces, limit, arena, fault)
        || !run_model(tokenizer, &pieces, &output, fault))
        return false;
    list->count = output.count;
    list->tokens = arena_alloc(arena, (size_t)output.count * sizeof *list->tokens);
    if (!list->tokens)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < output.count; i++)
        list->tokens[i] = (struct token){
            .id = output.tokens[i].id,
            .sequence = sequence,
            .start = output.tokens[i].start,
            .end = output.tokens[i].end,
            .is_of_text = true,
            .type = (uint8_t)sequence,
        };
    return true;
}

/* Joins the lists into one. */
static bool join(const struct encodings *encodings, struct token_list *list, struct fault *fault)
{
    if (encodings->count == 1) {
        *list = encodings->lists[0];
        return true;
    }
    int64_t count = 0;
    for (int64_t i = 0; i < encodings->count; i++)
        count += encodings->lists[i].count;
    *list = (struct token_list){ .tokens = arena_alloc(encodings->arena,
                                                       (size_t)count * sizeof(struct token)) };
    if (!list->tokens)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < encodings->count; i++) {
        const struct token_list *part = &encodings->lists[i];
        if (part->count > 0)
            memcpy(list->tokens + list->count, part->tokens,
                   (size_t)part->count * sizeof *part->tokens);
        list->count += part->count;
    }
    return true;
}

static void mark_special(const struct tokenizer *tokenizer, struct token_list *list)
{
    for (int64_t i = 0; i < list->count; i++)
        list->tokens[i].is_special |= added_tokens_is_special(tokenizer->added, list->tokens[i].id);
}

/* A copy of what is known: the template changes tokens where they are. */
static bool copy_list(struct token_list *list, const struct token_list *known, struct arena *arena,
                      struct fault *fault)
{
    const size_t bytes = (size_t)known->count * sizeof *list->tokens;
    *list = (struct token_list){ arena_alloc(arena, bytes), known->count };
    if (!list->tokens)
        return fault_no_memory(fault);
    memcpy(list->tokens, known->tokens, bytes);
    return true;
}

/* known: of this sequence, which is set where it is not; NULL: it is not asked for. */
static bool encode_part(const struct tokenizer *tokenizer, struct byte_slice text, int sequence,
                        struct token_list *known, struct encodings *encodings, struct fault *fault)
{
    struct token_list *list = &encodings->lists[sequence];
    struct token_list *made = known ? known : list;
    if (!made->tokens
        && !encode_one(tokenizer, text, sequence, encodings->limit, encodings->arena, made,
                       fault)) {
        if (fault->code != FAULT_MEMORY)
            fault_prefix_pointer(fault, sequence == 0 ? "/text" : "/pair");
        return false;
    }
    return !known || copy_list(list, known, encodings->arena, fault);
}

bool tokenizer_encode(const struct tokenizer *tokenizer, const struct tokenizer_stop *stop,
                      struct byte_slice text, const struct byte_slice *pair, bool special,
                      struct arena *arena, struct token_list *list, struct fault *fault)
{
    return tokenizer_encode_known(tokenizer, stop, text, pair, special, NULL, arena, list, fault);
}

bool tokenizer_encode_known(const struct tokenizer *tokenizer, const struct tokenizer_stop *stop,
                            struct byte_slice text, const struct byte_slice *pair, bool special,
                            struct token_list known[2], struct arena *arena,
                            struct token_list *list, struct fault *fault)
{
    struct work_limit limit;
    work_limit_init(&limit, stop);
    struct token_list lists[2] = { { 0 } };
    const struct byte_slice texts[2] = { text, pair ? *pair : (struct byte_slice){ 0 } };
    struct encodings encodings = {
        .lists = lists,
        .count = pair ? 2 : 1,
        .special = special,
        .arena = arena,
        .vocabulary = &tokenizer->vocabulary,
        .added = tokenizer->added,
        .texts = texts,
        .limit = &limit,
    };
    const struct step *post = &tokenizer->post_processor;
    if (!encode_part(tokenizer, text, 0, known, &encodings, fault)
        || (pair && !encode_part(tokenizer, *pair, 1, known ? known + 1 : NULL, &encodings, fault))
        || (post->type && !post->type->encodings(post->state, &encodings, fault))
        || !join(&encodings, list, fault))
        return false;
    mark_special(tokenizer, list);
    return true;
}

/* ------------------------------------------------------------------ decoding -- */

static bool collect_texts(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count,
                          bool skip_special, struct decoder_texts *texts, struct fault *fault)
{
    texts->texts = arena_alloc(texts->arena, (size_t)count * sizeof *texts->texts);
    if (!texts->texts)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < count; i++) {
        const struct byte_slice text = vocabulary_text(&tokenizer->vocabulary, ids[i]);
        if (!text.data) {
            char pointer[FAULT_POINTER_MAX];
            snprintf(pointer, sizeof pointer, "/tokens/%lld", (long long)i);
            return fault_set_at(fault, pointer, FAULT_OPTION, "no token has the id %d", ids[i]);
        }
        if (!skip_special || !added_tokens_is_special(tokenizer->added, ids[i]))
            texts->texts[texts->count++] = text;
    }
    return true;
}

static bool decode(const struct tokenizer *tokenizer, const struct tokenizer_stop *stop,
                   const int32_t *ids, int64_t count, bool skip_special, struct text *text,
                   struct arena *arena, struct fault *fault)
{
    const struct step *decoder = &tokenizer->decoder;
    struct work_limit limit;
    struct decoder_texts texts = { .arena = arena, .limit = &limit };
    work_limit_init(&limit, stop);
    if (!collect_texts(tokenizer, ids, count, skip_special, &texts, fault)
        || (decoder->type && !decoder_run(decoder, &texts, fault)))
        return false;
    for (int64_t i = 0; i < texts.count; i++) {
        if (i > 0 && !decoder->type)
            text_bytes(text, " ", 1);
        text_bytes(text, texts.texts[i].data, texts.texts[i].size);
    }
    return true;
}

bool tokenizer_decode(const struct tokenizer *tokenizer, const struct tokenizer_stop *stop,
                      const int32_t *ids, int64_t count, bool skip_special, struct text *text,
                      struct fault *fault)
{
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    arena.memory = text->memory;
    const bool is_fine = decode(tokenizer, stop, ids, count, skip_special, text, &arena, fault);
    arena_free(&arena);
    return is_fine;
}

/* ---------------------------------------------------------------- vocabulary -- */

const char *tokenizer_token_text(const struct tokenizer *tokenizer, int32_t id)
{
    return vocabulary_text(&tokenizer->vocabulary, id).data;
}

int64_t tokenizer_id_end(const struct tokenizer *tokenizer)
{
    return tokenizer->vocabulary.id_end;
}

int64_t tokenizer_vocabulary_end(const struct tokenizer *tokenizer)
{
    return tokenizer->vocabulary_end;
}

int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *token)
{
    return vocabulary_find(&tokenizer->vocabulary, token, strlen(token));
}

const char *tokenizer_kind(const struct tokenizer *tokenizer)
{
    return tokenizer->model.type->name;
}

const char *tokenizer_file(const struct tokenizer *tokenizer)
{
    return tokenizer->file;
}
