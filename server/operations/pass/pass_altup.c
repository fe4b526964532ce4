/* SPDX-License-Identifier: Apache-2.0 */
/* pass_altup.c - the steps of a model that has several rows for each token (struct model_altup):
 * first they are made of the row of the token; each block predicts them, and what it computes of
 * the first corrects them; at last they become one row. Rows of a token follow each other.
 *
 * While a block computes, the first of the predicted rows are the rows of the pass, in which a
 * product of low rank joins what they were. */
#include "operations/pass/pass_internal.h"

#include <math.h>
#include <string.h>

struct pass_altup_rows {
    float *all;       /* [rows][count][width] */
    float *low;       /* [rows][columns of the product of low rank] */
    float *projected; /* [rows][width] */
    int64_t low_columns;
};

static const struct model_altup *altup_of(const struct pass *pass, const struct pass_step *step)
{
    return &pass->forward->streams[step->stream].altup;
}

static int64_t width_of(const struct pass *pass, const struct pass_step *step)
{
    return pass->forward->streams[step->stream].width;
}

static int64_t row_tasks(const struct pass *pass, const struct pass_step *step)
{
    return pass_row_tasks(pass->row_count[step->stream],
                          altup_of(pass, step)->count * width_of(pass, step));
}

static void task_rows(const struct pass *pass, const struct pass_step *step, int64_t task,
                      int64_t *first, int64_t *count)
{
    pass_task_rows(pass->row_count[step->stream],
                   altup_of(pass, step)->count * width_of(pass, step), task, first, count);
}

/* Row `number` of a token. */
static float *row_at(const struct pass *pass, const struct pass_step *step, int64_t row,
                     int64_t number)
{
    const int64_t width = width_of(pass, step);
    return pass->altup->all + (row * altup_of(pass, step)->count + number) * width;
}

static float *first_row(const struct pass *pass, const struct pass_step *step, int64_t row)
{
    return pass->rows[step->stream] + row * width_of(pass, step);
}

static bool plan_rows(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                      struct fault *fault)
{
    (void)fault;
    pass_rows_work(pass->row_count[step->stream],
                   altup_of(pass, step)->count * width_of(pass, step), work);
    return true;
}

static int64_t one_turn(struct pass *pass, const struct pass_step *step, int turn,
                        struct fault *fault)
{
    (void)fault;
    return turn > 0 ? PASS_OVER : row_tasks(pass, step);
}

void pass_altup_move(const struct pass *pass, int stream, int64_t to, int64_t from)
{
    const int64_t numbers =
        pass->forward->streams[stream].altup.count * pass->forward->streams[stream].width;
    if (pass->altup)
        memmove(pass->altup->all + to * numbers, pass->altup->all + from * numbers,
                (size_t)numbers * sizeof(float));
}

/* ---------------------------------------------------------------- magnitudes -- */

/* The root of the mean of squares. */
static double magnitude(const float *row, int64_t width, double least)
{
    double sum = 0;
    for (int64_t c = 0; c < width; c++)
        sum += (double)row[c] * (double)row[c];
    sum /= (double)width;
    return sqrt(sum > least ? sum : least);
}

/* What a projected row is multiplied by to be as large as the first. */
static float equalizing(const float *first, const float *row, int64_t width)
{
    static const double LEAST = 1e-5;
    return (float)(magnitude(first, width, 0) / magnitude(row, width, LEAST));
}

/* ------------------------------------------------------- from one row to several -- */

static bool spread_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                        struct fault *fault)
{
    const int64_t row_count = pass->row_count[step->stream], width = width_of(pass, step);
    const struct model_altup *altup = altup_of(pass, step);
    struct pass_altup_rows *rows = pass_alloc(pass, 1, sizeof *rows, fault);
    if (!rows)
        return false;
    *rows = (struct pass_altup_rows){ .low_columns = 0 };
    pass->altup = rows;
    for (int64_t i = 0; i < altup->count - 1; i++)
        pass_product_work(pass, &altup->spread[i], row_count, work);
    return plan_rows(pass, step, work, fault)
           && (rows->all =
                   pass_alloc(pass, (row_count + 1) * altup->count * width, sizeof(float), fault))
           && (rows->projected = pass_alloc(pass, (row_count + 1) * width, sizeof(float), fault));
}

static int64_t spread_tasks(struct pass *pass, const struct pass_step *step, int turn,
                            struct fault *fault)
{
    const struct model_altup *altup = altup_of(pass, step);
    const int64_t products = altup->count - 1;
    (void)fault;
    if (turn >= products)
        return turn > products ? PASS_OVER : row_tasks(pass, step);
    pass_product(pass, &altup->spread[turn], pass->rows[step->stream],
                 row_at(pass, step, 0, turn + 1), pass->row_count[step->stream]);
    pass->product.y_stride = altup->count * width_of(pass, step);
    return attn_product_tasks(&pass->product);
}

