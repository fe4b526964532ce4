/* checkpoint_forward_embedding.h - how the input of a published checkpoint becomes rows. */
#ifndef ATTND_CHECKPOINT_FORWARD_EMBEDDING_H
#define ATTND_CHECKPOINT_FORWARD_EMBEDDING_H

#include "checkpoint/checkpoint_forward_tensors.h"

/* Fills stream->embedding and stream->length_max. */
bool checkpoint_forward_embedding_build(struct model_stream *stream,
                                        struct checkpoint_forward_reader *reader);

/* The same for a row of features, and for one of pixels (checkpoint_forward_input.c). */
bool checkpoint_forward_features_build(struct model_stream *stream,
                                       struct checkpoint_forward_reader *reader);
bool checkpoint_forward_patches_build(struct model_stream *stream,
                                      struct checkpoint_forward_reader *reader);

/* Fills the table of positions [count, width], which the file has or a formula gives, and
 * length_max. */
bool checkpoint_forward_positions_build(struct model_stream *stream,
                                        struct checkpoint_forward_reader *reader, int64_t width);

#endif
