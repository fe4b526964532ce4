/* SPDX-License-Identifier: Apache-2.0 */
/* kept_hidden.c - the keys that a row may see, as the tiles of a map take them (kept_layer_tile).
 */
#include "operations/trace/kept_hidden.h"

#include <math.h>

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Cuts keys to what causal, windows and chunks leave of them. Rows and keys of a kept layer begin
 * at position 0. */
static void cut_keys(const struct attn_options *options, int64_t row, int64_t keys[2])
{
    if (options->causal)
        keys[1] = least_of(keys[1], row + 1);
    if (options->window_right >= 0)
        keys[1] = least_of(keys[1], row + options->window_right + 1);
    if (options->window_left >= 0 && row - options->window_left > keys[0])
        keys[0] = row - options->window_left;
    if (options->chunk > 0) {
        const int64_t first = row - row % options->chunk;
        keys[0] = first > keys[0] ? first : keys[0];
        keys[1] = least_of(keys[1], first + options->chunk);
    }
}

static bool sees_one(const struct kept_layer *layer, int64_t head, int64_t row,
                     const int64_t keys[2])
{
    const int64_t at = (head * layer->q_len + row) * layer->kv_len;
    if (!layer->mask && !layer->keys_seen)
        return keys[0] < keys[1];
    for (int64_t j = keys[0]; j < keys[1]; j++)
        if (layer->mask ? layer->mask[at + j] > -INFINITY : layer->keys_seen[j] != 0)
            return true;
    return false;
}

bool kept_pairs_are_hidden(const struct kept_layer *layer, int64_t head, const int64_t rows[2],
                           const int64_t keys[2])
{
    for (int64_t row = rows[0]; row < rows[1]; row++) {
        int64_t seen[2] = { keys[0], keys[1] };
        cut_keys(&layer->options, row, seen);
        if (sees_one(layer, head, row, seen))
            return false;
    }
    return true;
}
