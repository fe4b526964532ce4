/* checkpoint_image_bias.c - see checkpoint_image_bias.h.
 *
 * Source: BeitRelativePositionBias of transformers' beit/modeling_beit.py at 0004a3c206a3, for
 * pictures of the size that config.json gives. For another size the source interpolates the table;
 * this file does not. */
#include "checkpoint/checkpoint_image_bias.h"

#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_name.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { PATCHES_MAX = 1 << 20 };

/* Reads a field that is one number, or a list of height and width; 0 where it is neither. */
static void read_pair(const struct checkpoint_run *run, const char *name, double otherwise,
                      double pair[2])
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(run->section, name);
    const struct json_numbers *numbers = json_numbers_of(run->document, node);
    pair[0] = pair[1] = cJSON_IsNumber(node) ? node->valuedouble : !node ? otherwise : 0;
    for (int i = 0; numbers && numbers->count == 2 && i < 2; i++)
        pair[i] = (double)numbers->values[i];
}

static bool read_size(struct model_relative_bias *bias, const struct checkpoint_run *run,
                      struct fault *fault)
{
    double image[2], patch[2];
    read_pair(run, "image_size", 224, image);
    read_pair(run, "patch_size", 16, patch);
    const double height = patch[0] >= 1 ? floor(image[0] / patch[0]) : 0;
    const double width = patch[1] >= 1 ? floor(image[1] / patch[1]) : 0;
    if (!(height >= 1 && width >= 1 && height * width <= PATCHES_MAX))
        return fault_set_at(fault, "/config/image_size", FAULT_OPTION,
                            "config.json gives pictures of %g by %g patches (image_size, "
                            "patch_size); expected 1 or more of each, and at most %d",
                            height, width, PATCHES_MAX);
    bias->height = (int64_t)height;
    bias->width = (int64_t)width;
    bias->count = bias->table_rows = (2 * bias->height - 1) * (2 * bias->width - 1) + 3;
    return true;
}

/* Adds a table [count, heads] to sum [heads, count]. */
static bool add_table(float *sum, const struct model_relative_bias *bias, int64_t heads,
                      const char *name, struct model_parameters *parameters, struct fault *fault)
{
    const struct safetensors_entry *entry = model_tensors_find(parameters->tensors, name);
    uint64_t shape[2] = { 0, 0 };
    const float *table;
    if (!entry)
        return fault_set_at(fault, "/parameters", FAULT_FIELD,
                            "the file has no tensor '%.120s', which config.json asks for", name);
    if (entry->rank == 2)
        safetensors_shape(entry, shape, 2);
    if (shape[0] != (uint64_t)bias->count || shape[1] != (uint64_t)heads)
        return fault_set_at(fault, "/parameters", FAULT_SHAPE,
                            "tensor '%.120s' is not [%" PRId64 ", %" PRId64
                            "], as config.json gives: %" PRId64 " by %" PRId64
                            " patches and so many heads",
                            name, bias->count, heads, bias->height, bias->width);
    if (!model_parameters_get_now(parameters, entry, &table, fault))
        return false;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t c = 0; c < bias->count; c++)
            sum[h * bias->count + c] += table[c * heads + h];
    return true;
}

static bool check_absent(const char *name, const char *flag,
                         const struct model_parameters *parameters, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/config/%s", flag);
    return !model_tensors_find(parameters->tensors, name)
           || fault_set_at(fault, pointer, FAULT_FIELD,
                           "the file has a tensor '%.120s', and config.json does not set %s", name,
                           flag);
}

bool checkpoint_image_bias_set(struct model_layer *layer, const struct checkpoint_layer *read,
                               struct model_parameters *parameters, struct fault *fault)
{
    const struct checkpoint_run *run = read->run;
    const struct checkpoint_stack *stack = run->stack;
    const char *const flags[2] = { stack->image_bias_if, stack->shared_bias_if };
    const int64_t heads = layer->layer.q_heads;
    struct model_relative_bias bias = { .values = NULL };
    char names[2][CHECKPOINT_NAME_BYTES];
    bool is_there[2];
    if (!stack->image_bias)
        return true;
    checkpoint_name_write(names[0], run, read->index, stack->image_bias, "");
    snprintf(names[1], sizeof names[1], "%s%s", run->prefix, stack->shared_bias);
    for (int i = 0; i < 2; i++)
        if (!checkpoint_read_flag(run->section, flags[i], &is_there[i], fault)
            || (!is_there[i] && !check_absent(names[i], flags[i], parameters, fault)))
            return false;
    if (!is_there[0] && !is_there[1])
        return true;
    if (!read_size(&bias, run, fault))
        return false;
    float *sum = arena_calloc(parameters->arena, (size_t)heads * (size_t)bias.count, sizeof *sum);
    if (!sum)
        return fault_no_memory(fault);
    for (int i = 0; i < 2; i++) {
        struct model_tensor *tensor = &layer->tensors[MODEL_POSITION_BIAS][i];
        if (!is_there[i])
            continue;
        if (!add_table(sum, &bias, heads, names[i], parameters, fault))
            return false;
        *tensor = (struct model_tensor){ arena_strdup(parameters->arena, names[i]),
                                         2,
                                         { bias.count, heads } };
        if (!tensor->name)
            return fault_no_memory(fault);
    }
    bias.values = sum;
    layer->relative_bias = bias;
    return true;
}
