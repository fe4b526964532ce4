/* SPDX-License-Identifier: Apache-2.0 */
/* trace_plan.h - from what a client asks of a trace to a plan of its passes.
 *
 * Resolves models, turns text into tokens (trace_inputs.c), chooses the layers and
 * makes room for the answer (trace_results.c), and counts the work of each pass. */
#ifndef ATTND_TRACE_PLAN_H
#define ATTND_TRACE_PLAN_H

#include "operations/pass/pass.h"
#include "operations/trace/kept_store.h"

/* Items that go through their model together. */
struct trace_groups {
    struct pass_group *groups;
    int64_t count;
    size_t pass_bytes; /* that the pass takes that needs most */
    int64_t planned;   /* steps of all passes, for each of their items */
    int64_t steps;     /* of all passes */
    int64_t layers;    /* of attention, of all passes */
    struct attn_work work;
};

/* False only for a fault of the request as a whole; an item of a batch that fails has its own. */
bool trace_plan(struct trace_request *request, struct trace_groups *groups,
                const struct infer_limits *limits, struct fault *fault);

/* The parts of it, for one item whose model is resolved. */

/* Sets the streams' lengths and tokens. The fault's pointer is that of a field: "/tokens/3". A text
 * that an earlier item of the request has too, because both have it from the batch, becomes tokens
 * once. */
bool trace_plan_inputs(struct trace_request *request, struct trace_item *item, struct fault *fault);

/* Inputs that are arrays (trace_arrays.c): the rows that a stream has of them. Another shape than
 * the model takes is a fault. Samples are as trace_take_sound() left them. */
bool trace_take_pixels(struct trace_item *item, int stream, struct arena *arena,
                       struct fault *fault);
bool trace_take_features(struct trace_item *item, int stream, struct arena *arena,
                         struct fault *fault);
bool trace_take_samples(struct trace_item *item, int stream, struct fault *fault);
bool trace_take_embeddings(struct trace_item *item, int stream, struct arena *arena,
                           struct fault *fault);

/* Makes the features of sound, where it came, of the stream that takes features (trace_sound.c).
 * What items have from their batch is made once. */
bool trace_take_sound(const struct trace_request *request, struct trace_item *item,
                      const struct attn_kernels *kernels, struct fault *fault);

/* Cuts the item's tokens to its tokens_max (trace_cut.c). */
bool trace_cut(const struct trace_item *item, struct token_list *list, struct arena *arena,
               struct fault *fault);

/* The tokens of a probe, of ids below id_end (trace_probe.c). */
bool trace_take_probe(const struct trace_item *item, int64_t id_end, struct arena *arena,
                      struct token_list *list, struct fault *fault);

/* Resolves the edits for the model. The inputs are planned. */
bool trace_plan_edits(struct trace_request *request, struct trace_item *item, struct fault *fault);

/* The kind of an edit that says none: that of the layers of the pass with the place, where all are
 * of one. What enters the first block is of all layers of its stream. NULL: there are several. */
const char *trace_edit_kind(const struct model *model, enum edit_place at);

/* The tokens of a stream with a byte of a part of its text; of_decoder: of decoder_text. False:
 * *reason says why there are none. */
bool trace_find_text(const struct trace_item *item, int stream, bool of_decoder,
                     struct byte_slice part, struct attn_map_range *range, const char **reason);

/* Whether so many parts may be looked for in the texts and tokens: the time for that must not be as
 * long as a client likes, whose batch may share the parts among many requests. */
bool trace_may_search(struct trace_request *request, const struct trace_item *item, int stream,
                      int64_t count);

/* Finds the spans by their texts, and the rows that spans are asked of. The inputs are planned. */
bool trace_plan_spans(struct trace_request *request, struct trace_item *item, struct fault *fault);

/* What is read of the pass beside maps and rows (trace_reading.c), of the layers of the answer: the
 * rows of row_spans become those that spans are asked of; the weights of heads. */
bool trace_plan_row_spans(struct trace_item *item, struct arena *arena, struct fault *fault);
bool trace_plan_head_weights(struct trace_item *item, struct arena *arena, struct fault *fault);

/* The rows of the answer's spans, of a layer of the stream. */
int64_t trace_span_rows(const struct trace_item *item, const struct trace_stream *stream);

/* Where a layer is in the model; block NULL: the pass does not run it. */
struct trace_place {
    int stream;
    bool is_cross;
    bool is_beside; /* a recurrence beside the block's attention */
    const struct model_block *block;
};

/* Whether the block's rows, feed-forward and lens are the layer's: a block has one such layer. */
static inline bool trace_place_is_own(const struct trace_place *place)
{
    return !place->is_cross && !place->is_beside;
}

