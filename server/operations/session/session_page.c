/* SPDX-License-Identifier: Apache-2.0 */
/* session_page.c - the layout of a page in memory, and the bounds of its keys, which the sessions
 * that share it make one at a time. */
#include "operations/session/session_page.h"

#include "telemetry/metrics.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_ALIGN = 64, LARGE_BYTES = 2 << 20 /* a large page of the machine */ };

_Static_assert((int)SESSION_PAGE_ROWS == (int)ATTN_I8_ROWS, "pages have whole groups of scales");

static size_t head_bytes(const struct session_shape *shape, int64_t columns)
{
    return (size_t)columns * attn_dtype_size(shape->dtype);
}

enum attn_dtype session_dtype_of_appends(enum attn_dtype dtype)
{
    return dtype == ATTN_I8 ? ATTN_F32 : dtype;
}

int64_t session_page_groups(int64_t rows)
{
    return (rows + ATTN_I8_ROWS - 1) / ATTN_I8_ROWS;
}

int64_t session_value_columns(const struct attn_layer *layer, enum attn_dtype dtype)
{
    return layer->latent.rank > 0 && dtype != ATTN_I8 ? 0 : attn_layer_value_columns(layer);
}

/* Bytes of the scales; those of so many numbers do not overflow. */
static size_t scale_bytes(const struct session_shape *shape, int64_t rows)
{
    if (shape->dtype != ATTN_I8)
        return 0;
    return (size_t)(shape->kv_heads * (session_page_groups(rows) * shape->head_dim + rows))
           * sizeof(float);
}

size_t session_shape_bytes(const struct session_shape *shape, int64_t rows)
{
    int64_t columns = 0, numbers = 0, bytes = 0;
    if (__builtin_add_overflow(shape->head_dim, shape->v_head_dim, &columns)
        || __builtin_mul_overflow(columns, shape->kv_heads, &numbers)
        || __builtin_mul_overflow(numbers, rows + ATTN_I8_ROWS, &bytes)
        || __builtin_mul_overflow(bytes, (int64_t)sizeof(float) + 4, &bytes))
        return 0;
    return (size_t)(numbers * rows) * attn_dtype_size(shape->dtype) + scale_bytes(shape, rows);
}

static size_t aligned(size_t bytes)
{
    return (bytes + PAGE_ALIGN - 1) / PAGE_ALIGN * PAGE_ALIGN;
}

static bool has_room(const struct session_budget *budget, size_t used, size_t bytes,
                     struct fault *fault)
{
    if (bytes <= budget->bytes_max && used <= budget->bytes_max - bytes)
        return true;
    if (bytes > budget->bytes_max)
        return fault_set(fault, FAULT_TOO_LARGE,
                         "%zu more bytes never have room: all sessions together may hold %zu "
                         "(--session-memory-max); send fewer rows",
                         bytes, budget->bytes_max);
    return fault_set(fault, FAULT_FULL,
                     "%zu more bytes have no room: all sessions hold %zu of the %zu that they "
                     "may (--session-memory-max); delete or truncate one, or wait until one ends",
                     bytes, used, budget->bytes_max);
}

bool session_budget_check(const struct session_budget *budget, size_t bytes, struct fault *fault)
{
    return has_room(budget, atomic_load(&budget->bytes), bytes, fault);
}

static bool budget_take(struct session_budget *budget, size_t bytes, struct fault *fault)
{
    size_t used = atomic_load(&budget->bytes);
    do {
        if (!has_room(budget, used, bytes, fault))
            return false;
    } while (!atomic_compare_exchange_weak(&budget->bytes, &used, used + bytes));
    metrics_gauge_add(METRICS_SESSION_BYTES, (int64_t)bytes);
    return true;
}

static void budget_give_back(struct session_budget *budget, size_t bytes)
{
    atomic_fetch_sub(&budget->bytes, bytes);
    metrics_gauge_add(METRICS_SESSION_BYTES, -(int64_t)bytes);
}

static bool account_take(struct access_account *account, size_t bytes, struct fault *fault)
{
    if (!account)
        return true;
    const size_t most = atomic_load(&account->session_bytes_max);
    size_t used = atomic_load(&account->session_bytes);
    do {
        if (most > 0 && bytes > most)
            return fault_set(fault, FAULT_TOO_LARGE,
                             "%zu more bytes never have room: the sessions of '%s' may hold %zu "
                             "(session-memory); send fewer rows",
                             bytes, account->name, most);
        if (most > 0 && used > most - bytes)
            return fault_set(fault, FAULT_QUOTA,
                             "%zu more bytes have no room: the sessions of '%s' hold %zu of the "
                             "%zu that they may (session-memory); delete or truncate one, or wait "
                             "until one ends",
                             bytes, account->name, used, most);
    } while (!atomic_compare_exchange_weak(&account->session_bytes, &used, used + bytes));
    return true;
}

