/* SPDX-License-Identifier: Apache-2.0 */
/* pass_feed.c - the step of a feed-forward.
 *
 * Dense: two turns for each panel of rows, up (with the gate and the activation in the same
 * product) and down; or four, where most numbers of the gate become 0: gate, up, both, down.
 *
 * A mixture of experts (Shazeer et al. 2017): the router's logits of all rows are computed first,
 * then one task chooses the experts of each row and lists the rows of each expert. An expert then
 * gathers its rows panel by panel, computes, and adds its weighted results. Experts run in the
 * order of their numbers, so a row's sum has one order whatever other rows there are. The shared
 * expert is the last of them, and every row has it. Where the mixture has norms of its own, rows
 * for the router are made first, where the sum will be; the sum of the others is complete when the
 * shared expert adds to it, and so is its norm then. */
#include "operations/pass/pass_internal.h"

#include "rows.h"

#include <math.h>
#include <string.h>

/* Room for the activations of a panel. */
static bool allocate_panel(struct pass *pass, const struct model_feed_forward *feed,
                           int64_t rows_max, struct fault *fault)
{
    const int64_t rows = rows_max < PASS_PANEL_ROWS ? rows_max : PASS_PANEL_ROWS;
    const int64_t numbers = rows * feed->up.out * (feed->is_sparse ? 2 : 1);
    if (numbers <= pass->panel_numbers)
        return true;
    pass->panel = pass_alloc(pass, numbers, sizeof *pass->panel, fault);
    pass->panel_numbers = numbers;
    return pass->panel != NULL;
}

static void add_feed_work(const struct pass *pass, const struct model_feed_forward *feed,
                          int64_t row_count, struct attn_work *work)
{
    pass_product_work(pass, &feed->up, row_count, work);
    if (feed->gate.weight)
        pass_product_work(pass, &feed->gate, row_count, work);
    pass_product_work(pass, &feed->down, row_count, work);
    if (feed->is_sparse)
        pass_rows_work(row_count, 2 * feed->up.out, work);
}

/* Prepares pass->product: a panel of activations from rows x. Returns its tasks. */
static int64_t feed_up(struct pass *pass, const struct model_feed_forward *feed, const float *x,
                       int64_t row_count)
{
    pass_product(pass, &feed->up, x, pass->panel, row_count);
    pass->product.gate = feed->gate.weight ? &feed->gate : NULL;
    pass->product.activation = feed->activation;
    pass->product.xielu = feed->xielu;
    pass->product.gated_limit = feed->gated_limit;
    pass->product.gated_offset = feed->gated_offset;
    pass->product.gate_scale = feed->gate_scale;
    return attn_product_tasks(&pass->product);
}

/* ----------------------------------------------------------------- experts -- */

enum { TURN_NORM, TURN_ROUTE, TURN_SHARE, TURN_CHOOSE, TURN_FIRST_PANEL };
enum { PANEL_GATHER, PANEL_UP, PANEL_DOWN, PANEL_SCATTER, PANEL_TURNS };

struct pass_expert_rows {
    float *logits;    /* [rows][experts] */
    float *shared;    /* [rows], of the shared expert's gate; NULL: there is none */
    int64_t *first;   /* [experts and the shared one + 1]: where the rows of each begin in rows */
    int64_t *rows;    /* of all experts: for each row the chosen ones and the shared one */
    float *weights;   /* the same: of the expert's result for the row, or of what it
                         reads */
    float *choice;    /* [experts], of one row: what experts are chosen by */
    float *groups;    /* the same, of groups */
    float *values;    /* the same: the largest */
    int64_t *indices; /* the same */
    float *gathered;  /* [panel][width] */
    float *computed;  /* the same */
    int64_t expert, done; /* the panel that runs begins behind so many rows of this expert */
    int64_t panel;        /* rows of it */
};

static int64_t all_experts(const struct model_experts *experts)
{
    return experts->count + (experts->shared != NULL);
}

static const struct model_feed_forward *expert_at(const struct model_experts *experts, int64_t e)
{
    return e < experts->count ? &experts->experts[e] : experts->shared;
}

/* ---------------------------------------------------------------- planning -- */

