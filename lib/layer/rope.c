/* SPDX-License-Identifier: Apache-2.0 */
/* rope.c - the frequency of each column pair; rotating rows by positions, as a layer does, or by a
 * caller's cosines and sines, as ONNX does.
 *
 * YaRN and Llama 3 both leave pairs that rotate often within the trained length as they are and
 * interpolate pairs that rotate seldom. They differ in the ramp between: YaRN's is linear in the
 * number of the pair, Llama's in the number of rotations. LongRoPE found a factor for each pair by
 * search.
 *
 * Angles are computed in double: at position 100 000 a float angle would already be off by
 * hundredths of a turn. Sums are in double too, so that each rotated number is rounded once. All
 * heads of a row rotate by the same angles, so these are computed once for each row, several pairs
 * at a time. */
#include "rope.h"

#include "base/internal.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------- frequencies -- */

static const double TWO_PI = 6.283185307179586476925286766559;

struct attn_rope_scaling attn_rope_scaling_default(enum attn_rope_type type)
{
    return (struct attn_rope_scaling){
        .type = type,
        .low_freq_factor = 1.0,
        .high_freq_factor = 4.0,
        .beta_fast = 32.0,
        .beta_slow = 1.0,
        .truncate = true,
    };
}

/* -------------------------------------------------------------------------- the checks -- */

/* Written so that NaN is out of range. */
static bool is_finite_from(double number, double least)
{
    return isfinite(number) && number >= least;
}

static bool is_finite_above(double number, double bound)
{
    return isfinite(number) && number > bound;
}

static enum attn_status check_llama3(const struct attn_rope_scaling *scaling, const char **where)
{
    RETURN_IF(!is_finite_above(scaling->low_freq_factor, 0.0), ATTN_ERR_OPTION,
              "layer.rope.scaling.low_freq_factor");
    RETURN_IF(!is_finite_above(scaling->high_freq_factor, scaling->low_freq_factor),
              ATTN_ERR_OPTION, "layer.rope.scaling.high_freq_factor");
    return ATTN_OK;
}

static enum attn_status check_yarn(const struct attn_rope *rope, const char **where)
{
    const struct attn_rope_scaling *scaling = &rope->scaling;

    RETURN_IF(rope->theta <= 1.0, ATTN_ERR_OPTION, "layer.rope.theta");
    RETURN_IF(!is_finite_above(scaling->beta_slow, 0.0), ATTN_ERR_OPTION,
              "layer.rope.scaling.beta_slow");
    RETURN_IF(!is_finite_from(scaling->beta_fast, scaling->beta_slow), ATTN_ERR_OPTION,
              "layer.rope.scaling.beta_fast");
    RETURN_IF(!is_finite_from(scaling->attention_factor, 0.0), ATTN_ERR_OPTION,
              "layer.rope.scaling.attention_factor");
    RETURN_IF(!is_finite_from(scaling->mscale, 0.0), ATTN_ERR_OPTION, "layer.rope.scaling.mscale");
    RETURN_IF(!is_finite_from(scaling->mscale_all_dim, 0.0), ATTN_ERR_OPTION,
              "layer.rope.scaling.mscale_all_dim");
    return ATTN_OK;
}

static enum attn_status check_longrope(const struct attn_rope *rope, const char **where)
{
    const struct attn_rope_scaling *scaling = &rope->scaling;

    RETURN_IF(!is_finite_from(scaling->attention_factor, 0.0), ATTN_ERR_OPTION,
              "layer.rope.scaling.attention_factor");
    RETURN_IF(scaling->attention_factor <= 0.0 && scaling->factor > 1.0
                  && scaling->original_max_position_embeddings <= 1.0,
              ATTN_ERR_OPTION, "layer.rope.scaling.original_max_position_embeddings");
    RETURN_IF(scaling->short_factor == NULL, ATTN_ERR_NO_DATA, "layer.rope.scaling.short_factor");
    RETURN_IF(scaling->long_factor == NULL, ATTN_ERR_NO_DATA, "layer.rope.scaling.long_factor");
    for (int64_t c = 0; c < rope->dim / 2; c++) {
        RETURN_IF(!is_finite_above(scaling->short_factor[c], 0.0), ATTN_ERR_OPTION,
                  "layer.rope.scaling.short_factor");
        RETURN_IF(!is_finite_above(scaling->long_factor[c], 0.0), ATTN_ERR_OPTION,
                  "layer.rope.scaling.long_factor");
    }
    return ATTN_OK;
}

