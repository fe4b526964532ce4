/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokenizer.c - any bytes as a tokenizer.json.
 *
 * If the file is refused, the fault says why. If it is taken, a few texts are encoded with it: the
 * tokens have texts, stand for bytes of the text, and are decoded again. */
#include "models/tokenizer/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void decode(const struct tokenizer *tokenizer, const struct token_list *list)
{
    struct fault fault = { .code = FAULT_NONE };
    struct text text;
    int32_t ids[256];
    const int64_t count = list->count < 256 ? list->count : 256;
    for (int64_t i = 0; i < count; i++)
        ids[i] = list->tokens[i].id;
    text_init(&text, SIZE_MAX);
    if (!tokenizer_decode(tokenizer, NULL, ids, count, true, &text, &fault))
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    text_free(&text);
}

static void encode(const struct tokenizer *tokenizer, struct byte_slice text,
                   const struct byte_slice *pair)
{
    struct fault fault = { .code = FAULT_NONE };
    struct arena arena;
    struct token_list list;
    arena_init(&arena, 1 << 28);
    if (tokenizer_encode(tokenizer, NULL, text, pair, true, &arena, &list, &fault)) {
        for (int64_t i = 0; i < list.count; i++) {
            const struct token *token = &list.tokens[i];
            const struct byte_slice *whole = token->sequence == 1 && pair ? pair : &text;
            require(token->start >= 0 && token->start <= token->end);
            require((size_t)token->end <= whole->size);
            require(tokenizer_token_text(tokenizer, token->id) != NULL);
        }
        decode(tokenizer, &list);
    } else {
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char TEXT[] = "Hello  w\xC3\xB6rld, a\xCC\x81 ab\xE4\xB8\xAD\xF0\x9F\x91\x8D"
                               "\xE2\x80\x8D\xF0\x9F\x91\xA9 [MASK]<s> 12.5\r\n\tx\xC2\xA0";
    const struct byte_slice text = { TEXT, sizeof TEXT - 1 }, empty = { "", 0 };
    struct fault fault = { .code = FAULT_NONE };
    struct tokenizer *tokenizer = tokenizer_new();
    if (!tokenizer)
        return 0;
    if (tokenizer_read_json(tokenizer, (const char *)data, size, &fault)) {
        encode(tokenizer, text, NULL);
        encode(tokenizer, empty, &text);
    } else {
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    }
    tokenizer_free(tokenizer);
    return 0;
}
