/* SPDX-License-Identifier: Apache-2.0 */
/* model_sound.h - how samples of sound become rows in wav2vec 2.0 and its kin, as plain data
 * (Baevski et al. 2020, section 2):
 *
 *     x = samples                                              [n][1]
 *     for each layer: x = activation(norm(convolution(x)))     every stride-th window of kernel
 * rows rows = projection(norm(x)) rows = norm(rows + activation(positional convolution(rows)))
 *
 * The matrix of a convolution has a window's rows one after the other: number k * columns + c of a
 * row is column c at place k. So windows are rows that overlap where they lie. */
#ifndef ATTND_MODEL_SOUND_H
#define ATTND_MODEL_SOUND_H

#include "linear.h"
#include "rows.h"

enum { MODEL_SOUND_LAYERS_MAX = 16, MODEL_SOUND_RATE = 16000 };

struct model_sound_layer {
    struct attn_linear linear; /* F32, in = kernel * columns of what it reads */
    int64_t kernel, stride;
    struct attn_norm norm; /* of a row; weight NULL: none */
};

struct model_sound {
    struct model_sound_layer layers[MODEL_SOUND_LAYERS_MAX];
    int layer_count; /* 0: the model takes no samples */
    enum attn_activation activation;

    /* With these each column of the first layer is normed alone, over all windows: a group norm of
     * as many groups as columns. */
    const float *column_scales, *column_biases; /* NULL: it is not */

    struct attn_norm norm; /* before the projection; weight NULL: none */
    struct attn_linear projection;

    /* The positional convolution: group g of the columns of a row becomes the same columns of
     * another, by out = in / kernel columns. Row t reads rows from t - kernel / 2 on, and zeros
     * outside of them. */
    const float *positional; /* [groups][width / groups][kernel][width / groups] */
    const float *positional_bias;
    int64_t positional_kernel, groups;
};

/* Rows that so many samples become; 0: they are fewer than model_sound_least(). */
int64_t model_sound_rows(const struct model_sound *sound, int64_t samples);
int64_t model_sound_least(const struct model_sound *sound);

/* How sound becomes the samples that a model takes, by its preprocessor_config.json. */
struct model_speech {
    bool is_raw; /* as it is; else so that the mean of its samples is 0 and their variance 1 */
    const char *reason; /* why that file was refused; then the model takes no sound; NULL: it was
                           not */
};

#endif
