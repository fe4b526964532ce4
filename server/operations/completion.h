/* SPDX-License-Identifier: Apache-2.0 */
/* completion.h - a text that a model goes on with, as plain data and as a call: what was asked, a
 * choice for each prompt, and the places in which a few of them are continued side by side.
 *
 * Prompts go through their model as traces do, the short ones together; then each choice gains a
 * token at a time, by a pass of one row over keys and values that stay between passes: a session of
 * the call's own, which no client sees. Choices take turns in slots, a wave of them at a time, so
 * memory for keys and values is that of a wave. */
#ifndef ATTND_COMPLETION_H
#define ATTND_COMPLETION_H

#include "operations/plan/trace_job.h"
#include "operations/plan/trace_plan.h"
#include "operations/prompts.h"
#include "operations/session/session_call.h"

enum {
    COMPLETION_STOPS_MAX = 16,
    COMPLETION_LOGPROBS_MAX = 100,
    COMPLETION_SLOTS_MAX = 64,
    COMPLETION_WAVE_ROWS = 1024, /* of prompts that go through the model together */
};

struct completion_asked {
    const char *model_name, *user;
    struct prompts prompts;
    bool has_max_tokens, has_logprobs, has_prompt_logprobs, has_top_p, has_seed;
    int64_t max_tokens, logprobs, prompt_logprobs;
    double temperature, top_p, seed;
    struct byte_slice *stops;
    int64_t stop_count;
    bool echo;
};

/* A token that was generated. */
struct completion_token {
    int32_t id;
    bool is_byte; /* its piece is one byte (tokenizer.h) */
    float logprob;
    size_t end; /* of the choice's text behind it */
};

/* What a prompt is continued by. */
struct completion_choice {
    struct trace_item *item; /* the prompt's */
    uint64_t seed;
    int64_t room;                    /* tokens, at most */
    struct completion_token *tokens; /* [count] of [capacity], in the arena of the call */
    int64_t count, capacity;
    int64_t *ids;     /* [count][logprobs]: the most probable in place of each; */
    float *logprobs;  /* NULL: not asked for */
    struct text text; /* bytes that the tokens add */
    size_t text_end;  /* of the text that is answered */
    bool is_over, is_stopped;
};

/* A place in which a choice is continued. */
struct completion_slot {
    struct completion_choice *choice; /* NULL: it is over */
    struct session *session;          /* the call's own; NULL: none */
    struct session_step *steps;       /* [layer_count], which hold the session where there is one */
    struct trace_past past;
    struct trace_item *item; /* of one row, the newest token's */
    struct infer_item *attention;
    float *logits;      /* [vocabulary]; NULL: the most probable token is taken */
    struct fault fault; /* of choosing */
};

struct completion {
    struct trace_request request; /* of the prompts; first: trace_request_of() */
    struct call *call;
    struct completion_asked asked;
    struct model *model; /* retained */
    struct trace_groups groups;
    struct trace_request next; /* an item for each slot, */
    struct arena next_arena;   /* in here */
    struct trace_groups next_groups;
    struct completion_choice *choices; /* [asked.prompts.count] */
    int64_t candidates;                /* of each token generated that are kept */

    struct completion_slot *slots; /* [slot_count] */
    int64_t slot_count;
    int64_t first, count; /* choices of the wave */
    struct trace_item **items;
    struct infer_item **attention; /* [slot_count] of the pass */
    struct pass *pass;
    struct arena arena; /* of that pass */
    enum { COMPLETION_BEGINS, COMPLETION_PASSES, COMPLETION_CHOOSES } phase;
    bool pending;
};

static inline struct completion *completion_of(const struct call *call)
{
    return call->work;
}

/* completion_fields.c: reads the body. */
bool completion_fields_read(struct call *call, struct completion_asked *asked, struct fault *fault);

/* completion_pass.c: the next tasks of computing, by one thread at a time; 0: all is computed, or
 * the fault is set. */
int64_t completion_tasks(struct completion *job, struct fault *fault);
void completion_run(struct completion *job, int64_t task, const struct worker *worker);

/* Ends the pass and the sessions that there are. A second time does nothing. */
void completion_stop(struct completion *job);

/* completion_choose.c: takes the next token of the slot's choice, from what its last pass
 * predicts. Slots at once. */
void completion_choose(const struct completion *job, struct completion_slot *slot);

/* completion_text.c: writes the answer. */
bool completion_write(struct call *call, struct fault *fault);

/* The last token of a choice that is some of its text, -1: none; of its prompt, and of the first
 * count tokens generated. */
int32_t completion_before(const struct completion *job, const struct completion_choice *choice,
                          int64_t count);

#endif
