/* SPDX-License-Identifier: Apache-2.0 */
/* decoder.c - the decoders: the texts of tokens become one text.
 *
 * Texts are made in the arena of a decoding. A function that returns a slice returns one whose data
 * is NULL where there is no memory, or the request is over. */
#include "base/utf8.h"
#include "models/tokenizer/byte_level.h"
#include "models/tokenizer/pre_tokenizer.h"
#include "models/tokenizer/unicode.h"

#include <string.h>

/* -------------------------------------------------------- changes of texts -- */

enum { STEPS_MATCH = 8 };

static struct byte_slice slice_of(const char *string)
{
    return (struct byte_slice){ string, strlen(string) };
}

static bool begins(struct byte_slice text, struct byte_slice prefix)
{
    return text.size >= prefix.size
           && (prefix.size == 0 || memcmp(text.data, prefix.data, prefix.size) == 0);
}

/* The next occurrence at `at` or behind; SIZE_MAX: none. */
static size_t find(struct byte_slice text, size_t at, struct byte_slice what)
{
    if (at > text.size)
        return SIZE_MAX;
    if (what.size == 0)
        return at;
    const char *bytes = text.data;
    const char *found = memmem(bytes + at, text.size - at, what.data, what.size);
    return found ? (size_t)(found - bytes) : SIZE_MAX;
}

/* Where the search goes on behind an occurrence. */
static size_t behind(struct byte_slice text, size_t found, size_t size)
{
    if (size > 0)
        return found + size;
    const size_t step = utf8_character_size((const char *)text.data + found, text.size - found);
    return found + (step > 0 ? step : 1);
}

/* The text with every occurrence of `from` replaced, from left to right; the text itself where
 * there is none. An empty `from` occurs before each character and at the end. */
static struct byte_slice replace_all(struct byte_slice text, struct byte_slice from,
                                     struct byte_slice to, const struct decoder_texts *texts)
{
    size_t count = 0;
    for (size_t at = 0; (at = find(text, at, from)) != SIZE_MAX; count++) {
        if (!work_limit_spend(texts->limit, STEPS_MATCH))
            return (struct byte_slice){ NULL, 0 };
        at = behind(text, at, from.size);
    }
    if (count == 0)
        return text;
    char *out = arena_alloc(texts->arena, text.size + count * to.size);
    if (!out)
        return (struct byte_slice){ NULL, 0 };
    const char *bytes = text.data;
    size_t used = 0, copied = 0, found;
    for (size_t at = 0; (found = find(text, at, from)) != SIZE_MAX;) {
        if (!work_limit_spend(texts->limit, STEPS_MATCH))
            return (struct byte_slice){ NULL, 0 };
        memcpy(out + used, bytes + copied, found - copied);
        used += found - copied;
        memcpy(out + used, to.data, to.size);
        used += to.size;
        copied = found + from.size;
        at = behind(text, found, from.size);
    }
    memcpy(out + used, bytes + copied, text.size - copied);
    return (struct byte_slice){ out, used + text.size - copied };
}

/* Both texts, one behind the other. */
static struct byte_slice join(struct byte_slice first, struct byte_slice second,
                              struct arena *arena)
{
    char *out = arena_alloc(arena, first.size + second.size);
    if (!out)
        return (struct byte_slice){ NULL, 0 };
    memcpy(out, first.data, first.size);
    memcpy(out + first.size, second.data, second.size);
    return (struct byte_slice){ out, first.size + second.size };
}

/* The fault of a text that could not be made. Returns false. */
static bool text_fault(const struct decoder_texts *texts, struct fault *fault)
{
    return texts->limit->is_stopped ? work_limit_fault(fault) : fault_no_memory(fault);
}

