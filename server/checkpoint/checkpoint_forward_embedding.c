/* checkpoint_forward_embedding.c - see checkpoint_forward_embedding.h. */
#include "checkpoint/checkpoint_forward_embedding.h"

#include "checkpoint/checkpoint_bias.h"
#include "checkpoint/checkpoint_fields.h"

#include <inttypes.h>
#include <math.h>

enum { SINUSOIDS_MAX = 1 << 23 }; /* numbers of a table that is computed */

/* A projection from *width columns to as many as layers have. */
static bool set_projection(struct checkpoint_forward_reader *reader, struct attn_linear *projection,
                           const char *names, int64_t *width, int64_t to, bool has_bias)
{
    const bool is_always = has_bias && reader->row.projection_is_always;
    if (!names || (*width == to && !is_always))
        return true;
    if (!checkpoint_forward_linear(reader, projection, names, to, *width, false, has_bias))
        return false;
    *width = to;
    return true;
}

static bool read_scale(struct model_embedding *embedding, struct checkpoint_forward_reader *reader,
                       int64_t width)
{
    const cJSON *section = reader->run->section;
    bool is_root;
    if (!checkpoint_read_number(section, reader->row.scale, &embedding->scale, reader->fault)
        || !checkpoint_read_flag(section, reader->row.root_scale_if, &is_root, reader->fault))
        return false;
    if (is_root)
        embedding->scale = sqrt((double)width);
    return true;
}

/* Positions that a formula gives, rounded to float as the family's own source keeps them. */
static bool make_positions(struct model_embedding *embedding,
                           struct checkpoint_forward_reader *reader, int64_t width)
{
    struct arena *arena = reader->parameters->arena;
    int64_t count;
    if (!checkpoint_read_integer(reader->run->section, reader->row.position_count, &count,
                                 reader->fault))
        return false;
    if (count < 1 || count > SINUSOIDS_MAX / width - embedding->position_offset)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json gives %" PRId64 " positions (%.*s), which is no count of "
                         "rows that can be computed",
                         count,
                         CHECKPOINT_FIELD_NAME(reader->run->section, reader->row.position_count));
    count += embedding->position_offset;
    float *rows = arena_alloc(arena, (size_t)(count * width) * sizeof *rows);
    double *row = arena_alloc(arena, (size_t)width * sizeof *row);
    if (!rows || !row)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < count; i++) {
        reader->row.sinusoid(row, i, width);
        for (int64_t c = 0; c < width; c++)
            rows[i * width + c] = i == embedding->padding_id ? 0 : (float)row[c];
    }
    embedding->positions = (struct model_table){ rows, ATTN_F32, count, width };
    return true;
}

static bool read_offset(struct model_embedding *embedding, struct checkpoint_forward_reader *reader)
{
    const struct checkpoint_forward_row *row = &reader->row;
    const cJSON *section = reader->run->section;
    if (!row->padding)
        return checkpoint_read_integer(section, row->position_offset, &embedding->position_offset,
                                       reader->fault);
    if (!checkpoint_read_integer(section, row->padding, &embedding->padding_id, reader->fault))
        return false;
    embedding->position_offset = embedding->padding_id + 1;
    return true;
}

bool checkpoint_forward_positions_build(struct model_stream *stream,
                                        struct checkpoint_forward_reader *reader, int64_t width)
{
    const struct checkpoint_forward_row *row = &reader->row;
    struct model_embedding *embedding = &stream->embedding;
    bool is_relative, by_key;
    if (!row->positions && !row->sinusoid)
        return true;
    if (!checkpoint_bias_read_distances(reader->run, &is_relative, &by_key, reader->fault))
        return false;
    if (is_relative) /* in place of positions, not beside them */
        return checkpoint_read_integer(reader->run->section, "max_position_embeddings=512",
                                       &stream->length_max, reader->fault);
    if (!read_offset(embedding, reader))
        return false;
    const bool is_made = row->sinusoid && !checkpoint_forward_has(reader, row->positions);
    if (!(is_made ? make_positions(embedding, reader, width)
                  : checkpoint_forward_table(reader, &embedding->positions, row->positions, width)))
        return false;
    stream->length_max = embedding->positions.count - embedding->position_offset;
    return stream->length_max > 0
           || fault_set(reader->fault, FAULT_SHAPE,
                        "the table of positions has %" PRId64 " rows, and the first row of a text "
                        "takes number %" PRId64,
                        embedding->positions.count, embedding->position_offset);
}

static bool build_tokens(struct model_stream *stream, struct checkpoint_forward_reader *reader)
{
    const struct checkpoint_forward_row *row = &reader->row;
    struct model_embedding *embedding = &stream->embedding;
    if (!checkpoint_forward_table(reader, &embedding->tokens, row->tokens, 0)
        || !read_scale(embedding, reader, stream->width))
        return false;
    int64_t width = embedding->tokens.width;
    if (!set_projection(reader, &embedding->token_projection, row->token_projection, &width,
                        stream->width, false)
        || !checkpoint_forward_positions_build(stream, reader, width)
        || (row->types && !checkpoint_forward_table(reader, &embedding->types, row->types, width))
        || !checkpoint_forward_norm(reader, &embedding->norm, row->embedding_norm, width)
        || !set_projection(reader, &embedding->projection, row->projection, &width, stream->width,
                           true))
        return false;
    return width == stream->width
           || fault_set(reader->fault, FAULT_SHAPE,
                        "tokens have %" PRId64 " columns and layers have %" PRId64
                        ", and the file has no tensor that projects them",
                        width, stream->width);
}

bool checkpoint_forward_embedding_build(struct model_stream *stream,
                                        struct checkpoint_forward_reader *reader)
{
    stream->embedding = (struct model_embedding){ .padding_id = -1 };
    return reader->row.convolutions[0] ? checkpoint_forward_features_build(stream, reader)
           : reader->row.patches       ? checkpoint_forward_patches_build(stream, reader)
                                       : build_tokens(stream, reader);
}
