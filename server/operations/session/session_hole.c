/* SPDX-License-Identifier: Apache-2.0 */
/* session_hole.c - the hole of evicted positions in the parts of a layer, and the copies of what
 * is kept beside it. */
#include "operations/session/session_rows.h"

#include <string.h>

/* What becomes of parts [i, j], which have positions first and end. */
struct cut {
    int64_t first, end; /* of the hole */
    int64_t i, j;
    struct session_page *before; /* a copy of the positions of part i before first; NULL: none */
    struct session_page *behind; /* a copy of those of part j from end on; NULL: none */
};

static int64_t whole_pages(int64_t rows)
{
    return (rows + SESSION_PAGE_ROWS - 1) / SESSION_PAGE_ROWS * SESSION_PAGE_ROWS;
}

/* The last position that may be the hole's end: one stays, and rows in F32 of a cache of I8 are to
 * become a group. */
static int64_t end_max(const struct session_rows *rows)
{
    int64_t i = rows->part_count;
    while (i > 0 && rows->parts[i - 1].page->dtype != rows->shape.dtype)
        i--;
    return i < rows->part_count ? rows->parts[i].first : rows->length - 1;
}

/* ------------------------------------------------------------------------- copies -- */

static struct session_shape shape_of(const struct session_rows *rows,
                                     const struct session_page *page)
{
    struct session_shape shape = rows->shape;
    shape.dtype = page->dtype;
    return shape;
}

/* A page of count positions of a part from one of them on. NULL: there is no room, or no memory. */
static struct session_page *copy_rows(struct session_rows *rows, const struct session_part *part,
                                      int64_t position, int64_t count)
{
    struct session_page *from = part->page;
    const struct session_shape shape = shape_of(rows, from);
    struct fault fault = { .code = FAULT_NONE };
    struct session_page *page =
        atomic_load(&from->holders) == 1
            ? session_page_create_from(from, &shape, whole_pages(count))
            : session_rows_make_page(rows, from->dtype, from->budget, whole_pages(count), &fault);
    if (!page)
        return NULL;
    session_page_copy(&shape, page, 0, from, part->row + position - part->first, count);
    atomic_store(&page->used, count);
    return page;
}

/* What part i has before the hole, where its page is larger than that needs. */
static void copy_before(struct session_rows *rows, struct cut *cut)
{
    const struct session_part *part = &rows->parts[cut->i];
    const int64_t count = cut->first - part->first;
    if (count > 0 && part->page->rows > whole_pages(count))
        cut->before = copy_rows(rows, part, part->first, count);
}

/* What part j has from `gone` rows on, and what it has before the hole. */
static void copy_both(struct session_rows *rows, struct cut *cut, int64_t gone)
{
    const struct session_part *part = &rows->parts[cut->j];
    const int64_t there = session_rows_part_length(rows, cut->j);
    const bool has_both = cut->i == cut->j && cut->first > part->first;
    cut->behind = copy_rows(rows, part, part->first + gone, there - gone);
    if (has_both && cut->behind)
        copy_before(rows, cut);
    if (has_both && !cut->before) {
        session_page_release(cut->behind);
        cut->behind = NULL;
    }
    if (cut->behind)
        cut->end = part->first + gone;
}

/* The hole ends where a part begins, or within one that is large beside what is kept of it. */
static void find_end(struct session_rows *rows, struct cut *cut, int64_t end)
{
    const struct session_part *part = &rows->parts[cut->j];
    const int64_t there = session_rows_part_length(rows, cut->j);
    const int64_t step = part->page->dtype == ATTN_I8 ? ATTN_I8_ROWS : 1;
    const int64_t gone = (end - part->first) / step * step;
    const int64_t before = cut->i == cut->j ? cut->first - part->first : 0;
    const int64_t kept = before + there - gone;
    cut->end = part->first;
    if (gone > before && part->page->rows > session_rows_page_rows_max(rows)
        && kept <= part->page->rows / 2
        && whole_pages(before) + whole_pages(there - gone) < part->page->rows)
        copy_both(rows, cut, gone);
    if (cut->i < cut->j)
        copy_before(rows, cut);
}