/* Calls a function for each text; what it returns takes the text's place. */
static bool change_each(struct decoder_texts *texts, decoder_change *change, const void *state,
                        struct fault *fault)
{
    for (int64_t i = 0; i < texts->count; i++) {
        texts->texts[i] = change(state, texts->texts[i], i, texts);
        if (!texts->texts[i].data || !work_limit_spend(texts->limit, (int64_t)texts->texts[i].size))
            return text_fault(texts, fault);
    }
    return true;
}

/* ------------------------------------------------------------ fuse, strip -- */

static bool run_fuse(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    (void)state;
    size_t size = 0;
    for (int64_t i = 0; i < texts->count; i++)
        size += texts->texts[i].size;
    char *all = arena_alloc(texts->arena, size);
    struct byte_slice *one = arena_alloc(texts->arena, sizeof *one);
    if (!all || !one)
        return fault_no_memory(fault);
    *one = (struct byte_slice){ all, size };
    for (int64_t i = 0; i < texts->count; i++) {
        memcpy(all, texts->texts[i].data, texts->texts[i].size);
        all += texts->texts[i].size;
    }
    texts->texts = one;
    texts->count = 1;
    return true;
}

struct strip {
    struct byte_slice content; /* one character */
    int64_t start, stop;       /* how many are taken at most from each end */
};

static struct byte_slice strip_text(const void *state, struct byte_slice text, int64_t i,
                                    const struct decoder_texts *texts)
{
    (void)i, (void)texts;
    const struct strip *strip = state;
    const size_t size = strip->content.size;
    const char *bytes = text.data;
    for (int64_t k = 0; k < strip->start && begins(text, strip->content); k++)
        text = (struct byte_slice){ bytes += size, text.size - size };
    for (int64_t k = 0; k < strip->stop && text.size >= size
                        && memcmp(bytes + text.size - size, strip->content.data, size) == 0;
         k++)
        text.size -= size;
    return text;
}

static const struct step_field STRIP_FIELDS[] = {
    { STEP_FIELD("content", STEP_CHARACTER, struct strip, content) },
    { STEP_FIELD("start", STEP_INTEGER, struct strip, start), .most = INT32_MAX },
    { STEP_FIELD("stop", STEP_INTEGER, struct strip, stop), .most = INT32_MAX },
};

/* ---------------------------------------------------------------- replace -- */

struct replace {
    struct step_pattern pattern;
    struct byte_slice content;
};

static const struct step_field REPLACE_FIELDS[] = {
    { STEP_FIELD("pattern", STEP_PATTERN, struct replace, pattern) },
    { STEP_FIELD("content", STEP_STRING, struct replace, content) },
};

static struct byte_slice replace_literal(const void *state, struct byte_slice text, int64_t i,
                                         const struct decoder_texts *texts)
{
    (void)i;
    const struct replace *replace = state;
    return replace_all(text, replace->pattern.literal, replace->content, texts);
}

/* Writes the text with its matches replaced. */
static bool replace_matches(const struct replace *replace, struct regex_scan *scan,
                            struct byte_slice text, struct text *out, struct fault *fault)
{
    const char *bytes = text.data;
    int64_t at = 0, start, end;
    bool found;
    regex_scan_restart(scan, bytes, (int64_t)text.size);
    for (;;) {
        if (!regex_scan_next(scan, &found, &start, &end, fault))
            return false;
        if (!found)
            break;
        text_bytes(out, bytes + at, (size_t)(start - at));
        text_bytes(out, replace->content.data, replace->content.size);
        at = end;
    }
    text_bytes(out, bytes + at, text.size - (size_t)at);
    return text_finish(out, fault);
}

