/* SPDX-License-Identifier: Apache-2.0 */
/* pass_internal.h - what the steps of a pass share. */
#ifndef ATTND_PASS_INTERNAL_H
#define ATTND_PASS_INTERNAL_H

#include "linear.h"
#include "map_tile.h"
#include "operations/pass/pass.h"
#include "rows.h"
#include "telemetry/metrics_inference.h"

enum pass_step_kind {
    PASS_EMBED,
    PASS_FIRST, /* rows that enter the first block, kept for all */
    PASS_NORM,  /* of rows, before attention or feed-forward */
    PASS_ATTEND,
    PASS_RECUR,   /* a recurrence in place of attention, or beside it */
    PASS_FEED,    /* feed-forward */
    PASS_TOKENS,  /* what a block reads of tokens */
    PASS_SPREAD,  /* several rows of a token, of one; */
    PASS_PREDICT, /* before a block; */
    PASS_LAUREL,  /* beside its attention; */
    PASS_CORRECT, /* behind its feed-forward; */
    PASS_BESIDE,  /* with what it reads of tokens; */
    PASS_JOIN,    /* and one of several */
    PASS_ADD,     /* what attention or feed-forward computed, to the rows */
    PASS_MIX,     /* the rows of this place, weighted, to the sum that a head reads */
    PASS_LENS,    /* rows that leave a block, for the head */
    PASS_EDIT,    /* rows that a request changes, or that are kept */
    PASS_NARROW,  /* one row of each sequence stays */
    PASS_FINAL,
    PASS_READOUT, /* a vector of the rows that leave a stream, or classes */
    PASS_HEAD,
    PASS_CONTRIBUTE, /* what parts added to logits */
    PASS_STEP_KINDS
};

struct pass_step {
    enum pass_step_kind kind;
    int stream;
    const struct model_block *block;
    const struct model_part *part;
    int64_t layer;         /* of ATTEND or RECUR, and of NORM and ADD around it; else -1 */
    bool is_cross;         /* of ATTEND */
    bool is_first;         /* of NORM: the rows are those that enter the block */
    enum edit_place place; /* of EDIT */
    bool is_classes;       /* of READOUT: logits of classes */
    int64_t place_number;  /* of MIX: its weight */
    bool is_copied;        /* of NORM: the rows change before what reads them is computed */
};

/* Memory of a sequence for the layer that needs most of it; NULL: not needed yet. */
struct pass_room {
    void *memory;
    int64_t count;
};

/* Rows of a sum with the residual that contributions are asked of (pass_record.c), each
 * [rows][width] but contexts, [rows][heads * v_head_dim]. */
struct pass_record {
    const struct pass_step *step;
    float *entering, *output,
        *leaving;              /* the residual before, what is added, the residual behind */
    float *unedited, *context; /* of attention: the output before its edits; contexts */
};

struct pass_sequence {
    struct trace_item *item;
    struct infer_item *attention;
    struct trace_layer **answered; /* [model->layer_count]; NULL: the layer is not asked for */
    int64_t first[MODEL_STREAMS_MAX], length[MODEL_STREAMS_MAX]; /* its rows in those of all */
    bool is_narrow; /* of the last stream it has the item's narrow_row alone */
    float *bias;    /* memory for mask and relative bias; NULL: not needed yet */
    int64_t bias_numbers;
    const float *bias_of; /* the table that bias holds now */
    float *projected;     /* memory for what a bias depends on; NULL: not needed yet */
    int64_t projected_numbers;
    float *pooled; /* memory between the steps of a weight map; NULL: not needed yet */
    int64_t pooled_numbers;
    struct pass_record *records; /* [record_count], in the order of the steps; NULL: none */
    int64_t record_count;
    struct pass_room hidden;        /* uint8_t: the mask of what edits hide */
    struct pass_room given;         /* const float *: the rows of given weights, */
    struct pass_room given_weights; /* float: these weights, */
    struct pass_room seen;          /* bool: and the keys that a row sees */
    struct pass_room lse;           /* float: of a layer whose maps are read and lse is no answer */
    struct pass_room rollout;       /* float: of this layer and the one before (pass_rollout.c), */
    struct attn_linear before;      /* that as a matrix, */
    struct attn_product product;    /* and its product with the layer's step */
    struct pass_room contacts; /* double: what layers add to contacts so far, and of the layer */
    struct pass_room contact_inner; /* bool: tokens that can touch others, */
    struct pass_room contact_sums;  /* double: the sums of rows and columns (pass_contacts.c) */
    struct pass_room norms;      /* float: of values behind the output projection, [heads][keys], */
    struct pass_room norm_rows;  /* float: with the weights, [heads][q][keys], */
    struct pass_room norm_given; /* const float *: these as given weights, */
    struct pass_room norm_pooled; /* float: and what is pooled of them, */
    struct pass_room norm_sums;   /* double: and summed up over spans; */
    struct pass_room norm_plan;   /* struct attn_plan: attention whose map they take the place of */
    struct attn_weight_map norm_map;
    struct pass_room spans; /* float: sums over spans, before those over rows or layers */
    struct pass_room state; /* float: of a recurrence, where it is no session's */
    const float
        *state_before; /* of the layer that the sequence is at, before its rows; NULL: zeros */
    float *state_after;
    void *scratch; /* of attention, for the layer that needs most */
    size_t scratch_bytes;
};

