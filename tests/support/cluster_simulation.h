/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_simulation.h - pods of attnd behind a Service, under a load, with an autoscaler: in
 * virtual time, with the same numbers each time.
 *
 * A pod has workers and one queue, first come first served. The Service takes any pod that is
 * ready, whatever its queue. Prometheus and metrics-server ask each pod every SCRAPE_S, at a
 * moment of its own; the autoscaler decides every 15 s on what they have. A new pod is ready after
 * START_S: scheduled, started, its models loaded, its probe answered. A pod that is taken away gets
 * nothing new and does what it has. */
#ifndef CLUSTER_SIMULATION_H
#define CLUSTER_SIMULATION_H

#include "autoscaler.h"

#include <stdint.h>

enum { CLUSTER_PODS = 16, CLUSTER_WORKERS = 2, CLUSTER_SAMPLES = 4, CLUSTER_LATENCIES = 400 };

struct cluster_pod {
    bool exists;
    double ready_s; /* when it begins to serve */
    double scraped_s;
    double free_s[CLUSTER_WORKERS]; /* when each worker has done all that it has */
    double accepted_s;              /* work, in seconds of one worker */
    double costs[CLUSTER_SAMPLES];  /* of the last scrapes, the newest first */
    double busy_s[2];               /* CPU time up to each of the last two scrapes */
    int samples;
};

/* Latencies by their logarithm: 1 % wide. */
struct cluster_latencies {
    int64_t counts[CLUSTER_LATENCIES];
    int64_t total;
};

struct cluster {
    struct autoscaler autoscaler;
    struct cluster_pod pods[CLUSTER_PODS];
    int replicas; /* asked for: those that start among them */
    uint64_t random;
    double at_s, next_arrival_s, next_decision_s;
    struct cluster_latencies latencies; /* since they were last cleared */
    int64_t late;                       /* requests that took over a second */
    int64_t refused;                    /* for want of room in the queue */
    int changes;                        /* of the number of replicas */
    double pod_s;                       /* pods, times seconds */
};

/* Pods are ready, as many as the rules' least. */
void cluster_init(struct cluster *cluster, const struct autoscaler_rules *rules, uint64_t seed);

/* Goes on to a time, under so many requests a second. */
void cluster_run(struct cluster *cluster, double until_s, double rate);

int cluster_ready(const struct cluster *cluster);

/* Seconds of one worker that a request takes, on average. */
double cluster_request_s(void);

/* In seconds; 0: there were none. */
double cluster_latency(const struct cluster_latencies *latencies, double quantile);

#endif
