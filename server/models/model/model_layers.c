/* SPDX-License-Identifier: Apache-2.0 */
/* model_layers.c - settles and checks layers while they are built.
 *
 * For each layer: find its projections, settle heads and widths from the config and the shapes,
 * then check every shape against them. After that the library has nothing left to refuse in a
 * model. */
#include "models/model/model_layers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------- finding -- */

enum { TEXT_BYTES = 96 /* of a shape in a message */ };

/* "[64, 32]" */
static const char *shape_text(const struct model_entry *entry, char text[TEXT_BYTES])
{
    const int64_t shown =
        entry->rank < MODEL_ENTRY_DIMENSIONS ? entry->rank : MODEL_ENTRY_DIMENSIONS;
    size_t used = 1;
    text[0] = '[';
    for (int64_t i = 0; i < shown; i++)
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%" PRIu64, i > 0 ? ", " : "",
                                 entry->shape[i]);
    snprintf(text + used, TEXT_BYTES - used, "%s]", entry->rank > shown ? ", ..." : "");
    return text;
}

static bool refuse_tensor(struct model_builder *builder, const struct model_entry *entry,
                          const char *expected)
{
    char shape[TEXT_BYTES], pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/parameters/%s", entry->name);
    return fault_set_at(builder->fault, pointer, FAULT_SHAPE,
                        "tensor '%.60s' has shape %s; expected %s", entry->name,
                        shape_text(entry, shape), expected);
}

/* A published checkpoint must have every tensor that its family has. */
static bool find_part(struct model_builder *builder, const struct model_builder_part *part,
                      bool is_bias, const struct model_entry **entry)
{
    const char *name = is_bias ? part->bias : part->weight;
    *entry =
        name ? model_tensors_require(builder->parameters->tensors, name, builder->fault) : NULL;
    return *entry || !name;
}

static bool find_tensor(struct model_builder *builder, enum model_projection projection,
                        bool is_bias, const struct model_entry **entry)
{
    char name[MODEL_NAMES_BYTES];
    if (builder->parts)
        return find_part(builder, &builder->parts[projection], is_bias, entry);
    model_names_write(name, builder->layer, builder->config->layers, projection, is_bias);
    const char *tensor = model_config_tensor(builder->config, name);
    *entry = model_tensors_find(builder->parameters->tensors, tensor);
    if (!*entry && tensor != name)
        return fault_set_at(builder->fault, "/config/tensors", FAULT_FIELD,
                            "%s is '%.60s' in \"tensors\", and the file has no tensor of that name",
                            name, tensor);
    return true;
}

/* Narrows a projection to its own part of a fused tensor. */
static bool take_slice(struct model_builder *builder, struct model_builder_projection *projection,
                       const struct model_slice *slice)
{
    char expected[TEXT_BYTES];
    projection->slice = *slice;
    if (!slice->groups)
        return true;
    if (projection->out != slice->groups * slice->group_size) {
        snprintf(expected, sizeof expected, "%" PRId64 " outputs, those of query, key and value",
                 slice->groups * slice->group_size);
        return refuse_tensor(builder, projection->weight, expected);
    }
    projection->out = slice->groups * slice->count;
    return true;
}

static bool find_projection(struct model_builder *builder, enum model_projection which)
{
    struct model_builder_projection *projection = &builder->projections[which];
    const bool in_out = builder->config->in_out;
    *projection = (struct model_builder_projection){ .weight = NULL };
    if (!find_tensor(builder, which, false, &projection->weight)
        || !find_tensor(builder, which, true, &projection->bias))
        return false;
    const struct model_entry *weight = projection->weight, *bias = projection->bias;
    if (!weight)
        return !bias
               || fault_set(builder->fault, FAULT_FIELD,
                            "tensor '%.60s' is a bias of a projection that has no weight",
                            bias->name);
    if (weight->rank != 2)
        return refuse_tensor(builder, weight, in_out ? "[in, out]" : "[out, in]");
    const uint64_t *shape = weight->shape;
    if (shape[0] < 1 || shape[0] > INT32_MAX || shape[1] < 1 || shape[1] > INT32_MAX)
        return refuse_tensor(builder, weight, "dimensions from 1 to 2147483647");
    projection->out = (int64_t)shape[in_out ? 1 : 0];
    projection->in = (int64_t)shape[in_out ? 0 : 1];
    if (bias && (bias->rank != 1 || bias->shape[0] != (uint64_t)projection->out)) {
        char expected[TEXT_BYTES];
        snprintf(expected, sizeof expected, "[%" PRId64 "], as its weight has outputs",
                 projection->out);
        return refuse_tensor(builder, bias, expected);
    }
    return !builder->parts || take_slice(builder, projection, &builder->parts[which].slice);
}

