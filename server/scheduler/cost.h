/* SPDX-License-Identifier: Apache-2.0 */
/* cost.h - how much work a request is, and how long that takes one worker.
 *
 * A cost is a list of amounts, one for each kind of work (a term): multiplications and additions of
 * a projection, bytes of JSON to read. The library counts what is computed (work.h); callers count
 * what is read and written. The time of one unit of a term is its rate. Rates begin with numbers
 * that were measured on one machine, are fitted to this machine at start (cost_fit.h), and are
 * corrected by every request that is measured. */
#ifndef ATTND_COST_H
#define ATTND_COST_H

#include "work.h"
#include "json/text.h"

/* Term, name in the metrics, initial rate in nanoseconds, and the unit. */
#define COST_TERM_MAP(X)                                                                           \
    X(REQUEST, "request", 8000)             /* what does not depend on the size of a request */    \
    X(ITEM, "item", 1500)                   /* an item of a batch */                               \
    X(UNPACK, "unpack", 3)                  /* a byte that has been inflated */                    \
    X(READ_TEXT, "read_text", 1.1)          /* a byte of JSON */                                   \
    X(READ_BYTES, "read_bytes", 0.02)       /* a byte of tensors as they are */                    \
    X(TASK, "task", 300)                    /* a task of a plan */                                 \
    X(PROJECT, "project", 0.0095)           /* a flop of a projection */                           \
    X(PARAMETER, "parameter", 0.02)         /* a byte of parameters, out of a cache */             \
    X(PARAMETER_FAR, "parameter_far", 0.07) /* and where there are too many for one */             \
    X(MOVE, "turn", 0.7)                    /* a number transposed, normed or rotated */           \
    X(TILE, "tile", 0.0095)                 /* a flop of scores and context */                     \
    X(PAIR, "pair", 0.25)                   /* a step of the softmax */                            \
    X(DECODE, "few", 0.012)                 /* a flop of few rows */                               \
    X(DECODE_PAIR, "few_pair", 0.2)         /* a step of their softmax */                          \
    X(STREAM, "stream", 0.05)               /* a byte that they read, out of a cache */            \
    X(STREAM_FAR, "stream_far", 0.075)      /* and where there is too much for one */              \
    X(MAP, "map", 0.15)                     /* a byte of a map */                                  \
    X(TANH, "tanh", 0.35)                   /* a tanh of additive scores */                        \
    X(DOUBLE, "double", 0.25)               /* a flop in double */                                 \
    X(GRADIENT, "gradient", 0.0105)         /* a flop of gradients */                              \
    X(GRADIENT_TANH, "gradient_tanh", 0.45) /* a tanh of additive scores and of their gradients */ \
    X(SOFTMAX, "softmax", 6)                /* a number of a softmax call */                       \
    X(TOKENIZE, "tokenize", 150)            /* a byte of text to be tokenized */                   \
    X(WRITE_TEXT, "write_text", 17)         /* a number of JSON */                                 \
    X(WRITE_BYTES, "write_bytes", 0.02)     /* a byte of a tensor in the answer */                 \
    X(PACK, "pack", 30)                     /* a byte to be deflated */

enum cost_term {
#define X(name, text, ns) COST_##name,
    COST_TERM_MAP(X)
#undef X
        COST_TERM_COUNT
};

struct cost {
    double amount[COST_TERM_COUNT];
};

void cost_add(struct cost *sum, const struct cost *cost);

/* Adds the cost of a product with the same parameters, which are read once for both. */
void cost_share(struct cost *sum, const struct cost *cost);

/* Subtracts a part of the sum. */
void cost_remove(struct cost *sum, const struct cost *part);

/* Adds what the library counted for one plan. */
void cost_add_work(struct cost *cost, const struct attn_work *work);

/* Multiplications and additions of computing. */
double cost_flops(const struct cost *cost);

/* The time of one worker at the current rates; at most COST_NS_MAX. Monotone in every amount. */
#define COST_NS_MAX (INT64_MAX / 1024)
int64_t cost_ns(const struct cost *cost);

/* The same at the initial rates, which no measurement changes: the cost of a request by its size
 * alone, whatever the load is. */
int64_t cost_by_size_ns(const struct cost *cost);

/* The time for reading the parameters alone, at the current rates. */
int64_t cost_parameters_ns(const struct cost *cost);

/* Corrects the rates after this cost has taken ns nanoseconds of CPU time: each rate a little, by
 * its term's share. A measurement that is far off counts as off by factor 2. From any thread. */
void cost_observe(const struct cost *cost, int64_t ns);

/* Corrects the rates in full, so that they predict ns; not counted. For the fit at start. */
void cost_fit_rates(const struct cost *cost, int64_t ns);

/* Sets the rate of a term that is not measured: it keeps its initial ratio to the term measured. */
void cost_fit_like(enum cost_term term, enum cost_term measured);

/* Time by the clock for each unit of a worker's CPU time, because other threads want the CPUs too:
 * 1 or more. cost_observe_clock() corrects it by what was measured. */
double cost_slowdown(void);
void cost_observe_clock(int64_t cpu_ns, int64_t clock_ns);

/* Rates and sums for GET /metrics. */
void cost_write_metrics(struct text *text);

#endif
