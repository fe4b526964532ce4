/* normalizer.c - the list of normalizers, and those that need no file of their own. */
#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/normalizer_form.h"
#include "tokenizer/normalizers.h"
#include "tokenizer/transform.h"
#include "tokenizer/unicode.h"

#include <string.h>

/* ------------------------------------------------- character by character -- */

static int lowercase(const void *state, uint32_t code, uint32_t out[TRANSFORM_CHARACTERS_MAX])
{
    (void)state;
    const size_t count = unicode_lowercase(code, out);
    return count == 1 && out[0] == code ? TRANSFORM_UNCHANGED : (int)count;
}

static int strip_accents(const void *state, uint32_t code, uint32_t out[TRANSFORM_CHARACTERS_MAX])
{
    (void)state, (void)out;
    return unicode_is_mark(code) ? 0 : TRANSFORM_UNCHANGED;
}

/* The rules of Google's neural machine translation, as the reference has them. */
static int nmt(const void *state, uint32_t code, uint32_t out[TRANSFORM_CHARACTERS_MAX])
{
    (void)state;
    out[0] = ' ';
    if (code < 0x20)
        return code == 0 ? TRANSFORM_UNCHANGED
                         : code == '\t' || code == '\n' || code == '\f' || code == '\r';
    if (code == 0x7F || code == 0x8F || code == 0x9F)
        return 0;
    const bool is_space = code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028
                          || code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    return is_space ? 1 : TRANSFORM_UNCHANGED;
}

static bool run_lowercase(const void *state, struct pieces *pieces, struct fault *fault)
{
    return transform_each(pieces, lowercase, state, fault);
}

static bool run_strip_accents(const void *state, struct pieces *pieces, struct fault *fault)
{
    return transform_each(pieces, strip_accents, state, fault);
}

static bool run_nmt(const void *state, struct pieces *pieces, struct fault *fault)
{
    return transform_each(pieces, nmt, state, fault);
}

/* ---------------------------------------------------------- piece by piece -- */

struct strip {
    bool left, right;
};

static bool run_strip(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct strip *strip = state;
    pieces_begin_rewrite(pieces);
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        if (piece->id >= 0) {
            pieces_keep(pieces, i);
            continue;
        }
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
        pieces_open(pieces);
        pieces_copy(pieces, start, end);
        pieces_close(pieces, i);
    }
    return pieces_end(pieces, fault);
}

static bool run_prepend(const void *state, struct pieces *pieces, struct fault *fault)
{
    const char *text = state;
    const size_t size = strlen(text);
    pieces_begin_rewrite(pieces);
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        if (piece->id >= 0) {
            pieces_keep(pieces, i);
            continue;
        }
        pieces_open(pieces);
        if (piece->start < piece->end)
            pieces_put(pieces, text, size, pieces_span(pieces, piece->start, piece->start + 1));
        pieces_copy(pieces, piece->start, piece->end);
        pieces_close(pieces, i);
    }
    return pieces_end(pieces, fault);
}

/* Each byte becomes the character of byte_level.h, with the span of the character it was in. */
static bool run_byte_level(const void *state, struct pieces *pieces, struct fault *fault)
{
    (void)state;
    pieces_begin_rewrite(pieces);
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        if (piece->id >= 0) {
            pieces_keep(pieces, i);
            continue;
        }
        pieces_open(pieces);
        for (uint32_t at = piece->start; at < piece->end; at++) {
            char out[4];
            const size_t size =
                utf8_encode(out, byte_level_character((unsigned char)pieces->bytes[at]));
            pieces_put(pieces, out, size, pieces_span(pieces, at, at + 1));
        }
        pieces_close(pieces, i);
    }
    return pieces_end(pieces, fault);
}

/* ---------------------------------------------------------------- sequence -- */

struct sequence {
    struct normalizer *steps;
    int count;
};

static bool run_sequence(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct sequence *sequence = state;
    for (int i = 0; i < sequence->count; i++) {
        /* A step that changes nothing counts nothing by itself. */
        if (!work_limit_spend(pieces->limit, pieces->size))
            return work_limit_fault(fault);
        if (!sequence->steps[i].normalize(sequence->steps[i].state, pieces, fault))
            return false;
    }
    return true;
}

static bool read_sequence(struct pipeline_build *build, const cJSON *node, void *step)
{
    const cJSON *nodes = pipeline_array(build, node, "normalizer Sequence", "normalizers");
    struct sequence *sequence = nodes ? pipeline_alloc(build, 1, sizeof *sequence) : NULL;
    if (!sequence)
        return false;
    sequence->steps =
        pipeline_alloc(build, (size_t)cJSON_GetArraySize(nodes), sizeof *sequence->steps);
    if (!sequence->steps)
        return false;
    const cJSON *child;
    cJSON_ArrayForEach(
        child, nodes) if (!normalizer_read(build, child,
                                           &sequence->steps[sequence->count++])) return false;
    *(struct normalizer *)step = (struct normalizer){ run_sequence, sequence };
    return true;
}

/* ------------------------------------------------------------------ readers -- */

static bool read_strip(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char WHERE[] = "normalizer Strip";
    struct strip *strip = pipeline_alloc(build, 1, sizeof *strip);
    *(struct normalizer *)step = (struct normalizer){ run_strip, strip };
    return strip && pipeline_bool(build, node, WHERE, "strip_left", true, &strip->left)
           && pipeline_bool(build, node, WHERE, "strip_right", true, &strip->right);
}

static bool read_prepend(struct pipeline_build *build, const cJSON *node, void *step)
{
    const char *text = NULL;
    if (!pipeline_string(build, node, "normalizer Prepend", "prepend", true, &text))
        return false;
    text = pipeline_strdup(build, text);
    *(struct normalizer *)step = (struct normalizer){ run_prepend, text };
    return text != NULL;
}

#define READ_PLAIN(name, function, settings)                                                       \
    static bool read_##name(struct pipeline_build *build, const cJSON *node, void *step)           \
    {                                                                                              \
        (void)build, (void)node;                                                                   \
        *(struct normalizer *)step = (struct normalizer){ function, settings };                    \
        return true;                                                                               \
    }

READ_PLAIN(nfc, normalizer_form_run, &NORMALIZER_NFC)
READ_PLAIN(nfd, normalizer_form_run, &NORMALIZER_NFD)
READ_PLAIN(nfkc, normalizer_form_run, &NORMALIZER_NFKC)
READ_PLAIN(nfkd, normalizer_form_run, &NORMALIZER_NFKD)
READ_PLAIN(lowercase, run_lowercase, NULL)
READ_PLAIN(strip_accents, run_strip_accents, NULL)
READ_PLAIN(nmt, run_nmt, NULL)
READ_PLAIN(byte_level, run_byte_level, NULL)

bool normalizer_read(struct pipeline_build *build, const cJSON *node, struct normalizer *step)
{
    static const struct pipeline_type TYPES[] = {
        { "Sequence", read_sequence },
        { "BertNormalizer", normalizer_bert_read },
        { "NFC", read_nfc },
        { "NFD", read_nfd },
        { "NFKC", read_nfkc },
        { "NFKD", read_nfkd },
        { "Lowercase", read_lowercase },
        { "StripAccents", read_strip_accents },
        { "Strip", read_strip },
        { "Replace", normalizer_replace_read },
        { "Prepend", read_prepend },
        { "Precompiled", normalizer_precompiled_read },
        { "ByteLevel", read_byte_level },
        { "Nmt", read_nmt },
    };
    return pipeline_read(build, node, "normalizer", NULL, TYPES, sizeof TYPES / sizeof TYPES[0],
                         step);
}
