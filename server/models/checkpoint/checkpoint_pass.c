/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_pass.c - builds streams and the head.
 *
 * Each run of self attention whose row has a pass becomes a stream; a run of cross attention
 * belongs to the stream whose row names its kind. Whatever is missing is a reason and not a fault:
 * the layers of the model answer without their pass. */
#include "models/checkpoint/checkpoint_pass_internal.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- a stream -- */

enum { EXPERTS_MAX = 4096 };

/* What the blocks of a stream have in common. */
struct block_reader {
    struct checkpoint_pass_reader *reader;
    const struct model_stream *stream;
    int64_t width;
    bool is_parallel;
    double residual_scale;
    double attention_in, attention_out, beside_in, beside_out;
    float feed_scales[2];
    enum attn_activation activation;
    double gated_limit;
    int64_t token_columns; /* of what a block reads of tokens; 0: nothing */
    int64_t expert_count, chosen_count;
    bool is_normalized; /* the weights of the chosen experts */
    double expert_scale;
    int64_t group_count, chosen_group_count;
    double jitter;
};

/* Only a family whose files have its numbers has xIELU. */
static bool read_activation(struct checkpoint_pass_reader *reader, enum attn_activation *activation)
{
    const cJSON *section = reader->run->section;
    const char *field = reader->pass.activation, *name;
    if (reader->pass.xielu) {
        if (!checkpoint_read_string(section, field, &name, reader->fault))
            return false;
        *activation = ATTN_XIELU;
        if (strcmp(name, "xielu") == 0)
            return true;
    }
    return checkpoint_read_activation(section, field, activation, reader->fault);
}

/* DeepSeek's experts in equal groups. */
static bool read_groups(struct block_reader *blocks)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const struct checkpoint_pass *pass = &reader->pass;
    const cJSON *section = reader->run->section;
    int64_t groups, chosen;
    if (!checkpoint_read_integer(section, pass->group_count, &groups, reader->fault)
        || !checkpoint_read_integer(section, pass->chosen_group_count, &chosen, reader->fault))
        return false;
    if (groups <= 1)
        return true;
    blocks->group_count = groups;
    blocks->chosen_group_count = chosen;
    const int64_t size = blocks->expert_count / groups;
    return (blocks->expert_count % groups == 0 && size >= (pass->router_is_sigmoid ? 2 : 1)
            && chosen >= 1 && chosen <= groups && blocks->chosen_count <= chosen * size)
           || fault_set(reader->fault, FAULT_OPTION,
                        "config.json gives %" PRId64 " experts in %" PRId64 " groups (%.*s), of "
                        "which %" PRId64 " (%.*s) have the %" PRId64 " experts of a row; expected "
                        "groups of equally many experts, and enough in those that are chosen",
                        blocks->expert_count, groups,
                        CHECKPOINT_FIELD_NAME(section, pass->group_count), chosen,
                        CHECKPOINT_FIELD_NAME(section, pass->chosen_group_count),
                        blocks->chosen_count);
}

/* Falcon-H1's multipliers. */
static bool read_factors(struct block_reader *blocks)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const struct checkpoint_pass *pass = &reader->pass;
    const cJSON *section = reader->run->section;
    return checkpoint_read_factors(reader->run->document, section, pass->feed_scales,
                                   blocks->feed_scales, 2, reader->fault)
           && checkpoint_read_factor(section, pass->attention_in, &blocks->attention_in,
                                     reader->fault)
           && checkpoint_read_factor(section, pass->attention_out, &blocks->attention_out,
                                     reader->fault)
           && checkpoint_read_factor(section, pass->beside_in, &blocks->beside_in, reader->fault)
           && checkpoint_read_factor(section, pass->beside_out, &blocks->beside_out, reader->fault);
}