static void account_give_back(struct access_account *account, size_t bytes)
{
    if (account)
        atomic_fetch_sub(&account->session_bytes, bytes);
}

size_t session_memory_free(const struct session_budget *budget,
                           const struct access_account *account)
{
    const size_t used = atomic_load(&budget->bytes);
    size_t left = used < budget->bytes_max ? budget->bytes_max - used : 0;
    const size_t most = account ? atomic_load(&account->session_bytes_max) : 0;
    const size_t own = account ? atomic_load(&account->session_bytes) : 0;
    if (most > 0 && left > (own < most ? most - own : 0))
        left = own < most ? most - own : 0;
    return left;
}

bool session_memory_take(struct session_budget *budget, struct access_account *account,
                         size_t bytes, struct fault *fault)
{
    if (!account_take(account, bytes, fault))
        return false;
    if (budget_take(budget, bytes, fault))
        return true;
    account_give_back(account, bytes);
    return false;
}

void session_memory_give_back(struct session_budget *budget, struct access_account *account,
                              size_t bytes)
{
    budget_give_back(budget, bytes);
    account_give_back(account, bytes);
}

/* ------------------------------------------------------------------------- pages -- */

int64_t session_page_rows(int64_t length, int64_t count)
{
    const int64_t most = length < SESSION_PAGE_ROWS_MAX ? length : SESSION_PAGE_ROWS_MAX;
    const int64_t wanted = most > count ? most : count;
    return wanted <= SESSION_PAGE_ROWS
               ? SESSION_PAGE_ROWS
               : (wanted + SESSION_PAGE_ROWS - 1) / SESSION_PAGE_ROWS * SESSION_PAGE_ROWS;
}

/* Where the numbers and scales of a page lie in data; returns their bytes. NULL: only that. */
static size_t lay_out(const struct session_shape *shape, struct session_page *page, char *data)
{
    const size_t heads = (size_t)(shape->kv_heads * page->rows);
    const size_t key_bytes = aligned(head_bytes(shape, shape->head_dim) * heads);
    const size_t value_bytes = aligned(head_bytes(shape, shape->v_head_dim) * heads);
    if (data) {
        page->key = data;
        page->value = data + key_bytes;
    }
    if (data && shape->dtype == ATTN_I8) {
        page->key_scale = (void *)(data + key_bytes + value_bytes);
        page->value_scale =
            page->key_scale + shape->kv_heads * session_page_groups(page->rows) * shape->head_dim;
    }
    return key_bytes + value_bytes + aligned(scale_bytes(shape, page->rows));
}

size_t session_page_bytes(const struct session_shape *shape, int64_t rows)
{
    struct session_page page = { .rows = rows };
    return lay_out(shape, &page, NULL);
}

void session_page_use_large(struct session_page *page)
{
    if (page->mapped_bytes > 0)
        madvise(page->key, page->mapped_bytes, MADV_HUGEPAGE); /* the kernel may refuse */
}

/* A page without numbers; its bytes are counted nowhere yet. */
static struct session_page *make_empty(struct session_budget *budget,
                                       const struct session_shape *shape, int64_t rows)
{
    struct session_page *page = calloc(1, sizeof *page);
    if (!page || session_shape_bytes(shape, rows) == 0) {
        free(page);
        return NULL;
    }
    page->budget = budget;
    page->holders = 1;
    page->rows = rows;
    page->dtype = shape->dtype;
    page->bytes = lay_out(shape, page, NULL);
    return page;
}

/* Memory of a page that is larger than a large one of the machine: what the kernel is told of its
 * own mapping holds for no other page. Until it asks for large pages it gets none, also where the
 * machine gives them to whoever does not refuse (transparent_hugepage/enabled is "always"). NULL:
 * there are too many mappings, or no memory. */
