/* oip_tensors.c - see oip_tensors.h. */
#include "wire/oip_tensors.h"

#include "base/dtype.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- datatypes -- */

static const struct oip_datatype DATATYPES[] = {
    { "FP32", OIP_FLOAT, 4, ATTN_F32, false },    { "FP16", OIP_FLOAT, 2, ATTN_F16, false },
    { "BF16", OIP_FLOAT, 2, ATTN_BF16, false },   { "FP64", OIP_FLOAT, 8, ATTN_F64, false },
    { "BOOL", OIP_BOOL, 1, ATTN_BOOL, false },    { "INT8", OIP_INTEGER, 1, ATTN_F32, false },
    { "INT16", OIP_INTEGER, 2, ATTN_F32, false }, { "INT32", OIP_INTEGER, 4, ATTN_F32, false },
    { "INT64", OIP_INTEGER, 8, ATTN_F32, false }, { "UINT8", OIP_INTEGER, 1, ATTN_F32, true },
    { "UINT16", OIP_INTEGER, 2, ATTN_F32, true }, { "UINT32", OIP_INTEGER, 4, ATTN_F32, true },
    { "UINT64", OIP_INTEGER, 8, ATTN_F32, true }, { "BYTES", OIP_BYTES, 0, ATTN_F32, false },
};

enum { DATATYPE_COUNT = sizeof DATATYPES / sizeof DATATYPES[0] };

const struct oip_datatype *oip_datatype_find(const char *name)
{
    for (int i = 0; i < DATATYPE_COUNT; i++)
        if (strcmp(DATATYPES[i].name, name) == 0)
            return &DATATYPES[i];
    return NULL;
}

const char *oip_datatype_name(enum attn_dtype dtype)
{
    int i = 0;
    while (DATATYPES[i].dtype != dtype)
        i++;
    return DATATYPES[i].name;
}

const char *oip_datatype_others(const struct oip_tensor *input)
{
    if (oip_datatype_find(input->datatype)->kind == OIP_INTEGER)
        return " or another integer";
    return input->is_mask ? ", FP16, BF16, FP64 or BOOL" : ", FP16, BF16 or FP64";
}

int64_t oip_datatype_integer(const struct oip_datatype *datatype, const void *bytes)
{
    return dtype_integer_read(bytes,
                              (struct dtype_integer){ datatype->size, datatype->is_unsigned });
}

/* ----------------------------------------------------- inputs and outputs -- */

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

int oip_inputs(const struct model *model, struct oip_tensor tensors[OIP_TENSORS_MAX])
{
    if (model->parameterless) {
        memcpy(tensors, SDPA_INPUTS, sizeof SDPA_INPUTS);
        return SDPA_INPUT_COUNT;
    }
    const struct common common = common_widths(model);
    const struct oip_tensor inputs[] = {
        { "query", "FP32", false, 3, { -1, -1, common.d_query }, false },
        { "key", "FP32", true, 3, { -1, -1, common.d_key }, false },
        { "value", "FP32", true, 3, { -1, -1, common.d_value }, false },
        { "mask", "FP32", true, 3, { -1, -1, -1 }, true },
        { "kv_len", "INT64", true, 1, { -1 }, false },
#define X(NAME, name, may_be_none) { #name, "FP32", true, 1, { common.q_heads }, false },
        ATTN_PER_HEAD_MAP(X)
#undef X
    };
    memcpy(tensors, inputs, sizeof inputs);
    return sizeof inputs / sizeof inputs[0];
}

int oip_outputs(const struct model *model, struct oip_tensor tensors[OIP_TENSORS_MAX])
{
    if (model->parameterless) {
        memcpy(tensors, SDPA_OUTPUTS, sizeof SDPA_OUTPUTS);
        return SDPA_OUTPUT_COUNT;
    }
    const struct common common = common_widths(model);
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        tensors[i] = (struct oip_tensor){ .name = infer_output_names[i],
                                          .datatype = "FP32",
                                          .rank = attn_output_is_map(i) ? 4 : 3,
                                          .shape = { -1, common.q_heads, -1, -1 } };
    tensors[ATTN_OUTPUT_CONTEXT].shape[1] = -1;
    tensors[ATTN_OUTPUT_CONTEXT].shape[2] = common.d_out;
    return ATTN_OUTPUT_COUNT;
}

void oip_platform(const struct model *model, char *platform, size_t size)
{
    snprintf(platform, size, "attnd_%s", model->parameterless ? "sdpa" : model->attention);
}
