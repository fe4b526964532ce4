/* pre_tokenizer_types.h - the readers of all types of pre-tokenizers, for their list in
 * pre_tokenizer.c. Each makes a struct pre_tokenizer of a node. */
#ifndef ATTND_PRE_TOKENIZER_TYPES_H
#define ATTND_PRE_TOKENIZER_TYPES_H

#include "tokenizer/pipeline.h"

/* pre_tokenizer_characters.c: cuts by the class of each character. */
bool bert_pre_tokenizer_read(struct pipeline_build *build, const cJSON *node, void *step);
bool whitespace_read(struct pipeline_build *build, const cJSON *node, void *step);
bool whitespace_split_read(struct pipeline_build *build, const cJSON *node, void *step);
bool punctuation_read(struct pipeline_build *build, const cJSON *node, void *step);
bool digits_read(struct pipeline_build *build, const cJSON *node, void *step);
bool delimiter_read(struct pipeline_build *build, const cJSON *node, void *step);
bool fixed_length_read(struct pipeline_build *build, const cJSON *node, void *step);

bool byte_level_read(struct pipeline_build *build, const cJSON *node, void *step);
bool metaspace_read(struct pipeline_build *build, const cJSON *node, void *step);
bool scripts_read(struct pipeline_build *build, const cJSON *node, void *step);

#endif