static void spread_run(const struct pass *pass, const struct pass_step *step, int turn,
                       int64_t task, void *workspace)
{
    const int64_t n = altup_of(pass, step)->count, width = width_of(pass, step);
    int64_t first, count;
    if (turn < n - 1) {
        attn_product_run(&pass->product, task, workspace);
        return;
    }
    task_rows(pass, step, task, &first, &count);
    for (int64_t row = first; row < first + count; row++) {
        const float *x = first_row(pass, step, row);
        memcpy(row_at(pass, step, row, 0), x, (size_t)width * sizeof *x);
        for (int64_t i = 1; i < n; i++)
            attn_rows_cap(pass->limits.kernels, row_at(pass, step, row, i), width,
                          equalizing(x, row_at(pass, step, row, i), width), 0);
    }
}

const struct pass_step_functions pass_spread = { spread_plan, spread_tasks, spread_run };

/* --------------------------------------------------------------- predictions -- */

/* What a row is like, for the coefficients. output is room for its norm. */
static void modalities(const struct pass *pass, const struct pass_step *step, const float *x,
                       int64_t row, double *like)
{
    const struct model_block_altup *altup = step->block->altup;
    const int64_t n = altup_of(pass, step)->count, width = width_of(pass, step);
    float *normed = pass->output + row * width;
    attn_rows_norm(&altup->norm, normed, width, x, width, 1, width);
    for (int64_t a = 0; a < n; a++) {
        const float *router = altup->router + a * width;
        double sum = 0;
        for (int64_t c = 0; c < width; c++)
            sum += (double)router[c] * (double)normed[c];
        like[a] = tanh(sum / (double)width);
    }
}

static double weighted(const float *coefficients, const double *like, int64_t n, float clip)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        float coefficient = coefficients[k];
        if (clip > 0)
            coefficient = fminf(fmaxf(coefficient, -clip), clip);
        sum += (double)coefficient * like[k];
    }
    return sum;
}

/* Of all rows of a token, column by column. */
static void predict_row(const struct pass *pass, const struct pass_step *step, int64_t row)
{
    const int64_t n = altup_of(pass, step)->count, width = width_of(pass, step);
    float *all = row_at(pass, step, row, 0);
    double like[MODEL_ALTUP_MAX], weights[MODEL_ALTUP_MAX * MODEL_ALTUP_MAX];
    double column[MODEL_ALTUP_MAX];
    modalities(pass, step, all, row, like);
    for (int64_t j = 0; j < n; j++)
        for (int64_t a = 0; a < n; a++)
            weights[j * n + a] =
                weighted(step->block->altup->prediction + (j * n + a) * n, like, n, 0);
    for (int64_t c = 0; c < width; c++) {
        for (int64_t a = 0; a < n; a++)
            column[a] = (double)all[a * width + c];
        for (int64_t j = 0; j < n; j++) {
            double sum = column[j];
            for (int64_t a = 0; a < n; a++)
                sum += weights[j * n + a] * column[a];
            all[j * width + c] = (float)sum;
        }
    }
    memcpy(first_row(pass, step, row), all, (size_t)width * sizeof *all);
}

static void predict_run(const struct pass *pass, const struct pass_step *step, int turn,
                        int64_t task, void *workspace)
{
    int64_t first, count;
    (void)turn;
    (void)workspace;
    task_rows(pass, step, task, &first, &count);
    for (int64_t row = first; row < first + count; row++)
        predict_row(pass, step, row);
}

const struct pass_step_functions pass_predict = { plan_rows, one_turn, predict_run };

/* -------------------------------------------------------------------- LAuReL -- */

enum { LAUREL_LEFT, LAUREL_RIGHT, LAUREL_SUM };

static bool laurel_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                        struct fault *fault)
{
    const struct model_block_altup *altup = step->block->altup;
    const int64_t row_count = pass->row_count[step->stream];
    pass_product_work(pass, &altup->left, row_count, work);
    pass_product_work(pass, &altup->right, row_count, work);
    pass_rows_work(row_count, 3 * width_of(pass, step), work);
    if (altup->left.out <= pass->altup->low_columns)
        return true;
    pass->altup->low_columns = altup->left.out;
    pass->altup->low = pass_alloc(pass, (row_count + 1) * altup->left.out, sizeof(float), fault);
    return pass->altup->low != NULL;
}

static int64_t laurel_tasks(struct pass *pass, const struct pass_step *step, int turn,
                            struct fault *fault)
{
    const struct model_block_altup *altup = step->block->altup;
    const int64_t row_count = pass->row_count[step->stream];
    (void)fault;
    if (turn == LAUREL_LEFT)
        return pass_product(pass, &altup->left, pass->normed, pass->altup->low, row_count);
    if (turn == LAUREL_RIGHT)
        return pass_product(pass, &altup->right, pass->altup->low, pass->altup->projected,
                            row_count);
    return turn > LAUREL_SUM ? PASS_OVER : row_tasks(pass, step);
}

