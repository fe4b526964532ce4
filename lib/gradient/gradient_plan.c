/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_plan.c - check a gradient's problem, choose its tiles, lay out its memory and number its
 * tasks.
 *
 * Stage 0 has a task for each tile of query rows of each head. Each of the next stages, the rounds,
 * has a task for each part of the keys of each key/value head. If the gradient of the mask is
 * wanted, stage 1 also has a task for each tile of rows of the mask: a separate task, because a
 * mask may broadcast over any dimension. A last task of stage 1 adds what stage 0 has summed over
 * the rows of each tile. All sizes depend only on the shapes and the kernel table. */
#include "gradient/gradient_internal.h"

#include "kernels/kernels.h"

/* As in plan.c: the others of one step, and the limit of the bytes of transposed tiles. */
enum { OTHER_TILE = 96, LANES_BYTES_MAX = 320 * 1024 };

/* The sizes of one key task when there are enough rounds: a task takes about a millisecond. With
 * few heads a task takes fewer rows, but not fewer than PART_ROWS_MIN, so that a round has
 * ROUND_TASKS tasks for several threads. The number of threads is not known here and changes no
 * bit. */
enum { PART_ROWS = 768, PART_ROWS_MIN = 192, PART_KEYS = 192, ROUND_TASKS = 16 };

/* The results of stage 0 for this many rows have a size in bytes that does not overflow. */
static const int64_t ROWS_MAX = INT64_MAX / 256;

static const struct attn_tensor_names CONTEXT = ATTN_TENSOR_NAMES("context_gradient");
static const struct attn_tensor_names QUERY = ATTN_TENSOR_NAMES("query_gradient");
static const struct attn_tensor_names KEY = ATTN_TENSOR_NAMES("key_gradient");
static const struct attn_tensor_names VALUE = ATTN_TENSOR_NAMES("value_gradient");
static const struct attn_tensor_names MASK = ATTN_TENSOR_NAMES("mask_gradient");
static const char *const PER_HEAD[ATTN_PER_HEAD_COUNT] = {
#define X(NAME, name, may_be_none) "attention." #name,
    ATTN_PER_HEAD_MAP(X)
#undef X
};

/* Gradients and their inputs are F32, in one place each; a mask may be BOOL. */
static enum attn_status check_inputs(const struct attn_gradient_problem *problem,
                                     const char **where)
{
    const struct {
        const struct attn_tensor *tensor;
        const char *field;
    } tensors[] = {
        { &problem->attention.query, "query.dtype" }, { &problem->attention.key, "key.dtype" },
        { &problem->attention.value, "value.dtype" }, { &problem->context_gradient, CONTEXT.dtype },
        { &problem->query_gradient, QUERY.dtype },    { &problem->key_gradient, KEY.dtype },
        { &problem->value_gradient, VALUE.dtype },    { &problem->mask_gradient, MASK.dtype },
    };

    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        RETURN_IF(tensors[i].tensor->data != NULL && tensors[i].tensor->dtype != ATTN_F32,
                  ATTN_ERR_DTYPE, tensors[i].field);
    RETURN_IF(problem->attention.key.pages != NULL, ATTN_ERR_SHAPE, "key.pages");
    RETURN_IF(problem->attention.value.pages != NULL, ATTN_ERR_SHAPE, "value.pages");
    RETURN_IF(problem->attention.last_keys > 0, ATTN_ERR_OPTION, "attention.last_keys");
    RETURN_IF(problem->attention.mask.data != NULL && problem->attention.mask.dtype != ATTN_F32
                  && problem->attention.mask.dtype != ATTN_BOOL,
              ATTN_ERR_DTYPE, "attention.mask.dtype");
    return ATTN_OK;
}

static enum attn_status check_forward(const struct attn_gradient_problem *problem,
                                      const char **where)
{
    const struct attn_tensor *context = &problem->attention.context;
    const struct attn_tensor *lse = &problem->attention.lse;

    if (!problem->has_forward)
        return ATTN_OK;
    RETURN_IF(context->data == NULL, ATTN_ERR_NO_DATA, "attention.context");
    RETURN_IF(lse->data == NULL, ATTN_ERR_NO_DATA, "attention.lse");
    RETURN_IF(context->dtype != ATTN_F32, ATTN_ERR_DTYPE, "attention.context.dtype");
    RETURN_IF(lse->dtype != ATTN_F32, ATTN_ERR_DTYPE, "attention.lse.dtype");
    return ATTN_OK;
}

