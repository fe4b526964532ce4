/* SPDX-License-Identifier: Apache-2.0 */
/* normalizer.c - the table of normalizers, and those that need no file of their own. */
#include "models/tokenizer/normalizer.h"

#include "base/utf8.h"
#include "models/tokenizer/byte_level.h"
#include "models/tokenizer/unicode.h"

#include <string.h>

/* ------------------------------------------------- character by character -- */

static bool run_map(const void *state, struct pieces *pieces, struct fault *fault)
{
    return pieces_map_characters(pieces, *(pieces_character_map *const *)state, NULL, fault);
}

static int lowercase(const void *state, uint32_t code, uint32_t out[PIECES_MAPPED_MAX])
{
    (void)state;
    const size_t count = unicode_lowercase(code, out);
    return count == 1 && out[0] == code ? PIECES_UNCHANGED : (int)count;
}

static int strip_accents(const void *state, uint32_t code, uint32_t out[PIECES_MAPPED_MAX])
{
    (void)state, (void)out;
    return unicode_is_mark(code) ? 0 : PIECES_UNCHANGED;
}

/* The rules of Google's neural machine translation, as the reference has them. */
static int nmt(const void *state, uint32_t code, uint32_t out[PIECES_MAPPED_MAX])
{
    (void)state;
    out[0] = ' ';
    if (code < 0x20)
        return code == 0 ? PIECES_UNCHANGED
                         : code == '\t' || code == '\n' || code == '\f' || code == '\r';
    if (code == 0x7F || code == 0x8F || code == 0x9F)
        return 0;
    const bool is_space = code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028
                          || code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    return is_space ? 1 : PIECES_UNCHANGED;
}

/* ------------------------------------------------------------------- BERT -- */

/* Control characters go, white space becomes a space, Chinese characters stand alone, accents go,
 * letters become small. */
struct bert {
    bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};

static bool is_dropped(uint32_t code)
{
    if (code == '\t' || code == '\n' || code == '\r')
        return false;
    return code == 0 || code == 0xFFFD || unicode_is_other(code);
}

/* The blocks of CJK ideographs, as the reference has them. */
static bool is_chinese(uint32_t code)
{
    static const uint32_t BLOCKS[][2] = {
        { 0x3400, 0x4DBF },   { 0x4E00, 0x9FFF },   { 0xF900, 0xFAFF },   { 0x20000, 0x2A6DF },
        { 0x2A700, 0x2B73F }, { 0x2B740, 0x2B81F }, { 0x2B920, 0x2CEAF }, { 0x2F800, 0x2FA1F },
    };
    if (code < 0x3400)
        return false;
    for (size_t i = 0; i < sizeof BLOCKS / sizeof BLOCKS[0]; i++)
        if (code >= BLOCKS[i][0] && code <= BLOCKS[i][1])
            return true;
    return false;
}

static int clean(const void *state, uint32_t code, uint32_t out[PIECES_MAPPED_MAX])
{
    const struct bert *bert = state;
    if (code >= ' ' && code < 0x7F)
        return PIECES_UNCHANGED;
    if (bert->clean_text && is_dropped(code))
        return 0;
    if (bert->clean_text && unicode_is_whitespace(code)) {
        out[0] = ' ';
        return 1;
    }
    if (!bert->handle_chinese_chars || !is_chinese(code))
        return PIECES_UNCHANGED;
    out[0] = out[2] = ' ';
    out[1] = code;
    return 3;
}

static int strip_and_lower(const void *state, uint32_t code, uint32_t out[PIECES_MAPPED_MAX])
{
    const struct bert *bert = state;
    if (bert->strip_accents && unicode_is_nonspacing(code))
        return 0;
    return bert->lowercase ? lowercase(NULL, code, out) : PIECES_UNCHANGED;
}

static bool run_bert(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct bert *bert = state;
    return pieces_map_characters(pieces, clean, bert, fault)
           && (!bert->strip_accents || normal_form_run(&NORMAL_FORM_NFD, pieces, fault))
           && pieces_map_characters(pieces, strip_and_lower, bert, fault);
}

