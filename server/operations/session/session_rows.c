/* SPDX-License-Identifier: Apache-2.0 */
/* session_rows.c - the list of a layer's parts, and the view of them that attention reads (layer.h,
 * struct attn_pages). Evicted rows are zeros, which are few: all heads read the same ones. */
#include "operations/session/session_rows.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------- the parts -- */

int64_t session_rows_part_length(const struct session_rows *rows, int64_t i)
{
    if (rows->is_state)
        return 1;
    const int64_t end = i + 1 < rows->part_count ? rows->parts[i + 1].first : rows->length;
    return end - rows->parts[i].first;
}

const struct session_part *session_rows_part(const struct session_rows *rows, int64_t position)
{
    int64_t least = 0, most = rows->part_count - 1;
    while (least < most) {
        const int64_t middle = least + (most - least + 1) / 2;
        if (rows->parts[middle].first > position)
            most = middle - 1;
        else
            least = middle;
    }
    return &rows->parts[least];
}

bool session_rows_reserve(struct session_rows *rows, int64_t more, struct fault *fault)
{
    struct session_part *parts =
        realloc(rows->parts, (size_t)(rows->part_count + more) * sizeof *parts);
    if (!parts)
        return fault_no_memory(fault);
    rows->parts = parts;
    return true;
}

int64_t session_rows_page_rows_max(const struct session_rows *rows)
{
    return rows->page_rows_max > 0 ? rows->page_rows_max : SESSION_PAGE_ROWS_MAX;
}

struct session_page *session_rows_make_page(struct session_rows *rows, enum attn_dtype dtype,
                                            struct session_budget *budget, int64_t count,
                                            struct fault *fault)
{
    struct session_shape shape = rows->shape;
    shape.dtype = dtype;
    struct session_page *page = session_page_create(budget, rows->account, &shape, count, fault);
    if (!page && session_shape_bytes(&shape, count) > 0)
        rows->bytes_wanted = rows->bytes_taken + session_page_bytes(&shape, count);
    if (page && 2 * rows->appended >= page->rows)
        session_page_use_large(page);
    rows->bytes_taken += page ? page->bytes : 0;
    return page;
}

static void drop_last(struct session_rows *rows)
{
    session_page_release(rows->parts[--rows->part_count].page);
}

/* Of states: those behind so many positions and fewer stay. */
static void truncate_states(struct session_rows *rows, int64_t length)
{
    while (rows->part_count > 0 && rows->parts[rows->part_count - 1].first > length)
        session_page_release(rows->parts[--rows->part_count].page);
    rows->length = rows->part_count > 0 ? rows->parts[rows->part_count - 1].first : 0;
}

void session_rows_truncate(struct session_rows *rows, int64_t length)
{
    if (length >= rows->length)
        return;
    if (rows->is_state) {
        truncate_states(rows, length);
        return;
    }
    rows->length = length;
    while (rows->part_count > 0 && rows->parts[rows->part_count - 1].first >= length)
        drop_last(rows);
    if (rows->dropped > length)
        rows->dropped = length > rows->dropped_from ? length : 0;
}

bool session_rows_fork(const struct session_rows *rows, struct session_rows *copy)
{
    *copy = (struct session_rows){ .shape = rows->shape,
                                   .is_state = rows->is_state,
                                   .length = rows->length,
                                   .page_rows_max = rows->page_rows_max,
                                   .dropped_from = rows->dropped_from,
                                   .dropped = rows->dropped };
    if (rows->part_count == 0)
        return true;
    copy->parts = calloc((size_t)rows->part_count, sizeof *copy->parts);
    if (!copy->parts)
        return false;
    for (; copy->part_count < rows->part_count; copy->part_count++) {
        copy->parts[copy->part_count] = rows->parts[copy->part_count];
        session_page_hold(rows->parts[copy->part_count].page);
    }
    return true;
}

size_t session_rows_bytes(const struct session_rows *rows)
{
    struct session_shape shape = rows->shape;
    size_t bytes = 0;
    for (int64_t i = 0; i < rows->part_count; i++) {
        shape.dtype = rows->parts[i].page->dtype;
        if (!rows->parts[i].page->is_void)
            bytes += session_shape_bytes(&shape, session_rows_part_length(rows, i));
    }
    return bytes;
}

size_t session_rows_bytes_held(const struct session_rows *rows)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < rows->part_count; i++)
        bytes += rows->parts[i].page->bytes;
    return bytes;
}

/* ----------------------------------------------------------------------- the view -- */

/* From one head of the page to the next, in rows. */
static int64_t head_rows(const struct session_page *page)
{
    return page->is_void ? 0 : page->rows;
}

