/* SPDX-License-Identifier: Apache-2.0 */
/* pass_readout.c - the step from the rows that leave a stream to vectors, and to logits of classes:
 * rows are pooled, or taken one by one, and go through the model's layers over vectors.
 *
 * What is pooled of one sequence is summed up in the order of its rows, so it has the same bits
 * whatever other sequences go with it; so has each row of a product. */
#include "operations/pass/pass_internal.h"

#include <math.h>
#include <string.h>

/* Turns: pooling; of each layer a product and what follows it; the vector as it was asked for. */
enum { TURN_POOL, TURNS_PER_DENSE = 2, COLUMNS = 16 };

/* A vector that is asked for. */
struct readout_row {
    const struct trace_vector *vector;
    const float *rows; /* of its sequence, [count][width of the stream] */
    int64_t count;
    double *weights; /* [count + width], of a probe; NULL: there is none */
    float *values;   /* where it goes */
};

struct pass_readout {
    struct readout_row *rows; /* first those that go through layers */
    int64_t count, layered;
    const struct model_dense *dense; /* of all of these */
    int dense_count;
    int64_t pooled_rows;  /* that are read, of all vectors */
    int64_t stride;       /* from one vector to the next */
    float *values, *next; /* [count][stride]: vectors, and what the next product makes of them */
    float *kept;          /* [layered][stride], for a layer that adds them; NULL: none does */
};

static struct trace_vector *vector_of(const struct pass_sequence *sequence,
                                      const struct pass_step *step)
{
    struct trace_item *item = sequence->item;
    struct trace_vector *vector =
        step->is_classes ? &item->classes : &item->streams[step->stream].vector;
    return vector->numbers.values ? vector : NULL;
}

bool pass_readout_is_needed(const struct pass_sequence *sequence, const struct pass_step *step)
{
    return vector_of(sequence, step) != NULL;
}

/* ----------------------------------------------------------------- planning -- */

static void widen(struct pass_readout *readout, int64_t width)
{
    readout->stride = width > readout->stride ? width : readout->stride;
}

/* Adds the vectors of a sequence. */
static void add_vectors(struct pass_readout *readout, const struct trace_vector *vector,
                        const float *rows, int64_t width)
{
    const struct model_readout *of = &vector->readout;
    const bool is_pooled = of->pooling_count > 0;
    const int64_t count = is_pooled ? 1 : vector->row_count;
    widen(readout, is_pooled ? width * of->pooling_count : width);
    readout->pooled_rows += vector->row_count;
    for (int64_t i = 0; i < count; i++)
        readout->rows[readout->count++] = (struct readout_row){
            .vector = vector,
            .rows = rows + i * width,
            .count = is_pooled ? vector->row_count : 1,
            .values = (float *)vector->numbers.values + i * of->width,
        };
}

/* Adds those of sequences that have layers, or of those that have none. */
static void add_rows(struct pass *pass, const struct pass_step *step, struct pass_readout *readout,
                     bool has_layers)
{
    const int64_t width = pass->forward->streams[step->stream].width;
    const bool is_mixed = step->is_classes && pass->forward->classes.layer_weights;
    const float *rows = is_mixed ? pass->mixed : pass->rows[step->stream];
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        const struct trace_vector *vector = vector_of(sequence, step);
        if (!vector || (vector->readout.dense_count > 0) != has_layers)
            continue;
        if (has_layers) {
            readout->dense = vector->readout.dense;
            readout->dense_count = vector->readout.dense_count;
        }
        const int64_t first = sequence->first[step->stream] + vector->first_row;
        add_vectors(readout, vector, rows + first * width, width);
    }
}

static int64_t count_rows(const struct pass *pass, const struct pass_step *step)
{
    int64_t count = 0;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct trace_vector *vector = vector_of(&pass->sequences[i], step);
        if (vector)
            count += vector->readout.pooling_count > 0 ? 1 : vector->row_count;
    }
    return count;
}

