/* SPDX-License-Identifier: Apache-2.0 */
/* load_autoscale.c - the autoscaler of deploy/kubernetes/queue-cost on replicas that are processes
 * of this machine, behind haproxy.
 *
 *     load_autoscale
 *
 * Each replica has one worker and, where the kernel can be told (root, groups of version 1), a
 * fifth of a CPU; so several replicas carry more than one. Requests arrive by Poisson: half of what
 * two replicas carry, then two thirds of what six do, then the first load again. Every 15 s each
 * replica is asked for its metrics, and the controller's arithmetic (autoscaler.h) with the numbers
 * of the manifests decides how many there should be. For the way back alone the stabilization
 * window is 30 s, and one replica goes every 10 s, so that a run takes three minutes. What haproxy
 * counted says whether a request failed. */
#include "autoscaler.h"
#include "traffic.h"
#include "traffic_replicas.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PHASES = 3, NEEDED = 6, CALIBRATE_S = 3, SENTENCES = 24, BODY_BYTES = 2048 };

static const double CPUS = 0.2, PERIOD_S = 15, WARM_UP = 1.2; /* traffic_run() adds a fifth */
static const double CALM_S = 30, STEP_S = 75, BACK_S = 75;

struct phase {
    const char *name;
    double seconds, rate;
    struct traffic_result result;
};

struct traffic_of_all {
    struct phase phases[PHASES];
    struct traffic_request request;
    int port;
    atomic_int phase; /* the one that runs; PHASES: none any more */
};

/* A text of a thousand bytes through a small model: little to read and to write, much to compute.
 */
static struct traffic_request make_request(void)
{
    char body[BODY_BYTES] = "{\"model\":\"stories260K\",\"layers\":[4],"
                            "\"weight_map\":{\"heads\":[0],\"rows\":[0]},\"text\":\"";
    for (int i = 0; i < SENTENCES; i++)
        strcat(body, "Once upon a time there was a little girl named Lily. ");
    strcat(body, "\"}");
    return traffic_json("/v1/trace", body, 0);
}

static void run_phase(struct traffic_of_all *all, struct phase *phase)
{
    const struct traffic_load load = {
        .port = all->port,
        .requests = &all->request,
        .request_count = 1,
        .seconds = phase->seconds / WARM_UP,
        .rate = phase->rate,
        .callers = 2000,
        .deadline_s = 60,
    };
    traffic_run(&load, &phase->result);
}

static void *run_phases(void *argument)
{
    struct traffic_of_all *all = argument;
    for (int i = 0; i < PHASES; i++) {
        atomic_store(&all->phase, i);
        run_phase(all, &all->phases[i]);
    }
    atomic_store(&all->phase, PHASES);
    return NULL;
}

/* CPU seconds of one request, by a replica that has nothing else to do. */
static double calibrate(struct replicas *replicas, struct traffic_of_all *all)
{
    struct traffic_result result = { 0 };
    const struct replicas_counts before = replicas_counts(replicas);
    double cpu_s = 0;
    for (int i = 0; i < replicas->count; i++)
        cpu_s -= daemon_cpu_seconds(&replicas->replicas[i].daemon);
    const struct traffic_load load = { .port = all->port,
                                       .requests = &all->request,
                                       .request_count = 1,
                                       .seconds = CALIBRATE_S,
                                       .callers = 1 };
    traffic_run(&load, &result);
    for (int i = 0; i < replicas->count; i++)
        cpu_s += daemon_cpu_seconds(&replicas->replicas[i].daemon);
    traffic_result_free(&result);
    return cpu_s / (double)(replicas_counts(replicas).requests - before.requests);
}

static int asked_for(const struct autoscaler *autoscaler, const struct replicas *replicas,
                     double *cost, double *cpu)
{
    double costs[REPLICAS_MAX], cpus[REPLICAS_MAX];
    *cost = *cpu = 0;
    for (int i = 0; i < replicas->count; i++) {
        costs[i] = replicas_mean_cost(&replicas->replicas[i]);
        cpus[i] = replicas->replicas[i].cpu_share;
        *cost += isnan(costs[i]) ? 0 : costs[i] / replicas->count;
        *cpu += isnan(cpus[i]) ? 0 : cpus[i] / replicas->count;
    }
    const int count = replicas->count;
    const int by_cost = autoscaler_ask(count, costs, count, autoscaler->rules.cost_target);
    const int by_cpu = autoscaler_ask(count, cpus, count, autoscaler->rules.cpu_target);
    return by_cost > by_cpu ? by_cost : by_cpu;
}

