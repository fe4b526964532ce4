/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_sound.c - how samples become rows in wav2vec 2.0, HuBERT and WavLM, and what the files
 * beside such a checkpoint say.
 *
 * Source: transformers, models/wav2vec2/modeling_wav2vec2.py, Wav2Vec2FeatureEncoder,
 * Wav2Vec2FeatureProjection, Wav2Vec2PositionalConvEmbedding, Wav2Vec2Encoder;
 * hubert/modeling_hubert.py, HubertPositionalConvEmbedding, HubertFeatureProjection;
 * feature_extraction_wav2vec2.py. */
#include "models/checkpoint/checkpoint_pass_internal.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/model/model_forward.h"
#include "models/model/model_storage.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    COLUMNS_MAX = 1 << 14,
    KERNEL_MAX = 64,
    POSITIONAL_MAX = 1 << 10,
    STRIDES_MAX = 1 << 20,
    NAME_BYTES = 96
};

/* Of torch.nn.LayerNorm, where its caller does not say another. */
static const double EPS = 1e-5;

/* ------------------------------------------------------------- the convolutions -- */

struct convolutions {
    int64_t count, columns[MODEL_SOUND_LAYERS_MAX], kernels[MODEL_SOUND_LAYERS_MAX],
        strides[MODEL_SOUND_LAYERS_MAX];
    bool is_group, has_bias;
};

/* A number for each layer, each from 1 on. */
static bool read_list(const struct checkpoint_pass_reader *reader, const char *name, int64_t most,
                      int64_t *values, int64_t *count)
{
    const struct json_document *document = reader->run->document;
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(reader->run->section, name);
    const struct json_numbers *numbers = node ? json_numbers_of(document, node) : NULL;
    bool good = numbers && numbers->rank == 1 && numbers->count >= 1
                && numbers->count <= MODEL_SOUND_LAYERS_MAX && !numbers->has_bool
                && !numbers->has_null;
    if (!node)
        return true;
    for (int64_t i = 0; good && i < numbers->count; i++) {
        const float value = numbers->values[i];
        good = value >= 1 && value <= (float)most && value == floorf(value);
        values[i] = good ? (int64_t)value : 0;
    }
    if (good)
        *count = numbers->count;
    return good
           || fault_set(reader->fault, FAULT_OPTION,
                        "config.json's %s is not a list of 1 to %d integers from 1 to %" PRId64,
                        name, MODEL_SOUND_LAYERS_MAX, most);
}

static bool read_convolutions(const struct checkpoint_pass_reader *reader, struct convolutions *of)
{
    *of = (struct convolutions){ 7,
                                 { 512, 512, 512, 512, 512, 512, 512 },
                                 { 10, 3, 3, 3, 3, 2, 2 },
                                 { 5, 2, 2, 2, 2, 2, 2 },
                                 false,
                                 false };
    const cJSON *section = reader->run->section;
    int64_t kernels = of->count, strides = of->count, product = 1;
    const char *norm;
    if (!read_list(reader, "conv_dim", COLUMNS_MAX, of->columns, &of->count)
        || !read_list(reader, "conv_kernel", KERNEL_MAX, of->kernels, &kernels)
        || !read_list(reader, "conv_stride", KERNEL_MAX, of->strides, &strides)
        || !checkpoint_read_flag(section, "conv_bias", &of->has_bias, reader->fault)
        || !checkpoint_read_string(section, "feat_extract_norm=group", &norm, reader->fault))
        return false;
    of->is_group = strcmp(norm, "group") == 0;
    if (!of->is_group && strcmp(norm, "layer") != 0)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json's feat_extract_norm is '%.40s'; expected group or layer",
                         norm);
    if (kernels != of->count || strides != of->count)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "config.json gives %" PRId64 " convolutions (conv_dim), %" PRId64
                         " kernels (conv_kernel) and %" PRId64 " strides (conv_stride)",
                         of->count, kernels, strides);
    for (int64_t i = 0; i < of->count && product <= STRIDES_MAX; i++)
        product *= of->strides[i];
    return product <= STRIDES_MAX
           || fault_set(reader->fault, FAULT_OPTION,
                        "config.json's strides (conv_stride) make one row of more than %d samples",
                        STRIDES_MAX);
}