/* Memory for what probes weigh rows with, and that work. */
static bool plan_probes(struct pass *pass, struct pass_readout *readout, int64_t width,
                        struct attn_work *work, struct fault *fault)
{
    for (int64_t i = 0; i < readout->count; i++) {
        struct readout_row *row = &readout->rows[i];
        const struct model_probe *probe = row->vector->readout.probe;
        if (!probe)
            continue;
        row->weights = pass_alloc(pass, row->count + width, sizeof *row->weights, fault);
        if (!row->weights)
            return false;
        pass_rows_work(2 * probe->heads * row->count + width, width, work);
    }
    return true;
}

static bool plan_kept(struct pass *pass, struct pass_readout *readout, struct fault *fault)
{
    bool is_kept = false;
    for (int i = 0; i < readout->dense_count; i++)
        is_kept = is_kept || readout->dense[i].keeps;
    if (is_kept)
        readout->kept =
            pass_alloc(pass, readout->layered * readout->stride, sizeof *readout->kept, fault);
    return readout->kept || !is_kept;
}

static bool readout_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                         struct fault *fault)
{
    const int64_t width = pass->forward->streams[step->stream].width;
    struct pass_readout *readout = pass_alloc(pass, 1, sizeof *readout, fault);
    if (!readout)
        return false;
    *readout = (struct pass_readout){ .count = 0 };
    pass->readouts[step->stream][step->is_classes] = readout;
    readout->rows = pass_alloc(pass, count_rows(pass, step), sizeof *readout->rows, fault);
    if (!readout->rows)
        return false;
    add_rows(pass, step, readout, true);
    readout->layered = readout->count;
    add_rows(pass, step, readout, false);
    for (int i = 0; i < readout->dense_count; i++) {
        const struct attn_linear *linear = &readout->dense[i].linear;
        if (!linear->weight)
            continue;
        widen(readout, linear->out);
        pass_product_work(pass, linear, readout->layered, work);
    }
    pass_rows_work(readout->pooled_rows, width, work);
    if (!plan_probes(pass, readout, width, work, fault) || !plan_kept(pass, readout, fault))
        return false;
    readout->values = pass_alloc(pass, readout->count * readout->stride, sizeof(float), fault);
    readout->next = readout->values
                        ? pass_alloc(pass, readout->layered * readout->stride, sizeof(float), fault)
                        : NULL;
    return readout->next != NULL;
}

/* ---------------------------------------------------------------- the probe -- */

/* A head's weights of the rows, in double: the softmax of their scores. */
static void weigh_rows(const struct readout_row *row, const float *scores, int64_t width,
                       double *weights)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < row->count; i++) {
        const float *from = row->rows + i * width;
        weights[i] = 0;
        for (int64_t c = 0; c < width; c++)
            weights[i] += (double)scores[c] * (double)from[c];
        most = fmax(most, weights[i]);
    }
    for (int64_t i = 0; i < row->count; i++)
        sum += weights[i] = exp(weights[i] - most);
    for (int64_t i = 0; i < row->count; i++)
        weights[i] /= sum;
}

/* Pools by a probe: each head's weighted mean of the rows, and its columns of their values. weights
 * are those of the rows, and means [width] behind them. */
static void pool_probe(const struct model_probe *probe, const struct readout_row *row,
                       int64_t width, double *weights, float *values)
{
    const int64_t head_dim = width / probe->heads;
    double *means = weights + row->count;
    for (int64_t h = 0; h < probe->heads; h++) {
        weigh_rows(row, probe->scores + h * width, width, weights);
        for (int64_t c = 0; c < width; c++)
            means[c] = 0;
        for (int64_t i = 0; i < row->count; i++)
            for (int64_t c = 0; c < width; c++)
                means[c] += weights[i] * (double)row->rows[i * width + c];
        for (int64_t d = h * head_dim; d < (h + 1) * head_dim; d++) {
            double sum = (double)probe->value_biases[d];
            for (int64_t c = 0; c < width; c++)
                sum += (double)probe->values[d * width + c] * means[c];
            values[d] = (float)sum;
        }
    }
}

