/* SPDX-License-Identifier: Apache-2.0 */
/* token_piece.c - what one token adds to a text: its bytes where the tokenizer works on bytes, else
 * what decoding it behind the token before leaves more than that token alone. */
#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/tokenizer_internal.h"

#include <string.h>

bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id)
{
    return added_tokens_is_special(tokenizer->added, id);
}

static bool copy(struct byte_slice bytes, struct arena *arena, struct token_piece *piece,
                 struct fault *fault)
{
    char *out = arena_alloc(arena, bytes.size + 1);
    if (!out)
        return fault_no_memory(fault);
    memcpy(out, bytes.data, bytes.size);
    piece->bytes = (struct byte_slice){ out, bytes.size };
    return true;
}

static bool bytes_of_level(struct byte_slice token, struct arena *arena, struct token_piece *piece,
                           struct fault *fault)
{
    char *out = arena_alloc(arena, token.size + 1);
    if (!out)
        return fault_no_memory(fault);
    piece->bytes = (struct byte_slice){ out, decoder_token_bytes(out, token) };
    return true;
}

/* The text of both tokens less that of the first: from where they differ on. */
static bool decode_behind(const struct tokenizer *tokenizer, int32_t before, int32_t id,
                          struct arena *arena, struct token_piece *piece, struct fault *fault)
{
    const int32_t ids[] = { before, id };
    struct text alone, both;
    text_init(&alone, SIZE_MAX);
    text_init(&both, SIZE_MAX);
    const bool has_before = before >= 0;
    bool good =
        (!has_before || tokenizer_decode(tokenizer, NULL, ids, 1, true, &alone, fault))
        && tokenizer_decode(tokenizer, NULL, ids + !has_before, 1 + has_before, true, &both, fault)
        && text_finish(&alone, fault) && text_finish(&both, fault);
    size_t same = 0;
    while (good && same < alone.used && same < both.used && alone.data[same] == both.data[same])
        same++;
    good = good
           && copy((struct byte_slice){ both.used > 0 ? both.data + same : "", both.used - same },
                   arena, piece, fault);
    text_free(&alone);
    text_free(&both);
    return good;
}

bool tokenizer_piece(const struct tokenizer *tokenizer, int32_t before, int32_t id,
                     struct arena *arena, struct token_piece *piece, struct fault *fault)
{
    const struct byte_slice token = vocabulary_text(&tokenizer->vocabulary, id);
    const struct step *decoder = &tokenizer->decoder;
    *piece = (struct token_piece){ .is_special = tokenizer_is_special(tokenizer, id) };
    if (piece->is_special)
        return copy(token, arena, piece, fault);
    const int byte = decoder_has(decoder, "ByteFallback") ? decoder_token_byte(token) : -1;
    if (byte >= 0) {
        const char one = (char)byte;
        piece->is_byte = true;
        return copy((struct byte_slice){ &one, 1 }, arena, piece, fault);
    }
    if (decoder_has(decoder, "ByteLevel"))
        return bytes_of_level(token, arena, piece, fault);
    if (!vocabulary_text(&tokenizer->vocabulary, before).data
        || tokenizer_is_special(tokenizer, before))
        before = -1;
    return decode_behind(tokenizer, before, id, arena, piece, fault);
}
