/* SPDX-License-Identifier: Apache-2.0 */
/* pass_read.c - what is read of a layer once its attention is computed and its scratch still holds
 * query, key and value: sums over spans that are summed up over rows, or over heads and layers; and
 * the turns of what is read of whole maps. */
#include "operations/pass/pass_internal.h"

enum { TURN_SPANS, TURN_RECORD, TURN_MAPS };

static const struct pass_map_reader *const READERS[] = { &pass_rollout, &pass_norms, &pass_contacts,
                                                         &pass_align };
enum {
    READER_COUNT = sizeof READERS / sizeof READERS[0],
    TURN_COUNT = TURN_MAPS + READER_COUNT * PASS_MAP_TURNS
};

static const struct trace_layer *answered_of(const struct pass_sequence *sequence,
                                             const struct pass_step *step)
{
    return sequence->answered[step->layer];
}

/* ------------------------------------------------------------------------ spans -- */

/* Whether the sums over spans are no answer yet. */
static bool sums_spans(const struct pass_sequence *sequence, const struct pass_step *step)
{
    const struct trace_layer *answered = answered_of(sequence, step);
    return answered && answered->has_spans
           && (sequence->item->has_row_spans || sequence->item->has_head_weights);
}

/* Rows that the map of spans has. */
static int64_t map_rows(const struct pass_sequence *sequence, const struct pass_step *step)
{
    const struct trace_stream *stream = &sequence->item->streams[step->stream];
    return stream->span_rows ? stream->span_row_count : stream->length;
}

static bool plan_spans(struct pass *pass, const struct pass_step *step,
                       struct pass_sequence *sequence, struct attn_work *work, float **spans,
                       struct fault *fault)
{
    const struct trace_layer *answered = answered_of(sequence, step);
    const int64_t heads = pass->model->layers[step->layer].layer.q_heads;
    int64_t count;
    *spans = answered ? (float *)answered->tensors[TRACE_SPANS].values : NULL;
    if (!sums_spans(sequence, step))
        return true;
    if (__builtin_mul_overflow(heads * map_rows(sequence, step), sequence->item->span_count,
                               &count))
        return fault_no_memory(fault);
    if (!pass_keep_room(pass, &sequence->spans, count, sizeof **spans, fault))
        return false;
    *spans = sequence->spans.memory;
    if (work)
        attn_rows_work(count, 1, work);
    return true;
}

/* Where the rows of the answer's row are in the map of spans: [*first, *end). The rows of a range
 * are neighbours there. */
static void find_rows(const struct pass_sequence *sequence, const struct pass_step *step,
                      int64_t row, int64_t *first, int64_t *end)
{
    const struct trace_item *item = sequence->item;
    const struct trace_stream *stream = &item->streams[step->stream];
    if (!item->has_row_spans) {
        *first = row;
        *end = row + 1;
        return;
    }
    int64_t low = 0, high = stream->span_row_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (stream->span_rows[middle] < item->row_spans[row].begin)
            low = middle + 1;
        else
            high = middle;
    }
    *first = low;
    *end = low + item->row_spans[row].end - item->row_spans[row].begin;
}

/* The sum of a span over rows of the map of one head. */
static double sum_rows(const float *map, int64_t spans, int64_t span, int64_t first, int64_t end)
{
    double sum = 0;
    for (int64_t row = first; row < end; row++)
        sum += (double)map[row * spans + span];
    return sum;
}

/* Adds a layer to what is summed up over layers. */
static void add_layer(struct trace_item *item, const float *weights, const float *sums,
                      int64_t heads, int64_t head_numbers, int64_t row, int64_t first, int64_t end)
{
    float *scores = (float *)item->span_scores.values;
    for (int64_t s = 0; s < item->span_count; s++) {
        double *sum = &item->span_sums[row * item->span_count + s];
        for (int64_t h = 0; h < heads; h++)
            if (weights[h] != 0)
                *sum += (double)weights[h]
                        * (double)(float)sum_rows(sums + h * head_numbers, item->span_count, s,
                                                  first, end);
        scores[row * item->span_count + s] = (float)*sum;
    }
}

