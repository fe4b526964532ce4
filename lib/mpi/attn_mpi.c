/* SPDX-License-Identifier: Apache-2.0 */
/* attn_mpi.c - attention over keys that lie on many machines, as a job of MPI.
 *
 *     mpirun -n 4 attn-mpi --query q.npy --key k.npy --value v.npy --causal --context out.npy
 *
 * README.md says what it does, its flags and what an answer's bits depend on. */
#include "mpi/exchange.h"
#include "mpi/flags.h"
#include "mpi/input.h"
#include "mpi/output.h"
#include "mpi/weights.h"

#include "base/dtype.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool opens(struct input inputs[JOB_INPUTS], const struct job *job, struct fault *fault)
{
    for (int i = 0; i < JOB_INPUTS; i++)
        if ((i != JOB_QUERY || job->rank == 0)
            && !input_open(&inputs[i], job, (enum job_input)i, fault))
            return false;
    return true;
}

/* ---------------------------------------------------------------------------------- shapes -- */

/* Rank 0 says what its files have. */
static void share_shapes(struct job *job, const struct input inputs[JOB_INPUTS])
{
    int64_t all[8 + JOB_INPUTS] = { 0 };

    if (job->rank == 0) {
        const int64_t *query = inputs[JOB_QUERY].tensor.shape;
        const int64_t *key = inputs[JOB_KEY].tensor.shape;
        const int64_t shapes[8] = { inputs[JOB_QUERY].rank,
                                    query[0],
                                    query[1],
                                    key[1],
                                    query[2],
                                    key[2],
                                    query[3],
                                    inputs[JOB_VALUE].tensor.shape[3] };
        memcpy(all, shapes, sizeof shapes);
        for (int i = 0; i < JOB_INPUTS; i++)
            all[8 + i] = (int64_t)inputs[i].tensor.dtype;
    }
    MPI_Bcast(all, 8 + JOB_INPUTS, MPI_INT64_T, 0, MPI_COMM_WORLD);
    job->rank_of_files = (int)all[0];
    job->batch = all[1];
    job->q_heads = all[2];
    job->kv_heads = all[3];
    job->q_len = all[4];
    job->kv_len = all[5];
    job->head_dim = all[6];
    job->v_head_dim = all[7];
    for (int i = 0; i < JOB_INPUTS; i++)
        job->dtypes[i] = (enum attn_dtype)all[8 + i];
}

static bool expect_shape(const struct input *input, const struct job *job, enum job_input which,
                         int64_t heads, int64_t length, int64_t width, struct fault *fault)
{
    const int64_t *shape = input->tensor.shape;
    const int batched = input->rank == 4;

    if (input->tensor.dtype != job->dtypes[which])
        return fault_set(fault, FAULT_DTYPE, "%s in %s: dtype %s, expected %s as rank 0 has",
                         job_input_names[which], input->path, dtype_name(input->tensor.dtype),
                         dtype_name(job->dtypes[which]));
    if (input->rank == job->rank_of_files && shape[0] == job->batch && shape[1] == heads
        && shape[2] == length && shape[3] == width)
        return true;
    char batch[2][32] = { "", "" };
    if (batched)
        snprintf(batch[0], sizeof batch[0], "%lld, ", (long long)shape[0]);
    if (job->rank_of_files == 4)
        snprintf(batch[1], sizeof batch[1], "%lld, ", (long long)job->batch);
    return fault_set(
        fault, FAULT_SHAPE, "%s in %s: shape [%s%lld, %lld, %lld], expected [%s%lld, %lld, %lld]",
        job_input_names[which], input->path, batch[0], (long long)shape[1], (long long)shape[2],
        (long long)shape[3], batch[1], (long long)heads, (long long)length, (long long)width);
}

/* Key and value of each rank fit each other and rank 0's. */
static bool shapes_fit(const struct job *job, const struct input inputs[JOB_INPUTS],
                       struct fault *fault)
{
    const bool per_rank = input_is_per_rank(job->inputs[JOB_KEY]);
    const int64_t length = per_rank ? inputs[JOB_KEY].tensor.shape[2] : job->kv_len;

