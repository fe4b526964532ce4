/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_gguf_tokenizer.c - any bytes as a GGUF file whose metadata have a tokenizer. If it is
 * refused, the fault says why. If it is taken, texts and a pair are encoded: the tokens have texts,
 * stand for bytes of the text, and are decoded again. */
#include "formats/gguf.h"
#include "models/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void decode(const struct tokenizer *tokenizer, const struct token_list *list,
                   struct arena *arena)
{
    struct fault fault = { .code = FAULT_NONE };
    struct text text;
    int32_t *ids = arena_calloc(arena, (size_t)list->count + 1, sizeof *ids);
    for (int64_t i = 0; ids && i < list->count; i++) {
        struct token_piece piece;
        ids[i] = list->tokens[i].id;
        require(tokenizer_piece(tokenizer, i > 0 ? ids[i - 1] : -1, ids[i], arena, &piece, &fault)
                || fault.code == FAULT_MEMORY);
    }
    text_init(&text, SIZE_MAX);
    if (ids && !tokenizer_decode(tokenizer, NULL, ids, list->count, true, &text, &fault))
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
        decode(tokenizer, &list, &arena);
    } else {
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char TEXT[] = "Hello  ab w\xC3\xB6rld, a\xCC\x81 ab\xE4\xB8\xAD\xF0\x9F\x91\x8D"
                               "\xE2\x80\x8D\xF0\x9F\x91\xA9 [MASK]<s> 12.5\r\n\tx\xC2\xA0 \xE2"
                               "\x96\x81 I'LL the cats";
    const struct byte_slice text = { TEXT, sizeof TEXT - 1 }, empty = { "", 0 };
    struct fault fault = { .code = FAULT_NONE };
    struct gguf file;
    struct tokenizer *tokenizer = NULL;
    if (!gguf_read(&file, data, size, &fault))
        return 0;
    fault = (struct fault){ .code = FAULT_NONE };
    const bool opened = tokenizer_open_gguf(&tokenizer, &file, "file.gguf", &fault);
    gguf_free(&file);
    if (!opened)
        require(!tokenizer && fault.code != FAULT_NONE && fault.message[0] != '\0');
    if (tokenizer) {
        encode(tokenizer, text, NULL);
        encode(tokenizer, empty, &text);
        require(tokenizer_kind(tokenizer)[0]
                && strcmp(tokenizer_file(tokenizer), "file.gguf") == 0);
    }
    tokenizer_free(tokenizer);
    return 0;
}