static enum attn_status check_scaling(const struct attn_rope *rope, const char **where)
{
    const struct attn_rope_scaling *scaling = &rope->scaling;

    if (scaling->type == ATTN_ROPE_DEFAULT)
        return ATTN_OK;
    RETURN_IF(!is_finite_from(scaling->factor, 1.0), ATTN_ERR_OPTION, "layer.rope.scaling.factor");
    RETURN_IF(scaling->type != ATTN_ROPE_LINEAR
                  && !is_finite_from(scaling->original_max_position_embeddings, 1.0),
              ATTN_ERR_OPTION, "layer.rope.scaling.original_max_position_embeddings");
    switch (scaling->type) {
    case ATTN_ROPE_DEFAULT:
    case ATTN_ROPE_LINEAR:
    case ATTN_ROPE_DYNAMIC:
        return ATTN_OK;
    case ATTN_ROPE_YARN:
        return check_yarn(rope, where);
    case ATTN_ROPE_LLAMA3:
        return check_llama3(scaling, where);
    case ATTN_ROPE_LONGROPE:
        return check_longrope(rope, where);
    }
    RETURN_IF(true, ATTN_ERR_OPTION, "layer.rope.scaling.type");
}

static bool has_grid(const struct attn_rope *rope)
{
    return rope->grid.height > 0;
}

static enum attn_status check_grid(const struct attn_rope *rope, const char **where)
{
    const struct attn_rope_grid *grid = &rope->grid;

    RETURN_IF(grid->height < 0 || grid->height > INT32_MAX, ATTN_ERR_OPTION,
              "layer.rope.grid.height");
    RETURN_IF(grid->width < 0 || grid->width > INT32_MAX || (grid->width > 0) != has_grid(rope),
              ATTN_ERR_OPTION, "layer.rope.grid.width");
    RETURN_IF(grid->first < 0 || grid->first > INT32_MAX, ATTN_ERR_OPTION, "layer.rope.grid.first");
    RETURN_IF(has_grid(rope) && rope->dim % 4 != 0, ATTN_ERR_OPTION, "layer.rope.dim");
    RETURN_IF(has_grid(rope) && rope->scaling.type != ATTN_ROPE_DEFAULT, ATTN_ERR_OPTION,
              "layer.rope.scaling.type");
    return ATTN_OK;
}

enum attn_status attn_rope_check(const struct attn_rope *rope, int64_t head_dim, const char **where)
{
    RETURN_IF(rope->dim < 0, ATTN_ERR_OPTION, "layer.rope.dim");
    RETURN_IF(rope->dim % 2 != 0, ATTN_ERR_OPTION, "layer.rope.dim");
    RETURN_IF(rope->dim > head_dim, ATTN_ERR_OPTION, "layer.rope.dim");
    RETURN_IF(!is_finite_from(rope->query_growth, 0.0), ATTN_ERR_OPTION, "layer.rope.query_growth");
    RETURN_IF(rope->query_growth > 0.0 && !is_finite_from(rope->query_length, 1.0), ATTN_ERR_OPTION,
              "layer.rope.query_length");
    RETURN_IF(!is_finite_from(rope->query_offset, 0.0), ATTN_ERR_OPTION, "layer.rope.query_offset");
    if (rope->dim == 0)
        return ATTN_OK;
    RETURN_IF(!is_finite_above(rope->theta, 0.0), ATTN_ERR_OPTION, "layer.rope.theta");
    RETURN_IF(rope->pairs < 0 || rope->pairs > rope->dim / 2, ATTN_ERR_OPTION, "layer.rope.pairs");
    RETURN_IF_FAILED(check_grid(rope, where));
    return check_scaling(rope, where);
}

/* ----------------------------------------------------------------------- the frequencies -- */

static double unscaled(const struct attn_rope *rope, double theta, int64_t pair)
{
    return pow(theta, -2.0 * (double)pair / (double)rope->dim);
}

/* What a pair turns by at a position, in steps of its frequency: the position, or of a grid the
 * patch's row or column. */
