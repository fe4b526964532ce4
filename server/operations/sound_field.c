/* SPDX-License-Identifier: Apache-2.0 */
/* sound_field.c - the field "sound" of a trace: samples, or a WAV file of them in base64. */
#include "base/base64.h"
#include "formats/wav.h"
#include "operations/pass/sound.h"
#include "operations/trace.h"

#include <inttypes.h>
#include <stddef.h>

static bool read_samples(struct byte_slice file, struct array *sound, struct field_reader *reader)
{
    struct wav wav;
    struct fault fault;
    if (!wav_read(&wav, file.data, file.size, &fault))
        return fault_set_at(reader->fault, reader->pointer, fault.code, "sound: %s", fault.message);
    if (wav.rate != SOUND_RATE)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "sound has %" PRIu32 " samples a second; expected %d: resample it, for "
                            "instance by sox IN.wav -r %d OUT.wav",
                            wav.rate, SOUND_RATE, SOUND_RATE);
    float *samples = arena_calloc(reader->arena, (size_t)wav.length + 1, sizeof *samples);
    if (!samples)
        return fault_no_memory(reader->fault);
    wav_samples(&wav, 0, wav.length, samples);
    *sound =
        (struct array){ .data = samples, .dtype = ATTN_F32, .rank = 1, .shape = { wav.length } };
    return true;
}

static bool read_file(struct field_reader *reader, const struct value *value, struct array *sound)
{
    struct byte_slice text;
    if (!field_read_bytes(reader, value, &text))
        return false;
    unsigned char *bytes = arena_alloc(reader->arena, text.size / 4 * 3 + 1);
    if (!bytes)
        return fault_no_memory(reader->fault);
    const int64_t size = base64_decode(text.data, text.size, bytes);
    if (size < 0)
        return fault_set_at(reader->fault, reader->pointer, FAULT_BINARY,
                            "sound is no base64; expected a WAV file in base64, with its padding "
                            "and without line breaks");
    return read_samples((struct byte_slice){ bytes, (size_t)size }, sound, reader);
}

bool sound_field_read(struct field_reader *reader, const struct value *value, void *into)
{
    static const struct field SAMPLES = { .name = "sound",
                                          .kind = FIELD_ARRAY,
                                          .flags = FIELD_TENSOR,
                                          .offset = offsetof(struct trace_item, sound) };
    struct trace_item *item = into;
    if (value->kind == VALUE_STRING)
        return read_file(reader, value, &item->sound);
    if (value->kind != VALUE_NUMBERS && value->kind != VALUE_TENSOR && value->kind != VALUE_LIST)
        return field_wrong_type(reader, value, "samples, or a WAV file in base64");
    reader->field = &SAMPLES;
    return field_read_array(reader, value, item);
}
