/* decoder.c - the types of decoders, and Sequence, Replace, Fuse and Strip. */
#include "tokenizer/decoder_texts.h"
#include "tokenizer/decoders.h"

#include "base/utf8.h"

#include <string.h>

/* --------------------------------------------------------------- sequence -- */

struct sequence {
    struct decoder *steps;
    int64_t count;
};

static bool sequence_decode(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    const struct sequence *sequence = state;
    for (int64_t i = 0; i < sequence->count; i++)
        if (!sequence->steps[i].decode(sequence->steps[i].state, texts, fault))
            return false;
    return true;
}

static bool sequence_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    const cJSON *list = pipeline_array(build, node, "decoder Sequence", "decoders"), *item;
    struct sequence *sequence = list ? pipeline_alloc(build, 1, sizeof *sequence) : NULL;
    if (!sequence)
        return false;
    sequence->steps =
        pipeline_alloc(build, (size_t)cJSON_GetArraySize(list), sizeof *sequence->steps);
    if (!sequence->steps)
        return false;
    cJSON_ArrayForEach(item, list)
    {
        if (!decoder_read(build, item, &sequence->steps[sequence->count++]))
            return false;
    }
    *(struct decoder *)step = (struct decoder){ sequence_decode, sequence };
    return true;
}

/* ---------------------------------------------------------------- replace -- */

struct replace {
    const char *literal; /* NULL: the regex */
    const struct regex *regex;
    struct byte_slice content;
};

static struct byte_slice replace_literal(const void *state, struct byte_slice text, int64_t i,
                                         const struct decoder_texts *texts)
{
    (void)i;
    const struct replace *replace = state;
    return decoder_texts_replace(text, decoder_texts_slice(replace->literal), replace->content,
                                 texts);
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
    regex_scan_init(&scan, replace->regex, "", 0, texts->limit);
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

static bool replace_decode(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    const struct replace *replace = state;
    return replace->literal ? decoder_texts_each(texts, replace_literal, state, fault)
                            : replace_regex(replace, texts, fault);
}

static bool replace_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char where[] = "decoder Replace";
    struct replace *replace = pipeline_alloc(build, 1, sizeof *replace);
    const char *content = NULL;
    if (!replace
        || !pipeline_pattern(build, node, where, "pattern", &replace->literal, &replace->regex)
        || !pipeline_string(build, node, where, "content", true, &content)
        || !(content = pipeline_strdup(build, content)))
        return false;
    replace->content = decoder_texts_slice(content);
    *(struct decoder *)step = (struct decoder){ replace_decode, replace };
    return true;
}

/* ---------------------------------------------------------- fuse and strip -- */

static bool fuse_decode(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    (void)state;
    return decoder_texts_fuse(texts, fault);
}

static bool fuse_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    (void)build, (void)node;
    *(struct decoder *)step = (struct decoder){ fuse_decode, NULL };
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
    for (int64_t k = 0; k < strip->start && decoder_texts_begins(text, strip->content); k++)
        text = (struct byte_slice){ bytes += size, text.size - size };
    for (int64_t k = 0; k < strip->stop && text.size >= size
                        && memcmp(bytes + text.size - size, strip->content.data, size) == 0;
         k++)
        text.size -= size;
    return text;
}

static bool strip_decode(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    return decoder_texts_each(texts, strip_text, state, fault);
}

static bool strip_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char where[] = "decoder Strip";
    struct strip *strip = pipeline_alloc(build, 1, sizeof *strip);
    char *content = pipeline_alloc(build, 5, 1);
    uint32_t code;
    if (!strip || !content || !pipeline_character(build, node, where, "content", &code)
        || !pipeline_integer(build, node, where, "start", true, 0, INT32_MAX, &strip->start)
        || !pipeline_integer(build, node, where, "stop", true, 0, INT32_MAX, &strip->stop))
        return false;
    strip->content = (struct byte_slice){ content, utf8_encode(content, code) };
    *(struct decoder *)step = (struct decoder){ strip_decode, strip };
    return true;
}

bool decoder_read(struct pipeline_build *build, const cJSON *node, struct decoder *step)
{
    static const struct pipeline_type types[] = {
        { "Sequence", sequence_read },
        { "BPEDecoder", decoder_bpe_read },
        { "ByteFallback", decoder_byte_fallback_read },
        { "ByteLevel", decoder_byte_level_read },
        { "CTC", decoder_ctc_read },
        { "Fuse", fuse_read },
        { "Metaspace", decoder_metaspace_read },
        { "Replace", replace_read },
        { "Strip", strip_read },
        { "WordPiece", decoder_wordpiece_read },
    };
    return pipeline_read(build, node, "decoder", NULL, types, sizeof types / sizeof *types, step);
}
