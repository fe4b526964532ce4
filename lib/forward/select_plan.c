/* select_plan.c - which problems can have a selection, when it is worth one, and the memory of its
 * tasks. */
#include "forward/mask.h"
#include "forward/select_internal.h"

#include "base/convert.h"

/* Groups below which a row reads all keys. */
enum { GROUPS_MIN = 4 };

/* A smaller share than this is none. */
static const double EPSILON_MIN = 1e-30;

static bool is_float(const struct attn_tensor *tensor)
{
    return attn_numbers_of(tensor->dtype) != ATTN_NUMBERS_COUNT;
}

static enum attn_status check_bounds(const struct attn_selection *selection,
                                     const struct attn_plan_full *plan, const char **where)
{
    int64_t end = 0;

    RETURN_IF(selection->bounds_count < 0, ATTN_ERR_LENGTH, "selection.bounds_count");
    for (int64_t i = 0; i < selection->bounds_count; i++) {
        const struct attn_bounds *bounds = &selection->bounds[i];
        RETURN_IF(bounds->group_count < 1 || bounds->first < end, ATTN_ERR_LENGTH,
                  "selection.bounds");
        RETURN_IF(bounds->group_count > plan->problem.key.shape[2] / ATTN_SELECT_KEYS,
                  ATTN_ERR_LENGTH, "selection.bounds");
        end = bounds->first + bounds->group_count * ATTN_SELECT_KEYS;
        RETURN_IF(end > plan->problem.key.shape[2], ATTN_ERR_LENGTH, "selection.bounds");
    }
    return ATTN_OK;
}

static enum attn_status check_problem(const struct attn_plan_full *plan, const char **where)
{
    const struct attn_problem *problem = &plan->problem;
    const struct attn_options *options = &problem->options;

    RETURN_IF(problem->query.shape[0] != 1, ATTN_ERR_SHAPE, "query.shape[0]");
    RETURN_IF(plan->in_double || !is_float(&problem->query), ATTN_ERR_DTYPE, "query.dtype");
    RETURN_IF(!is_float(&problem->key) && problem->key.dtype != ATTN_I8, ATTN_ERR_DTYPE,
              "key.dtype");
    RETURN_IF(!is_float(&problem->value) && problem->value.dtype != ATTN_I8, ATTN_ERR_DTYPE,
              "value.dtype");
    RETURN_IF(options->window_left >= 0, ATTN_ERR_OPTION, "options.window_left");
    RETURN_IF(options->dropout > 0, ATTN_ERR_OPTION, "options.dropout");
    RETURN_IF(options->normalizer != ATTN_SOFTMAX, ATTN_ERR_OPTION, "options.normalizer");
    RETURN_IF(problem->mask.data != NULL, ATTN_ERR_OPTION, "mask");
    RETURN_IF(problem->last_keys > 0, ATTN_ERR_OPTION, "last_keys");
    RETURN_IF(problem->alibi_slopes != NULL, ATTN_ERR_OPTION, "alibi_slopes");
    RETURN_IF(problem->additive_weight != NULL, ATTN_ERR_OPTION, "layer.additive_weight");
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        RETURN_IF(attn_output_is_map(i) && problem->out[i].data != NULL, ATTN_ERR_OPTION,
                  "weights");
    return ATTN_OK;
}

static void read_all(const struct attn_selection *selection, const struct attn_plan_full *plan)
{
    const struct attn_problem *problem = &plan->problem;
    const int64_t q_len = problem->query.shape[2];

    for (int64_t i = 0; i < q_len; i++) {
        const struct key_range range = attn_mask_row(problem, 0, i);
        for (int64_t h = 0; h < problem->key.shape[1]; h++)
            selection->keys_read[h * q_len + i] = selection->keys_seen[h * q_len + i] =
                range.high - range.low;
        for (int64_t h = 0; h < problem->query.shape[1]; h++)
            selection->mass_left[h * q_len + i] = 0;
    }
}

enum attn_status attn_select_check(const struct attn_selection *selection,
                                   const struct attn_plan *plan, const char **where)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    RETURN_IF(!(selection->epsilon >= 0 && selection->epsilon < 1), ATTN_ERR_OPTION,
              "selection.epsilon");
    RETURN_IF_FAILED(check_problem(full, where));
    RETURN_IF_FAILED(check_bounds(selection, full, where));
    read_all(selection, full);
    return ATTN_OK;
}

bool attn_select_reads_all(const struct attn_selection *selection, const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    return !(selection->epsilon >= EPSILON_MIN) || full->problem.query.shape[2] > ATTN_SELECT_ROWS
           || full->problem.key.shape[2] < (int64_t)GROUPS_MIN * ATTN_SELECT_KEYS;
}

int64_t attn_select_tasks(const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    return full->problem.query.shape[2] * full->problem.key.shape[1];
}

size_t attn_select_workspace_bytes(const struct attn_selection *selection,
                                   const struct attn_plan *plan)
{
    const struct attn_plan_full *full = attn_plan_full(plan);
    struct select_task task;

    return select_cut(&task, selection, full, NULL) + select_run_bytes(full);
}
