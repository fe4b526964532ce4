/* session_rows.c - see session_rows.h.
 *
 * Where the new positions go: into the last page, where it has room behind the rows of all sessions
 * that see it; into a larger copy of it, where it is small and this session's alone, so that a
 * cache of n positions has few pages; else into a new page. */
#include "session/session_rows.h"

#include <stdlib.h>
#include <string.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t session_rows_part_length(const struct session_rows *rows, int64_t i)
{
    const int64_t end = i + 1 < rows->part_count ? rows->parts[i + 1].first : rows->length;
    return end - rows->parts[i].first;
}

void session_rows_free(struct session_rows *rows)
{
    for (int64_t i = 0; i < rows->part_count; i++)
        session_page_release(rows->parts[i].page);
    free(rows->parts);
    free(rows->list);
    *rows = (struct session_rows){ .length = 0 };
}

/* ------------------------------------------------------------------ room for an append -- */

/* Takes the right to write behind the rows of the last page; false where it is not to be had: rows
 * there are another session's, or being written. */
static bool claim_end(struct session_rows *rows, int64_t count)
{
    if (rows->part_count == 0)
        return false;
    struct session_part *part = &rows->parts[rows->part_count - 1];
    const int64_t end = part->row + session_rows_part_length(rows, rows->part_count - 1);
    void *nobody = NULL;
    if (part->page->rows - end < count
        || !atomic_compare_exchange_strong(&part->page->appender, &nobody, rows))
        return false;
    if (atomic_load(&part->page->holders) == 1)
        atomic_store(&part->page->used, end); /* rows of a fork that has ended may lie behind */
    if (atomic_load(&part->page->used) == end)
        return true;
    atomic_store(&part->page->appender, NULL);
    return false;
}

/* Positions at the end that are in pages of this session alone: what a fork begins with is small,
 * however long the beginning that it shares. */
static int64_t own_length(const struct session_rows *rows)
{
    int64_t first = rows->length;
    for (int64_t i = rows->part_count - 1;
         i >= 0 && atomic_load(&rows->parts[i].page->holders) == 1; i--)
        first = rows->parts[i].first;
    return rows->length - first;
}

/* How many positions a new page has for an append of count behind length of the session's own. */
static int64_t page_rows(int64_t length, int64_t count)
{
    const int64_t grown = least(most(length, SESSION_PAGE_ROWS), SESSION_PAGE_ROWS_MAX);
    const int64_t wanted = most(grown, count);
    return (wanted + SESSION_PAGE_ROWS - 1) / SESSION_PAGE_ROWS * SESSION_PAGE_ROWS;
}

static bool is_small_and_alone(const struct session_part *part)
{
    return part->row == 0 && part->page->rows < SESSION_PAGE_ROWS_MAX
           && atomic_load(&part->page->holders) == 1;
}

static struct session_page *make_page(struct session_rows *rows, struct session_budget *budget,
                                      int64_t count, struct fault *fault)
{
    rows->bytes_wanted = (size_t)count * session_shape_row_bytes(&rows->shape);
    struct session_page *page = session_page_create(budget, &rows->shape, count, fault);
    if (!page || session_page_charge(page, rows->account, fault))
        return page;
    session_page_release(page);
    return NULL;
}

/* The last page's rows move into a page with room for count more. */
static bool grow_last(struct session_rows *rows, struct session_budget *budget, int64_t count,
                      struct fault *fault)
{
    struct session_part *part = &rows->parts[rows->part_count - 1];
    const int64_t there = session_rows_part_length(rows, rows->part_count - 1);
    struct session_page *page = make_page(rows, budget, page_rows(2 * there, there + count), fault);
    if (!page)
        return false;
    session_page_copy(&rows->shape, page, 0, part->page, 0, there);
    atomic_store(&page->used, there);
    atomic_store(&page->appender, rows);
    session_page_release(part->page);
    part->page = page;
    return true;
}

static bool add_part(struct session_rows *rows, struct session_budget *budget, int64_t count,
                     struct fault *fault)
{
    struct session_part *parts =
        realloc(rows->parts, (size_t)(rows->part_count + 1) * sizeof *parts);
    if (!parts)
        return fault_no_memory(fault);
    rows->parts = parts;
    struct session_page *page = make_page(rows, budget, page_rows(own_length(rows), count), fault);
    if (!page)
        return false;
    atomic_store(&page->appender, rows);
    rows->parts[rows->part_count++] = (struct session_part){ rows->length, 0, page };
    rows->has_more = true;
    return true;
}

static bool make_room(struct session_rows *rows, struct session_budget *budget, int64_t count,
                      struct fault *fault)
{
    if (count == 0 || claim_end(rows, count))
        return true;
    if (rows->part_count > 0 && is_small_and_alone(&rows->parts[rows->part_count - 1]))
        return grow_last(rows, budget, count, fault);
    return add_part(rows, budget, count, fault);
}

/* -------------------------------------------------------------------------- the view -- */

