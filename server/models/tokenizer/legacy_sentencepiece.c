/* SPDX-License-Identifier: Apache-2.0 */
/* legacy_sentencepiece.c - a tokenizer.model of SentencePiece: its pieces, and the merges of its
 * BPE.
 *
 * SentencePiece keeps no merges. It joins the two neighbours whose joint text is the piece of the
 * highest score. So a merge is every way to cut a piece in two pieces, and a piece's score is the
 * rank of its merges. A trie of all pieces finds the left parts of a piece and a trie of the
 * reversed pieces the right parts, each in one pass. Control, unknown and byte pieces are never
 * made of text. */
#include "models/tokenizer/legacy.h"

#include "base/grow.h"
#include "formats/protobuf.h"
#include "models/tokenizer/trie.h"
#include "models/tokenizer/unicode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- file -- */

/* A field of a message, and its place in what is made of it. */
struct message_field {
    int32_t number;
    enum { KIND_BOOL, KIND_INTEGER, KIND_FLOAT, KIND_BYTES } kind;
    size_t offset;
};

enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };

static const struct message_field PIECE[] = {
    { 1, KIND_BYTES, offsetof(struct sentencepiece_piece, text) },
    { 2, KIND_FLOAT, offsetof(struct sentencepiece_piece, score) },
    { 3, KIND_INTEGER, offsetof(struct sentencepiece_piece, type) },
};

static const struct message_field TRAINER[] = {
    { 3, KIND_INTEGER, offsetof(struct sentencepiece, model) },
    { 22, KIND_BOOL, offsetof(struct sentencepiece, splits_at_whitespace) },
    { 24, KIND_BOOL, offsetof(struct sentencepiece, whitespace_is_suffix) },
    { 35, KIND_BOOL, offsetof(struct sentencepiece, byte_fallback) },
    { 40, KIND_INTEGER, offsetof(struct sentencepiece, unknown_id) },
};

static const struct message_field NORMALIZER[] = {
    { 2, KIND_BYTES, offsetof(struct sentencepiece, charsmap) },
    { 3, KIND_BOOL, offsetof(struct sentencepiece, adds_prefix) },
    { 4, KIND_BOOL, offsetof(struct sentencepiece, removes_extra_whitespaces) },
    { 5, KIND_BOOL, offsetof(struct sentencepiece, escapes_whitespaces) },
};

static void take_field(const struct protobuf_field *field, const struct message_field *row,
                       void *place)
{
    if (row->kind == KIND_BOOL)
        *(bool *)place = protobuf_integer(field) != 0;
    else if (row->kind == KIND_INTEGER)
        *(int64_t *)place = protobuf_integer(field);
    else if (row->kind == KIND_FLOAT)
        *(float *)place = protobuf_float(field);
    else if (field->wire == PROTOBUF_BYTES)
        *(struct byte_slice *)place = field->bytes;
}

static bool read_message(struct byte_slice bytes, const struct message_field *fields, size_t count,
                         void *out, struct fault *fault)
{
    struct protobuf_message message = protobuf_message_of(bytes);
    struct protobuf_field field;
    while (protobuf_next(&message, &field, fault))
        for (size_t i = 0; i < count; i++)
            if (fields[i].number == field.number)
                take_field(&field, &fields[i], (char *)out + fields[i].offset);
    return !message.failed;
}

static bool read_piece(struct sentencepiece *model, struct byte_slice bytes, struct fault *fault)
{
    struct sentencepiece_piece piece = { .type = SENTENCEPIECE_NORMAL };
    if (!read_message(bytes, PIECE, sizeof PIECE / sizeof *PIECE, &piece, fault))
        return false;
    const int64_t id = model->piece_count;
    if (piece.text.size == 0)
        return fault_set(fault, FAULT_FIELD, "piece %" PRId64 " has no length", id);
    if (unicode_find_invalid(piece.text.data, piece.text.size) < piece.text.size)
        return fault_set(fault, FAULT_FIELD, "piece %" PRId64 " is not UTF-8", id);
    if (!isfinite(piece.score))
        return fault_set(fault, FAULT_NONFINITE, "the score of piece %" PRId64 " is not finite",
                         id);
    struct sentencepiece_piece *pieces =
        array_with_room(model->pieces, id, &model->piece_capacity, sizeof *pieces);
    if (!pieces)
        return fault_no_memory(fault);
    model->pieces = pieces;
    pieces[model->piece_count++] = piece;
    return true;
}

