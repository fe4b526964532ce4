/* SPDX-License-Identifier: Apache-2.0 */
/* work_limit.h - what bounds the time that one text takes, through all steps of the pipeline.
 *
 * A tokenizer's files may ask for any amount of work: patterns that backtrack, pieces of a megabyte
 * that a walk begins at each character. So the loops whose time is not a small multiple of the text
 * count their steps here. Now and then the counter asks whether the request is over: its client
 * left or its deadline passed. Retries of patterns have a budget as well, one for all pieces of a
 * text, since a text may have as many pieces as bytes. */
#ifndef ATTND_WORK_LIMIT_H
#define ATTND_WORK_LIMIT_H

#include "base/fault.h"
#include "models/tokenizer/tokenizer.h"

enum {
    WORK_LIMIT_STEPS = 1 << 18,    /* between two questions whether the request is over */
    WORK_LIMIT_RETRIES = 20000000, /* of the patterns of a text, */
    WORK_LIMIT_RETRIES_BYTE = 100  /* and for each byte that one of them scans */
};

struct work_limit {
    const struct tokenizer_stop *stop; /* NULL: nothing stops the work */
    int64_t text_bytes;                /* of the text, and its pair */
    int64_t steps;                     /* since the last question */
    int64_t retries;                   /* of patterns, that are left */
    int64_t hard_retries;              /* those of hard searches since the last look at a clock */
    int64_t read_bytes;                /* ahead of positions, by patterns, since the last look */
    int64_t matching_ends_ns;          /* for patterns that take long; 0: not known yet */
    bool is_stopped;
};

static inline void work_limit_init(struct work_limit *limit, const struct tokenizer_stop *stop)
{
    *limit = (struct work_limit){ .stop = stop, .retries = WORK_LIMIT_RETRIES };
}

/* Asks whether the request is over, and remembers the answer. False: it is. */
static inline bool work_limit_ask(struct work_limit *limit)
{
    limit->steps = 0;
    if (limit->stop && !limit->is_stopped)
        limit->is_stopped = limit->stop->is_stopped(limit->stop->owner);
    return !limit->is_stopped;
}

/* Counts steps of work, each about as long as a byte's walk in a trie. False: the request is over,
 * and the caller ends. */
static inline bool work_limit_spend(struct work_limit *limit, int64_t steps)
{
    limit->steps += steps;
    return limit->steps < WORK_LIMIT_STEPS || work_limit_ask(limit);
}

/* The fault of work that was stopped. Returns false. */
static inline bool work_limit_fault(struct fault *fault)
{
    return fault_set(fault, FAULT_LEFT, "the request was over before its text was tokenized");
}

#endif
