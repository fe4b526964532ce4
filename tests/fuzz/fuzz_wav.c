/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wav.c - any bytes as a WAV file. They end in a fault with a message, or in samples, all of
 * which are read where the file has them. */
#include "formats/wav.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wav wav;
    struct fault fault = { .code = FAULT_NONE };
    if (!wav_read(&wav, data, size, &fault)) {
        require(fault.code == FAULT_BINARY && fault.message[0] != '\0');
        return 0;
    }
    require(wav.rate > 0 && wav.channels >= 1 && wav.channels <= WAV_CHANNELS_MAX);
    require(wav.length >= 0 && (size_t)wav.length * (size_t)wav.channels <= size);
    float *samples = malloc(((size_t)wav.length + 1) * sizeof *samples);
    require(samples);
    wav_samples(&wav, 0, wav.length, samples);
    if (wav.length > 0) { /* a part has the bits of the whole */
        float last;
        wav_samples(&wav, wav.length - 1, 1, &last);
        require(last == samples[wav.length - 1]
                || (last != last && samples[wav.length - 1] != samples[wav.length - 1]));
    }
    free(samples);
    return 0;
}