static bool allocate_experts(struct pass *pass, const struct model_experts *experts,
                             int64_t row_count, int64_t width, struct fault *fault)
{
    struct pass_expert_rows *of = pass_alloc(pass, 1, sizeof *of, fault);
    if (!of)
        return false;
    const int64_t panel = PASS_PANEL_ROWS * width;
    const int64_t places = row_count * (experts->chosen + (experts->shared != NULL));
    *of = (struct pass_expert_rows){ .expert = 0 };
    pass->experts = of;
    return (of->logits = pass_alloc(pass, row_count * experts->count, sizeof(float), fault))
           && (!experts->shared_gate.weight
               || (of->shared = pass_alloc(pass, row_count, sizeof(float), fault)))
           && (of->first = pass_alloc(pass, all_experts(experts) + 1, sizeof(int64_t), fault))
           && (of->rows = pass_alloc(pass, places, sizeof(int64_t), fault))
           && (of->weights = pass_alloc(pass, places, sizeof(float), fault))
           && (of->choice = pass_alloc(pass, experts->count, sizeof(float), fault))
           && (of->groups = pass_alloc(pass, experts->count, sizeof(float), fault))
           && (of->values = pass_alloc(pass, experts->count, sizeof(float), fault))
           && (of->indices = pass_alloc(pass, experts->count, sizeof(int64_t), fault))
           && (of->gathered = pass_alloc(pass, panel, sizeof(float), fault))
           && (of->computed = pass_alloc(pass, panel, sizeof(float), fault));
}

/* All blocks of a model have the same number of experts, so their memory is allocated once. */
static bool experts_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                         struct fault *fault)
{
    const struct model_experts *experts = &step->block->experts;
    const int64_t row_count = pass->row_count[step->stream];
    const int64_t width = pass->forward->streams[step->stream].width;
    pass_product_work(pass, &experts->router, row_count, work);
    add_feed_work(pass, &experts->experts[0], row_count * experts->chosen, work);
    if (experts->shared_gate.weight)
        pass_product_work(pass, &experts->shared_gate, row_count, work);
    if (experts->shared)
        add_feed_work(pass, experts->shared, row_count, work);
    if (experts->norms.router.weight)
        pass_rows_work(row_count, (3 + experts->chosen) * width, work);
    return (pass->experts || allocate_experts(pass, experts, row_count, width, fault))
           && allocate_panel(pass, &experts->experts[0], PASS_PANEL_ROWS, fault)
           && (!experts->shared || allocate_panel(pass, experts->shared, PASS_PANEL_ROWS, fault));
}

/* ---------------------------------------------------------------- choosing -- */

/* The weight of an expert, the largest of a row that has all experts but without. Comparisons are
 * in float, as the source has them. */
static float sparsemixer_weight(const float *logits, const struct model_experts *experts,
                                int64_t chosen, int64_t without)
{
    const float most = logits[chosen], threshold = (float)(2 * experts->jitter);
    double sum = 0;
    for (int64_t e = 0; e < experts->count; e++) {
        const float factor = fmaxf(fabsf(logits[e]), most);
        if (e != without && !((most - logits[e]) / factor > threshold))
            sum += exp((double)logits[e] - (double)most);
    }
    return (float)(1 / sum);
}

static double sigmoid(float x)
{
    return 1 / (1 + exp(-(double)x));
}

/* What groups are chosen by. */
static float group_score(const struct model_experts *experts, const float *choice)
{
    float first = -INFINITY, second = -INFINITY;
    for (int64_t i = 0; i < experts->count / experts->groups; i++) {
        second = fmaxf(second, fminf(first, choice[i]));
        first = fmaxf(first, choice[i]);
    }
    return experts->routing == MODEL_ROUTING_SIGMOID ? first + second : first;
}

/* Leaves the experts of some groups alone. */
static void choose_groups(const struct pass_expert_rows *of, const struct model_experts *experts)
{
    const int64_t size = experts->count / experts->groups;
    for (int64_t g = 0; g < experts->groups; g++)
        of->groups[g] = group_score(experts, of->choice + g * size);
    attn_top_k(of->groups, experts->groups, experts->chosen_groups, of->values, of->indices);
    memset(of->groups, 0, (size_t)experts->groups * sizeof *of->groups);
    for (int64_t i = 0; i < experts->chosen_groups; i++)
        of->groups[of->indices[i]] = 1;
    for (int64_t e = 0; e < experts->count; e++)
        if (of->groups[e / size] == 0)
            of->choice[e] = -INFINITY;
}

/* Chooses the experts of a row. */
static void choose_by_scores(const struct pass_expert_rows *of, const struct model_experts *experts,
                             const float *logits)
{
    const bool are_sigmoids = experts->routing == MODEL_ROUTING_SIGMOID && !experts->weighs_inputs;
    for (int64_t e = 0; e < experts->count; e++)
        of->choice[e] = (are_sigmoids ? (float)sigmoid(logits[e]) : logits[e])
                        + (experts->choice_bias ? experts->choice_bias[e] : 0);
    if (experts->groups > 0)
        choose_groups(of, experts);
    attn_top_k(of->choice, experts->count, experts->chosen, of->values, of->indices);
}