static bool read_blocks(struct block_reader *blocks)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const struct checkpoint_pass *pass = &reader->pass;
    const cJSON *section = reader->run->section;
    if (!checkpoint_read_flag(section, pass->parallel, &blocks->is_parallel, reader->fault)
        || !checkpoint_read_number(section, pass->residual_scale, &blocks->residual_scale,
                                   reader->fault)
        || !read_factors(blocks) || !read_activation(reader, &blocks->activation)
        || !checkpoint_read_number(section, pass->gated_limit, &blocks->gated_limit, reader->fault))
        return false;
    if (!pass->router)
        return true;
    if (!checkpoint_read_integer(section, pass->expert_count, &blocks->expert_count, reader->fault)
        || !checkpoint_read_integer(section, pass->chosen_count, &blocks->chosen_count,
                                    reader->fault)
        || !checkpoint_read_flag(section, pass->normalized, &blocks->is_normalized, reader->fault)
        || !checkpoint_read_number(section, pass->expert_scale, &blocks->expert_scale,
                                   reader->fault)
        || !checkpoint_read_number(section, pass->jitter, &blocks->jitter, reader->fault))
        return false;
    if (pass->jitter && blocks->chosen_count != MODEL_SPARSEMIXER_CHOSEN)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json's %.*s is %" PRId64 "; expected %d, which is all that the "
                         "routing of this family does",
                         CHECKPOINT_FIELD_NAME(section, pass->chosen_count), blocks->chosen_count,
                         MODEL_SPARSEMIXER_CHOSEN);
    if (blocks->chosen_count < 1 || blocks->chosen_count > blocks->expert_count
        || blocks->expert_count > EXPERTS_MAX)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json gives %" PRId64 " experts (%.*s), of which %" PRId64
                         " (%.*s) compute each row",
                         blocks->expert_count, CHECKPOINT_FIELD_NAME(section, pass->expert_count),
                         blocks->chosen_count, CHECKPOINT_FIELD_NAME(section, pass->chosen_count));
    return read_groups(blocks);
}

static bool build_part(const struct block_reader *blocks, struct model_part *part,
                       const struct checkpoint_norms *norms, const char *scales)
{
    const struct checkpoint_pass *pass = &blocks->reader->pass;
    const bool is_first = blocks->reader->block == 0 && norms == &pass->attention;
    const char *before = is_first && pass->first_has_no_norm ? NULL : norms->before;
    part->scale = blocks->residual_scale;
    if (norms == &pass->feed_forward && blocks->feed_scales[1] != 1)
        part->scale = (double)blocks->feed_scales[1];
    return checkpoint_pass_norm(blocks->reader, &part->before, before, blocks->width)
           && checkpoint_pass_norm(blocks->reader, &part->inside, norms->inside, blocks->width)
           && checkpoint_pass_norm(blocks->reader, &part->after, norms->after, blocks->width)
           && (!scales
               || checkpoint_pass_values(blocks->reader, &part->column_scales, scales,
                                         blocks->width));
}

/* Of a block that has a recurrence beside its attention: both read the rows behind one norm, times
 * a number of each, which becomes one of the norm's weight. */
static bool build_pair(const struct block_reader *blocks, struct model_block *block)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const char *before = reader->pass.attention.before;
    block->self.scale = blocks->attention_out;
    block->beside.scale = blocks->beside_out;
    return checkpoint_pass_scaled_norm(reader, &block->self.before, before, blocks->width,
                                       blocks->attention_in)
           && checkpoint_pass_scaled_norm(reader, &block->beside.before, before, blocks->width,
                                          blocks->beside_in);
}

static bool build_mixers(const struct block_reader *blocks, struct model_block *block)
{
    const struct checkpoint_pass *pass = &blocks->reader->pass;
    block->self.inside_adds_rows = pass->inside_adds_rows;
    return block->beside_layer >= 0
               ? build_pair(blocks, block)
               : build_part(blocks, &block->self, &pass->attention, pass->attention_scales);
}

/* log(1 + e^x) of a number of the file, as a float of torch has it. */
static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

/* One of the numbers of xIELU. Where it is missing, missing is. */
static bool read_xielu_number(struct checkpoint_pass_reader *reader, const char *name,
                              const double *missing, double *value)
{
    char whole[96];
    const float *values = NULL;
    snprintf(whole, sizeof whole, "%.64s%s", reader->pass.xielu, name);
    if (missing && !checkpoint_pass_has_values(reader, whole)) {
        *value = *missing;
        return true;
    }
    if (!checkpoint_pass_values_now(reader, &values, whole, 1))
        return false;
    *value = (double)values[0];
    return true;
}

