/* SPDX-License-Identifier: Apache-2.0 */
/* mark.h - places at which a pass can be taken up again by another one.
 *
 * While a pass runs, its marks take the rows there as they are before edits of that place; a pass
 * that starts at the mark, with the same inputs, has the same bits from there on. The rows may also
 * be put in another pass, as those of a kept trace may. */
#ifndef ATTND_MARK_H
#define ATTND_MARK_H

#include "operations/trace/edit.h"

struct pass_mark {
    enum edit_place place; /* any but embeddings */
    int stream;
    int64_t layer;
    int64_t columns; /* of values */
    float *rows;     /* [stream's rows][width], the residual stream; NULL: not kept */
    float *values;   /* [stream's rows][columns], the place's own: contexts of all heads, or what a
                        part computed; NULL: not kept, or the place is the residual stream */
};

struct pass_marks {
    struct pass_mark *list; /* [count] */
    int64_t count;
    float *encoded; /* [rows][width] that left the encoder, for marks in its decoder; else NULL */
};

/* The mark at a place; NULL: none. */
static inline const struct pass_mark *mark_find(const struct pass_marks *marks,
                                                enum edit_place place, int stream, int64_t layer)
{
    for (int64_t i = 0; marks && i < marks->count; i++)
        if (marks->list[i].place == place && marks->list[i].stream == stream
            && marks->list[i].layer == layer)
            return &marks->list[i];
    return NULL;
}

/* The rows at the place of the mark. */
static inline const float *mark_values(const struct pass_mark *mark)
{
    return mark->place == EDIT_HIDDEN_STATES ? mark->rows : mark->values;
}

#endif
