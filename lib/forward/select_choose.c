/* select_choose.c - the bounds of scores, the order of groups, and what those that are left may
 * weigh.
 *
 * A bound is a dot product: of the query's numbers above 0 with the greatest numbers of the group
 * and of those below 0 with the least. The kernels of decoding compute it in float. The error of a
 * dot product of n terms in float, in any order, is at most n * 2^-24 / (1 - n * 2^-24) times the
 * sum of |terms| (Higham 2002, 3.1); margin is that for both sides of a comparison, with room for
 * the roundings of scale, softcap and exp. All else is in double. */
#include "base/convert.h"
#include "base/internal.h"
#include "forward/select_internal.h"
#include "rows.h"

#include <float.h>
#include <math.h>

/* Roundings beside those of the terms, each of at most 2^-24 of the largest possible score. */
enum { ROUNDINGS = 64 };

/* A share of the softmax is told as a float, which is rounded up by less than this part. */
static const double ROUNDED_UP = 2e-7;

size_t select_cut(struct select_task *task, const struct attn_selection *selection,
                  const struct attn_plan_full *plan, void *memory)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t heads = problem->query.shape[1] / problem->key.shape[1];
    const int64_t head_dim = problem->query.shape[3];
    size_t bytes = 0;
    int64_t missing, all, pages = 0;

    select_count(selection, plan, &missing, &all);
    for (int i = 0; i < 2; i++) {
        const struct attn_tensor *side = i == 0 ? &problem->key : &problem->value;
        pages = attn_max(pages, side->pages != NULL ? side->pages->count : 1);
    }
    task->page_max = 2 * all + pages; /* a group may lie in two blocks of scales */
    task->bounds_stride = attn_divide_up(all, 16) * 16;
    task->groups = attn_cut(memory, &bytes, all, sizeof *task->groups);
    task->bounds = attn_cut(memory, &bytes, heads * task->bounds_stride, sizeof(float));
    task->query = attn_cut(memory, &bytes, heads * attn_bounds_columns(head_dim), sizeof(float));
    task->widened = attn_cut(memory, &bytes, heads * head_dim, sizeof(float));
    task->margin = attn_cut(memory, &bytes, heads, sizeof(double));
    task->lse = attn_cut(memory, &bytes, heads, sizeof(double));
    task->left = attn_cut(memory, &bytes, heads, sizeof(double));
    task->rank = attn_cut(memory, &bytes, all, sizeof(float));
    task->ranked = attn_cut(memory, &bytes, all, sizeof(float));
    task->order = attn_cut(memory, &bytes, all, sizeof *task->order);
    task->found = attn_cut(memory, &bytes, heads, sizeof(float));
    task->pages = attn_cut(memory, &bytes, 2 * task->page_max, sizeof *task->pages);
    task->inner = memory != NULL ? (char *)memory + bytes : NULL;
    return bytes;
}

/* ------------------------------------------------------------------------ the bounds -- */

/* The head's query in two halves, and the sum of the largest terms that a score can have. */
static double split_query(const struct select_task *task, int64_t head, const float *numbers,
                          const float *largest)
{
    const int64_t head_dim = task->plan->problem.query.shape[3];
    const int64_t columns = attn_bounds_columns(head_dim);
    const float scale = (float)task->plan->problem.options.scale;
    float *halves = task->query + head * columns;
    double sum = 0;

    for (int64_t d = 0; d < head_dim; d++) {
        const float scaled = numbers[d] * scale;
        halves[d] = scaled > 0 ? scaled : 0;
        halves[head_dim + d] = scaled < 0 ? scaled : 0;
        sum += (fabs((double)scaled) + 0x1p-100) * (double)largest[d];
    }
    for (int64_t d = 2 * head_dim; d < columns; d++)
        halves[d] = 0;
    return sum;
}

static void split_queries(struct select_task *task, const float *largest)
{
    const struct attn_tensor *query = &task->plan->problem.query;
    const int64_t head_dim = query->shape[3];

    for (int64_t h = 0; h < task->heads; h++) {
        const struct attn_block block = {
            .head = task->q_head + h, .row = task->row, .row_count = 1, .columns = head_dim
        };
        int64_t stride;
        const float *numbers =
            attn_block_read(task->plan->kernels, query, &block, task->widened, &stride);
        const double most = split_query(task, h, numbers, largest);
        task->margin[h] =
            most < (double)FLT_MAX / 4
                ? (double)(2 * head_dim + ROUNDINGS) * 0x1p-24 * most + (double)head_dim * 0x1p-120
                : INFINITY;
    }
}

