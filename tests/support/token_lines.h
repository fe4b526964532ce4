/* SPDX-License-Identifier: Apache-2.0 */
/* token_lines.h - lines with the tokens that other people's implementations make of them. */
#ifndef TOKEN_LINES_H
#define TOKEN_LINES_H

#include "models/tokenizer/tokenizer.h"

#include <cjson/cJSON.h>

/* Reads a file of tests/conformance/. */
cJSON *token_lines_read(const char *name);

/* The bytes of a string of it, in a buffer of the string's size. */
struct byte_slice token_lines_bytes(const cJSON *node, char *buffer);

/* Expects ids, offsets in bytes and the decoded text; offsets and decoded may be NULL. */
void token_lines_expect(const char *name, const struct tokenizer *tokenizer, struct byte_slice text,
                        const cJSON *ids, const cJSON *offsets, const cJSON *decoded);

/* Expects the ids of a text with its special tokens, and of a pair unless it is NULL; and the token
 * types of each where types is not NULL. Both as text: "1 7 2", "000". */
void token_lines_expect_ids(const struct tokenizer *tokenizer, const char *text, const char *pair,
                            const char *ids, const char *types);

/* Expects the text of ids without special tokens. */
void token_lines_expect_decoded(const struct tokenizer *tokenizer, const int32_t *ids,
                                int64_t count, const char *expected);

#endif
