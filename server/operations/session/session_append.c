/* SPDX-License-Identifier: Apache-2.0 */
/* session_append.c - appending to the rows of a layer (session_rows.h), and the groups of I8.
 *
 * Where the new positions go: into the last page, where it has room behind the rows of all sessions
 * that see it; into a larger copy of it, where it is small and this session's alone, so that a
 * cache of n positions has few pages; else into a new page, as large as what will probably follow
 * or, where that has no room, as the append. A page of more than COPIED_ROWS_MAX is not small: the
 * row that would move it waits for the copies of all layers. Rows of I8 come in F32 and become
 * groups when the append ends. */
#include "operations/session/session_rows.h"
#include "quantize.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COPIED_ROWS_MAX = 512 };

/* ------------------------------------------------------------------ room for rows -- */

/* Takes the right to write count rows from row `row` of the page of part i on, behind its rows that
 * are there; false: rows there are another session's, or being written, or the page has none. */
static bool claim_rows(struct session_rows *rows, int64_t i, int64_t row, int64_t count)
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

/* Positions at the end that are in pages of this session alone: what a fork begins with is small,
 * however long the beginning that it shares. */
static int64_t own_length(const struct session_rows *rows)
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
           && claim_rows(rows, last, rows->parts[last].row + session_rows_part_length(rows, last),
                         count);
}

/* Whether a page of this part could move into a larger one: others would keep the old one. */
static bool is_small_and_alone(const struct session_rows *rows, const struct session_part *part)
{
    return part->row == 0 && !part->page->is_void && part->page->rows <= COPIED_ROWS_MAX
           && part->page->rows < session_rows_page_rows_max(rows)
           && atomic_load(&part->page->holders) == 1;
}

/* Whether a page of fewer rows may be had where one could not be made with this fault. */
static bool may_take_less(const struct fault *fault)
{
    return fault->code == FAULT_FULL || fault->code == FAULT_QUOTA
           || fault->code == FAULT_TOO_LARGE;
}

/* Rows of a new page for count of them, beside those that will probably follow. */
static int64_t new_page_rows(const struct session_rows *rows, int64_t expected, int64_t count)
{
    const int64_t most = session_rows_page_rows_max(rows);
    return session_page_rows(expected < most ? expected : most, count);
}

/* A page that rows can be appended to. */
static struct session_page *make_page(struct session_rows *rows, struct session_budget *budget,
                                      int64_t count, struct fault *fault)
{
    return session_rows_make_page(rows, session_dtype_of_appends(rows->shape.dtype), budget, count,
                                  fault);
}

/* The last page's rows move into a page with room for count more. */
static bool grow_last(struct session_rows *rows, struct session_budget *budget, int64_t count,
                      struct fault *fault)
{
    struct session_part *part = &rows->parts[rows->part_count - 1];
    const int64_t there = session_rows_part_length(rows, rows->part_count - 1);
    struct session_page *page =
        make_page(rows, budget, new_page_rows(rows, 2 * there, there + count), fault);
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
    return rows->shape.dtype == ATTN_I8 ? 0 : own_length(rows);
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
    if (!session_rows_reserve(rows, 1, fault))
        return false;
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
    const bool grows =
        takes_rows(rows) && is_small_and_alone(rows, &rows->parts[rows->part_count - 1]);
    if (grows ? grow_last(rows, budget, count, fault)
              : add_part(rows, budget, new_page_rows(rows, expected(rows), count), fault))
        return true;
    return may_take_less(fault) && add_part(rows, budget, session_page_rows(0, count), fault);
}

/* ---------------------------------------------------------------- room for groups -- */

/* Channels of a group that are brought together at a time. */
enum { PIECE = 64 };

/* The first part in F32 behind all groups, or part_count. */
static int64_t first_float_part(const struct session_rows *rows)
{
    int64_t i = rows->part_count;
    while (i > 0 && rows->parts[i - 1].page->dtype != ATTN_I8)
        i--;
    return i;
}

static int64_t first_float(const struct session_rows *rows)
{
    const int64_t i = first_float_part(rows);
    return i < rows->part_count ? rows->parts[i].first : rows->length;
}

/* The row of a key or value at a position in F32, of one head. */
static const float *row_at(const struct session_rows *rows, bool is_value, int64_t head,
                           int64_t position)
{
    const struct session_part *part = session_rows_part(rows, position);
    const int64_t at = head * part->page->rows + part->row + position - part->first;
    return is_value ? (const float *)(void *)part->page->value + at * rows->shape.v_head_dim
                    : (const float *)(void *)part->page->key + at * rows->shape.head_dim;
}