/* ------------------------------------------------------------------ pooling -- */

/* The weight of row i of a mean. */
static double weight_of(enum model_pooling pooling, int64_t i)
{
    return pooling == MODEL_POOLING_WEIGHTEDMEAN ? (double)(i + 1) : 1;
}

static double divisor_of(enum model_pooling pooling, int64_t first, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += weight_of(pooling, first + i);
    return pooling == MODEL_POOLING_MEAN_SQRT_LEN ? sqrt(sum) : sum;
}

/* A few columns of a mean, side by side. first: the number of the first row in its sequence. */
static void pool_mean(enum model_pooling pooling, const struct readout_row *row, int64_t width,
                      int64_t column, int64_t columns, float *values)
{
    const int64_t first = row->vector->first_row;
    const double divisor = divisor_of(pooling, first, row->count);
    double sums[COLUMNS] = { 0 };
    for (int64_t i = 0; i < row->count; i++) {
        const float *from = row->rows + i * width + column;
        const double weight = weight_of(pooling, first + i);
        for (int64_t c = 0; c < columns; c++)
            sums[c] += weight * (double)from[c];
    }
    for (int64_t c = 0; c < columns; c++)
        values[column + c] = (float)(sums[c] / divisor);
}

static void pool_max(const struct readout_row *row, int64_t width, float *values)
{
    memcpy(values, row->rows, (size_t)width * sizeof *values);
    for (int64_t i = 1; i < row->count; i++)
        for (int64_t c = 0; c < width; c++) {
            const float number = row->rows[i * width + c];
            values[c] = number > values[c] || isnan(number) ? number : values[c];
        }
}

static void pool(enum model_pooling pooling, const struct readout_row *row, int64_t width,
                 float *values)
{
    const int64_t last = row->count - 1;
    if (pooling == MODEL_POOLING_MAX)
        pool_max(row, width, values);
    else if (pooling == MODEL_POOLING_CLS || pooling == MODEL_POOLING_LAST)
        memcpy(values, row->rows + (pooling == MODEL_POOLING_LAST ? last * width : 0),
               (size_t)width * sizeof *values);
    else
        for (int64_t c = 0; c < width; c += COLUMNS)
            pool_mean(pooling, row, width, c, width - c < COLUMNS ? width - c : COLUMNS, values);
}

static void take_row(const struct readout_row *row, int64_t width, float *values)
{
    const struct model_readout *of = &row->vector->readout;
    if (of->pooling_count == 0)
        memcpy(values, row->rows, (size_t)width * sizeof *values);
    if (row->weights) {
        pool_probe(of->probe, row, width, row->weights, values);
        return;
    }
    for (int i = 0; i < of->pooling_count; i++)
        pool(of->poolings[i], row, width, values + i * width);
}

static int64_t pooled_width(const struct readout_row *row, int64_t width)
{
    const int count = row->vector->readout.pooling_count;
    return count > 0 ? width * count : width;
}

/* ------------------------------------------------------------------ running -- */

/* x / max(|x|, 1e-12), as torch.nn.functional.normalize(). */
static void divide_by_length(float *values, int64_t count)
{
    double sum = 0;
    for (int64_t c = 0; c < count; c++)
        sum += (double)values[c] * (double)values[c];
    const double root = sqrt(sum), length = root < 1e-12 ? 1e-12 : root; /* or NaN */
    for (int64_t c = 0; c < count; c++)
        values[c] = (float)((double)values[c] / length);
}

static int64_t product_tasks(struct pass *pass, struct pass_readout *readout,
                             const struct model_dense *dense)
{
    const size_t bytes = (size_t)(readout->layered * readout->stride) * sizeof(float);
    if (dense->keeps)
        memcpy(readout->kept, readout->values, bytes);
    if (!dense->linear.weight)
        return 0;
    pass_product(pass, &dense->linear, readout->values, readout->next, readout->layered);
    pass->product.x_stride = pass->product.y_stride = readout->stride;
    pass->product.activation = dense->activation;
    return attn_product_tasks(&pass->product);
}

