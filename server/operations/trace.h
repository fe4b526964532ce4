/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - traces as an operation: one, a batch, and one over a session. */
#ifndef ATTND_OPERATION_TRACE_H
#define ATTND_OPERATION_TRACE_H

#include "operations/operations.h"
#include "operations/plan/trace_job.h"

/* trace_fields.c: the fields of a trace; of its input, with and without the model; of a target; */
extern const struct field_table trace_fields, trace_input_fields, trace_other_fields,
    trace_target_fields;

/* and what reads the body, of the format of call->form, into the request's items. A fault of
 * an item of a batch is its own; false for a fault of the whole body. */
bool trace_fields_read(struct call *call, bool batch, struct fault *fault);

/* edit_fields.c: the fields of one edit; the row of a list of them, in a struct that has edits and
 * their count at these offsets. */
extern const struct field_table edit_fields;
#define EDITS_ROW(EDITS, COUNT)                                                                    \
    {                                                                                              \
        .name = "edits", .kind = FIELD_LIST, .flags = FIELD_BESIDE, .offset = (EDITS),             \
        .count = (COUNT), .inner = &edit_fields, .expected = "an edit, an object"                  \
    }

/* The time from now on for which a trace may be kept, as "5m"; false: it is none. */
bool trace_keep_time(const char *text, int64_t *keep_ns);

/* A list of strings that may have U+0000. */
bool trace_read_byte_slices(struct field_reader *reader, const struct value *value,
                            const struct byte_slice **into, int64_t *count);

/* sound_field.c: reads the field "sound" of a struct trace_item, samples or a WAV file of them. */
bool sound_field_read(struct field_reader *reader, const struct value *value, void *into);

/* contributions.c: the member "contributions"; nothing where none are asked for. */
void contributions_say(struct writer *writer, const struct trace_item *item);

/* alignment.c: the member "align", the same. */
void alignment_say(struct writer *writer, const struct trace_item *item);

#endif