    if (job->batch * job->q_heads > INT_MAX / (job->q_len > 0 ? job->q_len : 1))
        return fault_set(fault, FAULT_TOO_LARGE,
                         "query has more than 2147483647 rows of heads: cut the job");
    for (int64_t i = 0; i < job->chosen_count; i++)
        if (job->chosen[i] >= job->q_len)
            return fault_set(fault, FAULT_OPTION, "--rows names row %lld of %lld",
                             (long long)job->chosen[i], (long long)job->q_len);
    return expect_shape(&inputs[JOB_KEY], job, JOB_KEY, job->kv_heads, length, job->head_dim, fault)
           && expect_shape(&inputs[JOB_VALUE], job, JOB_VALUE, job->kv_heads, length,
                           job->v_head_dim, fault);
}

/* Which keys each rank has, and how many there are. */
static void cut_keys(struct job *job, const struct input inputs[JOB_INPUTS])
{
    const int64_t own = inputs[JOB_KEY].tensor.shape[2];

    job->key_slices = job_memory(job, job->ranks * (int64_t)sizeof *job->key_slices);
    if (input_is_per_rank(job->inputs[JOB_KEY])) {
        int64_t *lengths = job_memory(job, job->ranks * (int64_t)sizeof *lengths);
        MPI_Allgather(&own, 1, MPI_INT64_T, lengths, 1, MPI_INT64_T, MPI_COMM_WORLD);
        job->kv_len = 0;
        for (int rank = 0; rank < job->ranks; rank++) {
            job->key_slices[rank] = (struct slice){ { { job->kv_len, lengths[rank] } } };
            job->kv_len += lengths[rank];
        }
        free(lengths);
    } else {
        for (int rank = 0; rank < job->ranks; rank++)
            job->key_slices[rank] = job_slice(job, job->kv_len, rank);
    }
    if (!job->has_past_len)
        job->past_len = job->kv_len - job->q_len;
    if (!job->has_scale)
        job->options.scale = 1 / sqrt((double)job->head_dim);
    job->exchange = exchange_choose(job);
}

/* This rank's keys as views of its files. */
static void find_own(const struct job *job, const struct input inputs[JOB_INPUTS],
                     struct keys own[SLICE_RUNS])
{
    const struct run *runs = job->key_slices[job->rank].runs;

    for (int i = 0; i < SLICE_RUNS; i++) {
        struct run run = runs[i];
        if (input_is_per_rank(job->inputs[JOB_KEY]))
            run.first = 0;
        own[i] = (struct keys){ attend_view(&inputs[JOB_KEY].tensor, run),
                                attend_view(&inputs[JOB_VALUE].tensor, run), runs[i].first };
    }
}

/* All ranks of a ring have the file of the rows; the library sees the problem. */
static bool checks(struct job *job, struct input inputs[JOB_INPUTS],
                   const struct keys own[SLICE_RUNS], struct fault *fault)
{
    struct input *query = &inputs[JOB_QUERY];

    if (job->exchange == EXCHANGE_RING && job->rank > 0
        && !(
            input_open(query, job, JOB_QUERY, fault)
            && expect_shape(query, job, JOB_QUERY, job->q_heads, job->q_len, job->head_dim, fault)))
        return false;
    const struct attn_tensor shape = attn_tensor_dense(own[0].key.data, job->dtypes[JOB_QUERY],
                                                       job->batch, job->q_heads, 0, job->head_dim);
    return attend_check(job, &shape, &own[0], fault);
}

/* ------------------------------------------------------------------------------------- run -- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* seconds[PHASES] of this rank's passes in; medians of the longest of all ranks out, on rank 0. */
static void find_medians(const struct job *job, double *seconds, double medians[PHASES])
{
    double *column = job_memory(job, job->repeat * (int64_t)sizeof *column);

    MPI_Reduce(job->rank == 0 ? MPI_IN_PLACE : seconds, seconds, (int)job->repeat * PHASES,
               MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int phase = 0; phase < PHASES && job->rank == 0; phase++) {
        for (int64_t i = 0; i < job->repeat; i++)
            column[i] = seconds[i * PHASES + phase];
        qsort(column, (size_t)job->repeat, sizeof *column, by_size);
        medians[phase] = column[job->repeat / 2];
    }
    free(column);
}

static void compute(struct pass *pass, const struct job *job)
{
    double *seconds = job_memory(job, job->repeat * PHASES * (int64_t)sizeof *seconds);
    double medians[PHASES] = { 0 };

    for (int64_t i = 0; i < job->repeat; i++)
        pass_run(pass, seconds + i * PHASES);
    find_medians(job, seconds, medians);
    free(seconds);
    if (job->rank != 0)
        return;
    printf("%d ranks, %s: %lld rows x %lld heads, %lld keys x %lld heads: "
           "%.6f s send, %.6f s attend, %.6f s merge, %.6f s in all\n",
           job->ranks, job->exchange == EXCHANGE_TREE ? "tree" : "ring", (long long)job->q_len,
           (long long)job->q_heads, (long long)job->kv_len, (long long)job->kv_heads,
           medians[PHASE_SEND], medians[PHASE_ATTEND], medians[PHASE_MERGE], medians[PHASE_TOTAL]);
    fflush(stdout);
}

