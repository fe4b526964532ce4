/* SPDX-License-Identifier: Apache-2.0 */
/* attend.c - plans of the library over parts, and the merge as an operation of MPI. */
#include "mpi/attend.h"

#include "merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* MPI_User_function: inout[i] = merge of in[i] and inout[i], whose last float is the lse. */
static void merge_rows(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const float *other = in;
    float *own = inout;
    double weights[2];
    int bytes;

    MPI_Type_size(*type, &bytes);
    const int64_t columns = bytes / (int)sizeof(float) - 1;
    for (int64_t i = 0; i < *count; i++, other += columns + 1, own += columns + 1) {
        const struct attn_part parts[2] = { { other, other + columns }, { own, own + columns } };
        attn_merge(parts, 2, 0, 1, columns, own, columns, own + columns, weights);
    }
}

void attend_init(struct attend *attend, const struct job *job)
{
    struct fault fault;

    *attend = (struct attend){ .job = job };
    if (!team_init(&attend->team, (int)job->threads)) {
        fault_set(&fault, FAULT_MEMORY, "the system has no %lld threads for --threads",
                  (long long)job->threads);
        job_abort(job, &fault);
    }
    MPI_Type_contiguous((int)job->v_head_dim + 1, MPI_FLOAT, &attend->row_type);
    MPI_Type_commit(&attend->row_type);
    MPI_Op_create(merge_rows, 1, &attend->merge);
}

void attend_free(struct attend *attend)
{
    MPI_Type_free(&attend->row_type);
    MPI_Op_free(&attend->merge);
    team_free(&attend->team);
    free(attend->workspaces);
    free(attend->fresh);
}

struct attn_tensor attend_view(const struct attn_tensor *tensor, struct run run)
{
    struct attn_tensor part = *tensor;
    const size_t row_bytes = (size_t)tensor->stride[2] * attn_dtype_size(tensor->dtype);

    part.data = (char *)tensor->data + (size_t)run.first * row_bytes;
    part.shape[2] = run.count;
    return part;
}

struct attn_problem attend_problem(const struct job *job, const struct attn_tensor *query,
                                   int64_t first_row, const struct keys *keys, int64_t *past_len)
{
    struct attn_problem problem = { .options = job->options };

    problem.query = *query;
    problem.key = keys->key;
    problem.value = keys->value;
    problem.kv_offset = keys->first;
    for (int64_t b = 0; b < job->batch; b++)
        past_len[b] = job->past_len + first_row;
    problem.past_len = past_len;
    return problem;
}

/* A view of a partial answer. */
static struct attn_tensor answer_view(const struct job *job, float *data, int64_t rows,
                                      int64_t columns)
{
    return attn_tensor_dense(data, ATTN_F32, job->batch, job->q_heads, rows, columns);
}

static void set_outputs(const struct job *job, struct attn_problem *problem, float *partial)
{
    const int64_t rows = problem->query.shape[2], columns = job->v_head_dim;

    problem->context = answer_view(job, partial, rows, columns);
    problem->lse = answer_view(job, partial + columns, rows, 1);
    for (int i = 0; i < 2; i++) {
        struct attn_tensor *output = i ? &problem->lse : &problem->context;
        output->stride[2] = columns + 1;
        output->stride[1] = rows * output->stride[2];
        output->stride[0] = job->q_heads * output->stride[1];
    }
}

bool attend_check(const struct job *job, const struct attn_tensor *query, const struct keys *keys,
                  struct fault *fault)
{
    int64_t *past_len = job_memory(job, job->batch * (int64_t)sizeof *past_len);
    struct attn_problem problem = attend_problem(job, query, 0, keys, past_len);
    struct attn_plan plan;
    const char *where;

    const enum attn_status status = attn_plan_init(&plan, &problem, &where);
    free(past_len);
    return status == ATTN_OK || fault_from_attn(fault, status, where);
}

struct planned {
    const struct attend *attend;
    const struct attn_plan *plan;
};