/* Whether the parts of the file agree with each other. */
static bool sentencepiece_check(const struct sentencepiece *model, struct fault *fault)
{
    if (model->model != SENTENCEPIECE_UNIGRAM && model->model != SENTENCEPIECE_BPE)
        return fault_set(fault, FAULT_OPTION,
                         "model_type is %" PRId64 "; expected 1 (unigram) or 2 (BPE)",
                         model->model);
    if (model->unknown_id < 0 || model->unknown_id >= model->piece_count)
        return fault_set(fault, FAULT_FIELD,
                         "unk_id is %" PRId64 "; the file has %" PRId64 " pieces",
                         model->unknown_id, model->piece_count);
    if (model->whitespace_is_suffix)
        return fault_set(fault, FAULT_OPTION, "treat_whitespace_as_suffix is not known here");
    return true;
}

static bool read_model(struct sentencepiece *model, struct byte_slice file, struct fault *fault)
{
    *model = (struct sentencepiece){
        .model = SENTENCEPIECE_UNIGRAM,
        .splits_at_whitespace = true,
        .adds_prefix = true,
        .removes_extra_whitespaces = true,
        .escapes_whitespaces = true,
    };
    struct protobuf_message message = protobuf_message_of(file);
    struct protobuf_field field;
    while (protobuf_next(&message, &field, fault)) {
        if (field.wire != PROTOBUF_BYTES)
            continue;
        if (field.number == MODEL_PIECE && !read_piece(model, field.bytes, fault))
            return false;
        if (field.number == MODEL_TRAINER
            && !read_message(field.bytes, TRAINER, sizeof TRAINER / sizeof *TRAINER, model, fault))
            return false;
        if (field.number == MODEL_NORMALIZER
            && !read_message(field.bytes, NORMALIZER, sizeof NORMALIZER / sizeof *NORMALIZER, model,
                             fault))
            return false;
    }
    return !message.failed && sentencepiece_check(model, fault);
}

/* -------------------------------------------------------------- vocabulary -- */

enum { TOKEN_BYTES = 64 };

static bool add(struct legacy *legacy, const char *text, size_t size, double score)
{
    const int64_t id = legacy->vocabulary.id_end;
    legacy->scores[id] = score;
    return vocabulary_add(&legacy->vocabulary, text, size, id, legacy->fault);
}

/* The tokens of a class's head or tail: "<unk>NOTUSED=-100"; "<extra_id_*>" is one token for each
 * of extra_ids numbers, the last one first. */
static bool add_list(struct legacy *legacy, const char *list)
{
    size_t size;
    for (const char *word; list && (word = legacy_list_next(&list, &size));) {
        const char *star = memchr(word, '*', size), *equals = memchr(word, '=', size);
        char token[TOKEN_BYTES];
        if (!star) {
            const double score = equals ? strtod(equals + 1, NULL) : 0;
            if (!add(legacy, word, equals ? (size_t)(equals - word) : size, score))
                return false;
            continue;
        }
        const cJSON *field = legacy_config_field(&legacy->config, "extra_ids");
        const double extra = cJSON_IsNumber(field) ? field->valuedouble : 100;
        if (!(extra >= 0 && extra <= 1000))
            return fault_set(legacy->fault, FAULT_OPTION, "extra_ids is %g; the most is 1000",
                             extra);
        for (int i = (int)extra - 1; i >= 0; i--) {
            const int token_size = snprintf(token, sizeof token, "%.*s%d%.*s", (int)(star - word),
                                            word, i, (int)(word + size - star - 1), star + 1);
            if (!add(legacy, token, (size_t)token_size, 0))
                return false;
        }
    }
    return true;
}

