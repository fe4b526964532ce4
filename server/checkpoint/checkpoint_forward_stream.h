/* checkpoint_forward_stream.h - one stream of a published checkpoint: embedding, blocks, norm. */
#ifndef ATTND_CHECKPOINT_FORWARD_STREAM_H
#define ATTND_CHECKPOINT_FORWARD_STREAM_H

#include "checkpoint/checkpoint_forward_tensors.h"

/* Builds a stream of rows of stream->width numbers. Its self attention is layers first, first + 1,
 * ...; its cross attention the same from cross_first on, or none where that is -1. */
bool checkpoint_forward_stream_build(struct model_stream *stream,
                                     struct checkpoint_forward_reader *reader, int64_t first,
                                     int64_t cross_first);

/* Builds the head over the rows of the last stream, whose reader this is. is_causal: that of its
 * attention. */
bool checkpoint_forward_head_build(struct model_head *head,
                                   struct checkpoint_forward_reader *reader,
                                   const struct model_stream *stream, bool is_causal);

#endif
