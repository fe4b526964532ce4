/* SPDX-License-Identifier: Apache-2.0 */
/* product.c - products of rows with a matrix, in tasks; see linear.h.
 *
 * A task is up to ATTN_PROJECT_ROWS_MAX rows and enough outputs to make a task of a good length.
 * The activation is applied to the outputs of a task while they are in its cache. With a gate the
 * task computes its outputs of both matrices; those of the gate go to the workspace and never
 * become rows of their own.
 *
 * A matrix unit makes products with parameters of 16 bits. Which products these are follows from
 * the parameters alone, not from the number of rows: rows of several calls share a product, and a
 * call of one row continues one of many. One row takes as many tiles as sixteen; it waits for
 * memory, which brings parameters more slowly than tiles use them. A row whose numbers do not fit
 * in parts goes through the vectors of the table, by itself. Weights in blocks meet rows in fixed
 * point (kernels/fixed.h) where the table has it, by the same rules: few rows by vectors, many by
 * tiles if there are any, which have the same bits.
 *
 * Vectors have the bits of a function that the caller brings (linear.h), so the number of
 * rows may choose between these. */
#include "base/convert.h"
#include "base/internal.h"
#include "rows/rows_internal.h"

#include <math.h>
#include <string.h>

int64_t attn_linear_stride(const struct attn_linear *linear)
{
    const int64_t dense = linear->in_out ? linear->out : linear->in;

    return linear->stride > 0 ? linear->stride : dense;
}

const void *attn_linear_at(const struct attn_linear *linear, int64_t index)
{
    return attn_number_at(linear->weight, linear->dtype, index);
}

bool attn_linear_takes(enum attn_dtype dtype)
{
    return attn_numbers_of(dtype) != ATTN_NUMBERS_COUNT
           || attn_blocks_of(dtype) != ATTN_BLOCKS_COUNT;
}

bool attn_linear_turns_blocks(const struct attn_linear *linear)
{
    return linear->in_out && attn_blocks_of(linear->dtype) != ATTN_BLOCKS_COUNT;
}

void attn_linear_split(const struct attn_linear *joined, int64_t columns, struct attn_linear *left,
                       struct attn_linear *right)
{
    const int64_t stride = attn_linear_stride(joined);

    *left = *right = *joined;
    left->in = columns;
    left->stride = right->stride = stride;
    right->in = joined->in - columns;
    right->weight = attn_linear_at(joined, joined->in_out ? columns * stride : columns);
    right->bias = NULL;
}

struct attn_linear attn_linear_back(const struct attn_linear *linear)
{
    struct attn_linear back = *linear;

    back.bias = NULL;
    back.out = linear->in;
    back.in = linear->out;
    back.in_out = !linear->in_out;
    back.stride = attn_linear_stride(linear);
    return back;
}

/* ------------------------------------------------------ products of the caller's function -- */

size_t attn_kernels_given_bytes(void)
{
    return sizeof(struct attn_kernels);
}

const struct attn_kernels *attn_kernels_given(void *memory, const struct attn_kernels *kernels,
                                              const struct attn_multiplier *multiplier)
{
    struct attn_kernels *given = memory;

    *given = *kernels;
    given->multiplier = multiplier;
    return given;
}

static bool multiplier_takes_rows(const struct attn_kernels *kernels, enum attn_dtype weight,
                                  int64_t row_count)
{
    const struct attn_multiplier *multiplier = kernels->multiplier;

    return multiplier != NULL && multiplier->rows_min > 0 && weight == ATTN_F32
           && row_count >= multiplier->rows_min;
}

/* The rows of a product may belong to several calls, so they are first brought together in a panel,
 * as many inputs of them at a time as one chain of multiply-adds has. It is small beside the
 * parameters that it meets. */
enum { X_PANEL = ATTN_PROJECT_ROWS_MAX * ATTN_PROJECT_PART };
_Static_assert(X_PANEL + ATTN_PROJECT_ROWS_MAX * ATTN_PROJECT_OUTPUTS_MAX <= ATTN_PROJECT_WORK,
               "both panels lie in the work buffer of a product");