static double place_of(const struct attn_rope *rope, int64_t pair, double position)
{
    const struct attn_rope_grid *grid = &rope->grid;
    const double patch = position - (double)grid->first;
    const double width = (double)grid->width, height = (double)grid->height;

    if (!has_grid(rope))
        return position;
    if (patch < 0.0 || patch >= height * width)
        return 0.0;
    const double down = floor(patch / width), across = patch - down * width;
    return pair < rope->dim / 4 ? (2.0 * down + 1.0) / height - 1.0
                                : (2.0 * across + 1.0) / width - 1.0;
}

static double dynamic(const struct attn_rope *rope, int64_t pair, double sequence_length)
{
    const struct attn_rope_scaling *scaling = &rope->scaling;
    const double dim = (double)rope->dim;
    const double longer = fmax(1.0, sequence_length / scaling->original_max_position_embeddings);

    /* Pair 0 rotates by 1 for every theta, and is the only pair if dim is 2. */
    if (pair == 0)
        return 1.0;
    return unscaled(
        rope,
        rope->theta * pow(scaling->factor * longer - (scaling->factor - 1.0), dim / (dim - 2.0)),
        pair);
}

/* The pair, as a real number, that makes this many rotations in the trained length. */
static double pair_of_turns(const struct attn_rope *rope, double turns)
{
    const double length = rope->scaling.original_max_position_embeddings;

    return (double)rope->dim * log(length / (turns * TWO_PI)) / (2.0 * log(rope->theta));
}

/* 0: the pair is left as it is, 1: it is interpolated. */
static double yarn_ramp(const struct attn_rope *rope, int64_t pair)
{
    double first = pair_of_turns(rope, rope->scaling.beta_fast);
    double last = pair_of_turns(rope, rope->scaling.beta_slow);

    if (rope->scaling.truncate) {
        first = floor(first);
        last = ceil(last);
    }
    first = fmax(first, 0.0);
    last = fmin(last, (double)rope->dim - 1.0);
    if (first == last)
        last += 0.001; /* a step, as in the authors' code */
    return fmin(fmax(((double)pair - first) / (last - first), 0.0), 1.0);
}

static double llama3_ramp(const struct attn_rope *rope, double frequency)
{
    const struct attn_rope_scaling *scaling = &rope->scaling;
    const double turns = scaling->original_max_position_embeddings * frequency / TWO_PI;
    const double smooth =
        (turns - scaling->low_freq_factor) / (scaling->high_freq_factor - scaling->low_freq_factor);

    return 1.0 - fmin(fmax(smooth, 0.0), 1.0);
}

/* The divisor of a pair's frequency. */
static double longrope_divisor(const struct attn_rope_scaling *scaling, int64_t pair,
                               double sequence_length)
{
    const bool is_long = sequence_length > scaling->original_max_position_embeddings;

    return is_long ? scaling->long_factor[pair] : scaling->short_factor[pair];
}

double attn_rope_frequency(const struct attn_rope *rope, int64_t pair, double sequence_length)
{
    const double frequency = unscaled(rope, rope->theta, pair);
    const double interpolated = frequency / rope->scaling.factor;
    double ramp = 0.0;

    if (rope->pairs > 0 && pair >= rope->pairs)
        return 0.0;
    if (has_grid(rope))
        return TWO_PI * unscaled(rope, rope->theta, 2 * (pair % (rope->dim / 4)));
    switch (rope->scaling.type) {
    case ATTN_ROPE_DEFAULT:
        return frequency;
    case ATTN_ROPE_LINEAR:
        return interpolated;
    case ATTN_ROPE_DYNAMIC:
        return dynamic(rope, pair, sequence_length);
    case ATTN_ROPE_LONGROPE:
        return frequency / longrope_divisor(&rope->scaling, pair, sequence_length);
    case ATTN_ROPE_YARN:
        ramp = yarn_ramp(rope, pair);
        break;
    case ATTN_ROPE_LLAMA3:
        ramp = llama3_ramp(rope, frequency);
        break;
    }
    return (1.0 - ramp) * frequency + ramp * interpolated;
}

