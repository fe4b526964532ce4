/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_tokenizer.h - a tokenizer.json written into the metadata of a GGUF file, as the converter of
 * llama.cpp does it (convert_hf_to_gguf.py, MIT). Nothing here uses the daemon's tables. */
#ifndef GGUF_TOKENIZER_CASE_H
#define GGUF_TOKENIZER_CASE_H

#include "gguf_write.h"
#include "models/tokenizer/tokenizer.h"

#include <cjson/cJSON.h>

/* Writes model, pre (NULL: none), tokens, types, and scores or merges of a file's tree. Of a BPE
 * whose model is "llama" a score is the rank of a merge. */
void gguf_tokenizer_write(struct gguf_write *file, const cJSON *root, const char *model,
                          const char *pre);

/* Opens what was written under the name words.gguf; NULL where it is refused, with the fault. */
struct tokenizer *gguf_tokenizer_open(const struct gguf_write *file, struct fault *fault);

/* Expects that the file has no tokenizer. */
void gguf_tokenizer_expect_none(const struct gguf_write *file);

#endif