/* What the product made takes the place of the vectors; those without layers are behind them. */
static int64_t after_tasks(struct pass_readout *readout, const struct model_dense *dense)
{
    const size_t bytes = (size_t)(readout->layered * readout->stride) * sizeof(float);
    if (dense->linear.weight)
        memcpy(readout->values, readout->next, bytes);
    return dense->norm.weight || dense->is_unit || dense->adds_kept ? 1 : 0;
}

/* Columns that pooling one vector reads, for tasks of about equal size. */
static int64_t columns_of(const struct pass *pass, const struct pass_step *step,
                          const struct pass_readout *readout)
{
    const int64_t width = pass->forward->streams[step->stream].width;
    return width * (readout->pooled_rows / readout->count);
}

static int64_t readout_tasks(struct pass *pass, const struct pass_step *step, int turn,
                             struct fault *fault)
{
    struct pass_readout *readout = pass->readouts[step->stream][step->is_classes];
    const int layer = (turn - 1) / TURNS_PER_DENSE;
    (void)fault;
    if (turn == TURN_POOL)
        return pass_row_tasks(readout->count, columns_of(pass, step, readout));
    if (layer < readout->dense_count)
        return turn % TURNS_PER_DENSE == 1 ? product_tasks(pass, readout, &readout->dense[layer])
                                           : after_tasks(readout, &readout->dense[layer]);
    return turn == 1 + TURNS_PER_DENSE * readout->dense_count ? 1 : PASS_OVER;
}

static void run_after(const struct pass_readout *readout, const struct model_dense *dense,
                      int64_t width)
{
    if (dense->norm.weight)
        attn_rows_norm(&dense->norm, readout->values, readout->stride, readout->values,
                       readout->stride, readout->layered, width);
    for (int64_t i = 0; dense->adds_kept && i < readout->layered; i++)
        for (int64_t c = 0; c < width; c++)
            readout->values[i * readout->stride + c] += readout->kept[i * readout->stride + c];
    for (int64_t i = 0; dense->is_unit && i < readout->layered; i++)
        divide_by_length(readout->values + i * readout->stride, width);
}

/* Columns of what leaves a layer. */
static int64_t width_behind(const struct pass_readout *readout, int layer, int64_t pooled)
{
    while (layer >= 0 && !readout->dense[layer].linear.weight)
        layer--;
    return layer >= 0 ? readout->dense[layer].linear.out : pooled;
}

static void answer_vectors(const struct pass_readout *readout)
{
    for (int64_t i = 0; i < readout->count; i++) {
        const struct readout_row *row = &readout->rows[i];
        const int64_t width = row->vector->readout.width;
        memcpy(row->values, readout->values + i * readout->stride,
               (size_t)width * sizeof *row->values);
        if (row->vector->readout.is_unit)
            divide_by_length(row->values, width);
    }
}

static void readout_run(const struct pass *pass, const struct pass_step *step, int turn,
                        int64_t task, void *workspace)
{
    const struct pass_readout *readout = pass->readouts[step->stream][step->is_classes];
    const int64_t width = pass->forward->streams[step->stream].width;
    const int layer = (turn - 1) / TURNS_PER_DENSE;
    if (turn == TURN_POOL) {
        int64_t first, count;
        pass_task_rows(readout->count, columns_of(pass, step, readout), task, &first, &count);
        for (int64_t i = first; i < first + count; i++)
            take_row(&readout->rows[i], width, readout->values + i * readout->stride);
    } else if (layer >= readout->dense_count) {
        answer_vectors(readout);
    } else if (turn % TURNS_PER_DENSE == 1) {
        attn_product_run(&pass->product, task, workspace);
    } else {
        run_after(readout, &readout->dense[layer],
                  width_behind(readout, layer, pooled_width(&readout->rows[0], width)));
    }
}

const struct pass_step_functions pass_readout = { readout_plan, readout_tasks, readout_run };