static const struct step_field BERT_FIELDS[] = {
    { STEP_FIELD("clean_text", STEP_BOOL, struct bert, clean_text) },
    { STEP_FIELD("handle_chinese_chars", STEP_BOOL, struct bert, handle_chinese_chars) },
    { STEP_FIELD("lowercase", STEP_BOOL, struct bert, lowercase) },
};

static bool finish_bert(struct pipeline_build *build, const cJSON *node, const char *where,
                        void *state)
{
    static const struct step_field STRIP_ACCENTS = { "strip_accents", STEP_BOOL,
                                                     offsetof(struct bert, strip_accents),
                                                     .is_optional = true };
    struct bert *bert = state;
    bert->strip_accents = bert->lowercase; /* what null means */
    return pipeline_fields(build, node, where, &STRIP_ACCENTS, 1, bert);
}

/* ---------------------------------------------------------- piece by piece -- */

struct strip {
    bool left, right;
};

static const struct step_field STRIP_FIELDS[] = {
    { STEP_FIELD("strip_left", STEP_BOOL, struct strip, left) },
    { STEP_FIELD("strip_right", STEP_BOOL, struct strip, right) },
};

static bool strip_piece(const void *state, struct pieces *pieces, const struct piece *piece,
                        struct fault *fault)
{
    (void)fault;
    const struct strip *strip = state;
    uint32_t start = piece->start, end = piece->end, code;
    while (strip->left && start < end) {
        const uint32_t size = unicode_decode(pieces->bytes + start, &code);
        if (!unicode_is_whitespace(code))
            break;
        start += size;
    }
    while (strip->right && start < end) {
        const uint32_t before = unicode_before(pieces->bytes, end, &code);
        if (!unicode_is_whitespace(code))
            break;
        end = before;
    }
    pieces_copy(pieces, start, end);
    return true;
}

static const struct step_field PREPEND_FIELDS[] = { { STEP_VALUE("prepend", STEP_STRING) } };

static bool prepend_to_piece(const void *state, struct pieces *pieces, const struct piece *piece,
                             struct fault *fault)
{
    (void)fault;
    const struct byte_slice *text = state;
    if (piece->start < piece->end)
        pieces_put(pieces, text->data, text->size,
                   pieces_span(pieces, piece->start, piece->start + 1));
    pieces_copy(pieces, piece->start, piece->end);
    return true;
}

/* Each byte becomes the character of byte_level.h, with the span of the character it was in. */
static bool byte_level_piece(const void *state, struct pieces *pieces, const struct piece *piece,
                             struct fault *fault)
{
    (void)state, (void)fault;
    for (uint32_t at = piece->start; at < piece->end; at++) {
        char out[4];
        const size_t size =
            utf8_encode(out, byte_level_character((unsigned char)pieces->bytes[at]));
        pieces_put(pieces, out, size, pieces_span(pieces, at, at + 1));
    }
    return true;
}

/* ----------------------------------------------------------------- replace -- */

struct replace {
    struct step_pattern pattern;
    struct byte_slice content;
};

static const struct step_field REPLACE_FIELDS[] = {
    { STEP_FIELD("pattern", STEP_MATCHER, struct replace, pattern) },
    { STEP_FIELD("content", STEP_STRING, struct replace, content) },
};

/* A match has the span of its last character; an empty one that of the character before it. */
static void replace_match(const struct replace *replace, struct pieces *pieces,
                          const struct piece *piece, uint32_t end)
{
    struct pieces_span span = { piece->origin, piece->origin };
    if (end > piece->start)
        span = pieces_span(pieces, end - 1, end);
    pieces_put(pieces, replace->content.data, replace->content.size, span);
}

static void replace_literal(const struct replace *replace, struct pieces *pieces,
                            const struct piece *piece)
{
    const struct byte_slice literal = replace->pattern.literal;
    uint32_t at = piece->start;
    while (at < piece->end && !pieces->failed) {
        const char *found = memmem(pieces->bytes + at, piece->end - at, literal.data, literal.size);
        if (!found)
            break;
        const uint32_t start = (uint32_t)(found - pieces->bytes);
        pieces_copy(pieces, at, start);
        at = start + (uint32_t)literal.size;
        replace_match(replace, pieces, piece, at);
    }
    pieces_copy(pieces, at, piece->end);
}

