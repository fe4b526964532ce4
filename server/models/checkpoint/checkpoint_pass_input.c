/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_pass_input.c - how tokens, pixels or features become rows. */
#include "models/checkpoint/checkpoint_pass_internal.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SINUSOIDS_MAX = 1 << 23, /* numbers of a table that is computed */
    SIDE_MAX = 1 << 14
};

/* A projection from *width columns to as many as layers have. */
static bool set_token_projection(struct checkpoint_pass_reader *reader,
                                 struct attn_linear *projection, const char *names, int64_t *width,
                                 int64_t to, bool has_bias)
{
    const bool is_always = has_bias && reader->pass.projection_is_always;
    if (!names || (*width == to && !is_always))
        return true;
    if (!checkpoint_pass_linear(reader, projection, names, to, *width, false, has_bias))
        return false;
    *width = to;
    return true;
}

static bool read_token_scale(struct model_embedding *embedding,
                             struct checkpoint_pass_reader *reader, int64_t width)
{
    const cJSON *section = reader->run->section;
    bool is_root;
    if (!checkpoint_read_number(section, reader->pass.scale, &embedding->scale, reader->fault)
        || !checkpoint_read_flag(section, reader->pass.root_scale_if, &is_root, reader->fault))
        return false;
    if (is_root)
        embedding->scale = sqrt((double)width);
    return true;
}

/* Positions that a formula gives, rounded to float as the family's own source keeps them. */
static bool make_positions(struct model_embedding *embedding, struct checkpoint_pass_reader *reader,
                           int64_t width)
{
    struct arena *arena = reader->parameters->arena;
    int64_t count;
    if (!checkpoint_read_integer(reader->run->section, reader->pass.position_count, &count,
                                 reader->fault))
        return false;
    if (count < 1 || count > SINUSOIDS_MAX / width - embedding->position_offset)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json gives %" PRId64 " positions (%.*s), which is no count of "
                         "rows that can be computed",
                         count,
                         CHECKPOINT_FIELD_NAME(reader->run->section, reader->pass.position_count));
    count += embedding->position_offset;
    float *rows = arena_alloc(arena, (size_t)(count * width) * sizeof *rows);
    double *row = arena_alloc(arena, (size_t)width * sizeof *row);
    if (!rows || !row)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < count; i++) {
        reader->pass.sinusoid(row, i, width);
        for (int64_t c = 0; c < width; c++)
            rows[i * width + c] = i == embedding->padding_id ? 0 : (float)row[c];
    }
    embedding->positions = (struct model_table){ rows, ATTN_F32, count, width };
    return true;
}

static bool read_position_offset(struct model_embedding *embedding,
                                 struct checkpoint_pass_reader *reader)
{
    const struct checkpoint_pass *pass = &reader->pass;
    const cJSON *section = reader->run->section;
    if (!pass->padding)
        return checkpoint_read_integer(section, pass->position_offset, &embedding->position_offset,
                                       reader->fault);
    if (!checkpoint_read_integer(section, pass->padding, &embedding->padding_id, reader->fault))
        return false;
    embedding->position_offset = embedding->padding_id + 1;
    return true;
}

static bool build_positions(struct model_stream *stream, struct checkpoint_pass_reader *reader,
                            int64_t width)
{
    const struct checkpoint_pass *pass = &reader->pass;
    struct model_embedding *embedding = &stream->embedding;
    bool is_relative, by_key;
    if (!pass->positions && !pass->sinusoid)
        return true;
    if (!checkpoint_bias_read_distances(reader->run, &is_relative, &by_key, reader->fault))
        return false;
    if (is_relative) /* in place of positions, not beside them */
        return checkpoint_read_integer(reader->run->section, "max_position_embeddings=512",
                                       &stream->length_max, reader->fault);
    if (!read_position_offset(embedding, reader))
        return false;
    const bool is_made = pass->sinusoid && !checkpoint_pass_has(reader, pass->positions);
    if (!(is_made ? make_positions(embedding, reader, width)
                  : checkpoint_pass_table(reader, &embedding->positions, pass->positions, width)))
        return false;
    stream->length_max = embedding->positions.count - embedding->position_offset;
    return stream->length_max > 0
           || fault_set(reader->fault, FAULT_SHAPE,
                        "the table of positions has %" PRId64 " rows, and the first row of a text "
                        "takes number %" PRId64,
                        embedding->positions.count, embedding->position_offset);
}

