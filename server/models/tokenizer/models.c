/* SPDX-License-Identifier: Apache-2.0 */
/* models.c - the table of models, and those that find tokens in a trie: Unigram, WordPiece,
 * WordLevel.
 *
 * Source: models of Hugging Face tokenizers. */
#include "models/tokenizer/pipeline.h"
#include "models/tokenizer/trie.h"
#include "models/tokenizer/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Builds the trie of all tokens of the build's vocabulary; the values are their ids. Tokens of no
 * bytes are left out. */
static bool build_trie(struct pipeline_build *build, struct trie *trie)
{
    const struct vocabulary *vocabulary = build->vocabulary;
    struct trie_entry *entries =
        reallocarray(NULL, (size_t)vocabulary->id_end + 1, sizeof *entries);
    if (!entries)
        return fault_no_memory(build->fault);
    int64_t count = 0;
    for (int64_t id = 0; id < vocabulary->id_end; id++) {
        const struct byte_slice text = vocabulary_text(vocabulary, id);
        if (text.data && text.size > 0)
            entries[count++] = (struct trie_entry){ text, (int32_t)id };
    }
    const bool built = trie_build(trie, entries, count, build->arena, build->fault);
    free(entries);
    return built;
}

/* ---------------------------------------------------------------- Unigram -- */

/* Of all ways to cut a text into pieces of the vocabulary, Unigram takes the one whose scores have
 * the largest sum.
 *
 * A walk over the text from left to right keeps, for each byte where a piece may end, the best sum
 * of the pieces before it and where the last of them begins (Viterbi). From each character a trie
 * gives all pieces that begin there, so the work is the text's length times the longest piece's.
 * Of equal sums the one whose last piece begins first stays, as in the reference.
 *
 * A character that is no piece may be an unknown one, at the lowest score less 10.
 * Unknown characters in a row are one token. With byte_fallback such a run is a token for each of
 * its bytes where the vocabulary has all of these ("<0x41>").
 *
 * Source: Kudo, "Subword regularization", 2018, https://arxiv.org/abs/1804.10959. */
static const double UNKNOWN_PENALTY = 10;

struct unigram {
    struct trie trie;
    const double *scores; /* by id */
    double unknown_score;
    int64_t unknown; /* -1: there is none */
    bool byte_fallback;
    int32_t byte_ids[256]; /* -1: the vocabulary has no token of the byte */
};

/* The best way to the end of a piece. */
struct path {
    double score;
    uint32_t start; /* of the piece; NOWHERE: nothing ends here */
    int32_t id;
};

static const uint32_t NOWHERE = UINT32_MAX;

static void offer(struct path *path, double score, uint32_t start, int32_t id)
{
    if (path->start == NOWHERE || score > path->score)
        *path = (struct path){ score, start, id };
}

/* Offers all pieces that begin at a character to the paths where they end. Returns how many bytes
 * the longest of them may have. */
static uint32_t offer_pieces(const struct unigram *unigram, const char *text, uint32_t size,
                             uint32_t start, struct path *paths)
{
    const double before = paths[start].score;
    uint32_t code;
    const uint32_t character = unicode_decode(text + start, &code);
    bool has_single = false;
    int32_t node = TRIE_ROOT;
    uint32_t end = start;
    while (end < size) {
        node = trie_step(&unigram->trie, node, (unsigned char)text[end++]);
        if (node == TRIE_NONE)
            break;
        const int32_t id = unigram->trie.nodes[node].value;
        if (id < 0)
            continue;
        offer(&paths[end], before + unigram->scores[id], start, id);
        has_single = has_single || end == start + character;
    }
    if (!has_single)
        offer(&paths[start + character], before + unigram->unknown_score, start,
              (int32_t)unigram->unknown);
    return end - start;
}

/* Turns the links from each end to its start round, so that they lead from end to end in the
 * text's order. Returns the first end. */
static uint32_t reverse_path(struct path *paths, uint32_t size)
{
    uint32_t next = NOWHERE;
    for (uint32_t end = size; end > 0;) {
        const uint32_t start = paths[end].start;
        paths[end].start = next;
        next = end;
        end = start;
    }
    return next;
}

/* Adds the tokens of a run of unknown characters. */
static void add_unknown(const struct unigram *unigram, const char *text, uint32_t start,
                        uint32_t end, struct model_output *output)
{
    const int32_t id = trie_find(&unigram->trie, text + start, end - start);
    bool by_bytes = id < 0 && unigram->byte_fallback;
    for (uint32_t i = start; i < end && by_bytes; i++)
        by_bytes = unigram->byte_ids[(unsigned char)text[i]] >= 0;
    if (!by_bytes) {
        model_output_add(output, id >= 0 ? id : (int32_t)unigram->unknown, start, end);
        return;
    }
    for (uint32_t i = start; i < end; i++)
        model_output_add(output, unigram->byte_ids[(unsigned char)text[i]], start, end);
}

