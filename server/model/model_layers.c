/* model_layers.c - see model_layers.h.
 *
 * For each layer: find its projections, settle heads and widths from the config and the shapes,
 * then check every shape against them. After that the library has nothing left to refuse in a
 * model. */
#include "model/model_layers.h"

#include "model/model_builder.h"
#include "model/model_scores.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------- finding -- */

/* Narrows a projection to its own part of a fused tensor. */
static bool take_slice(struct model_builder *builder, struct model_builder_projection *projection,
                       const struct model_slice *slice)
{
    char expected[MODEL_BUILDER_TEXT_BYTES];
    projection->slice = *slice;
    if (!slice->groups)
        return true;
    if (projection->out != slice->groups * slice->group_size) {
        snprintf(expected, sizeof expected, "%" PRId64 " outputs, those of query, key and value",
                 slice->groups * slice->group_size);
        return model_builder_refuse(builder, projection->weight, expected);
    }
    projection->out = slice->groups * slice->count;
    return true;
}

static bool find_projection(struct model_builder *builder, enum model_projection which)
{
    struct model_builder_projection *projection = &builder->projections[which];
    const bool in_out = builder->config->in_out;
    uint64_t shape[2];
    *projection = (struct model_builder_projection){ .weight = NULL };
    if (!model_builder_find(builder, which, false, &projection->weight)
        || !model_builder_find(builder, which, true, &projection->bias))
        return false;
    const struct safetensors_entry *weight = projection->weight, *bias = projection->bias;
    if (!weight)
        return !bias
               || fault_set(builder->fault, FAULT_FIELD,
                            "tensor '%.60s' is a bias of a projection that has no weight",
                            bias->name);
    if (weight->rank != 2)
        return model_builder_refuse(builder, weight, in_out ? "[in, out]" : "[out, in]");
    safetensors_shape(weight, shape, 2);
    if (shape[0] < 1 || shape[0] > INT32_MAX || shape[1] < 1 || shape[1] > INT32_MAX)
        return model_builder_refuse(builder, weight, "dimensions from 1 to 2147483647");
    projection->out = (int64_t)shape[in_out ? 1 : 0];
    projection->in = (int64_t)shape[in_out ? 0 : 1];
    if (bias && bias->rank == 1)
        safetensors_shape(bias, shape, 1);
    if (bias && (bias->rank != 1 || shape[0] != (uint64_t)projection->out)) {
        char expected[MODEL_BUILDER_TEXT_BYTES];
        snprintf(expected, sizeof expected, "[%" PRId64 "], as its weight has outputs",
                 projection->out);
        return model_builder_refuse(builder, bias, expected);
    }
    return !builder->parts || take_slice(builder, projection, &builder->parts[which].slice);
}

/* -------------------------------------------------------------- settling -- */

/* How often part fits into whole; where it does not, 1, which check_shapes() refuses later. */
static int64_t parts(int64_t whole, int64_t part)
{
    return whole / part > 0 ? whole / part : 1;
}

static int64_t first_of(int64_t a, int64_t b, int64_t c)
{
    return a ? a : b ? b : c;
}

static bool settle(struct model_builder *builder)
{
    const struct model_config *config = builder->config;
    const int64_t q_out = builder->projections[MODEL_Q].out;
    const int64_t k_out = builder->projections[MODEL_K].out;
    const int64_t v_out = builder->projections[MODEL_V].out;
    const int64_t o_in = builder->projections[MODEL_O].in;
    int64_t q_heads = config->q_heads, kv_heads = config->kv_heads;
    int64_t head_dim = config->head_dim, v_head_dim = config->v_head_dim;

    if (!head_dim && q_heads && q_out)
        head_dim = parts(q_out, q_heads);
    else if (!head_dim && kv_heads && k_out)
        head_dim = parts(k_out, kv_heads);
    else if (!head_dim && (q_out || k_out))
        head_dim = parts(first_of(q_out, k_out, 0), first_of(q_heads, kv_heads, 1));
    if (!head_dim)
        return fault_set_at(builder->fault, "/config", FAULT_FIELD,
                            "head_dim is missing, and there is neither a q_proj.weight nor a "
                            "k_proj.weight to settle it");
    if (!q_heads)
        q_heads = q_out ? parts(q_out, head_dim) : first_of(kv_heads, 1, 1);
    if (!kv_heads)
        kv_heads = k_out                 ? parts(k_out, head_dim)
                   : v_out && v_head_dim ? parts(v_out, v_head_dim)
                                         : q_heads;
    if (!v_head_dim)
        v_head_dim = v_out ? parts(v_out, kv_heads) : o_in ? parts(o_in, q_heads) : head_dim;
    builder->q_heads = q_heads;
    builder->kv_heads = kv_heads;
    builder->head_dim = head_dim;
    builder->v_head_dim = v_head_dim;
    return true;
}

