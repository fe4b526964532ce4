/* SPDX-License-Identifier: Apache-2.0 */
/* kept_trace.h - what stays of a trace that is kept: for each of its layers the query and key that
 * attention read, rotated, and lse. A piece of any of its maps can be computed from these without a
 * softmax (map_tile.h).
 *
 * A kept trace is filled while its pass runs, then published by kept_store.h; from then on nothing
 * in it changes but its statistics. References are counted. */
#ifndef ATTND_KEPT_TRACE_H
#define ATTND_KEPT_TRACE_H

#include "map_tile.h"
#include "operations/trace/trace.h"

#include <stdatomic.h>

/* A map of more pairs than KEPT_PAIRS_MAX has levels: the largest weight of each block of about
 * KEPT_BLOCK rows and keys, so that a piece of the map that is as large as all of it can be
 * answered at once. */
enum { KEPT_BLOCK = 16, KEPT_PAIRS_MAX = 1 << 22 };

/* What a trace counts beside its layers: it takes less, and so many bound how many are kept. */
enum { KEPT_OWN_BYTES = 4096 };

/* Rows of one place of a pass, as they left its edits (edit.h): of head those of all heads. */
struct kept_states {
    float *rows; /* [count][width]; NULL: not kept */
    int64_t count, width;
};

struct kept_layer {
    int64_t number;   /* as in GET /v1/models/{model} */
    const char *kind; /* the model's */
    bool is_cross;
    int key_stream; /* of the tokens that are its keys */
    int64_t q_heads, kv_heads, head_dim, q_len, kv_len;
    struct attn_options options;
    const struct attn_kernels *kernels;
    const float *alibi_slopes; /* [q_heads], the model's; NULL: none */
    bool has_sinks;            /* lse counts them, and a row's weights sum up to less than 1 */

    float *query; /* [q_len][q_heads][head_dim] */
    float *key;   /* [kv_len][kv_heads][head_dim] */
    float *lse;   /* [q_heads][q_len] */
    float *mask;  /* [q_heads][q_len][kv_len], of a relative position bias or of what edits hide;
                     NULL: none */
    const float **given;  /* [q_heads][q_len], rows with given weights (given.h), */
    float *given_weights; /* which lie here; NULL: none */
    struct kept_states states[EDIT_PLACE_COUNT]; /* but those of embeddings */
    const uint8_t *keys_seen; /* [kv_len]: 0 is hidden from all rows; NULL: all are seen */
    float *levels;            /* [q_heads][level_rows][level_columns]; NULL: none */
    int64_t level_rows, level_columns;
};

/* Means over the rows of one head. NAN: has no meaning, as "previous" of cross attention. */
struct kept_head {
    float entropy; /* of the row's weights, in nats */
    float distance, first, previous, self, delimiters, duplicate, induction;
};

struct kept_trace {
    _Atomic int holders;
    char id[TRACE_ID_MAX + 1];
    struct access_account *account; /* of the key that made it, held; NULL: no keys are in use */
    struct model *model;            /* retained */
    struct arena arena;
    struct kept_layer *layers; /* [layer_count] */
    int64_t layer_count;
    struct token_list tokens[MODEL_STREAMS_MAX]; /* of each stream; texts are the tokenizer's */
    const uint8_t *visible; /* of stream 0: a copy of what the trace was asked for; NULL: all are */
    bool has_pair;
    bool has_states;
    struct kept_states embeddings[MODEL_STREAMS_MAX];
    int64_t lengths[MODEL_STREAMS_MAX]; /* rows of the streams */
    size_t bytes;                       /* that count against the budget */
    _Atomic int64_t expires_ns;         /* clock_now_ns(); the store may renew it */
    int64_t place;  /* among those that are kept, by their ends; -1: it is not among them */
    int64_t number; /* in the list of those that are kept */

    _Atomic(struct kept_head *) statistics; /* of each head of each layer, one layer after the
                                               other; malloc'd; NULL: not asked for yet */
};

/* What a trace takes: a block that is made at once, for all that is in its arena and no more, and
 * what is beside it. */
struct kept_size {
    size_t block, beside;
};

/* What a trace of so many layers takes whatever they have: a trace without tokens is not free. */
struct kept_size kept_trace_size(int64_t layer_count);

/* Adds what a layer of a pass takes when it is kept; false on overflow. */
struct kept_shape {
    int64_t q_heads, kv_heads, head_dim, q_len, kv_len;
    bool has_mask;
    int64_t given_rows;                     /* rows with given weights, at most */
    int64_t state_widths[EDIT_PLACE_COUNT]; /* of places whose rows are kept; else 0 */
};
bool kept_layer_count(struct kept_size *size, const struct kept_shape *shape);

/* Makes an empty kept trace of this size with one reference: room for layer_count layers. NULL: no
 * memory. */
struct kept_trace *kept_trace_create(struct model *model, int64_t layer_count,
                                     const struct kept_size *size);

/* Makes room for what layer number index has. False: no memory. */
bool kept_layer_make(struct kept_trace *kept, int64_t index, const struct kept_shape *shape);

/* Copies query, key, lse and mask from attention that has been computed and whose scratch still
 * holds them. lse: [q_heads][q_len]. */
void kept_layer_take(struct kept_layer *layer, const struct infer_item *attention,
                     const float *lse);

/* The kept rows of a place; layer: of any but the embeddings of the stream. NULL: they are not
 * kept.
 */
const struct kept_states *kept_trace_states(const struct kept_trace *kept, int place, int stream,
                                            int64_t layer);

/* Makes room for the first rows of a stream. False: no memory. */
bool kept_trace_make_embeddings(struct kept_trace *kept, int stream, int64_t count, int64_t width);

/* Copies the tokens of a stream. False: no memory. */
bool kept_trace_take_tokens(struct kept_trace *kept, int stream, const struct token_list *tokens);

struct kept_trace *kept_trace_hold(struct kept_trace *kept);
void kept_trace_release(struct kept_trace *kept); /* NULL is fine */

/* The piece of the map of one head, of a layer that has any, with these rows and keys, [first, end)
 * each, as map_tile.h takes it, in so many cells, each the largest of its weights. */
struct attn_map_tile kept_layer_tile(const struct kept_layer *layer, int64_t head,
                                     const int64_t rows[2], const int64_t keys[2],
                                     const int64_t cells_shape[2], float *cells);

/* Tasks that make the levels of all layers; each needs kept_level_workspace_bytes(). */
int64_t kept_level_tasks(const struct kept_trace *kept);
size_t kept_level_workspace_bytes(const struct kept_trace *kept);
void kept_level_run(const struct kept_trace *kept, int64_t task, void *workspace);

#endif
