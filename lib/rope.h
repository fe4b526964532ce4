/* SPDX-License-Identifier: Apache-2.0 */
/* rope.h - rotary position embedding (Su et al. 2021, RoFormer).
 *
 * Column pair c of the first dim columns of a head is rotated by the angle
 *
 *     position * frequency(c)          frequency(c) = theta^(-2c/dim), scaled or not
 *
 * so that the score of two rows depends on their distance. The scalings extend a model to positions
 * beyond those that it was trained for. Their names and parameters are those of rope_scaling in
 * published checkpoints (Hugging Face transformers, modeling_rope_utils.py); attn_rope_frequency()
 * gives each formula and its source.
 *
 * All arithmetic is in double and each rotated number is rounded once, also at position 1 000 000,
 * where libraries with float32 frequencies are off by hundredths of a radian. */
#ifndef ATTN_ROPE_H
#define ATTN_ROPE_H

#include "attn.h"

enum attn_rope_type {
    ATTN_ROPE_DEFAULT,  /* as in the paper */
    ATTN_ROPE_LINEAR,   /* position interpolation (Chen et al. 2023) */
    ATTN_ROPE_DYNAMIC,  /* dynamic NTK: theta grows with the length of the call (u/bloc97 and
                           u/emozilla 2023; Peng et al. 2023, appendix B.1) */
    ATTN_ROPE_YARN,     /* YaRN (Peng et al. 2023) */
    ATTN_ROPE_LLAMA3,   /* the scaling of Llama 3.1 (Meta 2024, its reference implementation) */
    ATTN_ROPE_LONGROPE, /* LongRoPE (Ding et al. 2024), as in Phi-3 */
};

/* Parameters that a type does not have are ignored. */
struct attn_rope_scaling {
    enum attn_rope_type type;
    double factor; /* all but DEFAULT: how many times longer sequences may be; 1 or more */
    double original_max_position_embeddings; /* DYNAMIC, YARN, LLAMA3, LONGROPE: the trained length,
                                                1 or more */

    /* LLAMA3: a pair that makes fewer than low_freq_factor rotations over the trained length is
     * interpolated, a pair that makes more than high_freq_factor is left as it is, and a pair
     * between them gets a weighted mean. */
    double low_freq_factor;  /* above 0 */
    double high_freq_factor; /* above low_freq_factor */

    /* YARN: the same with beta_slow and beta_fast rotations, by a linear ramp over the pairs. */
    double beta_fast; /* 32 in the paper; beta_slow or more */
    double beta_slow; /* 1 in the paper; above 0 */
    bool truncate; /* round the ends of the ramp outwards to whole pairs, as the authors' code does
                    */

    /* YARN, LONGROPE: rotated columns are multiplied by this factor, which makes the softmax
     * sharper. 0 chooses it. YARN: g(mscale) / g(mscale_all_dim) with g(m) = 0.1 m ln(factor) + 1
     * if both are given, else g(1). LONGROPE: sqrt(1 + ln(factor) / ln(L)) for the trained length
     * L, which must then be above 1 unless factor is 1. */
    double attention_factor;       /* 0 or more */
    double mscale, mscale_all_dim; /* 0: not given; else above 0 */

    /* LONGROPE: divisors of each pair's frequency, in calls up to the trained length and in longer
     * calls; [dim/2] each, borrowed, finite and above 0. */
    const double *short_factor, *long_factor;
};

/* A scaling of this type with the values that the papers recommend: low_freq_factor 1,
 * high_freq_factor 4, beta_fast 32, beta_slow 1, truncate. All other fields are 0. */
struct attn_rope_scaling attn_rope_scaling_default(enum attn_rope_type type);

/* Rows of a picture: from row first on, height * width patches, row by row (DINOv3, Simeoni et al.
 * 2025). Other rows are not rotated. The first half of the pairs turns by the patch's row, the
 * second half by its column, of which patch i of n is at 2 (i + 1/2) / n - 1: half c, of dim/4, by
 * 2 pi theta^(-4c/dim) times that. */
struct attn_rope_grid {
    int64_t first, height, width; /* height and width 0: no grid */
};