static void run_spans(const struct pass *pass, const struct pass_step *step,
                      const struct pass_sequence *sequence)
{
    struct trace_item *item = sequence->item;
    const struct trace_layer *answered = answered_of(sequence, step);
    const int64_t heads = pass->model->layers[step->layer].layer.q_heads;
    const int64_t rows = answered->tensors[TRACE_SPANS].shape[1], spans = item->span_count;
    const int64_t head_numbers = map_rows(sequence, step) * spans;
    const float *sums = sequence->spans.memory;
    float *to = (float *)answered->tensors[TRACE_SPANS].values;
    for (int64_t row = 0; row < rows; row++) {
        int64_t first, end;
        find_rows(sequence, step, row, &first, &end);
        if (item->layer_weights)
            add_layer(item, item->layer_weights + (answered - item->answered) * heads, sums, heads,
                      head_numbers, row, first, end);
        for (int64_t h = 0; to && h < heads; h++)
            for (int64_t s = 0; s < spans; s++)
                to[(h * rows + row) * spans + s] =
                    (float)sum_rows(sums + h * head_numbers, spans, s, first, end);
    }
}

/* ------------------------------------------------------------------------ turns -- */

bool pass_read_needs_lse(const struct pass *pass, const struct pass_step *step,
                         const struct pass_sequence *sequence)
{
    for (int i = 0; i < READER_COUNT; i++)
        if (READERS[i]->is_read(pass, step, sequence))
            return true;
    return false;
}

bool pass_read_plan(struct pass *pass, const struct pass_step *step, struct pass_sequence *sequence,
                    struct attn_work *work, float **spans, struct fault *fault)
{
    if (!plan_spans(pass, step, sequence, work, spans, fault)
        || (pass_read_needs_lse(pass, step, sequence)
            && !pass_tile_plan(pass, step, sequence, work, fault)))
        return false;
    for (int i = 0; i < READER_COUNT; i++)
        if (READERS[i]->plan && READERS[i]->is_read(pass, step, sequence)
            && !READERS[i]->plan(pass, step, sequence, work, fault))
            return false;
    return true;
}

size_t pass_read_workspace_bytes(const struct pass *pass, const struct pass_step *step,
                                 struct pass_sequence *sequence)
{
    size_t most = 0;
    for (int i = 0; i < READER_COUNT; i++) {
        const size_t bytes = READERS[i]->is_read(pass, step, sequence)
                                 ? READERS[i]->workspace_bytes(pass, step, sequence)
                                 : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int64_t count_tasks(struct pass *pass, const struct pass_step *step,
                           struct pass_sequence *sequence, int turn)
{
    if (turn == TURN_SPANS)
        return sums_spans(sequence, step);
    if (turn == TURN_RECORD)
        return pass_record_is_needed(pass, step, sequence);
    const struct pass_map_reader *reader = READERS[(turn - TURN_MAPS) / PASS_MAP_TURNS];
    return reader->is_read(pass, step, sequence)
               ? reader->tasks(pass, step, sequence, (turn - TURN_MAPS) % PASS_MAP_TURNS)
               : 0;
}

int64_t pass_read_tasks(struct pass *pass, const struct pass_step *step, int turn)
{
    int64_t count = 0;
    if (turn >= TURN_COUNT)
        return PASS_OVER;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        pass->first_task[i] = count;
        count += count_tasks(pass, step, &pass->sequences[i], turn);
    }
    pass->first_task[pass->sequence_count] = count;
    return count;
}

void pass_read_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                   void *workspace)
{
    int64_t i = 0;
    while (pass->first_task[i + 1] <= task)
        i++;
    task -= pass->first_task[i];
    if (turn == TURN_SPANS)
        run_spans(pass, step, &pass->sequences[i]);
    else if (turn == TURN_RECORD)
        pass_record_context(pass, step, &pass->sequences[i]);
    else
        READERS[(turn - TURN_MAPS) / PASS_MAP_TURNS]->run(
            pass, step, &pass->sequences[i], (turn - TURN_MAPS) % PASS_MAP_TURNS, task, workspace);
}