/* Numbers [out][columns][kernel] of a tensor as [out][kernel][columns]; NULL: a fault. */
static float *turn_kernels(const struct checkpoint_pass_reader *reader, const float *values,
                           int64_t out, int64_t columns, int64_t kernel)
{
    float *turned =
        arena_alloc(reader->parameters->arena, (size_t)(out * columns * kernel) * sizeof *turned);
    if (!turned) {
        fault_no_memory(reader->fault);
        return NULL;
    }
    for (int64_t o = 0; o < out; o++)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t k = 0; k < kernel; k++)
                turned[(o * kernel + k) * columns + c] = *values++;
    return turned;
}

static bool build_layer(struct model_sound *sound, struct checkpoint_pass_reader *reader,
                        const struct convolutions *of, int64_t i)
{
    struct model_sound_layer *layer = &sound->layers[i];
    const int64_t in = i > 0 ? of->columns[i - 1] : 1, out = of->columns[i];
    const float *values;
    char name[4][NAME_BYTES];
    snprintf(name[0], NAME_BYTES, "feature_extractor.conv_layers.%d.conv.weight", (int)i);
    snprintf(name[1], NAME_BYTES, "feature_extractor.conv_layers.%d.conv.bias", (int)i);
    snprintf(name[2], NAME_BYTES, "feature_extractor.conv_layers.%d.layer_norm", (int)i);
    *layer = (struct model_sound_layer){ .kernel = of->kernels[i], .stride = of->strides[i] };
    layer->linear = (struct attn_linear){ .out = out, .in = in * layer->kernel };
    if (!checkpoint_pass_values_now(reader, &values, name[0], out * layer->linear.in))
        return false;
    layer->linear.weight = turn_kernels(reader, values, out, in, layer->kernel);
    if (!layer->linear.weight
        || (of->has_bias && !checkpoint_pass_values_now(reader, &layer->linear.bias, name[1], out)))
        return false;
    if (!of->is_group) {
        if (!checkpoint_pass_norm(reader, &layer->norm, name[2], out))
            return false;
        layer->norm.eps = EPS;
        return true;
    }
    snprintf(name[2], NAME_BYTES, "feature_extractor.conv_layers.%d.layer_norm.weight", (int)i);
    snprintf(name[3], NAME_BYTES, "feature_extractor.conv_layers.%d.layer_norm.bias", (int)i);
    return i > 0
           || (checkpoint_pass_values_now(reader, &sound->column_scales, name[2], out)
               && checkpoint_pass_values_now(reader, &sound->column_biases, name[3], out));
}

/* ----------------------------------------------------- the positional convolution -- */

#define POSITIONAL "encoder.pos_conv_embed."

/* The kernels of torch's weight_norm over dim 2: at each place those of v, whose length becomes g.
 */
static bool scale_kernels(struct checkpoint_pass_reader *reader, float *turned, int64_t width,
                          int64_t kernel, int64_t columns)
{
    const float *lengths;
    if (!checkpoint_pass_values_now(reader, &lengths,
                                    POSITIONAL "conv.weight_g|" POSITIONAL
                                               "conv.parametrizations.weight.original0",
                                    kernel))
        return false;
    for (int64_t k = 0; k < kernel; k++) {
        double sum = 0;
        for (int64_t i = 0; i < width * columns; i++) {
            const double number =
                (double)turned[(i / columns * kernel + k) * columns + i % columns];
            sum += number * number;
        }
        for (int64_t i = 0; i < width * columns; i++) {
            float *number = &turned[(i / columns * kernel + k) * columns + i % columns];
            *number = (float)((double)*number * (double)lengths[k] / sqrt(sum));
        }
    }
    return true;
}

