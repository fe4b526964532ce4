/* checkpoint_forward_stream.c - see checkpoint_forward_stream.h. */
#include "checkpoint/checkpoint_forward_stream.h"

#include "checkpoint/checkpoint_activation.h"
#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_forward_embedding.h"

#include <inttypes.h>

enum { EXPERTS_MAX = 4096 };

/* What the blocks of a stream have in common. */
struct blocks {
    struct checkpoint_forward_reader *reader;
    int64_t width;
    bool is_parallel;
    double residual_scale;
    enum attn_activation activation;
    int64_t expert_count, chosen_count;
};

static bool read_blocks(struct blocks *blocks)
{
    struct checkpoint_forward_reader *reader = blocks->reader;
    const struct checkpoint_forward_row *row = &reader->row;
    const cJSON *section = reader->run->section;
    if (!checkpoint_read_flag(section, row->parallel, &blocks->is_parallel, reader->fault)
        || !checkpoint_read_number(section, row->residual_scale, &blocks->residual_scale,
                                   reader->fault)
        || !checkpoint_activation_read(section, row->activation, &blocks->activation,
                                       reader->fault))
        return false;
    if (!row->router)
        return true;
    if (!checkpoint_read_integer(section, row->expert_count, &blocks->expert_count, reader->fault)
        || !checkpoint_read_integer(section, row->chosen_count, &blocks->chosen_count,
                                    reader->fault))
        return false;
    return (blocks->chosen_count >= 1 && blocks->chosen_count <= blocks->expert_count
            && blocks->expert_count <= EXPERTS_MAX)
           || fault_set(reader->fault, FAULT_OPTION,
                        "config.json gives %" PRId64 " experts (%.*s), of which %" PRId64
                        " (%.*s) compute each row",
                        blocks->expert_count, CHECKPOINT_FIELD_NAME(section, row->expert_count),
                        blocks->chosen_count, CHECKPOINT_FIELD_NAME(section, row->chosen_count));
}

static bool build_part(const struct blocks *blocks, struct model_part *part,
                       const struct checkpoint_norms *norms, const char *scales)
{
    part->scale = blocks->residual_scale;
    return checkpoint_forward_norm(blocks->reader, &part->before, norms->before, blocks->width)
           && checkpoint_forward_norm(blocks->reader, &part->inside, norms->inside, blocks->width)
           && checkpoint_forward_norm(blocks->reader, &part->after, norms->after, blocks->width)
           && (!scales
               || checkpoint_forward_values(blocks->reader, &part->column_scales, scales,
                                            blocks->width));
}

static bool build_feed_forward(const struct blocks *blocks, struct model_feed_forward *dense)
{
    struct checkpoint_forward_reader *reader = blocks->reader;
    const struct checkpoint_forward_row *row = &reader->row;
    const bool has_bias = reader->has_biases;
    dense->activation = blocks->activation;
    if (row->up_has_gate) {
        if (!checkpoint_forward_gated(reader, &dense->gate, &dense->up, row->up, blocks->width,
                                      has_bias))
            return false;
    } else if (!checkpoint_forward_linear(reader, &dense->up, row->up, 0, blocks->width,
                                          row->in_out, has_bias)
               || (row->gate
                   && !checkpoint_forward_linear(reader, &dense->gate, row->gate, dense->up.out,
                                                 blocks->width, row->in_out, has_bias))) {
        return false;
    }
    return checkpoint_forward_linear(reader, &dense->down, row->down, blocks->width, dense->up.out,
                                     row->in_out, has_bias);
}

static bool build_experts(const struct blocks *blocks, struct model_experts *experts)
{
    struct checkpoint_forward_reader *reader = blocks->reader;
    struct model_feed_forward *list =
        arena_calloc(reader->parameters->arena, (size_t)blocks->expert_count, sizeof *list);
    if (!list)
        return fault_no_memory(reader->fault);
    *experts = (struct model_experts){ .experts = list,
                                       .count = blocks->expert_count,
                                       .chosen = blocks->chosen_count,
                                       .is_normalized = true };
    bool good = checkpoint_forward_linear(reader, &experts->router, reader->row.router,
                                          experts->count, blocks->width, false, false);
    for (int64_t i = 0; good && i < experts->count; i++) {
        reader->expert = i;
        good = build_feed_forward(blocks, &list[i]);
    }
    reader->expert = -1;
    return good;
}

static bool build_block(const struct blocks *blocks, struct model_block *block)
{
    const struct checkpoint_forward_row *row = &blocks->reader->row;
    block->is_parallel = blocks->is_parallel;
    return build_part(blocks, &block->self, &row->attention, row->attention_scales)
           && (block->cross_layer < 0
               || build_part(blocks, &block->cross, &row->cross_attention, NULL))
           && build_part(blocks, &block->feed_forward, &row->feed_forward, row->feed_forward_scales)
           && (row->router ? build_experts(blocks, &block->experts)
                           : build_feed_forward(blocks, &block->dense));
}

static bool build_blocks(struct model_stream *stream, struct checkpoint_forward_reader *reader,
                         int64_t first, int64_t cross_first)
{
    struct blocks blocks = { .reader = reader, .width = stream->width };
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
        list[i].self_layer = first + i;
        list[i].cross_layer = cross_first < 0 ? -1 : cross_first + i;
        good = build_block(&blocks, &list[i]);
    }
    reader->block = -1;
    return good;
}

bool checkpoint_forward_stream_build(struct model_stream *stream,
                                     struct checkpoint_forward_reader *reader, int64_t first,
                                     int64_t cross_first)
{
    const cJSON *section = reader->run->section;
    const struct checkpoint_forward_row *row = &reader->row;
    stream->name = row->name;
    return checkpoint_read_number(section, row->norm_eps, &reader->norm_eps, reader->fault)
           && checkpoint_read_flag(section, row->norm_bias, &reader->norm_has_bias, reader->fault)
           && checkpoint_read_flag(section, row->biases, &reader->has_biases, reader->fault)
           && checkpoint_forward_embedding_build(stream, reader)
           && build_blocks(stream, reader, first, cross_first)
           && checkpoint_forward_norm(reader, &stream->final_norm, row->final_norm, stream->width);
}
