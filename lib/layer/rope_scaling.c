/* rope_scaling.c - the frequency of each column pair.
 *
 * YaRN and Llama 3 both leave pairs that rotate often within the trained length as they are and
 * interpolate pairs that rotate seldom. They differ in the ramp between: YaRN's is linear in the
 * number of the pair, Llama's in the number of rotations. LongRoPE found a factor for each pair by
 * search. */
#include "rope.h"

#include "base/internal.h"

#include <math.h>

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

enum attn_status attn_rope_check(const struct attn_rope *rope, int64_t head_dim, const char **where)
{
    RETURN_IF(rope->dim < 0, ATTN_ERR_OPTION, "layer.rope.dim");
    RETURN_IF(rope->dim % 2 != 0, ATTN_ERR_OPTION, "layer.rope.dim");
    RETURN_IF(rope->dim > head_dim, ATTN_ERR_OPTION, "layer.rope.dim");
    if (rope->dim == 0)
        return ATTN_OK;
    RETURN_IF(!is_finite_above(rope->theta, 0.0), ATTN_ERR_OPTION, "layer.rope.theta");
    return check_scaling(rope, where);
}

/* ----------------------------------------------------------------------- the frequencies -- */

static double unscaled(const struct attn_rope *rope, double theta, int64_t pair)
{
    return pow(theta, -2.0 * (double)pair / (double)rope->dim);
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
