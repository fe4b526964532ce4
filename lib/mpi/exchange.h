/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - one answer from all ranks, by a tree or a ring.
 *
 * TREE: rank 0 broadcasts the rows; each rank attends to its keys; MPI_Reduce merges to rank 0.
 * RING (pass-KV; Liu et al. 2023, Ring Attention; Yang et al. 2024, arXiv 2411.01783): each rank
 * has a slice of the rows and, in turn, each slice of the keys, which come from the rank before and
 * go to the rank behind while it computes. */
#ifndef MPI_EXCHANGE_H
#define MPI_EXCHANGE_H

#include "mpi/attend.h"

/* Rows of the answer that a rank has. */
struct answer {
    struct run rows;
    float *partial; /* of attend.h */
};

enum exchange_phase {
    PHASE_SEND,   /* the broadcast; of a ring the waiting for keys */
    PHASE_ATTEND, /* attention */
    PHASE_MERGE,  /* merging, and of a tree the reduction with the waiting for others */
    PHASE_TOTAL,
    PHASES
};

/* Which of the two moves fewer bytes through a rank. */
enum exchange exchange_choose(const struct job *job);

/* Where the rows are: in the ring, or before and behind the tree. */
struct pass {
    struct attend attend;
    struct attn_tensor query;          /* of TREE: room for all rows, or the file's of rank 0 */
    struct keys own[SLICE_RUNS];       /* this rank's; empty ones have no length */
    struct answer answers[SLICE_RUNS]; /* whole after the pass; of TREE on rank 0 alone */
    void *buffers[2]; /* TREE: the rows. RING: the keys here, and those that come */
    int64_t buffer_bytes;
};

/* query is that of the file, of TREE on rank 0 alone. */
void pass_init(struct pass *pass, const struct job *job, const struct attn_tensor *query,
               const struct keys own[SLICE_RUNS]);
void pass_free(struct pass *pass);

/* Computes all answers; all ranks call it. seconds[PHASES] of this rank. */
void pass_run(struct pass *pass, double *seconds);

#endif