/* Source: XIELUActivation of transformers' activations.py. */
static bool build_xielu(struct checkpoint_pass_reader *reader, struct attn_xielu *xielu)
{
    static const double BETA = 0.5, EPS = -1e-6;
    double positive, negative, beta, eps;
    if (!read_xielu_number(reader, "alpha_p", NULL, &positive)
        || !read_xielu_number(reader, "alpha_n", NULL, &negative)
        || !read_xielu_number(reader, "beta", &BETA, &beta)
        || !read_xielu_number(reader, "eps", &EPS, &eps))
        return false;
    *xielu = (struct attn_xielu){ (float)softplus(positive), (float)(beta + softplus(negative)),
                                  (float)beta, (float)eps };
    return (fabsf(xielu->positive) < INFINITY && fabsf(xielu->negative) < INFINITY
            && fabsf(xielu->beta) < INFINITY && xielu->eps > -INFINITY && xielu->eps < 0)
           || fault_set(reader->fault, FAULT_OPTION,
                        "%.64s of block %" PRId64 " has alpha_p %g, alpha_n %g, beta %g and eps "
                        "%g; expected finite numbers, and eps below 0",
                        reader->pass.xielu, reader->block, positive, negative, beta, eps);
}

static bool build_feed_forward(const struct block_reader *blocks, struct model_feed_forward *dense)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const struct checkpoint_pass *pass = &reader->pass;
    const bool has_bias = reader->has_biases;
    dense->activation = blocks->activation;
    dense->gated_limit = (float)blocks->gated_limit;
    dense->gated_offset = blocks->reader->pass.up_adds_one ? 1 : 0;
    dense->gate_scale = blocks->feed_scales[0];
    if (!checkpoint_altup_read_sparsity(dense, reader))
        return false;
    if (dense->activation == ATTN_XIELU && !build_xielu(reader, &dense->xielu))
        return false;
    const bool up_has_bias = has_bias && !pass->up_has_no_bias;
    struct attn_linear *const first = pass->gate_is_last ? &dense->up : &dense->gate;
    struct attn_linear *const second = pass->gate_is_last ? &dense->gate : &dense->up;
    if (pass->up_has_gate) {
        if (!checkpoint_pass_gated(reader, first, second, pass->up, blocks->width, up_has_bias))
            return false;
    } else if (!checkpoint_pass_linear(reader, &dense->up, pass->up, 0, blocks->width, pass->in_out,
                                       up_has_bias)
               || (pass->gate
                   && !checkpoint_pass_linear(reader, &dense->gate, pass->gate, dense->up.out,
                                              blocks->width, pass->in_out, up_has_bias))) {
        return false;
    }
    return checkpoint_pass_linear(reader, &dense->down, pass->down, blocks->width, dense->up.out,
                                  pass->in_out, has_bias);
}

/* The same of an expert whose matrices lie in a stack. */
static bool build_stacked(const struct block_reader *blocks, struct model_feed_forward *dense)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const struct checkpoint_pass *pass = &reader->pass;
    const int64_t count = blocks->expert_count;
    dense->activation = blocks->activation;
    dense->gated_limit = (float)blocks->gated_limit;
    dense->gated_offset = pass->up_adds_one ? 1 : 0;
    return checkpoint_pass_stacked_gated(reader, &dense->gate, &dense->up, pass->stacked_up, count,
                                         blocks->width)
           && checkpoint_pass_stacked(reader, &dense->down, pass->stacked_down, count,
                                      blocks->width, dense->up.out);
}

/* Experts take turns in the same memory. */
static bool check_same_width(const struct block_reader *blocks,
                             const struct model_feed_forward *list, int64_t expert)
{
    return list[expert].up.out == list[0].up.out
           || fault_set(blocks->reader->fault, FAULT_SHAPE,
                        "expert %" PRId64 " of block %" PRId64 " has %" PRId64
                        " columns, and expert 0 has %" PRId64
                        "; the whole pass of the model needs as many in each",
                        expert, blocks->reader->block, list[expert].up.out, list[0].up.out);
}

