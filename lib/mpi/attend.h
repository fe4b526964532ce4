/* SPDX-License-Identifier: Apache-2.0 */
/* attend.h - partial answers: attention of a run of rows over a run of keys, and their merge.
 *
 * A partial answer is [batch, q_heads, rows][v_head_dim + 1] floats: behind the context of a row
 * stands its lse. So a row is what a reduction of MPI adds up. */
#ifndef MPI_ATTEND_H
#define MPI_ATTEND_H

#include "mpi/job.h"
#include "mpi/team.h"

#include <mpi.h>

struct attend {
    const struct job *job;
    MPI_Datatype row_type; /* v_head_dim + 1 floats */
    MPI_Op merge;          /* of rows of any number of columns; commutative */
    struct team team;
    char *workspaces;       /* one for each thread */
    size_t workspace_bytes; /* of one, a multiple of 64 */
    float *fresh;           /* a partial answer that is not merged yet */
    int64_t fresh_floats;
    double seconds; /* in attention, without merging */
};

void attend_init(struct attend *attend, const struct job *job);
void attend_free(struct attend *attend);

/* A part of a tensor along its length. */
struct attn_tensor attend_view(const struct attn_tensor *tensor, struct run run);

/* Keys that lie together. */
struct keys {
    struct attn_tensor key, value;
    int64_t first; /* position of the first */
};

/* The problem of rows from position first_row on over such keys, without outputs. past_len is room
 * for [batch]. */
struct attn_problem attend_problem(const struct job *job, const struct attn_tensor *query,
                                   int64_t first_row, const struct keys *keys, int64_t *past_len);

/* Checks what the library checks of such a problem. */
bool attend_check(const struct job *job, const struct attn_tensor *query, const struct keys *keys,
                  struct fault *fault);

/* Runs a problem of the job; on_task, if it is not NULL, is called after each task of
 * this thread. */
void attend_run(struct attend *attend, const struct attn_problem *problem, void (*on_task)(void *),
                void *of);

/* The floats of a partial answer of so many rows, and an answer that has seen no key. */
int64_t attend_floats(const struct job *job, int64_t rows);
void attend_clear(const struct job *job, float *partial, int64_t rows);

/* Merges into partial what query, from row first_row on, sees of these keys. */
void attend_merge(struct attend *attend, float *partial, const struct attn_tensor *query,
                  int64_t first_row, const struct keys *keys, void (*on_task)(void *), void *of);

#endif