static void multiply_given(const struct attn_multiplier *multiplier,
                           const struct attn_linear *linear, const float *const *x, float *const *y,
                           const struct attn_linear_part *part, float *work)
{
    const int64_t stride = attn_linear_stride(linear);
    const size_t bytes = (size_t)part->output_count * sizeof(float);
    float *y_panel = work + X_PANEL;

    for (int64_t r = 0; r < part->row_count; r++)
        if (linear->bias != NULL)
            memcpy(y_panel + r * part->output_count, linear->bias + part->first_output, bytes);
        else
            memset(y_panel + r * part->output_count, 0, bytes);
    for (int64_t first = 0; first < linear->in; first += ATTN_PROJECT_PART) {
        const int64_t depth = attn_min(ATTN_PROJECT_PART, linear->in - first);
        const int64_t at = linear->in_out ? first * stride + part->first_output
                                          : part->first_output * stride + first;
        for (int64_t r = 0; r < part->row_count; r++)
            memcpy(work + r * depth, x[r] + first, (size_t)depth * sizeof(float));
        multiplier->multiply(&(struct attn_matmul){ .c = y_panel,
                                                    .a = work,
                                                    .b = attn_linear_at(linear, at),
                                                    .c_stride = part->output_count,
                                                    .a_stride = depth,
                                                    .b_stride = stride,
                                                    .rows = part->row_count,
                                                    .columns = part->output_count,
                                                    .depth = depth,
                                                    .b_transposed = !linear->in_out,
                                                    .adds = true });
    }
    for (int64_t r = 0; r < part->row_count; r++)
        memcpy(y[r], y_panel + r * part->output_count, bytes);
}

/* ------------------------------------------------------------- products of vectors -- */

static void multiply_vectors(const struct attn_kernels *kernels, const struct attn_linear *linear,
                             const float *const *x, float *const *y,
                             const struct attn_linear_part *part, float *work)
{
    const int64_t stride = attn_linear_stride(linear);
    const enum attn_numbers kind = attn_numbers_of(linear->dtype);
    const enum attn_blocks blocks = attn_blocks_of(linear->dtype);
    const bool is_given = multiplier_takes_rows(kernels, linear->dtype, part->row_count);
    float *to[ATTN_PROJECT_ROWS_MAX] = { NULL };

    for (int64_t done = 0; done < part->output_count; done += ATTN_PROJECT_OUTPUTS_MAX) {
        const int64_t first = part->first_output + done;
        const int64_t count = attn_min(part->output_count - done, ATTN_PROJECT_OUTPUTS_MAX);
        const void *weight = attn_linear_at(linear, first * (linear->in_out ? 1 : stride));
        const float *bias = linear->bias != NULL ? linear->bias + first : NULL;
        for (int64_t r = 0; r < part->row_count; r++)
            to[r] = y[r] + done;
        if (is_given)
            multiply_given(
                kernels->multiplier, linear, x, to,
                &(struct attn_linear_part){ part->first_row, part->row_count, first, count }, work);
        else if (blocks != ATTN_BLOCKS_COUNT)
            kernels->project_blocks[blocks](to, x, part->row_count, weight, stride, bias, count,
                                            linear->in, work);
        else
            (linear->in_out ? kernels->project_by_inputs[kind] : kernels->project_by_outputs[kind])(
                to, x, part->row_count, weight, stride, bias, count, linear->in, work);
    }
}

/* -------------------------------------------------------- products of a matrix unit -- */

/* For fewer parameters than these, tiles begin and end for too little. */
enum { PARAMETERS_MIN = 4096 };

static int64_t padded(int64_t count)
{
    return attn_divide_up(count, ATTN_MATRIX_COLUMNS) * ATTN_MATRIX_COLUMNS;
}

/* No more than a fifth is padding. */
static bool pays(const struct attn_linear *linear)
{
    const double parameters = (double)linear->in * (double)linear->out;

    return parameters >= PARAMETERS_MIN
           && (double)padded(linear->in) * (double)padded(linear->out) * 4 <= parameters * 5;
}

/* Whether rows in fixed point meet the weight, which is in blocks. */
static bool is_fixed(const struct attn_kernels *kernels, const struct attn_linear *linear)
{
    return kernels->fixed != NULL && attn_blocks_of(linear->dtype) != ATTN_BLOCKS_COUNT;
}

bool attn_linear_is_matrix(const struct attn_kernels *kernels, const struct attn_linear *linear)
{
    if (is_fixed(kernels, linear))
        return true;
    return kernels->matrix != NULL && kernels->matrix->project != NULL
           && (linear->dtype == ATTN_BF16 || linear->dtype == ATTN_F16)
           && (kernels->matrix->takes_small || pays(linear));
}

