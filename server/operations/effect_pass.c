/* SPDX-License-Identifier: Apache-2.0 */
/* effect_pass.c - what all passes cost, and running them: the base pass, that of the other input,
 * then a wave of variants at a time, list by list, and what each variant changed. */
#include "operations/effect.h"

#include "call/admission.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------- price -- */

struct effect_price {
    struct attn_work work;
    double steps;
    size_t bytes; /* of the pass that takes most */
};

/* What the pass that is there takes when it runs: the items of waves then have texts and edits of
 * their own, where tokens are left out. */
static size_t pass_bytes(const struct effects *job)
{
    return job->arena.used + (size_t)job->wave.item_count * job->cut_bytes;
}

/* Adds the pass that is there, so many times, and ends it. */
static void add_pass(struct effects *job, const struct attn_work *work, int64_t times,
                     struct effect_price *price)
{
    double *sums = (double *)&price->work;
    const double *parts = (const double *)work;
    for (size_t i = 0; i < sizeof *work / sizeof *sums; i++)
        sums[i] += parts[i] * (double)times;
    const size_t bytes = pass_bytes(job);
    price->steps += (double)pass_step_count(job->pass) * (double)times;
    price->bytes = bytes > price->bytes ? bytes : price->bytes;
    effect_pass_end(job);
}

static bool price_single(struct effects *job, struct trace_request *request,
                         struct effect_price *price, struct fault *fault)
{
    struct attn_work work = { 0 };
    const bool made =
        effect_pass_begin(job, &request->items[0], &request->attention.items[0], &work, fault);
    if (made)
        add_pass(job, &work, 1, price);
    else
        effect_pass_end(job);
    return made;
}

static int64_t first_wave(const struct effects *job, const struct effect_list *list)
{
    const struct trace_item *base = effect_base(job);
    int64_t rows = 1, most = EFFECT_WAVE_VARIANTS;
    for (int i = 0; i < MODEL_STREAMS_MAX; i++)
        rows += base->streams[i].length;
    if (EFFECT_WAVE_ROWS / rows < most)
        most = EFFECT_WAVE_ROWS / rows;
    if (base->logit_rows.values
        && EFFECT_WAVE_LOGITS / trace_vocabulary(base->model->forward) < most)
        most = EFFECT_WAVE_LOGITS / trace_vocabulary(base->model->forward);
    most = most < 1 ? 1 : most;
    return list->count < most ? list->count : most;
}

/* Finds how many variants a wave of the list has, and adds its waves. */
static bool price_list(struct effects *job, struct effect_list *list, struct effect_price *price,
                       struct fault *fault)
{
    const size_t given = job->call->limits.scratch_bytes_max / 2; /* the rest is the request's */
    const size_t most = given < EFFECT_WAVE_BYTES ? given : EFFECT_WAVE_BYTES;
    struct attn_work work;
    for (list->wave = first_wave(job, list); list->count > 0; list->wave = (list->wave + 1) / 2) {
        struct fault own = { .code = FAULT_NONE };
        work = (struct attn_work){ 0 };
        const bool made = effect_wave_begin(job, list, 0, list->wave, true, &work, &own);
        if (made && (list->wave == 1 || pass_bytes(job) <= most))
            break;
        effect_pass_end(job);
        if (list->wave == 1) {
            *fault = own;
            return false;
        }
    }
    if (list->count == 0)
        return true;
    const int64_t rest = list->count % list->wave;
    add_pass(job, &work, list->count / list->wave, price);
    if (rest == 0)
        return true;
    work = (struct attn_work){ 0 };
    const bool made = effect_wave_begin(job, list, 0, rest, true, &work, fault);
    if (made)
        add_pass(job, &work, 1, price);
    else
        effect_pass_end(job);
    return made;
}

bool effect_price(struct effects *job, struct fault *fault)
{
    struct call *call = job->call;
    struct effect_price price = { .steps = 0 };
    if (!price_single(job, &job->request, &price, fault)
        || (job->asked.by == EFFECT_FROM && !price_single(job, &job->other, &price, fault)))
        return false;
    for (int64_t i = 0; i < job->list_count; i++)
        if (!price_list(job, &job->lists[i], &price, fault))
            return false;
    if (effect_is_divergence(job))
        price.work.pairs +=
            (double)job->variant_count * (double)trace_vocabulary(effect_base(job)->model->forward);
    call->item_count = 1;
    call->answer_bytes = effect_answer_bytes(job);
    infer_cost_plan_work(&call->cost, &price.work, job->variant_count + (int64_t)price.steps,
                         call->answer_bytes, job->request.number_bytes, call->answer_coding);
    call->cost.is_less = true;
    cost_guess_learn(call->guess_key, infer_cost_ns(&call->cost));
    call_share_stages(call, (int64_t)price.steps);
    return memory_reserve(call->memory, price.bytes) || fault_no_memory(fault);
}

