/* SPDX-License-Identifier: Apache-2.0 */
/* output.h - an .npy or .safetensors file of F32 that all ranks write together.
 *
 * Rank 0 makes FILE.part, each rank writes its numbers to their place, and rank 0 gives the file
 * its name when all are done: a job that ends early leaves no FILE. */
#ifndef MPI_OUTPUT_H
#define MPI_OUTPUT_H

#include "mpi/job.h"

struct output {
    const struct job *job;
    const char *path; /* NULL: it was not asked for, and calls do nothing */
    char part[4096];
    int file;
    int64_t numbers_at; /* in bytes */
};

/* All ranks call it; false on all where one cannot open the file. length and columns are those of a
 * tensor [batch, q_heads, length, columns], without batch where files have none and without columns
 * where they are 0. */
bool output_begin(struct output *output, const struct job *job, enum job_output which,
                  int64_t length, int64_t columns);

/* Writes numbers from index first on; ends the job where that fails. */
void output_write(const struct output *output, int64_t first, const float *numbers, int64_t count);

/* All ranks call it; false on all where one has failed. */
bool output_end(struct output *output);

#endif
