/* effort.h - what bounds the time that one text takes, through all steps of the pipeline.
 *
 * A tokenizer's files may ask for any amount of work: patterns that backtrack, pieces of a megabyte
 * that a walk begins at each character. So the loops whose time is not a small multiple of the text
 * count their steps here. Now and then the counter asks whether the request is over: its client
 * left or its deadline passed. Retries of patterns have a budget as well, one for all pieces of a
 * text, since a text may have as many pieces as bytes. */
#ifndef ATTND_EFFORT_H
#define ATTND_EFFORT_H

#include "base/fault.h"
#include "tokenizer/tokenizer.h"

enum {
    EFFORT_STEPS = 1 << 18,    /* between two questions whether the request is over */
    EFFORT_RETRIES = 20000000, /* of the patterns of a text, */
    EFFORT_RETRIES_BYTE = 100  /* and for each byte that one of them scans */
};

struct effort {
    const struct tokenizer_stop *stop; /* NULL: nothing stops the work */
    int64_t text_bytes;                /* of the text, and its pair */
    int64_t steps;                     /* since the last question */
    int64_t retries;                   /* of patterns, that are left */
    int64_t hard_retries;              /* those of hard searches since the last look at a clock */
    int64_t read_bytes;                /* ahead of positions, by patterns, since the last look */
    int64_t matching_ends_ns;          /* for patterns that take long; 0: not known yet */
    bool is_stopped;
};

void effort_init(struct effort *effort, const struct tokenizer_stop *stop);

/* Asks, and remembers the answer. */
bool effort_go_on(struct effort *effort);

/* Counts steps of work, each about as long as a byte's walk in a trie. False: the request is over,
 * and the caller ends. */
static inline bool effort_spend(struct effort *effort, int64_t steps)
{
    effort->steps += steps;
    return effort->steps < EFFORT_STEPS || effort_go_on(effort);
}

/* The fault of work that was stopped. Returns false. */
bool effort_fault(struct fault *fault);

#endif