/* -------------------------------------------------------------- settling -- */

/* How often part fits into whole; where it does not, 1, which check_shapes() refuses later. */
static int64_t whole_parts(int64_t whole, int64_t part)
{
    return whole / part > 0 ? whole / part : 1;
}

static int64_t first_of(int64_t a, int64_t b, int64_t c)
{
    return a ? a : b ? b : c;
}

static bool settle_heads(struct model_builder *builder)
{
    const struct model_config *config = builder->config;
    const int64_t q_out = builder->projections[MODEL_Q].out;
    const int64_t k_out = builder->projections[MODEL_K].out;
    const int64_t v_out = builder->projections[MODEL_V].out;
    const int64_t o_in = builder->projections[MODEL_O].in;
    int64_t q_heads = config->q_heads, kv_heads = config->kv_heads;
    int64_t head_dim = config->head_dim, v_head_dim = config->v_head_dim;

    if (!head_dim && q_heads && q_out)
        head_dim = whole_parts(q_out, q_heads);
    else if (!head_dim && kv_heads && k_out)
        head_dim = whole_parts(k_out, kv_heads);
    else if (!head_dim && (q_out || k_out))
        head_dim = whole_parts(first_of(q_out, k_out, 0), first_of(q_heads, kv_heads, 1));
    if (!head_dim)
        return fault_set_at(builder->fault, "/config", FAULT_FIELD,
                            "head_dim is missing, and there is neither a q_proj.weight nor a "
                            "k_proj.weight to settle it");
    if (!q_heads)
        q_heads = q_out ? whole_parts(q_out, head_dim) : first_of(kv_heads, 1, 1);
    if (!kv_heads)
        kv_heads = k_out                 ? whole_parts(k_out, head_dim)
                   : v_out && v_head_dim ? whole_parts(v_out, v_head_dim)
                                         : q_heads;
    if (!v_head_dim)
        v_head_dim = v_out  ? whole_parts(v_out, kv_heads)
                     : o_in ? whole_parts(o_in, q_heads)
                            : head_dim;
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
    const struct model_entry *weight = builder->projections[which].weight;
    char expected[2 * TEXT_BYTES];
    if (heads * dim > INT32_MAX)
        return fault_set_at(builder->fault, "/config", FAULT_TOO_LARGE,
                            "%s * %s is %" PRId64 "; expected at most 2147483647", heads_name,
                            dim_name, heads * dim);
    if (!weight || got == heads * dim)
        return true;
    snprintf(expected, sizeof expected,
             "%" PRId64 " %s (%s * %s = %" PRId64 " * %" PRId64 "), not %" PRId64, heads * dim,
             side, heads_name, dim_name, heads, dim, got);
    return refuse_tensor(builder, weight, expected);
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

/* --------------------------------------------------- other score functions -- */

/* general, additive and concat have one head. What is made of them here is what lib/layer.h
 * computes: general is a projection of the query; additive and concat have a weight for each
 * projected column.
 */

/* Sets out to the last dimension of score.weight and, for general, in to the first. A vector may be
 * given as a matrix of one row or one column, as frameworks keep a projection to one number. */
static bool read_score_shape(struct model_builder *builder, const struct model_entry *entry,
                             bool is_general)
{
    struct model_builder_projection *score = &builder->projections[MODEL_SCORE];
    uint64_t shape[2] = { 1, 1 };
    if (entry->rank == 1 || entry->rank == 2)
        memcpy(shape + 2 - entry->rank, entry->shape, (size_t)entry->rank * sizeof *shape);
    const bool is_vector =
        entry->rank == 1 || (entry->rank == 2 && (shape[0] == 1 || shape[1] == 1));
    if (is_general ? entry->rank != 2 : !is_vector)
        return refuse_tensor(builder, entry, is_general ? "[d_query, d_key]" : "[p]");
    if (shape[0] < 1 || shape[0] > INT32_MAX || shape[1] < 1 || shape[1] > INT32_MAX)
        return refuse_tensor(builder, entry, "dimensions from 1 to 2147483647");
    score->in = (int64_t)shape[0];
    score->out = (int64_t)shape[1];
    if (!is_general) {
        score->out *= score->in; /* one of them is 1 */
        score->in = 1;
    }
    return true;
}

static bool is_general(const struct model_builder *builder)
{
    return !(builder->config->attention->required & ~model_parameter_bit(MODEL_SCORE));
}

static bool find_score(struct model_builder *builder)
{
    struct model_builder_projection *score = &builder->projections[MODEL_SCORE];
    *score = (struct model_builder_projection){ .weight = NULL };
    if (!find_tensor(builder, MODEL_SCORE, false, &score->weight)
        || !find_tensor(builder, MODEL_SCORE, true, &score->bias))
        return false;
    if (score->bias)
        return fault_set_at(builder->fault, "/parameters", FAULT_FIELD,
                            "there is a '%.60s'; score takes no bias, which would change no weight",
                            score->bias->name);
    return (!score->weight || read_score_shape(builder, score->weight, is_general(builder)));
}

static bool check_required(struct model_builder *builder)
{
    const struct model_attention *attention = builder->config->attention;
    char name[MODEL_NAMES_BYTES];
    for (int i = 0; i < MODEL_PARAMETER_COUNT; i++) {
        const enum model_projection which = (enum model_projection)i;
        if (!(attention->required & model_parameter_bit(which)) || builder->projections[i].weight)
            continue;
        model_names_write(name, builder->layer, builder->config->layers, which, false);
        return fault_set_at(builder->fault, "/parameters", FAULT_FIELD,
                            "%s is missing; %s attention takes %s", name, attention->name,
                            attention->widths);
    }
    return true;
}

/* A width that the config gives, 0 where it gives none, must be what the parameters have. */
static bool check_score_field(struct model_builder *builder, const char *name, int64_t given,
                              int64_t expected, const char *why)
{
    char pointer[FAULT_POINTER_MAX];
    if (!given || given == expected)
        return true;
    snprintf(pointer, sizeof pointer, "/config/%s", name);
    return fault_set_at(builder->fault, pointer, FAULT_SHAPE,
                        "%s is %" PRId64 "; expected %" PRId64 ", %s", name, given, expected, why);
}

static bool check_score_config(struct model_builder *builder)
{
    const struct model_config *config = builder->config;
    if (config->has_rope)
        return fault_set_at(builder->fault, "/config/rope", FAULT_OPTION,
                            "%s attention takes no rotary embedding; scaled_dot_product and dot do",
                            config->attention->name);
    return check_score_field(builder, "q_heads", config->q_heads, 1,
                             "as this attention has one head")
           && check_score_field(builder, "kv_heads", config->kv_heads, 1,
                                "as this attention has one head")
           && check_score_field(builder, "head_dim", config->head_dim, builder->head_dim,
                                "as the parameters have");
}

static bool check_score(struct model_builder *builder)
{
    const struct model_builder_projection *score = &builder->projections[MODEL_SCORE];
    char expected[TEXT_BYTES];
    if (score->out == builder->head_dim)
        return true;
    snprintf(expected, sizeof expected, "[%" PRId64 "], one for each output of the projection",
             builder->head_dim);
    return refuse_tensor(builder, score->weight, expected);
}

static bool settle_score(struct model_builder *builder)
{
    const struct model_builder_projection *projections = builder->projections;
    if (!check_required(builder))
        return false;
    builder->q_heads = builder->kv_heads = 1;
    builder->head_dim = projections[MODEL_Q].weight        ? projections[MODEL_Q].out
                        : projections[MODEL_CONCAT].weight ? projections[MODEL_CONCAT].out
                                                           : projections[MODEL_SCORE].out;
    builder->v_head_dim = builder->config->v_head_dim   ? builder->config->v_head_dim
                          : projections[MODEL_V].weight ? projections[MODEL_V].out
                                                        : projections[MODEL_O].in;
    if (projections[MODEL_CONCAT].weight && projections[MODEL_CONCAT].in < 2)
        return refuse_tensor(builder, projections[MODEL_CONCAT].weight,
                             "2 inputs or more, d_key + d_query");
    return check_score_config(builder) && check_score(builder);
}

static int64_t width_or_open(int64_t width)
{
    return width > 0 ? width : -1;
}

static bool set_score(struct model_builder *builder, struct model_layer *layer)
{
    const struct model_builder_projection *projections = builder->projections;
    const struct model_builder_projection *score = &projections[MODEL_SCORE];
    const bool is_matrix = is_general(builder);
    const void *weight;
    enum attn_dtype dtype;
    if (!model_parameters_get_slice(builder->parameters, score->weight, &(struct model_slice){ 0 },
                                    score->in, is_matrix, &weight, is_matrix ? &dtype : NULL,
                                    builder->fault))
        return false;
    if (is_matrix) {
        layer->layer.q_proj = (struct attn_linear){
            .weight = weight, .out = score->out, .in = score->in, .in_out = true, .dtype = dtype
        };
        layer->d_query = score->in;
        layer->d_key = score->out;
    } else {
        layer->layer.additive_weight = weight;
        layer->d_query = width_or_open(projections[MODEL_Q].in);
        layer->d_key = width_or_open(projections[MODEL_K].in);
    }
    layer->d_value = width_or_open(layer->d_value);
    layer->d_out = width_or_open(layer->d_out);
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
    const struct attn_rope *own = &builder->config->rope;
    *rope = (struct attn_rope){ .query_growth = own->query_growth,
                                .query_length = own->query_length,
                                .query_offset = own->query_offset };
    if (!builder->config->has_rope)
        return true;
    *rope = *own;
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
    options.chunk = config->chunk;
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
static const char *kept_name(struct model_builder *builder, const struct model_entry *entry,
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

static bool keep_tensor(struct model_builder *builder, const struct model_entry *entry,
                        enum model_projection which, struct model_tensor *tensor)
{
    const struct model_builder_projection *projection = &builder->projections[which];
    if (!entry)
        return true;
    tensor->name = kept_name(builder, entry, which);
    tensor->rank = (int)entry->rank; /* checked to be 1 or 2 */
    for (int i = 0; i < tensor->rank; i++)
        tensor->shape[i] = (int64_t)entry->shape[i];
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
static unsigned present_parameters(const struct model_builder *builder)
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
    const unsigned differing = present_parameters(builder) ^ first;
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
        if (which == MODEL_SCORE ? !find_score(builder) : !find_projection(builder, which))
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
        *first = present_parameters(builder);
    if (is_dot && *first == 0 && builder->parameters->tensors->entry_count > 0)
        return refuse_no_layer(builder);
    return check_present(builder, *first)
           && (is_dot ? settle_heads(builder) : settle_score(builder)) && check_shapes(builder)
           && check_rope(builder) && set_layer(builder, layer) && keep_tensors(builder, layer)
           && (is_dot || set_score(builder, layer));
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

/* ------------------------------------------------------------------- fitting -- */

/* The matrix of a concat layer multiplies key columns first, then query columns. Where neither
 * input has rows, any split of the columns will do. */
static bool fit_concat(struct model_layer *fitted, const struct model *model,
                       const struct model_widths *widths, struct fault *fault)
{
    const int64_t joined = fitted->concat_proj.in;
    const int64_t key = widths->key     ? widths->key
                        : widths->query ? joined - widths->query
                                        : joined - 1;
    const int64_t query = widths->query ? widths->query : joined - key;
    if (key < 1 || query < 1 || query != joined - key)
        return fault_set_at(fault, "/query", FAULT_SHAPE,
                            "key has %" PRId64 " columns and query has %" PRId64
                            "; model '%s' takes %" PRId64 " in both together",
                            widths->key, widths->query, model->name, joined);
    fitted->d_key = key;
    fitted->d_query = query;
    attn_linear_split(&fitted->concat_proj, key, &fitted->layer.k_proj, &fitted->layer.q_proj);
    return true;
}

bool model_scores_fit(struct model_layer *fitted, const struct model *model, int64_t layer_index,
                      const struct model_widths *widths, struct fault *fault)
{
    *fitted = model->layers[layer_index];
    if (fitted->concat_proj.weight && !fit_concat(fitted, model, widths, fault))
        return false;
    if (fitted->d_value < 0) {
        fitted->d_value = widths->value ? widths->value : fitted->d_key;
        fitted->d_out = fitted->layer.v_head_dim = fitted->d_value;
    }
    return true;
}