static enum attn_status gradient_check(const struct attn_gradient_problem *problem,
                                       const char **where)
{
    const struct attn_problem *attention = &problem->attention;
    const int64_t *query = attention->query.shape;
    const int64_t context[4] = { query[0], query[1], query[2], attention->value.shape[3] };

    RETURN_IF(attention->options.softmax_precision == ATTN_F64, ATTN_ERR_OPTION,
              "attention.options.softmax_precision");
    RETURN_IF_FAILED(check_inputs(problem, where));
    RETURN_IF_FAILED(check_forward(problem, where));
    RETURN_IF_FAILED(attn_check_input(&problem->context_gradient, &CONTEXT, where));
    for (int d = 0; d < 4; d++)
        RETURN_IF(problem->context_gradient.shape[d] != context[d], ATTN_ERR_SHAPE,
                  CONTEXT.shape[d]);
    RETURN_IF_FAILED(attn_check_output(&problem->query_gradient, &QUERY, query, where));
    RETURN_IF_FAILED(attn_check_output(&problem->key_gradient, &KEY, attention->key.shape, where));
    RETURN_IF_FAILED(
        attn_check_output(&problem->value_gradient, &VALUE, attention->value.shape, where));
    if (problem->mask_gradient.data != NULL) {
        RETURN_IF(attention->mask.data == NULL, ATTN_ERR_NO_DATA, "attention.mask.data");
        RETURN_IF(attention->mask.dtype != ATTN_F32, ATTN_ERR_DTYPE, "attention.mask.dtype");
    }
    RETURN_IF_FAILED(
        attn_check_output(&problem->mask_gradient, &MASK, attention->mask.shape, where));
    RETURN_IF(problem->additive_weight_gradient != NULL && attention->additive_weight == NULL,
              ATTN_ERR_NO_DATA, "attention.additive_weight");
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        RETURN_IF(problem->per_head_gradient[i] != NULL && attention->per_head[i] == NULL,
                  ATTN_ERR_NO_DATA, PER_HEAD[i]);
    return ATTN_OK;
}

/* The forward problem without the outputs that are ignored. */
static struct attn_problem inputs_of(const struct attn_gradient_problem *problem)
{
    struct attn_problem inputs = problem->attention;

    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (!problem->has_forward || (i != ATTN_OUTPUT_CONTEXT && i != ATTN_OUTPUT_LSE))
            inputs.out[i].data = NULL;
    return inputs;
}

/* How many of length lanes a task takes; *width is that number rounded up to whole vectors. */
static int64_t choose_tile(const struct attn_gradient_plan_full *plan, int64_t length,
                           int64_t *width)
{
    const struct attn_problem *attention = &plan->problem.attention;
    const int64_t lanes = plan->kernels->lanes;
    const int64_t lane_bytes =
        2 * (attention->query.shape[3] + attention->value.shape[3]) * (int64_t)sizeof(float);
    int64_t tile = ATTN_WIDTH_MAX;

    while (tile > lanes && lane_bytes * tile > LANES_BYTES_MAX)
        tile /= 2;
    tile = attn_min(tile, attn_max(length, 1));
    *width = attn_divide_up(tile, lanes) * lanes;
    return tile;
}

/* The length of each of count parts of length, rounded up to a multiple of step. */
static int64_t choose_part(int64_t length, int64_t count, int64_t step)
{
    return attn_max(attn_divide_up(attn_divide_up(length, count), step), 1) * step;
}

static int64_t least_part_rows(const struct attn_gradient_plan_full *plan)
{
    const int64_t *key = plan->problem.attention.key.shape;
    const int64_t wanted = attn_max(ROUND_TASKS / attn_max(key[0] * key[1], 1), 1);
    const int64_t rows =
        choose_part(plan->problem.attention.query.shape[2], wanted, plan->other_tile);

    return attn_max(attn_min(rows, PART_ROWS), PART_ROWS_MIN);
}

