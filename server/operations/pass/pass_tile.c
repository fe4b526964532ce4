/* SPDX-License-Identifier: Apache-2.0 */
/* pass_tile.c - the map of a head of a layer, piece by piece, while the layer's scratch still holds
 * query and key. A weight is exp(masked - lse), as in a kept trace, so no map is ever stored. */
#include "operations/pass/pass_internal.h"

/* Mask and bias of one head. */
static struct attn_tensor mask_of(const struct infer_item *attention, int64_t head, int64_t q_len,
                                  int64_t kv_len)
{
    struct attn_tensor mask = attention->masking.mask;
    if (attention->bias)
        return attn_tensor_dense((void *)(attention->bias + head * q_len * kv_len), ATTN_F32, 1, 1,
                                 q_len, kv_len);
    if (mask.data && mask.shape[1] > 1) {
        mask.data = (char *)mask.data + head * mask.stride[1]; /* of booleans */
        mask.shape[1] = 1;
    }
    return mask;
}

struct attn_map_tile pass_map_tile(const struct pass_sequence *sequence, int64_t head)
{
    static float cell;
    const struct infer_item *attention = sequence->attention;
    const struct model_layer *own = &attention->model->layers[attention->layer_index];
    const struct attn_problem all = attn_layer_attention(&attention->plan, attention->scratch);
    const int64_t q_len = all.query.shape[2], kv_len = all.key.shape[2];
    struct attn_map_tile tile = {
        .rows = { 0, q_len },
        .keys = { 0, kv_len < ATTN_MAP_TILE_KEYS ? kv_len : ATTN_MAP_TILE_KEYS },
        .cell_rows = 1,
        .cell_columns = 1,
        .cells = &cell,
        .lse = (const float *)attention->results[ATTN_OUTPUT_LSE] + head * q_len,
        .given = attention->given ? attention->given + head * q_len : NULL,
    };
    tile.problem = (struct attn_problem){
        .options = attention->plan.problem.options,
        .kernels = attention->plan.problem.kernels,
        .query = all.query,
        .key = all.key,
        .mask = mask_of(attention, head, q_len, kv_len),
        .alibi_slopes = own->alibi_slopes ? own->alibi_slopes + head : NULL,
    };
    tile.problem.query.data = (float *)all.query.data + head * all.query.stride[1];
    tile.problem.key.data =
        (float *)all.key.data + head / (all.query.shape[1] / all.key.shape[1]) * all.key.stride[1];
    tile.problem.query.shape[1] = tile.problem.key.shape[1] = 1;
    return tile;
}

bool pass_tile_plan(struct pass *pass, const struct pass_step *step, struct pass_sequence *sequence,
                    struct attn_work *work, struct fault *fault)
{
    const struct attn_layer *layer = &pass->model->layers[step->layer].layer;
    const int64_t q_len = sequence->length[step->stream];
    const int64_t kv_len = step->is_cross ? sequence->length[0] : q_len;
    const double pairs = (double)layer->q_heads * (double)q_len * (double)kv_len;
    if (work) { /* scores once more, without the sum of values */
        work->tile_flops += 2 * pairs * (double)layer->head_dim;
        work->pairs += pairs;
    }
    return pass_keep_room(pass, &sequence->lse, layer->q_heads * q_len, sizeof(float), fault);
}