/* ------------------------------------------------------------------------ effects -- */

/* The divergence of what the item predicts from what the base pass does, in double. */
static float divergence_of(const struct effects *job, const struct trace_item *item)
{
    const float *base = effect_base(job)->logit_rows.values, *edited = item->logit_rows.values;
    const int64_t count = trace_vocabulary(effect_base(job)->model->forward);
    const struct attn_row_sums sums = attn_row_sums(edited, count);
    double divergence = 0;
    for (int64_t i = 0; i < count; i++) {
        const double own = (double)base[i] - job->base_sums.max - job->base_sums.log_sum;
        const double other = (double)edited[i] - sums.max - sums.log_sum;
        const double probability = exp(own);
        if (probability > 0)
            divergence += probability * (own - other);
    }
    return (float)divergence;
}

/* As a trace answers it: a log-prob, or logit_difference. */
static float value_of(const struct effects *job, const struct trace_item *item)
{
    const struct trace_score *scores = item->scores;
    return job->asked.metric.target.against.has ? scores[0].logprob - scores[1].logprob
                                                : scores[0].logprob;
}

static void measure(const struct effects *job, int64_t number)
{
    const struct trace_item *item = &job->wave.items[number];
    float *effect = &job->effects[job->lists[job->list].first + job->done + number];
    *effect = effect_is_divergence(job) ? divergence_of(job, item)
                                        : value_of(job, item) - job->base_value;
}

/* ------------------------------------------------------------------------ running -- */

static void end_base(struct effects *job)
{
    const struct trace_item *base = effect_base(job);
    if (effect_is_divergence(job))
        job->base_sums =
            attn_row_sums(base->logit_rows.values, trace_vocabulary(base->model->forward));
    else
        job->base_value = value_of(job, base);
}

/* The next wave. False: there is none, or the fault is set. */
static bool begin_wave(struct effects *job, struct fault *fault)
{
    struct attn_work work = { 0 };
    job->done += job->count;
    job->count = 0;
    while (job->list < job->list_count && job->done == job->lists[job->list].count) {
        job->list++;
        job->done = 0;
    }
    if (job->list == job->list_count)
        return false;
    const struct effect_list *list = &job->lists[job->list];
    const int64_t left = list->count - job->done;
    job->count = left < list->wave ? left : list->wave;
    job->phase = EFFECT_PASSES;
    return effect_wave_begin(job, list, job->done, job->count, false, &work, fault);
}

/* What was computed is over: makes the next pass, or returns the tasks of measuring. */
static bool go_on(struct effects *job, struct fault *fault)
{
    struct attn_work work = { 0 };
    switch (job->phase) {
    case EFFECT_BEGINS:
        job->phase = EFFECT_BASE;
        return effect_pass_begin(job, effect_base(job), &job->request.attention.items[0], &work,
                                 fault);
    case EFFECT_BASE:
        end_base(job);
        effect_pass_end(job);
        if (job->asked.by != EFFECT_FROM)
            return begin_wave(job, fault);
        job->phase = EFFECT_OTHER;
        return effect_pass_begin(job, &job->other.items[0], &job->other.attention.items[0], &work,
                                 fault);
    case EFFECT_PASSES:
        job->phase = EFFECT_MEASURES;
        return true;
    default:
        effect_pass_end(job);
        return begin_wave(job, fault);
    }
}

int64_t effect_tasks(struct effects *job, struct fault *fault)
{
    for (;;) {
        const bool runs = job->phase != EFFECT_BEGINS && job->phase != EFFECT_MEASURES;
        const int64_t count = runs ? pass_tasks(job->pass, fault) : 0;
        if (count > 0 || fault->code != FAULT_NONE)
            return count;
        if (!go_on(job, fault))
            return 0;
        if (job->phase == EFFECT_MEASURES)
            return job->count;
    }
}

void effect_run(struct effects *job, int64_t task, const struct worker *worker)
{
    if (job->phase == EFFECT_MEASURES)
        measure(job, task);
    else
        pass_run(job->pass, task, worker);
}
