/* oip_trace_tensors.h - inputs and outputs of the whole pass of a model, under the names that
 * exports of Hugging Face's models to ONNX give them (huggingface/optimum, exporters/onnx). */
#ifndef ATTND_OIP_TRACE_TENSORS_H
#define ATTND_OIP_TRACE_TENSORS_H

#include "base/arena.h"
#include "wire/oip_tensors.h"

enum oip_trace_input {
    OIP_INPUT_IDS,
    OIP_ATTENTION_MASK,
    OIP_TOKEN_TYPE_IDS,
    OIP_POSITION_IDS,
    OIP_DECODER_INPUT_IDS,
    OIP_DECODER_ATTENTION_MASK,
    OIP_PIXEL_VALUES,
    OIP_INPUT_FEATURES,
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
    struct oip_tensor inputs[OIP_TRACE_INPUT_COUNT];
    enum oip_trace_input input_of[OIP_TRACE_INPUT_COUNT]; /* each */
    int input_count;
    struct oip_tensor *outputs;       /* in the arena, with their names */
    struct oip_trace_output *made_of; /* each */
    int output_count;
    int default_count; /* of the first outputs are answered where a request names none */
};

/* Whether an input of this name belongs to whole passes, of any model. */
bool oip_trace_is_input(const char *name);

/* Lists the tensors of a model that has a pass. False: no memory. */
bool oip_trace_tensors_list(struct oip_trace_tensors *tensors, const struct model *model,
                            struct arena *arena);

#endif