double attn_rope_attention_factor(const struct attn_rope *rope)
{
    const struct attn_rope_scaling *scaling = &rope->scaling;

    if (scaling->type != ATTN_ROPE_YARN && scaling->type != ATTN_ROPE_LONGROPE)
        return 1.0;
    if (scaling->attention_factor > 0.0)
        return scaling->attention_factor;
    if (scaling->type == ATTN_ROPE_LONGROPE)
        return scaling->factor > 1.0 ? sqrt(
                   1.0 + log(scaling->factor) / log(scaling->original_max_position_embeddings))
                                     : 1.0;
    const double tenth = 0.1 * log(scaling->factor);
    if (scaling->mscale > 0.0 && scaling->mscale_all_dim > 0.0)
        return (tenth * scaling->mscale + 1.0) / (tenth * scaling->mscale_all_dim + 1.0);
    return tenth + 1.0;
}

/* --------------------------------------------------------------------------------- rotations -- */

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

/* What query_growth multiplies a row by. */
static double growth_of(const struct attn_rope *rope, const struct attn_rope_rows *rows, int64_t i)
{
    const double position = rows->first_position + rope->query_offset + (double)i;

    if (!rows->are_queries || rope->query_growth <= 0.0 || position < rope->query_length)
        return 1.0;
    return 1.0 + rope->query_growth * log(1.0 + floor(position / rope->query_length));
}

/* The columns that are not rotated. */
static void grow_rest(const struct attn_rope *rope, const struct attn_rope_rows *rows)
{
    for (int64_t i = 0; i < rows->row_count && rope->dim < rows->head_dim; i++) {
        const double growth = growth_of(rope, rows, i);
        for (int64_t h = 0; growth > 1.0 && h < rows->heads; h++) {
            float *head = rows->data + i * rows->row_stride + h * rows->head_dim;
            for (int64_t c = rope->dim; c < rows->head_dim; c++)
                head[c] = (float)(growth * (double)head[c]);
        }
    }
}

/* Pairs whose cosines and sines are computed together. */
enum { TURN_PAIRS = 64, TURN_LANES = 2 };

typedef double turn_vec __attribute__((vector_size(TURN_LANES * sizeof(double))));
typedef int64_t turn_bits __attribute__((vector_size(TURN_LANES * sizeof(int64_t))));
typedef float turn_floats __attribute__((vector_size(TURN_LANES * sizeof(float))));

/* Beyond this many radians, quarters of a turn are no longer subtracted exactly. */
static const double TURN_MOST = 1e6;

static turn_vec turn_select(turn_bits mask, turn_vec yes, turn_vec no)
{
    return (turn_vec)((mask & (turn_bits)yes) | (~mask & (turn_bits)no));
}

/* Cosine and sine of angles of at most TURN_MOST, within 2e-16. Quarter turns are subtracted in
 * three parts, of which the products with their number, of 20 bits, are exact for the first two;
 * the rest, at most an eighth of a turn, goes to the polynomials of fdlibm (k_sin.c, k_cos.c). */
static void turn(const double *angles, double *cosines, double *sines)
{
    const double to_integer = 0x1.8p52;
    turn_vec angle, cosine, sine;

    memcpy(&angle, angles, sizeof angle);
    const turn_vec shifted = angle * 6.36619772367581382433e-01 + to_integer;
    const turn_vec quarters = shifted - to_integer;
    const turn_bits quarter = (turn_bits)shifted;
    const turn_vec r =
        ((angle - quarters * 1.57079632673412561417e+00) - quarters * 6.07710050630396597660e-11)
        - quarters * 2.02226624879595063154e-21;
    const turn_vec z = r * r;
    turn_vec s = z * 1.58969099521155010221e-10 - 2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z - 1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    s = s * z - 1.66666666666666324348e-01;
    s = r + r * (z * s);
    turn_vec c = 2.08757232129817482790e-09 - z * 1.13596475577881948265e-11;
    c = c * z - 2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z - 1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    c = 1.0 - (0.5 * z - z * z * c);
    const turn_bits swaps = -(quarter & 1);
    cosine = turn_select(swaps, s, c);
    sine = turn_select(swaps, c, s);
    cosine = (turn_vec)((turn_bits)cosine ^ ((quarter + 1) & 2) << 62);
    sine = (turn_vec)((turn_bits)sine ^ (quarter & 2) << 62);
    memcpy(cosines, &cosine, sizeof cosine);
    memcpy(sines, &sine, sizeof sine);
}