/* What text-embeddings-inference cuts texts to (router/src/lib.rs). A value that is none changes no
 * number of a pass. */
static void read_length(struct model_stream *stream, const struct checkpoint_pass_reader *reader)
{
    struct fault ignored;
    if (!checkpoint_read_integer(reader->run->section,
                                 "max_position_embeddings|n_positions|max_trained_positions|"
                                 "max_seq_len|seq_length",
                                 &stream->length_said, &ignored))
        stream->length_said = 0;
}

static bool build_tokens(struct model_stream *stream, struct checkpoint_pass_reader *reader)
{
    const struct checkpoint_pass *pass = &reader->pass;
    struct model_embedding *embedding = &stream->embedding;
    embedding->dropout_ratio = pass->dropout_ratio;
    embedding->dropout_id = pass->dropout_id;
    read_length(stream, reader);
    if (!checkpoint_pass_table(reader, &embedding->tokens, pass->tokens, 0)
        || !read_token_scale(embedding, reader, stream->width))
        return false;
    int64_t width = embedding->tokens.width;
    if (!set_token_projection(reader, &embedding->token_projection, pass->token_projection, &width,
                              stream->width, false)
        || !build_positions(stream, reader, width)
        || (pass->types && !checkpoint_pass_table(reader, &embedding->types, pass->types, width))
        || !checkpoint_pass_norm(reader, &embedding->norm, pass->embedding_norm, width)
        || !set_token_projection(reader, &embedding->projection, pass->projection, &width,
                                 stream->width, true))
        return false;
    return width == stream->width
           || fault_set(reader->fault, FAULT_SHAPE,
                        "tokens have %" PRId64 " columns and layers have %" PRId64
                        ", and the file has no tensor that projects them",
                        width, stream->width);
}

/* The table of the tokens' columns for all blocks, of which each block's are a row here, and what
 * projects the first rows to as many. Source: Gemma4TextModel of gemma4/modeling_gemma4.py. */
static bool build_token_inputs(struct model_stream *stream, struct checkpoint_pass_reader *reader)
{
    const struct checkpoint_pass *pass = &reader->pass;
    const int64_t blocks = reader->run->layer_count;
    struct model_token_inputs *inputs = &stream->token_inputs;
    int64_t columns;
    if (!pass->layer_tokens)
        return true;
    if (!checkpoint_read_integer(reader->run->section, pass->layer_width, &columns, reader->fault))
        return false;
    if (columns == 0)
        return true;
    if (!checkpoint_pass_table(reader, &inputs->tokens, pass->layer_tokens, blocks * columns)
        || !checkpoint_pass_linear(reader, &inputs->projection, pass->layer_projection,
                                   blocks * columns, stream->width, false, false)
        || !checkpoint_pass_norm(reader, &inputs->norm, pass->layer_projection_norm, columns))
        return false;
    const int64_t together = attn_block_numbers(inputs->tokens.dtype);
    if (columns % together != 0)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "config.json gives %" PRId64 " columns of tokens for each layer (%.*s), "
                         "which are no whole blocks of %" PRId64 " numbers",
                         columns, CHECKPOINT_FIELD_NAME(reader->run->section, pass->layer_width),
                         together);
    inputs->width = columns;
    inputs->tokens.width = columns;
    inputs->tokens.count *= blocks;
    inputs->token_scale = sqrt((double)columns);
    inputs->projection_scale = 1 / sqrt((double)stream->width);
    inputs->sum_scale = sqrt(0.5);
    return true;
}

/* ---------------------------------------------------------------- features -- */

static bool build_features(struct model_stream *stream, struct checkpoint_pass_reader *reader)
{
    const struct checkpoint_pass *pass = &reader->pass;
    const cJSON *section = reader->run->section;
    struct model_embedding *embedding = &stream->embedding;
    int64_t positions;
    embedding->input = MODEL_INPUT_FEATURES;
    if (!checkpoint_read_integer(section, pass->feature_count, &embedding->feature_count,
                                 reader->fault)
        || !checkpoint_read_integer(section, pass->feature_positions, &positions, reader->fault))
        return false;
    embedding->feature_length = 2 * positions;
    if (!checkpoint_pass_convolution(reader, &embedding->convolutions[0], pass->convolutions[0],
                                     stream->width, 3 * embedding->feature_count, true)
        || !checkpoint_pass_convolution(reader, &embedding->convolutions[1], pass->convolutions[1],
                                        stream->width, 3 * stream->width, true)
        || !build_positions(stream, reader, stream->width))
        return false;
    return stream->length_max == positions
           || fault_set(reader->fault, FAULT_SHAPE,
                        "the table of positions has %" PRId64
                        " rows, and config.json gives %" PRId64 " (%.*s)",
                        embedding->positions.count, positions,
                        CHECKPOINT_FIELD_NAME(reader->run->section, pass->feature_positions));
}

