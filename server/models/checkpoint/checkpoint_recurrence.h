/* checkpoint_recurrence.h - builds the layers of hybrid families that are no attention, as
 * functions for rows of the tables (checkpoint_family.h). Names of tensors follow what the row has
 * in recurrent. Each returns false with a fault that names the field or the tensor. */
#ifndef ATTND_CHECKPOINT_RECURRENCE_H
#define ATTND_CHECKPOINT_RECURRENCE_H

#include "models/checkpoint/checkpoint_pass_internal.h"

/* LFM2's gated convolution: in_proj, conv, out_proj, by conv_L_cache and conv_bias. */
#define CHECKPOINT_SHORT_CONVOLUTION_FIELDS "conv_L_cache|conv_bias"
bool checkpoint_recurrence_short_convolution(struct model_recurrence *recurrence,
                                             struct checkpoint_pass_reader *reader, int64_t width);

#endif