/* Tokens of one expert (pass_feed.c); rows of a panel (pass_recur.c); tokens that have several rows
 * (pass_altup.c). */
struct pass_expert_rows;
struct pass_altup_rows;
struct pass_recurrent_rows;

/* What the first rows of sound are made with (pass_sound.c). */
struct pass_sound;

struct pass {
    struct arena *arena;
    struct model *model; /* of the items, which retain it */
    const struct model_forward *forward;
    struct infer_limits limits;
    struct pass_sequence *sequences;
    int64_t sequence_count;
    bool forward_held;
    int64_t held_layer;             /* -1: none */
    int64_t held_for_contributions; /* layers from 0 on */

    struct pass_step *steps;
    int64_t step_count, step;
    int turn, running; /* the next turn, and the one whose tasks run */

    /* Numbers of rows of tables, for the rows of a stream of tokens; NULL: there is no table. */
    int64_t *ids[MODEL_STREAMS_MAX], *positions[MODEL_STREAMS_MAX], *types[MODEL_STREAMS_MAX];
    float *token_scales[MODEL_STREAMS_MAX]; /* what rows of tokens are multiplied by; NULL: nothing
                                             */
    int64_t row_count[MODEL_STREAMS_MAX];
    float *rows[MODEL_STREAMS_MAX]; /* the residual stream */
    float *normed, *output;         /* before and behind attention or feed-forward */
    float *panel;                   /* activations between two products of a panel of rows */
    int64_t panel_numbers;
    float *embedded; /* what pixels and features become before they are rows */
    struct pass_sound *sound;
    float *mixed;       /* [rows][width] of the stream whose classes read a sum; NULL: none do */
    const float *input; /* of attention or feed-forward: normed, or the rows */
    float *first_rows;  /* [rows][width] that enter the first block, of blocks that read tokens */
    float *token_rows;  /* [2][rows][columns] of what they read; NULL: no block does */
    struct attn_linear sliced;     /* a part of a matrix, of the turn that runs */
    struct pass_altup_rows *altup; /* all rows of tokens that have several; NULL: none has */
    float **shared_inputs; /* [model->layer_count]: rows that enter a layer whose keys others have,
                              [rows][width]; NULL: none has */
    struct pass_expert_rows *experts;
    struct pass_recurrent_rows *recurrent;
    struct pass_head *head;
    struct pass_readout *readouts[MODEL_STREAMS_MAX][2]; /* vectors, and classes */
    struct attn_product product;                         /* of the turn that runs */
    int64_t *first_task; /* [sequence_count + 1] of the turn that runs */
    void *workspaces;    /* one for each worker slot, where the workers' own are too small */
    size_t workspace_bytes;
};

enum {
    PASS_OVER = -1,        /* what tasks returns behind the last turn of a step */
    PASS_PANEL_ROWS = 512, /* of a feed-forward */
    PASS_TASK_NUMBERS = 65536
};

/* Of each kind of step: room for what it needs in the pass, and its work, when the pass is made;
 * the tasks of a turn, called once for each turn from 0 on; one task. */
struct pass_step_functions {
    bool (*plan)(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                 struct fault *fault);
    int64_t (*tasks)(struct pass *pass, const struct pass_step *step, int turn,
                     struct fault *fault);
    void (*run)(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                void *workspace);
};

