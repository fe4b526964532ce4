/* SPDX-License-Identifier: Apache-2.0 */
/* oip_tensors.c - the signatures of models: their attention, and their whole passes. */
#include "operations/oip_tensors.h"

#include "operations/trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, OUTPUTS_BESIDE_BLOCKS = 4 };

_Static_assert((int)OIP_TRACE_INPUT_COUNT <= (int)OIP_TENSORS_MAX, "a slot for each input");

/* -------------------------------------------------------------- attention -- */

static const struct oip_tensor SDPA_INPUTS[] = {
    { "Q", "FP32", false, 4, { -1, -1, -1, -1 }, false },
    { "K", "FP32", false, 4, { -1, -1, -1, -1 }, false },
    { "V", "FP32", false, 4, { -1, -1, -1, -1 }, false },
    { "attn_mask", "FP32", true, 4, { -1, -1, -1, -1 }, true },
    { "past_key", "FP32", true, 4, { -1, -1, -1, -1 }, false },
    { "past_value", "FP32", true, 4, { -1, -1, -1, -1 }, false },
    { "nonpad_kv_seqlen", "INT64", true, 1, { -1 }, false },
};

static const struct oip_tensor SDPA_OUTPUTS[] = {
    { "Y", "FP32", false, 4, { -1, -1, -1, -1 }, false },
    { "present_key", "FP32", false, 4, { -1, -1, -1, -1 }, false },
    { "present_value", "FP32", false, 4, { -1, -1, -1, -1 }, false },
    { "qk_matmul_output", "FP32", false, 4, { -1, -1, -1, -1 }, false },
};

enum {
    SDPA_INPUT_COUNT = sizeof SDPA_INPUTS / sizeof SDPA_INPUTS[0],
    SDPA_OUTPUT_COUNT = sizeof SDPA_OUTPUTS / sizeof SDPA_OUTPUTS[0],
};

/* The widths of all layers of a model. A width in which layers differ is -1: the call chooses the
 * layer, and so the width. */
struct common {
    int64_t d_query, d_key, d_value, d_out, q_heads;
};

static void agree(int64_t *common, int64_t width)
{
    if (*common != width)
        *common = -1;
}

static struct common common_widths(const struct model *model)
{
    const struct model_layer *first = &model->layers[0];
    struct common common = { first->d_query, first->d_key, first->d_value, first->d_out,
                             first->layer.q_heads };
    for (int64_t i = 1; i < model->layer_count; i++) {
        const struct model_layer *layer = &model->layers[i];
        agree(&common.d_query, layer->d_query);
        agree(&common.d_key, layer->d_key);
        agree(&common.d_value, layer->d_value);
        agree(&common.d_out, layer->d_out);
        agree(&common.q_heads, layer->layer.q_heads);
    }
    return common;
}

static int attention_inputs(const struct common *common, struct oip_tensor *tensors)
{
    const struct oip_tensor inputs[] = {
        { "query", "FP32", false, 3, { -1, -1, common->d_query }, false },
        { "key", "FP32", true, 3, { -1, -1, common->d_key }, false },
        { "value", "FP32", true, 3, { -1, -1, common->d_value }, false },
        { "mask", "FP32", true, 3, { -1, -1, -1 }, true },
        { "kv_len", "INT64", true, 1, { -1 }, false },
#define X(NAME, name, may_be_none) { #name, "FP32", true, 1, { common->q_heads }, false },
        ATTN_PER_HEAD_MAP(X)
#undef X
    };
    _Static_assert(sizeof inputs <= sizeof(struct oip_tensor[OIP_TENSORS_MAX]), "a slot for each");
    memcpy(tensors, inputs, sizeof inputs);
    return sizeof inputs / sizeof inputs[0];
}

bool oip_attention_signature(struct oip_signature *signature, const struct model *model,
                             struct arena *arena)
{
    *signature = (struct oip_signature){ .model = model->name, .version = model->version };
    if (model->parameterless) {
        memcpy(signature->inputs, SDPA_INPUTS, sizeof SDPA_INPUTS);
        signature->input_count = SDPA_INPUT_COUNT;
        signature->outputs = SDPA_OUTPUTS;
        signature->output_count = SDPA_OUTPUT_COUNT;
        signature->default_count = 1; /* Y */
        return true;
    }
    const struct common common = common_widths(model);
    struct oip_tensor *outputs = arena_calloc(arena, ATTN_OUTPUT_COUNT, sizeof *outputs);
    if (!outputs)
        return false;
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        outputs[i] = (struct oip_tensor){ .name = infer_output_names[i],
                                          .datatype = "FP32",
                                          .rank = attn_output_is_map(i) ? 4 : 3,
                                          .shape = { -1, common.q_heads, -1, -1 } };
    outputs[ATTN_OUTPUT_CONTEXT].shape[1] = -1;
    outputs[ATTN_OUTPUT_CONTEXT].shape[2] = common.d_out;
    signature->input_count = attention_inputs(&common, signature->inputs);
    signature->outputs = outputs;
    signature->output_count = ATTN_OUTPUT_COUNT;
    signature->default_count = 2; /* context and weights */
    return true;
}

