/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_simulation.c - see cluster_simulation.h. */
#include "cluster_simulation.h"

#include <math.h>
#include <string.h>

static const double SCRAPE_S = 15, DECISION_S = 15, START_S = 15;
static const double QUEUE_MAX_S = 60; /* --queue-cost-max, unless it is set */
static const double LATE_S = 1, LEAST_S = 0.001, STEP = 1.035;

/* Small, middle and large requests, as a service gets them. */
static const struct {
    double part, seconds;
} KINDS[] = { { 0.80, 0.010 }, { 0.15, 0.040 }, { 0.05, 0.200 } };
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

/* ----------------------------------------------------------------------------------- helpers -- */

/* From 0 to 1, by splitmix64. */
static double draw(struct cluster *cluster)
{
    uint64_t z = cluster->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static bool is_ready(const struct cluster_pod *pod, double at_s)
{
    return pod->exists && pod->ready_s <= at_s;
}

/* attnd_queue_cost_seconds: what is accepted and not done, in seconds of one worker. */
static double queue_cost(const struct cluster_pod *pod, double at_s)
{
    double cost = 0;
    for (int i = 0; i < CLUSTER_WORKERS; i++)
        cost += fmax(0, pod->free_s[i] - at_s);
    return cost;
}

double cluster_request_s(void)
{
    double mean = 0;
    for (int i = 0; i < KIND_COUNT; i++)
        mean += KINDS[i].part * KINDS[i].seconds;
    return mean;
}

int cluster_ready(const struct cluster *cluster)
{
    int ready = 0;
    for (int i = 0; i < CLUSTER_PODS; i++)
        ready += is_ready(&cluster->pods[i], cluster->at_s);
    return ready;
}

/* --------------------------------------------------------------------------------- latencies -- */

static void add_latency(struct cluster_latencies *latencies, double seconds)
{
    const int place = seconds <= LEAST_S ? 0 : (int)(log(seconds / LEAST_S) / log(STEP));
    latencies->counts[place < CLUSTER_LATENCIES ? place : CLUSTER_LATENCIES - 1]++;
    latencies->total++;
}

double cluster_latency(const struct cluster_latencies *latencies, double quantile)
{
    int64_t below = 0;
    for (int i = 0; i < CLUSTER_LATENCIES; i++) {
        below += latencies->counts[i];
        if (below > 0 && (double)below >= quantile * (double)latencies->total)
            return LEAST_S * pow(STEP, i + 1);
    }
    return 0;
}

/* ---------------------------------------------------------------------------------- requests -- */

static struct cluster_pod *any_ready_pod(struct cluster *cluster)
{
    int place = (int)(draw(cluster) * cluster_ready(cluster));
    for (int i = 0; i < CLUSTER_PODS; i++)
        if (is_ready(&cluster->pods[i], cluster->at_s) && place-- == 0)
            return &cluster->pods[i];
    return NULL;
}

static void arrive(struct cluster *cluster)
{
    struct cluster_pod *pod = any_ready_pod(cluster);
    double kind = draw(cluster);
    int i = 0;
    while (i < KIND_COUNT - 1 && kind >= KINDS[i].part)
        kind -= KINDS[i++].part;
    if (!pod || queue_cost(pod, cluster->at_s) > QUEUE_MAX_S * CLUSTER_WORKERS) {
        cluster->refused++;
        return;
    }
    double *first = &pod->free_s[0];
    for (int w = 1; w < CLUSTER_WORKERS; w++)
        if (pod->free_s[w] < *first)
            first = &pod->free_s[w];
    *first = fmax(*first, cluster->at_s) + KINDS[i].seconds;
    pod->accepted_s += KINDS[i].seconds;
    add_latency(&cluster->latencies, *first - cluster->at_s);
    cluster->late += *first - cluster->at_s > LATE_S;
}

/* -------------------------------------------------------------------------------- autoscaling --
 */

static void scrape(struct cluster_pod *pod)
{
    memmove(pod->costs + 1, pod->costs, sizeof pod->costs - sizeof pod->costs[0]);
    pod->costs[0] = queue_cost(pod, pod->scraped_s);
    pod->busy_s[1] = pod->busy_s[0];
    pod->busy_s[0] = pod->accepted_s - pod->costs[0];
    pod->samples++;
}

static double mean_cost(const struct cluster_pod *pod)
{
    const int count = pod->samples < CLUSTER_SAMPLES ? pod->samples : CLUSTER_SAMPLES;
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += pod->costs[i];
    return count > 0 ? sum / count : NAN;
}

static double cpu_share(const struct cluster_pod *pod)
{
    return pod->samples < 2 ? NAN : (pod->busy_s[0] - pod->busy_s[1]) / SCRAPE_S / CLUSTER_WORKERS;
}

static void start_pod(struct cluster *cluster, double ready_s)
{
    for (int i = 0; i < CLUSTER_PODS; i++)
        if (!cluster->pods[i].exists) {
            cluster->pods[i] = (struct cluster_pod){
                .exists = true,
                .ready_s = ready_s,
                .scraped_s = ready_s + draw(cluster) * SCRAPE_S,
            };
            return;
        }
}

static void stop_youngest_pod(struct cluster *cluster)
{
    struct cluster_pod *youngest = NULL;
    for (int i = 0; i < CLUSTER_PODS; i++)
        if (cluster->pods[i].exists && (!youngest || cluster->pods[i].ready_s > youngest->ready_s))
            youngest = &cluster->pods[i];
    if (youngest)
        youngest->exists = false;
}

static void decide(struct cluster *cluster)
{
    const struct autoscaler_rules *rules = &cluster->autoscaler.rules;
    double costs[CLUSTER_PODS], cpus[CLUSTER_PODS];
    int count = 0, asked = rules->min;
    for (int i = 0; i < CLUSTER_PODS; i++)
        if (cluster->pods[i].exists) {
            costs[count] = mean_cost(&cluster->pods[i]);
            cpus[count++] = cpu_share(&cluster->pods[i]);
        }
    if (rules->cost_target > 0)
        asked = autoscaler_ask(cluster->replicas, costs, count, rules->cost_target);
    if (rules->cpu_target > 0) {
        const int by_cpu = autoscaler_ask(cluster->replicas, cpus, count, rules->cpu_target);
        asked = by_cpu > asked ? by_cpu : asked;
    }
    const int next =
        autoscaler_decide(&cluster->autoscaler, cluster->at_s, cluster->replicas, asked);
    cluster->changes += next != cluster->replicas;
    for (; cluster->replicas < next; cluster->replicas++)
        start_pod(cluster, cluster->at_s + START_S);
    for (; cluster->replicas > next; cluster->replicas--)
        stop_youngest_pod(cluster);
}

/* -------------------------------------------------------------------------------------- time -- */

void cluster_init(struct cluster *cluster, const struct autoscaler_rules *rules, uint64_t seed)
{
    *cluster = (struct cluster){
        .autoscaler.rules = *rules,
        .random = seed,
        .next_arrival_s = NAN,
        .next_decision_s = DECISION_S,
    };
    for (; cluster->replicas < rules->min; cluster->replicas++)
        start_pod(cluster, 0);
}

/* The pod whose scrape is next, if that is before the time. */
static struct cluster_pod *next_scrape(struct cluster *cluster, double before_s)
{
    struct cluster_pod *next = NULL;
    for (int i = 0; i < CLUSTER_PODS; i++) {
        struct cluster_pod *pod = &cluster->pods[i];
        if (pod->exists && pod->scraped_s < (next ? next->scraped_s : before_s))
            next = pod;
    }
    return next;
}

/* All scrapes and decisions up to a time. */
static void watch(struct cluster *cluster, double until_s)
{
    for (;;) {
        const bool decides = cluster->next_decision_s <= until_s;
        const double end_s = decides ? cluster->next_decision_s : until_s;
        for (struct cluster_pod *pod; (pod = next_scrape(cluster, end_s));) {
            scrape(pod);
            pod->scraped_s += SCRAPE_S;
        }
        if (!decides)
            return;
        cluster->pod_s += cluster->replicas * DECISION_S;
        cluster->at_s = end_s;
        decide(cluster);
        cluster->next_decision_s += DECISION_S;
    }
}

void cluster_run(struct cluster *cluster, double until_s, double rate)
{
    /* Arrivals of the old rate would come too late or too early. */
    cluster->next_arrival_s = cluster->at_s - log(1 - draw(cluster)) / rate;
    while (cluster->next_arrival_s < until_s) {
        watch(cluster, cluster->next_arrival_s);
        cluster->at_s = cluster->next_arrival_s;
        arrive(cluster);
        cluster->next_arrival_s -= log(1 - draw(cluster)) / rate;
    }
    watch(cluster, until_s);
    cluster->at_s = until_s;
}
