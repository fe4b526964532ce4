/* SPDX-License-Identifier: Apache-2.0 */
/* body_matrix_fixed.h - products of weights in blocks with many rows in fixed point (fixed.h), a
 * part of body_matrix_tiles.h.
 *
 * Rows are the left operand and weights the right: a tile of sums is 16 rows by 16 outputs of one
 * group of inputs, which all products of digits add to. Sums are exact or rounded as fixed.h says,
 * and then meet the scales in vectors, whose lanes are outputs.
 *
 * Rows of a part are cut once and stay in the second cache. Weights of FIXED_PANELS panels come out
 * of their blocks once for all rows. */
#ifndef ATTN_BODY_MATRIX_FIXED_H
#define ATTN_BODY_MATRIX_FIXED_H

#include "body_matrix_pack.h"
#include "fixed.h"

#include <string.h>

enum {
    FIXED_PANELS = 4, /* side by side */
    FIXED_WIDTH = FIXED_PANELS * ATTN_FIXED_OUTPUTS,
    FIXED_SUMS = 2 * LANES * 2 * LANES, /* rows by outputs of four tiles */
    FIXED_PARTS = 2,                    /* that outputs meet before they go back to their rows */
    FIXED_PART_ROWS = ATTN_FIXED_PART / ATTN_FIXED_UNIT * ATTN_PROJECT_ROWS_MAX / LANES
                      * ATTN_FIXED_DIGITS_MAX * ATTN_FIXED_TILE
};

/* The room of one call. */
struct fixed_room {
    struct attn_fixed_panel panel[FIXED_PANELS];
    float y[ATTN_PROJECT_ROWS_MAX][FIXED_WIDTH];
    float products[FIXED_SUMS];
    float sums[FIXED_PARTS][ATTN_FIXED_PART / 16][ATTN_PROJECT_ROWS_MAX];
    uint16_t rows[FIXED_PARTS][FIXED_PART_ROWS];
};
_Static_assert(sizeof(struct fixed_room) <= ATTN_PROJECT_WORK * sizeof(float),
               "rows, weights and sums have room");

/* products = up to 32 rows by 32 outputs of one group; rows are row tiles side by side, of which
 * the second is there unless is_half. */
INLINE void multiply_group(float *products, const uint16_t *rows, const uint16_t *left_panel,
                           const uint16_t *right_panel, int digits, const bool is_half)
{
    enum { DOWN = LANES * 2 * LANES };

    tile_zero(0);
    tile_zero(1);
    tile_load(6, left_panel, TILE_STRIDE);
    tile_load(7, right_panel, TILE_STRIDE);
    if (!is_half) {
        tile_zero(2);
        tile_zero(3);
    }
    for (int d = 0; d < digits; d++) {
        tile_load(4, rows + d * ATTN_FIXED_TILE, TILE_STRIDE);
        tile_dot(0, 4, 6);
        tile_dot(1, 4, 7);
        if (is_half)
            continue;
        tile_load(5, rows + (digits + d) * ATTN_FIXED_TILE, TILE_STRIDE);
        tile_dot(2, 5, 6);
        tile_dot(3, 5, 7);
    }
    tile_store(0, products, SUMS_STRIDE);
    tile_store(1, products + LANES, SUMS_STRIDE);
    if (is_half)
        return;
    tile_store(2, products + DOWN, SUMS_STRIDE);
    tile_store(3, products + DOWN + LANES, SUMS_STRIDE);
}

/* y += scale * products, of count rows and of group g of two panels. */
INLINE void scale_group(float (*y)[FIXED_WIDTH], const float *products,
                        const struct attn_fixed_panel *panels, int g, const float *sums,
                        int64_t count, const bool has_less)
{
    const __m512 by[] = { _mm512_load_ps(panels[0].by[g]), _mm512_load_ps(panels[1].by[g]) };
    const __m512 less[] = { _mm512_load_ps(panels[0].less[g]), _mm512_load_ps(panels[1].less[g]) };

    for (int64_t r = 0; r < count; r++) {
        UNROLL
        for (int v = 0; v < 2; v++) {
            __m512 sum = _mm512_load_ps(y[r] + v * LANES);
            sum = _mm512_fmadd_ps(by[v], _mm512_load_ps(products + (r * 2 + v) * LANES), sum);
            if (has_less)
                sum = _mm512_fnmadd_ps(less[v], _mm512_set1_ps(sums[r]), sum);
            _mm512_store_ps(y[r] + v * LANES, sum);
        }
    }
}