static double unscaled_weight(const struct model_experts *experts, const struct attn_row_sums *sums,
                              float logit)
{
    return experts->routing == MODEL_ROUTING_SIGMOID
               ? sigmoid(logit)
               : exp((double)logit - sums->max - sums->log_sum);
}

/* The chosen experts of a row and their weights. */
static void choose_row_experts(const struct pass_expert_rows *of,
                               const struct model_experts *experts, int64_t row)
{
    const float *logits = of->logits + row * experts->count;
    const struct attn_row_sums sums = attn_row_sums(logits, experts->count);
    const double scale = experts->weight_scale > 0 ? experts->weight_scale : 1;
    double sum = experts->weight_sum_eps;
    choose_by_scores(of, experts, logits);
    if (experts->routing == MODEL_ROUTING_SPARSEMIXER) {
        of->values[0] = sparsemixer_weight(logits, experts, of->indices[0], -1);
        of->values[1] = sparsemixer_weight(logits, experts, of->indices[1], of->indices[0]);
        return;
    }
    for (int64_t i = 0; i < experts->chosen; i++)
        sum += unscaled_weight(experts, &sums, logits[of->indices[i]]);
    for (int64_t i = 0; i < experts->chosen; i++) {
        const double weight = unscaled_weight(experts, &sums, logits[of->indices[i]]);
        of->values[i] = (float)(scale * (experts->is_normalized ? weight / sum : weight));
        if (experts->scales)
            of->values[i] *= experts->scales[of->indices[i]];
    }
}

/* Of the shared expert for a row. */
static float shared_weight(const struct pass_expert_rows *of, int64_t row)
{
    return of->shared ? (float)sigmoid(of->shared[row]) : 1.0f;
}

static void place_row(const struct pass_expert_rows *of, int64_t expert, int64_t row, float weight)
{
    const int64_t place = of->first[expert]++;
    of->rows[place] = row;
    of->weights[place] = weight;
}

static void choose_experts(const struct pass *pass, const struct pass_step *step)
{
    const struct model_experts *experts = &step->block->experts;
    const struct pass_expert_rows *of = pass->experts;
    const int64_t row_count = pass->row_count[step->stream];
    const int64_t width = pass->forward->streams[step->stream].width;
    const int64_t all = all_experts(experts);
    int64_t *first = of->first;
    memset(pass->output, 0, (size_t)(row_count * width) * sizeof(float));
    memset(first, 0, (size_t)(all + 1) * sizeof *first);
    for (int64_t row = 0; row < row_count; row++) {
        choose_row_experts(of, experts, row);
        for (int64_t i = 0; i < experts->chosen; i++)
            first[of->indices[i] + 1]++;
    }
    for (int64_t e = 0; e < experts->count; e++)
        first[e + 1] += first[e];
    for (int64_t row = 0; row < row_count; row++) {
        choose_row_experts(of, experts, row);
        for (int64_t i = 0; i < experts->chosen; i++)
            place_row(of, of->indices[i], row, of->values[i]);
        if (experts->shared)
            place_row(of, experts->count, row, shared_weight(of, row));
    }
    memmove(first + 1, first, (size_t)all * sizeof *first); /* each is at its end now */
    first[0] = 0;
}

/* ----------------------------------------------------------------- running -- */

/* Goes on to the next panel of an expert that has rows left; false behind the last. */
static bool next_panel(struct pass_expert_rows *of, const struct model_experts *experts)
{
    of->done += of->panel;
    const int64_t all = all_experts(experts);
    while (of->expert < all && of->done >= of->first[of->expert + 1])
        of->expert++;
    if (of->expert == all)
        return false;
    const int64_t left = of->first[of->expert + 1] - of->done;
    of->panel = left < PASS_PANEL_ROWS ? left : PASS_PANEL_ROWS;
    return true;
}

static int64_t panel_tasks(struct pass *pass, const struct pass_step *step, int turn)
{
    const struct model_experts *experts = &step->block->experts;
    struct pass_expert_rows *of = pass->experts;
    if (turn == PANEL_GATHER && !next_panel(of, experts))
        return PASS_OVER;
    const struct model_feed_forward *expert = expert_at(experts, of->expert);
    if (turn == PANEL_UP)
        return feed_up(pass, expert, of->gathered, of->panel);
    if (turn == PANEL_DOWN)
        return pass_product(pass, &expert->down, pass->panel, of->computed, of->panel);
    return pass_row_tasks(of->panel, pass->forward->streams[step->stream].width);
}