/* Returns the seconds from the step until six replicas were ready; -1: never. */
static double control(struct autoscaler *autoscaler, struct replicas *replicas,
                      struct traffic_of_all *all)
{
    const double start_s = daemon_now();
    double step_s = -1, reached_s = -1, next_s = PERIOD_S;
    for (int phase; (phase = atomic_load(&all->phase)) < PHASES; daemon_pause(0.1)) {
        const double at_s = daemon_now() - start_s;
        if (phase == 1 && step_s < 0)
            step_s = at_s;
        if (phase == 2) {
            autoscaler->rules.down.window_s = 30;
            autoscaler->rules.down.policies[0].period_s = 10;
        }
        if (at_s < next_s)
            continue;
        double cost, cpu;
        for (int i = 0; i < replicas->count; i++)
            replicas_scrape(replicas, i);
        const int asked = asked_for(autoscaler, replicas, &cost, &cpu);
        const int next = autoscaler_decide(autoscaler, at_s, replicas->count, asked);
        printf("%5.0f s  %-8s %d replicas, queue %6.3f s, CPU %3.0f %%: %d asked for, %d taken\n",
               at_s, all->phases[phase].name, replicas->count, cost, 100 * cpu, asked, next);
        fflush(stdout);
        replicas_set(replicas, next);
        if (step_s >= 0 && reached_s < 0 && replicas->count >= NEEDED)
            reached_s = daemon_now() - start_s - step_s;
        next_s += PERIOD_S;
    }
    return reached_s;
}

static void report(const struct replicas *replicas, struct traffic_of_all *all, double reached_s,
                   int64_t calibration)
{
    const struct replicas_counts counts = replicas_counts(replicas);
    for (int i = 0; i < PHASES; i++) {
        struct traffic_result *result = &all->phases[i].result;
        printf("%-8s %6.1f requests/s, p50 %7.0f ms, p99 %7.0f ms; without an answer: %lld\n",
               all->phases[i].name, all->phases[i].rate,
               traffic_samples_quantile(&result->latency_ms, 0.5),
               traffic_samples_quantile(&result->latency_ms, 0.99),
               (long long)(result->abandoned + result->broken + result->unsent));
        traffic_result_free(result);
    }
    printf("%d replicas ready %.0f s after the step; %s\n", NEEDED, reached_s,
           replicas->bounded ? "a fifth of a CPU each" : "CPUs shared: the kernel was not told");
    printf("haproxy: %lld requests, %lld answered with 200, %lld failed\n",
           (long long)(counts.requests - calibration), (long long)(counts.good - calibration),
           (long long)counts.failed);
}

int main(void)
{
    static struct replicas replicas;
    static struct autoscaler autoscaler;
    struct traffic_of_all all = { .phases = { { .name = "calm", .seconds = CALM_S },
                                              { .name = "step", .seconds = STEP_S },
                                              { .name = "back", .seconds = BACK_S } } };
    pthread_t traffic;
    if (access("/usr/sbin/haproxy", X_OK) != 0) {
        printf("haproxy is not installed\n");
        return 0;
    }
    autoscaler_read(&autoscaler.rules);
    replicas_init(&replicas, CPUS);
    replicas_set(&replicas, autoscaler.rules.min);
    all.port = replicas.balancer.port;
    all.request = make_request();
    const double request_s = calibrate(&replicas, &all);
    const int64_t calibration = replicas_counts(&replicas).good;
    all.phases[0].rate = all.phases[2].rate = 0.5 * autoscaler.rules.min * CPUS / request_s;
    all.phases[1].rate = 0.68 * NEEDED * CPUS / request_s;
    printf("a request takes %.1f ms of CPU\n", 1e3 * request_s);
    if (pthread_create(&traffic, NULL, run_phases, &all) != 0)
        return 1;
    const double reached_s = control(&autoscaler, &replicas, &all);
    pthread_join(traffic, NULL);
    report(&replicas, &all, reached_s, calibration);
    replicas_free(&replicas);
    traffic_requests_free(&all.request, 1);
    return 0;
}