/* Two panels and all rows of one group; rows: those of its inputs. */
static void add_fixed_group(const struct attn_fixed_project *project, struct fixed_room *room,
                            int pair, int g, const float *sums, const uint16_t *rows)
{
    const struct attn_fixed_panel *panels = room->panel + 2 * pair;
    const bool has_less = attn_fixed_has_less(project->blocks);

    for (int64_t r = 0; r < project->row_count; r += 2 * LANES) {
        float(*y)[FIXED_WIDTH] = (float(*)[FIXED_WIDTH])(room->y[r] + 2 * pair * LANES);
        const int64_t rest = project->row_count - r, count = rest < 2 * LANES ? rest : 2 * LANES;
        const uint16_t *from = rows + r / LANES * project->digits * ATTN_FIXED_TILE;
        if (count <= LANES)
            multiply_group(room->products, from, panels[0].tiles[g], panels[1].tiles[g],
                           project->digits, true);
        else
            multiply_group(room->products, from, panels[0].tiles[g], panels[1].tiles[g],
                           project->digits, false);
        if (has_less)
            scale_group(y, room->products, panels, g, sums + r, count, true);
        else
            scale_group(y, room->products, panels, g, sums + r, count, false);
    }
}

/* The outputs of a visit begin with the bias, or with what was visited before. */
static void begin_outputs(const struct attn_fixed_project *project, struct fixed_room *room,
                          int64_t output, bool is_first)
{
    static const float zeros[FIXED_WIDTH];
    const int64_t rest = project->out - output, count = rest < FIXED_WIDTH ? rest : FIXED_WIDTH;
    const float *bias = project->bias != NULL ? project->bias + output : zeros;

    for (int64_t r = 0; r < project->row_count; r++) {
        const float *from = is_first ? bias : project->y[r] + output;
        for (int64_t o = 0; o < count; o += LANES)
            _mm512_store_ps(room->y[r] + o,
                            _mm512_maskz_loadu_ps(first_lanes(count - o), from + o));
    }
}

static void end_outputs(const struct attn_fixed_project *project, const struct fixed_room *room,
                        int64_t output)
{
    const int64_t rest = project->out - output, count = rest < FIXED_WIDTH ? rest : FIXED_WIDTH;

    for (int64_t r = 0; r < project->row_count; r++)
        for (int64_t o = 0; o < count; o += LANES)
            _mm512_mask_storeu_ps(project->y[r] + output + o, first_lanes(count - o),
                                  _mm512_load_ps(room->y[r] + o));
}

/* Part number part of the room, whose inputs begin at input, and up to FIXED_WIDTH outputs. */
static void add_fixed_part(const struct attn_fixed_kernels *kernels,
                           const struct attn_fixed_project *project, struct fixed_room *room,
                           int64_t output, int64_t input, int part)
{
    const int64_t size = attn_fixed_group(project->blocks), rest = project->in - input;
    const int64_t groups = (rest < ATTN_FIXED_PART ? rest : ATTN_FIXED_PART) / size;
    const int64_t step =
        (project->row_count + LANES - 1) / LANES * project->digits * ATTN_FIXED_TILE;
    const int64_t outputs =
        project->out - output < FIXED_WIDTH ? project->out - output : FIXED_WIDTH;

    for (int64_t o = 0; o < outputs; o += ATTN_FIXED_OUTPUTS)
        kernels->lay(&room->panel[o / ATTN_FIXED_OUTPUTS], project, output + o, input);
    if ((outputs + LANES - 1) / LANES % 2 != 0)
        kernels->lay(&room->panel[outputs / LANES / 2 * 2 + 1], project, output, input);
    for (int64_t g = 0; g < groups; g++)
        for (int pair = 0; pair * 2 * LANES < outputs; pair++)
            add_fixed_group(project, room, pair, (int)g, room->sums[part][g],
                            room->rows[part] + g * size / ATTN_FIXED_UNIT * step);
}

static void multiply_fixed(const struct attn_fixed_kernels *kernels,
                           const struct attn_fixed_project *project)
{
    struct fixed_room *room = (struct fixed_room *)(void *)project->work;

    begin();
    for (int64_t i = 0; i < project->in; i += FIXED_PARTS * ATTN_FIXED_PART) {
        const int64_t rest = (project->in - i + ATTN_FIXED_PART - 1) / ATTN_FIXED_PART;
        const int parts = rest < FIXED_PARTS ? (int)rest : FIXED_PARTS;
        for (int p = 0; p < parts; p++)
            kernels->cut(room->rows[p], room->sums[p][0], project, i + p * ATTN_FIXED_PART);
        for (int64_t o = 0; o < project->out; o += FIXED_WIDTH) {
            begin_outputs(project, room, o, i == 0);
            for (int p = 0; p < parts; p++)
                add_fixed_part(kernels, project, room, o, i + p * ATTN_FIXED_PART, p);
            end_outputs(project, room, o);
        }
    }
    end();
}

#define MATRIX_MULTIPLY_FIXED multiply_fixed

#endif
