/* SPDX-License-Identifier: Apache-2.0 */
/* pass_head.c - the step from the rows that leave the last stream to predictions and log-probs:
 * logits in panels of the rows asked for, their log-softmax, the most probable tokens, and the
 * log-probs and ranks of given ones. No more than a panel has logits at a time.
 *
 * An item and the same item without edits are neighbours: each row of the one is followed by that
 * row of the other, in one panel, so that each can say what the other thinks of its tokens. */
#include "operations/pass/pass_internal.h"

#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL_ROWS = 32, NUMBERS_PER_PANEL = 1 << 22 };
enum { TURN_GATHER, TURN_TRANSFORM, TURN_NORM, TURN_OUTPUT, TURN_CHOOSE, TURN_COMPARE, TURN_COUNT };

/* What is asked of a row. */
struct head_request {
    int64_t row;                           /* of its sequence; of a lens, of those of the lens */
    const struct trace_predictions *among; /* one of its positions; NULL: a score */
    int64_t number;                        /* of the position */
    struct trace_score *score;             /* NULL: a position */
};

/* A row that has logits. */
struct head_row {
    struct trace_item *item;
    const float *from; /* where it lies */
    const struct head_request *requests;
    int64_t request_count;
    bool is_paired; /* with the row behind it, of the same item without edits */
};

struct pass_head {
    struct head_row *list;
    int64_t count;
    int64_t panel_rows;
    float *rows, *transformed, *logits; /* [panel_rows][...] */
    float *values;                      /* [panel_rows][candidates_max] */
    int64_t *indices;
    struct attn_row_sums *sums; /* [panel_rows] */
    int64_t candidates_max;
    int64_t first, some; /* of the panel that runs */
};

static int head_stream(const struct pass *pass)
{
    return pass->forward->stream_count - 1;
}

/* ---------------------------------------------------------------- planning -- */

static int64_t count_requests(const struct trace_item *item)
{
    return item->predictions.count + item->logprobs.tokens.count + item->score_count;
}

static void add_positions(struct head_request *requests, int64_t *count,
                          const struct trace_predictions *among)
{
    for (int64_t i = 0; i < among->count; i++)
        requests[(*count)++] = (struct head_request){ among->positions[i], among, i, NULL };
}

static void add_scores(struct head_request *requests, int64_t *count, struct trace_score *scores,
                       int64_t score_count)
{
    for (int64_t i = 0; i < score_count; i++)
        requests[(*count)++] = (struct head_request){ .row = scores[i].row, .score = &scores[i] };
}

static int compare_rows(const void *a, const void *b)
{
    const struct head_request *left = a, *right = b;
    return (left->row > right->row) - (left->row < right->row);
}

/* Lists the rows of some requests, each once, at every step-th place from *at on. first is row 0 of
 * them. */
static int64_t list_requests(struct trace_item *item, struct head_request *requests, int64_t count,
                             const float *first, int64_t width, struct head_row *at, int step)
{
    int64_t listed = 0;
    qsort(requests, (size_t)count, sizeof *requests, compare_rows);
    for (int64_t i = 0; i < count; i++) {
        if (i > 0 && requests[i].row == requests[i - 1].row) {
            at[(listed - 1) * step].request_count++;
            continue;
        }
        at[listed++ * step] = (struct head_row){ .item = item,
                                                 .from = first + requests[i].row * width,
                                                 .requests = &requests[i],
                                                 .request_count = 1 };
    }
    return listed;
}

static bool list_rows(struct pass *pass, const struct pass_sequence *sequence, struct head_row *at,
                      int step, int64_t *listed, struct fault *fault)
{
    struct trace_item *item = sequence->item;
    const int stream = head_stream(pass);
    const int64_t width = pass->forward->streams[stream].width;
    struct head_request *requests = pass_alloc(pass, count_requests(item), sizeof *requests, fault);
    int64_t count = 0;
    if (!requests)
        return false;
    add_positions(requests, &count, &item->predictions);
    add_positions(requests, &count, &item->logprobs.tokens);
    add_scores(requests, &count, item->scores, item->score_count);
    for (int64_t i = 0; sequence->is_narrow && i < count; i++)
        requests[i].row = 0; /* the only one */
    *listed = list_requests(item, requests, count,
                            pass->rows[stream] + sequence->first[stream] * width, width, at, step);
    for (int64_t i = 0; i < *listed; i++)
        at[i * step].is_paired = item->base != NULL;
    return true;
}