/* The rows of a part, without those of the bits in odd, or only those. */
static int64_t choose(const struct attn_linear_part *part, uint64_t odd, bool is_odd,
                      const float *const *x, float *const *y, const float **chosen_x,
                      float **chosen_y)
{
    int64_t count = 0;

    for (int64_t r = 0; r < part->row_count; r++)
        if ((odd >> r & 1) == (is_odd ? 1 : 0)) {
            chosen_x[count] = x[r];
            chosen_y[count++] = y[r];
        }
    return count;
}

/* For more rows than these, tiles take less time than vectors. */
enum { FIXED_ROWS_FEW = 8 };

static void multiply_fixed(const struct attn_linear_how *how, const struct attn_linear *linear,
                           const float *const *x, float *const *y,
                           const struct attn_linear_part *part, float *work)
{
    const struct attn_kernels *kernels = how->kernels;
    const int64_t stride = attn_linear_stride(linear);
    const struct attn_fixed_project project = {
        .y = y,
        .x = x,
        .row_count = part->row_count,
        .out = part->output_count,
        .in = linear->in,
        .weight = attn_linear_at(linear, part->first_output * stride),
        .weight_stride = stride,
        .bias = linear->bias != NULL ? linear->bias + part->first_output : NULL,
        .blocks = attn_blocks_of(linear->dtype),
        .digits = how->precision == ATTN_PRECISION_MEDIUM ? 2 : 3,
        .work = work,
    };

    if (part->row_count > FIXED_ROWS_FEW && kernels->matrix != NULL
        && kernels->matrix->multiply_fixed != NULL)
        kernels->matrix->multiply_fixed(kernels->fixed, &project);
    else
        kernels->fixed->project(&project);
}

static void multiply_parts(const struct attn_linear_how *how, const struct attn_linear *linear,
                           const float *const *x, float *const *y,
                           const struct attn_linear_part *part, float *work)
{
    const struct attn_matrix_kernels *kernels = how->kernels->matrix;
    const int64_t stride = attn_linear_stride(linear);
    const struct attn_matrix_products products =
        attn_products_of(attn_parts_of(kernels, linear->dtype, how->precision),
                         attn_parts_of(kernels, ATTN_F32, how->precision), how->precision);
    const size_t bytes = (size_t)part->output_count * sizeof(float);

    for (int64_t r = 0; r < part->row_count; r++)
        if (linear->bias != NULL)
            memcpy(y[r], linear->bias + part->first_output, bytes);
        else
            memset(y[r], 0, bytes);
    kernels->project(&(struct attn_matrix_project){
        .y = y,
        .x = x,
        .row_count = part->row_count,
        .out = part->output_count,
        .in = linear->in,
        .weight = attn_linear_at(linear, part->first_output * (linear->in_out ? 1 : stride)),
        .weight_stride = stride,
        .kind = attn_numbers_of(linear->dtype),
        .by_inputs = linear->in_out,
        .products = &products,
        .work = work,
    });
}

static void multiply_matrix(const struct attn_linear_how *how, const struct attn_linear *linear,
                            const float *const *x, float *const *y,
                            const struct attn_linear_part *part, float *work)
{
    const bool fixed = is_fixed(how->kernels, linear);
    const uint64_t odd = (fixed ? how->kernels->fixed->odd_rows
                                : how->kernels->matrix->odd_rows)(x, part->row_count, linear->in);
    const float *chosen_x[ATTN_PROJECT_ROWS_MAX] = { NULL };
    float *chosen_y[ATTN_PROJECT_ROWS_MAX] = { NULL };
    struct attn_linear_part chosen = *part;

    chosen.row_count = choose(part, odd, false, x, y, chosen_x, chosen_y);
    if (chosen.row_count > 0)
        (fixed ? multiply_fixed : multiply_parts)(how, linear, chosen_x, chosen_y, &chosen, work);
    chosen.row_count = choose(part, odd, true, x, y, chosen_x, chosen_y);
    if (chosen.row_count > 0)
        multiply_vectors(how->kernels, linear, chosen_x, chosen_y, &chosen, work);
}

/* Parameters of one task, at most; the smallest number of outputs worth a task; and the most of one
 * of few rows. */
enum { TASK_PARAMETERS = 1 << 20, TASK_OUTPUTS_MIN = 64, TASK_OUTPUTS = 256 };

