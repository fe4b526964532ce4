/* pass.c - makes a pass and goes through its steps; see pass.h. */
#include "forward/pass_internal.h"

#include "forward/pass_attend.h"

static const struct pass_step_functions *const functions[PASS_STEP_KINDS] = {
    [PASS_EMBED] = &pass_embed, [PASS_NORM] = &pass_norm, [PASS_ATTEND] = &pass_attend,
    [PASS_FEED] = &pass_feed,   [PASS_ADD] = &pass_add,   [PASS_FINAL] = &pass_final,
    [PASS_HEAD] = &pass_head,
};

void *pass_alloc(struct pass *pass, int64_t count, size_t size, struct fault *fault)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count, size, &bytes)
        || bytes > pass->limits.scratch_bytes_max) {
        fault_set(fault, FAULT_TOO_LARGE,
                  "the request needs more than the %zu bytes that are given to compute in",
                  pass->limits.scratch_bytes_max);
        return NULL;
    }
    void *memory = arena_alloc(pass->arena, bytes);
    if (!memory)
        fault_no_memory(fault);
    return memory;
}

/* ------------------------------------------------------------------ making -- */

static bool place_sequence(struct pass *pass, struct pass_sequence *sequence,
                           struct trace_item *item, struct infer_item *attention,
                           struct fault *fault)
{
    *sequence = (struct pass_sequence){ .item = item, .attention = attention };
    sequence->answered =
        pass_alloc(pass, pass->model->layer_count, sizeof(struct trace_layer *), fault);
    if (!sequence->answered)
        return false;
    for (int64_t i = 0; i < pass->model->layer_count; i++)
        sequence->answered[i] = NULL;
    for (int64_t i = 0; i < item->answered_count; i++)
        sequence->answered[item->answered[i].number] = &item->answered[i];
    for (int i = 0; i < pass->forward->stream_count; i++) {
        sequence->first[i] = pass->row_count[i];
        sequence->length[i] = item->streams[i].length;
        pass->row_count[i] += sequence->length[i];
    }
    return true;
}

/* A row more than there are: memory of no rows has an address too. */
static bool allocate_rows(struct pass *pass, struct fault *fault)
{
    int64_t numbers_max = 0;
    for (int i = 0; i < pass->forward->stream_count; i++) {
        const int64_t width = pass->forward->streams[i].width;
        int64_t numbers;
        if (__builtin_mul_overflow(pass->row_count[i] + 1, width, &numbers)) {
            fault_no_memory(fault);
            return false;
        }
        pass->rows[i] = pass_alloc(pass, numbers, sizeof(float), fault);
        if (!pass->rows[i])
            return false;
        numbers_max = numbers > numbers_max ? numbers : numbers_max;
    }
    pass->normed = pass_alloc(pass, numbers_max, sizeof(float), fault);
    pass->output = pass->normed ? pass_alloc(pass, numbers_max, sizeof(float), fault) : NULL;
    pass->input = pass->normed;
    return pass->output != NULL;
}

static bool allocate_workspaces(struct pass *pass, struct fault *fault)
{
    const struct infer_limits *limits = &pass->limits;
    if (pass->workspace_bytes <= limits->workspace_bytes)
        return true;
    pass->workspaces = pass_alloc(pass, limits->worker_count, pass->workspace_bytes, fault);
    return pass->workspaces != NULL;
}

static bool fill(struct pass *pass, const struct pass_group *group, struct attn_work *work,
                 struct fault *fault)
{
    pass->sequences = pass_alloc(pass, group->count, sizeof *pass->sequences, fault);
    pass->first_task = pass->sequences
                           ? pass_alloc(pass, group->count + 1, sizeof *pass->first_task, fault)
                           : NULL;
    if (!pass->first_task)
        return false;
    for (int64_t i = 0; i < group->count; i++) {
        if (!place_sequence(pass, &pass->sequences[i], group->items[i], group->attention[i], fault))
            return false;
        pass->sequence_count++;
    }
    if (!allocate_rows(pass, fault) || !pass_list_steps(pass, fault))
        return false;
    for (pass->step = 0; pass->step < pass->step_count; pass->step++) {
        const struct pass_step *step = &pass->steps[pass->step];
        if (functions[step->kind]->plan && !functions[step->kind]->plan(pass, step, work, fault))
            return false;
    }
    pass->step = 0;
    return pass_attend_allocate(pass, fault) && allocate_workspaces(pass, fault);
}

bool pass_create(struct pass **made, struct arena *arena, const struct pass_group *group,
                 const struct infer_limits *limits, struct attn_work *work, struct fault *fault)
{
    struct pass *pass = arena_calloc(arena, 1, sizeof *pass);
    if (!pass)
        return fault_no_memory(fault);
    pass->arena = arena;
    pass->model = group->items[0]->model;
    pass->forward = pass->model->forward;
    pass->limits = *limits;
    pass->held_layer = -1;
    *made = pass;
    return fill(pass, group, work, fault);
}

int64_t pass_step_count(const struct pass *pass)
{
    return pass->step_count;
}

/* ----------------------------------------------------------------- running -- */

int64_t pass_tasks(struct pass *pass, struct fault *fault)
{
    if (!pass->forward_held && pass->step_count > 0) {
        if (!model_forward_hold(pass->model, fault))
            return 0;
        pass->forward_held = true;
    }
    while (pass->step < pass->step_count) {
        const struct pass_step *step = &pass->steps[pass->step];
        const int64_t count = functions[step->kind]->tasks(pass, step, pass->turn, fault);
        if (fault->code != FAULT_NONE)
            return 0;
        if (count == PASS_OVER) {
            pass->step++;
            pass->turn = 0;
            continue;
        }
        pass->running = pass->turn++;
        if (count > 0)
            return count;
    }
    return 0;
}

void pass_run(const struct pass *pass, int64_t task, const struct worker *worker)
{
    const struct pass_step *step = &pass->steps[pass->step];
    void *workspace = pass->workspaces
                          ? (char *)pass->workspaces + (size_t)worker->slot * pass->workspace_bytes
                          : worker->workspace;
    functions[step->kind]->run(pass, step, pass->running, task, workspace);
}

void pass_end(struct pass *pass)
{
    if (!pass)
        return;
    pass_attend_drop(pass);
    if (pass->forward_held)
        model_forward_drop(pass->model);
    pass->forward_held = false;
}
