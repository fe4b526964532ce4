/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_report.h - reports the results of loads: a table for people, and JSON lines in build/. */
#ifndef BENCH_TRAFFIC_REPORT_H
#define BENCH_TRAFFIC_REPORT_H

#include "traffic.h"
#include "traffic_server.h"

/* A row of the table. */
struct traffic_row {
    const char *workload, *point;
    double goal_per_s;           /* what goodput is compared with, in requests; 0: nothing */
    double capacity_bytes_per_s; /* or in their bytes: of requests of many sizes a server in need
                                    answers the small ones */
    bool is_bounded;             /* at this load, by */
    double possible; /* the part of the capacity that can be good, in what refusals leave */
};

/* Writes the lines to build/load_<name>.jsonl, which it empties first. */
void traffic_report_open(const char *name);

void traffic_report_heading(void);

/* Runs the load, and again where others took an eighth of a CPU meanwhile, ATTND_LOAD_TRIES (1)
 * times at most. The caller owns the result. Returns the CPU seconds that others took. */
double traffic_run_alone(struct traffic_server *server, const struct traffic_load *load,
                         struct traffic_result *result);

/* The same, and reports it; the samples are sorted. If the server is a rival and was not busy in a
 * closed loop (peers.h), says so in the row. */
void traffic_measure(struct traffic_server *server, const struct traffic_load *load,
                     const struct traffic_row *row, struct traffic_result *result);

/* The CPU seconds that a server which runs on so many CPUs could take of a closed loop: callers
 * keep no more CPUs of the machine busy than there are callers, and the client needs some of that.
 */
double traffic_could_s(int server_cpus, int machine_cpus, int callers,
                       const struct traffic_result *result);

/* Reports a number of its own, in the lines alone. */
void traffic_report_figure(const char *name, double value, const char *unit);

double traffic_good_per_s(const struct traffic_result *result);
double traffic_good_bytes_per_s(const struct traffic_result *result);

/* Counted seconds of a load: ATTND_LOAD_SECONDS, or fallback. */
double traffic_seconds(double fallback);

#endif