static int64_t experts_tasks(struct pass *pass, const struct pass_step *step, int turn)
{
    const struct model_experts *experts = &step->block->experts;
    struct pass_expert_rows *of = pass->experts;
    const bool has_norms = experts->norms.router.weight;
    const int64_t row_count = pass->row_count[step->stream];
    if (turn == TURN_NORM)
        return has_norms ? pass_row_tasks(row_count, pass->forward->streams[step->stream].width)
                         : 0;
    if (turn == TURN_ROUTE)
        return pass_product(pass, &experts->router, has_norms ? pass->output : pass->input,
                            of->logits, row_count);
    if (turn == TURN_SHARE)
        return experts->shared_gate.weight
                   ? pass_product(pass, &experts->shared_gate, pass->input, of->shared, row_count)
                   : 0;
    if (turn == TURN_CHOOSE) {
        of->expert = of->done = of->panel = 0;
        return 1;
    }
    return panel_tasks(pass, step, (turn - TURN_FIRST_PANEL) % PANEL_TURNS);
}

static void gather_rows(const struct pass *pass, const struct pass_step *step, int64_t first,
                        int64_t count)
{
    const struct model_experts *experts = &step->block->experts;
    const struct pass_expert_rows *of = pass->experts;
    const int64_t width = pass->forward->streams[step->stream].width;
    const bool has_norm = experts->norms.before.weight && of->expert < experts->count;
    for (int64_t i = first; i < first + count; i++) {
        const int64_t number = of->rows[of->done + i];
        const float *row = pass->input + number * width;
        const float weight = experts->weighs_inputs ? of->weights[of->done + i] : 1.0f;
        if (has_norm)
            attn_rows_norm(&experts->norms.before, of->gathered + i * width, width,
                           pass->rows[step->stream] + number * width, width, 1, width);
        for (int64_t c = 0; !has_norm && c < width; c++)
            of->gathered[i * width + c] = weight * row[c];
    }
}

/* A row is of an expert once at the most, so tasks write different rows. */
static void scatter_rows(const struct pass *pass, const struct model_experts *experts,
                         int64_t width, int64_t first, int64_t count)
{
    const struct pass_expert_rows *of = pass->experts;
    const bool has_norms = experts->norms.router.weight && of->expert == experts->count;
    for (int64_t i = first; i < first + count; i++) {
        float *sum = pass->output + of->rows[of->done + i] * width;
        float *computed = of->computed + i * width;
        if (has_norms) {
            attn_rows_norm(&experts->norms.after, sum, width, sum, width, 1, width);
            attn_rows_norm(&experts->norms.shared, computed, width, computed, width, 1, width);
        }
        attn_rows_add(pass->limits.kernels, sum, width, computed, width,
                      experts->weighs_inputs ? 1.0f : of->weights[of->done + i], NULL, 1, width);
    }
}

/* For the router, in the place of what the experts compute later. */
static void norm_rows(const struct pass *pass, const struct pass_step *step, int64_t task)
{
    const int64_t width = pass->forward->streams[step->stream].width;
    int64_t first, count;
    pass_task_rows(pass->row_count[step->stream], width, task, &first, &count);
    attn_rows_norm(&step->block->experts.norms.router, pass->output + first * width, width,
                   pass->rows[step->stream] + first * width, width, count, width);
}

static void experts_run(const struct pass *pass, const struct pass_step *step, int turn,
                        int64_t task, void *workspace)
{
    const int64_t width = pass->forward->streams[step->stream].width;
    const int panel_turn = (turn - TURN_FIRST_PANEL) % PANEL_TURNS;
    int64_t first, count;
    if (turn == TURN_NORM) {
        norm_rows(pass, step, task);
        return;
    }
    if (turn == TURN_CHOOSE) {
        choose_experts(pass, step);
        return;
    }
    if (turn < TURN_CHOOSE || panel_turn == PANEL_UP || panel_turn == PANEL_DOWN) {
        attn_product_run(&pass->product, task, workspace);
        return;
    }
    pass_task_rows(pass->experts->panel, width, task, &first, &count);
    if (panel_turn == PANEL_GATHER)
        gather_rows(pass, step, first, count);
    else
        scatter_rows(pass, &step->block->experts, width, first, count);
}

/* -------------------------------------------------------------- the step -- */

