/* SPDX-License-Identifier: Apache-2.0 */
/* model_readout.c - which readout a model has. */
#include "models/model/model_readout.h"

#include "models/model/model.h"
#include "models/model/model_forward.h"

#include <math.h>

const char *const model_pooling_names[MODEL_POOLING_COUNT] = {
#define X(NAME, name) #name,
    MODEL_POOLING_MAP(X)
#undef X
};

const char *const model_classes_names[MODEL_CLASSES_COUNT] = {
#define X(NAME, name) #name,
    MODEL_CLASSES_MAP(X)
#undef X
};

void model_classes_activate(enum model_classes_activation activation, const float *logits,
                            int64_t count, float *probabilities)
{
    const struct attn_row_sums sums = attn_row_sums(logits, count);
    for (int64_t i = 0; i < count; i++) {
        const double logit = (double)logits[i];
        probabilities[i] = activation == MODEL_CLASSES_SOFTMAX
                               ? (float)exp(logit - (double)sums.max - sums.log_sum)
                           : activation == MODEL_CLASSES_SIGMOID ? (float)(1 / (1 + exp(-logit)))
                                                                 : logits[i];
    }
}

const struct model_readout *model_find_readout(const struct model *model, int stream,
                                               const char **reason)
{
    const struct model_vectors *vectors = model->vectors;
    const struct model_forward *forward = model->forward;
    *reason = vectors && vectors->reason ? vectors->reason : forward->pooler_reason;
    if (stream == 0 && vectors && vectors->reason)
        return NULL;
    if (stream == 0 && vectors && vectors->readout.width > 0)
        return &vectors->readout;
    if (forward->poolers[stream].width > 0)
        return &forward->poolers[stream];
    if (!*reason)
        *reason = "there is no modules.json beside it, and no pooler in its file";
    return NULL;
}

int64_t model_length_whole(const struct model *model)
{
    const struct model_stream *stream = model->forward ? &model->forward->streams[0] : NULL;
    return !stream ? 0 : stream->length_max > 0 ? stream->length_max : stream->length_said;
}

int64_t model_length_cut(const struct model *model)
{
    const int64_t said = model->vectors ? model->vectors->length_max : 0;
    const int64_t positions = model->forward ? model->forward->streams[0].length_max : 0;
    if (said > 0 && (positions == 0 || said < positions))
        return said;
    return model_length_whole(model);
}
