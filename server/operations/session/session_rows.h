/* SPDX-License-Identifier: Apache-2.0 */
/* session_rows.h - the keys and values of one layer of a session: a list of pages, a length, and
 * the rows that a call is about to append.
 *
 * An append has three steps. session_rows_begin() makes room behind the rows that are there and
 * gives a view of both; a call writes the new rows into it and reads all of them;
 * session_rows_end() makes them a part of the cache, or drops them as if the call had never been.
 * The calls of a session run one after the other (session_turn.h), so nothing here takes a lock;
 * only pages are shared between sessions.
 *
 * A cache of I8 takes rows in F32; 64 of them, a group, become int8 when the call that completes it
 * ends (KIVI, Liu et al. 2024). A key has a scale for each channel of a group, a value one for each
 * row. The parts of such a cache are groups of I8 and behind them, in F32, less than a group. A
 * part of I8 that was truncated within a group keeps it as it is; the rows behind it begin a new
 * one. */
#ifndef ATTND_SESSION_ROWS_H
#define ATTND_SESSION_ROWS_H

#include "operations/session/session_page.h"

/* Positions [first, first of the next part) lie in a page from its row `row` on. */
struct session_part {
    int64_t first, row;
    struct session_page *page; /* held */
};

/* Of a cache of I8: what an append will make of the rows that complete groups.
 */
struct session_groups {
    int64_t rows;              /* from the first one in F32 on; 0: no group will be complete */
    struct session_page *page; /* held, and being written: their place from row `row` on */
    int64_t row;
    bool is_part;              /* behind the last part of I8, in the same page */
    struct session_page *rest; /* for the rows behind them; NULL: there will be none */
};

/* States that a layer keeps, the last ones: that behind all positions, and that before the last
 * append. */
enum { SESSION_STATES_MAX = 2 };

struct session_rows {
    struct session_shape shape; /* kv_heads 0: not known before the first append */
    bool is_state;  /* a state in place of keys and values: a part is the state behind the positions
                       before first, [1][1][head_dim] F32, and below only what is said of
                       session_state_begin() holds */
    int64_t length; /* positions that are there */
    struct session_part *parts; /* [part_count], malloc'd */
    int64_t part_count;
    struct access_account *account; /* that new pages count for, borrowed; NULL: for none */
    int64_t page_rows_max;          /* of a new page; 0: SESSION_PAGE_ROWS_MAX */

    /* Positions that are gone, a part of their own (session_rows_drop()). */
    int64_t dropped_from;
    int64_t dropped; /* their end; 0: there are none */

    /* Of the append that has begun. */
    int64_t appended;  /* positions of it */
    bool is_appending; /* session_rows_end() is due */
    bool has_more;     /* a part was added for it, the last one */
    struct session_groups groups;
    size_t bytes_taken;     /* by pages that go where the append is dropped */
    size_t bytes_wanted;    /* by those, and by the page that had no room */
    struct attn_page *list; /* [2 * list_count] the view: pages of keys, then those of values */
    int64_t list_count, page_count;
    struct attn_pages pages[2];
    struct attn_layer_cache cache;
    struct attn_bounds *bounds; /* [bounds_count], of session_page_bounds() */
    float *largest;             /* of bounds: [bounds_count][kv_heads][head_dim] */
    int64_t bounds_count;
};

void session_rows_free(struct session_rows *rows);

/* Makes room for count positions behind those that are there; the view is rows->cache until
 * session_rows_end(). False, with the fault and without a trace: no room in the budget, or no
 * memory. count may be 0. */
bool session_rows_begin(struct session_rows *rows, struct session_budget *budget, int64_t count,
                        struct fault *fault);

/* Sets rows->bounds to those of all complete groups of parts that begin a page. After
 * session_rows_begin(). */
void session_rows_make_bounds(struct session_rows *rows);

/* Keeps the positions of the append, or drops them. */
void session_rows_end(struct session_rows *rows, bool keeps);

/* A part of session_rows_begin() and session_rows_end(): makes rows->cache, when there is room for
 * the rows that an append brings (false: no memory), and frees it: a session that nobody calls
 * keeps none. */