static char *map(struct session_page *page)
{
    void *data =
        mmap(NULL, page->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return NULL;
    madvise(data, page->bytes, MADV_NOHUGEPAGE);
    page->mapped_bytes = page->bytes;
    return data;
}

static bool allocate(const struct session_shape *shape, struct session_page *page)
{
    char *data = page->bytes > LARGE_BYTES ? map(page) : NULL;
    if (!data)
        data = aligned_alloc(PAGE_ALIGN, page->bytes);
    if (!data)
        return false;
    lay_out(shape, page, data);
    return true;
}

struct session_page *session_page_create(struct session_budget *budget,
                                         struct access_account *account,
                                         const struct session_shape *shape, int64_t rows,
                                         struct fault *fault)
{
    struct session_page *page = make_empty(budget, shape, rows);
    if (!page) {
        fault_no_memory(fault);
        return NULL;
    }
    if (!budget_take(budget, page->bytes, fault)) {
        free(page);
        return NULL;
    }
    if (!account_take(account, page->bytes, fault)) {
        budget_give_back(budget, page->bytes);
        free(page);
        return NULL;
    }
    if (!allocate(shape, page)) {
        session_memory_give_back(budget, account, page->bytes);
        free(page);
        fault_no_memory(fault);
        return NULL;
    }
    page->account = account ? access_account_hold(account) : NULL;
    return page;
}

struct session_page *session_page_create_from(const struct session_page *old,
                                              const struct session_shape *shape, int64_t rows)
{
    struct session_page *page = make_empty(old->budget, shape, rows);
    if (!page || !allocate(shape, page)) {
        free(page);
        return NULL;
    }
    session_page_use_large(page);
    page->bytes = 0;
    return page;
}

void session_page_take_over(struct session_page *page, const struct session_shape *shape,
                            struct session_page *old)
{
    page->bytes = session_page_bytes(shape, page->rows);
    old->bytes -= page->bytes;
    page->account = old->account ? access_account_hold(old->account) : NULL;
}

struct session_page *session_page_create_void(const struct session_shape *shape)
{
    /* Never written: the machine has one page for all of it. */
    static _Alignas(PAGE_ALIGN) char zeros[1 << 20];
    const int64_t columns =
        shape->head_dim > shape->v_head_dim ? shape->head_dim : shape->v_head_dim;
    const int64_t rows = (int64_t)(sizeof zeros / sizeof(float)) / columns;
    struct session_page *page = rows > 0 ? calloc(1, sizeof *page) : NULL;
    if (!page)
        return NULL;
    page->holders = 1;
    page->rows = rows;
    page->used = rows; /* nobody appends to it */
    page->is_void = true;
    page->dtype = shape->dtype;
    page->key = page->value = zeros;
    page->key_scale = page->value_scale = (float *)(void *)zeros;
    return page;
}

/* ------------------------------------------------------------------------ bounds -- */

struct session_bounds {
    pthread_mutex_t lock;
    int64_t made;   /* groups, from the first one on */
    float *rows;    /* [kv_heads][groups of the page][attn_bounds_columns()] */
    float *largest; /* [kv_heads][head_dim] */
    size_t bytes;
};

/* NULL: there is no room for them. */
static struct session_bounds *bounds_create(const struct session_page *page,
                                            const struct session_shape *shape)
{
    const int64_t groups = page->rows / ATTN_SELECT_KEYS;
    const size_t rows = (size_t)(shape->kv_heads * groups * attn_bounds_columns(shape->head_dim));
    const size_t largest = (size_t)(shape->kv_heads * shape->head_dim);
    const size_t bytes = (rows + largest) * sizeof(float) + sizeof(struct session_bounds);
    struct fault unused;
    if (!session_memory_take(page->budget, page->account, bytes, &unused))
        return NULL;
    struct session_bounds *bounds = calloc(1, sizeof *bounds);
    float *numbers = bounds ? calloc(rows + largest, sizeof *numbers) : NULL;
    if (!numbers) {
        free(bounds);
        session_memory_give_back(page->budget, page->account, bytes);
        return NULL;
    }
    pthread_mutex_init(&bounds->lock, NULL);
    bounds->rows = numbers;
    bounds->largest = numbers + rows;
    bounds->bytes = bytes;
    return bounds;
}

static void bounds_free(const struct session_page *page, struct session_bounds *bounds)
{
    if (!bounds)
        return;
    session_memory_give_back(page->budget, page->account, bounds->bytes);
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
    struct session_bounds *own = bounds_create(page, shape);
    if (!own || atomic_compare_exchange_strong(&page->bounds, &bounds, own))
        return own;
    bounds_free(page, own);
    return bounds;
}

bool session_page_bounds(struct session_page *page, const struct session_shape *shape,
                         const struct attn_tensor *key, int64_t first, int64_t count,
                         float *largest, struct attn_bounds *view)
{
    const int64_t columns = attn_bounds_columns(shape->head_dim);
    const int64_t groups = page->rows / ATTN_SELECT_KEYS;
    struct session_bounds *bounds = bounds_of(page, shape);
    if (!bounds)
        return false;
    pthread_mutex_lock(&bounds->lock);
    for (; bounds->made < count; bounds->made++)
        for (int64_t h = 0; h < shape->kv_heads; h++)
            attn_bounds_make(key, h, first + bounds->made * ATTN_SELECT_KEYS, ATTN_SELECT_KEYS,
                             NULL, bounds->rows + (h * groups + bounds->made) * columns,
                             bounds->largest + h * shape->head_dim);
    memcpy(largest, bounds->largest, (size_t)(shape->kv_heads * shape->head_dim) * sizeof *largest);
    pthread_mutex_unlock(&bounds->lock);
    *view = (struct attn_bounds){ .first = first,
                                  .group_count = count,
                                  .rows = bounds->rows,
                                  .head_stride = groups * columns,
                                  .largest = largest };
    return true;
}

void session_page_cut_bounds(struct session_page *page, int64_t row)
{
    struct session_bounds *bounds = atomic_load(&page->bounds);
    if (!bounds)
        return;
    pthread_mutex_lock(&bounds->lock);
    if (bounds->made > row / ATTN_SELECT_KEYS)
        bounds->made = row / ATTN_SELECT_KEYS;
    pthread_mutex_unlock(&bounds->lock);
}

size_t session_page_bytes_held(const struct session_page *page)
{
    const struct session_bounds *bounds = atomic_load(&page->bounds);
    return page->bytes + (bounds ? bounds->bytes : 0);
}

/* -------------------------------------------------------------------- references -- */

struct session_page *session_page_hold(struct session_page *page)
{
    atomic_fetch_add(&page->holders, 1);
    return page;
}

void session_page_release(struct session_page *page)
{
    if (!page || atomic_fetch_sub(&page->holders, 1) > 1)
        return;
    if (page->is_void) {
        free(page);
        return;
    }
    bounds_free(page, atomic_load(&page->bounds));
    session_memory_give_back(page->budget, page->account, page->bytes);
    access_account_release(page->account);
    if (page->mapped_bytes > 0)
        munmap(page->key, page->mapped_bytes);
    else
        free(page->key);
    free(page);
}

/* ------------------------------------------------------------------------ copies -- */

/* Rows of bytes bytes of each head. */
static void copy_side(int64_t heads, size_t bytes, void *to, int64_t to_rows, const void *from,
                      int64_t from_rows, int64_t row_count)
{
    for (int64_t h = 0; h < heads; h++)
        memcpy((char *)to + (size_t)(h * to_rows) * bytes,
               (const char *)from + (size_t)(h * from_rows) * bytes, (size_t)row_count * bytes);
}

static void copy_scales(const struct session_shape *shape, struct session_page *to, int64_t to_row,
                        const struct session_page *from, int64_t from_row, int64_t row_count)
{
    const int64_t columns = shape->head_dim;
    copy_side(shape->kv_heads, (size_t)columns * sizeof(float),
              to->key_scale + to_row / ATTN_I8_ROWS * columns, session_page_groups(to->rows),
              from->key_scale + from_row / ATTN_I8_ROWS * columns, session_page_groups(from->rows),
              session_page_groups(row_count));
    copy_side(shape->kv_heads, sizeof(float), to->value_scale + to_row, to->rows,
              from->value_scale + from_row, from->rows, row_count);
}

void session_page_copy(const struct session_shape *shape, struct session_page *to, int64_t to_row,
                       const struct session_page *from, int64_t from_row, int64_t row_count)
{
    const size_t key = (size_t)shape->head_dim * attn_dtype_size(to->dtype);
    const size_t value = (size_t)shape->v_head_dim * attn_dtype_size(to->dtype);
    copy_side(shape->kv_heads, key, to->key + (size_t)to_row * key, to->rows,
              from->key + (size_t)from_row * key, from->rows, row_count);
    copy_side(shape->kv_heads, value, to->value + (size_t)to_row * value, to->rows,
              from->value + (size_t)from_row * value, from->rows, row_count);
    if (to->dtype == ATTN_I8)
        copy_scales(shape, to, to_row, from, from_row, row_count);
}