static bool build_expert_list(const struct block_reader *blocks, struct model_feed_forward *list)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const struct checkpoint_pass *pass = &reader->pass;
    const bool is_stacked = !pass->expert || checkpoint_pass_has_stacked(reader, pass->stacked_up);
    bool good = true;
    for (int64_t i = 0; good && i < blocks->expert_count; i++) {
        reader->expert = i;
        reader->feed = is_stacked ? NULL : pass->expert;
        good = (is_stacked ? build_stacked(blocks, &list[i]) : build_feed_forward(blocks, &list[i]))
               && check_same_width(blocks, list, i);
    }
    reader->feed = NULL;
    return good;
}

static bool build_shared_expert(const struct block_reader *blocks, struct model_experts *experts)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const struct checkpoint_pass *pass = &reader->pass;
    if (!pass->shared_expert)
        return true;
    struct model_feed_forward *shared = arena_calloc(reader->parameters->arena, 1, sizeof *shared);
    if (!shared)
        return fault_no_memory(reader->fault);
    experts->shared = shared;
    reader->feed = pass->shared_expert;
    const bool good = build_feed_forward(blocks, shared);
    reader->feed = NULL;
    return good
           && (!pass->shared_gate
               || checkpoint_pass_linear(reader, &experts->shared_gate, pass->shared_gate, 1,
                                         blocks->width, false, false));
}

/* Gemma4TextRouter's norm has no tensor, but a scale behind it has. */
static bool build_router_norm(const struct block_reader *blocks, struct attn_norm *norm)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const int64_t width = blocks->width;
    const float *scale = NULL;
    float *weight = arena_alloc(reader->parameters->arena, (size_t)width * sizeof *weight);
    if (!weight)
        return fault_no_memory(reader->fault);
    if (!checkpoint_pass_values_now(reader, &scale, reader->pass.router_scale, width) || !scale)
        return false;
    for (int64_t c = 0; c < width; c++)
        weight[c] = (float)((double)scale[c] / sqrt((double)width));
    *norm = (struct attn_norm){ .weight = weight, .eps = reader->norm_eps, .scope = ATTN_NORM_ROW };
    return true;
}

static bool build_expert_norms(const struct block_reader *blocks, struct model_experts *experts)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const struct checkpoint_pass *pass = &reader->pass;
    struct model_expert_norms *norms = &experts->norms;
    if (!pass->router_scale)
        return true;
    return build_router_norm(blocks, &norms->router)
           && checkpoint_pass_norm(reader, &norms->before, pass->experts_before, blocks->width)
           && checkpoint_pass_norm(reader, &norms->after, pass->experts_after, blocks->width)
           && checkpoint_pass_norm(reader, &norms->shared, pass->shared_after, blocks->width)
           && checkpoint_pass_values(reader, &experts->scales, pass->expert_scales, experts->count);
}

static bool build_experts(const struct block_reader *blocks, struct model_experts *experts)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    struct model_feed_forward *list =
        arena_calloc(reader->parameters->arena, (size_t)blocks->expert_count, sizeof *list);
    if (!list)
        return fault_no_memory(reader->fault);
    *experts =
        (struct model_experts){ .experts = list,
                                .count = blocks->expert_count,
                                .chosen = blocks->chosen_count,
                                .is_normalized = blocks->is_normalized,
                                .weight_sum_eps = reader->pass.weight_sum_eps,
                                .weight_scale = blocks->expert_scale,
                                .groups = blocks->group_count,
                                .chosen_groups = blocks->chosen_group_count,
                                .routing = reader->pass.jitter ? MODEL_ROUTING_SPARSEMIXER
                                           : reader->pass.router_is_sigmoid ? MODEL_ROUTING_SIGMOID
                                                                            : MODEL_ROUTING_SOFTMAX,
                                .jitter = blocks->jitter,
                                .weighs_inputs = reader->pass.router_weighs_inputs };
    return checkpoint_pass_linear(reader, &experts->router, reader->pass.router, experts->count,
                                  blocks->width, false, reader->pass.router_has_bias)
           && (!reader->pass.choice_bias
               || checkpoint_pass_values(reader, &experts->choice_bias, reader->pass.choice_bias,
                                         experts->count))
           && build_expert_list(blocks, list) && build_shared_expert(blocks, experts)
           && build_expert_norms(blocks, experts);
}

