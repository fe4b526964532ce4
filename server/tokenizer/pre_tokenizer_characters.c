/* pre_tokenizer_characters.c - pre-tokenizers that cut by the class of each character: white space,
 * punctuation, digits, one delimiter; and by the count of characters. */
#include "tokenizer/pre_tokenizer_types.h"
#include "tokenizer/split.h"
#include "tokenizer/unicode.h"

/* Each character of the class is a match of its own. */
struct character_class {
    bool (*has)(uint32_t code, uint32_t delimiter);
    uint32_t delimiter;
    enum split_behavior behavior;
};

static bool cut_by_class(const void *state, struct pieces *pieces, const struct piece *piece,
                         struct fault *fault)
{
    (void)fault;
    const struct character_class *class = state;
    struct split split;
    split_begin(&split, pieces, class->behavior);
    uint32_t begin = piece->start; /* of the segment without a match */
    for (uint32_t at = piece->start, code; at < piece->end;) {
        const uint32_t after = at + unicode_decode(pieces->bytes + at, &code);
        if (class->has(code, class->delimiter)) {
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

static bool split_by_class(const void *state, struct pieces *pieces, struct fault *fault)
{
    return split_pieces(pieces, cut_by_class, state, fault);
}

static bool is_whitespace(uint32_t code, uint32_t delimiter)
{
    (void)delimiter;
    return unicode_is_whitespace(code);
}

static bool is_punctuation(uint32_t code, uint32_t delimiter)
{
    (void)delimiter;
    if (code < 0x80)
        return (code > 0x20 && code < '0') || (code > '9' && code < 'A')
               || (code > 'Z' && code < 'a') || (code > 'z' && code < 0x7f);
    return unicode_is_punctuation(code);
}

static bool is_numeric(uint32_t code, uint32_t delimiter)
{
    (void)delimiter;
    return unicode_is_numeric(code);
}

static bool is_delimiter(uint32_t code, uint32_t delimiter)
{
    return code == delimiter;
}

static bool make_class(struct pipeline_build *build, struct pre_tokenizer *step,
                       struct character_class class)
{
    struct character_class *state = pipeline_alloc(build, 1, sizeof *state);
    if (!state)
        return false;
    *state = class;
    *step = (struct pre_tokenizer){ split_by_class, state };
    return true;
}

/* ----------------------------------------------------------------- types -- */

bool whitespace_split_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    (void)node;
    return make_class(build, step,
                      (struct character_class){ .has = is_whitespace, .behavior = SPLIT_REMOVED });
}

bool punctuation_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    struct character_class class = { .has = is_punctuation, .behavior = SPLIT_ISOLATED };
    return split_read_behavior(build, node, "pre_tokenizer Punctuation", false, &class.behavior)
           && make_class(build, step, class);
}

bool digits_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    bool individual = false;
    if (!pipeline_bool(build, node, "pre_tokenizer Digits", "individual_digits", true, &individual))
        return false;
    return make_class(build, step,
                      (struct character_class){
                          .has = is_numeric,
                          .behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS,
                      });
}

bool delimiter_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    struct character_class class = { .has = is_delimiter, .behavior = SPLIT_REMOVED };
    return pipeline_character(build, node, "pre_tokenizer CharDelimiterSplit", "delimiter",
                              &class.delimiter)
           && make_class(build, step, class);
}

static bool bert_run(const void *state, struct pieces *pieces, struct fault *fault)
{
    (void)state;
    const struct character_class whitespace = { .has = is_whitespace, .behavior = SPLIT_REMOVED };
    const struct character_class punctuation = { .has = is_punctuation,
                                                 .behavior = SPLIT_ISOLATED };
    return split_by_class(&whitespace, pieces, fault)
           && split_by_class(&punctuation, pieces, fault);
}

bool bert_pre_tokenizer_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    (void)build, (void)node;
    *(struct pre_tokenizer *)step = (struct pre_tokenizer){ bert_run, NULL };
    return true;
}

/* ------------------------------------------------------------ whitespace -- */

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

static bool whitespace_run(const void *state, struct pieces *pieces, struct fault *fault)
{
    return split_pieces(pieces, cut_words, state, fault);
}

bool whitespace_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    (void)build, (void)node;
    *(struct pre_tokenizer *)step = (struct pre_tokenizer){ whitespace_run, NULL };
    return true;
}

/* ---------------------------------------------------------- fixed length -- */

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

static bool fixed_length_run(const void *state, struct pieces *pieces, struct fault *fault)
{
    return split_pieces(pieces, cut_chunks, state, fault);
}

bool fixed_length_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    int64_t *length = pipeline_alloc(build, 1, sizeof *length);
    if (!length)
        return false;
    *length = 5;
    *(struct pre_tokenizer *)step = (struct pre_tokenizer){ fixed_length_run, length };
    return pipeline_integer(build, node, "pre_tokenizer FixedLength", "length", false, 1,
                            PIECES_TEXT_BYTES_MAX, length);
}
