/* SPDX-License-Identifier: Apache-2.0 */
/* model_sound.c - see model_sound.h. */
#include "models/model/model_sound.h"

int64_t model_sound_rows(const struct model_sound *sound, int64_t samples)
{
    int64_t rows = samples;
    for (int i = 0; i < sound->layer_count; i++) {
        const struct model_sound_layer *layer = &sound->layers[i];
        rows = rows < layer->kernel ? 0 : (rows - layer->kernel) / layer->stride + 1;
    }
    return rows;
}

int64_t model_sound_least(const struct model_sound *sound)
{
    int64_t samples = 1;
    for (int i = sound->layer_count - 1; i >= 0; i--)
        samples = (samples - 1) * sound->layers[i].stride + sound->layers[i].kernel;
    return samples;
}