static bool replace_regex(const struct replace *replace, struct decoder_texts *texts,
                          struct fault *fault)
{
    struct regex_scan scan;
    struct text out;
    text_init(&out, SIZE_MAX);
    regex_scan_init(&scan, replace->pattern.regex, "", 0, texts->limit);
    bool is_fine = true;
    for (int64_t i = 0; is_fine && i < texts->count; i++) {
        if (texts->texts[i].size == 0)
            continue;
        out.used = 0;
        is_fine = replace_matches(replace, &scan, texts->texts[i], &out, fault);
        char *copy = is_fine ? arena_alloc(texts->arena, out.used) : NULL;
        if (is_fine && !copy)
            is_fine = fault_no_memory(fault);
        if (copy && out.used > 0)
            memcpy(copy, out.data, out.used);
        texts->texts[i] = (struct byte_slice){ copy, out.used };
    }
    regex_scan_free(&scan);
    text_free(&out);
    return is_fine;
}

static bool run_replace(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    const struct replace *replace = state;
    return replace->pattern.regex ? replace_regex(replace, texts, fault)
                                  : change_each(texts, replace_literal, state, fault);
}

/* ------------------------------------------------------------------ bytes -- */

static const char REPLACEMENT[] = "\xEF\xBF\xBD";
enum { REPLACEMENT_SIZE = sizeof REPLACEMENT - 1 };

/* How many bytes at text are the beginning of a character that is not complete or goes on wrong; 1
 * where none begins there. Each such piece becomes one U+FFFD (Unicode 15, section 3.9, "maximal
 * subpart"). */
static size_t broken_size(const unsigned char *text, size_t size)
{
    unsigned low = 0x80, high = 0xBF;
    size_t wanted = 0;
    if (text[0] >= 0xC2 && text[0] <= 0xDF)
        wanted = 1;
    else if (text[0] >= 0xE0 && text[0] <= 0xEF)
        wanted = 2;
    else if (text[0] >= 0xF0 && text[0] <= 0xF4)
        wanted = 3;
    if (text[0] == 0xE0)
        low = 0xA0;
    else if (text[0] == 0xED)
        high = 0x9F;
    else if (text[0] == 0xF0)
        low = 0x90;
    else if (text[0] == 0xF4)
        high = 0x8F;
    size_t have = 1;
    while (have <= wanted && have < size && text[have] >= low && text[have] <= high) {
        have++;
        low = 0x80;
        high = 0xBF;
    }
    return have;
}

struct byte_slice tokenizer_repair(struct byte_slice bytes, struct arena *arena)
{
    char *out = arena_alloc(arena, REPLACEMENT_SIZE * bytes.size);
    const char *text = bytes.data;
    size_t used = 0;
    for (size_t at = 0; out && at < bytes.size;) {
        const size_t size = utf8_character_size(text + at, bytes.size - at);
        memcpy(out + used, size > 0 ? text + at : REPLACEMENT, size > 0 ? size : REPLACEMENT_SIZE);
        used += size > 0 ? size : REPLACEMENT_SIZE;
        at += size > 0 ? size : broken_size((const unsigned char *)text + at, bytes.size - at);
    }
    return (struct byte_slice){ out, used };
}

/* Writes the bytes of a token, or the token as it is where a character of it is not in the
 * alphabet. Returns how many bytes. */
size_t decoder_token_bytes(char *out, struct byte_slice token)
{
    const char *text = token.data;
    size_t used = 0;
    for (size_t at = 0; at < token.size;) {
        uint32_t code;
        at += unicode_decode(text + at, &code);
        const int byte = byte_level_byte(code);
        if (byte < 0) {
            memcpy(out, text, token.size);
            return token.size;
        }
        out[used++] = (char)byte;
    }
    return used;
}

