/* SPDX-License-Identifier: Apache-2.0 */
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

/* The gated delta rule of Qwen3-Next and Qwen 3.5: in_proj_qkvz and in_proj_ba, in groups by the
 * heads of keys, or in_proj_qkv, in_proj_z, in_proj_b and in_proj_a; conv1d, dt_bias, A_log, norm,
 * out_proj. */
#define CHECKPOINT_DELTA_FIELDS                                                                    \
    "linear_num_key_heads|linear_num_value_heads|linear_key_head_dim|linear_value_head_dim|"       \
    "linear_conv_kernel_dim"
bool checkpoint_recurrence_delta(struct model_recurrence *recurrence,
                                 struct checkpoint_pass_reader *reader, int64_t width);

/* The same with heads of values in the order of GGUF files, in which those of keys take turns. */
bool checkpoint_recurrence_delta_in_turn(struct model_recurrence *recurrence,
                                         struct checkpoint_pass_reader *reader, int64_t width);

/* Mamba-2's mixer: in_proj makes the gate, x with b and c, and dt; conv1d; A_log, D, dt_bias; norm
 * behind the gate; out_proj. Of Bamba, whose norm is of the row. */
#define CHECKPOINT_MAMBA_FIELDS                                                                    \
    "mamba_n_heads|mamba_n_groups|mamba_d_state|mamba_d_conv|mamba_conv_bias|mamba_proj_bias|"     \
    "time_step_limit"
bool checkpoint_recurrence_bamba(struct model_recurrence *recurrence,
                                 struct checkpoint_pass_reader *reader, int64_t width);

/* The same of Falcon-H1, whose products are multiplied by ssm_multipliers, gate, x, b, c and dt
 * each by its own; the norm is of each group of heads, is there only with mamba_rms_norm, and
 * precedes the gate with mamba_norm_before_gate. */
#define CHECKPOINT_FALCON_H1_FIELDS                                                                \
    CHECKPOINT_MAMBA_FIELDS "|projectors_bias|mamba_rms_norm|mamba_norm_before_gate|"              \
                            "ssm_multipliers"
bool checkpoint_recurrence_falcon_h1(struct model_recurrence *recurrence,
                                     struct checkpoint_pass_reader *reader, int64_t width);

/* The same of Nemotron-H, whose norm is of each group of heads. */
#define CHECKPOINT_NEMOTRON_FIELDS                                                                 \
    "mamba_num_heads|mamba_n_groups|n_groups|ssm_state_size|mamba_d_conv|conv_kernel|"             \
    "mamba_conv_bias|use_conv_bias|use_bias|time_step_limit"
bool checkpoint_recurrence_nemotron(struct model_recurrence *recurrence,
                                    struct checkpoint_pass_reader *reader, int64_t width);

#endif