/* Whether the piece is digits before a comma at its end: transformers lowers the scores of these
 * for ALBERT, so that "7," becomes two tokens. */
static bool is_number_comma(struct byte_slice text)
{
    const char *bytes = text.data;
    return text.size > 1 && bytes[text.size - 1] == ',' && bytes[text.size - 2] >= '0'
           && bytes[text.size - 2] <= '9';
}

bool legacy_read_sentencepiece(struct legacy *legacy)
{
    const struct byte_slice file = { legacy->vocabulary_file, legacy->vocabulary_size };
    struct sentencepiece *model = &legacy->sentencepiece;
    const struct legacy_class *class = legacy->class;
    if (!read_model(model, file, legacy->fault))
        return false;
    enum { LIST_TOKENS_MAX = 1100 };
    legacy->scores = calloc((size_t)model->piece_count + LIST_TOKENS_MAX, sizeof(double));
    if (!legacy->scores)
        return fault_no_memory(legacy->fault);
    if (!add_list(legacy, class->head))
        return false;
    for (int64_t i = class->skipped; i < model->piece_count; i++) {
        const struct sentencepiece_piece *piece = &model->pieces[i];
        const bool lowers = class->lowers_number_commas && is_number_comma(piece->text);
        if (!add(legacy, piece->text.data, piece->text.size, (double)piece->score - 100 * lowers))
            return false;
    }
    if (!add_list(legacy, class->tail))
        return false;
    const struct byte_slice unknown = model->pieces[model->unknown_id].text;
    legacy->unknown_id = vocabulary_find(&legacy->vocabulary, unknown.data, unknown.size);
    return legacy->unknown_id >= 0
           || fault_set(legacy->fault, FAULT_FIELD, "the unknown piece has no id");
}

/* ------------------------------------------------------------------ merges -- */

enum { MERGES_MAX = 1 << 23 };

struct maker {
    struct legacy *legacy;
    struct arena arena; /* of the tries and the reversed texts */
    struct trie lefts, rights;
    int32_t *right_ids; /* of the suffix that begins at each byte; the longest piece's size */
    struct model_merge *merges;
    int64_t count, capacity;
};

static struct byte_slice text_of(const struct maker *maker, int64_t id)
{
    return vocabulary_text(&maker->legacy->vocabulary, id);
}

/* Whether text can become the piece. */
static bool is_made_of_text(const struct legacy *legacy, int64_t id)
{
    const int64_t index = id - (legacy->vocabulary.id_end - legacy->sentencepiece.piece_count);
    if (index < 0)
        return false;
    const int type = legacy->sentencepiece.pieces[index].type;
    return type == SENTENCEPIECE_NORMAL || type == SENTENCEPIECE_USER_DEFINED
           || type == SENTENCEPIECE_UNUSED;
}

static bool build_tries(struct maker *maker)
{
    struct legacy *legacy = maker->legacy;
    const int64_t count = legacy->vocabulary.id_end;
    struct trie_entry *lefts = arena_calloc(&maker->arena, (size_t)count, sizeof *lefts);
    struct trie_entry *rights = arena_calloc(&maker->arena, (size_t)count, sizeof *rights);
    if (!lefts || !rights)
        return fault_no_memory(legacy->fault);
    size_t longest = 0;
    int64_t entry_count = 0;
    for (int64_t id = 0; id < count; id++) {
        const struct byte_slice text = text_of(maker, id);
        if (!is_made_of_text(legacy, id))
            continue;
        char *reversed = arena_alloc(&maker->arena, text.size);
        if (!reversed)
            return fault_no_memory(legacy->fault);
        for (size_t i = 0; i < text.size; i++)
            reversed[i] = ((const char *)text.data)[text.size - 1 - i];
        lefts[entry_count] = (struct trie_entry){ text, (int32_t)id };
        rights[entry_count++] = (struct trie_entry){ { reversed, text.size }, (int32_t)id };
        longest = text.size > longest ? text.size : longest;
    }
    maker->right_ids = arena_calloc(&maker->arena, longest + 1, sizeof *maker->right_ids);
    return (maker->right_ids || fault_no_memory(legacy->fault))
           && trie_build(&maker->lefts, lefts, entry_count, &maker->arena, legacy->fault)
           && trie_build(&maker->rights, rights, entry_count, &maker->arena, legacy->fault);
}

