/* cost.h - what a request has to do, and how long that will take one worker.
 *
 * A cost is a list of amounts, one for each kind of work (a term): so many multiplications and
 * additions of a projection, so many bytes of JSON to read. Computing is counted by the library
 * (work.h), reading and writing here. What one unit of a term takes is its rate: begun with what
 * one machine measured, fitted to this one at start (cost_fit.h), and corrected with every request
 * that is measured. */
#ifndef ATTND_COST_H
#define ATTND_COST_H

#include "text/text.h"
#include "work.h"

/* Term, name in the metrics, nanoseconds of a unit to begin with, and what a unit is. */
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
    X(MOVE, "turn", 0.7)                    /* a number transposed, normed or turned */            \
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
    X(SOFTMAX, "softmax", 6)                /* a number of a softmax of its own */                 \
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

/* The same where both are products with the same parameters, which are read once for both. */
void cost_share(struct cost *sum, const struct cost *cost);

/* Takes out what is a part of it. */
void cost_remove(struct cost *sum, const struct cost *part);

/* What the library counted of one plan. */
void cost_add_work(struct cost *cost, const struct attn_work *work);

/* Multiplications and additions of what is computed. */
double cost_flops(const struct cost *cost);

/* The time one worker takes, at today's rates; at most COST_NS_MAX. Monotone in every amount. */
#define COST_NS_MAX (INT64_MAX / 1024)
int64_t cost_ns(const struct cost *cost);

/* The same at the rates of the table, which nothing that is measured changes: what a request is by
 * its size, whatever else there is to do. */
int64_t cost_by_size_ns(const struct cost *cost);

/* The same of reading the parameters alone. */
int64_t cost_parameters_ns(const struct cost *cost);

/* What did take ns nanoseconds of CPU time has cost this: the rates of its terms give way, each by
 * its share, a little, and not for what is far off. From any thread. */
void cost_observe(const struct cost *cost, int64_t ns);

/* The same at once and all the way; not counted. To begin with. */
void cost_fit_rates(const struct cost *cost, int64_t ns);

/* term is not measured, but is to be to measured as it was to begin with. */
void cost_fit_like(enum cost_term term, enum cost_term measured);

/* How much longer a worker takes by the clock than in CPU time, because others want the CPUs too:
 * 1 or more. Corrected like a rate by what is measured. */
double cost_slowdown(void);
void cost_observe_clock(int64_t cpu_ns, int64_t clock_ns);

/* Rates and sums for GET /metrics. */
void cost_write_metrics(struct text *text);

#endif
