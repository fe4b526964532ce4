/* SPDX-License-Identifier: Apache-2.0 */
/* completions.c - the kind of call that a completion is: its plan, its price, its end. */
#include "operations/operations.h"

#include "call/admission.h"
#include "call/infer_statistics.h"
#include "call/model_access.h"
#include "models/model/model_continue.h"
#include "operations/completion.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of a token in the answer, with its log-prob and its place among others, at most. */
enum { TOKEN_BYTES = 160, MAX_TOKENS_DEFAULT = 16, LOGIT_NUMBERS_MAX = 1 << 22 };

static void init(struct call *call)
{
    struct completion *job = completion_of(call);
    job->request.arena = &call->arena;
    job->request.attention.model = call->model; /* whose statistics count the request */
    call->model = NULL;
    arena_init(&job->next_arena, call->limits.scratch_bytes_max);
    job->next_arena.memory = call->memory;
    job->next.arena = &job->next_arena;
    job->call = call;
}

static bool read_body(struct call *call, struct fault *fault)
{
    return completion_fields_read(call, &completion_of(call)->asked, fault);
}

/* ---------------------------------------------------------------------- faults -- */

/* The pointer of prompt i. */
static void point_to_prompt(const struct completion *job, int64_t i, char *pointer)
{
    if (job->asked.prompts.is_list)
        snprintf(pointer, FAULT_POINTER_MAX, "/prompt/%" PRId64, i);
    else
        snprintf(pointer, FAULT_POINTER_MAX, "/prompt");
}

/* Puts a trace's fault in the words of a completion. */
static void explain(const struct completion *job, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    int64_t i = 0;
    while (i < job->request.item_count && job->request.items[i].fault.code == FAULT_NONE)
        i++;
    if (i == job->request.item_count || !fault->pointer[0] || strcmp(fault->pointer, "/model") == 0)
        return;
    point_to_prompt(job, i, pointer);
    snprintf(fault->pointer, sizeof fault->pointer, "%s", pointer);
}

static bool find_model(struct completion *job, struct fault *fault)
{
    const struct infer_limits *limits = &job->call->limits;
    if (!model_access_resolve(limits->store, limits->key, job->asked.model_name, "", &job->model,
                              fault)) {
        if (!fault->pointer[0])
            snprintf(fault->pointer, sizeof fault->pointer, "/model");
        return false;
    }
    const char *reason = model_complete_reason(job->model);
    return !reason
           || fault_set_at(fault, "/model", FAULT_OPTION,
                           "model '%s' does not go on with a text: %s", job->model->name, reason);
}

static bool check_ids(const struct completion *job, struct fault *fault)
{
    const int64_t end = job->model->forward->streams[0].embedding.tokens.count;
    const int64_t head_end = trace_vocabulary(job->model->forward);
    for (int64_t i = 0; i < job->asked.prompts.count; i++) {
        const struct prompt *prompt = &job->asked.prompts.list[i];
        for (int64_t k = 0; k < prompt->id_count; k++) {
            char pointer[FAULT_POINTER_MAX], at[FAULT_POINTER_MAX + 24];
            if (prompt->ids[k] < end && prompt->ids[k] < head_end)
                continue;
            point_to_prompt(job, i, pointer);
            snprintf(at, sizeof at, "%s/%" PRId64, pointer, k);
            return fault_set_at(fault, at, FAULT_OPTION,
                                "token %" PRId64 " of prompt has the id %" PRId64
                                "; model '%s' has ids from 0 to %" PRId64,
                                k, prompt->ids[k], job->model->name,
                                (end < head_end ? end : head_end) - 1);
        }
    }
    return true;
}

/* -------------------------------------------------------------------- planning -- */

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The prompts as traces of log-probs, where these are asked for, and of the last predictions. */
static bool plan_prompts(struct completion *job, struct fault *fault)
{
    const struct completion_asked *asked = &job->asked;
    struct trace_request *request = &job->request;
    const bool has_logprobs = asked->has_prompt_logprobs || (asked->echo && asked->has_logprobs);
    request->items =
        arena_calloc(request->arena, (size_t)asked->prompts.count, sizeof *request->items);
    if (!request->items)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < asked->prompts.count; i++) {
        const struct prompt *prompt = &asked->prompts.list[i];
        struct trace_item *item = &request->items[i];
        *item = (struct trace_item){ .model = model_retain(job->model),
                                     .model_name = job->model->name,
                                     .input_name = "prompt",
                                     .text = prompt->text,
                                     .has_tokens = !prompt->text.data,
                                     .tokens = prompt->ids,
                                     .token_count = prompt->id_count,
                                     .has_outputs = true,
                                     .has_layers = true,
                                     .at = -1,
                                     .top_k_tokens = largest(
                                         1, largest(asked->logprobs, asked->prompt_logprobs)) };
        item->outputs[TRACE_OUTPUT_PREDICTIONS] = !asked->has_max_tokens || asked->max_tokens > 0;
        item->outputs[TRACE_OUTPUT_LOGPROBS] = has_logprobs;
        request->item_count++;
    }
    if (trace_plan(request, &job->groups, &job->call->limits, fault))
        return true;
    explain(job, fault);
    return false;
}