static bool build_positional(struct model_sound *sound, struct checkpoint_pass_reader *reader,
                             int64_t width)
{
    const cJSON *section = reader->run->section;
    const float *values;
    if (!checkpoint_read_integer(section, "num_conv_pos_embeddings=128", &sound->positional_kernel,
                                 reader->fault)
        || !checkpoint_read_integer(section, "num_conv_pos_embedding_groups=16", &sound->groups,
                                    reader->fault))
        return false;
    const int64_t kernel = sound->positional_kernel, groups = sound->groups;
    if (kernel < 1 || kernel > POSITIONAL_MAX || groups < 1 || width % groups != 0)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json gives a positional convolution of %" PRId64
                         " rows (num_conv_pos_embeddings) and %" PRId64
                         " groups (num_conv_pos_embedding_groups); expected 1 to %d, and groups of "
                         "equal size of %" PRId64 " columns",
                         kernel, groups, POSITIONAL_MAX, width);
    const int64_t columns = width / groups;
    if (!checkpoint_pass_values_now(reader, &values,
                                    POSITIONAL "conv.weight_v|" POSITIONAL
                                               "conv.parametrizations.weight.original1",
                                    width * columns * kernel)
        || !checkpoint_pass_values_now(reader, &sound->positional_bias, POSITIONAL "conv.bias",
                                       width))
        return false;
    float *turned = turn_kernels(reader, values, width, columns, kernel);
    sound->positional = turned;
    return turned && scale_kernels(reader, turned, width, kernel, columns);
}

bool checkpoint_sound_build(struct model_stream *stream, struct checkpoint_pass_reader *reader)
{
    struct model_embedding *embedding = &stream->embedding;
    struct model_sound *sound = &embedding->sound;
    const cJSON *section = reader->run->section;
    struct convolutions of;
    bool is_normed;
    embedding->input = MODEL_INPUT_SOUND;
    if (!read_convolutions(reader, &of)
        || !checkpoint_read_activation(section, "feat_extract_activation=gelu", &sound->activation,
                                       reader->fault)
        || !checkpoint_read_flag(section, "feat_proj_layer_norm=true", &is_normed, reader->fault))
        return false;
    sound->layer_count = (int)of.count;
    for (int64_t i = 0; i < of.count; i++)
        if (!build_layer(sound, reader, &of, i))
            return false;
    const int64_t columns = of.columns[of.count - 1];
    return checkpoint_pass_norm(reader, &sound->norm,
                                is_normed ? "feature_projection.layer_norm" : NULL, columns)
           && checkpoint_pass_linear(reader, &sound->projection, "feature_projection.projection",
                                     stream->width, columns, false, true)
           && build_positional(sound, reader, stream->width)
           && checkpoint_pass_norm(reader, &embedding->norm, reader->pass.embedding_norm,
                                   stream->width);
}

/* ------------------------------------------------------- preprocessor_config.json -- */

/* What the file says; else the fault says why it is not taken. */
static bool read_file(struct model_speech *speech, const char *text, struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = false };
    struct json_document document;
    bool normalizes = true;
    double rate = 0;
    if (!json_read(&document, text, strlen(text), &options, fault))
        return false;
    const bool good = checkpoint_read_flag(document.root, "do_normalize=true", &normalizes, fault)
                      && checkpoint_read_number(document.root, "sampling_rate=16000", &rate, fault);
    json_free(&document);
    speech->is_raw = !normalizes;
    return good
           && ((rate >= MODEL_SOUND_RATE && rate <= MODEL_SOUND_RATE)
               || fault_set(fault, FAULT_OPTION,
                            "its sampling_rate is %g; sound has %d samples a second here", rate,
                            MODEL_SOUND_RATE));
}

bool checkpoint_speech_set(struct model *model, const char *text, const char *refused,
                           struct fault *fault)
{
    struct arena *arena = &model->storage->arena;
    struct fault why = { .code = FAULT_NONE };
    if (!model->forward || model->forward->streams[0].embedding.input != MODEL_INPUT_SOUND)
        return true;
    struct model_speech *speech = arena_calloc(arena, 1, sizeof *speech);
    if (!speech)
        return fault_no_memory(fault);
    model->speech = speech;
    if (!refused && text && !read_file(speech, text, &why))
        refused = why.message;
    speech->reason = refused ? arena_strdup(arena, refused) : NULL;
    return !refused || speech->reason || fault_no_memory(fault);
}