static void choose_rounds(struct attn_gradient_plan_full *plan)
{
    const int64_t q_len = plan->problem.attention.query.shape[2];
    const int64_t kv_len = plan->problem.attention.key.shape[2];
    const int64_t parts =
        attn_max(attn_divide_up(q_len, PART_ROWS), attn_divide_up(kv_len, PART_KEYS));

    plan->rounds = (int)attn_max(attn_min(parts, ATTN_GRADIENT_ROUNDS_MAX), 1);
    plan->part_rows =
        attn_max(choose_part(q_len, plan->rounds, plan->other_tile), least_part_rows(plan));
    plan->part_keys = choose_part(kv_len, plan->rounds, plan->key_tile);
}

static void count_tasks(struct attn_gradient_plan_full *plan)
{
    const struct attn_gradient_problem *problem = &plan->problem;
    const int64_t *query = problem->attention.query.shape;
    const int64_t *key = problem->attention.key.shape;
    const int64_t *mask = problem->mask_gradient.shape;
    bool has_sums = problem->additive_weight_gradient != NULL;

    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        has_sums = has_sums || problem->per_head_gradient[i] != NULL;
    plan->row_tiles = attn_divide_up(query[2], plan->row_tile);
    if (problem->key_gradient.data != NULL || problem->value_gradient.data != NULL
        || attn_gradient_keys_make_query(problem))
        plan->key_tasks = key[0] * key[1] * plan->rounds;
    if (problem->mask_gradient.data != NULL && mask[3] > 0) {
        plan->mask_row_tiles = mask[2] == query[2] ? plan->row_tiles : 1;
        plan->mask_tasks = mask[0] * mask[1] * plan->mask_row_tiles;
    }
    plan->task_count[0] = query[0] * query[1] * plan->row_tiles;
    for (int round = 0; round < plan->rounds; round++)
        plan->task_count[1 + round] = plan->key_tasks;
    plan->task_count[1] += plan->mask_tasks + (has_sums ? 1 : 0);
}

enum attn_status attn_gradient_plan_init(struct attn_gradient_plan *plan,
                                         const struct attn_gradient_problem *problem,
                                         const char **where)
{
    struct attn_gradient_plan_full *full = (void *)plan;
    const struct attn_problem inputs = inputs_of(problem);
    struct attn_gradient_workspace work;
    struct attn_gradient_rows rows;
    int64_t row_count;

    RETURN_IF_FAILED(attn_check(&inputs, where));
    RETURN_IF_FAILED(gradient_check(problem, where));
    row_count = inputs.query.shape[0] * inputs.query.shape[1] * inputs.query.shape[2];
    RETURN_IF(row_count > ROWS_MAX, ATTN_ERR_TOO_LARGE, "attention.query");
    RETURN_IF(problem->additive_weight_gradient != NULL
                  && row_count > ROWS_MAX / inputs.query.shape[3],
              ATTN_ERR_TOO_LARGE, "attention.query");
    *full = (struct attn_gradient_plan_full){
        .problem = *problem,
        .kernels = inputs.kernels != NULL ? inputs.kernels : attn_kernels_available()[0],
        .other_tile = OTHER_TILE,
    };
    full->problem.attention = inputs;
    full->row_tile = choose_tile(full, inputs.query.shape[2], &full->row_width);
    full->key_tile = choose_tile(full, inputs.key.shape[2], &full->key_width);
    choose_rounds(full);
    count_tasks(full);
    full->scratch_bytes = attn_gradient_rows_cut(&rows, full, NULL);
    full->workspace_bytes = attn_gradient_workspace_cut(&work, full, NULL);
    return ATTN_OK;
}

void attn_gradient_run(const struct attn_gradient_plan *plan, int stage, int64_t task,
                       void *scratch, void *workspace)
{
    const struct attn_gradient_plan_full *full = attn_gradient_plan_full(plan);
    struct attn_gradient_rows rows;

    attn_gradient_rows_cut(&rows, full, scratch);
    if (stage == 0)
        attn_gradient_run_rows(full, task, &rows, workspace);
    else if (task < full->key_tasks)
        attn_gradient_run_keys(full, stage - 1, task, &rows, workspace);
    else if (task < full->key_tasks + full->mask_tasks)
        attn_gradient_run_mask(full, task - full->key_tasks, &rows, workspace);
    else
        attn_gradient_run_sums(full, &rows);
}