/* Rows of the lenses of a sequence: a position that is asked for twice is two. */
static bool list_lenses(struct pass *pass, struct pass_head *head,
                        const struct pass_sequence *sequence, struct fault *fault)
{
    struct trace_item *item = sequence->item;
    const int64_t width = pass->forward->streams[head_stream(pass)].width;
    for (int64_t i = 0; item->lens_count > 0 && i < item->answered_count; i++) {
        const struct trace_lens *lens = item->answered[i].lens;
        int64_t count = 0;
        if (!lens)
            continue;
        struct head_request *requests =
            pass_alloc(pass, lens->tokens.count + lens->score_count, sizeof *requests, fault);
        if (!requests)
            return false;
        for (int64_t p = 0; p < lens->tokens.count; p++)
            requests[count++] = (struct head_request){ p, &lens->tokens, p, NULL };
        add_scores(requests, &count, lens->scores, lens->score_count);
        head->count +=
            list_requests(item, requests, count, lens->rows, width, head->list + head->count, 1);
    }
    return true;
}

/* Rows that the lenses of an item have. */
static int64_t count_lens_rows(const struct trace_item *item)
{
    int64_t count = 0;
    for (int64_t i = 0; item->lens_count > 0 && i < item->answered_count; i++)
        count += item->answered[i].lens ? item->answered[i].lens->tokens.count : 0;
    return count;
}

static bool list_all_rows(struct pass *pass, struct pass_head *head, struct fault *fault)
{
    int64_t most = 0, listed;
    for (int64_t i = 0; i < pass->sequence_count; i++)
        most += count_requests(pass->sequences[i].item) + count_lens_rows(pass->sequences[i].item);
    head->list = pass_alloc(pass, most, sizeof *head->list, fault);
    if (!head->list)
        return false;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        const bool has_base = sequence->item->base != NULL;
        if (!list_rows(pass, sequence, head->list + head->count, has_base ? 2 : 1, &listed, fault)
            || (has_base
                && !list_rows(pass, ++i + pass->sequences, head->list + head->count + 1, 2, &listed,
                              fault)))
            return false;
        head->count += has_base ? 2 * listed : listed;
    }
    /* Behind all others: pairs begin at even places. */
    for (int64_t i = 0; i < pass->sequence_count; i++)
        if (!list_lenses(pass, head, &pass->sequences[i], fault))
            return false;
    return true;
}

static int64_t candidates_of(const struct head_row *row)
{
    int64_t most = 0;
    for (int64_t i = 0; i < row->request_count; i++)
        if (row->requests[i].among && row->requests[i].among->candidates > most)
            most = row->requests[i].among->candidates;
    return most;
}

static bool allocate_head(struct pass *pass, struct pass_head *head, struct fault *fault)
{
    const struct model_head *of = &pass->forward->head;
    const int64_t width = pass->forward->streams[head_stream(pass)].width, in = of->output.in;
    const int64_t most = NUMBERS_PER_PANEL / of->output.out / 2 * 2;
    const int64_t rows = most < 2 ? 2 : most < PANEL_ROWS ? most : PANEL_ROWS;
    for (int64_t i = 0; i < head->count; i++)
        if (candidates_of(&head->list[i]) > head->candidates_max)
            head->candidates_max = candidates_of(&head->list[i]);
    head->panel_rows = rows < head->count ? rows : head->count;
    return (head->rows = pass_alloc(pass, head->panel_rows * width, sizeof(float), fault))
           && (head->transformed = pass_alloc(pass, head->panel_rows * in, sizeof(float), fault))
           && (head->logits =
                   pass_alloc(pass, head->panel_rows * of->output.out, sizeof(float), fault))
           && (head->values =
                   pass_alloc(pass, head->panel_rows * head->candidates_max, sizeof(float), fault))
           && (head->indices = pass_alloc(pass, head->panel_rows * head->candidates_max,
                                          sizeof(int64_t), fault))
           && (head->sums = pass_alloc(pass, head->panel_rows, sizeof *head->sums, fault));
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
    if (!list_all_rows(pass, head, fault) || !allocate_head(pass, head, fault))
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

static bool has_pairs(const struct pass_head *head)
{
    for (int64_t i = 0; i < head->some; i++)
        if (head->list[head->first + i].is_paired)
            return true;
    return false;
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
    case TURN_COMPARE:
        return has_pairs(head) ? 1 : 0;
    default:
        return 1;
    }
}

