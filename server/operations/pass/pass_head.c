/* pass_head.c - the step from the rows that leave the last stream to predictions: logits in panels
 * of the positions asked for, their log-softmax, and the most probable tokens. */
#include "operations/pass/pass_internal.h"

#include "rows.h"

#include <string.h>

enum { PANEL_ROWS = 32, NUMBERS_PER_PANEL = 1 << 22 };
enum { TURN_GATHER, TURN_TRANSFORM, TURN_NORM, TURN_OUTPUT, TURN_CHOOSE, TURN_COUNT };

/* One row of predictions. */
struct pass_prediction {
    struct trace_item *item;
    int64_t number; /* of the item's predictions */
    int64_t row;    /* of the stream */
};

struct pass_head {
    struct pass_prediction *predictions;
    int64_t count;
    int64_t panel_rows;
    float *rows, *transformed, *logits; /* [panel_rows][...] */
    float *values;                      /* [panel_rows][candidates] */
    int64_t *indices;
    int64_t candidates_max;
    int64_t first, some; /* of the panel that runs */
};

static int head_stream(const struct pass *pass)
{
    return pass->forward->stream_count - 1;
}

/* ---------------------------------------------------------------- planning -- */

static bool list_predictions(struct pass *pass, struct pass_head *head, struct fault *fault)
{
    const int stream = head_stream(pass);
    int64_t count = 0;
    for (int64_t i = 0; i < pass->sequence_count; i++)
        count += pass->sequences[i].item->predictions.count;
    head->predictions = pass_alloc(pass, count, sizeof *head->predictions, fault);
    if (!head->predictions)
        return false;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        const struct trace_predictions *predictions = &sequence->item->predictions;
        if (predictions->candidates > head->candidates_max)
            head->candidates_max = predictions->candidates;
        for (int64_t k = 0; k < predictions->count; k++)
            head->predictions[head->count++] =
                (struct pass_prediction){ sequence->item, k,
                                          sequence->first[stream] + predictions->positions[k] };
    }
    return true;
}

static bool allocate_head(struct pass *pass, struct pass_head *head, struct fault *fault)
{
    const struct model_head *of = &pass->forward->head;
    const int64_t width = pass->forward->streams[head_stream(pass)].width, in = of->output.in;
    const int64_t most = NUMBERS_PER_PANEL / of->output.out;
    const int64_t rows = most < 1 ? 1 : most < PANEL_ROWS ? most : PANEL_ROWS;
    head->panel_rows = rows < head->count ? rows : head->count;
    return (head->rows = pass_alloc(pass, head->panel_rows * width, sizeof(float), fault))
           && (head->transformed = pass_alloc(pass, head->panel_rows * in, sizeof(float), fault))
           && (head->logits =
                   pass_alloc(pass, head->panel_rows * of->output.out, sizeof(float), fault))
           && (head->values =
                   pass_alloc(pass, head->panel_rows * head->candidates_max, sizeof(float), fault))
           && (head->indices = pass_alloc(pass, head->panel_rows * head->candidates_max,
                                          sizeof(int64_t), fault));
}

static bool head_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                      struct fault *fault)
{
    const struct model_head *of = &pass->forward->head;
    struct pass_head *head = pass_alloc(pass, 1, sizeof *head, fault);
    (void)step;
    if (!head)
        return false;
    *head = (struct pass_head){ .count = 0 };
    pass->head = head;
    if (!list_predictions(pass, head, fault) || !allocate_head(pass, head, fault))
        return false;
    if (of->transform.weight)
        pass_product_work(pass, &of->transform, head->count, work);
    pass_product_work(pass, &of->output, head->count, work);
    work->pairs += (double)head->count * (double)of->output.out;
    return true;
}

/* ----------------------------------------------------------------- running -- */

static const float *head_rows(const struct pass *pass)
{
    return pass->forward->head.transform.weight ? pass->head->transformed : pass->head->rows;
}

static int64_t transform_tasks(struct pass *pass)
{
    const struct model_head *of = &pass->forward->head;
    const struct pass_head *head = pass->head;
    if (!of->transform.weight)
        return 0;
    pass_product(pass, &of->transform, head->rows, head->transformed, head->some);
    pass->product.activation = of->activation;
    return attn_product_tasks(&pass->product);
}

static int64_t head_tasks(struct pass *pass, const struct pass_step *step, int turn,
                          struct fault *fault)
{
    const struct model_head *of = &pass->forward->head;
    struct pass_head *head = pass->head;
    (void)step;
    (void)fault;
    head->first = turn / TURN_COUNT * head->panel_rows;
    if (head->first >= head->count)
        return PASS_OVER;
    head->some =
        head->count - head->first < head->panel_rows ? head->count - head->first : head->panel_rows;
    switch (turn % TURN_COUNT) {
    case TURN_TRANSFORM:
        return transform_tasks(pass);
    case TURN_NORM:
        return of->norm.weight ? 1 : 0;
    case TURN_OUTPUT:
        return pass_product(pass, &of->output, head_rows(pass), head->logits, head->some);
    case TURN_CHOOSE:
        return head->some;
    default:
        return 1;
    }
}

static void gather_rows(const struct pass *pass)
{
    const struct pass_head *head = pass->head;
    const int64_t width = pass->forward->streams[head_stream(pass)].width;
    for (int64_t i = 0; i < head->some; i++)
        memcpy(head->rows + i * width,
               pass->rows[head_stream(pass)] + head->predictions[head->first + i].row * width,
               (size_t)width * sizeof(float));
}

/* The candidates of row i of the panel. */
static void choose_tokens(const struct pass *pass, int64_t i)
{
    const struct model_head *of = &pass->forward->head;
    const struct pass_head *head = pass->head;
    const struct pass_prediction *prediction = &head->predictions[head->first + i];
    const struct trace_item *item = prediction->item;
    const int64_t vocabulary = trace_vocabulary(pass->forward);
    const int64_t count = item->predictions.candidates, first = prediction->number * count;
    float *logits = head->logits + i * of->output.out;
    float *values = head->values + i * head->candidates_max;
    int64_t *indices = head->indices + i * head->candidates_max;
    attn_rows_cap(pass->limits.kernels, logits, vocabulary, of->scale != 0 ? (float)of->scale : 1,
                  (float)of->softcap);
    if (item->logit_rows.values)
        memcpy((float *)item->logit_rows.values + prediction->number * vocabulary, logits,
               (size_t)vocabulary * sizeof *logits);
    if (count == 0)
        return;
    const struct attn_row_sums sums = attn_row_sums(logits, vocabulary);
    attn_top_k(logits, vocabulary, count, values, indices);
    for (int64_t k = 0; k < count; k++) {
        item->predictions.ids[first + k] = indices[k];
        item->predictions.logprobs[first + k] =
            (float)((double)values[k] - sums.max - sums.log_sum);
    }
}

static void head_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                     void *workspace)
{
    const struct model_head *of = &pass->forward->head;
    float *rows = (float *)head_rows(pass);
    (void)step;
    switch (turn % TURN_COUNT) {
    case TURN_GATHER:
        gather_rows(pass);
        break;
    case TURN_NORM:
        attn_rows_norm(&of->norm, rows, of->output.in, rows, of->output.in, pass->head->some,
                       of->output.in);
        break;
    case TURN_CHOOSE:
        choose_tokens(pass, task);
        break;
    default:
        attn_product_run(&pass->product, task, workspace);
        break;
    }
}

const struct pass_step_functions pass_head = { head_plan, head_tasks, head_run };