static bool build_dense(const struct block_reader *blocks, struct model_feed_forward *dense)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    reader->feed = reader->pass.dense;
    const bool good = build_feed_forward(blocks, dense);
    reader->feed = NULL;
    return good;
}

/* What a block reads of tokens, and the number that all its rows are multiplied by at last. */
static bool build_token_part(const struct block_reader *blocks, struct model_block *block)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const struct checkpoint_pass *pass = &reader->pass;
    struct model_token_part *part = &block->token_part;
    const float *scale = NULL;
    const int64_t columns = blocks->token_columns;
    const struct checkpoint_norms norms = { .inside = pass->layer_norm };
    part->activation = blocks->activation;
    if (columns > 0
        && !(checkpoint_pass_linear(reader, &part->gate, pass->layer_gate, columns, blocks->width,
                                    false, false)
             && checkpoint_pass_linear(reader, &part->projection, pass->layer_up, blocks->width,
                                       columns, false, false)
             && build_part(blocks, &part->part, &norms, NULL)))
        return false;
    if (!pass->block_scale || !checkpoint_pass_has_values(reader, pass->block_scale))
        return true;
    struct model_part *last = columns > 0 ? &part->part : &block->feed_forward;
    if (!checkpoint_pass_values_now(reader, &scale, pass->block_scale, 1) || !scale)
        return false;
    last->sum_scale = (double)scale[0];
    return (isfinite(scale[0]) && scale[0] != 0)
           || fault_set(reader->fault, FAULT_OPTION,
                        "%.40s of block %" PRId64 " is %g; expected a finite number that is not 0",
                        pass->block_scale, reader->block, (double)scale[0]);
}

static bool is_feed_forward(const char *kind)
{
    return kind && strcmp(kind, MODEL_FEED_FORWARD) == 0;
}

/* What a layer without attention does in its place, or beside it. */
static bool build_recurrence(const struct block_reader *blocks, struct model_block *block)
{
    struct checkpoint_pass_reader *reader = blocks->reader;
    const char *kind = checkpoint_other_kind(reader->run, reader->block);
    if (block->beside_layer < 0 && (!kind || is_feed_forward(kind)))
        return true;
    struct model_recurrence *recurrence =
        arena_calloc(reader->parameters->arena, 1, sizeof *recurrence);
    if (!recurrence)
        return fault_no_memory(reader->fault);
    block->recurrence = recurrence;
    reader->feed = reader->pass.recurrent;
    const bool good = reader->pass.recurrence(recurrence, reader, blocks->width);
    reader->feed = NULL;
    return good;
}

static bool build_block(const struct block_reader *blocks, struct model_block *block)
{
    const struct checkpoint_pass *pass = &blocks->reader->pass;
    const bool is_mixture =
        pass->router
        && (!pass->has_experts || pass->has_experts(blocks->reader->run, blocks->reader->block));
    const bool is_fed =
        !pass->parts_are_blocks
        || is_feed_forward(checkpoint_other_kind(blocks->reader->run, blocks->reader->block));
    block->is_parallel = blocks->is_parallel;
    return build_recurrence(blocks, block) && build_mixers(blocks, block)
           && (block->cross_layer < 0
               || build_part(blocks, &block->cross, &pass->cross_attention, NULL))
           && build_part(blocks, &block->feed_forward, &pass->feed_forward,
                         pass->feed_forward_scales)
           && (!is_fed
               || (is_mixture ? build_experts(blocks, &block->experts)
                              : build_dense(blocks, &block->dense)))
           && build_token_part(blocks, block)
           && checkpoint_altup_build_block(block, blocks->reader, blocks->stream);
}

/* The numbers of the first layers of a stream's blocks; -1: they have no such layer. */
struct first_layers {
    int64_t self, cross, beside;
};