/* The rows as they may have been edited are the first of those that are corrected later. */
static void laurel_run(const struct pass *pass, const struct pass_step *step, int turn,
                       int64_t task, void *workspace)
{
    const struct attn_kernels *kernels = pass->limits.kernels;
    const int64_t width = width_of(pass, step);
    int64_t first, count;
    if (turn != LAUREL_SUM) {
        attn_product_run(&pass->product, task, workspace);
        return;
    }
    task_rows(pass, step, task, &first, &count);
    for (int64_t row = first; row < first + count; row++) {
        float *x = first_row(pass, step, row), *low = pass->altup->projected + row * width;
        memcpy(row_at(pass, step, row, 0), x, (size_t)width * sizeof *x);
        attn_rows_norm(&step->block->altup->laurel_norm, low, width, low, width, 1, width);
        attn_rows_add(kernels, low, width, pass->normed + row * width, width, 1, NULL, 1, width);
        attn_rows_add(kernels, x, width, low, width, 1, NULL, 1, width);
    }
}

const struct pass_step_functions pass_laurel = { laurel_plan, laurel_tasks, laurel_run };

/* --------------------------------------------------------------- corrections -- */

/* The first row is predicted and corrected as all others are; what leaves it scaled is for the part
 * of the block that reads tokens. */
static void correct_row(const struct pass *pass, const struct pass_step *step, int64_t row)
{
    const struct model_block_altup *altup = step->block->altup;
    const int64_t n = altup_of(pass, step)->count, width = width_of(pass, step);
    float *all = row_at(pass, step, row, 0), *x = first_row(pass, step, row);
    double like[MODEL_ALTUP_MAX], weights[MODEL_ALTUP_MAX];
    modalities(pass, step, x, row, like);
    for (int64_t i = 0; i < n; i++)
        weights[i] = weighted(altup->correction + i * n, like, n, altup->clip) + 1;
    for (int64_t c = 0; c < width; c++) {
        const double innovation = (double)x[c] - (double)all[c];
        for (int64_t i = 0; i < n; i++)
            all[i * width + c] = (float)((double)all[i * width + c] + innovation * weights[i]);
        x[c] = altup->scale ? all[c] * altup->scale[c] : all[c];
    }
}

static void correct_run(const struct pass *pass, const struct pass_step *step, int turn,
                        int64_t task, void *workspace)
{
    int64_t first, count;
    (void)turn;
    (void)workspace;
    task_rows(pass, step, task, &first, &count);
    for (int64_t row = first; row < first + count; row++)
        correct_row(pass, step, row);
}

const struct pass_step_functions pass_correct = { plan_rows, one_turn, correct_run };

/* What a block reads of tokens is added to all rows but the first. */
static void beside_run(const struct pass *pass, const struct pass_step *step, int turn,
                       int64_t task, void *workspace)
{
    const int64_t n = altup_of(pass, step)->count, width = width_of(pass, step);
    int64_t first, count;
    (void)turn;
    (void)workspace;
    task_rows(pass, step, task, &first, &count);
    for (int64_t row = first; row < first + count; row++) {
        float *output = pass->output + row * width;
        attn_rows_norm(&step->part->inside, output, width, output, width, 1, width);
        for (int64_t i = 1; i < n; i++)
            attn_rows_add(pass->limits.kernels, row_at(pass, step, row, i), width, output, width, 1,
                          NULL, 1, width);
    }
}

const struct pass_step_functions pass_beside = { plan_rows, one_turn, beside_run };

/* ------------------------------------------------------- from several rows to one -- */

static bool join_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                      struct fault *fault)
{
    const struct model_altup *altup = altup_of(pass, step);
    for (int64_t i = 0; i < altup->count - 1; i++)
        pass_product_work(pass, &altup->join[i], pass->row_count[step->stream], work);
    return plan_rows(pass, step, work, fault);
}

/* Turn by turn a product, then what it adds. */
static int64_t join_tasks(struct pass *pass, const struct pass_step *step, int turn,
                          struct fault *fault)
{
    const struct model_altup *altup = altup_of(pass, step);
    const int64_t i = turn / 2;
    (void)fault;
    if (i >= altup->count - 1)
        return PASS_OVER;
    if (turn % 2 == 1)
        return row_tasks(pass, step);
    pass_product(pass, &altup->join[i], row_at(pass, step, 0, i + 1), pass->altup->projected,
                 pass->row_count[step->stream]);
    pass->product.x_stride = altup->count * width_of(pass, step);
    return attn_product_tasks(&pass->product);
}

static void join_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                     void *workspace)
{
    const struct attn_kernels *kernels = pass->limits.kernels;
    const int64_t n = altup_of(pass, step)->count, width = width_of(pass, step);
    int64_t first, count;
    if (turn % 2 == 0) {
        attn_product_run(&pass->product, task, workspace);
        return;
    }
    task_rows(pass, step, task, &first, &count);
    for (int64_t row = first; row < first + count; row++) {
        const float *projected = pass->altup->projected + row * width;
        const float *own = row_at(pass, step, row, 0);
        float *x = first_row(pass, step, row);
        if (turn == 1)
            memcpy(x, own, (size_t)width * sizeof *x);
        attn_rows_add(kernels, x, width, projected, width, equalizing(own, projected, width), NULL,
                      1, width);
        if (turn / 2 == n - 2)
            attn_rows_cap(kernels, x, width, 1 / (float)n, 0);
    }
}

const struct pass_step_functions pass_join = { join_plan, join_tasks, join_run };
