/* decoders.h - the readers of all types of decoders, for their list in decoder.c. Each makes a
 * struct decoder of a node. */
#ifndef ATTND_DECODERS_H
#define ATTND_DECODERS_H

#include "tokenizer/pipeline.h"

/* decoder_bytes.c: tokens that stand for bytes. */
bool decoder_byte_level_read(struct pipeline_build *build, const cJSON *node, void *step);
bool decoder_byte_fallback_read(struct pipeline_build *build, const cJSON *node, void *step);

/* decoder_words.c: the spaces between words. */
bool decoder_wordpiece_read(struct pipeline_build *build, const cJSON *node, void *step);
bool decoder_bpe_read(struct pipeline_build *build, const cJSON *node, void *step);
bool decoder_ctc_read(struct pipeline_build *build, const cJSON *node, void *step);
bool decoder_metaspace_read(struct pipeline_build *build, const cJSON *node, void *step);

#endif