static bool encode_unigram(const void *state, const char *piece, int64_t size,
                           struct model_output *output, struct fault *fault)
{
    const struct unigram *unigram = state;
    struct path *paths = model_output_scratch(output, ((size_t)size + 1) * sizeof *paths);
    if (!paths)
        return fault_no_memory(fault);
    for (int64_t i = 0; i <= size; i++)
        paths[i] = (struct path){ .start = NOWHERE };
    for (int64_t i = 0; i < size;) {
        uint32_t code;
        if (!work_limit_spend(output->limit,
                              offer_pieces(unigram, piece, (uint32_t)size, (uint32_t)i, paths)))
            return work_limit_fault(fault);
        i += unicode_decode(piece + i, &code);
    }
    uint32_t start = 0, unknown_start = NOWHERE;
    for (uint32_t end = reverse_path(paths, (uint32_t)size); start < size; end = paths[end].start) {
        const int32_t id = paths[end].id;
        if (id < 0)
            return fault_set(fault, FAULT_FIELD,
                             "the text has a character that is in no token, and the tokenizer has "
                             "no unk_id");
        if (id == unigram->unknown) {
            unknown_start = unknown_start == NOWHERE ? start : unknown_start;
        } else {
            if (unknown_start != NOWHERE)
                add_unknown(unigram, piece, unknown_start, start, output);
            unknown_start = NOWHERE;
            model_output_add(output, id, start, end);
        }
        start = end;
    }
    if (unknown_start != NOWHERE)
        add_unknown(unigram, piece, unknown_start, start, output);
    return true;
}

/* Prints a number with so many digits. Returns whether they tell it from its neighbours. */
static bool print_digits(char digits[32], int count, double number)
{
    snprintf(digits, 32, "%.*e", count - 1, number);
    return strtod(digits, NULL) == number;
}

/* The score as the reference reads it from its file: the digits as a whole number, times or through
 * a power of ten, each rounded. The last bit of it decides between ways to cut a text whose scores
 * would be equal. The digits of the file are taken to be the fewest that tell the number from its
 * neighbours, which is how all writers of these files write.
 *
 * Source: Deserializer::f64_from_parts() of https://github.com/serde-rs/json. */
static double score_of_reference(double score)
{
    char digits[32], fewer[32];
    const bool is_enough = print_digits(digits, 16, fabs(score));
    if (!is_enough)
        print_digits(digits, 17, fabs(score));
    else if (print_digits(fewer, 15, fabs(score)))
        memcpy(digits, fewer, sizeof digits);
    char *end;
    const char *exponent_text = strchr(digits, 'e');
    uint64_t significand = strtoull(digits, &end, 10);
    int exponent = (int)strtol(exponent_text + 1, NULL, 10);
    for (const char *digit = end + (*end == '.'); digit < exponent_text; digit++, exponent--)
        significand = significand * 10 + (uint64_t)(*digit - '0');
    for (; significand > 0 && significand % 10 == 0; exponent++)
        significand /= 10;
    snprintf(digits, sizeof digits, "1e%d", abs(exponent));
    const double power = strtod(digits, NULL);
    if (!isfinite(power))
        return score;
    const double size = exponent < 0 ? (double)significand / power : (double)significand * power;
    return signbit(score) ? -size : size;
}

/* Reads one ["piece", score]. */
static bool read_piece(struct pipeline_build *build, const cJSON *node, const char *where,
                       int64_t id, double *score)
{
    const cJSON *text = cJSON_GetArrayItem(node, 0), *number = cJSON_GetArrayItem(node, 1);
    if (!cJSON_IsArray(node) || cJSON_GetArraySize(node) != 2 || !cJSON_IsString(text)
        || !cJSON_IsNumber(number) || !isfinite(number->valuedouble))
        return pipeline_fail(build, where, "vocab[%lld] is not a piece and its score",
                             (long long)id);
    struct byte_slice bytes;
    if (!json_string_read(text->valuestring, build->arena, &bytes))
        return fault_no_memory(build->fault);
    if (bytes.size == 0)
        return pipeline_fail(build, where, "vocab[%lld] is a piece of no length", (long long)id);
    *score = score_of_reference(number->valuedouble);
    return pipeline_add_token(build, where, bytes, id);
}

