/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.c - the model BPE: the characters of a piece, merged pair by pair.
 *
 * A piece may be a whole text, where a tokenizer has no pre-tokenizer. It is cut into words where
 * no merge of the file joins the characters on both sides, which changes no token: a merge across
 * the cut would join a token that ends with the one and a token that begins with the other. So most
 * words are short, and the work stays in the cache.
 *
 * Source: models/bpe of Hugging Face tokenizers; byte_fallback is that of SentencePiece. */
#include "models/tokenizer/bpe_merges.h"
#include "models/tokenizer/pipeline.h"
#include "models/tokenizer/unicode.h"

#include "base/utf8.h"

#include <string.h>

#define WHERE "model BPE"

enum { BPE_DIRECT_CHARACTERS = 0x250, BPE_AFFIX_BYTES_MAX = 64, BPE_WORD_MIN = 256 };

struct bpe {
    const struct vocabulary *vocabulary;
    struct bpe_merges merges;
    uint64_t *is_own; /* bit set of ids: the model's, not only added tokens */
    int64_t id_end;
    int32_t direct[BPE_DIRECT_CHARACTERS]; /* the tokens of single characters; -1: none */
    int32_t byte_tokens[256];              /* <0x00> and so on */
    int32_t unknown;                       /* -1: none */
    struct byte_slice unknown_text;        /* .data is NULL where the file names none */
    uint32_t unknown_first, unknown_last;  /* its characters */
    struct byte_slice prefix, suffix;      /* of tokens; empty: none */
    bool fuses_unknown, byte_fallback, ignores_merges;
};

/* A word that is being read, kept from piece to piece of one text. */
struct word {
    struct bpe_symbol *symbols;
    int64_t count, capacity;
    uint32_t last; /* character of the last symbol */
    struct bpe_heap heap;
};

/* One piece that is being encoded. */
struct encoding {
    const struct bpe *bpe;
    struct word *word;
    struct model_output *output;
    uint32_t at, size;     /* bytes of the piece that have tokens, and all */
    uint32_t unknown_size; /* of characters without a token that are not in the word yet */
};

static int32_t own_token(const struct bpe *bpe, const char *text, size_t size)
{
    const int32_t id = vocabulary_find(bpe->vocabulary, text, size);
    return id >= 0 && id < bpe->id_end && (bpe->is_own[id / 64] >> id % 64 & 1) ? id : -1;
}

/* -------------------------------------------------------------- encoding -- */

static bool end_word(struct encoding *encoding)
{
    struct word *word = encoding->word;
    const int64_t count =
        bpe_merges_apply(&encoding->bpe->merges, word->symbols, word->count, &word->heap,
                         encoding->output->limit, encoding->output->arena);
    if (count < 0)
        return false;
    for (int64_t i = 0; i < count; i++) {
        /* A suffix in byte tokens has more bytes than the piece. */
        const uint32_t left = encoding->size - encoding->at, size = word->symbols[i].size;
        const uint32_t end = encoding->at + (size < left ? size : left);
        model_output_add(encoding->output, word->symbols[i].id, encoding->at, end);
        encoding->at = end;
    }
    word->count = 0;
    return true;
}

static bool grow(struct word *word, struct arena *arena)
{
    const int64_t capacity = word->capacity > 0 ? 2 * word->capacity : BPE_WORD_MIN;
    struct bpe_symbol *symbols = arena_alloc(arena, (size_t)capacity * sizeof *symbols);
    if (!symbols)
        return false;
    if (word->count > 0)
        memcpy(symbols, word->symbols, (size_t)word->count * sizeof *symbols);
    word->symbols = symbols;
    word->capacity = capacity;
    return true;
}

/* Appends a symbol whose token begins and ends with these characters. */
static bool add_symbol(struct encoding *encoding, int32_t id, uint32_t size, uint32_t first,
                       uint32_t last)
{
    struct word *word = encoding->word;
    const struct bpe *bpe = encoding->bpe;
    if (word->count > 0 && bpe->prefix.size == 0 && bpe->suffix.size == 0
        && !bpe_merges_may_join(&bpe->merges, word->last, first) && !end_word(encoding))
        return false;
    if (word->count == word->capacity && !grow(word, encoding->output->arena))
        return false;
    word->symbols[word->count++] = (struct bpe_symbol){ .id = id, .size = size };
    word->last = last;
    return true;
}