extern const struct pass_step_functions pass_embed, pass_first, pass_tokens, pass_norm, pass_attend,
    pass_recur, pass_feed, pass_add, pass_mix, pass_edit, pass_lens, pass_narrow, pass_final,
    pass_readout, pass_head, pass_contribute, pass_spread, pass_predict, pass_laurel, pass_correct,
    pass_beside, pass_join;

/* Which part of the pass a task of PASS_ATTEND is. */
enum metrics_part pass_attend_part(const struct pass *pass, const struct pass_step *step, int turn,
                                   int64_t task);

/* The turns of PASS_EMBED that make rows of sound (pass_sound.c), as of a step. */
bool pass_sound_plan(struct pass *pass, struct attn_work *work, struct fault *fault);
int64_t pass_sound_tasks(struct pass *pass, int turn);
void pass_sound_run(const struct pass *pass, int turn, int64_t task, void *workspace);

/* Of a token with several rows, where there are such: all of them go to another place. */
void pass_altup_move(const struct pass *pass, int stream, int64_t to, int64_t from);

/* Adds positions to the rows of patches of a picture that has so many down and across
 * (pass_resize.c). */
void pass_resize_add(const struct pass *pass, const struct model_embedding *embedding, int64_t down,
                     int64_t across, float *rows);

/* Whether the step's vector or classes are asked of the sequence (pass_readout.c). */
bool pass_readout_is_needed(const struct pass_sequence *sequence, const struct pass_step *step);

/* Records for contributions (pass_record.c): memory for a step PASS_ADD; rows [first, first +
 * count) of all sequences before and behind it; contexts, once attention is computed. */
bool pass_record_plan(struct pass *pass, const struct pass_step *step, struct fault *fault);
void pass_record_before(const struct pass *pass, const struct pass_step *step, int64_t first,
                        int64_t count);
void pass_record_after(const struct pass *pass, const struct pass_step *step, int64_t first,
                       int64_t count);
bool pass_record_is_needed(const struct pass *pass, const struct pass_step *step,
                           const struct pass_sequence *sequence);
void pass_record_output(const struct pass *pass,
                        const struct pass_step *step); /* of a recurrence, before its edits */
void pass_record_context(const struct pass *pass, const struct pass_step *step,
                         const struct pass_sequence *sequence);

/* Gives back the parameters that contributions hold, if any. */
void pass_contribute_drop(struct pass *pass);

/* Whether a step PASS_LENS is needed behind the block (pass_lens.c). */
bool pass_lens_is_needed(const struct pass *pass, const struct model_block *block);

/* Edits (pass_edit.c). Whether a step PASS_EDIT is needed at this place of a layer, -1 for
 * embeddings; whether it keeps rows of the sequence. */
bool pass_edit_is_needed(const struct pass *pass, enum edit_place place, int stream, int64_t layer);
bool pass_edit_keeps(const struct pass_sequence *sequence, const struct pass_step *step);

/* Of a layer of attention, while its item is planned: room for the mask of what is hidden, which
 * becomes that of the item, and for given weights; work NULL: they have been counted. */
bool pass_edit_mask(struct pass *pass, const struct pass_step *step, struct pass_sequence *sequence,
                    struct fault *fault);
bool pass_edit_given(struct pass *pass, const struct pass_step *step,
                     struct pass_sequence *sequence, struct attn_work *work, struct fault *fault);

/* When its item is planned for running: whether edits hide keys, and filling the mask; then, before
 * attention, whether weights are given, and setting them. */
bool pass_edit_hides(const struct pass_sequence *sequence);
void pass_edit_hide(const struct pass_step *step, const struct pass_sequence *sequence);
bool pass_edit_gives(const struct pass_sequence *sequence);
void pass_edit_give(const struct pass *pass, const struct pass_step *step,
                    const struct pass_sequence *sequence);

/* Where the pass is taken up (mark.h): whether the step is the start, and the step of attention is
 * without all that precedes the output projection. */
static inline bool pass_starts_at(const struct pass *pass, const struct pass_step *step)
{
    return step == pass->steps && pass->sequences[0].item->start;
}

/* Lists the step behind which the rest is narrow, and gives sequences all their rows back. */
void pass_list_narrow(struct pass *pass);
void pass_widen(struct pass *pass);

