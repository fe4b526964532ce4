/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokenizer_text.c - any bytes as a text, through small pipelines that have every kind of
 * step.
 *
 * The first byte picks the pipeline. A text that is no UTF-8 is refused; every other text is
 * encoded, each token stands for whole characters of it, and without special tokens in the text
 * the tokens come in its order. */
#include "base/utf8.h"
#include "models/tokenizer/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ADDED                                                                                      \
    "\"added_tokens\":[{\"id\":0,\"content\":\"[UNK]\",\"single_word\":false,\"lstrip\":true,"     \
    "\"rstrip\":true,\"normalized\":false,\"special\":true}],"
#define WORDPIECE                                                                                  \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":"     \
    "\"##\",\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"a\":1,\"##a\":2,\"e\":3,"    \
    "\"##e\":4,\"ae\":5,\",\":6}}"
#define UNIGRAM                                                                                    \
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":false,\"vocab\":"              \
    "[[\"[UNK]\",0],[\"\xE2\x96\x81\",-2],[\"a\",-3],[\"e\",-3.5],[\"ae\",-4],"                    \
    "[\"\xE2\x96\x81"                                                                              \
    "a\",-5]]}"
#define BPE                                                                                        \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,\"a\":1,\"e\":2,"  \
    "\"ae\":3,\"\xC4\xA0\":4,\"\xC4\xA0"                                                           \
    "ae\":5},\"merges\":[\"a e\",\"\xC4\xA0 ae\"]}"

static const char *const PIPELINES[] = {
    "{" ADDED "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
    "\"handle_chinese_chars\":true,\"strip_accents\":null,\"lowercase\":true},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}," WORDPIECE "}",
    "{" ADDED "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"},"
    "{\"type\":\"NFKC\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":"
    "\" \"}]},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\","
    "\"prepend_scheme\":\"always\",\"split\":true}," UNIGRAM "}",
    "{" ADDED "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true}," BPE "}",
    "{" ADDED "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKD\"},"
    "{\"type\":\"StripAccents\"},{\"type\":\"Lowercase\"},{\"type\":\"Strip\",\"strip_left\":true,"
    "\"strip_right\":true},{\"type\":\"Prepend\",\"prepend\":\"a\"}]},\"pre_tokenizer\":{\"type\":"
    "\"Sequence\",\"pretokenizers\":[{\"type\":\"Whitespace\"},{\"type\":\"UnicodeScripts\"},"
    "{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":\"Punctuation\",\"behavior\":"
    "\"MergedWithNext\"}]}," WORDPIECE "}",
};

enum { PIPELINE_COUNT = sizeof PIPELINES / sizeof PIPELINES[0] };

static void require(bool condition)
{
    if (!condition)
        abort();
}

static const struct tokenizer *pipeline(int i)
{
    static struct tokenizer *made[PIPELINE_COUNT];
    struct fault fault;
    if (!made[i]) {
        made[i] = tokenizer_new();
        require(made[i]
                && tokenizer_read_json(made[i], PIPELINES[i], strlen(PIPELINES[i]), &fault));
    }
    return made[i];
}

static bool is_utf8(const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        const size_t length = utf8_character_size(text + at, size - at);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

static void check_tokens(const struct token_list *list, const char *text, size_t size)
{
    for (int64_t i = 0; i < list->count; i++) {
        const struct token *token = &list->tokens[i];
        require(token->start >= 0 && token->start <= token->end && (size_t)token->end <= size);
        require(((unsigned char)text[token->start] & 0xC0) != 0x80 || token->start == token->end);
        require((size_t)token->end == size || ((unsigned char)text[token->end] & 0xC0) != 0x80);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = malloc(size); /* a NUL byte behind the text, for check_tokens() */
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    struct arena arena;
    struct token_list list;
    struct fault fault = { .code = FAULT_NONE };
    arena_init(&arena, (size_t)1 << 30);
    const struct byte_slice slice = { text, size - 1 };
    if (tokenizer_encode(pipeline(data[0] % PIPELINE_COUNT), NULL, slice, NULL, true, &arena, &list,
                         &fault)) {
        require(is_utf8(text, size - 1));
        check_tokens(&list, text, size - 1);
    } else {
        require(fault.code == FAULT_MEMORY || !is_utf8(text, size - 1));
    }
    arena_free(&arena);
    free(text);
    return 0;
}
