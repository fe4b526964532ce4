/* SPDX-License-Identifier: Apache-2.0 */
/* select_run.c - one row and one key/value head: a few groups are read for an estimate of the
 * softmax's sum, twice as many until the bounds say which of the rest have to be read, then the
 * context over all of those.
 *
 * Each reading is a problem of one query row over a list of pages, so the kernels and their
 * exactness are those of any problem. An estimate reads no values.
 *
 * A bound is a dot product: of the query's numbers above 0 with the greatest numbers of the group
 * and of those below 0 with the least. The kernels of decoding compute it in float. The error of a
 * dot product of n terms in float, in any order, is at most n * 2^-24 / (1 - n * 2^-24) times the
 * sum of |terms| (Higham 2002, 3.1); margin is that for both sides of a comparison, with room for
 * the roundings of scale, softcap and exp. All else is in double. */
#include "base/convert.h"
#include "base/internal.h"
#include "forward/mask.h"
#include "forward/select_internal.h"
#include "rows.h"

#include <float.h>
#include <math.h>

/* One row and one key/value head. */
struct select_task {
    const struct attn_selection *selection;
    const struct attn_plan_full *plan;
    int64_t row, kv_head, q_head, heads; /* query heads [q_head, q_head + heads) */
    int64_t seen;                        /* keys */
    struct select_group *groups;         /* [group_count], in order */
    int64_t group_count;
    float *bounds; /* [heads][bounds_stride]: at least the scores, of each group */
    int64_t bounds_stride;
    float *query;         /* [heads][columns]: numbers above 0, numbers below 0, as bounds lie */
    float *widened;       /* [heads][head_dim] */
    double *margin;       /* [heads]: at least the rounding error of a score */
    double *lse;          /* [heads]: at most that of what is read so far, sink included */
    double *left;         /* [heads] */
    float *rank, *ranked; /* [group_count] */
    int64_t *order;       /* [order_count]: groups that are not read, the best first */
    int64_t order_count;
    float *found;            /* [heads]: lse of one run */
    struct attn_page *pages; /* [2][page_max] of a run */
    int64_t page_max;
    void *inner; /* workspace of a run */
};

/* Roundings beside those of the terms, each of at most 2^-24 of the largest possible score. */
enum { ROUNDINGS = 64 };

/* A share of the softmax is told as a float, which is rounded up by less than this part. */
static const double ROUNDED_UP = 2e-7;