/* The bound outward by the margin, after softcap; infinite where the product was not finite. */
static float bound_of(const struct select_task *task, int64_t head, float product)
{
    const double cap = task->plan->problem.options.softcap;
    double bound = (double)product + task->margin[head];

    if (!(bound < (double)FLT_MAX))
        return INFINITY;
    if (cap > 0)
        bound = cap * tanh(bound / cap) + cap * 1e-12;
    const float rounded = (float)bound;
    return (double)rounded < bound ? nextafterf(rounded, INFINITY) : rounded;
}

bool select_bound_groups(struct select_task *task, const float *largest)
{
    const int64_t columns = attn_bounds_columns(task->plan->problem.query.shape[3]);
    int64_t first = 0;

    split_queries(task, largest);
    for (int64_t h = 0; h < task->heads; h++)
        if (!(task->margin[h] < INFINITY))
            return false;
    while (first < task->group_count) {
        int64_t end = first + 1;
        while (end < task->group_count
               && task->groups[end].row == task->groups[end - 1].row + columns)
            end++;
        task->plan->kernels->decode_scores[ATTN_NUMBERS_F32](
            task->bounds + first, task->bounds_stride, task->query, columns, task->heads,
            task->groups[first].row, columns, end - first, columns, NULL);
        first = end;
    }
    for (int64_t h = 0; h < task->heads; h++)
        for (int64_t g = 0; g < task->group_count; g++) {
            float *bound = &task->bounds[h * task->bounds_stride + g];
            *bound = bound_of(task, h, *bound);
        }
    return true;
}

/* ------------------------------------------------------------------- what is read so far -- */

/* log(exp(a) + exp(b)) */
static double log_add(double a, double b)
{
    const double most = a > b ? a : b;

    return most == -INFINITY ? most : most + log1p(exp((a > b ? b : a) - most));
}

void select_add(struct select_task *task, int64_t head, double found)
{
    task->lse[head] = log_add(task->lse[head], found);
}

/* What the group may weigh for the head, relative to what is read. */
static double weight_of(const struct select_task *task, int64_t head, int64_t g)
{
    const double bound = (double)task->bounds[head * task->bounds_stride + g];

    return (double)task->groups[g].count * exp(bound - task->lse[head]);
}

double select_left(const struct select_task *task, int64_t head)
{
    double sum = 0;

    for (int64_t g = 0; g < task->group_count; g++)
        if (!task->groups[g].is_read)
            sum += weight_of(task, head, g);
    return sum;
}

/* -------------------------------------------------------------------------- the order -- */

/* What bounds of a head are compared with: a row that has read nothing compares them alone. */
static double base_of(const struct select_task *task, int64_t head)
{
    return task->lse[head] > -INFINITY ? task->lse[head] : 0;
}

void select_order(struct select_task *task)
{
    int64_t count = 0;

    for (int64_t g = 0; g < task->group_count; g++) {
        double most = -INFINITY;
        for (int64_t h = 0; h < task->heads; h++)
            most = fmax(most, (double)task->bounds[h * task->bounds_stride + g] - base_of(task, h));
        task->rank[g] = (float)most;
    }
    attn_top_k(task->rank, task->group_count, task->group_count, task->ranked, task->order);
    for (int64_t i = 0; i < task->group_count; i++)
        if (!task->groups[task->order[i]].is_read)
            task->order[count++] = task->order[i];
    task->order_count = count;
}

int64_t select_needed(const struct select_task *task)
{
    const double share = task->selection->epsilon * (1 - ROUNDED_UP);
    const double most = share / (1 - share);
    int64_t needed = task->order_count;

    for (int64_t h = 0; h < task->heads; h++)
        task->left[h] = 0;
    while (needed > 0) {
        for (int64_t h = 0; h < task->heads; h++) {
            task->left[h] += weight_of(task, h, task->order[needed - 1]);
            if (!(task->left[h] <= most))
                return needed;
        }
        needed--;
    }
    return 0;
}

float select_share(double left)
{
    const double share = left / (1 + left) * (1 + 1e-9);
    const float rounded = (float)share;

    return (double)rounded < share ? nextafterf(rounded, INFINITY) : rounded;
}
