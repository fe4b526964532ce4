/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - from config.json and tensors to layers.
 *
 * For each row of the family: find the prefix of its tensors; then, layer by layer, read
 * config.json, write the tensors' names, and let model_layers.c build the layer from both. */
#include "models/checkpoint/checkpoint.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_gguf_row.h"
#include "models/checkpoint/checkpoint_tensors.h"
#include "models/model/model_layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- the config -- */

static bool has_field(const cJSON *root, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(root, name) != NULL;
}

/* A BERT with ALiBi in place of positions is JinaBERT, whose config.json has the same model_type.
 */
static bool is_jina(const cJSON *root, const char *name)
{
    const char *positions =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "position_embedding_type"));
    return strcmp(name, "bert") == 0 && positions && strcmp(positions, "alibi") == 0;
}

/* The model_type; "jina_bert_v2" for JinaBERT; "meta" or "mistral_params" for params.json of their
 * own releases, which has dim, n_layers and n_heads. Mistral's also has hidden_dim, in place of
 * Meta's multiple_of, and in later releases the model_type "transformer", which names no family. */
static const char *type_of(const cJSON *root)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(root, "model_type");
    const char *name = cJSON_IsString(type) ? type->valuestring : "";
    if (is_jina(root, name))
        return "jina_bert_v2";
    if ((name[0] && strcmp(name, "transformer") != 0)
        || !(has_field(root, "dim") && has_field(root, "n_layers") && has_field(root, "n_heads")))
        return name;
    return has_field(root, "hidden_dim") ? "mistral_params" : "meta";
}

bool checkpoint_read(struct checkpoint *checkpoint, const char *text, bool *is_published,
                     struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = true };
    *checkpoint = (struct checkpoint){ .run_count = 0 };
    *is_published = false;
    if (!json_read(&checkpoint->config, text, strlen(text), &options, fault)) {
        fault_prefix_pointer(fault, "/config");
        return false;
    }
    const cJSON *root = checkpoint->config.root;
    checkpoint->type = type_of(root);
    *is_published =
        cJSON_IsObject(root) && !cJSON_GetObjectItemCaseSensitive(root, "attention")
        && (checkpoint->type[0] || cJSON_GetObjectItemCaseSensitive(root, "architectures"));
    const bool good = !*is_published || json_check_finite(NULL, root, fault);
    if (!good)
        fault_prefix_pointer(fault, "/config");
    if (!*is_published || !good)
        checkpoint_free(checkpoint);
    return good;
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    json_free(&checkpoint->config);
    *checkpoint = (struct checkpoint){ .run_count = 0 };
}

/* ------------------------------------------------------------------- finding -- */

static bool add_run(struct checkpoint *checkpoint, const struct checkpoint_stack *stack,
                    const struct model_tensors *tensors, struct fault *fault)
{
    struct checkpoint_run run = { .stack = stack,
                                  .document = &checkpoint->config,
                                  .section = checkpoint->config.root,
                                  .inner_count = 1 };
    if (stack->section)
        run.section = checkpoint_find_object(run.section, stack->section);
    if (stack->section_is_needed && !cJSON_IsObject(run.section))
        return true;
    if (!checkpoint_name_find_prefix(&run, tensors))
        return true;
    int64_t further;
    if (!checkpoint_read_integer(run.section, stack->layers, &run.layer_count, fault)
        || !checkpoint_read_integer(run.section, stack->further, &further, fault)
        || !checkpoint_read_integer(run.section, stack->inner ? stack->inner : "=1",
                                    &run.inner_count, fault))
        return false;
    if (run.inner_count < 1)
        run.inner_count = 1;
    run.layer_count *= run.inner_count;
    if (run.layer_count < 1 || run.layer_count > MODEL_LAYERS_MAX)
        return fault_set_at(fault, "/config", FAULT_OPTION,
                            "config.json gives %" PRId64 " layers (%.*s); expected 1 to %d",
                            run.layer_count, CHECKPOINT_FIELD_NAME(run.section, stack->layers),
                            MODEL_LAYERS_MAX);
    const int64_t end = run.layer_count + further;
    if (checkpoint_name_has_layer(&run, tensors, end)) {
        char name[CHECKPOINT_NAME_BYTES];
        checkpoint_name_write_layer(name, &run, end);
        return fault_set_at(fault, "/config", FAULT_SHAPE,
                            "config.json gives %" PRId64 " layers (%.*s), and the file has a "
                            "tensor '%.100s'",
                            run.layer_count, CHECKPOINT_FIELD_NAME(run.section, stack->layers),
                            name);
    }
    checkpoint->runs[checkpoint->run_count++] = run;
    checkpoint->layer_count += run.layer_count;
    return true;
}