/* -------------------------------------------------------------- checking -- */

static bool check_columns(struct model_builder *builder, enum model_projection which, int64_t got,
                          const char *side, int64_t heads, const char *heads_name, int64_t dim,
                          const char *dim_name)
{
    const struct safetensors_entry *weight = builder->projections[which].weight;
    char expected[2 * MODEL_BUILDER_TEXT_BYTES];
    if (heads * dim > INT32_MAX)
        return fault_set_at(builder->fault, "/config", FAULT_TOO_LARGE,
                            "%s * %s is %" PRId64 "; expected at most 2147483647", heads_name,
                            dim_name, heads * dim);
    if (!weight || got == heads * dim)
        return true;
    snprintf(expected, sizeof expected,
             "%" PRId64 " %s (%s * %s = %" PRId64 " * %" PRId64 "), not %" PRId64, heads * dim,
             side, heads_name, dim_name, heads, dim, got);
    return model_builder_refuse(builder, weight, expected);
}

static bool check_shapes(struct model_builder *builder)
{
    const struct model_builder_projection *projections = builder->projections;
    if (!check_columns(builder, MODEL_Q, projections[MODEL_Q].out, "outputs", builder->q_heads,
                       "q_heads", builder->head_dim, "head_dim")
        || !check_columns(builder, MODEL_K, projections[MODEL_K].out, "outputs", builder->kv_heads,
                          "kv_heads", builder->head_dim, "head_dim")
        || !check_columns(builder, MODEL_V, projections[MODEL_V].out, "outputs", builder->kv_heads,
                          "kv_heads", builder->v_head_dim, "v_head_dim")
        || !check_columns(builder, MODEL_O, projections[MODEL_O].in, "inputs", builder->q_heads,
                          "q_heads", builder->v_head_dim, "v_head_dim"))
        return false;
    if (builder->q_heads % builder->kv_heads != 0)
        return fault_set_at(builder->fault, "/config", FAULT_SHAPE,
                            "q_heads is %" PRId64 "; expected a multiple of kv_heads, which is "
                            "%" PRId64,
                            builder->q_heads, builder->kv_heads);
    return true;
}

static bool check_rope(struct model_builder *builder)
{
    const struct model_config *config = builder->config;
    const int64_t dim = first_of(config->rope.dim, builder->head_dim, 0);
    if (config->has_rope && (dim > builder->head_dim || dim % 2 != 0))
        return fault_set_at(builder->fault, "/config/rope/dim", FAULT_OPTION,
                            "rope's dim is %" PRId64 "; expected an even number of at most "
                            "head_dim, which is %" PRId64,
                            dim, builder->head_dim);
    for (int i = 0; config->has_rope && i < 2; i++)
        if (config->rope_factor_counts[i] > 0 && config->rope_factor_counts[i] != dim / 2)
            return fault_set_at(builder->fault, "/config/rope/scaling", FAULT_SHAPE,
                                "%s has %" PRId64 " numbers; expected %" PRId64
                                ", one for each pair of the columns that are turned",
                                i == 0 ? "short_factor" : "long_factor",
                                config->rope_factor_counts[i], dim / 2);
    return true;
}

/* --------------------------------------------------------------- building -- */

/* Copies a list of factors for the layer, which outlives the config. */
static bool copy_factors(struct model_builder *builder, int which, const double **copy)
{
    const struct model_config *config = builder->config;
    const size_t count = (size_t)config->rope_factor_counts[which];
    double *factors = NULL;
    if (count > 0 && !(factors = arena_alloc(builder->parameters->arena, count * sizeof *factors)))
        return fault_no_memory(builder->fault);
    if (factors)
        memcpy(factors, config->rope_factors[which], count * sizeof *factors);
    *copy = factors;
    return true;
}

