/* problem_count.h - how many random problems a law is tried on. */
#ifndef PROBLEM_COUNT_H
#define PROBLEM_COUNT_H

#include <stdint.h>
#include <stdlib.h>

/* The number in ATTND_TEST_PROBLEMS, which `make check-long` sets; usual where it is not set. */
static inline uint64_t problem_count(uint64_t usual)
{
    const char *text = getenv("ATTND_TEST_PROBLEMS");
    const unsigned long long count = text != NULL ? strtoull(text, NULL, 10) : 0;

    return count > 0 ? count : usual;
}

#endif
