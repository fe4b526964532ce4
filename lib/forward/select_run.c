/* select_run.c - one row and one key/value head: a few groups are read for an estimate of the
 * softmax's sum, twice as many until the bounds say which of the rest have to be read, then the
 * context over all of those.
 *
 * Each reading is a problem of one query row over a list of pages, so the kernels and their
 * exactness are those of any problem. An estimate reads no values. */
#include "forward/select_internal.h"

#include "base/convert.h"
#include "forward/mask.h"

#include <math.h>

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

size_t select_run_bytes(const struct attn_plan_full *plan)
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

void select_run_chosen(struct select_task *task, bool is_last)
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

static void begin(struct select_task *task, int64_t number, void *shared)
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
    begin(&task, number, select_missing(full, missing, kv_head, shared));
    choose_some_or_all(&task, select_largest(full, missing, kv_head, shared));
    for (int64_t g = 0; g < task.group_count; g++)
        task.groups[g].is_chosen = task.groups[g].is_read;
    select_run_chosen(&task, true);
    store_lse(&task);
    store_shares(&task);
}
