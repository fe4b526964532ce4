/* problem_count.h - how many random problems a law is tried on, and how much of a grid.
 *
 * A sanitizer takes some ten times as long and looks at the ways the code goes, most of which a
 * part of the problems goes too: so only that is tried with one. */
#ifndef PROBLEM_COUNT_H
#define PROBLEM_COUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)                                  \
    || __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { PROBLEM_SHARE = 5 };
#else
enum { PROBLEM_SHARE = 1 };
#endif

/* The number in ATTND_TEST_PROBLEMS, which `make check-long` sets; 0 where it is not set. */
static inline uint64_t problem_count_wanted(void)
{
    const char *text = getenv("ATTND_TEST_PROBLEMS");
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* That number; where it is not set usual, or one in PROBLEM_SHARE of it. */
static inline uint64_t problem_count(uint64_t usual)
{
    const uint64_t wanted = problem_count_wanted();
    return wanted > 0 ? wanted : (usual + PROBLEM_SHARE - 1) / PROBLEM_SHARE;
}

/* Whether the n-th problem of a grid is one of those to be tried; with a sanitizer and no number,
 * one in PROBLEM_SHARE is. */
static inline bool problem_is_tried(uint64_t n)
{
    return n % PROBLEM_SHARE == 0 || problem_count_wanted() > 0;
}

#endif
