/* SPDX-License-Identifier: Apache-2.0 */
/* trace_arrays.c - inputs of a stream that are arrays: pixels, features, samples, and rows in place
 * of the embedding's output. */
#include "operations/plan/trace_plan.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <stdio.h>

static bool to_floats(struct array *array, struct arena *arena, struct fault *fault)
{
    size_t count = 1;
    if (array->dtype == ATTN_F32)
        return true;
    for (int i = 0; i < array->rank; i++)
        count *= (size_t)array->shape[i]; /* no overflow: they are in memory */
    float *values = arena_alloc(arena, count * sizeof *values);
    if (!values)
        return fault_no_memory(fault);
    dtype_read(values, array->data, array->dtype, count);
    array->data = values;
    array->dtype = ATTN_F32;
    return true;
}

/* The fault of an array of another shape than taken, the model's. Returns false. */
static bool wrong_shape(const struct trace_item *item, const char *name, const struct array *array,
                        const char *taken, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX], shape[24 * ARRAY_RANK_MAX] = "";
    size_t used = 0;
    snprintf(pointer, sizeof pointer, "/%s", name);
    for (int i = 0; i < array->rank; i++)
        used +=
            (size_t)snprintf(shape + used, sizeof shape - used, "[%" PRId64 "]", array->shape[i]);
    return fault_set_at(fault, pointer, FAULT_SHAPE, "%s is %s; model '%s' takes %s", name, shape,
                        item->model->name, taken);
}

enum { PIXELS_MAX = 1 << 14 }; /* of a side */

bool trace_take_pixels(struct trace_item *item, int stream, struct arena *arena,
                       struct fault *fault)
{
    const struct model_embedding *embedding = &item->model->forward->streams[stream].embedding;
    const int64_t *shape = item->pixels.shape;
    const bool is_any_size = embedding->resize != MODEL_RESIZE_NONE;
    char taken[160];
    int used = snprintf(taken, sizeof taken, "[%" PRId64 "][%" PRId64 "][%" PRId64 "]",
                        embedding->channels, embedding->image_height, embedding->image_width);
    if (is_any_size)
        snprintf(taken + used, sizeof taken - (size_t)used,
                 ", or another height and width of %" PRId64 " to %d", embedding->patch,
                 PIXELS_MAX);
    const bool is_own_size = item->pixels.rank == 3 && shape[1] == embedding->image_height
                             && shape[2] == embedding->image_width;
    if (item->pixels.rank != 3 || shape[0] != embedding->channels
        || !(is_own_size
             || (is_any_size && shape[1] >= embedding->patch && shape[2] >= embedding->patch
                 && shape[1] <= PIXELS_MAX && shape[2] <= PIXELS_MAX)))
        return wrong_shape(item, "pixels", &item->pixels, taken, fault);
    item->streams[stream].length =
        (shape[1] / embedding->patch) * (shape[2] / embedding->patch) + embedding->class_row_count;
    return to_floats(&item->pixels, arena, fault);
}

bool trace_take_features(struct trace_item *item, int stream, struct arena *arena,
                         struct fault *fault)
{
    const struct model_embedding *embedding = &item->model->forward->streams[stream].embedding;
    const int64_t *shape = item->features.shape;
    char taken[80];
    snprintf(taken, sizeof taken, "[%" PRId64 "][%" PRId64 "]", embedding->feature_count,
             embedding->feature_length);
    if (item->features.rank != 2 || shape[0] != embedding->feature_count
        || shape[1] != embedding->feature_length)
        return wrong_shape(item, "features", &item->features, taken, fault);
    item->streams[stream].length = (embedding->feature_length + 1) / 2;
    return to_floats(&item->features, arena, fault);
}

/* Samples as trace_take_sound() left them. */
bool trace_take_samples(struct trace_item *item, int stream, struct fault *fault)
{
    const struct model_sound *sound = &item->model->forward->streams[stream].embedding.sound;
    const int64_t samples = item->sound.shape[0];
    item->streams[stream].length = model_sound_rows(sound, samples);
    return item->streams[stream].length > 0
           || fault_set_at(fault, "/sound", FAULT_LENGTH,
                           "sound has %" PRId64 " samples; model '%s' takes %" PRId64 " or more",
                           samples, item->model->name, model_sound_least(sound));
}

bool trace_take_embeddings(struct trace_item *item, int stream, struct arena *arena,
                           struct fault *fault)
{
    const int64_t width = item->model->forward->streams[stream].width;
    struct array *given = &item->embeddings;
    char taken[80];
    snprintf(taken, sizeof taken, "[rows][%" PRId64 "]", width);
    if (!array_is_empty(given) && (given->rank != 2 || given->shape[1] != width))
        return wrong_shape(item, "embeddings", given, taken, fault);
    item->streams[stream].length = given->shape[0];
    item->streams[stream].is_given = true;
    return to_floats(given, arena, fault);
}