/* Rows of one answer to the files of the context and lse. */
static void write_answer(const struct output outputs[JOB_OUTPUTS], const struct job *job,
                         const struct answer *answer)
{
    const int64_t rows = answer->rows.count, columns = job->v_head_dim;
    float *context = job_memory(job, rows * columns * (int64_t)sizeof *context);
    float *lse = job_memory(job, rows * (int64_t)sizeof *lse);

    for (int64_t plane = 0; plane < job->batch * job->q_heads; plane++) {
        const int64_t first = plane * job->q_len + answer->rows.first;
        for (int64_t i = 0; i < rows; i++) {
            const float *row = answer->partial + (plane * rows + i) * (columns + 1);
            memcpy(context + i * columns, row, (size_t)columns * sizeof *row);
            lse[i] = row[columns];
        }
        output_write(&outputs[JOB_CONTEXT], first * columns, context, rows * columns);
        output_write(&outputs[JOB_LSE], first, lse, rows);
    }
    free(lse);
    free(context);
}

static bool begin_all(struct output outputs[JOB_OUTPUTS], const struct job *job)
{
    const int64_t shapes[JOB_OUTPUTS][2] = { { job->q_len, job->v_head_dim },
                                             { job->q_len, 0 },
                                             { job->chosen_count, job->kv_len } };
    bool is_well = true;

    for (int i = 0; i < JOB_OUTPUTS && is_well; i++)
        is_well = output_begin(&outputs[i], job, (enum job_output)i, shapes[i][0], shapes[i][1]);
    return is_well;
}

static bool write_all(struct output outputs[JOB_OUTPUTS], struct pass *pass, const struct job *job,
                      const struct attn_tensor *query)
{
    bool is_well = true;

    for (int i = 0; i < SLICE_RUNS; i++)
        if (pass->answers[i].partial && (job->exchange == EXCHANGE_RING || job->rank == 0))
            write_answer(outputs, job, &pass->answers[i]);
    if (outputs[JOB_WEIGHTS].path)
        weights_write(&outputs[JOB_WEIGHTS], &pass->attend, query, pass->own);
    for (int i = 0; i < JOB_OUTPUTS && is_well; i++)
        is_well = output_end(&outputs[i]);
    return is_well;
}

static bool run(struct job *job, struct input inputs[JOB_INPUTS])
{
    struct output outputs[JOB_OUTPUTS] = { 0 };
    struct keys own[SLICE_RUNS];
    struct fault fault;
    struct pass pass;

    if (!job_agree(job, opens(inputs, job, &fault), &fault))
        return false;
    share_shapes(job, inputs);
    if (!job_agree(job, shapes_fit(job, inputs, &fault), &fault))
        return false;
    cut_keys(job, inputs);
    find_own(job, inputs, own);
    if (!job_agree(job, checks(job, inputs, own, &fault), &fault) || !begin_all(outputs, job))
        return false;
    pass_init(&pass, job, &inputs[JOB_QUERY].tensor, own);
    compute(&pass, job);
    const bool is_well = write_all(outputs, &pass, job, &inputs[JOB_QUERY].tensor);
    pass_free(&pass);
    return is_well;
}

/* Open MPI else chooses among trees and chains by the size of a message; a binomial tree merges a
 * row least often, and then bits follow from the number of ranks alone. The user's own choice
 * stays. */
static void choose_tree(void)
{
    setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
    setenv("OMPI_MCA_coll_tuned_reduce_algorithm", "binomial", 0);
}

int main(int argc, char **argv)
{
    static struct job job;
    static struct input inputs[JOB_INPUTS];
    struct fault fault;
    int provided;

    choose_tree();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    bool is_well = job_agree(&job, flags_read(&job, argc, argv, &fault), &fault);
    if (is_well && job.wants_help && job.rank == 0)
        flags_print_help();
    if (is_well && !job.wants_help)
        is_well = run(&job, inputs);
    for (int i = 0; i < JOB_INPUTS; i++)
        input_close(&inputs[i]);
    free(job.key_slices);
    MPI_Finalize();
    return is_well ? EXIT_SUCCESS : EXIT_FAILURE;
}
