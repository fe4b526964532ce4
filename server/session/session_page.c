/* session_page.c - see session_page.h. */
#include "session/session_page.h"

#include "watch/metrics.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_ALIGN = 64 };

static size_t head_bytes(const struct session_shape *shape, int64_t columns)
{
    return (size_t)columns * attn_dtype_size(shape->dtype);
}

size_t session_shape_row_bytes(const struct session_shape *shape)
{
    int64_t columns = 0, numbers = 0, bytes = 0;
    if (__builtin_add_overflow(shape->head_dim, shape->v_head_dim, &columns)
        || __builtin_mul_overflow(columns, shape->kv_heads, &numbers)
        || __builtin_mul_overflow(numbers, (int64_t)attn_dtype_size(shape->dtype), &bytes))
        return 0;
    return (size_t)bytes;
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
    return fault_set(fault, FAULT_MEMORY,
                     "%zu more bytes of keys and values have no room: all sessions hold %zu "
                     "of the %zu that they may (--session-memory-max); delete or truncate "
                     "one, or wait until one ends",
                     bytes, used, budget->bytes_max);
}

bool session_budget_check(const struct session_budget *budget, size_t bytes, struct fault *fault)
{
    return has_room(budget, atomic_load(&budget->bytes), bytes, fault);
}

static bool reserve(struct session_budget *budget, size_t bytes, struct fault *fault)
{
    size_t used = atomic_load(&budget->bytes);
    do {
        if (!has_room(budget, used, bytes, fault))
            return false;
    } while (!atomic_compare_exchange_weak(&budget->bytes, &used, used + bytes));
    metrics_gauge_add(METRICS_SESSION_BYTES, (int64_t)bytes);
    return true;
}

static void give_back(struct session_budget *budget, size_t bytes)
{
    atomic_fetch_sub(&budget->bytes, bytes);
    metrics_gauge_add(METRICS_SESSION_BYTES, -(int64_t)bytes);
}

struct session_page *session_page_create(struct session_budget *budget,
                                         const struct session_shape *shape, int64_t rows,
                                         struct fault *fault)
{
    const size_t row_bytes = session_shape_row_bytes(shape);
    size_t bytes;
    if (row_bytes == 0 || __builtin_mul_overflow(row_bytes, (size_t)rows, &bytes)
        || bytes > SIZE_MAX / 2)
        return fault_no_memory(fault), NULL;
    const size_t key_bytes =
        aligned(head_bytes(shape, shape->head_dim) * (size_t)(shape->kv_heads * rows));
    const size_t whole =
        key_bytes
        + aligned(head_bytes(shape, shape->v_head_dim) * (size_t)(shape->kv_heads * rows));
    if (!reserve(budget, whole, fault))
        return NULL;
    struct session_page *page = calloc(1, sizeof *page);
    char *data = page ? aligned_alloc(PAGE_ALIGN, whole) : NULL;
    if (!data) {
        free(page);
        give_back(budget, whole);
        fault_no_memory(fault);
        return NULL;
    }
    page->budget = budget;
    page->holders = 1;
    page->rows = rows;
    page->bytes = whole;
    page->key = data;
    page->value = data + key_bytes;
    return page;
}

bool session_page_charge(struct session_page *page, struct access_account *account,
                         struct fault *fault)
{
    if (!account)
        return true;
    const size_t most = atomic_load(&account->session_bytes_max);
    size_t used = atomic_load(&account->session_bytes);
    do {
        if (most > 0 && (page->bytes > most || used > most - page->bytes))
            return fault_set(fault, FAULT_QUOTA,
                             "%zu more bytes of keys and values have no room: the sessions of "
                             "'%s' hold %zu of the %zu that they may (session-memory); delete or "
                             "truncate one, or wait until one ends",
                             page->bytes, account->name, used, most);
    } while (!atomic_compare_exchange_weak(&account->session_bytes, &used, used + page->bytes));
    page->account = access_account_hold(account);
    return true;
}

struct session_page *session_page_hold(struct session_page *page)
{
    atomic_fetch_add(&page->holders, 1);
    return page;
}

void session_page_release(struct session_page *page)
{
    if (!page || atomic_fetch_sub(&page->holders, 1) > 1)
        return;
    give_back(page->budget, page->bytes);
    if (page->account)
        atomic_fetch_sub(&page->account->session_bytes, page->bytes);
    access_account_release(page->account);
    free(page->key);
    free(page);
}

static void copy_side(const struct session_shape *shape, int64_t columns, char *to, int64_t to_rows,
                      const char *from, int64_t from_rows, int64_t row_count)
{
    const size_t bytes = head_bytes(shape, columns);
    for (int64_t h = 0; h < shape->kv_heads; h++)
        memcpy(to + (size_t)(h * to_rows) * bytes, from + (size_t)(h * from_rows) * bytes,
               (size_t)row_count * bytes);
}

void session_page_copy(const struct session_shape *shape, struct session_page *to, int64_t to_row,
                       const struct session_page *from, int64_t from_row, int64_t row_count)
{
    const size_t key = head_bytes(shape, shape->head_dim);
    const size_t value = head_bytes(shape, shape->v_head_dim);
    copy_side(shape, shape->head_dim, to->key + (size_t)to_row * key, to->rows,
              from->key + (size_t)from_row * key, from->rows, row_count);
    copy_side(shape, shape->v_head_dim, to->value + (size_t)to_row * value, to->rows,
              from->value + (size_t)from_row * value, from->rows, row_count);
}
