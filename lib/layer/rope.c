/* rope.c - rotate rows: by positions, as a layer does, or by a caller's cosines and sines, as ONNX
 * does.
 *
 * Angles are computed in double: at position 100 000 a float angle would already be off by
 * hundredths of a turn. Sums are in double too, so that each rotated number is rounded once. All
 * heads of a row rotate by the same angles, so these are computed once for each row. */
#include "rope.h"

#include "base/internal.h"

#include <math.h>
#include <string.h>

/* The layout of pairs in a head: pair c is columns c * step and c * step + apart. */
struct pairing {
    int64_t count, step, apart;
};

static struct pairing pair_up(int64_t dim, bool interleaved)
{
    return (struct pairing){
        .count = dim / 2,
        .step = interleaved ? 2 : 1,
        .apart = interleaved ? 1 : dim / 2,
    };
}

/* Rotate one pair of every head of a row; strides are from head to head. */
static void rotate_pair(const float *from, int64_t from_stride, float *to, int64_t to_stride,
                        int64_t heads, int64_t apart, double cosine, double sine)
{
    for (int64_t h = 0; h < heads; h++) {
        const double a = (double)from[h * from_stride];
        const double b = (double)from[h * from_stride + apart];
        to[h * to_stride] = (float)(a * cosine - b * sine);
        to[h * to_stride + apart] = (float)(a * sine + b * cosine);
    }
}

void attn_rope_rotate(const struct attn_rope *rope, const struct attn_rope_rows *rows)
{
    const struct pairing pairs = pair_up(rope->dim, rope->interleaved);
    const double factor = attn_rope_attention_factor(rope);

    for (int64_t c = 0; c < pairs.count; c++) {
        const double frequency = attn_rope_frequency(rope, c, rows->sequence_length);
        for (int64_t i = 0; i < rows->row_count; i++) {
            const double angle = (rows->first_position + (double)i) * frequency;
            const double sine = rows->transposed ? -sin(angle) : sin(angle);
            float *pair = rows->data + i * rows->row_stride + c * pairs.step;
            rotate_pair(pair, rows->head_dim, pair, rows->head_dim, rows->heads, pairs.apart,
                        factor * cos(angle), factor * sine);
        }
    }
}

/* ------------------------------------------------------------------ by a caller's angles -- */

static const struct attn_tensor_names INPUT = ATTN_TENSOR_NAMES("input");
static const struct attn_tensor_names OUTPUT = ATTN_TENSOR_NAMES("output");

static enum attn_status check(const struct attn_rotary_embedding *rotary, int64_t dim,
                              const char **where)
{
    const int64_t *shape = rotary->input.shape;
    int64_t rows;

    RETURN_IF_FAILED(attn_check_input(&rotary->input, &INPUT, where));
    RETURN_IF(rotary->input.dtype != ATTN_F32, ATTN_ERR_DTYPE, INPUT.dtype);
    RETURN_IF(rotary->output.data == NULL, ATTN_ERR_NO_DATA, OUTPUT.data);
    RETURN_IF(rotary->output.dtype != ATTN_F32, ATTN_ERR_DTYPE, OUTPUT.dtype);
    RETURN_IF_FAILED(attn_check_output(&rotary->output, &OUTPUT, shape, where));
    RETURN_IF(dim < 0 || dim % 2 != 0 || dim > shape[3], ATTN_ERR_OPTION, "dim");
    RETURN_IF(rotary->cos_cache == NULL, ATTN_ERR_NO_DATA, "cos_cache");
    RETURN_IF(rotary->sin_cache == NULL, ATTN_ERR_NO_DATA, "sin_cache");
    RETURN_IF(__builtin_mul_overflow(shape[0], shape[2], &rows), ATTN_ERR_TOO_LARGE, INPUT.self);
    for (int64_t i = 0; rotary->position_ids != NULL && i < rows; i++)
        RETURN_IF(rotary->position_ids[i] < 0 || rotary->position_ids[i] >= rotary->position_count,
                  ATTN_ERR_LENGTH, "position_ids");
    return ATTN_OK;
}

/* Rotate every head of row i of a batch item. */
static void rotate_row(const struct attn_rotary_embedding *rotary, const struct pairing *pairs,
                       int64_t batch, int64_t i)
{
    const struct attn_tensor *input = &rotary->input, *output = &rotary->output;
    const int64_t row = batch * input->shape[2] + i;
    const int64_t angles =
        pairs->count * (rotary->position_ids != NULL ? rotary->position_ids[row] : row);
    const float *from = attn_tensor_row(input, batch, 0, i);
    float *to = attn_tensor_row(output, batch, 0, i);
    const int64_t rest = input->shape[3] - 2 * pairs->count;

    for (int64_t c = 0; c < pairs->count; c++)
        rotate_pair(from + c * pairs->step, input->stride[1], to + c * pairs->step,
                    output->stride[1], input->shape[1], pairs->apart,
                    (double)rotary->cos_cache[angles + c], (double)rotary->sin_cache[angles + c]);
    for (int64_t h = 0; rest > 0 && h < input->shape[1]; h++)
        memmove(to + h * output->stride[1] + 2 * pairs->count,
                from + h * input->stride[1] + 2 * pairs->count, (size_t)rest * sizeof(float));
}

enum attn_status attn_rotary_embedding(const struct attn_rotary_embedding *rotary,
                                       const char **where)
{
    const int64_t dim = rotary->dim != 0 ? rotary->dim : rotary->input.shape[3];
    const struct pairing pairs = pair_up(dim, rotary->interleaved);

    RETURN_IF_FAILED(check(rotary, dim, where));
    for (int64_t b = 0; b < rotary->input.shape[0]; b++)
        for (int64_t i = 0; i < rotary->input.shape[2]; i++)
            rotate_row(rotary, &pairs, b, i);
    return ATTN_OK;
}
