/* rope.h - rotary position embedding (Su et al. 2021, RoFormer).
 *
 * Column pair c of the first dim columns of a head is turned by the angle
 *
 *     position * frequency(c)          frequency(c) = theta^(-2c/dim), scaled or not
 *
 * so that the score of two rows depends on how far apart they stand. The scalings stretch the
 * positions that a model was trained for; their names and parameters are those of a published
 * checkpoint's rope_scaling (Hugging Face transformers, modeling_rope_utils.py), and
 * attn_rope_frequency() says which formula is whose.
 *
 * All arithmetic is double and a turned number is rounded once, at position 1 000 000 too.
 * Libraries whose frequencies are float32 are off by hundredths of a radian there. */
#ifndef ATTN_ROPE_H
#define ATTN_ROPE_H

#include "attn.h"

enum attn_rope_type {
    ATTN_ROPE_DEFAULT,  /* as in the paper */
    ATTN_ROPE_LINEAR,   /* position interpolation (Chen et al. 2023) */
    ATTN_ROPE_DYNAMIC,  /* dynamic NTK: theta grows with the length of the call (u/bloc97 and
                           u/emozilla 2023; Peng et al. 2023, appendix B.1) */
    ATTN_ROPE_YARN,     /* YaRN (Peng et al. 2023) */
    ATTN_ROPE_LLAMA3,   /* that of Llama 3.1 (Meta 2024, its reference implementation) */
    ATTN_ROPE_LONGROPE, /* LongRoPE (Ding et al. 2024), as Phi-3 has it */
};

/* Parameters that the type does not have are not looked at. */
struct attn_rope_scaling {
    enum attn_rope_type type;
    double factor; /* all but DEFAULT: how much longer sequences may be; 1 or more */
    double original_max_position_embeddings; /* DYNAMIC, YARN, LLAMA3, LONGROPE: the length trained
                                                for, 1 or more */

    /* LLAMA3: a pair that turns fewer than low_freq_factor times within the trained length is
     * interpolated, one that turns more than high_freq_factor times is left, in between a mean. */
    double low_freq_factor;  /* above 0 */
    double high_freq_factor; /* above low_freq_factor */

    /* YARN: the same with beta_slow and beta_fast turns, by a ramp over the pairs. */
    double beta_fast; /* 32 in the paper; beta_slow or more */
    double beta_slow; /* 1 in the paper; above 0 */
    bool truncate; /* the ends of the ramp are rounded outwards to whole pairs, as in the authors'
                      code */

    /* YARN, LONGROPE: turned columns are multiplied by it, which makes the softmax sharper. 0: of
     * YARN g(mscale) / g(mscale_all_dim) with g(m) = 0.1 m ln(factor) + 1, where both are given,
     * else g(1); of LONGROPE sqrt(1 + ln(factor) / ln(L)), L being the length trained for, which
     * is then above 1 unless factor is 1. */
    double attention_factor;       /* 0 or more */
    double mscale, mscale_all_dim; /* 0: not given; else above 0 */

    /* LONGROPE: what each pair's frequency is divided by in calls as long as trained for, and in
     * longer ones; [dim/2] each, borrowed, finite and above 0. */
    const double *short_factor, *long_factor;
};

/* A scaling of this type with what the papers recommend where they recommend it: low_freq_factor 1,
 * high_freq_factor 4, beta_fast 32, beta_slow 1, truncate; the rest 0. */
struct attn_rope_scaling attn_rope_scaling_default(enum attn_rope_type type);

struct attn_rope {
    int64_t dim;                      /* even, at most head_dim; 0: no rotary embedding */
    double theta;                     /* 10000 in the paper; above 0, with YARN above 1 */
    bool interleaved;                 /* pairs are (2c, 2c+1), else (c, c + dim/2) */
    struct attn_rope_scaling scaling; /* zeroed: none */
};

/* Every field in its range? *where names the one that is not as the plan of a layer does
 * ("layer.rope.scaling.factor", a constant string; where may be NULL). Nothing is asked of a rope
 * whose dim is 0. */
enum attn_status attn_rope_check(const struct attn_rope *rope, int64_t head_dim,
                                 const char **where);

/* Radians that column pair c turns from one position to the next, 0 <= pair < dim/2, of a rope that
 * attn_rope_check() has passed. sequence_length is looked at by DYNAMIC and LONGROPE.
 *
 *     f         = theta^(-2c/dim)
 *     LINEAR    f / factor                                        (Chen et al. 2023, equation 4)
 *     DYNAMIC   f with theta * (factor * n/L - (factor - 1))^(dim/(dim-2)) in place of theta, n
 *               being the greater of L and sequence_length
 *     YARN      (1 - r) f + r f / factor, r rising from 0 to 1 between the pairs that turn
 * beta_fast and beta_slow times in L positions                (Peng et al. 2023, section 3.2)
 *     LLAMA3    the same with r falling from 1 to 0 as the turns in L positions, L f / 2 pi, grow
 *               from low_freq_factor to high_freq_factor
 *     LONGROPE  f / long_factor[c] where sequence_length > L, else f / short_factor[c]
 *                                                             (Ding et al. 2024, equation 5)
 *
 * where L is original_max_position_embeddings. */
double attn_rope_frequency(const struct attn_rope *rope, int64_t pair, double sequence_length);

/* What turned columns are multiplied by: 1 but for YARN (Peng et al. 2023, section 3.4) and
 * LONGROPE. */
double attn_rope_attention_factor(const struct attn_rope *rope);

/* Rows of heads * head_dim columns, turned in place. Row i stands at position first_position + i;
 * columns of a head from rope->dim on stay. */
struct attn_rope_rows {
    float *data;
    int64_t row_stride, row_count, heads, head_dim;
    double first_position;  /* of either sign */
    double sequence_length; /* as in attn_rope_frequency() */
    bool transposed;        /* by the transposed matrix: what a gradient goes back through */
};

void attn_rope_rotate(const struct attn_rope *rope, const struct attn_rope_rows *rows);

/* The operator RotaryEmbedding of ONNX, opset 23, whose angles the caller has: cosines and sines of
 * [positions, dim/2], from which position_ids [batch, length] choose rows; where position_ids is
 * NULL, of [batch, length, dim/2]. */
struct attn_rotary_embedding {
    struct attn_tensor input;  /* F32 [batch, heads, length, head_dim]; 3-D: attn_tensor_rows() */
    struct attn_tensor output; /* F32, of input's shape and any strides; input itself, or memory
                                  that does not overlap it */
    const float *cos_cache;    /* dense, like the next two; they do not overlap output */
    const float *sin_cache;
    const int64_t *position_ids; /* each at least 0 and below position_count */
    int64_t position_count;      /* rows of a cache; not looked at where position_ids is NULL */
    int64_t dim; /* rotary_embedding_dim: even, at most head_dim; 0: head_dim, which is
                    then even. Columns from dim on are copied */
    bool interleaved;
};

/* Checks everything, then computes; on failure no output is touched, and *where names the field
 * ("position_ids"), a constant string. where may be NULL. A position out of range is
 * ATTN_ERR_LENGTH. */
enum attn_status attn_rotary_embedding(const struct attn_rotary_embedding *rotary,
                                       const char **where);

#endif