/* A task of more rows than these on a matrix unit has MATRIX_TASK times as many parameters: each
 * task cuts its rows into parts, and multiplying is as many times as fast. */
enum { MATRIX_ROWS_FEW = 16, MATRIX_TASK = ATTN_LINEAR_OUTPUTS_MAX / TASK_OUTPUTS };

/* --------------------------------------------------------------------- one matrix -- */

/* Products of vectors take some outputs at a time, four to twelve by the table of kernels: a number
 * of outputs that all of these divide leaves none over, which would take twice as long each. */
enum { VECTOR_OUTPUTS = 48 };

/* Rows are turned for each task anew, which costs as much as twelve outputs of each, so tasks of
 * more than VECTOR_ROWS_FEW rows have many outputs; but so many tasks that a machine is busy come
 * first, as long as they have VECTOR_OUTPUTS_FEW. */
enum { VECTOR_ROWS_FEW = 16, VECTOR_TASKS = 16, VECTOR_OUTPUTS_FEW = 4 * VECTOR_OUTPUTS };

/* The first output of every block is aligned like the first output of all. */
static int64_t outputs_of_vectors(const struct attn_linear *linear, int64_t row_count)
{
    const int64_t least = attn_max(attn_min(TASK_PARAMETERS / linear->in, TASK_OUTPUTS)
                                       / VECTOR_OUTPUTS * VECTOR_OUTPUTS,
                                   VECTOR_OUTPUTS);

    if (row_count <= VECTOR_ROWS_FEW)
        return least;

    const int64_t blocks =
        attn_divide_up(VECTOR_TASKS, attn_divide_up(row_count, ATTN_PROJECT_ROWS_MAX));
    const int64_t wanted = attn_max(attn_divide_up(linear->out, blocks), VECTOR_OUTPUTS_FEW);
    const int64_t most = attn_max((int64_t)2 * TASK_PARAMETERS / linear->in, least);
    const int64_t outputs = attn_min(attn_min(wanted, most), ATTN_PROJECT_OUTPUTS_MAX);

    /* Blocks have about the same number of outputs, so that no thread waits for a longer one. */
    return attn_divide_up(attn_divide_up(linear->out, attn_divide_up(linear->out, outputs)),
                          VECTOR_OUTPUTS)
           * VECTOR_OUTPUTS;
}

static int64_t outputs_of(const struct attn_kernels *kernels, const struct attn_linear *linear,
                          int64_t row_count)
{
    if (linear->out > TASK_OUTPUTS && attn_blocks_of(linear->dtype) == ATTN_BLOCKS_COUNT
        && !attn_linear_is_matrix(kernels, linear))
        return outputs_of_vectors(linear, row_count);

    const bool is_large = row_count > MATRIX_ROWS_FEW && attn_linear_is_matrix(kernels, linear);
    const int64_t scale = is_large ? MATRIX_TASK : 1;
    const int64_t most = scale * TASK_PARAMETERS / linear->in / TASK_OUTPUTS_MIN * TASK_OUTPUTS_MIN;

    return attn_min(attn_max(most, TASK_OUTPUTS_MIN), scale * TASK_OUTPUTS);
}

struct attn_linear_blocks attn_linear_blocks(const struct attn_kernels *kernels,
                                             const struct attn_linear *linear, int64_t row_count)
{
    const int64_t outputs = outputs_of(kernels, linear, row_count);

    return (struct attn_linear_blocks){ attn_divide_up(row_count, ATTN_PROJECT_ROWS_MAX),
                                        attn_divide_up(linear->out, outputs), outputs };
}

struct attn_linear_part attn_linear_part(const struct attn_kernels *kernels,
                                         const struct attn_linear *linear, int64_t row_count,
                                         int64_t task)
{
    const struct attn_linear_blocks blocks = attn_linear_blocks(kernels, linear, row_count);
    const int64_t row = task % blocks.row_blocks * ATTN_PROJECT_ROWS_MAX;
    const int64_t output = task / blocks.row_blocks * blocks.outputs;

    return (struct attn_linear_part){ row, attn_min(ATTN_PROJECT_ROWS_MAX, row_count - row), output,
                                      attn_min(blocks.outputs, linear->out - output) };
}

void attn_linear_multiply(const struct attn_linear_how *how, const struct attn_linear *linear,
                          const float *const *x, float *const *y,
                          const struct attn_linear_part *part, float *work)
{
    if (attn_linear_is_matrix(how->kernels, linear))
        multiply_matrix(how, linear, x, y, part, work);
    else
        multiply_vectors(how->kernels, linear, x, y, part, work);
}

