/* traffic_report.h - what loads showed: a table for people, and JSON lines in build/. */
#ifndef BENCH_TRAFFIC_REPORT_H
#define BENCH_TRAFFIC_REPORT_H

#include "traffic.h"

struct traffic_row {
    const char *server, *workload, *point;
    struct traffic_result *result; /* its samples are sorted */
    double offered_per_s;          /* 0: a closed loop */
    double capacity_per_s;         /* what goodput is compared with; 0: nothing */
    double server_cpu_s;
};

/* Lines go to build/load_<name>.jsonl, which begins anew. */
void traffic_report_open(const char *name);

void traffic_report_heading(void);
void traffic_report_row(const struct traffic_row *row);

/* A number of its own, in the lines alone. */
void traffic_report_figure(const char *name, double value, const char *unit);

double traffic_good_per_s(const struct traffic_result *result);

/* Counted seconds of a load: ATTND_LOAD_SECONDS, or fallback. */
double traffic_seconds(double fallback);

#endif
