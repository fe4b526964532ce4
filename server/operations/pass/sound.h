/* SPDX-License-Identifier: Apache-2.0 */
/* sound.h - the features that Whisper takes of sound: its log-mel spectrogram.
 *
 * Source: Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision",
 * section 2.2; whisper/audio.py of openai/whisper, log_mel_spectrogram(), whose filters are
 * librosa's (Slaney 1998, "Auditory Toolbox"). Samples are padded with zeros to the length of the
 * model; frame t is the power spectrum of 400 samples around sample 160 * t under a Hann window;
 * both ends are reflected. The filters sum it up; log10 of that, at least 1e-10 and within 8 of the
 * largest; (x + 4) / 4. */
#ifndef ATTND_SOUND_H
#define ATTND_SOUND_H

#include "base/arena.h"
#include "base/fault.h"
#include "linear.h"

enum { SOUND_RATE = 16000, SOUND_HOP = 160, SOUND_WINDOW = 400 };

/* Writes features [feature_count][feature_length] of count samples at SOUND_RATE, at most
 * feature_length * SOUND_HOP. feature_length * SOUND_HOP is above SOUND_WINDOW / 2. Memory that is
 * needed meanwhile comes from the arena. The fault is memory. */
bool sound_features(float *features, int64_t feature_count, int64_t feature_length,
                    const float *samples, int64_t count, const struct attn_kernels *kernels,
                    struct arena *arena, struct fault *fault);

#endif
