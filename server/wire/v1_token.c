/* v1_token.c - see v1_token.h. */
#include "wire/v1_token.h"

const char *v1_token_text(const struct tokenizer *tokenizer, int64_t id)
{
    return tokenizer && id >= 0 && id < tokenizer_id_end(tokenizer)
               ? tokenizer_token_text(tokenizer, (int32_t)id)
               : NULL;
}

void v1_token_write_text(const struct tokenizer *tokenizer, int64_t id, struct text *text)
{
    const char *name = v1_token_text(tokenizer, id);
    if (!name)
        return;
    text_raw(text, ",\"text\":");
    text_string(text, name);
}

void v1_token_write(const struct tokenizer *tokenizer, const struct token *token, bool has_pair,
                    struct text *text)
{
    text_raw(text, "{\"id\":");
    text_integer(text, token->id);
    v1_token_write_text(tokenizer, token->id, text);
    if (token->is_of_text) {
        text_raw(text, ",\"start\":");
        text_integer(text, token->start);
        text_raw(text, ",\"end\":");
        text_integer(text, token->end);
    }
    if (has_pair && token->is_of_text) {
        text_raw(text, ",\"sequence\":");
        text_integer(text, token->sequence);
    }
    text_raw(text, token->is_special ? ",\"special\":true}" : "}");
}
