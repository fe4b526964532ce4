/* SPDX-License-Identifier: Apache-2.0 */
/* wav.c - see wav.h. */
#include "formats/wav.h"

#include <inttypes.h>
#include <string.h>

enum {
    RIFF_BYTES = 12, /* "RIFF", a size, "WAVE" */
    CHUNK_BYTES = 8, /* a name and a size */
    FORMAT_BYTES_MIN = 16,
    EXTENSIBLE_BYTES_MIN = 40,
    SUBFORMAT_AT = 24, /* in the chunk of an extensible format */
    PCM = 1,
    IEEE_FLOAT = 3,
    EXTENSIBLE = 0xFFFE
};

static unsigned read_16(const unsigned char *bytes)
{
    return bytes[0] | (unsigned)bytes[1] << 8;
}

static uint32_t read_32(const unsigned char *bytes)
{
    return read_16(bytes) | (uint32_t)read_16(bytes + 2) << 16;
}

static bool is_taken(unsigned format, unsigned bits)
{
    return (format == PCM && (bits == 8 || bits == 16 || bits == 24 || bits == 32))
           || (format == IEEE_FLOAT && (bits == 32 || bits == 64));
}

static bool read_format(struct wav *wav, const unsigned char *chunk, size_t size,
                        struct fault *fault)
{
    if (size < FORMAT_BYTES_MIN)
        return fault_set(fault, FAULT_BINARY,
                         "the chunk 'fmt ' of the WAV file has %zu bytes; expected 16 or more",
                         size);
    unsigned format = read_16(chunk);
    const unsigned channels = read_16(chunk + 2), bits = read_16(chunk + 14);
    if (format == EXTENSIBLE && size >= EXTENSIBLE_BYTES_MIN)
        format = read_16(chunk + SUBFORMAT_AT);
    if (!is_taken(format, bits))
        return fault_set(fault, FAULT_BINARY,
                         "the WAV file has samples of format %u and %u bits; expected PCM (1) of "
                         "8, 16, 24 or 32 bits, or floats (3) of 32 or 64",
                         format, bits);
    if (channels < 1 || channels > WAV_CHANNELS_MAX)
        return fault_set(fault, FAULT_BINARY, "the WAV file has %u channels; expected 1 to %d",
                         channels, WAV_CHANNELS_MAX);
    if (read_16(chunk + 12) != channels * (bits / 8))
        return fault_set(fault, FAULT_BINARY,
                         "the WAV file says that a block has %u bytes; %u channels of %u bits "
                         "have %u",
                         read_16(chunk + 12), channels, bits, channels * (bits / 8));
    if (read_32(chunk + 4) == 0)
        return fault_set(fault, FAULT_BINARY, "the WAV file has 0 samples a second");
    wav->channels = (int)channels;
    wav->rate = read_32(chunk + 4);
    wav->sample_bytes = (int)(bits / 8);
    wav->is_float = format == IEEE_FLOAT;
    return true;
}

static bool take_data(struct wav *wav, const unsigned char *data, size_t said, size_t left,
                      struct fault *fault)
{
    if (wav->channels == 0)
        return fault_set(fault, FAULT_BINARY,
                         "the WAV file has its chunk 'data' before 'fmt '; expected 'fmt ' first");
    if (said == 0 || said == UINT32_MAX)
        said = left;
    if (said > left)
        return fault_set(fault, FAULT_BINARY,
                         "the WAV file has %zu bytes of samples, of which %zu follow: it is cut",
                         said, left);
    wav->data = data;
    wav->length = (int64_t)(said / (size_t)(wav->channels * wav->sample_bytes));
    return true;
}

bool wav_read(struct wav *wav, const void *bytes, size_t size, struct fault *fault)
{
    const unsigned char *at = bytes, *end = at + size;
    *wav = (struct wav){ 0 };
    if (size < RIFF_BYTES || memcmp(at, "RIFF", 4) != 0 || memcmp(at + 8, "WAVE", 4) != 0)
        return fault_set(fault, FAULT_BINARY,
                         "this is no WAV file: it does not begin with 'RIFF', a size and 'WAVE'");
    at += RIFF_BYTES;
    while ((size_t)(end - at) >= CHUNK_BYTES) {
        const unsigned char *chunk = at + CHUNK_BYTES;
        const size_t said = read_32(at + 4), left = (size_t)(end - chunk);
        if (memcmp(at, "data", 4) == 0)
            return take_data(wav, chunk, said, left, fault);
        if (said > left)
            return fault_set(fault, FAULT_BINARY,
                             "a chunk of the WAV file has %zu bytes, of which %zu follow: it is "
                             "cut",
                             said, left);
        if (memcmp(at, "fmt ", 4) == 0 && !read_format(wav, chunk, said, fault))
            return false;
        at = chunk + said + (said % 2 == 1 && said < left);
    }
    return fault_set(fault, FAULT_BINARY, "the WAV file has no chunk 'data'");
}

/* One sample. Integers of 8 bits have no sign; the others have. */
static double sample_at(const struct wav *wav, const unsigned char *at)
{
    union {
        uint32_t bits;
        float value;
    } single;
    union {
        uint64_t bits;
        double value;
    } both;
    if (wav->is_float && wav->sample_bytes == 4) {
        single.bits = read_32(at);
        return (double)single.value;
    }
    if (wav->is_float) {
        both.bits = read_32(at) | (uint64_t)read_32(at + 4) << 32;
        return both.value;
    }
    switch (wav->sample_bytes) {
    case 1:
        return (*at - 128) / 128.0;
    case 2:
        return (int16_t)read_16(at) / 32768.0;
    case 3:
        return (int32_t)(read_16(at) << 8 | (uint32_t)at[2] << 24) / 2147483648.0;
    default:
        return (int32_t)read_32(at) / 2147483648.0;
    }
}

void wav_samples(const struct wav *wav, int64_t first, int64_t count, float *samples)
{
    const int64_t frame = (int64_t)wav->channels * wav->sample_bytes;
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *at = wav->data + (first + i) * frame;
        double sum = 0;
        for (int channel = 0; channel < wav->channels; channel++)
            sum += sample_at(wav, at + (int64_t)channel * wav->sample_bytes);
        samples[i] = (float)(sum / wav->channels);
    }
}