static int64_t whole_groups(int64_t rows)
{
    return rows / ATTN_I8_ROWS * ATTN_I8_ROWS;
}

/* Behind the groups that are there, in their page. A group that was truncated ends where the next
 * would begin. */
static bool claim_behind(struct session_rows *rows, int64_t last)
{
    struct session_groups *groups = &rows->groups;
    const struct session_part *part = &rows->parts[last];
    const int64_t end = part->row + session_rows_part_length(rows, last);
    const int64_t row = whole_groups(end + ATTN_I8_ROWS - 1);
    if (!claim_rows(rows, last, row, groups->rows))
        return false;
    groups->page = session_page_hold(part->page);
    groups->row = row;
    groups->is_part = row == end;
    return true;
}

/* A page of count positions for groups, which is to be written; its first `there` rows are those of
 * part last. */
static bool groups_make_page(struct session_rows *rows, struct session_budget *budget, int64_t last,
                             int64_t there, int64_t count, struct fault *fault)
{
    struct session_groups *groups = &rows->groups;
    groups->page = session_rows_make_page(rows, ATTN_I8, budget, count, fault);
    if (!groups->page)
        return false;
    groups->row = there;
    atomic_store(&groups->page->used, there);
    atomic_store(&groups->page->appender, rows);
    if (there == 0)
        return true;
    session_page_copy(&rows->shape, groups->page, 0, rows->parts[last].page, 0, there);
    session_page_release(rows->parts[last].page);
    rows->parts[last].page = session_page_hold(groups->page);
    groups->is_part = true;
    return true;
}

/* As large as what will probably follow, or, where that has no room, as the groups. */
static bool groups_make_room(struct session_rows *rows, struct session_budget *budget, int64_t last,
                             struct fault *fault)
{
    const int64_t count = rows->groups.rows;
    const int64_t whole = last >= 0 ? session_rows_part_length(rows, last) : 0;
    const bool grows =
        last >= 0 && whole == whole_groups(whole) && is_small_and_alone(rows, &rows->parts[last]);
    const int64_t there = grows ? whole : 0;
    const int64_t length = grows ? 2 * there : own_length(rows);
    return groups_make_page(rows, budget, last, there, new_page_rows(rows, length, there + count),
                            fault)
           || (may_take_less(fault)
               && groups_make_page(rows, budget, last, 0, session_page_rows(0, count), fault));
}

static bool groups_make_rest(struct session_rows *rows, struct session_budget *budget,
                             int64_t count, struct fault *fault)
{
    if (count == 0)
        return true;
    rows->groups.rest = session_rows_make_page(rows, ATTN_F32, budget, SESSION_PAGE_ROWS, fault);
    return rows->groups.rest != NULL;
}

static bool groups_begin(struct session_rows *rows, struct session_budget *budget,
                         struct fault *fault)
{
    struct session_groups *groups = &rows->groups;
    *groups = (struct session_groups){ .rows = 0 };
    if (rows->shape.dtype != ATTN_I8)
        return true;
    const int64_t floats = rows->length + rows->appended - first_float(rows);
    const int64_t last = first_float_part(rows) - 1;
    groups->rows = rows->appended > 0 ? whole_groups(floats) : 0;
    if (groups->rows == 0)
        return true;
    if (!session_rows_reserve(rows, 2, fault)
        || !groups_make_rest(rows, budget, floats - groups->rows, fault))
        return false;
    return (last >= 0 && claim_behind(rows, last)) || groups_make_room(rows, budget, last, fault);
}

bool session_rows_add_groups(struct session_rows *rows, struct session_budget *budget,
                             const int64_t *lengths, int64_t count, struct fault *fault)
{
    if (!session_rows_reserve(rows, count, fault))
        return false;
    rows->bytes_taken = rows->bytes_wanted = 0; /* what earlier ones took stays */
    struct session_page *page =
        session_rows_make_page(rows, ATTN_I8, budget, count * ATTN_I8_ROWS, fault);
    if (!page)
        return false;
    session_page_use_large(page);
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || lengths[i - 1] < ATTN_I8_ROWS)
            rows->parts[rows->part_count++] =
                (struct session_part){ rows->length, i * ATTN_I8_ROWS, session_page_hold(page) };
        rows->length += lengths[i];
    }
    atomic_store(&page->used, (count - 1) * ATTN_I8_ROWS + lengths[count - 1]);
    session_page_release(page);
    return true;
}