struct trace_place trace_place_of(const struct model_forward *forward, int64_t layer);

/* Each kind of the model's layers once, for a fault: "encoder, decoder, cross". */
void trace_list_kinds(const struct model *model, char *out, size_t out_size);

/* Lists the layers of the answer with the shapes of their tensors, and everything else that is
 * answered. No tensor has memory yet. */
bool trace_plan_results(struct trace_item *item, struct arena *arena, struct fault *fault);

/* The positions that are asked for, or those of the model; and the lenses of layers, once scores
 * are planned (trace_lens.c). */
bool trace_list_positions(const struct trace_item *item, int stream, int64_t **list, int64_t *count,
                          struct arena *arena, struct fault *fault);
int64_t trace_candidates(const struct trace_item *item);
bool trace_plan_lens(struct trace_item *item, struct arena *arena, struct fault *fault);

/* The vectors of embedding and the logits of classes (trace_readout.c), and whether there are any.
 */
bool trace_plan_readouts(struct trace_item *item, struct fault *fault);
bool trace_has_readout(const struct trace_item *item);

/* The heads that an alignment goes by, and room for it (trace_align.c). */
bool trace_plan_align(struct trace_item *item, struct arena *arena, struct fault *fault);

/* Room for contributions, once scores are planned (trace_contributions.c). */
bool trace_plan_contributions(struct trace_item *item, struct arena *arena, struct fault *fault);

/* The parts of that about the head over the vocabulary (trace_scores.c): whether the model has one,
 * of which the field asks something; and the scores of logprobs and targets. */
bool trace_expect_head(const struct trace_item *item, const char *pointer, struct fault *fault);

/* Whether a token has one row, which the head could be asked of at any block. */
bool trace_expect_one_row(const struct trace_item *item, struct fault *fault);
bool trace_plan_scores(struct trace_item *item, struct arena *arena, struct fault *fault);

/* The mask token of the model, or the token that its tokenizer writes so; -1: not known. */
int64_t trace_mask_id(const struct model *model);

/* Makes the item that goes without edits beside one that is compared to it. */
bool trace_plan_base(struct trace_item *item, struct arena *arena, struct fault *fault);

/* The id of a token of a request. pointer: of its field, for the fault. */
bool trace_plan_choice(const struct model *model, const struct trace_choice *choice,
                       const char *pointer, int64_t *id, struct fault *fault);

/* The most bytes that the item's part of the answer takes; SIZE_MAX on overflow. */
size_t trace_answer_bytes(const struct trace_item *item, size_t number_bytes);

/* The place of an item among those whose results are contiguous. An item whose results are apart is
 * number 0 of 1. */
struct trace_joint {
    const struct trace_item *first; /* has its memory already, unless it is the item itself */
    int64_t number, count;
};

/* Gives all tensors memory. */
bool trace_allocate_results(struct trace_item *item, const struct trace_joint *joint,
                            struct arena *arena, struct fault *fault);

/* The side of the largest square weight map, pooled, that lets the item's answer fit into so many
 * bytes; 0: none does. */
int64_t trace_pool_that_fits(const struct trace_item *item, size_t number_bytes, size_t bytes_max);

/* The part of a trace's call that keeps the trace ("keep"; trace_keep.c): room is made and counted
 * before anything is computed, the pass fills it (pass_attend.c), and when all is computed the
 * trace gets its id. */

/* Makes room for every item that is kept, for the key, and adds the work of their levels. store
 * NULL: none may be. */
bool trace_keep_plan(struct trace_request *request, struct kept_store *store,
                     const struct access_key *key, struct attn_work *work, struct fault *fault);

/* After the passes: tasks that make the levels of all items. */
int64_t trace_keep_tasks(const struct trace_request *request);
size_t trace_keep_workspace_bytes(const struct trace_request *request);
void trace_keep_run(const struct trace_request *request, int64_t task, void *workspace);

/* Publishes what is kept, and sets the items' ids. */
bool trace_keep_publish(struct trace_request *request, struct kept_store *store,
                        struct fault *fault);

/* Gives back what was not published and, where the request failed afterwards, ends what was: nobody
 * knows its id. May be called twice. */
void trace_keep_drop(struct trace_request *request, struct kept_store *store, bool has_failed);

struct call;

/* Ends what was published where the answer of the call does not reach its client, who then knows no
 * id. Before the reply. */
void trace_keep_watch(const struct trace_request *request, struct kept_store *store,
                      struct call *call);

/* Releases models and the arena. */
void trace_request_free(struct trace_request *request);

#endif