static bool take_pieces(struct pipeline_build *build, const struct model_lists *lists,
                        struct unigram *unigram)
{
    const int64_t count = lists->vocabulary->id_end;
    double *scores = pipeline_alloc(build, (size_t)count, sizeof *scores);
    if (!scores)
        return false;
    for (int64_t id = 0; id < count; id++)
        scores[id] = score_of_reference(lists->scores[id]);
    unigram->scores = scores;
    unigram->unknown_score = score_of_reference(lists->lowest_score) - UNKNOWN_PENALTY;
    return pipeline_vocabulary(build, NULL, "");
}

static bool read_pieces(struct pipeline_build *build, const cJSON *node, const char *where,
                        struct unigram *unigram)
{
    if (build->lists)
        return take_pieces(build, build->lists, unigram);
    const cJSON *pieces = cJSON_GetObjectItemCaseSensitive(node, "vocab");
    if (!cJSON_IsArray(pieces) || json_numbers_of(build->document, pieces))
        return pipeline_fail(build, where, "vocab is %s; expected an array of pieces and scores",
                             json_kind(build->document, pieces));
    double *scores = pipeline_alloc(build, (size_t)cJSON_GetArraySize(pieces), sizeof *scores);
    if (!scores)
        return false;
    double lowest = INFINITY;
    int64_t id = 0;
    const cJSON *piece;
    cJSON_ArrayForEach(piece, pieces) {
        if (!read_piece(build, piece, where, id, &scores[id]))
            return false;
        lowest = fmin(lowest, scores[id++]);
    }
    unigram->scores = scores;
    unigram->unknown_score = lowest - UNKNOWN_PENALTY;
    return true;
}

static bool finish_unigram(struct pipeline_build *build, const cJSON *node, const char *where,
                           void *state)
{
    struct unigram *unigram = state;
    unigram->unknown = -1;
    if (!read_pieces(build, node, where, unigram))
        return false;
    const struct step_field fields[] = {
        { STEP_FIELD("byte_fallback", STEP_BOOL, struct unigram, byte_fallback),
          .is_optional = true },
        { STEP_FIELD("unk_id", STEP_INTEGER, struct unigram, unknown), .is_optional = true,
          .most = build->vocabulary->id_end - 1 },
    };
    pipeline_byte_tokens(build, unigram->byte_ids);
    return pipeline_fields(build, node, where, fields, 2, unigram)
           && build_trie(build, &unigram->trie);
}

/* -------------------------------------------------------------- WordPiece -- */

/* The longest token that a word begins with, then the longest that the rest begins with, and so on.
 *
 * Tokens inside a word have a prefix ("##") in the vocabulary. A word is one unknown token as a
 * whole where any part of it is in no token, or where it has too many characters. The walk in a
 * trie finds the longest token in one pass; tokens inside words begin at the node of the prefix.
 *
 * Source: Schuster, Nakajima, "Japanese and Korean voice search", 2012. */
struct wordpiece {
    struct trie trie;
    int32_t inner;   /* the node of the prefix; TRIE_NONE: no token has it */
    int32_t unknown; /* the id of the unknown token; -1: the vocabulary has none */
    struct byte_slice prefix, unknown_token;
    int64_t characters_max;
};

/* The longest token below the node that text begins with; its end is 0 where there is none. */
static struct model_token longest_token(const struct wordpiece *wordpiece, int32_t node,
                                        const char *text, int64_t size, struct work_limit *limit)
{
    struct model_token longest = { .id = -1 };
    int64_t i = 0;
    for (; i < size && node != TRIE_NONE; i++) {
        node = trie_step(&wordpiece->trie, node, (unsigned char)text[i]);
        if (node != TRIE_NONE && wordpiece->trie.nodes[node].value >= 0)
            longest = (struct model_token){ .id = wordpiece->trie.nodes[node].value,
                                            .end = (uint32_t)(i + 1) };
    }
    work_limit_spend(limit, i);
    return longest;
}

static bool put_unknown(const struct wordpiece *wordpiece, int64_t size,
                        struct model_output *output, struct fault *fault)
{
    if (wordpiece->unknown < 0)
        return fault_set(fault, FAULT_FIELD,
                         "the text has a word that is in no token, and the tokenizer's unk_token "
                         "%s is not in its vocabulary",
                         (const char *)wordpiece->unknown_token.data);
    model_output_add(output, wordpiece->unknown, 0, (uint32_t)size);
    return true;
}