/* ------------------------------------------------------------------ pixels -- */

/* The sides of a square picture of so many patches. */
static bool read_square(int64_t image[2], const struct checkpoint_pass_reader *reader,
                        int64_t patch)
{
    const struct checkpoint_pass *pass = &reader->pass;
    const cJSON *section = reader->run->section;
    int64_t count, side = 0;
    if (!checkpoint_read_integer(section, pass->patch_count, &count, reader->fault))
        return false;
    while (side < SIDE_MAX && side * side < count)
        side++;
    image[0] = image[1] = side * patch;
    return side * side == count
           || fault_set(reader->fault, FAULT_OPTION,
                        "config.json gives %" PRId64
                        " patches (%.*s); expected as many as a square has",
                        count, CHECKPOINT_FIELD_NAME(section, pass->patch_count));
}

static bool read_picture_sizes(struct model_embedding *embedding,
                               struct checkpoint_pass_reader *reader)
{
    const struct checkpoint_pass *pass = &reader->pass;
    const cJSON *section = reader->run->section;
    const char *size = pass->patch_count ? pass->patch_count : pass->image_size;
    int64_t image[2], patch[2];
    if (!checkpoint_read_pair(reader->run->document, section, pass->patch_size, patch,
                              reader->fault)
        || !(pass->patch_count ? read_square(image, reader, patch[0])
                               : checkpoint_read_pair(reader->run->document, section,
                                                      pass->image_size, image, reader->fault))
        || !checkpoint_read_integer(section, pass->channels, &embedding->channels, reader->fault))
        return false;
    embedding->image_height = image[0];
    embedding->image_width = image[1];
    embedding->patch = patch[0];
    if (patch[0] != patch[1])
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json gives patches of %" PRId64 " by %" PRId64
                         " pixels (%.*s); only squares are computed here",
                         patch[0], patch[1], CHECKPOINT_FIELD_NAME(section, pass->patch_size));
    return (image[0] <= SIDE_MAX && image[1] <= SIDE_MAX && patch[0] >= 1 && patch[0] <= image[0]
            && patch[0] <= image[1] && embedding->channels >= 1 && embedding->channels <= SIDE_MAX)
           || fault_set(reader->fault, FAULT_OPTION,
                        "config.json gives pictures of %" PRId64 " by %" PRId64
                        " pixels (%.*s), %" PRId64 " channels (%.*s) and patches of %" PRId64
                        " (%.*s), which are no patches of a picture",
                        image[0], image[1], CHECKPOINT_FIELD_NAME(section, size),
                        embedding->channels, CHECKPOINT_FIELD_NAME(section, pass->channels),
                        embedding->patch, CHECKPOINT_FIELD_NAME(section, pass->patch_size));
}

/* How many register rows the tensor has; 0: none. */
static bool count_registers(struct checkpoint_pass_reader *reader, int64_t *count)
{
    *count = 0;
    return !reader->pass.register_rows
           || checkpoint_read_integer(reader->run->section, reader->pass.register_count, count,
                                      reader->fault);
}

/* Puts the class rows and the register rows side by side. */
static bool set_class_rows(struct model_embedding *embedding, struct checkpoint_pass_reader *reader,
                           int64_t registers, int64_t width)
{
    const struct checkpoint_pass *pass = &reader->pass;
    const size_t bytes = (size_t)width * sizeof(float);
    const float *values = NULL, *more = NULL;
    if (registers > 0
        && !checkpoint_pass_values_now(reader, &more, pass->register_rows, registers * width))
        return false;
    float *rows = arena_alloc(reader->parameters->arena, (size_t)(2 + registers) * bytes);
    if (!rows)
        return fault_no_memory(reader->fault);
    embedding->class_rows = rows;
    for (int i = 0; i < 2 && pass->class_rows[i]; i++) {
        if (!checkpoint_pass_values_now(reader, &values, pass->class_rows[i], width))
            return false;
        memcpy(rows + embedding->class_row_count++ * width, values, bytes);
    }
    if (more)
        memcpy(rows + embedding->class_row_count * width, more, (size_t)registers * bytes);
    embedding->class_row_count += registers;
    return true;
}