static bool set_rope(struct model_builder *builder, struct attn_rope *rope)
{
    if (!builder->config->has_rope)
        return true;
    *rope = builder->config->rope;
    rope->dim = first_of(rope->dim, builder->head_dim, 0);
    return copy_factors(builder, 0, &rope->scaling.short_factor)
           && copy_factors(builder, 1, &rope->scaling.long_factor);
}

static bool set_linear(struct model_builder *builder, enum model_projection which,
                       struct attn_linear *linear)
{
    const struct model_builder_projection *projection = &builder->projections[which];
    *linear = (struct attn_linear){
        .out = projection->out,
        .in = projection->in,
        .in_out = builder->config->in_out,
    };
    const struct model_slice *slice = &projection->slice;
    const void *bias = NULL;
    if ((projection->weight
         && !model_parameters_get_slice(builder->parameters, projection->weight, slice, linear->in,
                                        linear->in_out, &linear->weight, &linear->dtype,
                                        builder->fault))
        || (projection->bias
            && !model_parameters_get_slice(builder->parameters, projection->bias, slice, 1, false,
                                           &bias, NULL, builder->fault)))
        return false;
    linear->bias = bias;
    return true;
}

static struct attn_options options_of(const struct model_builder *builder)
{
    const struct model_config *config = builder->config;
    struct attn_options options = attn_options_default(builder->head_dim);
    if (config->has_scale)
        options.scale = config->scale;
    else if (!config->attention->is_scaled)
        options.scale = 1;
    options.softcap = config->softcap;
    options.precision = config->precision;
    options.causal = config->causal;
    options.window_left = config->window_left;
    options.window_right = config->window_right;
    return options;
}

static bool set_layer(struct model_builder *builder, struct model_layer *layer)
{
    const struct model_builder_projection *projections = builder->projections;
    const int64_t k_columns = builder->kv_heads * builder->head_dim;
    const int64_t v_columns = builder->kv_heads * builder->v_head_dim;
    *layer = (struct model_layer){
        .layer = {
            .q_heads = builder->q_heads,
            .kv_heads = builder->kv_heads,
            .head_dim = builder->head_dim,
            .v_head_dim = builder->v_head_dim,
        },
        .options = options_of(builder),
        .has_precision = builder->config->has_precision,
        .d_query = first_of(projections[MODEL_Q].in, builder->q_heads * builder->head_dim, 0),
        .d_key = first_of(projections[MODEL_K].in, k_columns, 0),
        .d_value = first_of(projections[MODEL_V].in, v_columns, 0),
        .d_out = first_of(projections[MODEL_O].out, builder->q_heads * builder->v_head_dim, 0),
    };
    return set_rope(builder, &layer->layer.rope)
           && set_linear(builder, MODEL_Q, &layer->layer.q_proj)
           && set_linear(builder, MODEL_K, &layer->layer.k_proj)
           && set_linear(builder, MODEL_V, &layer->layer.v_proj)
           && set_linear(builder, MODEL_O, &layer->layer.o_proj)
           && set_linear(builder, MODEL_CONCAT, &layer->concat_proj);
}

/* "c_attn.weight"; of a part of a fused tensor "c_attn.weight[q_proj]". */
static const char *name_of(struct model_builder *builder, const struct safetensors_entry *entry,
                           enum model_projection which)
{
    struct arena *arena = builder->parameters->arena;
    if (!builder->projections[which].slice.groups)
        return arena_strdup(arena, entry->name);
    const size_t size = entry->name_length + MODEL_NAMES_BYTES;
    char *name = arena_alloc(arena, size);
    if (name)
        snprintf(name, size, "%s[%s]", entry->name, model_names_projection(which));
    return name;
}

