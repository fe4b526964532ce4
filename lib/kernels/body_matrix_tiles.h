/* SPDX-License-Identifier: Apache-2.0 */
/* body_matrix_tiles.h - products of blocks on six instructions of a matrix unit, for body_matrix.h.
 * The including file defines:
 *
 *     tile_configure(&config)  tile_release()                       struct tile_config
 *     tile_zero(t)             tile_load(t, address, stride)        tile_store(t, address, stride)
 *     tile_dot(c, a, b)        c += a . b, pairs of bf16 into float
 *
 * Tiles 0 to 3 hold sums, 4 and 5 the left operand, 6 and 7 the right. */
#ifndef ATTN_BODY_MATRIX_TILES_H
#define ATTN_BODY_MATRIX_TILES_H

#include "body_matrix_pack.h"

#include <string.h>

/* The memory of a tile of sums: 16 rows of a transposed tile of ATTN_MATRIX_LANES. */
enum {
    SUMS_STRIDE = ATTN_MATRIX_LANES * (int)sizeof(float),
    SUMS_DOWN = LANES * ATTN_MATRIX_LANES,
    TILE_STRIDE = 64
};

static struct tile_config whole_tiles(void)
{
    struct tile_config config;

    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    return config;
}

static void begin(void)
{
    const struct tile_config config = whole_tiles();

    tile_configure(&config);
}

static void end(void)
{
    tile_release();
}

/* ---------------------------------------------------------------------- products of tiles -- */

INLINE void load_sums(const float *sums)
{
    tile_load(0, sums, SUMS_STRIDE);
    tile_load(1, sums + LANES, SUMS_STRIDE);
    tile_load(2, sums + SUMS_DOWN, SUMS_STRIDE);
    tile_load(3, sums + SUMS_DOWN + LANES, SUMS_STRIDE);
}

INLINE void store_sums(float *sums)
{
    tile_store(0, sums, SUMS_STRIDE);
    tile_store(1, sums + LANES, SUMS_STRIDE);
    tile_store(2, sums + SUMS_DOWN, SUMS_STRIDE);
    tile_store(3, sums + SUMS_DOWN + LANES, SUMS_STRIDE);
}

/* One block of the left times one of the right. */
INLINE void multiply_blocks(const uint16_t *left, const uint16_t *right, bool loads_left,
                            bool loads_right)
{
    if (loads_left)
        tile_load(4, left, TILE_STRIDE);
    if (loads_right)
        tile_load(6, right, TILE_STRIDE);
    tile_dot(0, 4, 6);
    if (loads_right)
        tile_load(7, right + ATTN_MATRIX_TILE, TILE_STRIDE);
    tile_dot(1, 4, 7);
    if (loads_left)
        tile_load(5, left + ATTN_MATRIX_TILE, TILE_STRIDE);
    tile_dot(2, 5, 6);
    tile_dot(3, 5, 7);
}

/* How far the products of a struct attn_matrix_beside are. */
struct stream {
    const struct attn_matrix_beside *beside;
    int64_t scores, all; /* products of blocks for the scores; and in all */
    int64_t done;
    int64_t block; /* of columns, or the slot */
    int product;
};

INLINE struct stream begin_stream(const struct attn_matrix_beside *beside)
{
    struct stream stream = { .beside = beside };

    stream.scores = beside->blocks > 0 ? beside->blocks * beside->score->count : 0;
    stream.all = stream.scores + (beside->count > 0 ? beside->count * beside->context->count : 0);
    if (stream.scores > 0) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    }
    return stream;
}

INLINE void next_product(struct stream *stream, const struct attn_matrix_products *products)
{
    stream->done++;
    if (++stream->product == products->count) {
        stream->product = 0;
        stream->block++;
    }
}

INLINE void score_product(struct stream *stream)
{
    const struct attn_matrix_beside *beside = stream->beside;
    const struct attn_matrix_products *products = beside->score;
    const int i = stream->product;

    multiply_blocks(
        beside->keys
            + (stream->block * products->left_parts + products->left[i]) * ATTN_MATRIX_BLOCK,
        beside->queries
            + (stream->block * products->right_parts + products->right[i]) * ATTN_MATRIX_BLOCK,
        products->loads_left[i], products->loads_right[i]);
    next_product(stream, products);
    if (stream->done == stream->scores)
        store_sums(beside->scores_t);
}

INLINE void context_product(struct stream *stream)
{
    const struct attn_matrix_beside *beside = stream->beside;
    const struct attn_matrix_products *products = beside->context;
    const int i = stream->product;

    if (stream->done == stream->scores) {
        load_sums(beside->context_t);
        stream->block = beside->first;
    }
    const int64_t step = beside->steps[stream->block];
    multiply_blocks(
        beside->values + (step * products->left_parts + products->left[i]) * ATTN_MATRIX_BLOCK,
        beside->weights
            + (stream->block * products->right_parts + products->right[i]) * ATTN_MATRIX_BLOCK,
        products->loads_left[i], products->loads_right[i]);
    next_product(stream, products);
    if (stream->done == stream->all)
        store_sums(beside->context_t);
}

/* Go on until this many products are done. */
INLINE void run_stream(struct stream *stream, int64_t until)
{
    while (stream->done < until && stream->done < stream->scores)
        score_product(stream);
    while (stream->done < until)
        context_product(stream);
}

static void multiply(const struct attn_matrix_beside *beside)
{
    struct stream stream = begin_stream(beside);

    run_stream(&stream, stream.all);
}

#include "body_matrix_few.h"
#include "body_matrix_fixed.h"

#define MATRIX_PROJECT  project
#define MATRIX_ODD_ROWS odd_rows

#endif