bool checkpoint_has_type(const char *names, const char *model_type)
{
    const size_t wanted = strlen(model_type);
    while (*names) {
        const size_t length = strcspn(names, "|");
        if (length == wanted && strncmp(names, model_type, length) == 0)
            return true;
        names += length + (names[length] == '|');
    }
    return false;
}

/* Finds the rows of the family, which are one behind the other. */
static void find_stacks(struct checkpoint *checkpoint)
{
    static const struct checkpoint_stack *const TABLES[] = CHECKPOINT_TABLES;
    const char *type = checkpoint->type;
    for (size_t i = 0; i < sizeof TABLES / sizeof TABLES[0]; i++)
        for (const struct checkpoint_stack *stack = TABLES[i]; stack->model_type; stack++)
            if (checkpoint_has_type(stack->model_type, type)) {
                checkpoint->stacks = stack;
                while (stack->model_type && checkpoint_has_type(stack->model_type, type))
                    stack++;
                checkpoint->stack_count = (int)(stack - checkpoint->stacks);
                return;
            }
}

/* Takes the rows as a GGUF file has the family's tensors. It says in columns how much of a head is
 * turned. */
static void amend_stacks(struct checkpoint *checkpoint)
{
    const struct checkpoint_gguf *gguf = checkpoint->gguf;
    for (int i = 0; i < checkpoint->stack_count; i++) {
        struct checkpoint_stack *stack = &checkpoint->amended[i];
        *stack = checkpoint->stacks[i];
        if (gguf->amend)
            gguf->amend(stack);
        if (gguf->has_rope && stack->theta) {
            stack->rotary_fraction = NULL;
            stack->rotary_dim = "rotary_dim";
        }
    }
    checkpoint->stacks = checkpoint->amended;
}

bool checkpoint_find(struct checkpoint *checkpoint, const struct model_tensors *tensors,
                     struct fault *fault)
{
    find_stacks(checkpoint);
    if (checkpoint->gguf)
        amend_stacks(checkpoint);
    if (!checkpoint_check_quantised(checkpoint, tensors, fault))
        return false;
    for (int i = 0; i < checkpoint->stack_count; i++)
        if (!add_run(checkpoint, &checkpoint->stacks[i], tensors, fault))
            return false;
    return checkpoint->run_count > 0 ? checkpoint_check_fields(checkpoint, fault)
                                     : checkpoint_refuse_family(checkpoint, tensors, fault);
}

/* ------------------------------------------------------------------ building -- */

/* Slices the fused tensor of query, key and value, or of key and value. */
static void set_fused(struct model_builder_part parts[MODEL_PROJECTION_COUNT],
                      const struct checkpoint_layer *layer)
{
    const struct model_config *config = &layer->config;
    const enum checkpoint_fusion fusion = layer->run->stack->fusion;
    const int64_t groups = fusion == CHECKPOINT_GROUPS     ? config->kv_heads
                           : fusion == CHECKPOINT_QUARTERS ? 4
                                                           : 1;
    const int64_t q_count = config->q_heads / groups * config->head_dim;
    const int64_t kv_count = config->kv_heads / groups * config->head_dim;
    const int64_t before = fusion == CHECKPOINT_KEYS ? 0 : q_count;
    const int64_t size = before + 2 * kv_count;
    if (before > 0) {
        parts[MODEL_K] = parts[MODEL_Q];
        parts[MODEL_Q].slice = (struct model_slice){ groups, size, 0, q_count, 0, 0 };
    }
    parts[MODEL_V] = parts[MODEL_K];
    const int64_t behind = before + kv_count;
    const bool is_value_first = fusion == CHECKPOINT_QUARTERS;
    parts[MODEL_K].slice =
        (struct model_slice){ groups, size, is_value_first ? behind : before, kv_count, 0, 0 };
    parts[MODEL_V].slice =
        (struct model_slice){ groups, size, is_value_first ? before : behind, kv_count, 0, 0 };
}

/* Of a tensor with two parts for each query head one of them. */
static struct model_slice half_of_heads(const struct checkpoint_layer *layer, int64_t half)
{
    const int64_t columns = layer->config.head_dim;
    return (
        struct model_slice){ layer->config.q_heads, 2 * columns, half * columns, columns, 0, 0 };
}

struct part_names {
    char weight[MODEL_PROJECTION_COUNT][CHECKPOINT_NAME_BYTES],
        bias[MODEL_PROJECTION_COUNT][CHECKPOINT_NAME_BYTES];
};