/* How many tokens the choice may have. */
static bool find_room(const struct completion *job, int64_t i, struct completion_choice *choice,
                      struct fault *fault)
{
    const struct completion_asked *asked = &job->asked;
    const int64_t most = job->model->forward->streams[0].length_max;
    const int64_t length = choice->item->streams[0].length;
    const int64_t left = most > 0 ? most - length : INT64_MAX;
    char pointer[FAULT_POINTER_MAX];
    if (length == 0) {
        point_to_prompt(job, i, pointer);
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "the prompt has no tokens; expected one or more");
    }
    choice->room = asked->has_max_tokens       ? asked->max_tokens
                   : left < MAX_TOKENS_DEFAULT ? left
                                               : MAX_TOKENS_DEFAULT;
    if (choice->room <= left && (choice->room > 0 || asked->has_max_tokens))
        return true;
    return fault_set_at(fault, "/max_tokens", FAULT_LENGTH,
                        "the prompt has %" PRId64 " tokens, and %" PRId64
                        " are to follow; model '%s' has positions for %" PRId64,
                        length, largest(choice->room, 1), job->model->name, most);
}

static bool make_choices(struct completion *job, struct fault *fault)
{
    const struct completion_asked *asked = &job->asked;
    struct completion_choice *choices =
        arena_calloc(&job->call->arena, (size_t)asked->prompts.count, sizeof *choices);
    if (!choices)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < asked->prompts.count; i++) {
        choices[i].item = &job->request.items[i];
        choices[i].seed =
            asked->has_seed ? (uint64_t)(int64_t)asked->seed : call_unique(job->call, i);
        text_init(&choices[i].text, SIZE_MAX);
        if (!find_room(job, i, &choices[i], fault))
            return false;
    }
    job->choices = choices;
    return true;
}

/* Rows of tokens that follow, one in each slot. */
static bool plan_next(struct completion *job, struct fault *fault)
{
    static const int64_t POSITIONS[] = { -1 }, TOKENS[] = { 0 };
    struct trace_request *next = &job->next;
    next->items = arena_calloc(next->arena, (size_t)job->slot_count, sizeof *next->items);
    if (!next->items)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < job->slot_count; i++) {
        next->items[i] = (struct trace_item){ .model = model_retain(job->model),
                                              .model_name = job->model->name,
                                              .has_tokens = true,
                                              .tokens = TOKENS,
                                              .token_count = 1,
                                              .has_outputs = true,
                                              .has_layers = true,
                                              .has_positions = true,
                                              .positions = POSITIONS,
                                              .position_count = 1,
                                              .at = -1,
                                              .top_k_tokens = largest(1, job->asked.logprobs) };
        next->items[i].outputs[TRACE_OUTPUT_PREDICTIONS] = true;
        next->item_count++;
    }
    return trace_plan(next, &job->next_groups, &job->call->limits, fault);
}

static bool make_slots(struct completion *job, struct fault *fault)
{
    struct arena *arena = &job->call->arena;
    const int64_t vocabulary = trace_vocabulary(job->model->forward);
    const int64_t fitting = largest(1, LOGIT_NUMBERS_MAX / vocabulary);
    int64_t count = job->asked.prompts.count;
    count = count < COMPLETION_SLOTS_MAX ? count : COMPLETION_SLOTS_MAX;
    count = count < fitting ? count : fitting;
    job->slots = arena_calloc(arena, (size_t)count, sizeof *job->slots);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    job->items = arena_calloc(arena, (size_t)count, sizeof *job->items);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    job->attention = arena_calloc(arena, (size_t)count, sizeof *job->attention);
    if (!job->slots || !job->items || !job->attention)
        return fault_no_memory(fault);
    job->slot_count = count;
    if (!plan_next(job, fault))
        return false;
    for (int64_t i = 0; i < count; i++) {
        struct completion_slot *slot = &job->slots[i];
        const size_t layers = (size_t)job->model->layer_count;
        slot->item = &job->next.items[i];
        slot->attention = &job->next.attention.items[i];
        slot->steps = arena_calloc(arena, layers, sizeof *slot->steps);
        slot->past.caches = arena_calloc(arena, layers, sizeof(struct infer_cache *));
        slot->logits = job->asked.temperature > 0
                           ? arena_calloc(arena, (size_t)vocabulary, sizeof *slot->logits)
                           : NULL;
        if (!slot->steps || !slot->past.caches || (job->asked.temperature > 0 && !slot->logits))
            return fault_no_memory(fault);
    }
    return true;
}

/* ----------------------------------------------------------------------- price -- */

