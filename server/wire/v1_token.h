/* v1_token.h - a token in an answer of the native API. */
#ifndef ATTND_V1_TOKEN_H
#define ATTND_V1_TOKEN_H

#include "text/text.h"
#include "tokenizer/tokenizer.h"

/* Writes {"id":1996,"text":"the","start":0,"end":3}, with "special" where the token is special, and
 * "sequence" where there is a pair. A token that is not of a text has no start, end and sequence;
 * without a tokenizer (NULL) there is no text. */
void v1_token_write(const struct tokenizer *tokenizer, const struct token *token, bool has_pair,
                    struct text *text);

/* The text of an id, as the vocabulary has it; NULL where the tokenizer, which may be NULL, has
 * none.
 */
const char *v1_token_text(const struct tokenizer *tokenizer, int64_t id);

/* Writes ,"text":"the" or nothing. */
void v1_token_write_text(const struct tokenizer *tokenizer, int64_t id, struct text *text);

#endif