static void turn_all(const double *angles, int64_t count, double *cosines, double *sines)
{
    for (int64_t c = 0; c < count; c += TURN_LANES) {
        bool is_far = false;
        turn(angles + c, cosines + c, sines + c);
        for (int64_t k = c; k < c + TURN_LANES; k++)
            is_far = is_far || fabs(angles[k]) > TURN_MOST;
        for (int64_t k = c; is_far && k < c + TURN_LANES; k++) {
            cosines[k] = cos(angles[k]);
            sines[k] = sin(angles[k]);
        }
    }
}

/* Rotate count pairs of a head that lie side by side. */
static void rotate_side(float *first, float *second, int64_t count, const double *cosines,
                        const double *sines)
{
    int64_t c = 0;

    for (; c + TURN_LANES <= count; c += TURN_LANES) {
        turn_floats low, high;
        turn_vec cosine, sine;
        memcpy(&low, first + c, sizeof low);
        memcpy(&high, second + c, sizeof high);
        memcpy(&cosine, cosines + c, sizeof cosine);
        memcpy(&sine, sines + c, sizeof sine);
        const turn_vec a = __builtin_convertvector(low, turn_vec);
        const turn_vec b = __builtin_convertvector(high, turn_vec);
        low = __builtin_convertvector(a * cosine - b * sine, turn_floats);
        high = __builtin_convertvector(a * sine + b * cosine, turn_floats);
        memcpy(first + c, &low, sizeof low);
        memcpy(second + c, &high, sizeof high);
    }
    for (; c < count; c++)
        rotate_pair(first + c, 0, first + c, 0, 1, second - first, cosines[c], sines[c]);
}

/* Rotate the pairs from first on, at most TURN_PAIRS, of one row. */
static void rotate_pairs(const struct attn_rope *rope, const struct attn_rope_rows *rows,
                         int64_t row, int64_t first, int64_t count, const double *frequencies)
{
    const struct pairing pairs = pair_up(rope->dim, rope->interleaved);
    const double factor = attn_rope_attention_factor(rope) * growth_of(rope, rows, row);
    double angles[TURN_PAIRS] = { 0 }, cosines[TURN_PAIRS], sines[TURN_PAIRS];

    for (int64_t c = 0; c < count; c++)
        angles[c] = place_of(rope, first + c, rows->first_position + (double)row) * frequencies[c];
    turn_all(angles, count, cosines, sines);
    for (int64_t c = 0; c < count; c++) {
        cosines[c] *= factor;
        sines[c] *= rows->transposed ? -factor : factor;
    }
    float *head = rows->data + row * rows->row_stride + first * pairs.step;
    for (int64_t h = 0; !rope->interleaved && h < rows->heads; h++, head += rows->head_dim)
        rotate_side(head, head + pairs.apart, count, cosines, sines);
    for (int64_t c = 0; rope->interleaved && c < count; c++)
        rotate_pair(head + c * pairs.step, rows->head_dim, head + c * pairs.step, rows->head_dim,
                    rows->heads, pairs.apart, cosines[c], sines[c]);
}

void attn_rope_rotate(const struct attn_rope *rope, const struct attn_rope_rows *rows)
{
    const int64_t pairs = rope->dim / 2;
    double frequencies[TURN_PAIRS];

    for (int64_t first = 0; first < pairs; first += TURN_PAIRS) {
        const int64_t count = attn_min(TURN_PAIRS, pairs - first);
        for (int64_t c = 0; c < count; c++)
            frequencies[c] = attn_rope_frequency(rope, first + c, rows->sequence_length);
        for (int64_t i = 0; i < rows->row_count; i++)
            rotate_pairs(rope, rows, i, first, count, frequencies);
    }
    grow_rest(rope, rows);
}

/* ------------------------------------------------------------------ by a caller's angles -- */

static const struct attn_tensor_names INPUT = ATTN_TENSOR_NAMES("input");
static const struct attn_tensor_names OUTPUT = ATTN_TENSOR_NAMES("output");

static enum attn_status rotary_check(const struct attn_rotary_embedding *rotary, int64_t dim,
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

    RETURN_IF_FAILED(rotary_check(rotary, dim, where));
    for (int64_t b = 0; b < rotary->input.shape[0]; b++)
        for (int64_t i = 0; i < rotary->input.shape[2]; i++)
            rotate_row(rotary, &pairs, b, i);
    return ATTN_OK;
}
