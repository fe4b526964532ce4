/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - the lse of a row over all keys, and then the row of the map, a slice on each rank. */
#include "mpi/weights.h"

#include "map_tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rank 0 sends a chosen row of all heads, [batch, q_heads, 1, head_dim]. */
static void send_row(const struct job *job, const struct attn_tensor *query, int64_t number,
                     const struct attn_tensor *row)
{
    const size_t bytes = (size_t)job->head_dim * attn_dtype_size(row->dtype);
    const int64_t planes = job->batch * job->q_heads;

    if (job->rank == 0)
        for (int64_t plane = 0; plane < planes; plane++)
            memcpy((char *)row->data + (size_t)plane * bytes,
                   (const char *)query->data
                       + (size_t)(plane * job->q_len + job->chosen[number]) * bytes,
                   bytes);
    MPI_Bcast(row->data, (int)((size_t)planes * bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* lse[batch * q_heads] of a row over the keys of all ranks. */
static void find_lse(struct attend *attend, const struct attn_tensor *row, int64_t at,
                     const struct keys own[SLICE_RUNS], float *lse, int64_t *past_len)
{
    const struct job *job = attend->job;
    const int64_t planes = job->batch * job->q_heads;
    int count = (int)planes;

    for (int64_t i = 0; i < planes; i++)
        lse[i] = -INFINITY;
    float *fresh = job_memory(job, planes * (int64_t)sizeof *fresh);
    for (int i = 0; i < SLICE_RUNS; i++) {
        struct attn_problem problem = attend_problem(job, row, at, &own[i], past_len);
        problem.lse = attn_tensor_dense(fresh, ATTN_F32, job->batch, job->q_heads, 1, 1);
        attend_run(attend, &problem, NULL, NULL);
        MPI_Reduce_local(fresh, lse, count, MPI_FLOAT, attend->merge);
    }
    free(fresh);
    MPI_Allreduce(MPI_IN_PLACE, lse, count, MPI_FLOAT, attend->merge, MPI_COMM_WORLD);
}

/* One head's [1, 1, length, head_dim] of a tensor. */
static struct attn_tensor head_of(const struct attn_tensor *tensor, int64_t batch, int64_t head)
{
    struct attn_tensor one = *tensor;

    one.data = (char *)tensor->data
               + (size_t)(batch * tensor->stride[0] + head * tensor->stride[1])
                     * attn_dtype_size(tensor->dtype);
    one.shape[0] = one.shape[1] = 1;
    return one;
}

/* The weights of one row and head over a run of keys. */
static void weigh(const struct job *job, const struct attn_problem *problem, int64_t batch,
                  int64_t head, const float *lse, float *weights)
{
    const int64_t count = problem->key.shape[2];
    struct attn_map_tile tile = {
        .problem = *problem, .lse = lse, .cell_rows = 1, .cell_columns = count, .cells = weights
    };
    struct fault fault;
    const char *where;

    tile.problem.query = head_of(&problem->query, batch, head);
    tile.problem.key = head_of(&problem->key, batch, head / (job->q_heads / job->kv_heads));
    tile.problem.value = (struct attn_tensor){ 0 };
    tile.rows[1] = 1;
    tile.keys[1] = count;
    const enum attn_status status = attn_map_tile_check(&tile, &where);
    if (status != ATTN_OK) {
        fault_from_attn(&fault, status, where);
        job_abort(job, &fault);
    }
    void *workspace = job_memory(job, (int64_t)attn_map_tile_workspace_bytes(&tile));
    for (int64_t task = 0; task < attn_map_tile_tasks(&tile); task++)
        attn_map_tile_run(&tile, task, workspace);
    free(workspace);
}

static void write_row(const struct output *output, const struct job *job, int64_t number,
                      const struct attn_problem *problem, const float *lse, float *weights)
{
    for (int64_t plane = 0; plane < job->batch * job->q_heads; plane++) {
        weigh(job, problem, plane / job->q_heads, plane % job->q_heads, lse + plane, weights);
        output_write(output,
                     (plane * job->chosen_count + number) * job->kv_len + problem->kv_offset,
                     weights, problem->key.shape[2]);
    }
}

void weights_write(const struct output *output, struct attend *attend,
                   const struct attn_tensor *query, const struct keys own[SLICE_RUNS])
{
    const struct job *job = attend->job;
    const int64_t planes = job->batch * job->q_heads;
    const enum attn_dtype dtype = job->dtypes[JOB_QUERY];
    int64_t most = 0;

    for (int i = 0; i < SLICE_RUNS; i++)
        most = own[i].key.shape[2] > most ? own[i].key.shape[2] : most;
    float *weights = job_memory(job, most * (int64_t)sizeof *weights);
    float *lse = job_memory(job, planes * (int64_t)sizeof *lse);
    int64_t *past_len = job_memory(job, job->batch * (int64_t)sizeof *past_len);
    void *numbers = job_memory(job, planes * job->head_dim * (int64_t)attn_dtype_size(dtype));
    const struct attn_tensor row =
        attn_tensor_dense(numbers, dtype, job->batch, job->q_heads, 1, job->head_dim);
    for (int64_t number = 0; number < job->chosen_count; number++) {
        send_row(job, query, number, &row);
        find_lse(attend, &row, job->chosen[number], own, lse, past_len);
        for (int i = 0; i < SLICE_RUNS; i++) {
            const struct attn_problem problem =
                attend_problem(job, &row, job->chosen[number], &own[i], past_len);
            if (own[i].key.shape[2] > 0)
                write_row(output, job, number, &problem, lse, weights);
        }
    }
    free(numbers);
    free(past_len);
    free(lse);
    free(weights);
}