/* Between attention and its output projection: whether contexts of heads are changed or kept, and
 * doing so. */
bool pass_edit_has_heads(const struct pass_sequence *sequence, const struct pass_step *step);
void pass_edit_heads(const struct pass *pass, const struct pass_step *step,
                     const struct pass_sequence *sequence);

/* What is read of a layer's attention (pass_read.c). While its item is planned: memory for it, and
 * where sums over spans go, *spans, NULL without such; whether it needs lse; the workspace, once
 * the item is planned. When all stages have run, further turns, counted from 0, as of a step. */
bool pass_read_plan(struct pass *pass, const struct pass_step *step, struct pass_sequence *sequence,
                    struct attn_work *work, float **spans, struct fault *fault);
int64_t pass_read_tasks(struct pass *pass, const struct pass_step *step, int turn);
bool pass_read_needs_lse(const struct pass *pass, const struct pass_step *step,
                         const struct pass_sequence *sequence);
size_t pass_read_workspace_bytes(const struct pass *pass, const struct pass_step *step,
                                 struct pass_sequence *sequence);
void pass_read_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                   void *workspace);

/* A kind of what is read of whole maps: whether it is read of the layer; memory for it, and its
 * work, while its item is planned, NULL: none beside that of all; the workspace of a task, once it
 * is; the tasks of a turn, counted from 0; one task. */
enum { PASS_MAP_TURNS = 4 };
struct pass_map_reader {
    bool (*is_read)(const struct pass *pass, const struct pass_step *step,
                    const struct pass_sequence *sequence);
    bool (*plan)(struct pass *pass, const struct pass_step *step, struct pass_sequence *sequence,
                 struct attn_work *work, struct fault *fault);
    size_t (*workspace_bytes)(const struct pass *pass, const struct pass_step *step,
                              struct pass_sequence *sequence);
    int64_t (*tasks)(struct pass *pass, const struct pass_step *step,
                     struct pass_sequence *sequence, int turn);
    void (*run)(const struct pass *pass, const struct pass_step *step,
                const struct pass_sequence *sequence, int turn, int64_t task, void *workspace);
};
extern const struct pass_map_reader pass_rollout, pass_norms, pass_contacts, pass_align;

/* Memory and work that all of them need (pass_tile.c). */
bool pass_tile_plan(struct pass *pass, const struct pass_step *step, struct pass_sequence *sequence,
                    struct attn_work *work, struct fault *fault);

/* The map of a head of the layer that the sequence is at, whose stages have run. Its first keys are
 * the piece. */
struct attn_map_tile pass_map_tile(const struct pass_sequence *sequence, int64_t head);

/* Room for count of these; false with a fault. */
bool pass_keep_room(struct pass *pass, struct pass_room *room, int64_t count, size_t size,
                    struct fault *fault);

/* When all steps are planned: memory for the attention layer that needs most of it. */
bool pass_attend_allocate(struct pass *pass, struct fault *fault);

/* Gives back the parameters of the attention layer that the pass is at, if any. */
void pass_attend_drop(struct pass *pass);

/* Memory of the pass; NULL with a fault. */
void *pass_alloc(struct pass *pass, int64_t count, size_t size, struct fault *fault);

/* Rows are divided into tasks of about PASS_TASK_NUMBERS numbers. */
int64_t pass_row_tasks(int64_t row_count, int64_t columns);
void pass_task_rows(int64_t row_count, int64_t columns, int64_t task, int64_t *first,
                    int64_t *count);

/* Copies those of the rows [first, first + count) of a stream that a layer's answer has as this
 * tensor. source: the stream's row 0, of so many columns. */
void pass_copy_answered(const struct pass *pass, int stream, int64_t layer,
                        enum trace_tensor_name name, const float *source, int64_t columns,
                        int64_t first, int64_t count);

/* Prepares pass->product: y = linear(x), of dense rows. Returns its tasks. */
int64_t pass_product(struct pass *pass, const struct attn_linear *linear, const float *x, float *y,
                     int64_t row_count);

/* Adds what a product, or rows that are read and written once, cost. */
void pass_product_work(const struct pass *pass, const struct attn_linear *linear, int64_t row_count,
                       struct attn_work *work);
void pass_rows_work(int64_t row_count, int64_t columns, struct attn_work *work);

#endif
