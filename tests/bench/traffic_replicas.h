/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_replicas.h - replicas of the daemon as processes behind haproxy, which learns by its
 * runtime API of those that come and go, as the endpoints of a Service do. */
#ifndef BENCH_TRAFFIC_REPLICAS_H
#define BENCH_TRAFFIC_REPLICAS_H

#include "balancer.h"
#include "daemon.h"
#include "http_client.h"

#include <stdint.h>

enum { REPLICAS_MAX = 8, REPLICA_SCRAPES = 4 };

struct replica {
    struct daemon daemon;
    struct http_client client;
    double costs[REPLICA_SCRAPES]; /* attnd_queue_cost_seconds, the newest first */
    double cpu_s, cpu_at_s;        /* CPU time up to the last scrape */
    double cpu_share;              /* of what a replica may use; NAN: not known yet */
    int scrapes;
};

struct replicas {
    struct balancer balancer;
    struct replica replicas[REPLICAS_MAX];
    int count;
    double cpus;    /* that each may use, where the kernel can be told; 1: all of one */
    char admin[64]; /* the socket of haproxy's runtime API */
    bool bounded;   /* the kernel was told */
};

/* What haproxy has counted since it was started. */
struct replicas_counts {
    int64_t requests, good; /* good: 2xx */
    int64_t failed;         /* 4xx, 5xx and others, and requests that were broken off */
};

/* Starts haproxy, which has no replica yet. */
void replicas_init(struct replicas *replicas, double cpus);

/* Starts and stops replicas until there are count. One that ends gets nothing new, is told to end
 * and has until it did what it has. */
void replicas_set(struct replicas *replicas, int count);

/* Asks a replica for its queue's cost and its CPU time, as Prometheus and metrics-server do. */
void replicas_scrape(struct replicas *replicas, int index);

/* The mean of the last minute of scrapes; NAN: there is none. */
double replicas_mean_cost(const struct replica *replica);

struct replicas_counts replicas_counts(const struct replicas *replicas);

void replicas_free(struct replicas *replicas);

#endif