/* A matrix of patches whose numbers lie as [row][column][channel], as one of
 * [channel][row][column].
 */
static bool set_turned_patches(struct model_embedding *embedding,
                               struct checkpoint_pass_reader *reader, int64_t width)
{
    char name[2][96];
    const int64_t channels = embedding->channels, pixels = embedding->patch * embedding->patch;
    const int64_t in = channels * pixels;
    const float *values = NULL;
    snprintf(name[0], sizeof name[0], "%.64s.weight", reader->pass.patches);
    snprintf(name[1], sizeof name[1], "%.64s.bias", reader->pass.patches);
    embedding->patches = (struct attn_linear){ .out = width, .in = in };
    if (!checkpoint_pass_values_now(reader, &values, name[0], width * in)
        || !checkpoint_pass_values(reader, &embedding->patches.bias, name[1], width))
        return false;
    float *turned = arena_alloc(reader->parameters->arena, (size_t)(width * in) * sizeof *turned);
    if (!turned)
        return fault_no_memory(reader->fault);
    embedding->patches.weight = turned;
    for (int64_t out = 0; out < width; out++)
        for (int64_t pixel = 0; pixel < pixels; pixel++)
            for (int64_t c = 0; c < channels; c++)
                turned[out * in + c * pixels + pixel] = *values++;
    return true;
}

/* Positions of all rows: those of the file, and 0 for registers, which stand behind the class rows.
 */
static bool set_patch_positions(struct model_embedding *embedding,
                                struct checkpoint_pass_reader *reader, int64_t registers,
                                int64_t count, int64_t width)
{
    const char *names = reader->pass.patch_positions;
    const int64_t before = embedding->class_row_count - registers;
    const float *positions = NULL;
    if (!names)
        return true;
    if (!(registers > 0
              ? checkpoint_pass_values_now(reader, &positions, names, (count - registers) * width)
              : checkpoint_pass_values(reader, &positions, names, count * width)))
        return false;
    embedding->positions = (struct model_table){ positions, ATTN_F32, count, width };
    if (registers == 0)
        return true;
    float *rows = arena_calloc(reader->parameters->arena, (size_t)(count * width), sizeof *rows);
    if (!rows)
        return fault_no_memory(reader->fault);
    memcpy(rows, positions, (size_t)(before * width) * sizeof *rows);
    memcpy(rows + (before + registers) * width, positions + before * width,
           (size_t)((count - registers - before) * width) * sizeof *rows);
    embedding->positions.rows = rows;
    return true;
}

static bool build_patches(struct model_stream *stream, struct checkpoint_pass_reader *reader)
{
    const struct checkpoint_pass *pass = &reader->pass;
    struct model_embedding *embedding = &stream->embedding;
    const int64_t width = stream->width;
    int64_t registers;
    embedding->input = MODEL_INPUT_PIXELS;
    embedding->pixel_range = pass->pixel_range;
    embedding->resize = pass->resize;
    if (!read_picture_sizes(embedding, reader) || !count_registers(reader, &registers)
        || !(pass->patches_end_with_channel
                 ? set_turned_patches(embedding, reader, width)
                 : checkpoint_pass_convolution(reader, &embedding->patches, pass->patches, width,
                                               embedding->channels * embedding->patch
                                                   * embedding->patch,
                                               !pass->patches_have_no_bias))
        || !set_class_rows(embedding, reader, registers, width))
        return false;
    const int64_t down = embedding->image_height / embedding->patch;
    const int64_t across = embedding->image_width / embedding->patch;
    stream->length_max = embedding->class_row_count + down * across;
    return set_patch_positions(embedding, reader, registers, stream->length_max, width)
           && checkpoint_pass_norm(reader, &embedding->norm, pass->embedding_norm, width);
}

bool checkpoint_pass_build_embedding(struct model_stream *stream,
                                     struct checkpoint_pass_reader *reader)
{
    stream->embedding = (struct model_embedding){ .padding_id = -1 };
    return reader->pass.takes_sound       ? checkpoint_sound_build(stream, reader)
           : reader->pass.convolutions[0] ? build_features(stream, reader)
           : reader->pass.patches
               ? build_patches(stream, reader)
               : build_tokens(stream, reader) && build_token_inputs(stream, reader);
}
