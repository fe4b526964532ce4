/* normalizer_bert.c - BertNormalizer: control characters go, white space becomes a space, Chinese
 * characters stand alone, accents go, letters become small. */
#include "tokenizer/normalizer_form.h"
#include "tokenizer/normalizers.h"
#include "tokenizer/transform.h"
#include "tokenizer/unicode.h"

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

static int clean(const void *state, uint32_t code, uint32_t out[TRANSFORM_CHARACTERS_MAX])
{
    const struct bert *bert = state;
    if (code >= ' ' && code < 0x7F)
        return TRANSFORM_UNCHANGED;
    if (bert->clean_text && is_dropped(code))
        return 0;
    if (bert->clean_text && unicode_is_whitespace(code)) {
        out[0] = ' ';
        return 1;
    }
    if (!bert->handle_chinese_chars || !is_chinese(code))
        return TRANSFORM_UNCHANGED;
    out[0] = out[2] = ' ';
    out[1] = code;
    return 3;
}

static int strip_and_lower(const void *state, uint32_t code, uint32_t out[TRANSFORM_CHARACTERS_MAX])
{
    const struct bert *bert = state;
    if (bert->strip_accents && unicode_is_nonspacing(code))
        return 0;
    if (!bert->lowercase)
        return TRANSFORM_UNCHANGED;
    const size_t count = unicode_lowercase(code, out);
    return count == 1 && out[0] == code ? TRANSFORM_UNCHANGED : (int)count;
}

static bool run(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct bert *bert = state;
    return transform_each(pieces, clean, bert, fault)
           && (!bert->strip_accents || normalizer_form_run(&NORMALIZER_NFD, pieces, fault))
           && transform_each(pieces, strip_and_lower, bert, fault);
}

bool normalizer_bert_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char WHERE[] = "normalizer BertNormalizer";
    struct bert *bert = pipeline_alloc(build, 1, sizeof *bert);
    if (!bert || !pipeline_bool(build, node, WHERE, "clean_text", true, &bert->clean_text)
        || !pipeline_bool(build, node, WHERE, "handle_chinese_chars", true,
                          &bert->handle_chinese_chars)
        || !pipeline_bool(build, node, WHERE, "lowercase", true, &bert->lowercase))
        return false;
    bert->strip_accents = bert->lowercase; /* what null means */
    *(struct normalizer *)step = (struct normalizer){ run, bert };
    return pipeline_bool(build, node, WHERE, "strip_accents", false, &bert->strip_accents);
}
