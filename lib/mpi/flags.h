/* SPDX-License-Identifier: Apache-2.0 */
/* flags.h - the command line of attn-mpi. */
#ifndef MPI_FLAGS_H
#define MPI_FLAGS_H

#include "mpi/job.h"

/* Reads the flags into a job that is empty but for rank and ranks. */
bool flags_read(struct job *job, int argc, char **argv, struct fault *fault);

void flags_print_help(void);

#endif