static bool flush_unknown(struct encoding *encoding)
{
    const struct bpe *bpe = encoding->bpe;
    const uint32_t size = encoding->unknown_size;
    encoding->unknown_size = 0;
    return size == 0
           || add_symbol(encoding, bpe->unknown, size, bpe->unknown_first, bpe->unknown_last);
}

/* The fault of a word that could not be added. */
static bool word_fault(const struct encoding *encoding, struct fault *fault)
{
    return encoding->output->limit->is_stopped ? work_limit_fault(fault) : fault_no_memory(fault);
}

/* Appends a token for each byte; *is_done is false where one of them has none. */
static bool add_bytes(struct encoding *encoding, const char *text, size_t size, bool *is_done)
{
    const struct bpe *bpe = encoding->bpe;
    *is_done = bpe->byte_fallback;
    for (size_t i = 0; i < size; i++)
        if (bpe->byte_tokens[(unsigned char)text[i]] < 0)
            *is_done = false;
    for (size_t i = 0; *is_done && i < size; i++)
        if (!add_symbol(encoding, bpe->byte_tokens[(unsigned char)text[i]], 1, '<', '>'))
            return false;
    return true;
}

/* A character that is no token. As in the reference, byte tokens go before unknown characters that
 * are still waiting, and a character is left out where the file has no unk_token. */
static bool add_other(struct encoding *encoding, const char *text, size_t size,
                      uint32_t character_size, struct fault *fault)
{
    const struct bpe *bpe = encoding->bpe;
    bool is_done;
    if (!add_bytes(encoding, text, size, &is_done))
        return word_fault(encoding, fault);
    if (is_done || !bpe->unknown_text.data)
        return true;
    if (bpe->unknown < 0)
        return fault_set(fault, FAULT_FIELD,
                         "the text has a character that is no token, and the tokenizer's "
                         "unk_token %s is not in its vocabulary",
                         (const char *)bpe->unknown_text.data);
    if (!bpe->fuses_unknown && !flush_unknown(encoding))
        return word_fault(encoding, fault);
    encoding->unknown_size += character_size;
    return true;
}

static size_t append(char *out, size_t used, struct byte_slice text)
{
    if (text.size > 0)
        memcpy(out + used, text.data, text.size);
    return used + text.size;
}

/* One character, with the prefix and the suffix that it has at its place. */
static bool add_character(struct encoding *encoding, const char *text, uint32_t size, uint32_t code,
                          bool is_first, bool is_last, struct fault *fault)
{
    const struct bpe *bpe = encoding->bpe;
    const struct byte_slice none = { NULL, 0 }, prefix = is_first ? none : bpe->prefix,
                            suffix = is_last ? bpe->suffix : none;
    char affixed[2 * BPE_AFFIX_BYTES_MAX + 4];
    const char *token = text;
    size_t token_size = size;
    if (prefix.size > 0 || suffix.size > 0) {
        token = affixed;
        token_size = append(affixed, 0, prefix);
        token_size = append(affixed, token_size, (struct byte_slice){ text, size });
        token_size = append(affixed, token_size, suffix);
    }
    const int32_t id = token == text && code < BPE_DIRECT_CHARACTERS
                           ? bpe->direct[code]
                           : own_token(bpe, token, token_size);
    if (id < 0)
        return add_other(encoding, token, token_size, size, fault);
    return (flush_unknown(encoding) && add_symbol(encoding, id, size, code, code))
           || word_fault(encoding, fault);
}

static bool encode_characters(struct encoding *encoding, const char *piece, struct fault *fault)
{
    for (uint32_t at = 0, size; at < encoding->size; at += size) {
        uint32_t code;
        size = unicode_decode(piece + at, &code);
        if (!add_character(encoding, piece + at, size, code, at == 0, at + size == encoding->size,
                           fault))
            return false;
        if (!work_limit_spend(encoding->output->limit, 1))
            return work_limit_fault(fault);
    }
    return true;
}

bool bpe_encode(const void *state, const char *piece, int64_t size, struct model_output *output,
                struct fault *fault)
{
    const struct bpe *bpe = state;
    const int32_t whole = bpe->ignores_merges ? own_token(bpe, piece, (size_t)size) : -1;
    if (whole >= 0) {
        model_output_add(output, whole, 0, (uint32_t)size);
        return true;
    }
    if (!output->memo && !(output->memo = arena_calloc(output->arena, 1, sizeof(struct word))))
        return fault_no_memory(fault);
    struct encoding encoding = {
        .bpe = bpe,
        .word = output->memo,
        .output = output,
        .size = (uint32_t)size,
    };
    encoding.word->count = 0;
    return encode_characters(&encoding, piece, fault)
           && ((flush_unknown(&encoding) && end_word(&encoding)) || word_fault(&encoding, fault));
}