static size_t select_cut(struct select_task *task, const struct attn_selection *selection,
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

/* Sets bounds and margin of the task's groups. False: some score may not be finite. */
static bool select_bound_groups(struct select_task *task, const float *largest)
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

/* Adds keys that were read, with lse found, to the lse so far. */
static void select_add(struct select_task *task, int64_t head, double found)
{
    task->lse[head] = log_add(task->lse[head], found);
}

/* What the group may weigh for the head, relative to what is read. */
static double weight_of(const struct select_task *task, int64_t head, int64_t g)
{
    const double bound = (double)task->bounds[head * task->bounds_stride + g];

    return (double)task->groups[g].count * exp(bound - task->lse[head]);
}

/* The most that the groups which are not read may weigh for the head, relative to exp(lse). */
static double select_left(const struct select_task *task, int64_t head)
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

/* Lists the groups that are not read, those that can matter most first. */
static void select_order(struct select_task *task)
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

/* How many of those, from the first on, have to be read until the others have the share epsilon at
 * most. */
static int64_t select_needed(const struct select_task *task)
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

/* The share that is left of what is read and what is left at most: float, and no less than it is.
 */
static float select_share(double left)
{
    const double share = left / (1 + left) * (1 + 1e-9);
    const float rounded = (float)share;

    return (double)rounded < share ? nextafterf(rounded, INFINITY) : rounded;
}

/* Of all groups: the first estimate reads one in FIRST_PART, at least FIRST_MIN; estimates together
 * at most about one in ESTIMATES_PART; and where more than ALL_OF_4 quarters of the keys are
 * needed, all are read. */
enum { FIRST_PART = 32, FIRST_MIN = 4, ESTIMATES_PART = 4, ALL_OF_4 = 3 };

/* The sums of a softmax in float are within this part of the exact ones (lib/README.md says how
 * they are added), and so are their logarithms. */
static const double SUM_ERROR = 1e-3;

/* ------------------------------------------------------------------- one problem over groups -- */

static struct attn_problem problem_of(const struct attn_plan_full *plan)
{
    struct attn_problem problem = { .options = plan->problem.options, .kernels = plan->kernels };

    problem.options.causal = false;
    problem.options.window_right = -1;
    problem.options.is_prefix_stable = false;
    return problem;
}

/* The heads of the task and its row, of query or context. */
static struct attn_tensor row_of(const struct select_task *task, const struct attn_tensor *tensor)
{
    const int64_t bytes = (int64_t)attn_dtype_size(tensor->dtype);
    struct attn_tensor row = *tensor;

    if (tensor->data == NULL)
        return row;
    row.data = (char *)tensor->data + attn_tensor_index(tensor, 0, task->q_head, task->row) * bytes;
    row.shape[1] = task->heads;
    row.shape[2] = 1;
    return row;
}

/* Up to count rows from row on as a page of their own, and how many they are: rows of one page, and
 * of int8 rows that share their scales where channels have them. */
static struct attn_page page_at(const struct attn_tensor *side, int64_t head, int64_t row,
                                int64_t count, int64_t *rows)
{
    const struct attn_run run = attn_tensor_run(side, 0, head, row, count);
    struct attn_page page = { .data = (void *)(uintptr_t)run.row };

    *rows = run.count;
    if (run.dtype != ATTN_I8)
        return page;
    if (run.has_row_scales) {
        page.scale = run.scale + run.at;
    } else {
        page.scale = run.scale + run.at / ATTN_I8_ROWS * side->shape[3];
        *rows = attn_min(*rows, ATTN_I8_ROWS - run.at % ATTN_I8_ROWS);
    }
    return page;
}

/* The chosen keys of one side, as pages. */
static struct attn_tensor list_side(const struct select_task *task, const struct attn_tensor *side,
                                    struct attn_page *list, struct attn_pages *pages)
{
    struct attn_tensor view = *side;
    int64_t count;

    *pages = (struct attn_pages){ .count = 0, .list = list };
    pages->has_row_scales = side->pages != NULL && side->pages->has_row_scales;
    view.shape[1] = 1;
    view.shape[2] = 0;
    view.pages = NULL;
    for (int64_t g = 0; g < task->group_count; g++) {
        const struct select_group *group = &task->groups[g];
        for (int64_t i = 0; group->is_chosen && i < group->count;) {
            const int64_t first = group->first + i;
            struct attn_page *page = &list[pages->count++];
            *page = page_at(side, task->kv_head, first, group->count - i, &count);
            page->first = view.shape[2];
            view.shape[2] += count;
            i += count;
        }
    }
    if (pages->count > 0) {
        view.data = list[0].data;
        view.pages = pages;
    }
    return view;
}

/* The workspace of one run of a task of the plan. */
static size_t select_run_bytes(const struct attn_plan_full *plan)
{
    enum { MANY = 1 << 16 }; /* keys, of which a task needs as much memory as of any number */
    const struct attn_problem *of = &plan->problem;
    const struct attn_page page[] = { { .data = of->key.data }, { .data = of->value.data } };
    const struct attn_pages pages[] = { { 1, &page[0], false }, { 1, &page[1], true } };
    const int64_t heads = of->query.shape[1] / of->key.shape[1];
    struct attn_problem problem = problem_of(plan);
    struct attn_tensor *const sides[] = { &problem.key, &problem.value };
    struct attn_plan_full inner;
    float sum;

    problem.query = of->query;
    problem.query.shape[1] = heads;
    problem.query.shape[2] = 1;
    problem.key = of->key;
    problem.value = of->value;
    for (int i = 0; i < 2; i++) {
        sides[i]->shape[1] = 1;
        sides[i]->shape[2] = MANY;
        sides[i]->pages = &pages[i];
    }
    problem.context = of->context;
    problem.context.shape[1] = heads;
    problem.context.shape[2] = 1;
    problem.lse = attn_tensor_dense(&sum, ATTN_F32, 1, heads, 1, 1);
    return attn_plan_make(&inner, &problem, NULL) == ATTN_OK ? inner.workspace_bytes : 0;
}

/* Attends to the groups that are chosen. lse goes to task->found; the last run of a task also
 * counts sinks and writes the problem's context. */
static void select_run_chosen(struct select_task *task, bool is_last)
{
    const struct attn_problem *of = &task->plan->problem;
    struct attn_problem problem = problem_of(task->plan);
    struct attn_pages pages[2];
    struct attn_plan_full plan;

    problem.query = row_of(task, &of->query);
    problem.key = list_side(task, &of->key, task->pages, &pages[0]);
    problem.value = list_side(task, &of->value, task->pages + task->page_max, &pages[1]);
    problem.lse = attn_tensor_dense(task->found, ATTN_F32, 1, task->heads, 1, 1);
    if (is_last) {
        problem.context = row_of(task, &of->context);
        problem.sinks = of->sinks != NULL ? of->sinks + task->q_head : NULL;
    }
    if (attn_plan_make(&plan, &problem, NULL) != ATTN_OK)
        return; /* cannot be: select_run_bytes() planned the same */
    for (int64_t i = 0; i < plan.task_count; i++)
        attn_plan_run(attn_plan_given(&plan), i, task->inner);
}

/* ------------------------------------------------------------------------ which are read -- */

/* At most the exact lse of what a run has read. */
static double least_lse(const struct select_task *task, int64_t head)
{
    const double found = (double)task->found[head];

    return isfinite(found) ? found - task->margin[head] - SUM_ERROR - 0x1p-22 * fabs(found)
                           : -INFINITY;
}

static void choose_group(struct select_task *task, int64_t g, int64_t *read)
{
    struct select_group *group = &task->groups[g];

    if (!group->is_read)
        ++*read;
    group->is_read = group->is_chosen = true;
}

/* Reads the keys of the chosen groups, which are chosen no more then. */
static void estimate(struct select_task *task)
{
    select_run_chosen(task, false);
    for (int64_t h = 0; h < task->heads; h++)
        select_add(task, h, least_lse(task, h));
    for (int64_t g = 0; g < task->group_count; g++)
        task->groups[g].is_chosen = false;
    select_order(task);
}

/* The first and the last keys, which mostly weigh much, and those of the greatest bounds. */
static void choose_first(struct select_task *task, int64_t *read)
{
    const int64_t count = attn_max(FIRST_MIN, task->group_count / FIRST_PART);

    choose_group(task, 0, read);
    choose_group(task, task->group_count - 1, read);
    select_order(task);
    for (int64_t i = 0; i < task->order_count && *read < count; i++)
        choose_group(task, task->order[i], read);
}

/* Reads estimates until they cost more than they spare, and marks what is to be read. */
static void choose(struct select_task *task)
{
    int64_t read = 0;

    choose_first(task, &read);
    estimate(task);
    int64_t needed = select_needed(task);
    while (needed > read && read * ESTIMATES_PART < task->group_count) {
        const int64_t count = read;
        for (int64_t i = 0; i < count && i < task->order_count; i++)
            choose_group(task, task->order[i], &read);
        estimate(task);
        needed = select_needed(task);
    }
    for (int64_t i = 0; i < needed; i++)
        choose_group(task, task->order[i], &read);
}

static int64_t read_keys(const struct select_task *task)
{
    int64_t keys = 0;

    for (int64_t g = 0; g < task->group_count; g++)
        keys += task->groups[g].is_read ? task->groups[g].count : 0;
    return keys;
}

static void choose_all(struct select_task *task)
{
    for (int64_t g = 0; g < task->group_count; g++)
        task->groups[g].is_read = true;
}

static void choose_some_or_all(struct select_task *task, const float *largest)
{
    const bool may_leave = task->group_count > FIRST_MIN && select_bound_groups(task, largest);

    if (may_leave)
        choose(task);
    if (!may_leave || read_keys(task) * 4 > task->seen * ALL_OF_4)
        choose_all(task);
}

/* ----------------------------------------------------------------------------- a task -- */

static void select_task_begin(struct select_task *task, int64_t number, void *shared)
{
    const struct attn_problem *problem = &task->plan->problem;
    const int64_t q_len = problem->query.shape[2];
    struct select_walk walk = { 0 };

    task->heads = problem->query.shape[1] / problem->key.shape[1];
    task->row = number % q_len;
    task->kv_head = number / q_len;
    task->q_head = task->kv_head * task->heads;
    task->seen = attn_mask_row(problem, 0, task->row).high;
    while (select_walk_next(&walk, task->selection, task->plan, task->kv_head, task->seen, shared,
                            &task->groups[task->group_count]))
        task->group_count++;
    for (int64_t h = 0; h < task->heads; h++)
        task->lse[h] = (double)attn_mask_sink(problem, task->q_head + h);
}

static void store_lse(const struct select_task *task)
{
    const struct attn_tensor *lse = &task->plan->problem.lse;
    const int64_t bytes = (int64_t)attn_dtype_size(lse->dtype);

    for (int64_t h = 0; attn_is_wanted(lse) && h < task->heads; h++)
        attn_narrow(task->plan->kernels, &task->found[h], lse->dtype, 1,
                    (char *)lse->data
                        + attn_tensor_index(lse, 0, task->q_head + h, task->row) * bytes);
}

static void store_shares(struct select_task *task)
{
    const int64_t q_len = task->plan->problem.query.shape[2];
    const int64_t read = read_keys(task);

    task->selection->keys_read[task->kv_head * q_len + task->row] = read;
    for (int64_t h = 0; h < task->heads; h++) {
        task->lse[h] = read < task->seen ? fmax(task->lse[h], least_lse(task, h)) : 0;
        task->selection->mass_left[(task->q_head + h) * q_len + task->row] =
            read < task->seen ? select_share(select_left(task, h)) : 0;
    }
}

void attn_select_run(const struct attn_selection *selection, const struct attn_plan *plan,
                     int64_t number, void *shared, void *workspace)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    struct select_task task = { .selection = selection, .plan = full };
    int64_t missing, all;

    select_cut(&task, selection, full, workspace);
    select_count(selection, full, &missing, &all);
    const int64_t kv_head = number / full->problem.query.shape[2];
    select_task_begin(&task, number, select_missing(full, missing, kv_head, shared));
    choose_some_or_all(&task, select_largest(full, missing, kv_head, shared));
    for (int64_t g = 0; g < task.group_count; g++)
        task.groups[g].is_chosen = task.groups[g].is_read;
    select_run_chosen(&task, true);
    store_lse(&task);
    store_shares(&task);
}

size_t attn_select_workspace_bytes(const struct attn_selection *selection,
                                   const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    struct select_task task;

    return select_cut(&task, selection, full, NULL) + select_run_bytes(full);
}