void oip_platform(const struct model *model, char *platform, size_t size)
{
    snprintf(platform, size, "attnd_%s", model->parameterless ? "sdpa" : model->attention);
}

/* ------------------------------------------------- inputs of whole passes -- */

static const char *const INPUT_NAMES[OIP_TRACE_INPUT_COUNT] = {
    [OIP_INPUT_IDS] = "input_ids",
    [OIP_ATTENTION_MASK] = "attention_mask",
    [OIP_TOKEN_TYPE_IDS] = "token_type_ids",
    [OIP_POSITION_IDS] = "position_ids",
    [OIP_DECODER_INPUT_IDS] = "decoder_input_ids",
    [OIP_DECODER_ATTENTION_MASK] = "decoder_attention_mask",
    [OIP_PIXEL_VALUES] = "pixel_values",
    [OIP_INPUT_FEATURES] = "input_features",
    [OIP_INPUT_VALUES] = "input_values",
    [OIP_INPUTS_EMBEDS] = "inputs_embeds",
};

bool oip_trace_is_input(const char *name)
{
    for (int i = 0; i < OIP_TRACE_INPUT_COUNT; i++)
        if (strcmp(INPUT_NAMES[i], name) == 0)
            return true;
    return false;
}

static struct oip_tensor *add_input(struct oip_trace_tensors *tensors, enum oip_trace_input input,
                                    const char *datatype, int rank)
{
    struct oip_signature *signature = &tensors->signature;
    struct oip_tensor *tensor = &signature->inputs[signature->input_count];
    tensors->input_of[signature->input_count++] = input;
    *tensor =
        (struct oip_tensor){ INPUT_NAMES[input], datatype, true, rank, { -1, -1, -1, -1 }, false };
    return tensor;
}

static void add_token_inputs(struct oip_trace_tensors *tensors,
                             const struct model_embedding *embedding)
{
    add_input(tensors, OIP_INPUT_IDS, "INT64", 2);
    add_input(tensors, OIP_ATTENTION_MASK, "INT64", 2);
    if (embedding->types.rows)
        add_input(tensors, OIP_TOKEN_TYPE_IDS, "INT64", 2);
    add_input(tensors, OIP_POSITION_IDS, "INT64", 2);
}

static void add_inputs(struct oip_trace_tensors *tensors, const struct model_forward *forward)
{
    for (int i = 0; i < forward->stream_count; i++) {
        const struct model_embedding *embedding = &forward->streams[i].embedding;
        struct oip_tensor *tensor;
        if (forward->is_encoder_decoder && i == 1) {
            add_input(tensors, OIP_DECODER_INPUT_IDS, "INT64", 2);
            add_input(tensors, OIP_DECODER_ATTENTION_MASK, "INT64", 2);
        } else if (embedding->input == MODEL_INPUT_PIXELS) {
            tensor = add_input(tensors, OIP_PIXEL_VALUES, "FP32", 4);
            tensor->shape[1] = embedding->channels;
            tensor->shape[2] = embedding->image_height;
            tensor->shape[3] = embedding->image_width;
        } else if (embedding->input == MODEL_INPUT_FEATURES) {
            tensor = add_input(tensors, OIP_INPUT_FEATURES, "FP32", 3);
            tensor->shape[1] = embedding->feature_count;
            tensor->shape[2] = embedding->feature_length;
        } else if (embedding->input == MODEL_INPUT_SOUND) {
            add_input(tensors, OIP_INPUT_VALUES, "FP32", 2);
        } else {
            add_token_inputs(tensors, embedding);
        }
    }
    add_input(tensors, OIP_INPUTS_EMBEDS, "FP32", 3)->shape[2] = forward->streams[0].width;
}

/* ------------------------------------------------ outputs of whole passes -- */

static bool add_output(struct oip_trace_tensors *tensors, struct arena *arena, const char *name,
                       int rank, int64_t columns, struct oip_trace_output made_of)
{
    struct oip_tensor *tensor = &tensors->outputs[tensors->signature.output_count];
    tensors->made_of[tensors->signature.output_count++] = made_of;
    *tensor = (struct oip_tensor){ arena_strdup(arena, name), "FP32", false, rank,
                                   { -1, -1, -1, -1 },        false };
    if (rank == 4)
        tensor->shape[1] = columns;
    else
        tensor->shape[2] = columns;
    return tensor->name != NULL;
}

/* The streams that an output of no stream's own name may be of: those that stand apart. */
static bool stand_apart(const struct model_forward *forward)
{
    return forward->stream_count > 1 && !forward->is_encoder_decoder;
}

static int64_t common_width(const struct model_forward *forward)
{
    const int64_t width = forward->streams[0].width;
    return stand_apart(forward) && forward->streams[1].width != width ? -1 : width;
}

