/* SPDX-License-Identifier: Apache-2.0 */
/* session_state.c - the states of a layer that keeps one in place of keys and values: a part of
 * session_rows.h.
 *
 * A state is a page of one row, which nobody writes again once it is there, so forks share it. An
 * append writes a new one; of those before, the last stays, so that the append can be tried again
 * or taken back. A state cannot be cut: other lengths are gone. */
#include "operations/session/session_rows.h"

#include <inttypes.h>
#include <string.h>

/* The part with the state behind so many positions; NULL: there is none. */
static const struct session_part *part_at(const struct session_rows *rows, int64_t length)
{
    for (int64_t i = 0; i < rows->part_count; i++)
        if (rows->parts[i].first == length)
            return &rows->parts[i];
    return NULL;
}

bool session_state_is_there(const struct session_rows *rows, int64_t length)
{
    return length == 0 || length == rows->length || part_at(rows, length);
}

const float *session_state_before(const struct session_rows *rows)
{
    const struct session_part *part = rows->length > 0 ? part_at(rows, rows->length) : NULL;
    return part ? (const float *)(const void *)part->page->key : NULL;
}

float *session_state_after(const struct session_rows *rows)
{
    return rows->has_more ? (float *)(void *)rows->parts[rows->part_count - 1].page->key : NULL;
}

bool session_state_begin(struct session_rows *rows, struct session_budget *budget, int64_t count,
                         struct fault *fault)
{
    rows->has_more = false;
    rows->bytes_taken = rows->bytes_wanted = 0;
    rows->appended = count;
    rows->is_appending = true;
    if (count == 0)
        return true;
    struct session_page *page = session_rows_reserve(rows, 1, fault)
                                    ? session_rows_make_page(rows, ATTN_F32, budget, 1, fault)
                                    : NULL;
    if (!page) {
        session_state_end(rows, false);
        return false;
    }
    rows->parts[rows->part_count++] = (struct session_part){ rows->length + count, 0, page };
    rows->has_more = true;
    fault->code = FAULT_NONE;
    return true;
}

static void drop_first(struct session_rows *rows)
{
    session_page_release(rows->parts[0].page);
    rows->part_count--;
    memmove(rows->parts, rows->parts + 1, (size_t)rows->part_count * sizeof *rows->parts);
}

void session_state_end(struct session_rows *rows, bool keeps)
{
    if (!rows->is_appending)
        return;
    if (rows->has_more && keeps) {
        rows->length += rows->appended;
        atomic_store(&rows->parts[rows->part_count - 1].page->used, 1);
    } else if (rows->has_more) {
        session_page_release(rows->parts[--rows->part_count].page);
    }
    while (rows->part_count > SESSION_STATES_MAX)
        drop_first(rows);
    rows->is_appending = rows->has_more = false;
    rows->appended = 0;
}

bool session_state_equal(const struct session_rows *a, const struct session_rows *b, int64_t length)
{
    const struct session_part *one = part_at(a, length), *other = part_at(b, length);
    return !one || !other
           || memcmp(one->page->key, other->page->key, (size_t)a->shape.head_dim * sizeof(float))
                  == 0;
}
