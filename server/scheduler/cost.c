/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c - see cost.h.
 *
 * Each rate is an atomic number that any thread may read and replace. Two threads that correct one
 * rate at the same moment may lose one of two small corrections, which does no harm; so there is no
 * lock. A correction is made in the logarithm: half of the prediction and twice the prediction pull
 * equally far, and a rate stays positive. */
#include "scheduler/cost.h"

#include "telemetry/metrics_text.h"

#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

/* A measured request moves the rates of its dominating terms by this share of the way, and a
 * measurement counts as at most this factor off. */
static const double GAIN = 1.0 / 16;
static const double FACTOR_MAX = 2.0;

/* A rate always stays within this factor of its initial value. */
static const double DRIFT_MAX = 1e4;

/* After so much CPU time an older measurement of the slowdown has lost two thirds of its weight. */
static const double CLOCK_MEMORY_NS = 3e8;

static const struct {
    const char *name;
    double ns;
} TERMS[COST_TERM_COUNT] = {
#define X(name, text, ns) { text, ns },
    COST_TERM_MAP(X)
#undef X
};

/* Nanoseconds of a unit. */
static _Atomic double rates[COST_TERM_COUNT] = {
#define X(name, text, ns) ns,
    COST_TERM_MAP(X)
#undef X
};

static _Atomic double slowdown = 1;

/* Sums over all that was measured. */
static _Atomic int64_t predicted_sum_ns, actual_sum_ns;
static _Atomic uint64_t observed_count;

void cost_add(struct cost *sum, const struct cost *cost)
{
    for (int i = 0; i < COST_TERM_COUNT; i++)
        sum->amount[i] += cost->amount[i];
}

static bool is_parameter(int term)
{
    return term == COST_PARAMETER || term == COST_PARAMETER_FAR;
}

void cost_share(struct cost *sum, const struct cost *cost)
{
    for (int i = 0; i < COST_TERM_COUNT; i++)
        sum->amount[i] = is_parameter(i) ? fmax(sum->amount[i], cost->amount[i])
                                         : sum->amount[i] + cost->amount[i];
}

void cost_remove(struct cost *sum, const struct cost *part)
{
    for (int i = 0; i < COST_TERM_COUNT; i++)
        sum->amount[i] -= part->amount[i];
}

/* Data above half of the largest cache, which is shared, does not stay in it. */
static enum cost_term near_or_far(double amount, enum cost_term near, enum cost_term far)
{
    static _Atomic long cached;
    long bytes = atomic_load_explicit(&cached, memory_order_relaxed);
    if (bytes == 0) {
        bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
        if (bytes <= 0)
            bytes = 32L << 20;
        atomic_store_explicit(&cached, bytes, memory_order_relaxed);
    }
    return amount > (double)bytes / 2 ? far : near;
}

void cost_add_work(struct cost *cost, const struct attn_work *work)
{
    double *amount = cost->amount;
    amount[COST_TASK] += work->tasks;
    amount[COST_PROJECT] += work->projection_flops;
    amount[near_or_far(work->parameter_bytes, COST_PARAMETER, COST_PARAMETER_FAR)] +=
        work->parameter_bytes;
    amount[COST_MOVE] += work->moved_numbers;
    amount[COST_TILE] += work->tile_flops;
    amount[COST_PAIR] += work->pairs;
    amount[COST_DECODE] += work->decode_flops;
    amount[COST_DECODE_PAIR] += work->decode_pairs;
    amount[near_or_far(work->stream_bytes, COST_STREAM, COST_STREAM_FAR)] += work->stream_bytes;
    amount[COST_MAP] += work->map_bytes;
    amount[COST_TANH] += work->tanhs;
    amount[COST_DOUBLE] += work->double_flops;
    amount[COST_GRADIENT] += work->gradient_flops;
    amount[COST_GRADIENT_TANH] += work->gradient_tanhs;
}

double cost_flops(const struct cost *cost)
{
    const double *amount = cost->amount;
    return amount[COST_PROJECT] + amount[COST_TILE] + amount[COST_DECODE] + amount[COST_DOUBLE]
           + amount[COST_GRADIENT];
}

/* ----------------------------------------------------------------- rates -- */

