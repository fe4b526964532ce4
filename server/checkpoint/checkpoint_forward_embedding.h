/* checkpoint_forward_embedding.h - how the tokens of a published checkpoint become rows. */
#ifndef ATTND_CHECKPOINT_FORWARD_EMBEDDING_H
#define ATTND_CHECKPOINT_FORWARD_EMBEDDING_H

#include "checkpoint/checkpoint_forward_tensors.h"

/* Fills stream->embedding and stream->length_max. */
bool checkpoint_forward_embedding_build(struct model_stream *stream,
                                        struct checkpoint_forward_reader *reader);

#endif