static bool run_byte_level(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    (void)state;
    size_t size = 0;
    for (int64_t i = 0; i < texts->count; i++)
        size += texts->texts[i].size;
    char *bytes = arena_alloc(texts->arena, size);
    struct byte_slice *one = arena_alloc(texts->arena, sizeof *one);
    if (!bytes || !one)
        return fault_no_memory(fault);
    size_t used = 0;
    for (int64_t i = 0; i < texts->count; i++)
        used += decoder_token_bytes(bytes + used, texts->texts[i]);
    *one = tokenizer_repair((struct byte_slice){ bytes, used }, texts->arena);
    texts->texts = one;
    texts->count = 1;
    return one->data || fault_no_memory(fault);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of a token "<0x41>"; -1: it is none. As in the reference "+" may stand for the first
 * digit. */
int decoder_token_byte(struct byte_slice token)
{
    const char *text = token.data;
    if (token.size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const int high = text[3] == '+' ? 0 : hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* The text of a run of bytes: all of it is UTF-8, or each byte becomes U+FFFD. */
static struct byte_slice run_text(char *bytes, size_t size, struct arena *arena)
{
    if (unicode_find_invalid(bytes, size) == size)
        return (struct byte_slice){ bytes, size };
    char *out = arena_alloc(arena, REPLACEMENT_SIZE * size);
    for (size_t i = 0; out && i < size; i++)
        memcpy(out + REPLACEMENT_SIZE * i, REPLACEMENT, REPLACEMENT_SIZE);
    return (struct byte_slice){ out, REPLACEMENT_SIZE * size };
}

static bool run_byte_fallback(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    (void)state;
    char *bytes = arena_alloc(texts->arena, (size_t)texts->count);
    if (!bytes)
        return fault_no_memory(fault);
    int64_t count = 0;
    for (int64_t i = 0; i < texts->count;) {
        size_t run = 0;
        for (int byte; i < texts->count && (byte = decoder_token_byte(texts->texts[i])) >= 0; i++)
            bytes[run++] = (char)byte;
        if (run > 0) {
            texts->texts[count] = run_text(bytes, run, texts->arena);
            if (!texts->texts[count++].data)
                return fault_no_memory(fault);
            bytes += run;
        } else {
            texts->texts[count++] = texts->texts[i++];
        }
    }
    texts->count = count;
    return true;
}

/* ------------------------------------------------------------------ words -- */

/* Takes back what WordPiece does to English: clean_up_tokenization of transformers. */
static struct byte_slice clean_up(struct byte_slice text, const struct decoder_texts *texts)
{
    static const char *const spellings[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };
    for (size_t i = 0; text.data && i < sizeof spellings / sizeof *spellings; i++)
        text = replace_all(text, slice_of(spellings[i][0]), slice_of(spellings[i][1]), texts);
    return text;
}

struct wordpiece {
    struct byte_slice prefix;
    bool cleans_up;
};

static const struct step_field WORDPIECE_FIELDS[] = {
    { STEP_FIELD("prefix", STEP_STRING, struct wordpiece, prefix) },
    { STEP_FIELD("cleanup", STEP_BOOL, struct wordpiece, cleans_up) },
};

static struct byte_slice wordpiece_text(const void *state, struct byte_slice text, int64_t i,
                                        const struct decoder_texts *texts)
{
    const struct wordpiece *wordpiece = state;
    const struct byte_slice prefix = wordpiece->prefix;
    if (i > 0 && begins(text, prefix))
        text =
            (struct byte_slice){ (const char *)text.data + prefix.size, text.size - prefix.size };
    else if (i > 0)
        text = join(slice_of(" "), text, texts->arena);
    return wordpiece->cleans_up && text.data ? clean_up(text, texts) : text;
}

static const struct step_field BPE_FIELDS[] = { { STEP_VALUE("suffix", STEP_STRING) } };

static struct byte_slice bpe_text(const void *state, struct byte_slice text, int64_t i,
                                  const struct decoder_texts *texts)
{
    const struct byte_slice *suffix = state;
    return replace_all(text, *suffix, slice_of(i + 1 == texts->count ? "" : " "), texts);
}

static struct byte_slice metaspace_text(const void *state, struct byte_slice text, int64_t i,
                                        const struct decoder_texts *texts)
{
    const struct metaspace_options *options = state;
    const bool is_prefix = i == 0 && options->scheme != METASPACE_NEVER;
    return replace_all(text, options->replacement, slice_of(is_prefix ? "" : " "), texts);
}

struct ctc {
    struct byte_slice pad, delimiter;
    bool cleans_up;
};

static const struct step_field CTC_FIELDS[] = {
    { STEP_FIELD("pad_token", STEP_STRING, struct ctc, pad) },
    { STEP_FIELD("word_delimiter_token", STEP_STRING, struct ctc, delimiter) },
    { STEP_FIELD("cleanup", STEP_BOOL, struct ctc, cleans_up) },
};

static struct byte_slice ctc_text(const struct ctc *ctc, struct byte_slice text,
                                  const struct decoder_texts *texts)
{
    text = replace_all(text, ctc->pad, slice_of(""), texts);
    if (text.data && ctc->cleans_up)
        text = clean_up(text, texts);
    if (text.data && ctc->cleans_up)
        text = replace_all(text, ctc->delimiter, slice_of(" "), texts);
    return text;
}

static bool is_equal(struct byte_slice a, struct byte_slice b)
{
    return a.size == b.size && begins(a, b);
}

/* Of equal tokens side by side the first is kept, and tokens that become empty are dropped. */
static bool run_ctc(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    const struct ctc *ctc = state;
    int64_t count = 0;
    struct byte_slice before = { NULL, 0 };
    for (int64_t i = 0; i < texts->count; i++) {
        const struct byte_slice text = texts->texts[i];
        if (i > 0 && is_equal(text, before))
            continue;
        before = text;
        texts->texts[count] = ctc_text(ctc, text, texts);
        if (!texts->texts[count].data)
            return text_fault(texts, fault);
        if (texts->texts[count].size > 0)
            count++;
    }
    texts->count = count;
    return true;
}

/* ------------------------------------------------------------------ table -- */

static const struct step_field SEQUENCE_FIELDS[] = { { STEP_VALUE("decoders", STEP_STEPS) } };

static bool run_sequence(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    const struct step_list *list = state;
    for (int64_t i = 0; i < list->count; i++)
        if (!decoder_run(&list->steps[i], texts, fault))
            return false;
    return true;
}

static const struct step_type TYPES[] = {
    { "Sequence", .texts = run_sequence, STEP_STATE(struct step_list, SEQUENCE_FIELDS) },
    { "BPEDecoder", .text = bpe_text, STEP_STATE(struct byte_slice, BPE_FIELDS) },
    { "ByteFallback", .texts = run_byte_fallback },
    { "ByteLevel", .texts = run_byte_level },
    { "CTC", .texts = run_ctc, STEP_STATE(struct ctc, CTC_FIELDS) },
    { "Fuse", .texts = run_fuse },
    { "Metaspace", .text = metaspace_text, METASPACE_OPTIONS },
    { "Replace", .texts = run_replace, STEP_STATE(struct replace, REPLACE_FIELDS) },
    { "Strip", .text = strip_text, STEP_STATE(struct strip, STRIP_FIELDS) },
    { "WordPiece", .text = wordpiece_text, STEP_STATE(struct wordpiece, WORDPIECE_FIELDS) },
};

bool decoder_read(struct pipeline_build *build, const cJSON *node, struct step *step)
{
    static const struct step_kind KIND = { "decoder", TYPES, sizeof TYPES / sizeof *TYPES };
    return pipeline_step(build, node, &KIND, NULL, step);
}

bool decoder_run(const struct step *step, struct decoder_texts *texts, struct fault *fault)
{
    return step->type->text ? change_each(texts, step->type->text, step->state, fault)
                            : step->type->texts(step->state, texts, fault);
}

bool decoder_has(const struct step *step, const char *type)
{
    if (!step->type)
        return false;
    if (strcmp(step->type->name, "Sequence") != 0)
        return strcmp(step->type->name, type) == 0;
    const struct step_list *list = step->state;
    for (int64_t i = 0; i < list->count; i++)
        if (decoder_has(&list->steps[i], type))
            return true;
    return false;
}
