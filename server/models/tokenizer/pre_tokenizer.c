/* SPDX-License-Identifier: Apache-2.0 */
/* pre_tokenizer.c - the pre-tokenizers: a text is cut into the pieces that a model sees.
 *
 * Most cut at matches: of a regular expression, of a literal text, or of single characters. */
#include "models/tokenizer/pre_tokenizer.h"

#include "base/utf8.h"
#include "models/tokenizer/byte_level.h"
#include "models/tokenizer/unicode.h"
#include "json/text.h"

#include <string.h>

/* ------------------------------------------------------------- what is cut -- */

/* What becomes of the matches: SplitDelimiterBehavior of the reference. For "-" in
 * "the-final--end":
 *
 *     removed                 the  final  end
 *     isolated                the - final - - end
 *     merged with previous    the- final- - end
 *     merged with next        the -final - -end
 *     contiguous              the - final -- end */
enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
};

/* One piece that is being cut. */
struct split {
    struct pieces *pieces;
    enum split_behavior behavior;
    uint32_t start, end; /* what is not cut yet, because it may be merged with what comes */
    bool is_open, was_match;
};

static const char *const BEHAVIORS[] = { [SPLIT_REMOVED] = "Removed",
                                         [SPLIT_ISOLATED] = "Isolated",
                                         [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                         [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
                                         [SPLIT_CONTIGUOUS] = "Contiguous",
                                         NULL };

/* Whether a segment joins the open one. */
static bool joins(const struct split *split, bool is_match)
{
    if (!split->is_open)
        return false;
    if (split->behavior == SPLIT_CONTIGUOUS)
        return is_match == split->was_match;
    if (split->behavior == SPLIT_MERGED_WITH_PREVIOUS)
        return is_match && !split->was_match;
    return !is_match && split->was_match;
}

static void split_end(struct split *split)
{
    if (split->is_open)
        pieces_cut(split->pieces, split->start, split->end);
    split->is_open = false;
}

/* Appends the next segment of the piece, in order and without a gap: a match, or what lies between
 * two of them. */
static void split_add(struct split *split, uint32_t start, uint32_t end, bool is_match)
{
    if (split->behavior == SPLIT_ISOLATED || (split->behavior == SPLIT_REMOVED && !is_match))
        pieces_cut(split->pieces, start, end);
    if (split->behavior == SPLIT_ISOLATED || split->behavior == SPLIT_REMOVED)
        return;
    if (!joins(split, is_match)) {
        split_end(split);
        split->start = start;
        split->is_open = true;
    }
    split->end = end;
    split->was_match = is_match;
}

/* ---------------------------------------------------------------- patterns -- */

/* The matches of a pattern, as Split has them. invert: what lies between the matches counts as
 * matches, and the other way round. */
struct split_pattern {
    struct step_pattern pattern;
    enum split_behavior behavior;
    bool invert;
};

static void split_by_literal(const struct split_pattern *pattern, struct pieces *pieces,
                             const struct piece *piece)
{
    struct split split = { .pieces = pieces, .behavior = pattern->behavior };
    const struct byte_slice literal = pattern->pattern.literal;
    const char *text = pieces->bytes;
    uint32_t at = piece->start;
    while (at < piece->end) {
        const char *found = memmem(text + at, piece->end - at, literal.data, literal.size);
        const uint32_t start = found ? (uint32_t)(found - text) : piece->end;
        if (start > at)
            split_add(&split, at, start, pattern->invert);
        if (found)
            split_add(&split, start, start + (uint32_t)literal.size, !pattern->invert);
        at = found ? start + (uint32_t)literal.size : piece->end;
    }
    split_end(&split);
}

static bool split_by_regex(const struct split_pattern *pattern, struct regex_scan *scan,
                           struct pieces *pieces, const struct piece *piece, struct fault *fault)
{
    struct split split = { .pieces = pieces, .behavior = pattern->behavior };
    regex_scan_restart(scan, pieces->bytes + piece->start, piece->end - piece->start);
    int64_t start, end;
    uint32_t at = piece->start;
    for (bool found;;) {
        if (!regex_scan_next(scan, &found, &start, &end, fault))
            return false;
        if (!found)
            break;
        const uint32_t from = piece->start + (uint32_t)start, to = piece->start + (uint32_t)end;
        if (from != at)
            split_add(&split, at, from, pattern->invert);
        split_add(&split, from, to, !pattern->invert);
        at = to;
    }
    if (at != piece->end)
        split_add(&split, at, piece->end, pattern->invert);
    split_end(&split);
    return true;
}

struct pattern_scan {
    const struct split_pattern *pattern;
    struct regex_scan *scan;
};

static bool cut_by_pattern(const void *state, struct pieces *pieces, const struct piece *piece,
                           struct fault *fault)
{
    const struct pattern_scan *cut = state;
    if (cut->pattern->pattern.regex)
        return split_by_regex(cut->pattern, cut->scan, pieces, piece, fault);
    split_by_literal(cut->pattern, pieces, piece);
    return true;
}

static bool split_by_pattern(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct split_pattern *pattern = state;
    struct regex_scan scan;
    regex_scan_init(&scan, pattern->pattern.regex, "", 0, pieces->limit);
    const struct pattern_scan cut = { pattern, &scan };
    const bool ok = pieces_split(pieces, NULL, cut_by_pattern, &cut, fault);
    regex_scan_free(&scan);
    return ok;
}

static const struct step_field SPLIT_FIELDS[] = {
    { STEP_FIELD("pattern", STEP_MATCHER, struct split_pattern, pattern) },
    { STEP_FIELD("behavior", STEP_CHOICE, struct split_pattern, behavior), .names = BEHAVIORS },
    { STEP_FIELD("invert", STEP_BOOL, struct split_pattern, invert) },
};

/* A literal text that is removed. */
static const struct step_field DELIMITER_FIELDS[] = {
    { STEP_FIELD("delimiter", STEP_CHARACTER, struct split_pattern, pattern.literal) },
};

static const struct split_pattern SCRIPTS = { .behavior = SPLIT_REMOVED, .invert = true };

static bool finish_scripts(struct pipeline_build *build, const cJSON *node, const char *where,
                           void *state)
{
    (void)node, (void)where;
    struct split_pattern *split = state;
    struct text pattern;
    text_init(&pattern, REGEX_PATTERN_BYTES_MAX);
    scripts_write_pattern(&pattern);
    if (text_finish(&pattern, build->fault))
        split->pattern.regex = pipeline_regex(build, pattern.data, pattern.used);
    text_free(&pattern);
    return split->pattern.regex != NULL;
}

/* -------------------------------------------------------------- characters -- */

/* Each character of the class is a match of its own. */
struct character_class {
    bool (*has)(uint32_t code);
    enum split_behavior behavior;
    bool individual; /* of Digits, which has no behavior */
};

static bool cut_by_class(const void *state, struct pieces *pieces, const struct piece *piece,
                         struct fault *fault)
{
    (void)fault;
    const struct character_class *class = state;
    struct split split = { .pieces = pieces, .behavior = class->behavior };
    uint32_t begin = piece->start; /* of the segment without a match */
    for (uint32_t at = piece->start, code; at < piece->end;) {
        const uint32_t after = at + unicode_decode(pieces->bytes + at, &code);
        if (class->has(code)) {
            if (begin < at)
                split_add(&split, begin, at, false);
            split_add(&split, at, after, true);
            begin = after;
        }
        at = after;
    }
    if (begin < piece->end)
        split_add(&split, begin, piece->end, false);
    split_end(&split);
    return true;
}

static bool is_punctuation(uint32_t code)
{
    if (code < 0x80)
        return (code > 0x20 && code < '0') || (code > '9' && code < 'A')
               || (code > 'Z' && code < 'a') || (code > 'z' && code < 0x7f);
    return unicode_is_punctuation(code);
}

static const struct character_class WHITESPACE = { unicode_is_whitespace, SPLIT_REMOVED, false };
static const struct character_class PUNCTUATION = { is_punctuation, SPLIT_ISOLATED, false };
static const struct character_class DIGITS = { unicode_is_numeric, SPLIT_CONTIGUOUS, false };

static const struct step_field PUNCTUATION_FIELDS[] = {
    { STEP_FIELD("behavior", STEP_CHOICE, struct character_class, behavior), .is_optional = true,
      .names = BEHAVIORS },
};

static const struct step_field DIGITS_FIELDS[] = {
    { STEP_FIELD("individual_digits", STEP_BOOL, struct character_class, individual) },
};

static bool finish_digits(struct pipeline_build *build, const cJSON *node, const char *where,
                          void *state)
{
    (void)build, (void)node, (void)where;
    struct character_class *digits = state;
    digits->behavior = digits->individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return true;
}

static bool run_bert(const void *state, struct pieces *pieces, struct fault *fault)
{
    (void)state;
    return pieces_split(pieces, NULL, cut_by_class, &WHITESPACE, fault)
           && pieces_split(pieces, NULL, cut_by_class, &PUNCTUATION, fault);
}

enum word_class { CLASS_SPACE, CLASS_WORD, CLASS_OTHER };

static enum word_class word_class(uint32_t code)
{
    if (unicode_is_word(code))
        return CLASS_WORD;
    return unicode_is_whitespace(code) ? CLASS_SPACE : CLASS_OTHER;
}

/* Keeps runs of characters of words, and runs of other characters that are no white space: the
 * matches of \w+|[^\w\s]+. */
static bool cut_words(const void *state, struct pieces *pieces, const struct piece *piece,
                      struct fault *fault)
{
    (void)state, (void)fault;
    uint32_t begin = piece->start;
    enum word_class run = CLASS_SPACE;
    for (uint32_t at = piece->start, code; at < piece->end;) {
        const uint32_t after = at + unicode_decode(pieces->bytes + at, &code);
        const enum word_class class = word_class(code);
        if (class != run) {
            if (run != CLASS_SPACE)
                pieces_cut(pieces, begin, at);
            begin = at;
            run = class;
        }
        at = after;
    }
    if (run != CLASS_SPACE)
        pieces_cut(pieces, begin, piece->end);
    return true;
}

static const int64_t LENGTH = 5;
static const struct step_field LENGTH_FIELDS[] = {
    { STEP_VALUE("length", STEP_INTEGER), .is_optional = true, .least = 1,
      .most = PIECES_TEXT_BYTES_MAX },
};

static bool cut_chunks(const void *state, struct pieces *pieces, const struct piece *piece,
                       struct fault *fault)
{
    (void)fault;
    const int64_t length = *(const int64_t *)state;
    uint32_t begin = piece->start, at = piece->start, code;
    for (int64_t characters = 0; at < piece->end;) {
        at += unicode_decode(pieces->bytes + at, &code);
        if (++characters == length) {
            pieces_cut(pieces, begin, at);
            begin = at;
            characters = 0;
        }
    }
    pieces_cut(pieces, begin, piece->end);
    return true;
}

/* -------------------------------------------------------------- byte level -- */

/* Cuts as GPT-2 does, and writes each byte as a visible character. */
struct byte_level {
    bool adds_prefix_space, trims_offsets, uses_regex;
    struct split_pattern words; /* regex is NULL where it is not used */
    struct pieces_mapped alphabet[256];
};

static const struct byte_level BYTE_LEVEL = { .uses_regex = true,
                                              .words.behavior = SPLIT_ISOLATED };

static const struct step_field BYTE_LEVEL_FIELDS[] = {
    { STEP_FIELD("add_prefix_space", STEP_BOOL, struct byte_level, adds_prefix_space) },
    { STEP_FIELD("trim_offsets", STEP_BOOL, struct byte_level, trims_offsets) },
    { STEP_FIELD("use_regex", STEP_BOOL, struct byte_level, uses_regex), .is_optional = true },
};

static bool finish_byte_level(struct pipeline_build *build, const cJSON *node, const char *where,
                              void *state)
{
    static const char WORDS[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    (void)node, (void)where;
    struct byte_level *level = state;
    for (int byte = 0; byte < 256; byte++) {
        char bytes[4];
        const size_t size = utf8_encode(bytes, byte_level_character((uint8_t)byte));
        level->alphabet[byte] =
            (struct pieces_mapped){ .bytes = { bytes[0], size > 1 ? bytes[1] : 0 },
                                    .size = (uint8_t)size };
    }
    return !level->uses_regex
           || (level->words.pattern.regex = pipeline_regex(build, WORDS, sizeof WORDS - 1));
}

static bool add_prefix_space(const void *state, struct pieces *pieces, const struct piece *piece,
                             struct fault *fault)
{
    (void)state, (void)fault;
    if (piece->start < piece->end && pieces->bytes[piece->start] != ' ')
        pieces_put(pieces, " ", 1, pieces_span(pieces, piece->start, piece->start + 1));
    pieces_copy(pieces, piece->start, piece->end);
    return true;
}

static bool map_bytes(const void *state, struct pieces *pieces, const struct piece *piece,
                      struct fault *fault)
{
    (void)fault;
    const struct byte_level *level = state;
    pieces_map(pieces, piece->start, piece->end, level->alphabet);
    return true;
}

static bool run_byte_level(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct byte_level *level = state;
    return (!level->adds_prefix_space
            || pieces_rewrite(pieces, NULL, add_prefix_space, NULL, fault))
           && (!level->words.pattern.regex || split_by_pattern(&level->words, pieces, fault))
           && pieces_rewrite(pieces, NULL, map_bytes, level, fault);
}

/* --------------------------------------------------------------- metaspace -- */

static const char *const SCHEMES[] = { [METASPACE_ALWAYS] = "always",
                                       [METASPACE_FIRST] = "first",
                                       [METASPACE_NEVER] = "never",
                                       [METASPACE_NEVER + 1] = NULL };

const struct metaspace_options METASPACE_DEFAULTS = { .scheme = -1,
                                                      .adds_prefix = true,
                                                      .splits = true };

const struct step_field METASPACE_FIELDS[METASPACE_FIELD_COUNT] = {
    { STEP_FIELD("replacement", STEP_CHARACTER, struct metaspace_options, replacement) },
    { STEP_FIELD("prepend_scheme", STEP_CHOICE, struct metaspace_options, scheme),
      .is_optional = true, .names = SCHEMES },
    { STEP_FIELD("add_prefix_space", STEP_BOOL, struct metaspace_options, adds_prefix),
      .is_optional = true },
    { STEP_FIELD("split", STEP_BOOL, struct metaspace_options, splits), .is_optional = true },
};

bool metaspace_finish(struct pipeline_build *build, const cJSON *node, const char *where,
                      void *state)
{
    (void)node;
    struct metaspace_options *options = state;
    if (options->scheme < 0) /* files from before prepend_scheme have add_prefix_space alone */
        options->scheme = options->adds_prefix ? METASPACE_ALWAYS : METASPACE_NEVER;
    return options->adds_prefix || options->scheme == METASPACE_NEVER
           || pipeline_fail(build, where, "add_prefix_space is false, but prepend_scheme is %s",
                            SCHEMES[options->scheme]);
}

static bool wants_prefix(const struct metaspace_options *options, const char *text,
                         const struct piece *piece)
{
    if (piece->start == piece->end || options->scheme == METASPACE_NEVER
        || (options->scheme == METASPACE_FIRST && piece->origin != 0))
        return false;
    return text[piece->start] != ' '
           && (piece->end - piece->start < options->replacement.size
               || memcmp(text + piece->start, options->replacement.data, options->replacement.size)
                      != 0);
}

static bool rewrite_spaces(const void *state, struct pieces *pieces, const struct piece *piece,
                           struct fault *fault)
{
    (void)fault;
    const struct metaspace_options *options = state;
    const struct byte_slice replacement = options->replacement;
    const char *text = pieces->bytes;
    if (wants_prefix(options, text, piece))
        pieces_put(pieces, replacement.data, replacement.size,
                   pieces_span(pieces, piece->start, piece->start + 1));
    for (uint32_t at = piece->start; at < piece->end;) {
        const char *space = memchr(text + at, ' ', piece->end - at);
        const uint32_t to = space ? (uint32_t)(space - text) : piece->end;
        pieces_copy(pieces, at, to);
        if (space)
            pieces_put(pieces, replacement.data, replacement.size, pieces_span(pieces, to, to + 1));
        at = to + 1;
    }
    return true;
}

/* A visible character in place of each space, as in SentencePiece, and a cut before each of them.
 */
static bool run_metaspace(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct metaspace_options *options = state;
    const struct split_pattern split = { .pattern.literal = options->replacement,
                                         .behavior = SPLIT_MERGED_WITH_NEXT };
    return pieces_rewrite(pieces, NULL, rewrite_spaces, options, fault)
           && (!options->splits || split_by_pattern(&split, pieces, fault));
}

/* ------------------------------------------------------------------- table -- */

static const struct step_field SEQUENCE_FIELDS[] = { { STEP_VALUE("pretokenizers", STEP_STEPS) } };

static bool run_sequence(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct step_list *list = state;
    for (int64_t i = 0; i < list->count; i++)
        if (!pipeline_run(&list->steps[i], pieces, fault))
            return false;
    return true;
}

#define CLASS(object) .split = cut_by_class, STEP_DEFAULTS(object)
#define FIELDS(list)  .fields = (list), .field_count = sizeof(list) / sizeof(list)[0]

static const struct step_type TYPES[] = {
    { "Sequence", .pieces = run_sequence, STEP_STATE(struct step_list, SEQUENCE_FIELDS) },
    { "BertPreTokenizer", .pieces = run_bert },
    { "ByteLevel", .pieces = run_byte_level, STEP_DEFAULTS(BYTE_LEVEL), FIELDS(BYTE_LEVEL_FIELDS),
      .finish = finish_byte_level },
    { "CharDelimiterSplit", .pieces = split_by_pattern,
      STEP_STATE(struct split_pattern, DELIMITER_FIELDS) },
    { "Digits", CLASS(DIGITS), FIELDS(DIGITS_FIELDS), .finish = finish_digits },
    { "FixedLength", .split = cut_chunks, STEP_DEFAULTS(LENGTH), FIELDS(LENGTH_FIELDS) },
    { "Metaspace", .pieces = run_metaspace, METASPACE_OPTIONS },
    { "Punctuation", CLASS(PUNCTUATION), FIELDS(PUNCTUATION_FIELDS) },
    { "Split", .pieces = split_by_pattern, STEP_STATE(struct split_pattern, SPLIT_FIELDS) },
    { "UnicodeScripts", .pieces = split_by_pattern, STEP_DEFAULTS(SCRIPTS),
      .finish = finish_scripts },
    { "Whitespace", .split = cut_words },
    { "WhitespaceSplit", CLASS(WHITESPACE) },
};

bool pre_tokenizer_read(struct pipeline_build *build, const cJSON *node, struct step *step)
{
    static const struct step_kind KIND = { "pre_tokenizer", TYPES, sizeof TYPES / sizeof *TYPES };
    return pipeline_step(build, node, &KIND, NULL, step);
}
