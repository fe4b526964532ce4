/* SPDX-License-Identifier: Apache-2.0 */
/* yardstick.h - what this machine can do at its best, measured beside what is compared with it. */
#ifndef BENCH_YARDSTICK_H
#define BENCH_YARDSTICK_H

#include <stddef.h>

/* Floating-point operations a second of one core: multiply-adds of the widest vectors of a kernel
 * table ("avx512", "avx2", else 16 bytes) that wait for nothing, timed in CPU seconds for about
 * a millisecond. */
double yardstick_flops(const char *table);

/* The same of the units that weights of 16 bits and in blocks are multiplied by: sums of products
 * of bytes (VPDPBUSD of 64 bytes; 0: the CPU has none), and products of bf16 tiles of AMX, which
 * Linux must have granted to the process. */
double yardstick_dots(void);
double yardstick_tiles(void);

/* Adds up all numbers, as fast as they come. The sum only keeps the compiler from dropping the
 * loop. */
float yardstick_read(const float *numbers, size_t count);

#endif