bool session_rows_make_view(struct session_rows *rows, struct fault *fault);
void session_rows_free_view(struct session_rows *rows);

/* Whether the rows that are appended to a cache of I8 are finite; else the fault names one that is
 * not. Of other caches they may be anything. */
bool session_rows_check_finite(const struct session_rows *rows, struct fault *fault);

/* Makes room for groups of these lengths, each from 1 to ATTN_I8_ROWS, in one page behind those of
 * a cache that has only groups: at most SESSION_PAGE_ROWS_MAX / ATTN_I8_ROWS of them. Their numbers
 * and scales are the caller's to write. False, with the fault and without a trace. */
bool session_rows_add_groups(struct session_rows *rows, struct session_budget *budget,
                             const int64_t *lengths, int64_t count, struct fault *fault);

/* Evicts positions from first on and before end: no later row attends to them, so their pages are
 * freed and zeros are read in their place. They are one part with a void page (session_page.h),
 * from rows->dropped_from to rows->dropped. A page with few other positions is copied, so what is
 * kept of positions before end, besides those before first, is at most a page of
 * session_rows_page_rows_max() or half a page. first is that of each time before. Needs room in the
 * budget only for copies from pages that other sessions hold, too; where there is none, those stay
 * until the next time. */
void session_rows_drop(struct session_rows *rows, int64_t first, int64_t end);

/* Puts so many evicted positions behind those that are there, which had none. False: no memory. */
bool session_rows_skip(struct session_rows *rows, int64_t count);

/* Goes back to an earlier length, at most the one that is there. Pages behind it are released. */
void session_rows_truncate(struct session_rows *rows, int64_t length);

/* Makes copy, which is empty, share all positions that are there. False: no memory. */
bool session_rows_fork(const struct session_rows *rows, struct session_rows *copy);

/* Whether positions [first, end) have equal bytes in both, which may be those of an append; where
 * those of b are I8, whether those of a, in F32, would have become the same. */
bool session_rows_equal(const struct session_rows *a, const struct session_rows *b, int64_t first,
                        int64_t end);

/* Room in the list for more parts. False, with the fault: no memory. */
bool session_rows_reserve(struct session_rows *rows, int64_t more, struct fault *fault);

/* Where position `position`, which is there or of the append, lies. */
const struct session_part *session_rows_part(const struct session_rows *rows, int64_t position);

/* Positions of part i, of all that are there. */
int64_t session_rows_part_length(const struct session_rows *rows, int64_t i);

/* Rows of the session's pages, at most. */
int64_t session_rows_page_rows_max(const struct session_rows *rows);

/* A page of this dtype for count positions, which counts for the session's name. NULL, with the
 * fault. */
struct session_page *session_rows_make_page(struct session_rows *rows, enum attn_dtype dtype,
                                            struct session_budget *budget, int64_t count,
                                            struct fault *fault);

/* ------------------------------------------------------------------------- states --
 *
 * Of rows that are states, session_rows_begin(), _end(), _truncate(), _fork(), _equal() and the
 * bytes below do what these functions do; there is no view. The shape is { 1, numbers, 0, F32 }.
 * Within an append the state before it is session_state_before(), NULL for zeros, and the caller
 * writes session_state_after(), NULL where it brings no rows. */
bool session_state_begin(struct session_rows *rows, struct session_budget *budget, int64_t count,
                         struct fault *fault);
void session_state_end(struct session_rows *rows, bool keeps);
const float *session_state_before(const struct session_rows *rows);
float *session_state_after(const struct session_rows *rows);

/* Whether the rows can go back to this length. */
bool session_state_is_there(const struct session_rows *rows, int64_t length);

/* Whether both have the same state behind so many positions; true where one of them has none. */
bool session_state_equal(const struct session_rows *a, const struct session_rows *b,
                         int64_t length);

/* Bytes of the positions that are there, and of the pages that they lie in; a shared page counts
 * whole for each session. */
size_t session_rows_bytes(const struct session_rows *rows);
size_t session_rows_bytes_held(const struct session_rows *rows);

#endif
