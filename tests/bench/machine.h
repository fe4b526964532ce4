/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - the machine that a bench runs on: for the head of a table that is pasted elsewhere,
 * and what others took of it meanwhile. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stddef.h>
#include <stdio.h>

enum { MACHINE_TEXT_MAX = 256 };

/* What /proc/cpuinfo says of the first CPU: its model, "unknown" where there is none, and of its
 * flags those by which kernels are chosen, in the order of a list. */
struct machine_cpu {
    char model[MACHINE_TEXT_MAX], flags[MACHINE_TEXT_MAX];
};
void machine_read_cpu(FILE *cpuinfo, struct machine_cpu *cpu);

/* The first line of what a shell command prints; fallback: it prints nothing. */
void machine_ask(const char *command, char text[MACHINE_TEXT_MAX], const char *fallback);

/* Prints CPU, caches, governor, load, system, commit and compiler, a line of each. Does nothing
 * where the environment has BENCH_HEAD=no, as of the later programs of one table. */
void machine_print(void);

/* CPU seconds of everything on this machine since it started, with the time that a hypervisor gave
 * to others, in steps of a tick; 0: not known. */
double machine_busy_s(void);

/* Moves this thread, and what it starts from now on, to so many of the CPUs that it had at first,
 * one of each core as long as there are such. More than there are: all of them. */
void machine_confine(int cpu_count);

#endif
