/* product_matrix.c - products with parameters of 16 bits on a matrix unit.
 *
 * Which products these are follows from the parameters alone, not from the number of rows: rows of
 * several calls share a product, and a call of one row continues one of many. One row takes as many
 * tiles as sixteen; it waits for memory, which brings parameters more slowly than tiles use them.
 *
 * A row whose numbers do not fit in parts goes through the vectors of the table, by itself. */
#include "base/convert.h"
#include "rows/linear_internal.h"

#include <string.h>

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

bool attn_linear_is_matrix(const struct attn_kernels *kernels, const struct attn_linear *linear)
{
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

static void multiply_even(const struct attn_linear_how *how, const struct attn_linear *linear,
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

void attn_linear_multiply_matrix(const struct attn_linear_how *how,
                                 const struct attn_linear *linear, const float *const *x,
                                 float *const *y, const struct attn_linear_part *part, float *work)
{
    const uint64_t odd = how->kernels->matrix->odd_rows(x, part->row_count, linear->in);
    const float *chosen_x[ATTN_PROJECT_ROWS_MAX] = { NULL };
    float *chosen_y[ATTN_PROJECT_ROWS_MAX] = { NULL };
    struct attn_linear_part chosen = *part;

    chosen.row_count = choose(part, odd, false, x, y, chosen_x, chosen_y);
    if (chosen.row_count > 0)
        multiply_even(how, linear, chosen_x, chosen_y, &chosen, work);
    chosen.row_count = choose(part, odd, true, x, y, chosen_x, chosen_y);
    if (chosen.row_count > 0)
        attn_linear_multiply_vectors(how->kernels, linear, chosen_x, chosen_y, &chosen, work);
}
