/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - what all ranks of attn-mpi know of the job, and how they agree that it can go on.
 *
 * Every rank gets the same flags, and so the same struct job but for its rank. Rows and keys are
 * cut into runs; a rank holds at most two of each. */
#ifndef MPI_JOB_H
#define MPI_JOB_H

#include "base/fault.h"

enum job_input { JOB_QUERY, JOB_KEY, JOB_VALUE, JOB_INPUTS };
enum job_output { JOB_CONTEXT, JOB_LSE, JOB_WEIGHTS, JOB_OUTPUTS };

extern const char *const job_input_names[JOB_INPUTS];   /* "query", "key", "value" */
extern const char *const job_output_names[JOB_OUTPUTS]; /* "context", "lse", "weights" */

/* How partial answers come together. TREE: the rows go to every rank, each attends to its keys, and
 * a reduction merges. RING: each rank has some of the rows, and the keys go round. */
enum exchange { EXCHANGE_AUTO, EXCHANGE_TREE, EXCHANGE_RING };

struct run {
    int64_t first, count; /* positions in the sequence of rows or keys */
};

enum { SLICE_RUNS = 2 };

struct slice {
    struct run runs[SLICE_RUNS]; /* count 0: none */
};

enum { JOB_ROWS_MAX = 4096, JOB_REPEAT_MAX = 100000 };

struct job {
    int rank, ranks;

    /* The flags. */
    const char *inputs[JOB_INPUTS];   /* FILE or FILE:TENSOR; %r in it is the rank */
    const char *outputs[JOB_OUTPUTS]; /* NULL: not asked for */
    struct attn_options options;      /* scale is set when head_dim is known, if has_scale is not */
    bool has_scale, has_past_len, wants_help;
    int64_t past_len;
    enum exchange exchange;
    int64_t threads; /* of a rank */
    int64_t repeat;
    int64_t chosen[JOB_ROWS_MAX]; /* rows whose weights are asked for */
    int64_t chosen_count;

    /* The shapes, all in the words of attn.h. */
    int rank_of_files; /* 3: files have no batch */
    int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_head_dim;
    enum attn_dtype dtypes[JOB_INPUTS];
    struct slice *key_slices; /* [ranks] */
};

/* Whether keys and rows lie in zig-zag: rank r of n has chunks r and 2n-1-r of 2n, so that the keys
 * that causal rows see are as many for each rank. */
bool job_is_zigzag(const struct job *job);

/* The part of count positions that a rank has. */
struct slice job_slice(const struct job *job, int64_t count, int rank);

/* All ranks call it: true where all are well. Else the first rank that is not prints its fault. */
bool job_agree(const struct job *job, bool is_well, const struct fault *fault);

/* Prints a fault and ends the job on all ranks: for faults between two exchanges, where the others
 * already wait. */
void job_abort(const struct job *job, const struct fault *fault) __attribute__((noreturn));

/* size bytes at an address that is a multiple of 64, or the end of the job; free() frees them. */
void *job_memory(const struct job *job, int64_t size);

#endif