static bool add_merge(struct maker *maker, struct model_merge merge)
{
    if (maker->count == MERGES_MAX)
        return fault_set(maker->legacy->fault, FAULT_TOO_LARGE,
                         "the pieces can be made in more than %d ways", MERGES_MAX);
    struct model_merge *merges =
        array_with_room(maker->merges, maker->count, &maker->capacity, sizeof *merges);
    if (!merges)
        return fault_no_memory(maker->legacy->fault);
    maker->merges = merges;
    merges[maker->count++] = merge;
    return true;
}

/* Adds all ways to make one piece of two. */
static bool add_merges_of(struct maker *maker, int32_t id)
{
    const struct byte_slice text = text_of(maker, id);
    const unsigned char *bytes = text.data;
    int32_t node = TRIE_ROOT;
    size_t first_right = text.size;
    while (first_right > 1) {
        node = trie_step(&maker->rights, node, bytes[first_right - 1]);
        if (node == TRIE_NONE)
            break;
        maker->right_ids[--first_right] = maker->rights.nodes[node].value;
    }
    node = TRIE_ROOT;
    for (size_t at = 1; at < text.size; at++) {
        node = trie_step(&maker->lefts, node, bytes[at - 1]);
        if (node == TRIE_NONE)
            break;
        const int32_t left = maker->lefts.nodes[node].value;
        const int32_t right = at >= first_right ? maker->right_ids[at] : -1;
        if (left >= 0 && right >= 0 && !add_merge(maker, (struct model_merge){ left, right, id }))
            return false;
    }
    return true;
}

/* By score, highest first; of one piece's merges the one with the longest left part first, so that
 * of two overlapping ones the first in the text wins. */
static int compare(const void *a, const void *b, void *state)
{
    const struct maker *maker = state;
    const struct model_merge *left = a, *right = b;
    const double left_score = maker->legacy->scores[left->merged];
    const double right_score = maker->legacy->scores[right->merged];
    if (left_score != right_score)
        return left_score > right_score ? -1 : 1;
    if (left->merged != right->merged)
        return left->merged < right->merged ? -1 : 1;
    const size_t left_size = text_of(maker, left->left).size;
    const size_t right_size = text_of(maker, right->left).size;
    return left_size > right_size ? -1 : left_size < right_size;
}

struct model_merge *legacy_sentencepiece_merges(struct legacy *legacy, int64_t *count)
{
    struct maker maker = { .legacy = legacy };
    arena_init(&maker.arena, SIZE_MAX);
    bool good = build_tries(&maker);
    for (int64_t id = 0; id < legacy->vocabulary.id_end && good; id++)
        if (is_made_of_text(legacy, id))
            good = add_merges_of(&maker, (int32_t)id);
    if (good && !maker.merges) {
        maker.merges = calloc(1, sizeof *maker.merges);
        good = maker.merges || fault_no_memory(legacy->fault);
    }
    if (good && maker.merges)
        qsort_r(maker.merges, (size_t)maker.count, sizeof *maker.merges, compare, &maker);
    arena_free(&maker.arena);
    *count = maker.count;
    if (!good)
        free(maker.merges);
    return good ? maker.merges : NULL;
}