static bool keep_tensor(struct model_builder *builder, const struct safetensors_entry *entry,
                        enum model_projection which, struct model_tensor *tensor)
{
    const struct model_builder_projection *projection = &builder->projections[which];
    uint64_t shape[2];
    if (!entry)
        return true;
    tensor->name = name_of(builder, entry, which);
    tensor->rank = (int)entry->rank; /* checked to be 1 or 2 */
    safetensors_shape(entry, shape, entry->rank);
    for (int i = 0; i < tensor->rank; i++)
        tensor->shape[i] = (int64_t)shape[i];
    if (projection->slice.groups)
        tensor->shape[tensor->rank == 2 && builder->config->in_out] = projection->out;
    return tensor->name || fault_no_memory(builder->fault);
}

/* Keeps names and shapes: answers need them after the parsed header is freed. */
static bool keep_tensors(struct model_builder *builder, struct model_layer *layer)
{
    for (int i = 0; i < MODEL_PARAMETER_COUNT; i++) {
        const struct model_builder_projection *projection = &builder->projections[i];
        const enum model_projection which = (enum model_projection)i;
        if (!keep_tensor(builder, projection->weight, which, &layer->tensors[i][0])
            || !keep_tensor(builder, projection->bias, which, &layer->tensors[i][1]))
            return false;
    }
    return true;
}

/* The set of parameters that this layer has. */
static unsigned present(const struct model_builder *builder)
{
    unsigned bits = 0;
    for (int i = 0; i < MODEL_PARAMETER_COUNT; i++)
        bits |= (builder->projections[i].weight != NULL ? 1u : 0u) << i;
    return bits;
}

/* Every layer must have the parameters that layer 0 has: a difference is a mistyped name, or a file
 * that was cut off. */
static bool check_present(struct model_builder *builder, unsigned first)
{
    char name[MODEL_NAMES_BYTES], other[MODEL_NAMES_BYTES];
    const unsigned differing = present(builder) ^ first;
    if (differing == 0)
        return true;
    const enum model_projection which = (enum model_projection)__builtin_ctz(differing);
    const bool is_missing = (first >> which & 1u) != 0;
    model_names_write(name, is_missing ? builder->layer : 0, builder->config->layers, which, false);
    model_names_write(other, is_missing ? 0 : builder->layer, builder->config->layers, which,
                      false);
    return fault_set_at(builder->fault, "/parameters", FAULT_FIELD,
                        "%s is missing; there is %s, and all layers have the same projections",
                        name, other);
}

static bool find_layer(struct model_builder *builder)
{
    const struct model_attention *attention = builder->config->attention;
    for (int i = 0; i < MODEL_PARAMETER_COUNT; i++) {
        const enum model_projection which = (enum model_projection)i;
        if (!(attention->allowed & model_parameter_bit(which)))
            continue;
        if (which == MODEL_SCORE ? !model_scores_find(builder) : !find_projection(builder, which))
            return false;
    }
    return true;
}

static bool refuse_no_layer(struct model_builder *builder)
{
    const int64_t entry_count = builder->parameters->tensors->entry_count;
    return fault_set_at(builder->fault, "/parameters", FAULT_FIELD,
                        "none of the file's %" PRId64 " tensors is a parameter of layer 0 of "
                        "%" PRId64 " (%sq_proj.weight, ...); \"tensors\" gives them other names",
                        entry_count, builder->config->layers,
                        builder->config->layers > 1 ? "layers.0." : "");
}

bool model_layers_build_one(struct model_builder *builder, struct model_layer *layer,
                            unsigned *first)
{
    const bool is_dot = builder->config->attention->is_dot;
    if (!find_layer(builder))
        return false;
    if (builder->layer == 0)
        *first = present(builder);
    if (is_dot && *first == 0 && builder->parameters->tensors->entry_count > 0)
        return refuse_no_layer(builder);
    return check_present(builder, *first)
           && (is_dot ? settle(builder) : model_scores_settle(builder)) && check_shapes(builder)
           && check_rope(builder) && set_layer(builder, layer) && keep_tensors(builder, layer)
           && (is_dot || model_scores_set(builder, layer));
}

bool model_layers_build(struct model_layer *layers, const struct model_config *config,
                        struct model_parameters *parameters, struct fault *fault)
{
    struct model_builder builder = { .config = config, .parameters = parameters, .fault = fault };
    unsigned first = 0;
    for (; builder.layer < config->layers; builder.layer++)
        if (!model_layers_build_one(&builder, &layers[builder.layer], &first))
            return false;
    return true;
}