static bool build_blocks(struct model_stream *stream, struct checkpoint_pass_reader *reader,
                         const struct first_layers *first)
{
    struct block_reader blocks = { .reader = reader,
                                   .stream = stream,
                                   .width = stream->width,
                                   .token_columns = stream->token_inputs.width };
    if (!read_blocks(&blocks))
        return false;
    stream->block_count = reader->run->layer_count;
    struct model_block *list =
        arena_calloc(reader->parameters->arena, (size_t)stream->block_count, sizeof *list);
    if (!list)
        return fault_no_memory(reader->fault);
    stream->blocks = list;
    bool good = true;
    for (int64_t i = 0; good && i < stream->block_count; i++) {
        reader->block = i;
        list[i].self_layer = first->self + i;
        list[i].cross_layer = first->cross < 0 ? -1 : first->cross + i;
        list[i].beside_layer = first->beside < 0 ? -1 : first->beside + i;
        good = build_block(&blocks, &list[i]);
    }
    reader->block = -1;
    return good;
}

static bool build_stream(struct model_stream *stream, struct checkpoint_pass_reader *reader,
                         const struct first_layers *first)
{
    const cJSON *section = reader->run->section;
    const struct checkpoint_pass *pass = &reader->pass;
    stream->name = pass->name;
    return checkpoint_read_number(section, pass->norm_eps, &reader->norm_eps, reader->fault)
           && checkpoint_read_flag(section, pass->norm_bias, &reader->norm_has_bias, reader->fault)
           && checkpoint_read_flag(section, pass->biases, &reader->has_biases, reader->fault)
           && checkpoint_pass_build_embedding(stream, reader)
           && checkpoint_altup_build_stream(stream, reader) && build_blocks(stream, reader, first)
           && checkpoint_pass_norm(reader, &stream->final_norm, pass->final_norm, stream->width);
}

/* ----------------------------------------------------------------- the pass -- */

struct pass_builder {
    const struct checkpoint *checkpoint;
    const struct model_layer *layers;
    struct model_parameters *parameters;
    struct model_forward *forward;
    const void **addresses; /* malloc'd */
    int64_t address_count, address_capacity;
    struct fault *fault;
};

/* The number of the first layer of this kind; -1: the file has none. */
static int64_t first_layer(const struct checkpoint *checkpoint, const char *kind,
                           const struct checkpoint_run **run)
{
    int64_t before = 0;
    for (int i = 0; i < checkpoint->run_count; i++) {
        *run = &checkpoint->runs[i];
        if (strcmp((*run)->stack->kind, kind) == 0)
            return before;
        before += (*run)->layer_count;
    }
    return -1;
}

/* Finds the layers of a kind that blocks of run have besides, one for each. kind NULL: none. */
static bool find_besides(const struct pass_builder *builder, const struct checkpoint_run *run,
                         const char *kind, int64_t *first)
{
    const struct checkpoint_run *found;
    *first = kind ? first_layer(builder->checkpoint, kind, &found) : -1;
    return !kind || (*first >= 0 && found->layer_count == run->layer_count)
           || fault_set(builder->fault, FAULT_SHAPE,
                        "the file does not have a layer of kind '%s' for each of kind '%s'", kind,
                        run->stack->kind);
}

static bool find_layers(const struct pass_builder *builder, const struct checkpoint_run *run,
                        struct first_layers *first)
{
    const struct checkpoint_pass *pass = &run->stack->pass;
    return find_besides(builder, run, pass->beside_kind, &first->beside)
           && find_besides(builder, run, pass->cross_kind, &first->cross)
           && (!pass->cross_kind || builder->forward->stream_count == 1
               || fault_set(builder->fault, FAULT_FIELD,
                            "the file has no encoder, whose rows its layers of kind '%s' attend to",
                            pass->cross_kind));
}