/* Adds the work of rows more like those of the slots, which see kv_len keys each. */
static void add_work(const struct completion *job, double rows, double kv_len,
                     struct attn_work *work)
{
    const struct attn_work *one = &job->next_groups.work;
    double *sums = (double *)work;
    const double *parts = (const double *)one;
    for (size_t i = 0; i < sizeof *work / sizeof *sums; i++)
        sums[i] += parts[i] * rows / (double)job->slot_count;
    for (int64_t i = 0; i < job->model->layer_count; i++) {
        const struct attn_layer *layer = &job->model->layers[i].layer;
        const double columns = (double)(layer->head_dim + attn_layer_value_columns(layer));
        work->decode_flops += rows * kv_len * 2 * (double)layer->q_heads * columns;
        work->decode_pairs += rows * kv_len * (double)layer->q_heads;
        work->stream_bytes += rows * kv_len * 4 * (double)layer->kv_heads * columns;
    }
}

/* All tokens that there may be; a text may end before. */
static bool price(struct completion *job, struct fault *fault)
{
    struct call *call = job->call;
    struct attn_work work = job->groups.work;
    double answer_bytes = 0, tokens = 0;
    for (int64_t i = 0; i < job->asked.prompts.count; i++) {
        const struct completion_choice *choice = &job->choices[i];
        const double room = (double)choice->room;
        tokens += room;
        answer_bytes +=
            (double)(choice->item->answer_bytes + 2 * job->asked.prompts.list[i].text.size)
            + room * (double)((1 + job->candidates) * TOKEN_BYTES);
        if (choice->room > 1)
            add_work(job, room - 1, (double)choice->item->streams[0].length + room / 2, &work);
    }
    if (answer_bytes > (double)call->limits.answer_bytes_max)
        return fault_set_at(fault, "/max_tokens", FAULT_ANSWER_TOO_LARGE,
                            "the answer may take %.0f bytes, more than the %zu bytes that are "
                            "given; ask for fewer tokens or prompts",
                            answer_bytes, call->limits.answer_bytes_max);
    const int64_t steps =
        job->groups.planned + job->next_groups.steps * (int64_t)(tokens / (double)job->slot_count);
    call->item_count = job->asked.prompts.count;
    call->answer_bytes = (size_t)answer_bytes;
    infer_cost_plan_work(&call->cost, &work, call->item_count + steps, call->answer_bytes, 0,
                         call->answer_coding);
    call->cost.is_less = true;
    cost_guess_learn(call->guess_key, infer_cost_ns(&call->cost));
    call_share_stages(call, job->groups.steps + steps);
    return true;
}

static bool is_stopped(void *call)
{
    return call_is_stopped(call);
}

static bool plan(struct call *call, struct fault *fault)
{
    struct completion *job = completion_of(call);
    job->request.stop = (struct tokenizer_stop){ is_stopped, call };
    job->request.kept = job->next.kept = call->service->kept;
    job->request.key = job->next.key = call->limits.key;
    job->candidates = job->asked.has_logprobs ? job->asked.logprobs : 0;
    if (!find_model(job, fault) || !check_ids(job, fault) || !plan_prompts(job, fault))
        return false;
    infer_cost_was_tokenized(&call->cost, job->request.tokenized_bytes);
    const int64_t vocabulary = trace_vocabulary(job->model->forward);
    job->candidates = job->candidates < vocabulary ? job->candidates : vocabulary;
    if (!make_choices(job, fault) || !make_slots(job, fault) || !price(job, fault))
        return false;
    const size_t bytes = job->groups.pass_bytes > job->next_groups.pass_bytes
                             ? job->groups.pass_bytes
                             : job->next_groups.pass_bytes;
    return memory_reserve(call->memory, bytes) || fault_no_memory(fault);
}

/* --------------------------------------------------------------------- computing -- */

static int64_t tasks(struct call *call, int stage)
{
    struct completion *job = completion_of(call);
    if (stage == 0)
        infer_statistics_pending(&job->request.attention, &job->pending, true);
    return completion_tasks(job, &call->fault);
}

static void run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct completion *job = completion_of(call);
    if (stage == 0 && task == 0)
        infer_statistics_pending(&job->request.attention, &job->pending, false);
    completion_run(job, task, worker);
}

static void end(struct call *call, struct fault *fault)
{
    struct completion *job = completion_of(call);
    completion_stop(job);
    infer_statistics_pending(&job->request.attention, &job->pending, false);
    infer_job_check_models(&job->request.attention, fault);
}

static void record(struct call *call, struct request_record *record)
{
    infer_statistics_record(record, &completion_of(call)->request.attention, &call->cost);
}

static void drop(struct call *call)
{
    struct completion *job = completion_of(call);
    completion_stop(job);
    for (int64_t i = 0; job->choices && i < job->asked.prompts.count; i++)
        text_free(&job->choices[i].text);
    job->choices = NULL;
    job->slot_count = 0;
    operation_drop(call);
    trace_request_free(&job->next);
    trace_request_free(&job->request);
    model_release(job->model);
    job->model = NULL;
}

static const struct call_kind KIND = { .work_bytes = sizeof(struct completion),
                                       .init = init,
                                       .read = operation_read,
                                       .plan = plan,
                                       .tasks = tasks,
                                       .run = run,
                                       .end = end,
                                       .write = operation_write,
                                       .record = record,
                                       .drop = drop };
const struct operation completions_call = {
    .kind = &KIND, .formats = operation_formats_json, .read = read_body, .finish = completion_write
};
