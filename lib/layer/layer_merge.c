/* SPDX-License-Identifier: Apache-2.0 */
/* layer_merge.c - merge the partial answers of a layer: its plan and the tasks of its own stage.
 *
 * The plan is a layer's plan, so code that runs calls can run merges too: MERGE writes the heads
 * side by side, as attention does, and OUTPUT is that of a call. */
#include "layer.h"

#include "base/internal.h"
#include "layer/layer_internal.h"

#include <string.h>

static enum attn_status check_merge(const struct attn_layer_merge *merge, const char **where)
{
    const struct attn_layer *layer = merge->layer;
    int64_t columns, bytes;

    RETURN_IF(layer->q_heads < 1, ATTN_ERR_SHAPE, "layer.q_heads");
    RETURN_IF(layer->v_head_dim < 1, ATTN_ERR_SHAPE, "layer.v_head_dim");
    RETURN_IF(__builtin_mul_overflow(layer->q_heads, layer->v_head_dim, &columns)
                  || columns > INT32_MAX,
              ATTN_ERR_TOO_LARGE, "layer.v_head_dim");
    RETURN_IF_FAILED(attn_layer_check_output(layer, where));
    RETURN_IF(merge->part_count < 0, ATTN_ERR_SHAPE, "part_count");
    RETURN_IF(merge->part_count > INT32_MAX, ATTN_ERR_TOO_LARGE, "part_count");
    RETURN_IF(merge->q_len < 0, ATTN_ERR_SHAPE, "q_len");
    RETURN_IF(__builtin_mul_overflow(
                  merge->q_len, attn_max(columns, attn_layer_d_out(layer)) * (int64_t)sizeof(float),
                  &bytes),
              ATTN_ERR_TOO_LARGE, "q_len");
    for (int64_t i = 0; i < merge->part_count; i++) {
        RETURN_IF(merge->parts[i].context == NULL, ATTN_ERR_NO_DATA, "parts.context");
        RETURN_IF(merge->parts[i].lse == NULL, ATTN_ERR_NO_DATA, "parts.lse");
    }
    return ATTN_OK;
}

static int64_t chunks_of(int64_t q_len)
{
    return attn_divide_up(q_len, ATTN_LAYER_CHUNK_ROWS);
}

enum attn_status attn_layer_merge_plan_init(struct attn_layer_plan *plan,
                                            const struct attn_layer_merge *merge,
                                            const char **where)
{
    struct attn_layer_plan_full *full = (void *)plan;
    const struct attn_layer *layer = merge->layer;

    RETURN_IF_FAILED(check_merge(merge, where));
    memset(full, 0, sizeof *full);
    full->merge = merge;
    full->problem.layer = layer;
    full->problem.query.shape[2] = merge->q_len;
    full->problem.context = merge->context;
    full->problem.lse = merge->lse;
    full->attention.kernels = merge->kernels != NULL ? merge->kernels : attn_kernels_available()[0];
    if (merge->q_len == 0 || (merge->context == NULL && merge->lse == NULL))
        return ATTN_OK;
    full->workspace_bytes = attn_align_up((size_t)merge->part_count * sizeof(double));
    full->stage_kind[full->stage_count] = ATTN_LAYER_MERGE;
    full->task_count[full->stage_count++] = layer->q_heads * chunks_of(merge->q_len);
    if (attn_layer_has_output(&full->problem)) {
        full->scratch_bytes =
            attn_align_up((size_t)(merge->q_len * layer->o_proj.in) * sizeof(float));
        full->stage_kind[full->stage_count] = ATTN_LAYER_OUTPUT;
        full->task_count[full->stage_count++] = attn_layer_product_tasks(
            &(struct attn_layer_call){ plan, NULL }, 1, ATTN_PRODUCT_OUTPUT);
        if (full->workspace_bytes < attn_layer_product_workspace_bytes())
            full->workspace_bytes = attn_layer_product_workspace_bytes();
    }
    return ATTN_OK;
}

void attn_layer_run_merge(const struct attn_layer_plan_full *plan, int64_t task, void *scratch,
                          void *workspace)
{
    const struct attn_layer_merge *merge = plan->merge;
    const int64_t columns = merge->layer->v_head_dim;
    const int64_t stride = merge->layer->q_heads * columns;
    const int64_t chunks = chunks_of(merge->q_len);
    const int64_t head = task / chunks;
    const int64_t first = task % chunks * ATTN_LAYER_CHUNK_ROWS;
    const int64_t row = head * merge->q_len + first;
    const int64_t row_count = attn_min(ATTN_LAYER_CHUNK_ROWS, merge->q_len - first);
    float *joined = attn_layer_has_output(&plan->problem) ? scratch : merge->context;

    attn_merge(merge->parts, merge->part_count, row, row_count, joined != NULL ? columns : 0,
               joined != NULL ? joined + first * stride + head * columns : NULL, stride,
               merge->lse != NULL ? merge->lse + row : NULL, workspace);
}
