/* SPDX-License-Identifier: Apache-2.0 */
/* trace_sound.c - sound as the input of a trace: samples, or a WAV file of them, become the
 * features that the model takes (sound.h), or samples as its preprocessor gives them. */
#include "operations/plan/trace_plan.h"

#include "base/dtype.h"
#include "operations/pass/sound.h"

#include <inttypes.h>
#include <math.h>

/* Full scale is 1; a file of floats may be a little louder. */
#define SAMPLE_MAX 1000

/* The embedding that takes samples, or features of them; NULL: there is none. */
static const struct model_embedding *embedding_of(const struct trace_item *item)
{
    const struct model_forward *forward = item->model->forward;
    for (int i = 0; i < forward->stream_count; i++) {
        const enum model_input input = forward->streams[i].embedding.input;
        if (input == MODEL_INPUT_FEATURES || input == MODEL_INPUT_SOUND)
            return &forward->streams[i].embedding;
    }
    return NULL;
}

/* Samples as floats that a spectrum can be made of. */
static bool take_samples(const struct array *sound, float **samples, struct arena *arena,
                         struct fault *fault)
{
    if (sound->rank != 1)
        return fault_set_at(fault, "/sound", FAULT_SHAPE,
                            "sound is a tensor of %d dimensions; expected [samples]", sound->rank);
    const int64_t count = sound->shape[0];
    float *values = arena_calloc(arena, (size_t)count + 1, sizeof *values);
    if (!values)
        return fault_no_memory(fault);
    dtype_read(values, sound->data, sound->dtype, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(values[i]) <= SAMPLE_MAX))
            return fault_set_at(fault, "/sound", FAULT_OPTION,
                                "sample %" PRId64 " of sound is %g; expected numbers from -1 to 1",
                                i, (double)values[i]);
    *samples = values;
    return true;
}

/* Source: transformers, feature_extraction_wav2vec2.py, zero_mean_unit_var_norm(). */
static void normalize(float *samples, int64_t count)
{
    static const double EPS = 1e-7;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < count; i++)
        mean += (double)samples[i] / (double)count;
    for (int64_t i = 0; i < count; i++)
        variance += ((double)samples[i] - mean) * ((double)samples[i] - mean) / (double)count;
    for (int64_t i = 0; i < count; i++)
        samples[i] = (float)(((double)samples[i] - mean) / sqrt(variance + EPS));
}

static bool prepare_samples(struct trace_item *item, float *samples, struct fault *fault)
{
    const struct model_speech *speech = item->model->speech;
    const int64_t count = item->sound.shape[0];
    if (speech && speech->reason)
        return fault_set_at(fault, "/sound", FAULT_OPTION,
                            "model '%s' takes no sound: its preprocessor_config.json was refused: "
                            "%s",
                            item->model->name, speech->reason);
    if (!item->sound_is_prepared && !(speech && speech->is_raw))
        normalize(samples, count);
    item->sound =
        (struct array){ .data = samples, .dtype = ATTN_F32, .rank = 1, .shape = { count } };
    return true;
}

static bool make_features(struct trace_item *item, const struct model_embedding *embedding,
                          const float *samples, const struct attn_kernels *kernels,
                          struct arena *arena, struct fault *fault)
{
    const int64_t most = embedding->feature_length * SOUND_HOP;
    if (item->sound.shape[0] > most)
        return fault_set_at(fault, "/sound", FAULT_LENGTH,
                            "sound has %" PRId64 " samples; model '%s' takes at most %" PRId64
                            ", %g seconds: cut it into parts",
                            item->sound.shape[0], item->model->name, most,
                            (double)most / SOUND_RATE);
    if (most <= SOUND_WINDOW / 2)
        return fault_set_at(fault, "/sound", FAULT_OPTION,
                            "model '%s' takes %" PRId64 " samples, fewer than a frame has",
                            item->model->name, most);
    float *features = arena_calloc(
        arena, (size_t)(embedding->feature_count * embedding->feature_length), sizeof *features);
    if (!features)
        return fault_no_memory(fault);
    item->features = (struct array){
        .data = features,
        .dtype = ATTN_F32,
        .rank = 2,
        .shape = { embedding->feature_count, embedding->feature_length },
    };
    return sound_features(features, embedding->feature_count, embedding->feature_length, samples,
                          item->sound.shape[0], kernels, arena, fault);
}

/* An earlier item whose sound is the same bytes, because both have it from the batch. */
static const struct trace_item *find_made(const struct trace_request *request,
                                          const struct trace_item *item)
{
    for (const struct trace_item *earlier = request->items; earlier < item; earlier++)
        if (earlier->sound_given == item->sound.data && earlier->model == item->model
            && earlier->sound_is_prepared == item->sound_is_prepared)
            return earlier;
    return NULL;
}

bool trace_take_sound(const struct trace_request *request, struct trace_item *item,
                      const struct attn_kernels *kernels, struct fault *fault)
{
    const struct model_embedding *embedding = embedding_of(item);
    struct arena *arena = request->arena;
    float *samples = NULL;
    if (!item->sound.data)
        return true;
    if (!embedding)
        return fault_set_at(fault, "/sound", FAULT_FIELD, "model '%s' takes no sound",
                            item->model->name);
    if (item->features.data)
        return fault_set_at(fault, "/sound", FAULT_FIELD,
                            "both sound and features came; expected one of them");
    const struct trace_item *made = find_made(request, item);
    if (made) {
        item->sound = made->sound;
        item->features = made->features;
        return true;
    }
    const void *given = item->sound.data;
    if (!take_samples(&item->sound, &samples, arena, fault))
        return false;
    if (!(embedding->input == MODEL_INPUT_SOUND
              ? prepare_samples(item, samples, fault)
              : make_features(item, embedding, samples, kernels, arena, fault)))
        return false;
    item->sound_given = given;
    return true;
}
