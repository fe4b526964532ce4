/* pass_feed.c - the step of a feed-forward: two turns for each panel of rows, up (with the gate and
 * the activation in the same product) and down. */
#include "forward/pass_experts.h"

bool pass_feed_panel(struct pass *pass, const struct model_feed_forward *feed, int64_t rows_max,
                     struct fault *fault)
{
    const int64_t rows = rows_max < PASS_PANEL_ROWS ? rows_max : PASS_PANEL_ROWS;
    const int64_t numbers = rows * feed->up.out;
    if (numbers <= pass->panel_numbers)
        return true;
    pass->panel = pass_alloc(pass, numbers, sizeof *pass->panel, fault);
    pass->panel_numbers = numbers;
    return pass->panel != NULL;
}

void pass_feed_work(const struct pass *pass, const struct model_feed_forward *feed,
                    int64_t row_count, struct attn_work *work)
{
    pass_product_work(pass, &feed->up, row_count, work);
    if (feed->gate.weight)
        pass_product_work(pass, &feed->gate, row_count, work);
    pass_product_work(pass, &feed->down, row_count, work);
}

int64_t pass_feed_up(struct pass *pass, const struct model_feed_forward *feed, const float *x,
                     int64_t row_count)
{
    pass_product(pass, &feed->up, x, pass->panel, row_count);
    pass->product.gate = feed->gate.weight ? &feed->gate : NULL;
    pass->product.activation = feed->activation;
    return attn_product_tasks(&pass->product);
}

/* -------------------------------------------------------------- the step -- */

static bool plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                 struct fault *fault)
{
    const int64_t row_count = pass->row_count[step->stream];
    if (step->block->experts.router.weight)
        return pass_experts_plan(pass, step, work, fault);
    pass_feed_work(pass, &step->block->dense, row_count, work);
    return pass_feed_panel(pass, &step->block->dense, row_count, fault);
}

static int64_t tasks(struct pass *pass, const struct pass_step *step, int turn, struct fault *fault)
{
    const struct model_feed_forward *feed = &step->block->dense;
    const int64_t row_count = pass->row_count[step->stream];
    const int64_t first = (int64_t)(turn / 2) * PASS_PANEL_ROWS;
    (void)fault;
    if (step->block->experts.router.weight)
        return pass_experts_tasks(pass, step, turn);
    if (first >= row_count)
        return PASS_OVER;
    const int64_t rows = row_count - first < PASS_PANEL_ROWS ? row_count - first : PASS_PANEL_ROWS;
    if (turn % 2 == 0)
        return pass_feed_up(pass, feed, pass->input + first * feed->up.in, rows);
    return pass_product(pass, &feed->down, pass->panel, pass->output + first * feed->down.out,
                        rows);
}

static void run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                void *workspace)
{
    if (step->block->experts.router.weight)
        pass_experts_run(pass, step, turn, task, workspace);
    else
        attn_product_run(&pass->product, task, workspace);
}

const struct pass_step_functions pass_feed = { plan, tasks, run };