static void gather_rows(const struct pass *pass)
{
    const struct pass_head *head = pass->head;
    const int64_t width = pass->forward->streams[head_stream(pass)].width;
    for (int64_t i = 0; i < head->some; i++)
        memcpy(head->rows + i * width, head->list[head->first + i].from,
               (size_t)width * sizeof(float));
}

/* Of row i of the panel. */
static float logprob_of(const struct pass *pass, int64_t i, int64_t id)
{
    const struct pass_head *head = pass->head;
    const float logit = head->logits[i * pass->forward->head.output.out + id];
    return (float)((double)logit - (double)head->sums[i].max - head->sums[i].log_sum);
}

static int64_t rank_of(const float *logits, int64_t count, int64_t id)
{
    int64_t rank = 1;
    for (int64_t i = 0; i < count; i++)
        rank += i < id ? logits[i] >= logits[id] : logits[i] > logits[id];
    return rank;
}

static void set_candidates(const struct pass *pass, int64_t i, const struct head_request *request)
{
    const struct pass_head *head = pass->head;
    const int64_t count = request->among->candidates, first = request->number * count;
    const int64_t *indices = head->indices + i * head->candidates_max;
    for (int64_t k = 0; k < count; k++) {
        request->among->ids[first + k] = indices[k];
        request->among->logprobs[first + k] = logprob_of(pass, i, indices[k]);
    }
}

static void set_score(const struct pass *pass, int64_t i, struct trace_score *score)
{
    const float *logits = pass->head->logits + i * pass->forward->head.output.out;
    score->logprob = logprob_of(pass, i, score->id);
    score->rank = rank_of(logits, trace_vocabulary(pass->forward), score->id);
}

static bool has_scores(const struct head_row *row)
{
    for (int64_t i = 0; i < row->request_count; i++)
        if (row->requests[i].score)
            return true;
    return false;
}

/* What is asked of row i of the panel. */
static void choose_tokens(const struct pass *pass, int64_t i)
{
    const struct model_head *of = &pass->forward->head;
    const struct pass_head *head = pass->head;
    const struct head_row *row = &head->list[head->first + i];
    const int64_t vocabulary = trace_vocabulary(pass->forward);
    const int64_t candidates = candidates_of(row);
    float *logits = head->logits + i * of->output.out;
    attn_rows_cap(pass->limits.kernels, logits, vocabulary, of->scale != 0 ? (float)of->scale : 1,
                  (float)of->softcap);
    if (candidates > 0 || has_scores(row))
        head->sums[i] = attn_row_sums(logits, vocabulary);
    if (candidates > 0)
        attn_top_k(logits, vocabulary, candidates, head->values + i * head->candidates_max,
                   head->indices + i * head->candidates_max);
    for (int64_t k = 0; k < row->request_count; k++) {
        const struct head_request *request = &row->requests[k];
        if (!request->among)
            set_score(pass, i, request->score);
        else
            set_candidates(pass, i, request);
        if (request->among == &row->item->predictions && row->item->logit_rows.values)
            memcpy((float *)row->item->logit_rows.values + request->number * vocabulary, logits,
                   (size_t)vocabulary * sizeof *logits);
    }
}

/* What rows i and i + 1 of the panel say of the tokens of one of them: with edits less without. */
static void set_differences(const struct pass *pass, int64_t i, const struct head_row *row)
{
    for (int64_t k = 0; k < row->request_count; k++) {
        const struct head_request *request = &row->requests[k];
        const int64_t count = request->among ? request->among->candidates : 1;
        for (int64_t c = 0; c < count; c++) {
            const int64_t at = request->number * count + c;
            const int64_t id = request->among ? request->among->ids[at] : request->score->id;
            float *difference =
                request->among ? &request->among->differences[at] : &request->score->difference;
            *difference = logprob_of(pass, i, id) - logprob_of(pass, i + 1, id);
        }
    }
}

static void compare_pairs(const struct pass *pass)
{
    const struct pass_head *head = pass->head;
    for (int64_t i = 0; i + 1 < head->some; i++) {
        const struct head_row *row = &head->list[head->first + i];
        if (!row->is_paired)
            continue;
        set_differences(pass, i, row);
        set_differences(pass, i, row + 1);
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
    case TURN_COMPARE:
        compare_pairs(pass);
        break;
    default:
        attn_product_run(&pass->product, task, workspace);
        break;
    }
}

const struct pass_step_functions pass_head = { head_plan, head_tasks, head_run };
