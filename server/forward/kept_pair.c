/* kept_pair.c - see kept_pair.h. */
#include "forward/kept_pair.h"

static void one_pair(const struct kept_layer *layer, int64_t head, int64_t row, int64_t key,
                     struct attn_map_tile *tile)
{
    static float cell;
    kept_layer_problem(layer, head, tile);
    tile->rows[0] = row;
    tile->rows[1] = row + 1;
    tile->keys[0] = key;
    tile->keys[1] = key + 1;
    tile->cell_rows = tile->cell_columns = 1;
    tile->cells = &cell;
}

size_t kept_pair_workspace_bytes(const struct kept_layer *layer)
{
    struct attn_map_tile tile;
    one_pair(layer, 0, 0, 0, &tile);
    return attn_map_tile_workspace_bytes(&tile);
}

void kept_pair_compute(const struct kept_layer *layer, int64_t head, int64_t row, int64_t key,
                       struct kept_pair *pair, void *workspace)
{
    struct attn_map_tile tile, plain;
    one_pair(layer, head, row, key, &tile);
    pair->query = (const float *)tile.problem.query.data + row * tile.problem.query.stride[2];
    pair->key = (const float *)tile.problem.key.data + key * tile.problem.key.stride[2];
    pair->lse = tile.lse[row];
    attn_map_tile_scores(&tile, row, 1, &pair->masked, workspace);
    pair->weight = pair->masked;
    attn_map_tile_weigh(&tile, row, 1, &pair->weight);

    plain = tile;
    plain.problem.options.causal = false;
    plain.problem.options.window_left = plain.problem.options.window_right = -1;
    plain.problem.mask.data = NULL;
    plain.problem.alibi_slopes = NULL;
    attn_map_tile_scores(&plain, row, 1, &pair->softcapped, workspace);
    plain.problem.options.softcap = 0;
    attn_map_tile_scores(&plain, row, 1, &pair->score, workspace);
}
