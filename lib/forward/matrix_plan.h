/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_plan.h - plans whose products are made by a matrix unit (kernels/matrix.h).
 *
 * It computes context and lse. Maps, and what is made of maps, come from the float kernels, in a
 * pass of their own: so every piece of a map has the bits of the whole. */
#ifndef ATTN_FORWARD_MATRIX_H
#define ATTN_FORWARD_MATRIX_H

#include "base/internal.h"

#include "kernels/matrix.h"

/* How a plan uses the matrix unit. */
struct attn_matrix {
    struct attn_matrix_products score, context;
    int weight_parts;

    /* Queries are multiplied by query_factor before they are cut: a power of 2, so that numbers of
     * every dtype have the parts that they have as F32. Scores are multiplied by score_factor after
     * the products. Then a score of 1 is natural in the formula, and to_power as a power of 2. */
    float query_factor, score_factor, to_power;
    double natural;

    int64_t key_blocks, value_blocks; /* of ATTN_MATRIX_COLUMNS */
    int64_t chunks;                   /* of the keys of one head */
    size_t chunk_bytes;
};

/* A step of keys and values that are cut into parts. */
struct attn_matrix_marks {
    uint32_t odd_keys; /* a bit for each key whose products say nothing */
    uint32_t has_odd_values;
};

/* The keys and values of one chunk, cut into parts. */
struct attn_matrix_chunk {
    struct attn_matrix_marks *marks; /* [ATTN_MATRIX_CHUNK] */
    uint16_t *keys;                  /* [ATTN_MATRIX_CHUNK][key_blocks][part][block] */
    uint16_t *values;                /* [value_blocks][ATTN_MATRIX_CHUNK][part][block] */
};

static inline uint16_t *attn_matrix_keys(const struct attn_matrix *matrix,
                                         const struct attn_matrix_chunk *chunk, int64_t step)
{
    return chunk->keys + step * matrix->key_blocks * matrix->score.left_parts * ATTN_MATRIX_BLOCK;
}

/* The values of 32 columns. */
static inline uint16_t *attn_matrix_values(const struct attn_matrix *matrix,
                                           const struct attn_matrix_chunk *chunk, int64_t block)
{
    return chunk->values
           + block * ATTN_MATRIX_CHUNK * matrix->context.left_parts * ATTN_MATRIX_BLOCK;
}

/* Does the matrix unit compute the context too? Dropout is left to the float kernels. */
bool attn_matrix_sums_context(const struct attn_problem *problem);

/* Does the matrix unit compute context and lse of this problem? The rule depends on its shapes and
 * options alone. */
bool attn_matrix_fits(const struct attn_plan_full *plan);

/* Make it a plan of the matrix unit. */
void attn_matrix_choose(struct attn_plan_full *plan);

void attn_matrix_describe(struct attn_matrix *matrix, const struct attn_plan_full *plan);

/* Divide the memory of a chunk and return its bytes; with memory NULL, only count. */
size_t attn_matrix_cut_chunk(const struct attn_matrix *matrix, struct attn_matrix_chunk *chunk,
                             void *memory);

/* Cut the keys and values of a step of chunk number number of a head into parts. rows has room for
 * ATTN_MATRIX_STEP rows of keys or of values. */
struct attn_matrix_place {
    int64_t batch, kv_head, number, step;
};

void attn_matrix_pack(const struct attn_plan_full *plan, const struct attn_matrix *matrix,
                      const struct attn_matrix_place *place, const struct attn_matrix_chunk *chunk,
                      float *rows);

/* The workspace of a task of the plan, or of a join. */
size_t attn_matrix_workspace_bytes(const struct attn_plan_full *plan);

/* The tiles [first, end) of query rows of one head that a join takes. */
struct attn_matrix_tiles {
    int64_t head, first, end;
};

struct attn_matrix_tiles attn_matrix_tiles_of(const struct attn_plan_full *plan, int64_t join);

/* Tasks of a plan, parts and joins, as attn.h has them, without maps. */
void attn_matrix_run(const struct attn_plan_full *plan, int64_t task, void *workspace);
void attn_matrix_run_part(const struct attn_plan_full *plan, int64_t part, void *shared,
                          void *workspace);
void attn_matrix_run_join(const struct attn_plan_full *plan, int64_t number, void *shared,
                          void *workspace);

#endif
