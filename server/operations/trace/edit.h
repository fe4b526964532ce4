/* SPDX-License-Identifier: Apache-2.0 */
/* edit.h - edits of a pass, as plain data: what a client asks to be changed on the way, and what
 * that means for the model.
 *
 * An edit is at a place of the pass, of some layers and rows, and at `head` of some heads:
 *
 *     embeddings        [rows][width], what enters the first block
 *     hidden_states     [rows][width], the residual stream as it enters a layer's block
 *     head              [rows][heads][v_head_dim], the context before the output projection
 *     attention_output  [rows][width], behind the output projection
 *     feed_forward      [rows][width], behind the last product
 *
 * Places come in the order of the pass. At one place edits go in the order of the request; at head
 * first those that hide keys, then the softmax, then those that replace weights, then the rest. */
#ifndef ATTND_EDIT_H
#define ATTND_EDIT_H

#include "base/array.h"
#include "base/bytes.h"
#include "weight_map.h"

enum { TRACE_EDITS_MAX = 1024 };

#define EDIT_PLACE_MAP(X)                                                                          \
    X(HEAD, head)                                                                                  \
    X(ATTENTION_OUTPUT, attention_output)                                                          \
    X(FEED_FORWARD, feed_forward)                                                                  \
    X(HIDDEN_STATES, hidden_states)                                                                \
    X(EMBEDDINGS, embeddings)

enum edit_place {
#define X(NAME, name) EDIT_##NAME,
    EDIT_PLACE_MAP(X)
#undef X
        EDIT_PLACE_COUNT
};

/* What an edit does; exactly one. hide_texts is hide by another name. */
#define EDIT_ACTION_MAP(X)                                                                         \
    X(HIDE, hide)       /* keys get -INFINITY before the softmax */                                \
    X(WEIGHTS, weights) /* in place of the softmax's */                                            \
    X(SCALE, scale)     /* rows times a number */                                                  \
    X(ADD, add)         /* a vector, times `times`, to each row */                                 \
    X(SET, set)         /* a row in place of each row */                                           \
    X(MEAN, mean)       /* the mean of all rows of the pass in place of each row */                \
    X(FROM, from)       /* rows of a kept trace in place of the rows */

enum edit_action {
#define X(NAME, name) EDIT_##NAME,
    EDIT_ACTION_MAP(X)
#undef X
        EDIT_ACTION_COUNT
};

/* Weights that replace a row's. */
enum edit_pattern { EDIT_UNIFORM, EDIT_FIRST, EDIT_SELF, EDIT_PREVIOUS, EDIT_MATRIX };

/* Integers and ranges [begin, end) of them, as asked; not has: all. */
struct edit_list {
    bool has;
    struct edit_range {
        int64_t begin, end;
        bool is_number; /* begin alone */
    } * ranges;
    int64_t count;
};

struct kept_trace;
struct pass_marks;

struct trace_edit {
    /* As asked. An absent field is NULL, 0, or its has is false. */
    const char *kind;
    struct edit_list layers, heads, rows;
    int at; /* enum edit_place */
    struct edit_list hide;
    const struct byte_slice *hide_texts;
    int64_t hide_text_count;
    bool has_weights, has_scale, has_times, has_from, has_from_layer, mean;
    int pattern; /* of weights: enum edit_pattern */
    struct array matrix, add, set;
    double scale, times;
    const char *from_trace;
    int64_t from_layer;
    struct edit_list from_rows;

    /* As planned. */
    enum edit_action action;
    int stream;
    bool is_cross, is_beside; /* as in struct trace_place */
    const bool *in_layer;     /* [layer count of the model]; NULL at embeddings */
    const int64_t *head_list; /* [head_count], ascending, each once; NULL: all */
    int64_t head_count;
    const int64_t *row_list; /* [row_count], ascending, each once */
    int64_t row_count;
    bool hides_apart; /* each range that was asked for stays one of hidden, in its place */
    const struct attn_map_range *hidden; /* [hidden_count], of keys */
    int64_t hidden_count;
    int64_t width;       /* of a row at the place; at head, of one head */
    const float *values; /* of add [width], set [row_count][width], matrix [row_count][keys] */
    struct kept_trace *source;      /* of from, held; NULL: none */
    const struct pass_marks *marks; /* of from, in place of source */
    const int64_t *source_rows;     /* [row_count] */
    int64_t source_layer;           /* -1: the layer at hand */
};

/* Whether the edit is at this place of this layer; layer -1: of the embeddings of a stream. */
bool edit_is_at(const struct trace_edit *edit, enum edit_place place, int stream, int64_t layer);

extern const char *const edit_place_names[EDIT_PLACE_COUNT];

/* Releases what the edits hold. */
void edits_release(struct trace_edit *edits, int64_t count);

#endif
