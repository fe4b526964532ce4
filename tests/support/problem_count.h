/* SPDX-License-Identifier: Apache-2.0 */
/* problem_count.h - how many random problems a test of a law tries, and how much of a grid.
 *
 * With a sanitizer a test takes about ten times as long. A sanitizer checks the paths of the
 * code, and a part of the problems already takes most of the paths. So the tests try only that
 * part with a sanitizer. */
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

/* The number in ATTND_TEST_PROBLEMS, which `make check-long` sets. 0 if it is not set. */
static inline uint64_t problem_count_wanted(void)
{
    const char *text = getenv("ATTND_TEST_PROBLEMS");
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* That number. If it is not set: usual, or with a sanitizer one in PROBLEM_SHARE of it. */
static inline uint64_t problem_count(uint64_t usual)
{
    const uint64_t wanted = problem_count_wanted();
    return wanted > 0 ? wanted : (usual + PROBLEM_SHARE - 1) / PROBLEM_SHARE;
}

/* Whether the n-th problem of a grid is tried. With a sanitizer and no number, one in
 * PROBLEM_SHARE is. */
static inline bool problem_is_tried(uint64_t n)
{
    return n % PROBLEM_SHARE == 0 || problem_count_wanted() > 0;
}

#endif
