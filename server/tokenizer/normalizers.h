/* normalizers.h - the readers of the normalizers that have a file of their own; see normalizer.c
 * for the list of all. */
#ifndef ATTND_NORMALIZERS_H
#define ATTND_NORMALIZERS_H

#include "tokenizer/pipeline.h"

bool normalizer_bert_read(struct pipeline_build *build, const cJSON *node, void *step);
bool normalizer_replace_read(struct pipeline_build *build, const cJSON *node, void *step);
bool normalizer_precompiled_read(struct pipeline_build *build, const cJSON *node, void *step);

/* The same of the rules as they lie in a SentencePiece model. They must live as long as the step.
 */
bool normalizer_precompiled_init(struct pipeline_build *build, const unsigned char *data,
                                 size_t size, struct normalizer *step);

#endif
