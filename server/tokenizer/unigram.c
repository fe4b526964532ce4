/* unigram.c - the model Unigram: of all ways to cut a text into pieces of the vocabulary, the one
 * whose scores have the largest sum.
 *
 * A walk over the text from left to right keeps, for each byte where a piece may end, the best sum
 * of the pieces before it and where the last of them begins (Viterbi). From each character a trie
 * gives all pieces that begin there, so the work is the text's length times the longest piece's.
 * Of equal sums the one whose last piece begins first stays, as in the reference.
 *
 * A character that is no piece of its own may be an unknown one, at the lowest score less 10.
 * Unknown characters in a row are one token. With byte_fallback such a run is a token for each of
 * its bytes where the vocabulary has all of these ("<0x41>").
 *
 * Source: models/unigram of Hugging Face tokenizers; Kudo, "Subword regularization", 2018,
 * https://arxiv.org/abs/1804.10959. */
#include "tokenizer/model_vocabulary.h"
#include "tokenizer/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "model Unigram"

static const double UNKNOWN_PENALTY = 10;

struct unigram {
    struct trie trie;
    const double *scores; /* by id */
    double unknown_score;
    int32_t unknown; /* -1: there is none */
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
        offer(&paths[start + character], before + unigram->unknown_score, start, unigram->unknown);
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
        model_output_add(output, id >= 0 ? id : unigram->unknown, start, end);
        return;
    }
    for (uint32_t i = start; i < end; i++)
        model_output_add(output, unigram->byte_ids[(unsigned char)text[i]], start, end);
}

static bool encode(const void *state, const char *piece, int64_t size, struct model_output *output,
                   struct fault *fault)
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

/* The score as the reference reads it from its file: the digits as a whole number, times or through
 * a power of ten, each rounded. The last bit of it decides between ways to cut a text whose scores
 * would be equal. The digits of the file are taken to be the fewest that tell the number from its
 * neighbours, which is how all writers of these files write.
 *
 * Source: Deserializer::f64_from_parts() of https://github.com/serde-rs/json. */
static double score_of_reference(double score)
{
    char digits[32];
    int precision = 15;
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, fabs(score));
    while (strtod(digits, NULL) != fabs(score) && ++precision <= 17);
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
static bool read_piece(struct pipeline_build *build, const cJSON *node, int64_t id, double *score)
{
    const cJSON *text = cJSON_GetArrayItem(node, 0), *number = cJSON_GetArrayItem(node, 1);
    if (!cJSON_IsArray(node) || cJSON_GetArraySize(node) != 2 || !cJSON_IsString(text)
        || !cJSON_IsNumber(number) || !isfinite(number->valuedouble))
        return pipeline_fail(build, WHERE, "vocab[%lld] is not a piece and its score",
                             (long long)id);
    struct byte_slice bytes;
    if (!json_string_read(text->valuestring, build->arena, &bytes))
        return fault_no_memory(build->fault);
    if (bytes.size == 0)
        return pipeline_fail(build, WHERE, "vocab[%lld] is a piece of no length", (long long)id);
    *score = score_of_reference(number->valuedouble);
    return model_vocabulary_add(build, WHERE, bytes, id);
}

static bool read_pieces(struct pipeline_build *build, const cJSON *node, struct unigram *unigram)
{
    const cJSON *pieces = cJSON_GetObjectItemCaseSensitive(node, "vocab");
    if (!cJSON_IsArray(pieces) || json_numbers_of(build->document, pieces))
        return pipeline_fail(build, WHERE, "vocab is %s; expected an array of pieces and scores",
                             json_kind(build->document, pieces));
    double *scores = pipeline_alloc(build, (size_t)cJSON_GetArraySize(pieces), sizeof *scores);
    if (!scores)
        return false;
    double lowest = INFINITY;
    int64_t id = 0;
    const cJSON *piece;
    cJSON_ArrayForEach(piece, pieces)
    {
        if (!read_piece(build, piece, id, &scores[id]))
            return false;
        lowest = fmin(lowest, scores[id++]);
    }
    unigram->scores = scores;
    unigram->unknown_score = lowest - UNKNOWN_PENALTY;
    return true;
}

bool unigram_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    struct unigram *unigram = pipeline_alloc(build, 1, sizeof *unigram);
    int64_t unknown = -1;
    if (!unigram || !read_pieces(build, node, unigram)
        || !pipeline_bool(build, node, WHERE, "byte_fallback", false, &unigram->byte_fallback)
        || !pipeline_integer(build, node, WHERE, "unk_id", false, 0, build->vocabulary->id_end - 1,
                             &unknown)
        || !model_vocabulary_trie(build, &unigram->trie))
        return false;
    unigram->unknown = (int32_t)unknown;
    for (int byte = 0; byte < 256; byte++) {
        char token[8];
        const int size = snprintf(token, sizeof token, "<0x%02X>", (unsigned)byte);
        unigram->byte_ids[byte] = vocabulary_find(build->vocabulary, token, (size_t)size);
    }
    *(struct model *)step = (struct model){ "Unigram", encode, unigram };
    return true;
}