static bool replace_regex(const struct replace *replace, struct pieces *pieces,
                          const struct piece *piece, struct fault *fault)
{
    struct regex_scan scan;
    regex_scan_init(&scan, replace->pattern.regex, pieces->bytes + piece->start,
                    piece->end - piece->start, pieces->limit);
    uint32_t at = piece->start;
    bool found = true, is_fine = true;
    while (is_fine && found && !pieces->failed) {
        int64_t start, end;
        is_fine = regex_scan_next(&scan, &found, &start, &end, fault);
        if (!is_fine || !found)
            break;
        pieces_copy(pieces, at, piece->start + (uint32_t)start);
        at = piece->start + (uint32_t)end;
        replace_match(replace, pieces, piece, at);
    }
    regex_scan_free(&scan);
    pieces_copy(pieces, at, piece->end);
    return is_fine;
}

static bool may_match(const void *state, const struct pieces *pieces, const struct piece *piece)
{
    const struct replace *replace = state;
    const struct byte_slice literal = replace->pattern.literal;
    return replace->pattern.regex
           || memmem(pieces->bytes + piece->start, piece->end - piece->start, literal.data,
                     literal.size);
}

static bool replace_in_piece(const void *state, struct pieces *pieces, const struct piece *piece,
                             struct fault *fault)
{
    const struct replace *replace = state;
    if (!replace->pattern.regex)
        replace_literal(replace, pieces, piece);
    return !replace->pattern.regex || piece->start == piece->end
           || replace_regex(replace, pieces, piece, fault);
}

/* ------------------------------------------------------------------- table -- */

static const struct step_field SEQUENCE_FIELDS[] = { { STEP_VALUE("normalizers", STEP_STEPS) } };

static bool run_sequence(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct step_list *list = state;
    for (int64_t i = 0; i < list->count; i++) {
        /* A step that changes nothing counts nothing by itself. */
        if (!work_limit_spend(pieces->limit, pieces->size))
            return work_limit_fault(fault);
        if (!pipeline_run(&list->steps[i], pieces, fault))
            return false;
    }
    return true;
}

#define FORM(form) .pieces = normal_form_run, STEP_DEFAULTS(form)
#define MAP(map)   .pieces = run_map, STEP_DEFAULTS(map)

static pieces_character_map *const LOWERCASE = lowercase, *const STRIP_ACCENTS = strip_accents,
                                   *const NMT = nmt;

static const struct step_type TYPES[] = {
    { "Sequence", .pieces = run_sequence, STEP_STATE(struct step_list, SEQUENCE_FIELDS) },
    { "BertNormalizer", .pieces = run_bert, STEP_STATE(struct bert, BERT_FIELDS),
      .finish = finish_bert },
    { "NFC", FORM(NORMAL_FORM_NFC) },
    { "NFD", FORM(NORMAL_FORM_NFD) },
    { "NFKC", FORM(NORMAL_FORM_NFKC) },
    { "NFKD", FORM(NORMAL_FORM_NFKD) },
    { "Lowercase", MAP(LOWERCASE) },
    { "StripAccents", MAP(STRIP_ACCENTS) },
    { "Strip", .rewrite = strip_piece, STEP_STATE(struct strip, STRIP_FIELDS) },
    { "Replace", .rewrite = replace_in_piece, .changes = may_match,
      STEP_STATE(struct replace, REPLACE_FIELDS) },
    { "Prepend", .rewrite = prepend_to_piece, STEP_STATE(struct byte_slice, PREPEND_FIELDS) },
    { "Precompiled", .rewrite = precompiled_rewrite, .changes = precompiled_changes,
      .read = precompiled_read },
    { "ByteLevel", .rewrite = byte_level_piece },
    { "Nmt", MAP(NMT) },
};

bool normalizer_read(struct pipeline_build *build, const cJSON *node, struct step *step)
{
    static const struct step_kind KIND = { "normalizer", TYPES, sizeof TYPES / sizeof *TYPES };
    return pipeline_step(build, node, &KIND, NULL, step);
}
