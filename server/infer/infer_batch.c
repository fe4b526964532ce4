/* infer_batch.c - see infer_batch.h. */
#include "infer/infer_batch.h"

bool infer_batch_member(struct batch_member *member, const struct infer_request *request, int stage)
{
    const struct infer_item *item = &request->items[0];
    if (request->item_count != 1 || item->gradient || item->fault.code != FAULT_NONE)
        return false;
    member->product = attn_layer_product(&item->plan, stage);
    if (member->product == ATTN_PRODUCT_NONE)
        return false;
    member->call = (struct attn_layer_call){ &item->plan, item->scratch };
    member->rows = attn_layer_product_rows(&member->call, member->product);
    return true;
}

void infer_batch_expect(struct infer_cost *cost, const struct infer_request *request,
                        struct batcher *batcher)
{
    const int stage_count = request->item_count > 0 ? request->items[0].plan.stage_count : 0;
    for (int stage = 0; stage < stage_count; stage++) {
        struct batch_member member;
        if (infer_batch_member(&member, request, stage))
            infer_cost_expect_part(cost, member.product, batcher_expected_part(batcher, &member));
    }
}