/* --------------------------------------------------------------- merges -- */

/* The two tokens of a merge: ["a", "b"], or the older "a b". */
static bool read_pair(struct pipeline_build *build, const cJSON *merge, int64_t rank,
                      struct byte_slice pair[2])
{
    const cJSON *left = merge->child, *right = left ? left->next : NULL;
    if (cJSON_IsArray(merge) && right && !right->next && cJSON_IsString(left)
        && cJSON_IsString(right))
        return (json_string_read(left->valuestring, build->arena, &pair[0])
                && json_string_read(right->valuestring, build->arena, &pair[1]))
               || fault_no_memory(build->fault);
    struct byte_slice both;
    if (!cJSON_IsString(merge))
        return pipeline_fail(build, WHERE, "merges[%lld] is %s; expected two tokens",
                             (long long)rank, json_kind(build->document, merge));
    if (!json_string_read(merge->valuestring, build->arena, &both))
        return fault_no_memory(build->fault);
    const char *text = both.data, *space = memchr(text, ' ', both.size);
    const size_t left_size = space ? (size_t)(space - text) : both.size;
    pair[0] = (struct byte_slice){ text, left_size };
    pair[1] = (struct byte_slice){ space ? space + 1 : "", space ? both.size - left_size - 1 : 0 };
    if (space && !memchr(pair[1].data, ' ', pair[1].size))
        return true;
    return pipeline_fail(build, WHERE, "merges[%lld] is '%.60s'; expected two tokens and a space",
                         (long long)rank, merge->valuestring);
}

static bool no_token(struct pipeline_build *build, int64_t rank, struct byte_slice text)
{
    return pipeline_fail(build, WHERE, "merges[%lld] has '%.*s', which is not in the vocabulary",
                         (long long)rank, text.size < 60 ? (int)text.size : 60,
                         (const char *)text.data);
}

/* Notes where the two tokens of a merge meet. */
static void add_joint(struct bpe *bpe, struct byte_slice left, struct byte_slice right)
{
    const char *text = left.data;
    size_t at = left.size - 1;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
        at--;
    uint32_t last, first;
    unicode_decode(text + at, &last);
    unicode_decode(right.data, &first);
    bpe_merges_add_joint(&bpe->merges, last, first);
}

static bool add_merge(struct pipeline_build *build, struct bpe *bpe, int64_t rank,
                      const struct byte_slice pair[2], struct text *scratch)
{
    int32_t ids[2];
    for (int i = 0; i < 2; i++) {
        ids[i] = vocabulary_find(build->vocabulary, pair[i].data, pair[i].size);
        if (ids[i] < 0)
            return no_token(build, rank, pair[i]);
    }
    const size_t prefix_size = bpe->prefix.size;
    if (pair[0].size == 0 || pair[1].size <= prefix_size)
        return pipeline_fail(build, WHERE, "merges[%lld] joins an empty token", (long long)rank);
    scratch->used = 0;
    text_bytes(scratch, pair[0].data, pair[0].size);
    text_bytes(scratch, (const char *)pair[1].data + prefix_size, pair[1].size - prefix_size);
    if (!text_finish(scratch, build->fault))
        return false;
    const int32_t merged = vocabulary_find(build->vocabulary, scratch->data, scratch->used);
    if (merged < 0)
        return no_token(build, rank, (struct byte_slice){ scratch->data, scratch->used });
    bpe_merges_add(&bpe->merges, ids[0], ids[1], (uint32_t)rank, merged);
    add_joint(bpe, pair[0], pair[1]);
    return true;
}

static bool take_merges(struct pipeline_build *build, const struct model_lists *lists,
                        struct bpe *bpe)
{
    if (!bpe_merges_init(&bpe->merges, lists->merge_count, build->arena))
        return fault_no_memory(build->fault);
    for (int64_t rank = 0; rank < lists->merge_count; rank++) {
        const struct model_merge *merge = &lists->merges[rank];
        bpe_merges_add(&bpe->merges, merge->left, merge->right, (uint32_t)rank, merge->merged);
        add_joint(bpe, vocabulary_text(build->vocabulary, merge->left),
                  vocabulary_text(build->vocabulary, merge->right));
    }
    return true;
}

