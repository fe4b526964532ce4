/* SPDX-License-Identifier: Apache-2.0 */
/* completion_pass.c - the passes of a completion: a wave of prompts, then a row of each at a time,
 * until each is over; then the next wave. */
#include "operations/completion.h"

#include <string.h>

/* ------------------------------------------------------------------ sessions -- */

static void close_session(struct completion_slot *slot)
{
    const int64_t count = slot->session ? slot->session->layer_count : 0;
    for (int64_t i = 0; i < count; i++) {
        session_step_end(&slot->steps[i], false);
        session_release(slot->steps[i].session);
        slot->steps[i].session = NULL;
    }
    session_release(slot->session);
    slot->session = NULL;
}

/* Its pages count in the budget of sessions, and for the key. */
static bool open_session(struct completion *job, struct completion_slot *slot, struct fault *fault)
{
    const struct access_key *key = job->call->limits.key;
    slot->session = session_create(job->model, NULL, job->model->layer_count);
    if (!slot->session)
        return fault_no_memory(fault);
    slot->session->account = key ? access_account_hold(key->account) : NULL;
    for (int64_t i = 0; i < job->model->layer_count; i++) {
        session_step_init(&slot->steps[i], slot->session, job->call->service->sessions);
        slot->past.caches[i] = &slot->steps[i].cache;
    }
    return true;
}

/* Before a pass: the rows that it appends. */
static bool begin_rows(const struct completion *job, struct completion_slot *slot,
                       struct trace_item *item, struct fault *fault)
{
    item->past = NULL;
    if (!slot->session)
        return true;
    slot->past.length = 0;
    for (int64_t i = 0; i < job->model->layer_count; i++) {
        if (slot->session->layers[i].shares)
            session_step_share(&slot->steps[i], &slot->steps[job->model->layers[i].keys_of]);
        if (slot->session->layers[i].keeps_nothing)
            continue;
        struct infer_item layer = { .layer_index = i, .model = job->model };
        struct session_step *step = &slot->steps[i];
        step->has_layer = step->has_rows = true;
        if (!session_step_prepare(step, &layer, fault))
            return false;
        slot->past.length = step->cache.length;
    }
    item->past = &slot->past;
    return true;
}

static bool end_rows(const struct completion *job, struct completion_slot *slot,
                     struct fault *fault)
{
    for (int64_t i = 0; slot->session && i < job->model->layer_count; i++) {
        if (slot->session->layers[i].keeps_nothing)
            continue;
        if (!session_step_check(&slot->steps[i], fault))
            return false;
        session_step_end(&slot->steps[i], true);
    }
    return true;
}

/* --------------------------------------------------------------------- passes -- */

/* The item that a slot's pass computes: the prompt, or the newest token. */
static struct trace_item *item_of(const struct completion_slot *slot)
{
    return slot->choice->count > 0 ? slot->item : slot->choice->item;
}

static struct infer_item *attention_of(const struct completion *job,
                                       const struct completion_slot *slot)
{
    return slot->choice->count > 0
               ? slot->attention
               : &job->request.attention.items[slot->choice->item - job->request.items];
}

static bool begin_pass(struct completion *job, struct fault *fault)
{
    struct attn_work work = { 0 };
    struct pass_group group = { job->items, job->attention, 0 };
    for (int64_t i = 0; i < job->count; i++) {
        struct completion_slot *slot = &job->slots[i];
        if (!slot->choice)
            continue;
        struct trace_item *item = item_of(slot);
        if (slot->choice->count > 0) {
            const struct completion_token *newest = &slot->choice->tokens[slot->choice->count - 1];
            item->streams[0].tokens.tokens[0].id = newest->id;
        }
        if (!begin_rows(job, slot, item, fault))
            return false;
        item->logit_rows.values = slot->logits;
        job->items[group.count] = item;
        job->attention[group.count++] = attention_of(job, slot);
    }
    arena_init(&job->arena, job->call->limits.scratch_bytes_max);
    job->phase = COMPLETION_PASSES;
    return pass_create(&job->pass, &job->arena, &group, &job->call->limits, &work, fault);
}

static void end_pass(struct completion *job)
{
    pass_end(job->pass);
    job->pass = NULL;
    arena_free(&job->arena);
}

/* --------------------------------------------------------------------- choosing -- */

