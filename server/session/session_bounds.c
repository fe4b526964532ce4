/* session_bounds.c - see session_bounds.h. */
#include "session/session_bounds.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct session_bounds {
    pthread_mutex_t lock;
    int64_t made;   /* groups, from the first one on */
    float *rows;    /* [kv_heads][groups of the page][attn_bounds_columns()] */
    float *largest; /* [kv_heads][head_dim] */
    size_t bytes;
};

static int64_t groups_of(const struct session_page *page)
{
    return page->rows / ATTN_SELECT_KEYS;
}

/* They count for the name of the page. */
static bool take(const struct session_page *page, size_t bytes)
{
    struct fault unused;
    if (!session_account_take(page->account, bytes, &unused))
        return false;
    if (session_budget_take(page->budget, bytes, &unused))
        return true;
    session_account_give_back(page->account, bytes);
    return false;
}

static void give_back(const struct session_page *page, size_t bytes)
{
    session_budget_give_back(page->budget, bytes);
    session_account_give_back(page->account, bytes);
}

/* NULL: there is no room for them. */
static struct session_bounds *create(const struct session_page *page,
                                     const struct session_shape *shape)
{
    const int64_t columns = attn_bounds_columns(shape->head_dim);
    const size_t rows = (size_t)(shape->kv_heads * groups_of(page) * columns);
    const size_t largest = (size_t)(shape->kv_heads * shape->head_dim);
    const size_t bytes = (rows + largest) * sizeof(float) + sizeof(struct session_bounds);
    if (!take(page, bytes))
        return NULL;
    struct session_bounds *bounds = calloc(1, sizeof *bounds);
    float *numbers = bounds ? calloc(rows + largest, sizeof *numbers) : NULL;
    if (!numbers) {
        free(bounds);
        give_back(page, bytes);
        return NULL;
    }
    pthread_mutex_init(&bounds->lock, NULL);
    bounds->rows = numbers;
    bounds->largest = numbers + rows;
    bounds->bytes = bytes;
    return bounds;
}

static void destroy(const struct session_page *page, struct session_bounds *bounds)
{
    if (!bounds)
        return;
    give_back(page, bounds->bytes);
    pthread_mutex_destroy(&bounds->lock);
    free(bounds->rows);
    free(bounds);
}

static struct session_bounds *bounds_of(struct session_page *page,
                                        const struct session_shape *shape)
{
    struct session_bounds *bounds = atomic_load(&page->bounds);
    if (bounds)
        return bounds;
    struct session_bounds *own = create(page, shape);
    if (!own || atomic_compare_exchange_strong(&page->bounds, &bounds, own))
        return own;
    destroy(page, own);
    return bounds;
}

/* Makes those of groups [made, end) of a part, whose keys the view has, and copies the largest
 * numbers, which other sessions may make larger. */
static void make(struct session_bounds *bounds, const struct session_rows *rows,
                 const struct session_part *part, int64_t end, float *largest)
{
    const struct session_shape *shape = &rows->shape;
    const int64_t columns = attn_bounds_columns(shape->head_dim);
    const int64_t groups = groups_of(part->page);
    pthread_mutex_lock(&bounds->lock);
    for (; bounds->made < end; bounds->made++)
        for (int64_t h = 0; h < shape->kv_heads; h++)
            attn_bounds_make(&rows->cache.key, h, part->first + bounds->made * ATTN_SELECT_KEYS,
                             ATTN_SELECT_KEYS, NULL,
                             bounds->rows + (h * groups + bounds->made) * columns,
                             bounds->largest + h * shape->head_dim);
    memcpy(largest, bounds->largest, (size_t)(shape->kv_heads * shape->head_dim) * sizeof *largest);
    pthread_mutex_unlock(&bounds->lock);
}

/* The complete groups of a part that begins at the first row of its page. */
static void add_part(struct session_rows *rows, const struct session_part *part, int64_t length)
{
    const struct session_shape *shape = &rows->shape;
    const int64_t count = length / ATTN_SELECT_KEYS;
    struct session_bounds *bounds =
        count > 0 && part->row == 0 && !part->page->is_void ? bounds_of(part->page, shape) : NULL;
    if (!bounds)
        return;
    float *largest = rows->largest + rows->bounds_count * shape->kv_heads * shape->head_dim;
    make(bounds, rows, part, count, largest);
    rows->bounds[rows->bounds_count++] = (struct attn_bounds){
        .first = part->first,
        .group_count = count,
        .rows = bounds->rows,
        .head_stride = groups_of(part->page) * attn_bounds_columns(shape->head_dim),
        .largest = largest,
    };
}

static bool make_room(struct session_rows *rows)
{
    const size_t count = (size_t)rows->part_count;
    const size_t largest = (size_t)(rows->shape.kv_heads * rows->shape.head_dim);
    free(rows->bounds);
    free(rows->largest);
    rows->bounds = calloc(count, sizeof *rows->bounds);
    rows->largest = calloc(count * largest, sizeof *rows->largest);
    return rows->bounds && rows->largest;
}

void session_bounds_make(struct session_rows *rows)
{
    rows->bounds_count = 0;
    if (!make_room(rows))
        return;
    for (int64_t i = 0; i < rows->part_count; i++) {
        const int64_t end = i + 1 < rows->part_count ? rows->parts[i + 1].first : rows->length;
        add_part(rows, &rows->parts[i], end - rows->parts[i].first);
    }
}

void session_bounds_cut(struct session_page *page, int64_t row)
{
    struct session_bounds *bounds = atomic_load(&page->bounds);
    if (!bounds)
        return;
    pthread_mutex_lock(&bounds->lock);
    if (bounds->made > row / ATTN_SELECT_KEYS)
        bounds->made = row / ATTN_SELECT_KEYS;
    pthread_mutex_unlock(&bounds->lock);
}

size_t session_bounds_bytes(const struct session_page *page)
{
    const struct session_bounds *bounds = atomic_load(&page->bounds);
    return bounds ? bounds->bytes : 0;
}

void session_bounds_free(struct session_page *page)
{
    destroy(page, atomic_load(&page->bounds));
}