static bool read_merges(struct pipeline_build *build, const cJSON *node, struct bpe *bpe)
{
    if (build->lists)
        return take_merges(build, build->lists, bpe);
    const cJSON *list = pipeline_array(build, node, WHERE, "merges"), *merge;
    if (!list)
        return false;
    if (!bpe_merges_init(&bpe->merges, cJSON_GetArraySize(list), build->arena))
        return fault_no_memory(build->fault);
    struct text scratch;
    text_init(&scratch, SIZE_MAX);
    int64_t rank = 0;
    bool is_fine = true;
    cJSON_ArrayForEach(merge, list) {
        struct byte_slice pair[2] = { { NULL, 0 }, { NULL, 0 } };
        /* The first line of merges.txt, which older files have in the list. */
        if (cJSON_IsString(merge) && strncmp(merge->valuestring, "#version", 8) == 0)
            continue;
        is_fine =
            read_pair(build, merge, rank, pair) && add_merge(build, bpe, rank, pair, &scratch);
        if (!is_fine)
            break;
        rank++;
    }
    text_free(&scratch);
    return is_fine;
}

/* --------------------------------------------------------------- reading -- */

static const struct step_field FIELDS[] = {
    { STEP_FIELD("unk_token", STEP_STRING, struct bpe, unknown_text), .is_optional = true },
    { STEP_FIELD("fuse_unk", STEP_BOOL, struct bpe, fuses_unknown), .is_optional = true },
    { STEP_FIELD("byte_fallback", STEP_BOOL, struct bpe, byte_fallback), .is_optional = true },
    { STEP_FIELD("ignore_merges", STEP_BOOL, struct bpe, ignores_merges), .is_optional = true },
    { STEP_FIELD("continuing_subword_prefix", STEP_STRING, struct bpe, prefix),
      .is_optional = true },
    { STEP_FIELD("end_of_word_suffix", STEP_STRING, struct bpe, suffix), .is_optional = true },
};

static bool check_affix(struct pipeline_build *build, const char *key, struct byte_slice affix)
{
    return affix.size <= BPE_AFFIX_BYTES_MAX
           || pipeline_fail(build, WHERE, "%s has %zu bytes; expected at most %d", key, affix.size,
                            BPE_AFFIX_BYTES_MAX);
}

/* Dropout makes the tokens random, which is for training. */
static bool refuse_dropout(struct pipeline_build *build, const cJSON *node)
{
    const cJSON *dropout = cJSON_GetObjectItemCaseSensitive(node, "dropout");
    return !dropout || cJSON_IsNull(dropout)
           || (cJSON_IsNumber(dropout) && dropout->valuedouble == 0)
           || pipeline_fail(build, WHERE, "dropout is not 0; it makes tokens random");
}

/* Notes which tokens are the model's own, and those that are asked for most. */
static bool index_tokens(struct pipeline_build *build, struct bpe *bpe)
{
    bpe->vocabulary = build->vocabulary;
    bpe->id_end = build->vocabulary->id_end;
    bpe->is_own = pipeline_alloc(build, (size_t)bpe->id_end / 64 + 1, sizeof *bpe->is_own);
    if (!bpe->is_own)
        return false;
    for (int64_t id = 0; id < bpe->id_end; id++)
        if (vocabulary_text(build->vocabulary, id).data)
            bpe->is_own[id / 64] |= (uint64_t)1 << id % 64;
    for (unsigned code = 0; code < BPE_DIRECT_CHARACTERS; code++) {
        char text[4];
        bpe->direct[code] = own_token(bpe, text, utf8_encode(text, code));
    }
    pipeline_byte_tokens(build, bpe->byte_tokens);
    bpe->unknown = -1;
    if (bpe->unknown_text.size > 0) {
        const char *text = bpe->unknown_text.data;
        bpe->unknown = own_token(bpe, text, bpe->unknown_text.size);
        unicode_decode(text, &bpe->unknown_first);
        for (; *text; text += unicode_decode(text, &bpe->unknown_last))
            continue;
    }
    return true;
}

bool bpe_read(struct pipeline_build *build, const cJSON *node, struct step *step)
{
    struct bpe *bpe = pipeline_alloc(build, 1, sizeof *bpe);
    if (!bpe || !pipeline_fields(build, node, WHERE, FIELDS, sizeof FIELDS / sizeof *FIELDS, bpe)
        || !check_affix(build, "continuing_subword_prefix", bpe->prefix)
        || !check_affix(build, "end_of_word_suffix", bpe->suffix) || !refuse_dropout(build, node)
        || !pipeline_vocabulary(build, node, WHERE) || !index_tokens(build, bpe)
        || !read_merges(build, node, bpe))
        return false;
    step->state = bpe;
    return true;
}
