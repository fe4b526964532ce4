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
    *attend = (struct attend){ .job = job };
    MPI_Type_contiguous((int)job->v_head_dim + 1, MPI_FLOAT, &attend->row_type);
    MPI_Type_commit(&attend->row_type);
    MPI_Op_create(merge_rows, 1, &attend->merge);
}

void attend_free(struct attend *attend)
{
    MPI_Type_free(&attend->row_type);
    MPI_Op_free(&attend->merge);
    free(attend->workspace);
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
        free(attend->workspace);
        attend->workspace = job_memory(attend->job, (int64_t)plan.workspace_bytes);
        attend->workspace_bytes = plan.workspace_bytes;
    }
    for (int64_t task = 0; task < plan.task_count; task++) {
        attn_plan_run(&plan, task, attend->workspace);
        if (on_task)
            on_task(of);
    }
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
    int count = (int)(floats / (job->v_head_dim + 1));

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
    merge_rows(attend->fresh, partial, &count, &attend->row_type);
}
