/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - the tree, the ring, and the choice between them. */
#include "mpi/exchange.h"

#include <stdlib.h>
#include <string.h>

/* Messages are counted in blocks, because MPI counts in int. */
enum { BLOCK_BYTES = 4096 };

static int64_t rounded_up(int64_t bytes, int64_t multiple)
{
    return (bytes + multiple - 1) / multiple * multiple;
}

static int64_t key_bytes(const struct job *job, int64_t count, int64_t *value_at)
{
    const int64_t planes = job->batch * job->kv_heads * count;
    const int64_t key = planes * job->head_dim * (int64_t)attn_dtype_size(job->dtypes[JOB_KEY]);
    const int64_t value =
        planes * job->v_head_dim * (int64_t)attn_dtype_size(job->dtypes[JOB_VALUE]);

    *value_at = rounded_up(key, 64);
    return *value_at + rounded_up(value, 64);
}

static int64_t query_bytes(const struct job *job)
{
    return job->batch * job->q_heads * job->q_len * job->head_dim
           * (int64_t)attn_dtype_size(job->dtypes[JOB_QUERY]);
}

enum exchange exchange_choose(const struct job *job)
{
    int64_t value_at;
    const int64_t tree = query_bytes(job) + attend_floats(job, job->q_len) * (int64_t)sizeof(float);
    const int64_t ring = key_bytes(job, job->kv_len, &value_at) / job->ranks * (job->ranks - 1);

    return job->exchange != EXCHANGE_AUTO  ? job->exchange
           : ring < tree && job->ranks > 1 ? EXCHANGE_RING
                                           : EXCHANGE_TREE;
}

static void init_answer(struct pass *pass, int number, struct run rows)
{
    const struct job *job = pass->attend.job;
    struct answer *answer = &pass->answers[number];

    answer->rows = rows;
    answer->partial = job_memory(job, attend_floats(job, rows.count) * (int64_t)sizeof(float));
}

static void init_tree(struct pass *pass, const struct job *job)
{
    pass->buffer_bytes = rounded_up(query_bytes(job), BLOCK_BYTES);
    pass->buffers[0] = job_memory(job, pass->buffer_bytes);
    if (job->rank == 0)
        memcpy(pass->buffers[0], pass->query.data, (size_t)query_bytes(job));
    pass->query = attn_tensor_dense(pass->buffers[0], job->dtypes[JOB_QUERY], job->batch,
                                    job->q_heads, job->q_len, job->head_dim);
    init_answer(pass, 0, (struct run){ 0, job->q_len });
}

static void init_ring(struct pass *pass, const struct job *job)
{
    const struct slice rows = job_slice(job, job->q_len, job->rank);
    int64_t value_at;

    for (int rank = 0; rank < job->ranks; rank++) {
        int64_t bytes = 0;
        for (int i = 0; i < SLICE_RUNS; i++)
            bytes += key_bytes(job, job->key_slices[rank].runs[i].count, &value_at);
        if (bytes > pass->buffer_bytes)
            pass->buffer_bytes = bytes;
    }
    pass->buffer_bytes = rounded_up(pass->buffer_bytes, BLOCK_BYTES);
    for (int i = 0; i < 2; i++)
        pass->buffers[i] = job_memory(job, pass->buffer_bytes);
    for (int i = 0; i < SLICE_RUNS; i++)
        init_answer(pass, i, rows.runs[i]);
}

void pass_init(struct pass *pass, const struct job *job, const struct attn_tensor *query,
               const struct keys own[SLICE_RUNS])
{
    *pass = (struct pass){ .query = *query };
    memcpy(pass->own, own, sizeof pass->own);
    attend_init(&pass->attend, job);
    if (job->exchange == EXCHANGE_TREE)
        init_tree(pass, job);
    else
        init_ring(pass, job);
}

void pass_free(struct pass *pass)
{
    for (int i = 0; i < 2; i++) {
        free(pass->buffers[i]);
        free(pass->answers[i].partial);
    }
    attend_free(&pass->attend);
}