static bool feed_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                      struct fault *fault)
{
    const int64_t row_count = pass->row_count[step->stream];
    if (step->block->experts.router.weight)
        return experts_plan(pass, step, work, fault);
    add_feed_work(pass, &step->block->dense, row_count, work);
    return allocate_panel(pass, &step->block->dense, row_count, fault);
}

enum { SPARSE_GATE, SPARSE_UP, SPARSE_JOIN, SPARSE_DOWN, SPARSE_TURNS };

static int64_t turns_of(const struct model_feed_forward *feed)
{
    return feed->is_sparse ? SPARSE_TURNS : 2;
}

/* The rows of the turn's panel, 0 behind the last: *first is the first of them. */
static int64_t panel_rows(const struct pass *pass, const struct pass_step *step, int turn,
                          int64_t *first)
{
    const int64_t row_count = pass->row_count[step->stream];
    *first = turn / turns_of(&step->block->dense) * PASS_PANEL_ROWS;
    if (*first >= row_count)
        return 0;
    return row_count - *first < PASS_PANEL_ROWS ? row_count - *first : PASS_PANEL_ROWS;
}

/* Gates, behind what they multiply. */
static float *sparse_gates(const struct pass *pass, const struct model_feed_forward *feed,
                           int64_t rows)
{
    return pass->panel + rows * feed->up.out;
}

static int64_t sparse_tasks(struct pass *pass, const struct model_feed_forward *feed,
                            const float *x, int64_t rows, int turn)
{
    if (turn % SPARSE_TURNS == SPARSE_JOIN)
        return pass_row_tasks(rows, feed->up.out);
    return turn % SPARSE_TURNS == SPARSE_UP
               ? pass_product(pass, &feed->up, x, pass->panel, rows)
               : pass_product(pass, &feed->gate, x, sparse_gates(pass, feed, rows), rows);
}

/* Gemma3nTextMLP: _gaussian_topk(), the activation, and the product. */
static void join_sparse_row(const struct pass *pass, const struct model_feed_forward *feed,
                            float *gate, float *up)
{
    const int64_t columns = feed->up.out;
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < columns; c++)
        sum += (double)gate[c];
    const double mean = sum / (double)columns;
    for (int64_t c = 0; c < columns; c++)
        squares += ((double)gate[c] - mean) * ((double)gate[c] - mean);
    const float least = (float)(mean + sqrt(squares / (double)columns) * feed->deviations);
    for (int64_t c = 0; c < columns; c++)
        gate[c] = gate[c] > least ? gate[c] - least : 0;
    attn_activate(pass->limits.kernels, feed->activation, &feed->xielu, gate, columns);
    for (int64_t c = 0; c < columns; c++)
        up[c] *= gate[c];
}

static void join_sparse(const struct pass *pass, const struct pass_step *step, int turn,
                        int64_t task)
{
    const struct model_feed_forward *feed = &step->block->dense;
    int64_t panel, first, count;
    const int64_t rows = panel_rows(pass, step, turn, &panel), columns = feed->up.out;
    pass_task_rows(rows, columns, task, &first, &count);
    for (int64_t i = first; i < first + count; i++)
        join_sparse_row(pass, feed, sparse_gates(pass, feed, rows) + i * columns,
                        pass->panel + i * columns);
}

static int64_t feed_tasks(struct pass *pass, const struct pass_step *step, int turn,
                          struct fault *fault)
{
    const struct model_feed_forward *feed = &step->block->dense;
    const int64_t turns = turns_of(feed);
    int64_t first;
    (void)fault;
    if (step->block->experts.router.weight)
        return experts_tasks(pass, step, turn);
    const int64_t rows = panel_rows(pass, step, turn, &first);
    if (rows == 0)
        return PASS_OVER;
    if (feed->is_sparse && turn % turns != SPARSE_DOWN)
        return sparse_tasks(pass, feed, pass->input + first * feed->up.in, rows, turn);
    if (turn % turns == 0)
        return feed_up(pass, feed, pass->input + first * feed->up.in, rows);
    return pass_product(pass, &feed->down, pass->panel, pass->output + first * feed->down.out,
                        rows);
}

static void feed_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                     void *workspace)
{
    if (step->block->experts.router.weight)
        experts_run(pass, step, turn, task, workspace);
    else if (step->block->dense.is_sparse && turn % SPARSE_TURNS == SPARSE_JOIN)
        join_sparse(pass, step, turn, task);
    else
        attn_product_run(&pass->product, task, workspace);
}

const struct pass_step_functions pass_feed = { feed_plan, feed_tasks, feed_run };