static bool build_run(struct pass_builder *builder, const struct checkpoint_run *run, int64_t first)
{
    const struct checkpoint_pass *pass = &run->stack->pass;
    struct model_forward *forward = builder->forward;
    struct model_stream *stream = &forward->streams[forward->stream_count];
    struct checkpoint_pass_reader reader = {
        .pass = *pass,
        .run = run,
        .checkpoint_type = builder->checkpoint->type,
        .parameters = builder->parameters,
        .block = -1,
        .fault = builder->fault,
        .addresses = builder->addresses,
        .address_count = builder->address_count,
        .address_capacity = builder->address_capacity,
    };
    struct first_layers layers = { .self = first };
    bool good = (!pass->adjust || pass->adjust(&reader.pass, run->section, builder->fault))
                && find_layers(builder, run, &layers);
    stream->width = builder->layers[first].d_query;
    good = good && build_stream(stream, &reader, &layers)
           && (!reader.pass.start
               || checkpoint_read_integer(run->section, reader.pass.start, &forward->start_id,
                                          builder->fault))
           && checkpoint_pass_build_head(&forward->head, &reader, stream,
                                         builder->layers[first].options.causal)
           && checkpoint_pass_build_contacts(&forward->contacts, &reader, stream,
                                             builder->layers[first].layer.q_heads)
           && checkpoint_readout_build(forward, forward->stream_count, &reader)
           && checkpoint_classes_build(forward, forward->stream_count, &reader,
                                       builder->layers[first].options.causal);
    builder->addresses = reader.addresses;
    builder->address_count = reader.address_count;
    builder->address_capacity = reader.address_capacity;
    if (good && pass->cross_kind)
        forward->is_encoder_decoder = true;
    forward->stream_count++;
    return good;
}

/* Whether the layers of the stack are those that a stream's cross_kind names. */
static bool is_cross_of_stream(const struct checkpoint *checkpoint,
                               const struct checkpoint_stack *stack)
{
    for (int i = 0; i < checkpoint->stack_count; i++) {
        const char *cross_kind = checkpoint->stacks[i].pass.cross_kind;
        if (cross_kind && strcmp(cross_kind, stack->kind) == 0)
            return true;
    }
    return false;
}

/* Builds the stream of a run that has one. */
static bool add_run(struct pass_builder *builder, const struct checkpoint_run *run, int64_t first)
{
    const struct checkpoint_pass *pass = &run->stack->pass;
    if (pass->refused)
        return fault_set(builder->fault, FAULT_OPTION, "%s", pass->refused);
    if (pass->tokens || pass->patches || pass->convolutions[0] || pass->takes_sound)
        return build_run(builder, run, first);
    return strcmp(run->stack->kind, "cross") != 0
           || is_cross_of_stream(builder->checkpoint, run->stack)
           || fault_set(builder->fault, FAULT_FIELD,
                        "the model has layers that attend to the rows of an encoder, which is not "
                        "part of it");
}

/* Keeps the addresses in the arena. */
static bool keep_addresses(struct pass_builder *builder)
{
    const size_t bytes = (size_t)builder->address_count * sizeof *builder->addresses;
    const void **kept = arena_alloc(builder->parameters->arena, bytes);
    if (!kept)
        return fault_no_memory(builder->fault);
    if (builder->addresses)
        memcpy(kept, builder->addresses, bytes);
    builder->forward->addresses = kept;
    builder->forward->address_count = (int)builder->address_count;
    return true;
}

static bool build_forward(struct pass_builder *builder)
{
    struct model_forward *forward = builder->forward;
    int64_t first = 0;
    forward->start_id = forward->mask_id = -1;
    for (int i = 0; i < builder->checkpoint->run_count; i++) {
        if (!add_run(builder, &builder->checkpoint->runs[i], first))
            return false;
        first += builder->checkpoint->runs[i].layer_count;
    }
    forward->vocabulary = forward->head.output.out;
    return forward->stream_count > 0 ? keep_addresses(builder)
                                     : fault_set(builder->fault, FAULT_FIELD,
                                                 "the file has none of the layers whose whole "
                                                 "pass is computed here");
}

bool checkpoint_pass_build(const struct model_forward **forward, const char **reason,
                           const struct checkpoint *checkpoint, const struct model_layer *layers,
                           struct model_parameters *parameters, struct fault *fault)
{
    struct fault why = { .code = FAULT_NONE };
    struct pass_builder builder = { .checkpoint = checkpoint,
                                    .layers = layers,
                                    .parameters = parameters,
                                    .forward =
                                        arena_calloc(parameters->arena, 1, sizeof *builder.forward),
                                    .fault = &why };
    *forward = NULL;
    *reason = NULL;
    if (!builder.forward)
        return fault_no_memory(fault);
    const bool good = build_forward(&builder);
    free(builder.addresses);
    if (good) {
        *forward = builder.forward;
        return true;
    }
    *reason = why.code == FAULT_MEMORY ? NULL : arena_strdup(parameters->arena, why.message);
    return *reason || fault_no_memory(fault);
}
