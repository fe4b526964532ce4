/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - the weights of chosen rows over all keys, each rank's to their place in one file. */
#ifndef MPI_WEIGHTS_H
#define MPI_WEIGHTS_H

#include "mpi/attend.h"
#include "mpi/output.h"

/* Writes [batch, q_heads, chosen rows, kv_len]. query is that of the file, on rank 0 alone. All
 * ranks call it. */
void weights_write(const struct output *output, struct attend *attend,
                   const struct attn_tensor *query, const struct keys own[SLICE_RUNS]);

#endif
