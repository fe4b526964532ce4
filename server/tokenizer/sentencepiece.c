/* sentencepiece.c - see sentencepiece.h. */
#include "tokenizer/sentencepiece.h"

#include "base/grow.h"
#include "base/utf8.h"
#include "formats/protobuf.h"

#include <inttypes.h>
#include <math.h>

/* The numbers of the fields that are read. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum {
    TRAINER_MODEL = 3,
    TRAINER_SPLITS_AT_WHITESPACE = 22,
    TRAINER_WHITESPACE_IS_SUFFIX = 24,
    TRAINER_BYTE_FALLBACK = 35,
    TRAINER_UNKNOWN_ID = 40,
    TRAINER_UNKNOWN_PIECE = 45
};
enum {
    NORMALIZER_CHARSMAP = 2,
    NORMALIZER_ADDS_PREFIX = 3,
    NORMALIZER_REMOVES_EXTRA_WHITESPACES = 4,
    NORMALIZER_ESCAPES_WHITESPACES = 5
};

static bool is_utf8(struct byte_slice text)
{
    const char *bytes = text.data;
    for (size_t at = 0, size; at < text.size; at += size) {
        size = utf8_character_size(bytes + at, text.size - at);
        if (size == 0)
            return false;
    }
    return true;
}

static bool read_piece(struct sentencepiece *model, struct byte_slice bytes, struct fault *fault)
{
    struct sentencepiece_piece piece = { .type = SENTENCEPIECE_NORMAL };
    struct protobuf_message message = protobuf_message_of(bytes);
    struct protobuf_field field;
    while (protobuf_next(&message, &field, fault)) {
        if (field.number == PIECE_TEXT && field.wire == PROTOBUF_BYTES)
            piece.text = field.bytes;
        else if (field.number == PIECE_SCORE)
            piece.score = protobuf_float(&field);
        else if (field.number == PIECE_TYPE)
            piece.type = (int)protobuf_integer(&field);
    }
    if (message.failed)
        return false;
    const int64_t id = model->piece_count;
    if (piece.text.size == 0)
        return fault_set(fault, FAULT_FIELD, "piece %" PRId64 " has no length", id);
    if (!is_utf8(piece.text))
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

static bool read_trainer(struct sentencepiece *model, struct byte_slice bytes, struct fault *fault)
{
    struct protobuf_message message = protobuf_message_of(bytes);
    struct protobuf_field field;
    while (protobuf_next(&message, &field, fault)) {
        switch (field.number) {
        case TRAINER_MODEL:
            model->model = protobuf_integer(&field);
            break;
        case TRAINER_SPLITS_AT_WHITESPACE:
            model->splits_at_whitespace = protobuf_integer(&field) != 0;
            break;
        case TRAINER_WHITESPACE_IS_SUFFIX:
            model->whitespace_is_suffix = protobuf_integer(&field) != 0;
            break;
        case TRAINER_BYTE_FALLBACK:
            model->byte_fallback = protobuf_integer(&field) != 0;
            break;
        case TRAINER_UNKNOWN_ID:
            model->unknown_id = protobuf_integer(&field);
            break;
        case TRAINER_UNKNOWN_PIECE:
            model->unknown_piece = field.bytes;
            break;
        default:
            break;
        }
    }
    return !message.failed;
}

static bool read_normalizer(struct sentencepiece *model, struct byte_slice bytes,
                            struct fault *fault)
{
    struct protobuf_message message = protobuf_message_of(bytes);
    struct protobuf_field field;
    while (protobuf_next(&message, &field, fault)) {
        switch (field.number) {
        case NORMALIZER_CHARSMAP:
            model->charsmap = field.bytes;
            break;
        case NORMALIZER_ADDS_PREFIX:
            model->adds_prefix = protobuf_integer(&field) != 0;
            break;
        case NORMALIZER_REMOVES_EXTRA_WHITESPACES:
            model->removes_extra_whitespaces = protobuf_integer(&field) != 0;
            break;
        case NORMALIZER_ESCAPES_WHITESPACES:
            model->escapes_whitespaces = protobuf_integer(&field) != 0;
            break;
        default:
            break;
        }
    }
    return !message.failed;
}

/* Whether the parts of the file agree with each other. */
static bool check(const struct sentencepiece *model, struct fault *fault)
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

bool sentencepiece_read(struct sentencepiece *model, struct byte_slice file, struct fault *fault)
{
    *model = (struct sentencepiece){
        .model = SENTENCEPIECE_UNIGRAM,
        .unknown_piece = { "<unk>", 5 },
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
        if (field.number == MODEL_TRAINER && !read_trainer(model, field.bytes, fault))
            return false;
        if (field.number == MODEL_NORMALIZER && !read_normalizer(model, field.bytes, fault))
            return false;
    }
    return !message.failed && check(model, fault);
}

void sentencepiece_free(struct sentencepiece *model)
{
    free(model->pieces);
    *model = (struct sentencepiece){ 0 };
}
