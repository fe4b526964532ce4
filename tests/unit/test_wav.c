/* SPDX-License-Identifier: Apache-2.0 */
/* test_wav.c - WAV files that sox 14.4.2 wrote, against the samples that it prints of them; and
 * files that break a rule. Every file ends at an unreadable page. */
#include "formats/wav.h"
#include "guard.h"
#include "tensor_file.h"
#include "test.h"

#include <math.h>
#include <string.h>

#define CORPUS "tests/fuzz/corpus/wav/"

/* The means of both channels that sox prints of the file of doubles. */
static const double MEANS[] = {
    0.0436063525115, 0.36209452920,    0.584492181425,    0.55098268624,   0.35131192504335,
    0.095942759900,  -0.04060084626,   -0.01919880066,    0.13307547657,   0.258903416092,
    0.2467939988200, 0.0315078873500,  -0.29747725022265, -0.596594708305, -0.70497879069,
    -0.56499760406,  -0.2441800236724, 0.113334644900,    0.3251041732735, 0.362791908205,
};
enum { LENGTH = sizeof MEANS / sizeof *MEANS };

static bool read_guarded(struct wav *wav, const void *bytes, size_t size, float *samples,
                         struct fault *fault)
{
    struct guard_buffer guard = guard_alloc(size);
    memcpy(guard.data, bytes, size);
    const bool good = wav_read(wav, guard.data, size, fault);
    if (good && wav->length <= LENGTH)
        wav_samples(wav, 0, wav->length, samples);
    guard_free(&guard);
    return good;
}

/* Of each width, within one step of it. */
TEST(written_by_sox)
{
    static const struct {
        const char *name;
        double step;
    } FILES[] = { { "u8", 1.0 / 128 },      { "s16", 1.0 / 32768 },      { "piped", 1.0 / 32768 },
                  { "s24", 1.0 / 8388608 }, { "s32", 1.0 / 2147483648 }, { "f32", 1e-9 },
                  { "f64", 1e-9 } };
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        char path[100];
        size_t size;
        float samples[LENGTH];
        struct wav wav;
        struct fault fault = { .message = "" };
        snprintf(path, sizeof path, CORPUS "%s", FILES[i].name);
        unsigned char *bytes = tensor_read_bytes(path, &size);
        if (!read_guarded(&wav, bytes, size, samples, &fault))
            fail_msg("%s: %s", FILES[i].name, fault.message);
        assert_int_equal(wav.length, LENGTH);
        assert_int_equal(wav.channels, 2);
        assert_int_equal(wav.rate, 8000);
        for (int k = 0; k < LENGTH; k++)
            if (!(fabs((double)samples[k] - MEANS[k]) <= FILES[i].step + 6e-8))
                fail_msg("%s: sample %d is %.9g; sox has %.9g", FILES[i].name, k,
                         (double)samples[k], MEANS[k]);
        free(bytes);
    }
}

#define RIFF         "RIFF\xff\xff\0\0WAVE"
#define FMT(format)  "fmt \x10\0\0\0" format
#define MONO         FMT("\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0")
#define DATA         "data\4\0\0\0\1\0\2\0"
#define BYTES(bytes) bytes, sizeof bytes - 1

TEST(refused)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } CASES[] = {
        { BYTES(""), "does not begin with 'RIFF'" },
        { BYTES("RIFF\0\0\0\0WAV"), "does not begin with 'RIFF'" },
        { BYTES("RIFX\0\0\0\0WAVE" MONO DATA), "does not begin with 'RIFF'" },
        { BYTES(RIFF), "no chunk 'data'" },
        { BYTES(RIFF MONO), "no chunk 'data'" },
        { BYTES(RIFF MONO "data\4\0\0"), "no chunk 'data'" },
        { BYTES(RIFF DATA MONO), "before 'fmt '" },
        { BYTES(RIFF MONO "data\5\0\0\0\1\0\2\0"), "5 bytes of samples, of which 4 follow" },
        { BYTES(RIFF "LIST\5\0\0\0abcd"), "5 bytes, of which 4 follow" },
        { BYTES(RIFF "fmt \4\0\0\0\1\0\1\0" DATA), "'fmt ' of the WAV file has 4 bytes" },
        { BYTES(RIFF FMT("\6\0\1\0\x80\x3e\0\0\0\x7d\0\0\1\0\x08\0") DATA), "format 6 and 8 bits" },
        { BYTES(RIFF FMT("\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\1\0\x0c\0") DATA), "and 12 bits" },
        { BYTES(RIFF FMT("\3\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0") DATA), "format 3 and 16" },
        { BYTES(RIFF FMT("\1\0\0\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0") DATA), "0 channels" },
        { BYTES(RIFF FMT("\1\0\x41\0\x80\x3e\0\0\0\x7d\0\0\x82\0\x10\0") DATA), "65 channels" },
        { BYTES(RIFF FMT("\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\4\0\x10\0") DATA), "a block has 4 bytes" },
        { BYTES(RIFF FMT("\1\0\1\0\0\0\0\0\0\x7d\0\0\2\0\x10\0") DATA), "0 samples a second" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct wav wav;
        float samples[LENGTH];
        struct fault fault = { .message = "" };
        assert_false(read_guarded(&wav, CASES[i].bytes, CASES[i].size, samples, &fault));
        assert_int_equal(fault.code, FAULT_BINARY);
        if (!strstr(fault.message, CASES[i].message))
            fail_msg("case %zu: %s", i, fault.message);
    }
}

/* Other chunks are passed over, with the byte behind one of odd size; half a sample at the end is
 * left out; the extremes of 16 bits are -1 and just below 1. */
TEST(taken)
{
    static const char FILE[] = RIFF "LIST\3\0\0\0abc\0" MONO "fact\4\0\0\0\2\0\0\0"
                                    "data\5\0\0\0\0\x80\xff\x7f\7";
    struct wav wav;
    float samples[LENGTH];
    struct fault fault;
    assert_true(read_guarded(&wav, BYTES(FILE), samples, &fault));
    assert_int_equal(wav.length, 2);
    assert_true(samples[0] == -1 && samples[1] == 32767.0f / 32768);
}

ALL_TESTS(NULL, NULL);
