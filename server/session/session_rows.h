/* session_rows.h - the keys and values of one layer of a session: a list of pages, a length, and
 * the rows that a call is about to append.
 *
 * An append has three steps. session_rows_begin() makes room behind the rows that are there and
 * gives a view of both; a call writes the new rows into it and reads all of them;
 * session_rows_end() makes them a part of the cache, or drops them as if the call had never been.
 * The calls of a session come one after the other (session_turn.h), so nothing here takes a lock;
 * only pages are shared between sessions. */
#ifndef ATTND_SESSION_ROWS_H
#define ATTND_SESSION_ROWS_H

#include "layer.h"
#include "session/session_page.h"

/* Positions [first, first of the next part) lie in a page from its row `row` on. */
struct session_part {
    int64_t first, row;
    struct session_page *page; /* held */
};

/* Of a cache of I8: what an append will make of the rows that complete groups (session_groups.h).
 */
struct session_groups {
    int64_t rows;              /* from the first one in F32 on; 0: no group will be complete */
    struct session_page *page; /* held, and being written: their place from row `row` on */
    int64_t row;
    bool is_part;              /* behind the last part of I8, in the same page */
    struct session_page *rest; /* for the rows behind them; NULL: there will be none */
};

struct session_rows {
    struct session_shape shape; /* kv_heads 0: not known before the first append */
    int64_t length;             /* positions that are there */
    struct session_part *parts; /* [part_count], malloc'd */
    int64_t part_count;
    struct access_account *account; /* that new pages count for, borrowed; NULL: for none */
    int64_t page_rows_max;          /* of a new page; 0: SESSION_PAGE_ROWS_MAX */

    /* Positions that are gone, a part of their own (session_hole.h). */
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

/* Goes back to an earlier length, at most the one that is there. Pages behind it are released. */
void session_rows_truncate(struct session_rows *rows, int64_t length);

/* Makes copy, which is empty, share all positions that are there. False: no memory. */
bool session_rows_fork(const struct session_rows *rows, struct session_rows *copy);

/* Whether positions [first, end) have equal bytes in both, which may be those of an append; where
 * those of b are I8, whether those of a, in F32, would have become the same. */
bool session_rows_equal(const struct session_rows *a, const struct session_rows *b, int64_t first,
                        int64_t end);

/* Where position `position`, which is there or of the append, lies. */
const struct session_part *session_rows_part(const struct session_rows *rows, int64_t position);

/* Positions of part i, of all that are there. */
int64_t session_rows_part_length(const struct session_rows *rows, int64_t i);

/* Takes the right to write count rows from row `row` of the page of part i on, behind its
 * rows that are there; false where it is not to be had: rows there are another session's, or
 * being written, or the page has no such rows. */
bool session_rows_claim(struct session_rows *rows, int64_t i, int64_t row, int64_t count);

/* Rows of the session's pages, at most; and of a new one for count of them, beside those that will
 * probably follow. */
int64_t session_rows_page_rows_max(const struct session_rows *rows);
int64_t session_rows_page_rows(const struct session_rows *rows, int64_t expected, int64_t count);

/* A page of this dtype for count positions, which counts for the session's name. NULL, with the
 * fault. */
struct session_page *session_rows_make_page(struct session_rows *rows, enum attn_dtype dtype,
                                            struct session_budget *budget, int64_t count,
                                            struct fault *fault);

/* Whether a page of fewer rows may be had where one could not be made with this fault. */
bool session_rows_may_take_less(const struct fault *fault);

/* Positions at the end that are in pages of this session alone: what a fork begins with is small,
 * however long the beginning that it shares. */
int64_t session_rows_own_length(const struct session_rows *rows);

/* Bytes of the positions that are there, and of the pages that they lie in; a shared page counts
 * whole for each session. */
size_t session_rows_bytes(const struct session_rows *rows);
size_t session_rows_bytes_held(const struct session_rows *rows);

#endif