static void run_task(void *of, int64_t number, int thread)
{
    const struct planned *planned = of;

    attn_plan_run(planned->plan, number,
                  planned->attend->workspaces + (size_t)thread * planned->attend->workspace_bytes);
}

void attend_run(struct attend *attend, const struct attn_problem *problem, void (*on_task)(void *),
                void *of)
{
    struct attn_plan plan;
    struct fault fault;
    const char *where;
    const double begun = MPI_Wtime();
    const enum attn_status status = attn_plan_init(&plan, problem, &where);

    if (status != ATTN_OK) {
        fault_from_attn(&fault, status, where);
        job_abort(attend->job, &fault);
    }
    if (plan.workspace_bytes > attend->workspace_bytes) {
        free(attend->workspaces);
        attend->workspace_bytes = (plan.workspace_bytes + 63) / 64 * 64;
        attend->workspaces =
            job_memory(attend->job, (int64_t)attend->workspace_bytes * attend->team.count);
    }
    struct planned planned = { attend, &plan };
    team_run(&attend->team, plan.task_count, run_task, &planned, on_task, of);
    attend->seconds += MPI_Wtime() - begun;
}

int64_t attend_floats(const struct job *job, int64_t rows)
{
    return job->batch * job->q_heads * rows * (job->v_head_dim + 1);
}

void attend_clear(const struct job *job, float *partial, int64_t rows)
{
    const int64_t width = job->v_head_dim + 1, end = attend_floats(job, rows);

    memset(partial, 0, (size_t)end * sizeof *partial);
    for (int64_t at = width - 1; at < end; at += width)
        partial[at] = -INFINITY;
}

/* Rows of two partial answers, MERGE_ROWS of them a task. */
enum { MERGE_ROWS = 512 };

struct merging {
    struct attend *attend;
    float *from, *to;
    int64_t rows;
};

static void merge_some(void *of, int64_t number, int thread)
{
    struct merging *merging = of;
    const int64_t width = merging->attend->job->v_head_dim + 1, first = number * MERGE_ROWS;
    int count = (int)(merging->rows - first < MERGE_ROWS ? merging->rows - first : MERGE_ROWS);

    (void)thread;
    merge_rows(merging->from + first * width, merging->to + first * width, &count,
               &merging->attend->row_type);
}

/* Whether any of these rows may see any of these keys, by position alone. */
static bool may_see(const struct job *job, struct run rows, struct run keys)
{
    const struct attn_options *options = &job->options;

    return rows.count > 0 && keys.count > 0
           && (!options->causal || keys.first <= rows.first + rows.count - 1)
           && (options->window_left < 0
               || keys.first + keys.count - 1 >= rows.first - options->window_left);
}

void attend_merge(struct attend *attend, float *partial, const struct attn_tensor *query,
                  int64_t first_row, const struct keys *keys, void (*on_task)(void *), void *of)
{
    const struct job *job = attend->job;
    const int64_t rows = query->shape[2], floats = attend_floats(job, rows);

    if (!may_see(job, (struct run){ job->past_len + first_row, rows },
                 (struct run){ keys->first, keys->key.shape[2] }))
        return;
    if (floats > attend->fresh_floats) {
        free(attend->fresh);
        attend->fresh = job_memory(job, floats * (int64_t)sizeof *attend->fresh);
        attend->fresh_floats = floats;
    }
    int64_t *past_len = job_memory(job, job->batch * (int64_t)sizeof *past_len);
    struct attn_problem problem = attend_problem(job, query, first_row, keys, past_len);
    set_outputs(job, &problem, attend->fresh);
    attend_run(attend, &problem, on_task, of);
    free(past_len);
    struct merging merging = { attend, attend->fresh, partial, floats / (job->v_head_dim + 1) };
    team_run(&attend->team, (merging.rows + MERGE_ROWS - 1) / MERGE_ROWS, merge_some, &merging,
             on_task, of);
}
