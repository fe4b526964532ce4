/* SPDX-License-Identifier: Apache-2.0 */
/* oip_tensors.h - the inputs and outputs that each model has in the Open Inference Protocol: those
 * of attention, and those of its whole pass under the names that exports of Hugging Face's models
 * to ONNX give them (huggingface/optimum, exporters/onnx).
 *
 * A model with parameters also takes tensors without the first dimension: those of one call. Q, K
 * and V of sdpa may also be [batch, length, heads * head_dim]. */
#ifndef ATTND_OIP_TENSORS_H
#define ATTND_OIP_TENSORS_H

#include "call/infer.h"
#include "formats/oip.h"

/* Makes the signature of a model's attention. False: no memory. */
bool oip_attention_signature(struct oip_signature *signature, const struct model *model,
                             struct arena *arena);

/* Writes the model's "platform", which the protocol spells <project>_<format>: "attnd_sdpa", or
 * "attnd_" and a name of model_names.h such as "attnd_scaled_dot_product". */
void oip_platform(const struct model *model, char *platform, size_t size);

/* ---------------------------------------------------------- whole passes -- */

enum oip_trace_input {
    OIP_INPUT_IDS,
    OIP_ATTENTION_MASK,
    OIP_TOKEN_TYPE_IDS,
    OIP_POSITION_IDS,
    OIP_DECODER_INPUT_IDS,
    OIP_DECODER_ATTENTION_MASK,
    OIP_PIXEL_VALUES,
    OIP_INPUT_FEATURES,
    OIP_INPUT_VALUES,
    OIP_INPUTS_EMBEDS,
    OIP_TRACE_INPUT_COUNT
};

/* What an output is made of. */
enum oip_trace_source { OIP_LAST_ROWS, OIP_LOGITS, OIP_ATTENTIONS, OIP_CROSS_ATTENTIONS, OIP_ROWS };

struct oip_trace_output {
    enum oip_trace_source source;
    int stream;    /* of the model; -1: the one that runs, of streams that stand apart */
    int64_t block; /* whose attention it is, or that the rows enter */
};

struct oip_trace_tensors {
    struct oip_signature signature;
    enum oip_trace_input input_of[OIP_TRACE_INPUT_COUNT]; /* each */
    struct oip_tensor *outputs;                           /* the signature's, in the arena */
    struct oip_trace_output *made_of;                     /* each */
};

/* Whether an input of this name belongs to whole passes, of any model. */
bool oip_trace_is_input(const char *name);

/* Lists the tensors of a model that has a pass. False: no memory. */
bool oip_trace_tensors_list(struct oip_trace_tensors *tensors, const struct model *model,
                            struct arena *arena);

#endif
