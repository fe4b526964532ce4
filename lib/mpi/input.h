/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - a tensor of an .npy or .safetensors file, mapped into memory.
 *
 * The readers are the daemon's (server/formats/). Only what is used of the numbers is read from the
 * disk. A file that another program cuts short meanwhile ends the job with SIGBUS. */
#ifndef MPI_INPUT_H
#define MPI_INPUT_H

#include "formats/safetensors.h"
#include "mpi/job.h"

struct input {
    char path[4096];
    struct attn_tensor tensor; /* [batch, heads, length, head_dim]; batch 1 for files of rank 3 */
    int rank;                  /* of the file: 3 or 4 */
    void *bytes;
    size_t size;
    struct safetensors file;
};

/* Opens the file of an input for this rank. On failure the fault names the input and the file. */
bool input_open(struct input *input, const struct job *job, enum job_input which,
                struct fault *fault);
void input_close(struct input *input);

/* Whether the name of an input has %r, so that each rank has a file of its own. */
bool input_is_per_rank(const char *name);

#endif
