/* yardstick.h - what this machine can do at its best, measured beside what is compared with it. */
#ifndef BENCH_YARDSTICK_H
#define BENCH_YARDSTICK_H

#include <stddef.h>

/* Floating-point operations a second of one core: multiply-adds of the widest vectors of a kernel
 * table ("avx512", "avx2", else 16 bytes) that wait for nothing, timed in CPU seconds for about
 * a millisecond. */
double yardstick_flops(const char *table);

/* Adds up all numbers, as fast as they come. The sum only keeps the compiler from dropping the
 * loop. */
float yardstick_read(const float *numbers, size_t count);

#endif
