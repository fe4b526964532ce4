/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_pass.h - whole passes of models by the daemon, in turns with a peer's: a table of tokens
 * a second, ratios, shares of what the machine can do at its best, and where the rest goes.
 *
 * A row is a kind of call on so many threads. One thread is timed in CPU seconds of the whole
 * process, which a busy machine hardly changes, more by the clock. "of peak" is the least time that
 * the products and attention need at the peaks of the units that compute them, by the time that
 * they took, "of read" the same of reading parameters, keys and values once; both are measured in
 * the same rounds (yardstick.h). Parts are the daemon's own count (attnd_pass_seconds_total), of
 * the time of all threads: "waits" is what they had besides while the call was computed, for tasks,
 * to be woken and for CPUs that others had, and "around" is reading, writing and HTTP. */
#ifndef BENCH_TRAFFIC_PASS_H
#define BENCH_TRAFFIC_PASS_H

#include "http_client.h"
#include "metrics_page.h"
#include "ratio.h"
#include "traffic_connection.h"
#include "traffic_server.h"

#include <stdbool.h>
#include <stdio.h>

enum { PASS_ROUNDS_MAX = 31, PASS_PART_COUNT = 6 };

/* What a call needs. A flop is one multiplication or one addition. */
struct pass_work {
    double tokens;
    double product_flops, attention_flops;
    double bytes;     /* parameters, keys and values, once */
    const char *type; /* of the parameters, a name of gguf_block() */
    bool is_one_row;  /* one token behind others */
};

/* The units that a kernel table multiplies with, and how much faster that could be. */
struct pass_peaks {
    double flops, dots, tiles; /* operations a second of one core; 0: there is none */
    double read;               /* bytes a second of all threads */
};

/* The least seconds that the operations take of so many threads, by a daemon with this table. */
double pass_least_s(const struct pass_work *work, const struct pass_peaks *peaks,
                    const char *kernels, int threads);

/* How the time of all threads was spent. */
struct pass_spent {
    double clock_s, compute_s;     /* of the calls; and of computing them, as Server-Timing says */
    double parts[PASS_PART_COUNT]; /* seconds of threads */
};

/* In parts of clock_s times threads: products, attention, rotary, rows, vocabulary, other, waiting,
 * around. */
enum { PASS_SHARE_COUNT = PASS_PART_COUNT + 2 };
void pass_shares(const struct pass_spent *spent, int threads, double shares[PASS_SHARE_COUNT]);

struct pass_row {
    const char *name, *peer; /* peer NULL: none */
    int threads;
    struct traffic_server *server;
    struct pass_work work;

    /* What is measured. */
    int rounds;
    double own_s[PASS_ROUNDS_MAX], peer_s[PASS_ROUNDS_MAX]; /* of a call */
    struct pass_peaks peaks[PASS_ROUNDS_MAX];
    struct pass_spent spent;
    struct ratio_peer busy; /* of the peer */
    double others_s;        /* CPU seconds that others took meanwhile */
    char kernels[32];       /* of the daemon */

    /* Of the round that runs. */
    struct http_client client;
    struct metrics_page before;
    int calls;
    double clock_s, busy_s;
};

/* One round of each. own makes calls between pass_begin() and pass_end(). peer returns the seconds
 * of a call and sets row->busy. */
struct pass_contest {
    void *context;
    void (*own)(void *context, struct pass_row *row);
    double (*peer)(void *context, struct pass_row *row);
};

void pass_begin(struct pass_row *row);
void pass_call(struct pass_row *row, struct traffic_connection *connection,
               const struct traffic_request *request);
void pass_end(struct pass_row *row);

/* What the program was asked for: "[quick] [ROUNDS] [WORD...]". */
struct pass_options {
    bool is_quick;
    int rounds; /* 0: by the time that they take */
    int word_count;
    char **words;
};
struct pass_options pass_options_read(int argc, char **argv);

/* Whether a row's name has all the words. */
bool pass_is_wanted(const struct pass_options *options, const char *name);

/* The lines of the table, as Markdown. The row's rounds are sorted. Returns the ratio; 0: there is
 * none. */
void pass_write_heading(FILE *to);
double pass_write_row(FILE *to, struct pass_row *row);

/* Measures a row and prints it, the first one below the heading. The caller sets what is before
 * rounds, zeroed otherwise. */
void pass_measure(struct pass_row *row, const struct pass_contest *contest,
                  const struct pass_options *options);

#endif