/* Names the layer's tensors. A bias in the file that config.json does not ask for is a fault. */
static bool set_parts(struct model_builder_part parts[MODEL_PROJECTION_COUNT],
                      struct part_names *names, const struct checkpoint_layer *layer,
                      const struct model_tensors *tensors, struct fault *fault)
{
    for (int i = 0; i < MODEL_PROJECTION_COUNT; i++) {
        parts[i] = (struct model_builder_part){ .weight = NULL };
        const bool is_key = i == MODEL_V && layer->values_are_keys;
        const char *part = layer->run->stack->projections[is_key ? MODEL_K : i];
        const bool is_shared = layer->shares_keys && (i == MODEL_K || i == MODEL_V);
        const int64_t index = is_shared ? layer->keys_of : layer->index;
        if (!part)
            continue;
        checkpoint_name_write(names->weight[i], layer->run, index, part, ".weight");
        checkpoint_name_write(names->bias[i], layer->run, index, part, ".bias");
        parts[i].weight = names->weight[i];
        if (layer->biases >> i & 1)
            parts[i].bias = names->bias[i];
        else if (model_tensors_find(tensors, names->bias[i]))
            return fault_set_at(fault, "/config", FAULT_FIELD,
                                "the file has a tensor '%.100s', and by config.json this "
                                "projection has no bias",
                                names->bias[i]);
    }
    if (layer->run->stack->fusion != CHECKPOINT_SEPARATE)
        set_fused(parts, layer);
    if (layer->run->stack->q_has_gate)
        parts[MODEL_Q].slice = half_of_heads(layer, 0);
    return true;
}

static bool check_width(const struct model_layer *layer, int64_t width, const cJSON *section,
                        const char *field, struct fault *fault)
{
    const int64_t widths[] = { layer->d_query, layer->d_key, layer->d_value, layer->d_out };
    static const enum model_projection WHICH[] = { MODEL_Q, MODEL_K, MODEL_V, MODEL_O };
    for (int i = 0; i < 4; i++)
        if (widths[i] != width)
            return fault_set_at(fault, "/config", FAULT_SHAPE,
                                "tensor '%.100s' is of a layer of %" PRId64
                                " columns; config.json gives %" PRId64 " (%.*s)",
                                layer->tensors[WHICH[i]][0].name, widths[i], width,
                                CHECKPOINT_FIELD_NAME(section, field));
    return true;
}

/* The slopes of the ALiBi paper. Where the number of heads is a power of 2, they are powers of one
 * number. Else the heads beyond the largest power of 2 take every other slope of twice as many
 * heads as that power. */
static bool set_alibi(struct model_layer *layer, const struct checkpoint_layer *read,
                      struct arena *arena, struct fault *fault)
{
    const int64_t q_heads = layer->layer.q_heads;
    const double factor = read->run->stack->alibi_is_scaled ? layer->options.scale : 1;
    const double most = read->alibi_max;
    int64_t power = 1;
    float *slopes = arena_alloc(arena, (size_t)q_heads * sizeof *slopes);
    if (!slopes)
        return fault_no_memory(fault);
    while (2 * power <= q_heads)
        power *= 2;
    for (int64_t h = 0; h < q_heads; h++) {
        const double exponent = h < power
                                    ? most * (double)(h + 1) / (double)power
                                    : most / 2 * (double)(2 * (h - power) + 1) / (double)power;
        slopes[h] = (float)(exp2(-exponent) * factor);
    }
    layer->alibi_slopes = slopes;
    return true;
}

/* A sink for each query head. */
static bool set_sinks(struct model_layer *layer, const struct checkpoint_layer *read,
                      struct model_parameters *parameters, struct fault *fault)
{
    char name[CHECKPOINT_NAME_BYTES];
    const int64_t q_heads = layer->layer.q_heads;
    const float *stored = NULL;
    if (!read->run->stack->sinks)
        return true;
    checkpoint_name_write(name, read->run, read->index, read->run->stack->sinks, "");
    const struct model_entry *entry = model_tensors_require(parameters->tensors, name, fault);
    float *sinks = arena_alloc(parameters->arena, (size_t)q_heads * sizeof *sinks);
    if (!entry)
        return false;
    if (!sinks)
        return fault_no_memory(fault);
    if (entry->rank != 1 || entry->shape[0] != (uint64_t)q_heads)
        return fault_set_at(fault, "/parameters", FAULT_SHAPE,
                            "tensor '%.100s' is not of %" PRId64
                            " numbers, a sink for each query head",
                            name, q_heads);
    if (!model_parameters_get_now(parameters, entry, &stored, fault))
        return false;
    memcpy(sinks, stored, (size_t)q_heads * sizeof *sinks);
    for (int64_t h = 0; h < q_heads; h++)
        if (!isfinite(sinks[h]) && sinks[h] != -INFINITY)
            return fault_set_at(fault, "/parameters", FAULT_OPTION,
                                "number %" PRId64 " of tensor '%.100s' is not finite; expected a "
                                "score",
                                h, name);
    layer->sinks = sinks;
    return true;
}

