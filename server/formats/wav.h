/* SPDX-License-Identifier: Apache-2.0 */
/* wav.h - the samples of a WAV file: a bounded reader over bytes.
 *
 * Source: IBM and Microsoft, "Multimedia Programming Interface and Data Specifications 1.0", RIFF
 * and WAVE; Microsoft, WAVEFORMATEXTENSIBLE. Taken is uncompressed sound: integers of 8, 16, 24 or
 * 32 bits, floats of 32 or 64. Chunks beside fmt and data are passed over. A file that was written
 * into a pipe says 0 or 0xFFFFFFFF as the size of its data, which then goes to its end. */
#ifndef ATTND_WAV_H
#define ATTND_WAV_H

#include "base/fault.h"

enum { WAV_CHANNELS_MAX = 64 };

struct wav {
    int64_t length; /* samples of each channel */
    int channels;   /* 1 to WAV_CHANNELS_MAX */
    uint32_t rate;  /* samples a second, above 0 */

    /* Private. */
    const unsigned char *data; /* in the bytes given */
    int sample_bytes;
    bool is_float;
};

/* Reads the head of a file of size bytes, which must outlive wav. The fault is binary. */
bool wav_read(struct wav *wav, const void *bytes, size_t size, struct fault *fault);

/* Samples [first, first + count) as floats, the mean of all channels; full scale of integers is 1.
 * What is not finite in a file of floats stays so. */
void wav_samples(const struct wav *wav, int64_t first, int64_t count, float *samples);

#endif
