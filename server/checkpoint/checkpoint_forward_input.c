/* checkpoint_forward_input.c - how the pixels or features of a published checkpoint become rows. */
#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_forward_embedding.h"

#include <inttypes.h>
#include <string.h>

enum { SIDE_MAX = 1 << 14 };

bool checkpoint_forward_features_build(struct model_stream *stream,
                                       struct checkpoint_forward_reader *reader)
{
    const struct checkpoint_forward_row *row = &reader->row;
    const cJSON *section = reader->run->section;
    struct model_embedding *embedding = &stream->embedding;
    int64_t positions;
    embedding->input = MODEL_INPUT_FEATURES;
    if (!checkpoint_read_integer(section, row->feature_count, &embedding->feature_count,
                                 reader->fault)
        || !checkpoint_read_integer(section, row->feature_positions, &positions, reader->fault))
        return false;
    embedding->feature_length = 2 * positions;
    if (!checkpoint_forward_convolution(reader, &embedding->convolutions[0], row->convolutions[0],
                                        stream->width, 3 * embedding->feature_count, true)
        || !checkpoint_forward_convolution(reader, &embedding->convolutions[1],
                                           row->convolutions[1], stream->width, 3 * stream->width,
                                           true)
        || !checkpoint_forward_positions_build(stream, reader, stream->width))
        return false;
    return stream->length_max == positions
           || fault_set(reader->fault, FAULT_SHAPE,
                        "the table of positions has %" PRId64
                        " rows, and config.json gives %" PRId64 " (%.*s)",
                        embedding->positions.count, positions,
                        CHECKPOINT_FIELD_NAME(reader->run->section, row->feature_positions));
}

/* ------------------------------------------------------------------ pixels -- */

static bool read_sizes(struct model_embedding *embedding, struct checkpoint_forward_reader *reader)
{
    const struct checkpoint_forward_row *row = &reader->row;
    const cJSON *section = reader->run->section;
    int64_t image[2], patch[2];
    if (!checkpoint_read_pair(reader->run->document, section, row->image_size, image, reader->fault)
        || !checkpoint_read_pair(reader->run->document, section, row->patch_size, patch,
                                 reader->fault)
        || !checkpoint_read_integer(section, row->channels, &embedding->channels, reader->fault))
        return false;
    embedding->image_height = image[0];
    embedding->image_width = image[1];
    embedding->patch = patch[0];
    if (patch[0] != patch[1])
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json gives patches of %" PRId64 " by %" PRId64
                         " pixels; only squares are computed here",
                         patch[0], patch[1]);
    return (image[0] <= SIDE_MAX && image[1] <= SIDE_MAX && patch[0] >= 1 && patch[0] <= image[0]
            && patch[0] <= image[1] && embedding->channels >= 1 && embedding->channels <= SIDE_MAX)
           || fault_set(reader->fault, FAULT_OPTION,
                        "config.json gives pictures of %" PRId64 " by %" PRId64 " pixels, %" PRId64
                        " channels and patches of %" PRId64 ", which are no patches of a picture",
                        image[0], image[1], embedding->channels, embedding->patch);
}

/* Puts the class rows side by side. */
static bool set_class_rows(struct model_embedding *embedding,
                           struct checkpoint_forward_reader *reader, int64_t width)
{
    float *rows = arena_alloc(reader->parameters->arena, 2 * (size_t)width * sizeof *rows);
    if (!rows)
        return fault_no_memory(reader->fault);
    embedding->class_rows = rows;
    for (int i = 0; i < 2 && reader->row.class_rows[i]; i++) {
        const float *values = NULL;
        if (!checkpoint_forward_values_now(reader, &values, reader->row.class_rows[i], width))
            return false;
        memcpy(rows + embedding->class_row_count++ * width, values, (size_t)width * sizeof *rows);
    }
    return true;
}

bool checkpoint_forward_patches_build(struct model_stream *stream,
                                      struct checkpoint_forward_reader *reader)
{
    const struct checkpoint_forward_row *row = &reader->row;
    struct model_embedding *embedding = &stream->embedding;
    const int64_t width = stream->width;
    embedding->input = MODEL_INPUT_PIXELS;
    embedding->pixel_range = row->pixel_range;
    if (!read_sizes(embedding, reader)
        || !checkpoint_forward_convolution(
            reader, &embedding->patches, row->patches, width,
            embedding->channels * embedding->patch * embedding->patch, !row->patches_have_no_bias)
        || !set_class_rows(embedding, reader, width))
        return false;
    const int64_t down = embedding->image_height / embedding->patch;
    const int64_t across = embedding->image_width / embedding->patch;
    const float *positions = NULL;
    stream->length_max = embedding->class_row_count + down * across;
    if (row->patch_positions
        && !checkpoint_forward_values(reader, &positions, row->patch_positions,
                                      stream->length_max * width))
        return false;
    if (positions)
        embedding->positions =
            (struct model_table){ positions, ATTN_F32, stream->length_max, width };
    return checkpoint_forward_norm(reader, &embedding->norm, row->embedding_norm, width);
}