/* ---------------------------------------------------------- the numbers of groups -- */

/* ATTN_I8_ROWS keys of a head from a position on, into the page from row to on. */
static void make_keys(const struct session_rows *rows, int64_t head, int64_t position, int64_t to)
{
    const struct session_page *page = rows->groups.page;
    const int64_t columns = rows->shape.head_dim;
    const int64_t group = head * (page->rows / ATTN_I8_ROWS) + to / ATTN_I8_ROWS;
    int8_t *numbers = (int8_t *)page->key + (head * page->rows + to) * columns;
    float together[ATTN_I8_ROWS * PIECE];
    for (int64_t d = 0; d < columns; d += PIECE) {
        const int64_t n = columns - d < PIECE ? columns - d : PIECE;
        for (int64_t i = 0; i < ATTN_I8_ROWS; i++)
            memcpy(together + i * PIECE, row_at(rows, false, head, position + i) + d,
                   (size_t)n * sizeof(float));
        attn_quantize_channels(numbers + d, columns, page->key_scale + group * columns + d,
                               together, PIECE, ATTN_I8_ROWS, n);
    }
}

static void make_value(const struct session_rows *rows, int64_t head, int64_t position, int64_t to)
{
    const struct session_page *page = rows->groups.page;
    const int64_t columns = rows->shape.v_head_dim;
    const int64_t at = head * page->rows + to;
    attn_quantize_rows((int8_t *)page->value + at * columns, columns, page->value_scale + at,
                       row_at(rows, true, head, position), columns, 1, columns);
}

static void make_all(const struct session_rows *rows, int64_t first)
{
    const struct session_groups *groups = &rows->groups;
    for (int64_t h = 0; h < rows->shape.kv_heads; h++) {
        for (int64_t i = 0; i < groups->rows; i += ATTN_I8_ROWS)
            make_keys(rows, h, first + i, groups->row + i);
        for (int64_t i = 0; i < groups->rows; i++)
            make_value(rows, h, first + i, groups->row + i);
    }
}

static void copy_rest(const struct session_rows *rows, int64_t first)
{
    for (int64_t position = first; position < rows->length; position++) {
        const struct session_part *part = session_rows_part(rows, position);
        session_page_copy(&rows->shape, rows->groups.rest, position - first, part->page,
                          part->row + position - part->first, 1);
    }
    atomic_store(&rows->groups.rest->used, rows->length - first);
}

/* The groups and the rest take the place of what was F32. */
static void replace_parts(struct session_rows *rows, int64_t first)
{
    struct session_groups *groups = &rows->groups;
    const int64_t floats = first_float_part(rows);
    while (rows->part_count > floats)
        session_page_release(rows->parts[--rows->part_count].page);
    atomic_store(&groups->page->used, groups->row + groups->rows);
    if (!groups->is_part)
        rows->parts[rows->part_count++] =
            (struct session_part){ first, groups->row, session_page_hold(groups->page) };
    if (groups->rest)
        rows->parts[rows->part_count++] =
            (struct session_part){ first + groups->rows, 0, session_page_hold(groups->rest) };
}

static void groups_end(struct session_rows *rows, bool keeps)
{
    struct session_groups *groups = &rows->groups;
    const int64_t first = first_float(rows);
    if (keeps && groups->rows > 0) {
        make_all(rows, first);
        if (groups->rest)
            copy_rest(rows, first + groups->rows);
        replace_parts(rows, first);
    }
    void *self = rows;
    if (groups->page)
        atomic_compare_exchange_strong(&groups->page->appender, &self, NULL);
    session_page_release(groups->page);
    session_page_release(groups->rest);
    *groups = (struct session_groups){ .rows = 0 };
}

/* ---------------------------------------------------------------------- an append -- */

bool session_rows_begin(struct session_rows *rows, struct session_budget *budget, int64_t count,
                        struct fault *fault)
{
    if (rows->is_state)
        return session_state_begin(rows, budget, count, fault);
    rows->has_more = false;
    rows->bytes_taken = rows->bytes_wanted = 0;
    rows->appended = count;
    rows->is_appending = true;
    /* A cache without positions has a page too, so that its view has an address. */
    const bool good =
        (rows->part_count > 0 || count > 0 ? make_room(rows, budget, count, fault)
                                           : add_part(rows, budget, SESSION_PAGE_ROWS, fault))
        && groups_begin(rows, budget, fault) && session_rows_make_view(rows, fault);
    if (!good) {
        session_rows_end(rows, false);
        return false;
    }
    fault->code = FAULT_NONE;
    return true;
}