static bool encode_wordpiece(const void *state, const char *piece, int64_t size,
                             struct model_output *output, struct fault *fault)
{
    const struct wordpiece *wordpiece = state;
    if (size > wordpiece->characters_max
        && unicode_count(piece, (size_t)size) > wordpiece->characters_max)
        return put_unknown(wordpiece, size, output, fault);
    const int64_t first = output->count;
    for (int64_t at = 0; at < size;) {
        const struct model_token token = longest_token(
            wordpiece, at > 0 ? wordpiece->inner : TRIE_ROOT, piece + at, size - at, output->limit);
        if (output->limit->is_stopped)
            return work_limit_fault(fault);
        if (token.end == 0) {
            output->count = first;
            return put_unknown(wordpiece, size, output, fault);
        }
        model_output_add(output, token.id, (uint32_t)at, (uint32_t)(at + token.end));
        if (output->failed)
            return true;
        at += token.end;
    }
    return true;
}

static const struct step_field WORDPIECE_FIELDS[] = {
    { STEP_FIELD("continuing_subword_prefix", STEP_STRING, struct wordpiece, prefix) },
    { STEP_FIELD("unk_token", STEP_STRING, struct wordpiece, unknown_token) },
    { STEP_FIELD("max_input_chars_per_word", STEP_INTEGER, struct wordpiece, characters_max),
      .most = INT32_MAX },
};

static bool finish_wordpiece(struct pipeline_build *build, const cJSON *node, const char *where,
                             void *state)
{
    struct wordpiece *wordpiece = state;
    if (!pipeline_vocabulary(build, node, where) || !build_trie(build, &wordpiece->trie))
        return false;
    wordpiece->inner =
        trie_walk(&wordpiece->trie, TRIE_ROOT, wordpiece->prefix.data, wordpiece->prefix.size);
    wordpiece->unknown = vocabulary_find(build->vocabulary, wordpiece->unknown_token.data,
                                         wordpiece->unknown_token.size);
    return true;
}

/* -------------------------------------------------------------- WordLevel -- */

/* Every piece is one token, or the unknown one. */
struct wordlevel {
    struct trie trie; /* of the model's own tokens: not the added ones */
    int32_t unknown;  /* -1: the vocabulary has none */
    struct byte_slice unknown_token;
};

static bool encode_wordlevel(const void *state, const char *piece, int64_t size,
                             struct model_output *output, struct fault *fault)
{
    const struct wordlevel *wordlevel = state;
    const int32_t found = trie_find(&wordlevel->trie, piece, (size_t)size);
    const int32_t id = found >= 0 ? found : wordlevel->unknown;
    if (id < 0)
        return fault_set(fault, FAULT_FIELD,
                         "the text has a word that is no token, and the tokenizer's unk_token %s "
                         "is not in its vocabulary",
                         (const char *)wordlevel->unknown_token.data);
    model_output_add(output, id, 0, (uint32_t)size);
    return true;
}

static const struct step_field WORDLEVEL_FIELDS[] = {
    { STEP_FIELD("unk_token", STEP_STRING, struct wordlevel, unknown_token) },
};

static bool finish_wordlevel(struct pipeline_build *build, const cJSON *node, const char *where,
                             void *state)
{
    struct wordlevel *wordlevel = state;
    if (!pipeline_vocabulary(build, node, where) || !build_trie(build, &wordlevel->trie))
        return false;
    wordlevel->unknown = vocabulary_find(build->vocabulary, wordlevel->unknown_token.data,
                                         wordlevel->unknown_token.size);
    return true;
}

/* ------------------------------------------------------------------ table -- */

static const struct step_type TYPES[] = {
    { "BPE", .model = bpe_encode, .read = bpe_read },
    { "WordPiece", .model = encode_wordpiece, STEP_STATE(struct wordpiece, WORDPIECE_FIELDS),
      .finish = finish_wordpiece },
    { "Unigram", .model = encode_unigram, .state_size = sizeof(struct unigram),
      .finish = finish_unigram },
    { "WordLevel", .model = encode_wordlevel, STEP_STATE(struct wordlevel, WORDLEVEL_FIELDS),
      .finish = finish_wordlevel },
};

/* Older files do not say the type of their model; its fields tell it. */
static const char *guess_type(const cJSON *node)
{
    if (cJSON_HasObjectItem(node, "merges"))
        return "BPE";
    if (cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(node, "vocab")))
        return "Unigram";
    return cJSON_HasObjectItem(node, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

bool model_read(struct pipeline_build *build, const cJSON *node, struct step *step)
{
    static const struct step_kind KIND = { "model", TYPES, sizeof TYPES / sizeof *TYPES };
    return pipeline_step(build, node, &KIND, cJSON_IsObject(node) ? guess_type(node) : NULL, step);
}
