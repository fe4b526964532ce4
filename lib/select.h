/* SPDX-License-Identifier: Apache-2.0 */
/* select.h - attention that reads only the keys which can matter, with a bound on the
 * weight of skipped keys.
 *
 * Keys are taken in groups of ATTN_SELECT_KEYS. The least and the greatest number of each channel
 * of a group bound the score of a query row with every key of it (Tang et al. 2024, Quest):
 *
 *     score <= scale * sum over d of max(query[d] * least[d], query[d] * greatest[d])
 *
 * A row and a key/value head read groups in descending order of their bounds, for all query heads
 * of the key/value head together, until the skipped groups can have at most the share epsilon of
 * the softmax. What is read is then attended to as ever; context and lse are those of the keys that
 * were read. All rounding is on the safe side: mass_left, the bound, is never less than the true
 * share.
 *
 * A row reads all keys where few are there or where the bounds are not worth it, and so do the rows
 * of a problem with more than ATTN_SELECT_ROWS query rows, whose tiles read a key once for many
 * rows. With an epsilon below 1e-30 the bits are those of the problem without a selection. */
#ifndef ATTN_SELECT_H
#define ATTN_SELECT_H

#include "attn.h"

enum { ATTN_SELECT_KEYS = 64, ATTN_SELECT_ROWS = 64 };

/* Bounds of consecutive groups, each of ATTN_SELECT_KEYS keys. */
struct attn_bounds {
    int64_t first; /* key of the first group */
    int64_t group_count;
    const float *rows; /* [kv_heads][group_count][attn_bounds_columns()] */
    int64_t head_stride;
    const float *largest; /* [kv_heads][head_dim]: at least the largest |key| of each channel */
};

/* Numbers of the bounds of one group: the greatest of each channel, the least of each, padding. */
int64_t attn_bounds_columns(int64_t head_dim);

/* Writes the bounds of count keys of a head, from key first on, F32, F16 or BF16, to row, and makes
 * largest, [head_dim], cover them. A channel that has NaN or an infinity is unbounded. */
void attn_bounds_make(const struct attn_tensor *key, int64_t head, int64_t first, int64_t count,
                      const struct attn_kernels *kernels, float *row, float *largest);

struct attn_selection {
    double epsilon; /* from 0 to below 1 */

    /* Ascending, without overlaps; may be none. Other keys get bounds while the problem runs. */
    const struct attn_bounds *bounds;
    int64_t bounds_count;

    /* Outputs, dense. Planning fills them as for reading all. */
    float *mass_left;   /* [q_heads][q_len] */
    int64_t *keys_read; /* [kv_heads][q_len] */
    int64_t *keys_seen; /* the same: the keys that the row may see */
};

/* Whether the plan's problem can have a selection: a batch of 1; causal, lengths, softcap and
 * sinks; context and lse; softmax in float. Nothing else that masks, and no maps. Fills the
 * outputs. */
enum attn_status attn_select_check(const struct attn_selection *selection,
                                   const struct attn_plan *plan, const char **where);

/* Whether the plan itself is to be run: all keys are read. The rest is for other plans. */
bool attn_select_reads_all(const struct attn_selection *selection, const struct attn_plan *plan);

/* First the bounds that are missing, one task for each key/value head; then the rows, one task for
 * each row and key/value head. shared is 64-byte aligned, and so is the workspace of each task. */
size_t attn_select_shared_bytes(const struct attn_selection *selection,
                                const struct attn_plan *plan);
size_t attn_select_workspace_bytes(const struct attn_selection *selection,
                                   const struct attn_plan *plan);
int64_t attn_select_tasks(const struct attn_plan *plan);
void attn_select_bound(const struct attn_selection *selection, const struct attn_plan *plan,
                       int64_t kv_head, void *shared);
void attn_select_run(const struct attn_selection *selection, const struct attn_plan *plan,
                     int64_t number, void *shared, void *workspace);

#endif
