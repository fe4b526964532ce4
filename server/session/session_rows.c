/* session_rows.c - see session_rows.h.
 *
 * Where the new positions go: into the last page, where it has room behind the rows of all sessions
 * that see it; into a larger copy of it, where it is small and this session's alone, so that a
 * cache of n positions has few pages; else into a new page, as large as what will probably follow
 * or, where that has no room, as the append. Rows of I8 come in F32 and become groups when the
 * append ends (session_groups.h). */
#include "session/session_rows.h"

#include "session/session_groups.h"
#include "session/session_view.h"

#include <stdlib.h>
#include <string.h>

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
    session_view_free(rows);
    *rows = (struct session_rows){ .length = 0 };
}

/* ------------------------------------------------------------------ room for an append -- */

bool session_rows_claim(struct session_rows *rows, int64_t i, int64_t row, int64_t count)
{
    struct session_part *part = &rows->parts[i];
    const int64_t end = part->row + session_rows_part_length(rows, i);
    void *nobody = NULL;
    if (part->page->is_void || part->page->rows - row < count
        || !atomic_compare_exchange_strong(&part->page->appender, &nobody, rows))
        return false;
    if (atomic_load(&part->page->holders) == 1)
        atomic_store(&part->page->used, end); /* rows of a fork that has ended may lie behind */
    if (atomic_load(&part->page->used) == end) {
        session_page_cut_bounds(part->page, end);
        return true;
    }
    atomic_store(&part->page->appender, NULL);
    return false;
}

int64_t session_rows_own_length(const struct session_rows *rows)
{
    int64_t first = rows->length;
    for (int64_t i = rows->part_count - 1;
         i >= 0 && !rows->parts[i].page->is_void && atomic_load(&rows->parts[i].page->holders) == 1;
         i--)
        first = rows->parts[i].first;
    return rows->length - first;
}

/* Whether rows may be appended to the page of the last part, or to a larger copy of it: groups of
 * I8 are complete. */
static bool takes_rows(const struct session_rows *rows)
{
    return rows->part_count > 0
           && (rows->shape.dtype != ATTN_I8
               || rows->parts[rows->part_count - 1].page->dtype != ATTN_I8);
}

static bool claim_end(struct session_rows *rows, int64_t count)
{
    const int64_t last = rows->part_count - 1;
    return takes_rows(rows)
           && session_rows_claim(
               rows, last, rows->parts[last].row + session_rows_part_length(rows, last), count);
}

int64_t session_rows_page_rows_max(const struct session_rows *rows)
{
    return rows->page_rows_max > 0 ? rows->page_rows_max : SESSION_PAGE_ROWS_MAX;
}

