/* SPDX-License-Identifier: Apache-2.0 */
/* model_continue.c - see model_continue.h. */
#include "models/model/model_continue.h"

#include "models/model/model_forward.h"

const char *model_continue_reason(const struct model *model)
{
    const struct model_forward *forward = model->forward;
    if (!forward)
        return model->forward_reason ? model->forward_reason : "it has attention layers alone";
    if (forward->stream_count != 1 || forward->streams[0].embedding.padding_id >= 0)
        return "it is no decoder";
    for (int64_t i = 0; i < model->layer_count; i++)
        if (!model->layers[i].options.causal || model->layers[i].relative_bias.values)
            return "its rows attend to those behind them";
    return NULL;
}

const char *model_complete_reason(const struct model *model)
{
    const char *reason = model_continue_reason(model);
    if (reason)
        return reason;
    if (model->forward->streams[0].embedding.input != MODEL_INPUT_TOKENS)
        return "it takes no tokens";
    if (!model->forward->head.output.weight)
        return "there is no head over its vocabulary";
    return model->forward->head.is_masked ? "it predicts masked tokens" : NULL;
}

bool model_is_end(const struct model *model, int64_t id)
{
    for (int64_t i = 0; i < model->end_id_count; i++)
        if (model->end_ids[i] == id)
            return true;
    return false;
}

void model_describe_openai(const char *name, int64_t created_s, struct text *text)
{
    text_key(text, "id");
    text_string(text, name);
    text_raw(text, ",\"object\":\"model\",\"created\":");
    text_integer(text, created_s);
    text_raw(text, ",\"owned_by\":\"attnd\"");
}
