/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_readout.c - the poolers that families have over the rows which leave a stream: one
 * vector for the whole input, pooler_output in transformers.
 *
 * Source: transformers, models/<family>/modeling_<family>.py: BertPooler and its like in
 * RobertaModel, ViTModel and others; AlbertModel.pooler; Dinov2Model, whose pooler is the first
 * row; CLIPModel, get_text_features() and get_image_features(); SiglipTextTransformer.head. */
#include "models/checkpoint/checkpoint_pass_internal.h"

#include "models/checkpoint/checkpoint_fields.h"

#include <string.h>

/* A pooler is dense(norm(row)), of the first row or of the row of a token. Names are as in struct
 * checkpoint_pass. */
struct pooler {
    const char *model_type;
    const char *kind;       /* of the stream's layers; NULL: any */
    const char *norm;       /* NULL: none */
    const char *dense;      /* without this tensor there is no pooler, unless it is_bare then */
    const char *activation; /* of dense; NULL: none, and dense has no bias */
    const char *token;      /* the field of the token whose row it is; NULL: it is the first row */
    bool is_bare;           /* without dense it is the row alone */
    bool is_last;           /* of the last row, in place of the first */
    bool is_probe;          /* attention of a probe, in place of all that */
};

/* CLIP's first config had 2 as the id of the token that ends a text, which it is not: there
 * CLIPTextTransformer takes the largest id. */
enum { CLIP_OLD_END = 2 };

#define CLIP_TEXT_POOLER   .dense = "/text_projection", .token = "eos_token_id=2", .is_bare = true
#define CLIP_VISION_POOLER .norm = "post_layernorm", .dense = "/visual_projection", .is_bare = true

static const struct pooler POOLERS[] = {
    { .model_type = "bert|roberta|xlm-roberta|camembert|mpnet|esm|jina_bert_v2|new|gte|vit|deit",
      .dense = "pooler.dense",
      .activation = "=tanh" },
    { .model_type = "albert", .dense = "pooler", .activation = "=tanh" },
    { .model_type = "siglip|siglip_text_model|siglip2|siglip2_text_model",
      .kind = "text",
      .dense = "head",
      .activation = "=linear",
      .is_last = true },
    { .model_type = "siglip|siglip_vision_model|siglip2|siglip2_vision_model",
      .kind = "vision",
      .dense = "head.mlp.fc1",
      .is_probe = true },
    { .model_type = "dinov2|dinov2_with_registers|dinov3_vit", .is_bare = true },
    { .model_type = "clip|clip_text_model", .kind = "text", CLIP_TEXT_POOLER },
    { .model_type = "clip|clip_vision_model", .kind = "vision", CLIP_VISION_POOLER },
};

static const struct pooler *find_pooler(const struct checkpoint_pass_reader *reader)
{
    const struct checkpoint_stack *stack = reader->run->stack;
    for (size_t i = 0; i < sizeof POOLERS / sizeof POOLERS[0]; i++) {
        const struct pooler *pooler = &POOLERS[i];
        if (checkpoint_has_type(pooler->model_type, reader->checkpoint_type)
            && (!pooler->kind || strcmp(pooler->kind, stack->kind) == 0)
            && (pooler->is_bare || checkpoint_pass_has(reader, pooler->dense)))
            return pooler;
    }
    return NULL;
}

static bool build_pooler(struct model_readout *readout, const struct pooler *pooler,
                         struct checkpoint_pass_reader *reader, int64_t width)
{
    const cJSON *section = reader->run->section;
    struct model_dense *dense = arena_calloc(reader->parameters->arena, 2, sizeof *dense);
    int count = 0;
    if (!dense)
        return fault_no_memory(reader->fault);
    if (pooler->token
        && !checkpoint_read_integer(section, pooler->token, &readout->token_id, reader->fault))
        return false;
    readout->is_of_token = pooler->token != NULL;
    if (readout->token_id == CLIP_OLD_END)
        readout->token_id = -1;
    if (pooler->norm && !checkpoint_pass_norm(reader, &dense[count++].norm, pooler->norm, width))
        return false;
    if (checkpoint_pass_has(reader, pooler->dense)) {
        struct model_dense *last = &dense[count++];
        if (!checkpoint_pass_linear(reader, &last->linear, pooler->dense, 0, width, false,
                                    pooler->activation != NULL)
            || (pooler->activation
                && !checkpoint_read_activation(section, pooler->activation, &last->activation,
                                               reader->fault)))
            return false;
        width = last->linear.out;
    }
    readout->dense = dense;
    readout->dense_count = count;
    readout->poolings[0] = pooler->is_last ? MODEL_POOLING_LAST : MODEL_POOLING_CLS;
    readout->pooling_count = 1;
    readout->width = width;
    return true;
}

bool checkpoint_readout_build(struct model_forward *forward, int stream,
                              struct checkpoint_pass_reader *reader)
{
    const struct pooler *pooler = find_pooler(reader);
    struct model_readout readout = { .width = 0 };
    struct fault why = { .code = FAULT_NONE }, *fault = reader->fault;
    if (!pooler)
        return true;
    reader->fault = &why;
    const int64_t width = forward->streams[stream].width;
    const bool good = pooler->is_probe ? checkpoint_probe_build(&readout, reader, width)
                                       : build_pooler(&readout, pooler, reader, width);
    reader->fault = fault;
    if (good) {
        forward->poolers[stream] = readout;
        return true;
    }
    if (why.code == FAULT_MEMORY)
        return fault_no_memory(fault);
    forward->pooler_reason = arena_strdup(reader->parameters->arena, why.message);
    return forward->pooler_reason || fault_no_memory(fault);
}