/* Room for one more token, before tasks write it. */
static bool make_room(struct completion *job, struct completion_choice *choice, struct fault *fault)
{
    struct arena *arena = &job->call->arena;
    if (choice->count < choice->capacity)
        return true;
    const int64_t capacity = choice->capacity > 0 ? 2 * choice->capacity : 16;
    const size_t kept = (size_t)(choice->count * job->candidates);
    struct completion_token *tokens = arena_calloc(arena, (size_t)capacity, sizeof *tokens);
    int64_t *ids = arena_calloc(arena, (size_t)(capacity * job->candidates), sizeof *ids);
    float *logprobs = arena_calloc(arena, (size_t)(capacity * job->candidates), sizeof *logprobs);
    if (!tokens || !ids || !logprobs)
        return fault_no_memory(fault);
    if (choice->count > 0) {
        memcpy(tokens, choice->tokens, (size_t)choice->count * sizeof *tokens);
        memcpy(ids, choice->ids, kept * sizeof *ids);
        memcpy(logprobs, choice->logprobs, kept * sizeof *logprobs);
    }
    choice->tokens = tokens;
    choice->ids = ids;
    choice->logprobs = logprobs;
    choice->capacity = capacity;
    return true;
}

/* The pass is over. Returns the tasks of choosing, one for each slot. */
static int64_t begin_choosing(struct completion *job, struct fault *fault)
{
    int64_t chosen = 0;
    end_pass(job);
    for (int64_t i = 0; i < job->count; i++) {
        struct completion_slot *slot = &job->slots[i];
        if (!slot->choice)
            continue;
        item_of(slot)->past = NULL;
        if (!end_rows(job, slot, fault))
            return 0;
        if (slot->choice->room > 0 && !make_room(job, slot->choice, fault))
            return 0;
        chosen++;
    }
    job->phase = COMPLETION_CHOOSES;
    return chosen > 0 ? job->count : 0;
}

/* Frees the slots of choices that are over. Returns how many go on. */
static int64_t end_choosing(struct completion *job, struct fault *fault)
{
    int64_t left = 0;
    for (int64_t i = 0; i < job->count; i++) {
        struct completion_slot *slot = &job->slots[i];
        if (slot->fault.code != FAULT_NONE) {
            *fault = slot->fault;
            return 0;
        }
        if (slot->choice && slot->choice->is_over) {
            close_session(slot);
            slot->choice = NULL;
        }
        left += slot->choice != NULL;
    }
    return left;
}

/* ------------------------------------------------------------------------ waves -- */

/* Takes the next choices, whose prompts are of few rows together, or one of many. False: there is
 * none, or the fault is set. */
static bool begin_wave(struct completion *job, struct fault *fault)
{
    int64_t rows = 0;
    job->first += job->count;
    job->count = 0;
    while (job->count < job->slot_count && job->first + job->count < job->asked.prompts.count) {
        struct completion_choice *choice = &job->choices[job->first + job->count];
        const int64_t length = choice->item->streams[0].length;
        if (job->count > 0 && rows + length > COMPLETION_WAVE_ROWS)
            break;
        rows += length;
        struct completion_slot *slot = &job->slots[job->count++];
        slot->choice = choice;
        if (choice->room > 1 && !open_session(job, slot, fault))
            return false;
    }
    return job->count > 0;
}

int64_t completion_tasks(struct completion *job, struct fault *fault)
{
    for (;;) {
        if (job->phase == COMPLETION_PASSES) {
            const int64_t count = pass_tasks(job->pass, fault);
            if (count > 0 || fault->code != FAULT_NONE)
                return count;
            return begin_choosing(job, fault);
        }
        const bool goes_on = job->phase == COMPLETION_CHOOSES && end_choosing(job, fault) > 0;
        if (fault->code != FAULT_NONE || (!goes_on && !begin_wave(job, fault))
            || !begin_pass(job, fault))
            return 0;
    }
}

void completion_run(struct completion *job, int64_t task, const struct worker *worker)
{
    if (job->phase == COMPLETION_PASSES)
        pass_run(job->pass, task, worker);
    else if (job->slots[task].choice)
        completion_choose(job, &job->slots[task]);
}

void completion_stop(struct completion *job)
{
    end_pass(job);
    for (int64_t i = 0; i < job->slot_count; i++) {
        close_session(&job->slots[i]);
        job->slots[i].choice = NULL;
    }
}