static bool last_is_small_and_alone(const struct session_rows *rows)
{
    const struct session_part *part = &rows->parts[rows->part_count - 1];
    return part->row == 0 && !part->page->is_void
           && part->page->rows < session_rows_page_rows_max(rows)
           && atomic_load(&part->page->holders) == 1;
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

bool session_rows_may_take_less(const struct fault *fault)
{
    return fault->code == FAULT_FULL || fault->code == FAULT_QUOTA
           || fault->code == FAULT_TOO_LARGE;
}

/* A page that rows can be appended to. */
static struct session_page *make_page(struct session_rows *rows, struct session_budget *budget,
                                      int64_t count, struct fault *fault)
{
    return session_rows_make_page(rows, session_dtype_of_appends(rows->shape.dtype), budget, count,
                                  fault);
}

int64_t session_rows_page_rows(const struct session_rows *rows, int64_t expected, int64_t count)
{
    const int64_t most = session_rows_page_rows_max(rows);
    return session_page_rows(expected < most ? expected : most, count);
}

/* The last page's rows move into a page with room for count more. */
static bool grow_last(struct session_rows *rows, struct session_budget *budget, int64_t count,
                      struct fault *fault)
{
    struct session_part *part = &rows->parts[rows->part_count - 1];
    const int64_t there = session_rows_part_length(rows, rows->part_count - 1);
    struct session_page *page =
        make_page(rows, budget, session_rows_page_rows(rows, 2 * there, there + count), fault);
    if (!page)
        return false;
    session_page_copy(&rows->shape, page, 0, part->page, 0, there);
    atomic_store(&page->used, there);
    atomic_store(&page->appender, rows);
    session_page_release(part->page);
    part->page = page;
    rows->bytes_taken = 0; /* it stays */
    return true;
}

/* How much an append will probably follow: what is F32 beside I8 stays less than a group. */
static int64_t expected(const struct session_rows *rows)
{
    return rows->shape.dtype == ATTN_I8 ? 0 : session_rows_own_length(rows);
}

static bool last_is_full(const struct session_rows *rows)
{
    const struct session_part *last = &rows->parts[rows->part_count - 1];
    return last->row + rows->length - last->first == last->page->rows;
}

/* A new page of count positions behind the last one. */
static bool add_part(struct session_rows *rows, struct session_budget *budget, int64_t count,
                     struct fault *fault)
{
    struct session_part *parts =
        realloc(rows->parts, (size_t)(rows->part_count + 1) * sizeof *parts);
    if (!parts)
        return fault_no_memory(fault);
    rows->parts = parts;
    struct session_page *page = make_page(rows, budget, count, fault);
    if (!page)
        return false;
    atomic_store(&page->appender, rows);
    if (rows->part_count > 0 && last_is_full(rows))
        session_page_use_large(rows->parts[rows->part_count - 1].page);
    rows->parts[rows->part_count++] = (struct session_part){ rows->length, 0, page };
    rows->has_more = true;
    return true;
}

static bool make_room(struct session_rows *rows, struct session_budget *budget, int64_t count,
                      struct fault *fault)
{
    if (count == 0 || claim_end(rows, count))
        return true;
    const bool grows = takes_rows(rows) && last_is_small_and_alone(rows);
    if (grows ? grow_last(rows, budget, count, fault)
              : add_part(rows, budget, session_rows_page_rows(rows, expected(rows), count), fault))
        return true;
    return session_rows_may_take_less(fault)
           && add_part(rows, budget, session_page_rows(0, count), fault);
}

bool session_rows_begin(struct session_rows *rows, struct session_budget *budget, int64_t count,
                        struct fault *fault)
{
    rows->has_more = false;
    rows->bytes_taken = rows->bytes_wanted = 0;
    rows->appended = count;
    rows->is_appending = true;
    /* A cache without positions has a page too, so that its view has an address. */
    const bool good =
        (rows->part_count > 0 || count > 0 ? make_room(rows, budget, count, fault)
                                           : add_part(rows, budget, SESSION_PAGE_ROWS, fault))
        && session_groups_begin(rows, budget, fault) && session_view_make(rows, fault);
    if (!good) {
        session_rows_end(rows, false);
        return false;
    }
    fault->code = FAULT_NONE;
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
    const bool has_groups = keeps && rows->appended > 0;
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
    session_groups_end(rows, has_groups);
    session_view_free(rows);
}

/* ------------------------------------------------------------------- other verbs -- */

void session_rows_truncate(struct session_rows *rows, int64_t length)
{
    if (length >= rows->length)
        return;
    rows->length = length;
    while (rows->part_count > 0 && rows->parts[rows->part_count - 1].first >= length)
        drop_last(rows);
    if (rows->dropped > length)
        rows->dropped = length > rows->dropped_from ? length : 0;
}

bool session_rows_fork(const struct session_rows *rows, struct session_rows *copy)
{
    *copy = (struct session_rows){ .shape = rows->shape,
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

/* -------------------------------------------------------------------------- what is there -- */

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

static bool is_same_head(const struct session_rows *a, const struct session_rows *b,
                         int64_t position, int64_t head)
{
    const struct session_part *one = session_rows_part(a, position);
    const struct session_part *other = session_rows_part(b, position);
    const size_t bytes = attn_dtype_size(one->page->dtype);
    const size_t key = bytes * (size_t)a->shape.head_dim;
    const size_t value = bytes * (size_t)a->shape.v_head_dim;
    const int64_t row = one->row + position - one->first;
    const int64_t other_row = other->row + position - other->first;
    const size_t at = (size_t)(head * one->page->rows + row);
    const size_t other_at = (size_t)(head * other->page->rows + other_row);
    if (other->page->dtype == ATTN_I8)
        return session_groups_match(&a->shape, one->page, row, other->page, other_row, head);
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
