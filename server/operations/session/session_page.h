/* SPDX-License-Identifier: Apache-2.0 */
/* session_page.h - pages of cached keys and values, and the budget that all of them share.
 *
 * A page holds the keys and values of consecutive positions of one layer, as attention reads them.
 * Sessions that were forked share pages: references are counted, and rows that another session can
 * see are never written again. One budget bounds the bytes of all pages and of the sessions
 * themselves (--session-memory-max). */
#ifndef ATTND_SESSION_PAGE_H
#define ATTND_SESSION_PAGE_H

#include "access/access_account.h"
#include "attn.h"
#include "base/fault.h"
#include "layer.h"

#include <stdatomic.h>
#include <stddef.h>

/* Positions of a page: a multiple of SESSION_PAGE_ROWS; the pages of a long cache have
 * SESSION_PAGE_ROWS_MAX. */
enum { SESSION_PAGE_ROWS = 64, SESSION_PAGE_ROWS_MAX = 2048 };

/* What the rows of a layer's cache are. */
struct session_shape {
    int64_t kv_heads, head_dim, v_head_dim;
    enum attn_dtype dtype; /* F32, F16, BF16 or I8 */
};

/* Columns of the values that a session keeps of a layer: none of a latent one, whose values are the
 * first columns of its keys, but where each side has scales of its own. */
int64_t session_value_columns(const struct attn_layer *layer, enum attn_dtype dtype);

/* The dtype in which rows are appended to a cache: F32 for I8. */
enum attn_dtype session_dtype_of_appends(enum attn_dtype dtype);

/* Groups of ATTN_I8_ROWS that so many positions of I8 begin, each with a scale for each channel. */
int64_t session_page_groups(int64_t rows);

/* Bytes of so many positions, scales included; 0 on overflow. */
size_t session_shape_bytes(const struct session_shape *shape, int64_t rows);

struct session_budget {
    size_t bytes_max;
    _Atomic size_t bytes; /* of all pages, and of what lies beside them */
};

/* Whether so many bytes more would fit; else the fault is full, with what is held, or too_large
 * where they are more than all sessions may hold. */
bool session_budget_check(const struct session_budget *budget, size_t bytes, struct fault *fault);

/* How many bytes more have room in the budget, and for the account; NULL: for none. */
size_t session_memory_free(const struct session_budget *budget,
                           const struct access_account *account);

/* Counts bytes of what lies beside pages in the budget and for an account; NULL: for none. False,
 * with the fault: no room in the budget (full or too_large), or the account would hold more than it
 * may (quota; too_large where these bytes alone are more). */
bool session_memory_take(struct session_budget *budget, struct access_account *account,
                         size_t bytes, struct fault *fault);
void session_memory_give_back(struct session_budget *budget, struct access_account *account,
                              size_t bytes);

struct session_bounds;

struct session_page {
    struct session_budget *budget;
    struct access_account *account; /* that it counts for, held; NULL: for none */
    _Atomic int holders;
    int64_t rows;             /* it has room for */
    _Atomic int64_t used;     /* rows that some session sees, from the first one on */
    bool is_void;             /* of zeros, see session_page_create_void() */
    _Atomic(void *) appender; /* whose rows behind them are being written; NULL: nobody's */
    _Atomic(struct session_bounds *) bounds; /* session_page_bounds(); NULL: none yet */
    size_t bytes;                            /* in the budget */
    size_t mapped_bytes;                     /* of a mapping of its own; 0: malloc'd */
    int ending;          /* holders that may end together, and what is then freed: only for */
    size_t bytes_ending; /* session_end.c, under the mutex of the store */
    enum attn_dtype dtype;
    char *key;          /* [kv_heads][rows][head_dim] */
    char *value;        /* [kv_heads][rows][v_head_dim] */
    float *key_scale;   /* of I8: [kv_heads][rows / ATTN_I8_ROWS][head_dim] */
    float *value_scale; /* of I8: [kv_heads][rows] */
};

/* Bytes of a page for so many positions, which do not overflow. */
size_t session_page_bytes(const struct session_shape *shape, int64_t rows);

/* How many positions a new page has for an append of count behind length of the session's own. */
int64_t session_page_rows(int64_t length, int64_t count);

/* A page with one reference and room for so many rows, which counts for the account once, whoever
 * shares it later. NULL, with the fault: of session_memory_take(), or there is no memory. */
struct session_page *session_page_create(struct session_budget *budget,
                                         struct access_account *account,
                                         const struct session_shape *shape, int64_t rows,
                                         struct fault *fault);

/* A page for rows of one that nobody else holds; it counts nowhere. NULL: no memory. Then, where
 * the old page is freed: bytes of it, which are more, count for the new one, in the budget and for
 * the name of the old one. */
struct session_page *session_page_create_from(const struct session_page *old,
                                              const struct session_shape *shape, int64_t rows);
void session_page_take_over(struct session_page *page, const struct session_shape *shape,
                            struct session_page *old);

/* Rows of zeros that all heads share, as many as page->rows says; they are those of all
 * caches and count nowhere. Nobody may write to them. NULL: no memory, or rows have
 * more than 262144 columns. */
struct session_page *session_page_create_void(const struct session_shape *shape);

struct session_page *session_page_hold(struct session_page *page);
void session_page_release(struct session_page *page); /* NULL is fine */

/* Sets *view to the bounds of the keys (layer.h) of the first `count` groups of ATTN_SELECT_KEYS
 * rows of a page; `key`, the view of the cache, has the page's rows from position `first` on.
 * Copies to largest, [kv_heads][head_dim], the largest numbers, which other sessions may make
 * larger. Bounds are made when a call first selects, and stay with the page, for all sessions that
 * share it. False: the budget has no room for them, and the call makes them for itself. */
bool session_page_bounds(struct session_page *page, const struct session_shape *shape,
                         const struct attn_tensor *key, int64_t first, int64_t count,
                         float *largest, struct attn_bounds *view);

/* Rows from `row` on will be written anew. For who may write them. */
void session_page_cut_bounds(struct session_page *page, int64_t row);

/* Bytes of a page in the budget, with those of its bounds. */
size_t session_page_bytes_held(const struct session_page *page);

/* A step reads all keys once: with small pages of the machine a part of its time is spent on
 * finding them. Asks the kernel for large ones, which it may refuse. Only for a page whose rows are
 * there or are about to be: the first number in a large page waits until all of it is cleared. A
 * page of fewer bytes than a large one of the machine gets none. */
void session_page_use_large(struct session_page *page);

/* Copies row_count rows, each of all heads, from row from_row of one page to row to_row of another
 * one of the same shape; of I8, both are at the beginning of ATTN_I8_ROWS rows. */
void session_page_copy(const struct session_shape *shape, struct session_page *to, int64_t to_row,
                       const struct session_page *from, int64_t from_row, int64_t row_count);

#endif