static bool add_last(struct oip_trace_tensors *tensors, const struct model_forward *forward,
                     struct arena *arena)
{
    const int last = stand_apart(forward) ? -1 : forward->stream_count - 1;
    const struct model_stream *stream = &forward->streams[last < 0 ? 0 : last];
    const bool has_head = forward->head.output.weight != NULL;
    tensors->signature.default_count = has_head ? 2 : 1;
    return add_output(tensors, arena, "last_hidden_state", 3,
                      last < 0 ? common_width(forward) : stream->width,
                      (struct oip_trace_output){ OIP_LAST_ROWS, last, 0 })
           && (!has_head
               || add_output(tensors, arena, "logits", 3, trace_vocabulary(forward),
                             (struct oip_trace_output){ OIP_LOGITS, last, 0 }))
           && (!forward->is_encoder_decoder
               || add_output(tensors, arena, "encoder_last_hidden_state", 3,
                             forward->streams[0].width,
                             (struct oip_trace_output){ OIP_LAST_ROWS, 0, 0 }));
}

static int64_t heads_of(const struct model *model, int64_t layer)
{
    return layer < 0 ? -1 : model->layers[layer].layer.q_heads;
}

/* The attention of a block, where it has one of this kind. */
static bool add_attention(struct oip_trace_tensors *tensors, const struct model *model, int stream,
                          int64_t block, bool is_cross, const char *prefix, struct arena *arena)
{
    const struct model_stream *of = &model->forward->streams[stream < 0 ? 0 : stream];
    const struct model_block *at = block < of->block_count ? &of->blocks[block] : NULL;
    const int64_t layer = !at ? -1 : is_cross ? at->cross_layer : at->self_layer;
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%sattentions.%" PRId64, prefix, block);
    if (stream >= 0 && (layer < 0 || model->layers[layer].lacks_attention))
        return true;
    return add_output(tensors, arena, name, 4, stream < 0 ? -1 : heads_of(model, layer),
                      (struct oip_trace_output){ is_cross ? OIP_CROSS_ATTENTIONS : OIP_ATTENTIONS,
                                                 stream, block });
}

/* hidden_states.N of N blocks are the rows that leave the model in most families. Families that
 * take pixels, and CLIP for its texts too, mean the rows before the final norm, which a pass does
 * not keep. */
static bool has_last_rows(const struct model_forward *forward)
{
    return forward->is_encoder_decoder
           || (!forward->streams[0].name
               && forward->streams[0].embedding.input != MODEL_INPUT_PIXELS);
}

static bool add_rows(struct oip_trace_tensors *tensors, const struct model_forward *forward,
                     int stream, int64_t count, const char *prefix, struct arena *arena)
{
    const int64_t width = stream < 0 ? common_width(forward) : forward->streams[stream].width;
    char name[NAME_BYTES];
    for (int64_t i = 0; i <= count; i++) {
        const bool is_last = i == count;
        snprintf(name, sizeof name, "%shidden_states.%" PRId64, prefix, i);
        if ((!is_last || has_last_rows(forward))
            && !add_output(
                tensors, arena, name, 3, width,
                (struct oip_trace_output){ is_last ? OIP_LAST_ROWS : OIP_ROWS, stream, i }))
            return false;
    }
    return true;
}

/* Of streams that stand apart the list is that of the longer one. */
static bool add_blocks(struct oip_trace_tensors *tensors, const struct model *model, int stream,
                       const char *prefix, struct arena *arena)
{
    const struct model_forward *forward = model->forward;
    int64_t count = forward->streams[stream < 0 ? 0 : stream].block_count;
    if (stream < 0 && forward->streams[1].block_count > count)
        count = forward->streams[1].block_count;
    for (int64_t i = 0; i < count; i++)
        if (!add_attention(tensors, model, stream, i, false, prefix, arena))
            return false;
    return add_rows(tensors, forward, stream, count, prefix, arena);
}

static bool add_outputs(struct oip_trace_tensors *tensors, const struct model *model,
                        struct arena *arena)
{
    const struct model_forward *forward = model->forward;
    if (!add_last(tensors, forward, arena))
        return false;
    if (!forward->is_encoder_decoder)
        return add_blocks(tensors, model, stand_apart(forward) ? -1 : 0, "", arena);
    for (int64_t i = 0; i < forward->streams[1].block_count; i++)
        if (!add_attention(tensors, model, 1, i, true, "cross_", arena))
            return false;
    return add_blocks(tensors, model, 0, "encoder_", arena)
           && add_blocks(tensors, model, 1, "decoder_", arena);
}

bool oip_trace_tensors_list(struct oip_trace_tensors *tensors, const struct model *model,
                            struct arena *arena)
{
    const struct model_forward *forward = model->forward;
    size_t most = OUTPUTS_BESIDE_BLOCKS;
    for (int i = 0; i < forward->stream_count; i++)
        most += (size_t)forward->streams[i].block_count * 3 + 1;
    *tensors = (struct oip_trace_tensors){ .signature = { .model = model->name,
                                                          .version = model->version } };
    tensors->outputs = arena_calloc(arena, most, sizeof *tensors->outputs);
    tensors->made_of = arena_calloc(arena, most, sizeof *tensors->made_of);
    if (!tensors->outputs || !tensors->made_of)
        return false;
    tensors->signature.outputs = tensors->outputs;
    add_inputs(tensors, forward);
    return add_outputs(tensors, model, arena);
}