struct attn_rope {
    int64_t dim;      /* even, at most head_dim; 0: no rotary embedding */
    double theta;     /* 10000 in the paper; above 0, with YARN above 1 */
    bool interleaved; /* pairs are (2c, 2c+1), else (c, c + dim/2) */
    int64_t pairs;    /* the first so many pairs turn, at most dim/2; 0: all (Gemma 4's proportional
                         embedding) */
    struct attn_rope_scaling scaling; /* zeroed: no scaling */
    struct attn_rope_grid grid;       /* with a dim of 4n, and no scaling */

    /* A query at position p is multiplied by
     *
     *     1 + query_growth * ln(1 + floor((p + query_offset) / query_length))
     *
     * in all of its columns (Ministral 3; Llama 4, with a dim of 0). */
    double query_growth; /* 0 or more; 0: it is not */
    double query_length; /* 1 or more */
    double query_offset; /* 0 or more */
};

/* Check that every field is in its range. On failure *where names the field as the plan of a layer
 * does ("layer.rope.scaling.factor", a constant string); where may be NULL. Of a rope
 * whose dim is 0 only what queries are multiplied by is checked. */
enum attn_status attn_rope_check(const struct attn_rope *rope, int64_t head_dim,
                                 const char **where);

/* The radians that column pair c rotates from one position to the next, of a grid those for a
 * coordinate of 1, 0 <= pair < dim/2. The rope
 * must have passed attn_rope_check(). Only DYNAMIC and LONGROPE use sequence_length.
 *
 *     f         = theta^(-2c/dim)
 *     LINEAR    f / factor                                        (Chen et al. 2023, equation 4)
 *     DYNAMIC   f with theta * (factor * n/L - (factor - 1))^(dim/(dim-2)) in place of theta, where
 *               n = max(L, sequence_length)
 *     YARN      (1 - r) f + r f / factor, where r rises from 0 to 1 between the pairs that make
 *               beta_fast and beta_slow rotations in L positions  (Peng et al. 2023, section 3.2)
 *     LLAMA3    the same, where r falls from 1 to 0 as the rotations in L positions, L f / 2 pi,
 * grow from low_freq_factor to high_freq_factor LONGROPE  f / long_factor[c] if sequence_length >
 * L, else f / short_factor[c] (Ding et al. 2024, equation 5)
 *
 * L is original_max_position_embeddings. */
double attn_rope_frequency(const struct attn_rope *rope, int64_t pair, double sequence_length);

/* The factor of rotated columns: 1 except for YARN (Peng et al. 2023, section 3.4) and LONGROPE. */
double attn_rope_attention_factor(const struct attn_rope *rope);

/* Rows of heads * head_dim columns, to rotate in place. Row i is at position first_position + i.
 * Columns of a head from rope->dim on do not change. */
struct attn_rope_rows {
    float *data;
    int64_t row_stride, row_count, heads, head_dim;
    double first_position;  /* may be negative */
    double sequence_length; /* as in attn_rope_frequency() */
    bool transposed;        /* rotate by the transposed matrix, for gradients */
    bool are_queries;       /* multiply them by what query_growth says */
};

void attn_rope_rotate(const struct attn_rope *rope, const struct attn_rope_rows *rows);

/* The ONNX operator RotaryEmbedding, opset 23, with the caller's angles: cosines and sines are
 * [positions, dim/2] and position_ids [batch, length] selects their rows; if position_ids is NULL,
 * they are [batch, length, dim/2]. */
struct attn_rotary_embedding {
    struct attn_tensor input;  /* F32 [batch, heads, length, head_dim]; 3-D: attn_tensor_rows() */
    struct attn_tensor output; /* F32, of input's shape, any strides; input itself, or memory that
                                  does not overlap it */
    const float *cos_cache;    /* dense, like the next two; none overlaps output */
    const float *sin_cache;
    const int64_t *position_ids; /* each at least 0 and below position_count */
    int64_t position_count;      /* rows of a cache; ignored if position_ids is NULL */
    int64_t dim; /* rotary_embedding_dim: even, at most head_dim; 0: head_dim, which must then be
                    even. Columns from dim on are copied */
    bool interleaved;
};

/* Check everything, then compute. On failure no output is written and *where names the field
 * ("position_ids"), a constant string; where may be NULL. A position out of range is
 * ATTN_ERR_LENGTH. */
enum attn_status attn_rotary_embedding(const struct attn_rotary_embedding *rotary,
                                       const char **where);

#endif