/* ------------------------------------------------------------------------ the checks -- */

struct linear_names {
    const char *weight, *dtype, *in, *out, *stride;
};

static enum attn_status check_linear(const struct attn_linear *linear,
                                     const struct linear_names *names, const char **where)
{
    RETURN_IF(linear->weight == NULL, ATTN_ERR_NO_DATA, names->weight);
    RETURN_IF(!attn_linear_takes(linear->dtype) || attn_linear_turns_blocks(linear), ATTN_ERR_DTYPE,
              names->dtype);
    RETURN_IF(linear->in % attn_block_numbers(linear->dtype) != 0, ATTN_ERR_SHAPE, names->in);
    RETURN_IF(linear->in < 1, ATTN_ERR_SHAPE, names->in);
    RETURN_IF(linear->in > INT32_MAX, ATTN_ERR_TOO_LARGE, names->in);
    RETURN_IF(linear->out < 1, ATTN_ERR_SHAPE, names->out);
    RETURN_IF(linear->out > INT32_MAX, ATTN_ERR_TOO_LARGE, names->out);
    RETURN_IF(linear->stride != 0 && linear->stride < (linear->in_out ? linear->out : linear->in),
              ATTN_ERR_STRIDE, names->stride);
    RETURN_IF(linear->stride % attn_block_numbers(linear->dtype) != 0, ATTN_ERR_STRIDE,
              names->stride);
    RETURN_IF(linear->stride > INT32_MAX, ATTN_ERR_TOO_LARGE, names->stride);
    return ATTN_OK;
}

static enum attn_status check_rows(int64_t row_count, int64_t stride, int64_t columns,
                                   const char *name, const char **where)
{
    int64_t bytes;

    RETURN_IF(stride < columns, ATTN_ERR_STRIDE, name);
    RETURN_IF(__builtin_mul_overflow(stride, (int64_t)sizeof(float), &bytes)
                  || __builtin_mul_overflow(bytes, row_count, &bytes),
              ATTN_ERR_TOO_LARGE, name);
    return ATTN_OK;
}

static bool is_xielu(const struct attn_xielu *xielu)
{
    return fabsf(xielu->positive) < INFINITY && fabsf(xielu->negative) < INFINITY
           && fabsf(xielu->beta) < INFINITY && xielu->eps > -INFINITY && xielu->eps < 0.0f;
}

enum attn_status attn_product_check(const struct attn_product *product, const char **where)
{
    static const struct linear_names LINEAR = { "linear.weight", "linear.dtype", "linear.in",
                                                "linear.out", "linear.stride" };
    static const struct linear_names GATE = { "gate.weight", "gate.dtype", "gate.in", "gate.out",
                                              "gate.stride" };
    const struct attn_linear *linear = product->linear, *gate = product->gate;

    RETURN_IF(product->kernels == NULL, ATTN_ERR_NO_DATA, "kernels");
    RETURN_IF(linear == NULL, ATTN_ERR_NO_DATA, "linear");
    RETURN_IF_FAILED(check_linear(linear, &LINEAR, where));
    if (gate != NULL) {
        RETURN_IF_FAILED(check_linear(gate, &GATE, where));
        RETURN_IF(gate->in != linear->in, ATTN_ERR_SHAPE, "gate.in");
        RETURN_IF(gate->out != linear->out, ATTN_ERR_SHAPE, "gate.out");
    }
    RETURN_IF((int)product->activation < 0 || product->activation >= ATTN_ACTIVATION_COUNT,
              ATTN_ERR_OPTION, "activation");
    RETURN_IF(product->activation == ATTN_XIELU && !is_xielu(&product->xielu), ATTN_ERR_OPTION,
              "xielu");
    RETURN_IF(!(product->gated_limit >= 0.0f && product->gated_limit < INFINITY), ATTN_ERR_OPTION,
              "gated_limit");
    RETURN_IF(!(fabsf(product->gated_offset) < INFINITY), ATTN_ERR_OPTION, "gated_offset");
    RETURN_IF(!(fabsf(product->gate_scale) < INFINITY), ATTN_ERR_OPTION, "gate_scale");
    RETURN_IF((unsigned)product->precision >= ATTN_PRECISION_COUNT, ATTN_ERR_OPTION, "precision");
    RETURN_IF(product->row_count < 0, ATTN_ERR_SHAPE, "row_count");
    RETURN_IF_FAILED(check_rows(product->row_count, product->x_stride, 1, "x_stride", where));
    return check_rows(product->row_count, product->y_stride, linear->out, "y_stride", where);
}