static struct attn_page key_page(const struct session_shape *shape, const struct session_part *part)
{
    const struct session_page *page = part->page;
    const size_t row_bytes = (size_t)shape->head_dim * attn_dtype_size(page->dtype);
    struct attn_page view = { .first = part->first,
                              .data = page->key + (size_t)part->row * row_bytes,
                              .head_stride = head_rows(page) * shape->head_dim };
    if (page->dtype == ATTN_I8) {
        view.scale = page->key_scale + part->row / ATTN_I8_ROWS * shape->head_dim;
        view.scale_stride = head_rows(page) / ATTN_I8_ROWS * shape->head_dim;
    }
    return view;
}

static struct attn_page value_page(const struct session_shape *shape,
                                   const struct session_part *part)
{
    const struct session_page *page = part->page;
    const size_t row_bytes = (size_t)shape->v_head_dim * attn_dtype_size(page->dtype);
    struct attn_page view = { .first = part->first,
                              .data = page->value + (size_t)part->row * row_bytes,
                              .head_stride = head_rows(page) * shape->v_head_dim };
    if (page->dtype == ATTN_I8) {
        view.scale = page->value_scale + part->row;
        view.scale_stride = head_rows(page);
    }
    return view;
}

/* Pages of the view that part i is. */
static int64_t page_count(const struct session_rows *rows, int64_t i)
{
    const int64_t most = rows->parts[i].page->rows;
    return rows->parts[i].page->is_void ? (session_rows_part_length(rows, i) + most - 1) / most : 1;
}

static bool make_list(struct session_rows *rows, struct fault *fault)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows->part_count; i++)
        count += page_count(rows, i);
    if (count > 0 && rows->list_count < count) {
        struct attn_page *list = realloc(rows->list, 2 * (size_t)count * sizeof *list);
        if (!list)
            return fault_no_memory(fault);
        rows->list = list;
        rows->list_count = count;
    }
    rows->page_count = 0;
    for (int64_t i = 0; i < rows->part_count; i++) {
        struct session_part part = rows->parts[i];
        for (int64_t left = page_count(rows, i); left > 0; left--) {
            rows->list[rows->page_count] = key_page(&rows->shape, &part);
            rows->list[rows->list_count + rows->page_count++] = value_page(&rows->shape, &part);
            part.first += part.page->rows;
        }
    }
    return true;
}

static struct attn_tensor side(struct session_rows *rows, int number, int64_t columns)
{
    struct attn_page *list = rows->list + number * rows->list_count;
    struct attn_tensor tensor =
        attn_tensor_dense(list[0].data, rows->shape.dtype, 1, rows->shape.kv_heads,
                          rows->length + rows->appended, columns);
    rows->pages[number] = (struct attn_pages){ .count = rows->page_count,
                                               .list = list,
                                               .has_row_scales = number == 1 };
    tensor.pages = &rows->pages[number];
    return tensor;
}

bool session_rows_make_view(struct session_rows *rows, struct fault *fault)
{
    if (!make_list(rows, fault))
        return false;
    rows->cache = (struct attn_layer_cache){ side(rows, 0, rows->shape.head_dim),
                                             side(rows, 1, rows->shape.v_head_dim), rows->length };
    return true;
}

void session_rows_make_bounds(struct session_rows *rows)
{
    const int64_t largest = rows->shape.kv_heads * rows->shape.head_dim;
    const size_t count = (size_t)rows->part_count;
    free(rows->bounds);
    free(rows->largest);
    rows->bounds = calloc(count, sizeof *rows->bounds);
    rows->largest = calloc(count * (size_t)largest, sizeof *rows->largest);
    rows->bounds_count = 0;
    for (int64_t i = 0; rows->bounds && rows->largest && i < rows->part_count; i++) {
        const struct session_part *part = &rows->parts[i];
        const int64_t groups = session_rows_part_length(rows, i) / ATTN_SELECT_KEYS;
        if (groups > 0 && part->row == 0 && !part->page->is_void)
            rows->bounds_count += session_page_bounds(
                part->page, &rows->shape, &rows->cache.key, part->first, groups,
                rows->largest + rows->bounds_count * largest, &rows->bounds[rows->bounds_count]);
    }
}

void session_rows_free_view(struct session_rows *rows)
{
    free(rows->list);
    free(rows->bounds);
    free(rows->largest);
    rows->list = NULL;
    rows->bounds = NULL;
    rows->largest = NULL;
    rows->list_count = rows->bounds_count = 0;
}

void session_rows_free(struct session_rows *rows)
{
    for (int64_t i = 0; i < rows->part_count; i++)
        session_page_release(rows->parts[i].page);
    free(rows->parts);
    session_rows_free_view(rows);
    *rows = (struct session_rows){ .length = 0 };
}
