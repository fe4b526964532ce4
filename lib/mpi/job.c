/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - slices, agreement, and the end of a job. */
#include "mpi/job.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

const char *const job_input_names[JOB_INPUTS] = { "query", "key", "value" };
const char *const job_output_names[JOB_OUTPUTS] = { "context", "lse", "weights" };

bool job_is_zigzag(const struct job *job)
{
    return job->options.causal && job->q_len > 1;
}

static struct run chunk(int64_t count, int64_t chunks, int64_t number)
{
    const int64_t first = count / chunks * number + (count % chunks) * number / chunks;
    const int64_t end = count / chunks * (number + 1) + (count % chunks) * (number + 1) / chunks;
    return (struct run){ first, end - first };
}

struct slice job_slice(const struct job *job, int64_t count, int rank)
{
    const int64_t ranks = job->ranks;

    if (!job_is_zigzag(job))
        return (struct slice){ { chunk(count, ranks, rank) } };
    return (struct slice){ { chunk(count, 2 * ranks, rank),
                             chunk(count, 2 * ranks, 2 * ranks - 1 - rank) } };
}

static void print_fault(const struct job *job, const struct fault *fault)
{
    fprintf(stderr, "attn-mpi: rank %d of %d: %s\n", job->rank, job->ranks, fault->message);
    fflush(stderr);
}

bool job_agree(const struct job *job, bool is_well, const struct fault *fault)
{
    const int own = is_well ? INT_MAX : job->rank;
    int first;

    MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == job->rank)
        print_fault(job, fault);
    return first == INT_MAX;
}

void job_abort(const struct job *job, const struct fault *fault)
{
    print_fault(job, fault);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    abort();
}

void *job_memory(const struct job *job, int64_t size)
{
    const int64_t rounded = (size / 64 + 1) * 64;
    void *memory = aligned_alloc(64, (size_t)rounded);

    if (!memory) {
        struct fault fault;
        fault_set(&fault, FAULT_MEMORY, "no memory for %lld bytes: more ranks need less each",
                  (long long)size);
        job_abort(job, &fault);
    }
    return memory;
}