void session_rows_end(struct session_rows *rows, bool keeps)
{
    if (!rows->is_appending)
        return;
    if (rows->is_state) {
        session_state_end(rows, keeps);
        return;
    }
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
            session_page_release(rows->parts[--rows->part_count].page);
    }
    rows->appended = 0;
    groups_end(rows, has_groups);
    session_rows_free_view(rows);
}

static bool is_finite(const float *row, int64_t columns)
{
    float sum = 0;
    for (int64_t d = 0; d < columns; d++)
        sum += row[d] * 0.0f;
    return sum == 0.0f;
}

bool session_rows_check_finite(const struct session_rows *rows, struct fault *fault)
{
    const struct session_shape *shape = &rows->shape;
    for (int64_t i = 0; shape->dtype == ATTN_I8 && i < rows->appended; i++)
        for (int64_t h = 0; h < shape->kv_heads; h++) {
            const bool has_key = is_finite(row_at(rows, false, h, rows->length + i), //
                                           shape->head_dim);
            if (has_key && is_finite(row_at(rows, true, h, rows->length + i), shape->v_head_dim))
                continue;
            return fault_set(fault, FAULT_NONFINITE,
                             "the %s of row %" PRId64 " of the call has a number that is not "
                             "finite, which int8 cannot hold; send finite numbers, or make a "
                             "session of another dtype",
                             has_key ? "value" : "key", i);
        }
    return true;
}

/* ------------------------------------------------------------------------ retries -- */

/* Whether the number becomes this one: one that is too large for the scale had another. */
static bool matches(float number, float scale, int8_t quantized)
{
    const bool is_normal = scale >= FLT_MIN;
    return attn_quantize(number, scale) == quantized
           && (scale > 0.0f || number == 0.0f || fabsf(number) < FLT_MIN)
           && (!is_normal || fabsf(number) / scale < 127.5f);
}

static bool is_same_value(const float *value, int64_t columns, const int8_t *quantized, float scale)
{
    float own_scale;
    int8_t number;
    for (int64_t c = 0; c < columns; c++)
        if (!matches(value[c], scale, quantized[c]))
            return false;
    float greatest = 0.0f;
    for (int64_t c = 0; c < columns; c++)
        greatest = fabsf(value[c]) > greatest ? fabsf(value[c]) : greatest;
    attn_quantize_rows(&number, 1, &own_scale, &greatest, 1, 1, 1);
    return own_scale == scale;
}

static bool groups_match(const struct session_shape *shape, const struct session_page *page,
                         int64_t row, const struct session_page *group, int64_t group_row,
                         int64_t head)
{
    const int64_t columns = shape->head_dim, v_columns = shape->v_head_dim;
    const int64_t at = head * page->rows + row, group_at = head * group->rows + group_row;
    const float *key = (const float *)(void *)page->key + at * columns;
    const int8_t *numbers = (const int8_t *)group->key + group_at * columns;
    const float *scale =
        group->key_scale
        + (head * (group->rows / ATTN_I8_ROWS) + group_row / ATTN_I8_ROWS) * columns;
    for (int64_t d = 0; d < columns; d++)
        if (!matches(key[d], scale[d], numbers[d]))
            return false;
    return is_same_value((const float *)(void *)page->value + at * v_columns, v_columns,
                         (const int8_t *)group->value + group_at * v_columns,
                         group->value_scale[group_at]);
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
        return groups_match(&a->shape, one->page, row, other->page, other_row, head);
    return memcmp(one->page->key + at * key, other->page->key + other_at * key, key) == 0
           && memcmp(one->page->value + at * value, other->page->value + other_at * value, value)
                  == 0;
}

bool session_rows_equal(const struct session_rows *a, const struct session_rows *b, int64_t first,
                        int64_t end)
{
    if (a->is_state)
        return session_state_equal(a, b, end);
    for (int64_t position = first; position < end; position++)
        for (int64_t head = 0; head < a->shape.kv_heads; head++)
            if (!is_same_head(a, b, position, head))
                return false;
    return true;
}
