/* decoder_words.c - decoders that put spaces between words: WordPiece, BPEDecoder, CTC, Metaspace.
 */
#include "tokenizer/decoder_texts.h"
#include "tokenizer/decoders.h"
#include "tokenizer/metaspace.h"

#include <string.h>

/* Takes back what WordPiece does to English: clean_up_tokenization of transformers. */
static struct byte_slice clean_up(struct byte_slice text, const struct decoder_texts *texts)
{
    static const char *const spellings[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };
    for (size_t i = 0; text.data && i < sizeof spellings / sizeof *spellings; i++)
        text = decoder_texts_replace(text, decoder_texts_slice(spellings[i][0]),
                                     decoder_texts_slice(spellings[i][1]), texts);
    return text;
}

static bool read_slice(struct pipeline_build *build, const cJSON *node, const char *where,
                       const char *key, struct byte_slice *slice)
{
    const char *text = NULL;
    if (!pipeline_string(build, node, where, key, true, &text)
        || !(text = pipeline_strdup(build, text)))
        return false;
    *slice = decoder_texts_slice(text);
    return true;
}

/* -------------------------------------------------------------- wordpiece -- */

struct wordpiece {
    struct byte_slice prefix;
    bool cleans_up;
};

static struct byte_slice wordpiece_text(const void *state, struct byte_slice text, int64_t i,
                                        const struct decoder_texts *texts)
{
    const struct wordpiece *wordpiece = state;
    const struct byte_slice prefix = wordpiece->prefix;
    if (i > 0 && decoder_texts_begins(text, prefix))
        text =
            (struct byte_slice){ (const char *)text.data + prefix.size, text.size - prefix.size };
    else if (i > 0)
        text = decoder_texts_join(decoder_texts_slice(" "), text, texts->arena);
    return wordpiece->cleans_up && text.data ? clean_up(text, texts) : text;
}

static bool wordpiece_decode(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    return decoder_texts_each(texts, wordpiece_text, state, fault);
}

bool decoder_wordpiece_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char where[] = "decoder WordPiece";
    struct wordpiece *wordpiece = pipeline_alloc(build, 1, sizeof *wordpiece);
    *(struct decoder *)step = (struct decoder){ wordpiece_decode, wordpiece };
    return wordpiece && read_slice(build, node, where, "prefix", &wordpiece->prefix)
           && pipeline_bool(build, node, where, "cleanup", true, &wordpiece->cleans_up);
}

/* -------------------------------------------------------------------- bpe -- */

static struct byte_slice bpe_text(const void *state, struct byte_slice text, int64_t i,
                                  const struct decoder_texts *texts)
{
    const struct byte_slice *suffix = state;
    return decoder_texts_replace(text, *suffix,
                                 decoder_texts_slice(i + 1 == texts->count ? "" : " "), texts);
}

static bool bpe_decode(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    return decoder_texts_each(texts, bpe_text, state, fault);
}

bool decoder_bpe_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    struct byte_slice *suffix = pipeline_alloc(build, 1, sizeof *suffix);
    *(struct decoder *)step = (struct decoder){ bpe_decode, suffix };
    return suffix && read_slice(build, node, "decoder BPEDecoder", "suffix", suffix);
}

/* -------------------------------------------------------------------- ctc -- */

struct ctc {
    struct byte_slice pad, delimiter;
    bool cleans_up;
};

static struct byte_slice ctc_text(const struct ctc *ctc, struct byte_slice text,
                                  const struct decoder_texts *texts)
{
    text = decoder_texts_replace(text, ctc->pad, decoder_texts_slice(""), texts);
    if (text.data && ctc->cleans_up)
        text = clean_up(text, texts);
    if (text.data && ctc->cleans_up)
        text = decoder_texts_replace(text, ctc->delimiter, decoder_texts_slice(" "), texts);
    return text;
}

static bool is_equal(struct byte_slice a, struct byte_slice b)
{
    return a.size == b.size && decoder_texts_begins(a, b);
}

/* Of equal tokens side by side the first is kept, and tokens that become empty are dropped. */
static bool ctc_decode(const void *state, struct decoder_texts *texts, struct fault *fault)
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
            return decoder_texts_fault(texts, fault);
        if (texts->texts[count].size > 0)
            count++;
    }
    texts->count = count;
    return true;
}

bool decoder_ctc_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char where[] = "decoder CTC";
    struct ctc *ctc = pipeline_alloc(build, 1, sizeof *ctc);
    *(struct decoder *)step = (struct decoder){ ctc_decode, ctc };
    return ctc && read_slice(build, node, where, "pad_token", &ctc->pad)
           && read_slice(build, node, where, "word_delimiter_token", &ctc->delimiter)
           && pipeline_bool(build, node, where, "cleanup", true, &ctc->cleans_up);
}

/* -------------------------------------------------------------- metaspace -- */

static struct byte_slice metaspace_text(const void *state, struct byte_slice text, int64_t i,
                                        const struct decoder_texts *texts)
{
    const struct metaspace_options *options = state;
    const bool is_prefix = i == 0 && options->scheme != METASPACE_NEVER;
    return decoder_texts_replace(text, decoder_texts_slice(options->replacement),
                                 decoder_texts_slice(is_prefix ? "" : " "), texts);
}

static bool metaspace_decode(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    return decoder_texts_each(texts, metaspace_text, state, fault);
}

bool decoder_metaspace_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    struct metaspace_options *options = pipeline_alloc(build, 1, sizeof *options);
    *(struct decoder *)step = (struct decoder){ metaspace_decode, options };
    return options && metaspace_options_read(build, node, "decoder Metaspace", options);
}
