/* SPDX-License-Identifier: Apache-2.0 */
/* added_tokens.h - the tokens beside the model's vocabulary that a text is searched for.
 *
 * They are found before the model sees the text: those that are not normalized in the text as it
 * came, the others in the normalized text, where their own text is normalized too. Of the tokens
 * that begin at a place the longest wins, and the search goes on behind it. */
#ifndef ATTND_ADDED_TOKENS_H
#define ATTND_ADDED_TOKENS_H

#include "models/tokenizer/pipeline.h"

struct added_tokens;

enum { ADDED_TOKEN_BYTES_MAX = 1024 }; /* of one token: it bounds the work at each byte of a text */

/* Reads the array "added_tokens", after the model's vocabulary and the normalizer were read, and
 * adds to the vocabulary what the model does not have. The fault is a token whose id is not the one
 * that the reference implementation would give it. node is NULL where the file has none. */
bool added_tokens_read(struct pipeline_build *build, const cJSON *node,
                       const struct step *normalizer, struct added_tokens **added);

/* Cuts the tokens of a kind out of every piece. */
bool added_tokens_cut(const struct added_tokens *added, bool normalized, struct pieces *pieces,
                      struct fault *fault);

/* The text that an added token is searched by, which is normalized where the token is; and whether
 * it takes the white space beside it. */
struct byte_slice added_tokens_text(const struct added_tokens *added, int32_t id, bool *strips);

/* Whether a token is special: left out where a text is decoded without special tokens. */
bool added_tokens_is_special(const struct added_tokens *added, int32_t id);

/* Whether the id is an added token's at all. */
bool added_tokens_has(const struct added_tokens *added, int32_t id);

#endif
