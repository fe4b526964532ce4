/* SPDX-License-Identifier: Apache-2.0 */
/* effect.h - what each part of a model does for one prediction, as plain data and as a call: many
 * passes, each without one part, beside the base pass, which has them all.
 *
 * The base pass runs once and leaves marks (pass/mark.h) at the places that are edited. The passes
 * of one layer's variants start there, a wave of them side by side, and only the row of the
 * prediction goes behind the last attention. What a wave needs is made when it is next and freed
 * when it is over, so memory is that of one wave, however many variants there are. */
#ifndef ATTND_EFFECT_H
#define ATTND_EFFECT_H

#include "operations/plan/trace_job.h"
#include "operations/plan/trace_plan.h"
#include "rows.h"

enum {
    EFFECT_VARIANTS_MAX = 65536,
    EFFECT_WAVE_ROWS = 2048, /* of all variants of a wave, at most, where it has several */
    EFFECT_WAVE_VARIANTS = 256,
    EFFECT_WAVE_LOGITS = 1 << 22,
    EFFECT_WAVE_BYTES = 128 << 20,
    EFFECT_EDITS = 2,             /* of a variant, beside the common ones */
    EFFECT_CUT_NUMBERS = 1 << 26, /* that are read, of edits, for all texts without a span */
};

#define EFFECT_EACH_MAP(X)                                                                         \
    X(HEADS, heads)                                                                                \
    X(LAYERS, layers)                                                                              \
    X(FEED_FORWARDS, feed_forwards)                                                                \
    X(ROWS_OF_LAYERS, rows_of_layers)                                                              \
    X(SPANS, spans)                                                                                \
    X(SPAN_TEXTS, span_texts)

enum effect_each {
#define X(NAME, name) EFFECT_##NAME,
    EFFECT_EACH_MAP(X)
#undef X
        EFFECT_EACH_COUNT
};

enum effect_by { EFFECT_SCALE, EFFECT_MEAN, EFFECT_FROM, EFFECT_HIDE, EFFECT_LEAVE_OUT };

struct effect_metric {
    struct trace_target target; /* token.has: the log-prob of a token is asked for */
    bool has_divergence;
    int divergence; /* the one that there is: Kullback-Leibler */
};

struct effect_asked {
    struct trace_item input; /* first: its fields are read as those of a trace */
    bool has_metric, has_each, has_by, has_scale, has_other, has_kind;
    struct effect_metric metric;
    int each, by;
    double scale;
    struct trace_edit edit; /* kind, layers and rows; spans are what it hides */
    struct trace_item *other;
    int64_t top_k_tokens;
    struct trace_edit *edits;
    int64_t edit_count;
};

/* Variants that start at one place: those of a layer. Of spans all are of one such list. */
struct effect_list {
    int64_t layer; /* -1: of no single one */
    int64_t first, count;
    const struct pass_mark *start; /* NULL: they begin with their tokens */
    int64_t wave;                  /* variants of a wave */
};

struct effects {
    struct trace_request request; /* the base pass; first: trace_request_of() */
    struct call *call;
    struct effect_asked asked;
    struct trace_request other; /* that rows are taken from, */
    struct arena other_arena;   /* in here */
    struct pass_marks base_marks, other_marks;

    struct trace_edit edits[EFFECT_EDITS]; /* as planned, of all layers, heads, rows and spans */
    int edit_count;
    int64_t *layers; /* [layer_count], of the answer */
    int64_t layer_count;
    struct effect_list *lists;
    int64_t list_count;
    int64_t variant_count;
    size_t cut_bytes; /* of a text without a span, and its edits, at most */

    int64_t position;
    struct attn_row_sums base_sums; /* of the base pass' logits, for a divergence */
    float base_value;
    float *effects; /* [variant_count] */
    struct trace_predictions
        predictions; /* a position for each variant, where they are asked for */

    /* What runs. */
    enum { EFFECT_BEGINS, EFFECT_BASE, EFFECT_OTHER, EFFECT_PASSES, EFFECT_MEASURES } phase;
    int64_t list, done;        /* the wave is of this list, behind so many of its variants */
    int64_t count;             /* variants of the wave */
    struct trace_request wave; /* their items, in the job's arena */
    struct pass *pass;
    struct arena arena; /* of the wave and its pass */
    bool pending;
};

static inline struct effects *effects_of(const struct call *call)
{
    return call->work;
}

static inline struct trace_item *effect_base(const struct effects *job)
{
    return &job->request.items[0];
}

static inline bool effect_is_divergence(const struct effects *job)
{
    return job->asked.metric.has_divergence;
}

/* effect_fields.c: reads the body. */
bool effect_fields_read(struct call *call, struct effects *job, struct fault *fault);

/* effect_plan.c: what is asked, for the model: the base pass, the edits, the variants. */
bool effect_plan(struct effects *job, struct fault *fault);

/* effect_wave.c: makes the items of variants [first, first + count) of a list, and their pass, in
 * the job's arena, and adds its work. is_priced: only that is wanted. */
bool effect_wave_begin(struct effects *job, const struct effect_list *list, int64_t first,
                       int64_t count, bool is_priced, struct attn_work *work, struct fault *fault);
void effect_pass_end(struct effects *job);

/* The pass of one item, in the job's arena. */
bool effect_pass_begin(struct effects *job, struct trace_item *item, struct infer_item *attention,
                       struct attn_work *work, struct fault *fault);

/* effect_cut.c: the item of a text without the tokens of a span. */
bool effect_cut(const struct effects *job, const struct attn_map_range *span,
                struct trace_request *request, struct trace_item *item, struct fault *fault);
bool effect_check_cuts(struct effects *job, struct fault *fault);

/* effect_pass.c: the next tasks of computing, by one thread at a time; 0: all is computed, or the
 * fault is set. */
int64_t effect_tasks(struct effects *job, struct fault *fault);
void effect_run(struct effects *job, int64_t task, const struct worker *worker);
bool effect_price(struct effects *job, struct fault *fault);

/* effect_say.c: says the answer. */
void effect_say(const struct call *call, struct writer *writer);
size_t effect_answer_bytes(const struct effects *job);

#endif