enum attn_precision attn_product_precision(const struct attn_product *product)
{
    const bool is_matrix =
        attn_linear_is_matrix(product->kernels, product->linear)
        || (product->gate != NULL && attn_linear_is_matrix(product->kernels, product->gate));

    return is_matrix ? product->precision : ATTN_PRECISION_HIGHEST;
}

/* ------------------------------------------------------------------------- the tasks -- */

int64_t attn_product_tasks(const struct attn_product *product)
{
    const struct attn_linear_blocks blocks =
        attn_linear_blocks(product->kernels, product->linear, product->row_count);

    return blocks.row_blocks * blocks.output_blocks;
}

size_t attn_product_workspace_bytes(const struct attn_product *product)
{
    const bool is_matrix = attn_linear_is_matrix(product->kernels, product->linear);
    const size_t outputs = is_matrix ? ATTN_LINEAR_OUTPUTS_MAX : ATTN_PROJECT_OUTPUTS_MAX;
    const size_t gate = product->gate != NULL ? ATTN_PROJECT_ROWS_MAX * outputs : 0;

    return (ATTN_PROJECT_WORK + gate) * sizeof(float);
}

static struct attn_linear_how how_of(const struct attn_product *product)
{
    return (struct attn_linear_how){ product->kernels, product->precision };
}

/* Limit the outputs of the gate, and limit and move what it multiplies. */
static void limit_gated(const struct attn_product *product, float *y, float *gate, int64_t count)
{
    const float limit = product->gated_limit > 0.0f ? product->gated_limit : INFINITY;

    for (int64_t i = 0; i < count; i++) {
        gate[i] = gate[i] > limit ? limit : gate[i];
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): each row of the part has its y */
        y[i] = (y[i] > limit ? limit : y[i] < -limit ? -limit : y[i]) + product->gated_offset;
    }
}

/* Compute the gate's outputs of the part and multiply y by them. */
static void apply_gate(const struct attn_product *product, const float *const *x, float *const *y,
                       const struct attn_linear_part *part, float *work)
{
    const struct attn_linear_how how = how_of(product);
    const bool is_limited = product->gated_limit > 0.0f || product->gated_offset != 0.0f;
    float *gate = work + ATTN_PROJECT_WORK;
    float *rows[ATTN_PROJECT_ROWS_MAX] = { NULL };

    for (int64_t r = 0; r < part->row_count; r++)
        rows[r] = gate + r * part->output_count;
    attn_linear_multiply(&how, product->gate, x, rows, part, work);
    if (product->gate_scale != 0.0f)
        attn_rows_cap(product->kernels, gate, part->row_count * part->output_count,
                      product->gate_scale, 0.0f);
    for (int64_t r = 0; is_limited && r < part->row_count; r++)
        limit_gated(product, y[r], rows[r], part->output_count);
    attn_activate(product->kernels, product->activation, &product->xielu, gate,
                  part->row_count * part->output_count);
    for (int64_t r = 0; r < part->row_count; r++)
        product->kernels->multiply_row(y[r], rows[r], part->output_count);
}

void attn_product_run(const struct attn_product *product, int64_t task, void *workspace)
{
    const struct attn_linear_how how = how_of(product);
    const struct attn_linear_part part =
        attn_linear_part(product->kernels, product->linear, product->row_count, task);
    const float *x[ATTN_PROJECT_ROWS_MAX] = { NULL };
    float *y[ATTN_PROJECT_ROWS_MAX] = { NULL };

    for (int64_t r = 0; r < part.row_count; r++) {
        x[r] = product->x + (part.first_row + r) * product->x_stride;
        y[r] = product->y + (part.first_row + r) * product->y_stride + part.first_output;
    }
    attn_linear_multiply(&how, product->linear, x, y, &part, workspace);
    if (product->gate != NULL)
        apply_gate(product, x, y, &part, workspace);
    for (int64_t r = 0; product->gate == NULL && r < part.row_count; r++)
        attn_activate(product->kernels, product->activation, &product->xielu, y[r],
                      part.output_count);
}
