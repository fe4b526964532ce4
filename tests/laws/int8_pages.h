/* SPDX-License-Identifier: Apache-2.0 */
/* int8_pages.h - a tensor in pages that are cut at random, most of them I8 with random numbers and
 * scales, some of them F32, and the same numbers as floats. */
#ifndef INT8_PAGES_H
#define INT8_PAGES_H

#include "random_case.h"

enum { PAGES_MAX = 6 };

struct paged {
    struct attn_pages pages;
    struct attn_page list[PAGES_MAX];
};

/* A page of rows rows of I8 with random numbers; floats, rows of the whole tensor, gets what they
 * stand for. */
static inline struct attn_page make_int8(struct attention_case *c, const struct attn_tensor *floats,
                                         int64_t first, int64_t rows, bool has_row_scales,
                                         struct fill *fill)
{
    const int64_t heads = floats->shape[1], columns = floats->shape[3];
    const int64_t groups = (rows + ATTN_I8_ROWS - 1) / ATTN_I8_ROWS;
    const int64_t scales = has_row_scales ? rows : groups * columns;
    int8_t *data = attention_case_alloc(c, (size_t)(heads * rows * columns));
    float *scale = attention_case_alloc(c, (size_t)(heads * scales) * sizeof *scale);
    fill_floats(fill, scale, heads * scales, 0, 1.0f / 64);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t d = 0; d < columns; d++) {
                const int64_t at = has_row_scales ? i : i / ATTN_I8_ROWS * columns + d;
                const int8_t number = (int8_t)(fill_below(fill, 256) - 128);
                data[(h * rows + i) * columns + d] = number;
                *attention_at(floats, 0, h, first + i, d) = (float)number * scale[h * scales + at];
            }
    return (struct attn_page){ .first = first,
                               .data = data,
                               .head_stride = rows * columns,
                               .scale = scale,
                               .scale_stride = scales };
}

static inline struct attn_page
make_floats(struct attention_case *c, const struct attn_tensor *floats, int64_t first, int64_t rows)
{
    const int64_t heads = floats->shape[1], columns = floats->shape[3];
    const struct attn_tensor page =
        attention_case_tensor(c, ATTN_F32, LAYOUT_DENSE, 1, heads, rows, columns);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t d = 0; d < columns; d++)
                *attention_at(&page, 0, h, i, d) = *attention_at(floats, 0, h, first + i, d);
    return (struct attn_page){ .first = first, .data = page.data, .head_stride = rows * columns };
}

/* The tensor in pages, most of them I8; floats gets the numbers that these stand for. */
static inline struct attn_tensor make_pages(struct attention_case *c,
                                            const struct attn_tensor *floats, struct paged *paged,
                                            bool has_row_scales, struct fill *fill)
{
    const int64_t length = floats->shape[2];
    struct attn_tensor tensor = *floats;
    int64_t first = 0;
    paged->pages = (struct attn_pages){ .list = paged->list, .has_row_scales = has_row_scales };
    while (paged->pages.count == 0 || first < length) {
        const int64_t left = length - first;
        const bool is_last = paged->pages.count == PAGES_MAX - 1 || random_chance(fill, 3);
        const int64_t rows = is_last || left < 2 ? left : 1 + fill_below(fill, left);
        paged->list[paged->pages.count++] =
            random_chance(fill, 4) ? make_floats(c, floats, first, rows)
                                   : make_int8(c, floats, first, rows, has_row_scales, fill);
        first += rows;
    }
    tensor.data = paged->list[0].data;
    tensor.dtype = ATTN_I8;
    tensor.stride[0] = tensor.stride[1] = 0;
    tensor.stride[2] = floats->shape[3];
    tensor.pages = &paged->pages;
    return tensor;
}

#endif
