/* session_groups.h - caches of I8: rows come in F32, and 64 of them, a group, become int8 when the
 * call that completes it ends (KIVI, Liu et al. 2024). A key has a scale for each channel of a
 * group, a value one for each row.
 *
 * The parts of such a cache are groups of I8 and behind them, in F32, less than a group. A part of
 * I8 that was truncated within a group keeps it as it is; the rows behind it begin a new one. */
#ifndef ATTND_SESSION_GROUPS_H
#define ATTND_SESSION_GROUPS_H

#include "session/session_rows.h"

/* The rows of a cache of I8 that are appended are finite; else the fault names one that is not. Of
 * other caches they may be anything. */
bool session_groups_check(const struct session_rows *rows, struct fault *fault);

/* A part of session_rows_begin(), when there is room for the rows in F32: makes room for the groups
 * that the append completes. Nothing to do for other dtypes. */
bool session_groups_begin(struct session_rows *rows, struct session_budget *budget,
                          struct fault *fault);

/* A part of session_rows_end(): makes these groups, or gives their room back. */
void session_groups_end(struct session_rows *rows, bool keeps);

/* Makes room for groups of these lengths, each from 1 to ATTN_I8_ROWS, in one page behind those of
 * a cache that has only groups: at most SESSION_PAGE_ROWS_MAX / ATTN_I8_ROWS of them. Their numbers
 * and scales are the caller's to write. False, with the fault and without a trace. */
bool session_groups_add(struct session_rows *rows, struct session_budget *budget,
                        const int64_t *lengths, int64_t count, struct fault *fault);

/* Whether a row in F32 would have become this row of I8, with the scales that are there. */
bool session_groups_match(const struct session_shape *shape, const struct session_page *page,
                          int64_t row, const struct session_page *group, int64_t group_row,
                          int64_t head);

#endif