/* Blocks of a buffer, all of them, as MPI counts. */
static MPI_Datatype block_type(void)
{
    MPI_Datatype type;

    MPI_Type_contiguous(BLOCK_BYTES, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Both return the seconds that PHASE_SEND has. */
static double run_tree(struct pass *pass, MPI_Datatype block)
{
    const struct job *job = pass->attend.job;
    struct answer *answer = &pass->answers[0];
    const int rows = (int)(job->batch * job->q_heads * job->q_len);
    const double begun = MPI_Wtime();

    MPI_Bcast(pass->buffers[0], (int)(pass->buffer_bytes / BLOCK_BYTES), block, 0, MPI_COMM_WORLD);
    const double sent = MPI_Wtime() - begun;
    attend_clear(job, answer->partial, job->q_len);
    for (int i = 0; i < SLICE_RUNS; i++)
        attend_merge(&pass->attend, answer->partial, &pass->query, 0, &pass->own[i], NULL, NULL);
    if (job->rank == 0)
        MPI_Reduce(MPI_IN_PLACE, answer->partial, rows, pass->attend.row_type, pass->attend.merge,
                   0, MPI_COMM_WORLD);
    else
        MPI_Reduce(answer->partial, NULL, rows, pass->attend.row_type, pass->attend.merge, 0,
                   MPI_COMM_WORLD);
    return sent;
}

/* ------------------------------------------------------------------------------- the ring --- */

/* The keys of run i of a slice that lies in a buffer, one run behind the other. */
static struct keys packed(const struct job *job, void *buffer, const struct slice *slice, int run)
{
    char *at = buffer;
    int64_t value_at;

    for (int i = 0; i < run; i++)
        at += key_bytes(job, slice->runs[i].count, &value_at);
    key_bytes(job, slice->runs[run].count, &value_at);
    return (struct keys){
        attn_tensor_dense(at, job->dtypes[JOB_KEY], job->batch, job->kv_heads,
                          slice->runs[run].count, job->head_dim),
        attn_tensor_dense(at + value_at, job->dtypes[JOB_VALUE], job->batch, job->kv_heads,
                          slice->runs[run].count, job->v_head_dim),
        slice->runs[run].first,
    };
}

/* Copies a view whose rows lie together to a dense one. */
static void pack(const struct attn_tensor *to, const struct attn_tensor *from)
{
    const size_t size = attn_dtype_size(to->dtype);
    const size_t bytes = (size_t)(to->shape[2] * to->shape[3]) * size;

    for (int64_t b = 0; b < to->shape[0]; b++)
        for (int64_t h = 0; h < to->shape[1]; h++)
            memcpy((char *)to->data + (size_t)(b * to->stride[0] + h * to->stride[1]) * size,
                   (char *)from->data + (size_t)(b * from->stride[0] + h * from->stride[1]) * size,
                   bytes);
}

struct transfer {
    MPI_Request requests[2];
};

/* Messages move only while MPI is called. */
static void move_on(void *of)
{
    struct transfer *transfer = of;
    int is_done;

    MPI_Testall(2, transfer->requests, &is_done, MPI_STATUSES_IGNORE);
}

static void begin_transfer(struct transfer *transfer, const struct pass *pass, int here,
                           MPI_Datatype block)
{
    const struct job *job = pass->attend.job;
    const int count = (int)(pass->buffer_bytes / BLOCK_BYTES);

    MPI_Irecv(pass->buffers[!here], count, block, (job->rank + job->ranks - 1) % job->ranks, 0,
              MPI_COMM_WORLD, &transfer->requests[0]);
    MPI_Isend(pass->buffers[here], count, block, (job->rank + 1) % job->ranks, 0, MPI_COMM_WORLD,
              &transfer->requests[1]);
}

static double run_ring(struct pass *pass, MPI_Datatype block)
{
    const struct job *job = pass->attend.job;
    double waited = 0;

    for (int i = 0; i < SLICE_RUNS; i++) {
        const struct keys room = packed(job, pass->buffers[0], &job->key_slices[job->rank], i);
        pack(&room.key, &pass->own[i].key);
        pack(&room.value, &pass->own[i].value);
        attend_clear(job, pass->answers[i].partial, pass->answers[i].rows.count);
    }
    for (int step = 0; step < job->ranks; step++) {
        const struct slice *slice = &job->key_slices[(job->rank - step + job->ranks) % job->ranks];
        struct transfer transfer = { { MPI_REQUEST_NULL, MPI_REQUEST_NULL } };
        if (step + 1 < job->ranks)
            begin_transfer(&transfer, pass, step % 2, block);
        for (int i = 0; i < SLICE_RUNS * SLICE_RUNS; i++) {
            const struct answer *answer = &pass->answers[i / SLICE_RUNS];
            const struct attn_tensor query = attend_view(&pass->query, answer->rows);
            const struct keys keys = packed(job, pass->buffers[step % 2], slice, i % SLICE_RUNS);
            attend_merge(&pass->attend, answer->partial, &query, answer->rows.first, &keys, move_on,
                         &transfer);
        }
        const double begun = MPI_Wtime();
        MPI_Waitall(2, transfer.requests, MPI_STATUSES_IGNORE);
        waited += MPI_Wtime() - begun;
    }
    return waited;
}

void pass_run(struct pass *pass, double *seconds)
{
    const struct job *job = pass->attend.job;
    MPI_Datatype block = block_type();

    MPI_Barrier(MPI_COMM_WORLD);
    const double begun = MPI_Wtime();
    pass->attend.seconds = 0;
    const double sent =
        job->exchange == EXCHANGE_TREE ? run_tree(pass, block) : run_ring(pass, block);
    seconds[PHASE_TOTAL] = MPI_Wtime() - begun;
    MPI_Type_free(&block);
    seconds[PHASE_SEND] = sent;
    seconds[PHASE_ATTEND] = pass->attend.seconds;
    seconds[PHASE_MERGE] = seconds[PHASE_TOTAL] - sent - pass->attend.seconds;
}
