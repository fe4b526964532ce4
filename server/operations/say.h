/* SPDX-License-Identifier: Apache-2.0 */
/* say.h - what the answers of several operations have in common, said to the writer of any format.
 *
 * All but say_fault(), say_end() and say_id(), whose members are of the object that is open, say
 * one member; name is NULL in a list. */
#ifndef ATTND_SAY_H
#define ATTND_SAY_H

#include "formats/writer.h"
#include "models/tokenizer/tokenizer.h"

void say_array(struct writer *writer, const char *name, const void *data, enum attn_dtype dtype,
               int rank, const int64_t *shape);

/* The weights of a map with top_k: {"indices": ..., "values": ...}, both of this shape. */
void say_top_k(struct writer *writer, const char *name, const int64_t *indices, const void *values,
               enum attn_dtype dtype, int rank, const int64_t *shape);

/* {"id":1996,"text":"the","start":0,"end":3}, with "special" where the token is special, and
 * "sequence" where there is a pair. A token that is not of a text has no start, end and sequence;
 * without a tokenizer (NULL) there is no text. */
void say_token(struct writer *writer, const struct tokenizer *tokenizer, const struct token *token,
               bool has_pair);

/* A float, with its digits. */
void say_number(struct writer *writer, const char *name, const float *number);

/* The members of an id: "id":1996,"text":"the", in the object that is open; without a tokenizer
 * (NULL) no text. */
void say_id(struct writer *writer, const struct tokenizer *tokenizer, int64_t id);

/* The text of an id, as the vocabulary has it; NULL where the tokenizer, which may be NULL, has
 * none. */
const char *say_token_text(const struct tokenizer *tokenizer, int64_t id);

/* When something ends, at a time of clock_now_ns(): "expires":"2026-07-23T10:35:11Z" and
 * "expires_in_ms":59999. */
void say_end(struct writer *writer, int64_t expires_ns);

/* The fault of item number index of a batch, with a pointer from the whole body. */
void say_fault(struct writer *writer, const struct fault *fault, int64_t index);

#endif
