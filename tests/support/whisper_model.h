/* SPDX-License-Identifier: Apache-2.0 */
/* whisper_model.h - a small Whisper of random parameters for tests of sound: 2 blocks of 2 heads in
 * encoder and decoder, 12 columns, a vocabulary of 40. It takes 8 features of 40 frames, which are
 * 6400 samples and become 20 rows. */
#ifndef WHISPER_MODEL_H
#define WHISPER_MODEL_H

enum {
    WHISPER_LAYERS = 2,
    WHISPER_HEADS = 2,
    WHISPER_FEATURES = 8,
    WHISPER_FRAMES = 40,
    WHISPER_ROWS = WHISPER_FRAMES / 2,
    WHISPER_SAMPLES = WHISPER_FRAMES * 160
};

/* Writes it as "whisper" into a directory of models. */
void whisper_model_save(const char *directory);

#endif
