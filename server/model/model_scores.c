/* model_scores.c - see model_scores.h.
 *
 * These score functions have one head. What this file makes of them is what lib/layer.h computes:
 * general is a projection of the query; additive and concat have a weight for each projected
 * column. */
#include "model/model_scores.h"

#include "model/model_builder.h"

#include <inttypes.h>
#include <stdio.h>

/* ------------------------------------------------------------------- finding -- */

/* Sets out to the last dimension of score.weight and, for general, in to the first. A vector may
 * come as a matrix of one row or one column, as frameworks keep a projection to one number. */
static bool read_shape(struct model_builder *builder, const struct safetensors_entry *entry,
                       bool is_general)
{
    struct model_builder_projection *score = &builder->projections[MODEL_SCORE];
    uint64_t shape[2] = { 1, 1 };
    if (entry->rank == 1 || entry->rank == 2)
        safetensors_shape(entry, shape + 2 - entry->rank, entry->rank);
    const bool is_vector =
        entry->rank == 1 || (entry->rank == 2 && (shape[0] == 1 || shape[1] == 1));
    if (is_general ? entry->rank != 2 : !is_vector)
        return model_builder_refuse(builder, entry, is_general ? "[d_query, d_key]" : "[p]");
    if (shape[0] < 1 || shape[0] > INT32_MAX || shape[1] < 1 || shape[1] > INT32_MAX)
        return model_builder_refuse(builder, entry, "dimensions from 1 to 2147483647");
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

bool model_scores_find(struct model_builder *builder)
{
    struct model_builder_projection *score = &builder->projections[MODEL_SCORE];
    *score = (struct model_builder_projection){ .weight = NULL };
    if (!model_builder_find(builder, MODEL_SCORE, false, &score->weight)
        || !model_builder_find(builder, MODEL_SCORE, true, &score->bias))
        return false;
    if (score->bias)
        return fault_set_at(builder->fault, "/parameters", FAULT_FIELD,
                            "there is a '%.60s'; score takes no bias, which would change no weight",
                            score->bias->name);
    return (!score->weight || read_shape(builder, score->weight, is_general(builder)));
}

/* ------------------------------------------------------------------ settling -- */

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
static bool check_field(struct model_builder *builder, const char *name, int64_t given,
                        int64_t expected, const char *why)
{
    char pointer[FAULT_POINTER_MAX];
    if (!given || given == expected)
        return true;
    snprintf(pointer, sizeof pointer, "/config/%s", name);
    return fault_set_at(builder->fault, pointer, FAULT_SHAPE,
                        "%s is %" PRId64 "; expected %" PRId64 ", %s", name, given, expected, why);
}

static bool check_config(struct model_builder *builder)
{
    const struct model_config *config = builder->config;
    if (config->has_rope)
        return fault_set_at(builder->fault, "/config/rope", FAULT_OPTION,
                            "%s attention takes no rotary embedding; scaled_dot_product and dot do",
                            config->attention->name);
    return check_field(builder, "q_heads", config->q_heads, 1, "as this attention has one head")
           && check_field(builder, "kv_heads", config->kv_heads, 1,
                          "as this attention has one head")
           && check_field(builder, "head_dim", config->head_dim, builder->head_dim,
                          "as the parameters have");
}

static bool check_score(struct model_builder *builder)
{
    const struct model_builder_projection *score = &builder->projections[MODEL_SCORE];
    char expected[MODEL_BUILDER_TEXT_BYTES];
    if (score->out == builder->head_dim)
        return true;
    snprintf(expected, sizeof expected, "[%" PRId64 "], one for each output of the projection",
             builder->head_dim);
    return model_builder_refuse(builder, score->weight, expected);
}

bool model_scores_settle(struct model_builder *builder)
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
        return model_builder_refuse(builder, projections[MODEL_CONCAT].weight,
                                    "2 inputs or more, d_key + d_query");
    return check_config(builder) && check_score(builder);
}

/* ------------------------------------------------------------------- setting -- */

static int64_t known_or_open(int64_t width)
{
    return width > 0 ? width : -1;
}

bool model_scores_set(struct model_builder *builder, struct model_layer *layer)
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
        layer->d_query = known_or_open(projections[MODEL_Q].in);
        layer->d_key = known_or_open(projections[MODEL_K].in);
    }
    layer->d_value = known_or_open(layer->d_value);
    layer->d_out = known_or_open(layer->d_out);
    return true;
}

/* ------------------------------------------------------------------- fitting -- */

/* The matrix of a concat layer stands over key columns first, then query columns. Where neither
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