static bool make_list(struct session_rows *rows, struct fault *fault)
{
    if (rows->list_count < rows->part_count) {
        struct attn_page *list =
            realloc(rows->list, 2 * (size_t)rows->part_count * sizeof(struct attn_page));
        if (!list)
            return fault_no_memory(fault);
        rows->list = list;
        rows->list_count = rows->part_count;
    }
    const struct session_shape *shape = &rows->shape;
    const size_t bytes = attn_dtype_size(shape->dtype);
    for (int64_t i = 0; i < rows->part_count; i++) {
        const struct session_part *part = &rows->parts[i];
        const size_t skipped = (size_t)part->row * bytes;
        rows->list[i] = (struct attn_page){
            .first = part->first,
            .data = part->page->key + skipped * (size_t)shape->head_dim,
            .head_stride = part->page->rows * shape->head_dim,
        };
        rows->list[rows->list_count + i] = (struct attn_page){
            .first = part->first,
            .data = part->page->value + skipped * (size_t)shape->v_head_dim,
            .head_stride = part->page->rows * shape->v_head_dim,
        };
    }
    return true;
}

static struct attn_tensor side(struct session_rows *rows, int number, int64_t columns)
{
    struct attn_page *list = rows->list + number * rows->list_count;
    struct attn_tensor tensor =
        attn_tensor_dense(list[0].data, rows->shape.dtype, 1, rows->shape.kv_heads,
                          rows->length + rows->appended, columns);
    rows->pages[number] = (struct attn_pages){ .count = rows->part_count, .list = list };
    tensor.pages = &rows->pages[number];
    return tensor;
}

bool session_rows_begin(struct session_rows *rows, struct session_budget *budget, int64_t count,
                        struct fault *fault)
{
    rows->has_more = false;
    rows->appended = count;
    rows->is_appending = true;
    /* A cache without positions has a page too, so that its view has an address. */
    const bool good = (rows->part_count > 0 || count > 0 ? make_room(rows, budget, count, fault)
                                                         : add_part(rows, budget, 1, fault))
                      && make_list(rows, fault);
    if (!good) {
        session_rows_end(rows, false);
        return false;
    }
    rows->cache = (struct attn_layer_cache){ side(rows, 0, rows->shape.head_dim),
                                             side(rows, 1, rows->shape.v_head_dim), rows->length };
    return true;
}

/* ------------------------------------------------------------------ the end of an append -- */

static void drop_last(struct session_rows *rows)
{
    session_page_release(rows->parts[--rows->part_count].page);
}

void session_rows_end(struct session_rows *rows, bool keeps)
{
    if (!rows->is_appending)
        return;
    rows->is_appending = false;
    if (rows->part_count > 0) {
        const struct session_part *last = &rows->parts[rows->part_count - 1];
        void *self = rows;
        if (keeps && rows->appended > 0) {
            rows->length += rows->appended;
            atomic_store(&last->page->used, last->row + rows->length - last->first);
        }
        atomic_compare_exchange_strong(&last->page->appender, &self, NULL);
        if (rows->has_more && last->first >= rows->length)
            drop_last(rows);
    }
    rows->appended = 0;
}

/* ------------------------------------------------------------------- other verbs -- */

void session_rows_truncate(struct session_rows *rows, int64_t length)
{
    if (length >= rows->length)
        return;
    rows->length = length;
    while (rows->part_count > 0 && rows->parts[rows->part_count - 1].first >= length)
        drop_last(rows);
}

bool session_rows_fork(const struct session_rows *rows, struct session_rows *copy)
{
    *copy = (struct session_rows){ .shape = rows->shape, .length = rows->length };
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

/* -------------------------------------------------------------------------- what is there -- */

static const struct session_part *part_of(const struct session_rows *rows, int64_t position)
{
    int64_t i = rows->part_count - 1;
    while (i > 0 && rows->parts[i].first > position)
        i--;
    return &rows->parts[i];
}

static bool is_same_head(const struct session_rows *a, const struct session_rows *b,
                         int64_t position, int64_t head)
{
    const struct session_part *one = part_of(a, position), *other = part_of(b, position);
    const size_t bytes = attn_dtype_size(a->shape.dtype);
    const size_t key = bytes * (size_t)a->shape.head_dim;
    const size_t value = bytes * (size_t)a->shape.v_head_dim;
    const size_t at = (size_t)(head * one->page->rows + one->row + position - one->first);
    const size_t other_at =
        (size_t)(head * other->page->rows + other->row + position - other->first);
    return memcmp(one->page->key + at * key, other->page->key + other_at * key, key) == 0
           && memcmp(one->page->value + at * value, other->page->value + other_at * value, value)
                  == 0;
}

bool session_rows_equal(const struct session_rows *a, const struct session_rows *b, int64_t first,
                        int64_t end)
{
    for (int64_t position = first; position < end; position++)
        for (int64_t head = 0; head < a->shape.kv_heads; head++)
            if (!is_same_head(a, b, position, head))
                return false;
    return true;
}

size_t session_rows_bytes(const struct session_rows *rows)
{
    return (size_t)rows->length * session_shape_row_bytes(&rows->shape);
}

size_t session_rows_bytes_held(const struct session_rows *rows)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < rows->part_count; i++)
        bytes += rows->parts[i].page->bytes;
    return bytes;
}
