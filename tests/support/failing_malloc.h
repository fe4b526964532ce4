/* SPDX-License-Identifier: Apache-2.0 */
/* failing_malloc.h - what a test and the process under failing_malloc.c share.
 *
 * The file that FAIL_ALLOCATION_CONTROL names holds one of these; the test maps it
 * (MAP_SHARED) and so can let a daemon start in peace, and then say which
 * allocation from now on is to fail:
 *
 *     atomic_store(&control->count, 0);
 *     atomic_store(&control->fail_first, n);
 *     ... one request ...
 *     if (atomic_load(&control->failed) == 0) there are fewer than n: the scenario is through */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#include <stdatomic.h>
#include <stdint.h>

struct failing_malloc {
    _Atomic uint64_t count;      /* allocations asked for so far */
    _Atomic uint64_t fail_first; /* number of the first that fails, from 1; 0: none */
    _Atomic uint64_t fail_times; /* how many fail from there on; 0 means 1 */
    _Atomic uint64_t failed;     /* how many did */
};

#endif
