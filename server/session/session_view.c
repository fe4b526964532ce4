/* session_view.c - see session_view.h. Rows that are gone are zeros, which are few: the same ones
 * are read again and again, by all heads. */
#include "session/session_view.h"

#include <stdlib.h>

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
    if (rows->list_count < count) {
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

bool session_view_make(struct session_rows *rows, struct fault *fault)
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

void session_view_free(struct session_rows *rows)
{
    free(rows->list);
    free(rows->bounds);
    free(rows->largest);
    rows->list = NULL;
    rows->bounds = NULL;
    rows->largest = NULL;
    rows->list_count = rows->bounds_count = 0;
}