static double load(const _Atomic double *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static void store(_Atomic double *number, double value)
{
    atomic_store_explicit(number, value, memory_order_relaxed);
}

static double within(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Each term's part of the prediction. Returns their sum. */
static double parts_of(const struct cost *cost, double parts[COST_TERM_COUNT])
{
    double sum = 0;
    for (int i = 0; i < COST_TERM_COUNT; i++) {
        parts[i] = cost->amount[i] * load(&rates[i]);
        sum += parts[i];
    }
    return sum;
}

static int64_t in_ns(double ns)
{
    return ns < (double)COST_NS_MAX ? (int64_t)ns : COST_NS_MAX;
}

int64_t cost_ns(const struct cost *cost)
{
    double parts[COST_TERM_COUNT];
    return in_ns(parts_of(cost, parts));
}

int64_t cost_by_size_ns(const struct cost *cost)
{
    double ns = 0;
    for (int i = 0; i < COST_TERM_COUNT; i++)
        ns += cost->amount[i] * TERMS[i].ns;
    return in_ns(ns);
}

int64_t cost_parameters_ns(const struct cost *cost)
{
    double ns = 0;
    for (int i = 0; i < COST_TERM_COUNT; i++)
        if (is_parameter(i))
            ns += cost->amount[i] * load(&rates[i]);
    return in_ns(ns);
}

/* After this, the prediction for the same cost is about factor times as high. A rate moves farther
 * the larger its part is, so that a term with little part in the cost changes little. */
static void correct(const double parts[COST_TERM_COUNT], double sum, double factor)
{
    double squares = 0;
    for (int i = 0; i < COST_TERM_COUNT; i++)
        squares += parts[i] * parts[i];
    for (int i = 0; i < COST_TERM_COUNT; i++)
        if (parts[i] > 0)
            store(&rates[i], within(load(&rates[i]) * pow(factor, parts[i] * sum / squares),
                                    TERMS[i].ns / DRIFT_MAX, TERMS[i].ns * DRIFT_MAX));
}

void cost_observe(const struct cost *cost, int64_t ns)
{
    double parts[COST_TERM_COUNT];
    const double sum = parts_of(cost, parts);
    if (!(sum > 0) || ns <= 0)
        return;
    correct(parts, sum, pow(within((double)ns / sum, 1 / FACTOR_MAX, FACTOR_MAX), GAIN));
    atomic_fetch_add_explicit(&predicted_sum_ns, (int64_t)within(sum, 0, (double)COST_NS_MAX),
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&actual_sum_ns, ns, memory_order_relaxed);
    metrics_count(&observed_count, 1);
}

void cost_fit_rates(const struct cost *cost, int64_t ns)
{
    double parts[COST_TERM_COUNT];
    const double sum = parts_of(cost, parts);
    if (sum > 0 && ns > 0)
        correct(parts, sum, (double)ns / sum);
}

void cost_fit_like(enum cost_term term, enum cost_term measured)
{
    store(&rates[term], TERMS[term].ns * load(&rates[measured]) / TERMS[measured].ns);
}

double cost_slowdown(void)
{
    return load(&slowdown);
}

/* An average of ratios, weighted by CPU time: a short task that waited long counts for as long as
 * it waited, and no more. */
void cost_observe_clock(int64_t cpu_ns, int64_t clock_ns)
{
    if (cpu_ns <= 0)
        return;
    const double weight = -expm1(-(double)cpu_ns / CLOCK_MEMORY_NS);
    const double ratio = (double)clock_ns / (double)cpu_ns;
    const double now = load(&slowdown);
    store(&slowdown, within(now + weight * (ratio - now), 1, 1000));
}

/* --------------------------------------------------------------- metrics -- */

static void write_seconds(struct text *text, const char *name, const char *help,
                          const _Atomic int64_t *ns)
{
    metrics_write_family(text, name, "counter", help);
    text_format(text, "%s %.9f\n", name,
                (double)atomic_load_explicit(ns, memory_order_relaxed) / 1e9);
}

void cost_write_metrics(struct text *text)
{
    write_seconds(text, "attnd_cost_predicted_seconds_total",
                  "CPU time that was predicted for what was measured.", &predicted_sum_ns);
    write_seconds(text, "attnd_cost_actual_seconds_total", "CPU time that it took.",
                  &actual_sum_ns);
    metrics_write_family(text, "attnd_cost_observations_total", "counter",
                         "Parts of requests that were measured.");
    metrics_write_sample(text, "attnd_cost_observations_total", "", metrics_value(&observed_count));
    metrics_write_family(text, "attnd_cost_rate_seconds", "gauge",
                         "CPU time of a unit of each kind of work.");
    for (int i = 0; i < COST_TERM_COUNT; i++)
        text_format(text, "attnd_cost_rate_seconds{term=\"%s\"} %.4e\n", TERMS[i].name,
                    load(&rates[i]) / 1e9);
    metrics_write_family(text, "attnd_cost_slowdown_ratio", "gauge",
                         "Time by the clock for each second of CPU time of a worker.");
    text_format(text, "attnd_cost_slowdown_ratio %.3f\n", cost_slowdown());
}