/* ---------------------------------------------------------------------- the parts -- */

/* The part from a position on: the copy, which counts in place of a freed page, or the page. */
static struct session_part part_of(const struct session_rows *rows, int64_t position,
                                   struct session_page *copy, const struct session_part *from)
{
    const struct session_shape shape = shape_of(rows, from->page);
    if (!copy)
        return (struct session_part){ position, from->row, session_page_hold(from->page) };
    if (copy->bytes == 0)
        session_page_take_over(copy, &shape, from->page);
    return (struct session_part){ position, 0, copy };
}

/* Positions before the hole, in a page that is not larger than they need. */
static void shrink(struct session_rows *rows, int64_t i)
{
    struct session_part *part = &rows->parts[i], old = *part;
    const int64_t count = session_rows_part_length(rows, i);
    struct session_page *copy =
        old.page->rows > whole_pages(count) ? copy_rows(rows, part, part->first, count) : NULL;
    if (!copy)
        return;
    *part = part_of(rows, old.first, copy, &old);
    session_page_release(old.page);
}

static void replace(struct session_rows *rows, const struct cut *cut, struct session_page *zeros)
{
    const struct session_part *first = &rows->parts[cut->i], *last = &rows->parts[cut->j];
    struct session_part parts[3];
    int64_t count = 0;
    if (first->first < cut->first)
        parts[count++] = part_of(rows, first->first, cut->before, first);
    parts[count++] = (struct session_part){ cut->first, 0, zeros };
    parts[count++] = part_of(rows, cut->end, cut->behind, last);
    for (int64_t i = cut->i; i <= cut->j; i++)
        session_page_release(rows->parts[i].page);
    memmove(rows->parts + cut->i + count, rows->parts + cut->j + 1,
            (size_t)(rows->part_count - cut->j - 1) * sizeof *rows->parts);
    memcpy(rows->parts + cut->i, parts, (size_t)count * sizeof *parts);
    rows->part_count += count - (cut->j - cut->i + 1);
    for (int64_t i = 0; rows->dropped == 0 && i < cut->i; i++)
        shrink(rows, i);
    rows->dropped_from = cut->first;
    rows->dropped = cut->end;
}

static struct session_page *zeros_of(const struct session_rows *rows, const struct cut *cut)
{
    struct session_page *page = rows->parts[cut->i].page;
    return page->is_void ? session_page_hold(page) : session_page_create_void(&rows->shape);
}

static bool is_wider(const struct session_rows *rows, const struct cut *cut)
{
    return cut->end > cut->first && cut->end > rows->dropped;
}

void session_rows_drop(struct session_rows *rows, int64_t first, int64_t end)
{
    const int64_t most = rows->part_count > 0 ? end_max(rows) : 0;
    const int64_t last = end < most ? end : most;
    struct fault unused;
    if (last <= first || last <= rows->dropped || !session_rows_reserve(rows, 2, &unused))
        return;
    struct cut cut = { .first = first,
                       .i = session_rows_part(rows, first) - rows->parts,
                       .j = session_rows_part(rows, last) - rows->parts };
    struct session_page *zeros = zeros_of(rows, &cut);
    if (!zeros)
        return;
    find_end(rows, &cut, last);
    if (is_wider(rows, &cut)) {
        replace(rows, &cut, zeros);
        return;
    }
    session_page_release(cut.before);
    session_page_release(zeros);
}

bool session_rows_skip(struct session_rows *rows, int64_t count)
{
    struct session_page *zeros = session_page_create_void(&rows->shape);
    struct fault unused;
    if (!zeros || !session_rows_reserve(rows, 2, &unused)) {
        session_page_release(zeros);
        return false;
    }
    rows->parts[rows->part_count++] = (struct session_part){ rows->length, 0, zeros };
    rows->dropped_from = rows->length;
    rows->length += count;
    rows->dropped = rows->length;
    return true;
}