/* The gate of the context, which is the other half of the tensor of queries. */
static bool set_gate(struct model_layer *layer, const struct checkpoint_layer *read,
                     const struct part_names *names, struct model_parameters *parameters,
                     struct fault *fault)
{
    struct attn_linear *gate = &layer->layer.gate_proj;
    const struct model_slice slice = half_of_heads(read, 1);
    const struct model_tensors *tensors = parameters->tensors;
    const struct model_entry *weight, *bias;
    const void *numbers = NULL;
    if (!read->run->stack->q_has_gate)
        return true;
    *gate = (struct attn_linear){ .out = slice.groups * slice.count, .in = layer->layer.q_proj.in };
    weight = model_tensors_require(tensors, names->weight[MODEL_Q], fault);
    if (!weight
        || !model_parameters_get_slice(parameters, weight, &slice, gate->in, false, &gate->weight,
                                       &gate->dtype, fault))
        return false;
    if (!(read->biases >> MODEL_Q & 1))
        return true;
    bias = model_tensors_require(tensors, names->bias[MODEL_Q], fault);
    if (!bias
        || !model_parameters_get_slice(parameters, bias, &slice, 1, false, &numbers, NULL, fault))
        return false;
    gate->bias = numbers;
    return true;
}

/* first_layer is the number of the run's first one. */
static bool build_layer(struct model_layer *layer, const struct checkpoint_run *run, int64_t index,
                        int64_t first_layer, struct model_parameters *parameters,
                        struct fault *fault)
{
    struct checkpoint_layer read;
    struct model_builder_part parts[MODEL_PROJECTION_COUNT];
    struct part_names names;
    unsigned first;
    struct model_builder builder = {
        .config = &read.config, .parameters = parameters, .parts = parts, .fault = fault
    };
    if (!checkpoint_layer_read(&read, run, index, fault)
        || !set_parts(parts, &names, &read, parameters->tensors, fault)
        || !model_layers_build_one(&builder, layer, &first)
        || !checkpoint_latent_set(layer, &read, parameters, fault)
        || !check_width(layer, read.width, run->section, run->stack->width, fault)
        || !set_gate(layer, &read, &names, parameters, fault)
        || !checkpoint_norm_set(layer, &read, parameters, fault)
        || !checkpoint_bias_set(layer, &read, parameters, fault)
        || !set_sinks(layer, &read, parameters, fault))
        return false;
    layer->kind = run->stack->kind;
    layer->shares_keys = read.shares_keys;
    layer->keys_of = read.keys_of + first_layer;
    layer->layer.projected_max = read.clip;
    return !read.has_alibi || set_alibi(layer, &read, parameters->arena, fault);
}

/* A layer without attention, whose tensors belong to the pass. */
static bool build_other(struct model_layer *layer, const struct checkpoint_run *run,
                        const char *kind, struct fault *fault)
{
    int64_t width;
    if (!checkpoint_read_integer(run->section, run->stack->width, &width, fault))
        return false;
    *layer = (struct model_layer){ .kind = kind,
                                   .lacks_attention = true,
                                   .options = attn_options_default(1),
                                   .d_query = width,
                                   .d_key = width,
                                   .d_value = width,
                                   .d_out = width };
    layer->options.causal = true;
    return true;
}

bool checkpoint_build(struct model_layer *layers, const struct checkpoint *checkpoint,
                      struct model_parameters *parameters, struct fault *fault)
{
    memcpy(parameters->fp8_block, checkpoint->fp8_block, sizeof parameters->fp8_block);
    int64_t first = 0;
    for (int i = 0; i < checkpoint->run_count; i++) {
        const struct checkpoint_run *run = &checkpoint->runs[i];
        for (int64_t index = 0; index < run->layer_count; index++) {
            const char *kind = checkpoint_other_kind(run, index);
            struct model_layer *layer = &layers[first + index];
            if (!(kind ? build_other(layer, run, kind, fault)
                       : build_layer(layer, run, index, first, parameters, fault)))
                return false;
        }
        first += run->layer_count;
    }
    return true;
}
