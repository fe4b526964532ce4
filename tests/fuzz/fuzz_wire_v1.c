/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire_v1.c - any bytes as a request: read, planned, computed, written.
 *
 * The first byte chooses single, batch or merge. Any bytes must end in a fault with a message,
 * or in an answer that is JSON again. In the answer every row of weights sums to 1, or to less
 * beside a sink, or is all zeros. The weights of a smaller map are from 0 to 1, and the k
 * largest are in order. Dropout is an exception. */
#include "models/store/model_store.h"
#include "operations/attention.h"
#include "request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_weights(const struct infer_item *item)
{
    int64_t shape[3];
    const float *row = item->results[ATTN_OUTPUT_WEIGHTS];
    if (!row || !item->results[ATTN_OUTPUT_SCORES] || item->has_weight_map)
        return;
    infer_output_shape(item, ATTN_OUTPUT_WEIGHTS, shape);
    for (int64_t r = 0; r < shape[0] * shape[1]; r++, row += shape[2]) {
        double sum = 0;
        for (int64_t j = 0; j < shape[2]; j++)
            sum += (double)row[j];
        /* Scores that overflow give NaN; that is the caller's data. */
        require(isnan(sum) || sum == 0 || item->dropout > 0 || fabs(sum - 1) < 1e-4
                || (item->per_head[ATTN_PER_HEAD_SINKS].data && sum < 1));
    }
}

static void check_weight_map(const struct infer_item *item)
{
    int64_t shape[3];
    const float *row = item->results[ATTN_OUTPUT_WEIGHTS];
    if (!row || !item->has_weight_map || item->dropout > 0)
        return;
    infer_output_shape(item, ATTN_OUTPUT_WEIGHTS, shape);
    for (int64_t r = 0; r < shape[0] * shape[1]; r++, row += shape[2])
        for (int64_t j = 0; j < shape[2]; j++) {
            require(isnan(row[j]) || (row[j] >= 0 && row[j] <= 1.0001f));
            if (item->weight_map.top_k > 0 && j > 0)
                require(row[j - 1] >= row[j] || isnan(row[j]));
        }
}

static const struct operation *operation_of(uint8_t how)
{
    return (how & 4) != 0   ? &attention_merge
           : (how & 1) != 0 ? &attention_batch
                            : &attention_single;
}

static void answer(struct call *call, void *workspace)
{
    struct infer_request *request = infer_request_of(call);
    struct json_document answered;
    const struct json_options options = { .nonfinite_allowed = false };
    struct fault fault;
    for (int64_t i = 0; i < request->item_count; i++) {
        struct infer_item *item = &request->items[i];
        if (item->fault.code != FAULT_NONE) {
            require(item->fault.message[0] != '\0');
            continue;
        }
        request_run(item, workspace);
        check_weights(item);
        check_weight_map(item);
    }
    require(operation_write(call, &fault) && text_finish(&call->text, &fault));
    require(json_read(&answered, call->text.data, call->text.used, &options, &fault)
            || fault.code == FAULT_TOO_LARGE);
    json_free(&answered);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model_store *store;
    static void *workspace;
    const struct model_store_options no_directory = { .directory = NULL };
    struct fault fault = { .code = FAULT_NONE };
    struct infer_request request = { .items = NULL };
    struct call call = { .work = &request,
                         .form.nonfinite_allowed = size > 0 && (data[0] & 2) != 0 };
    int failed_count;
    if (!store) {
        require(model_store_create(&store, &no_directory, &failed_count, &fault));
        workspace = aligned_alloc(64, WORKSPACE_BYTES);
        require(workspace != NULL);
    }
    if (size == 0)
        return 0;
    call.operation = operation_of(data[0]);
    call.limits = (struct infer_limits){
        .store = store,
        .worker_count = 1,
        .workspace_bytes = WORKSPACE_BYTES,
        .answer_bytes_max = 1 << 24,
        .scratch_bytes_max = 1 << 26,
    };
    call.body_memory = malloc(size);
    require(call.body_memory != NULL);
    memcpy(call.body_memory, data + 1, size - 1);
    call.body = (struct byte_slice){ call.body_memory, size - 1 };
    request.arena = &call.arena;
    arena_init(request.arena, call.limits.scratch_bytes_max);
    text_init(&call.text, (size_t)1 << 28);
    if (!call.operation->read(&call, &fault) || !infer_plan(&request, &call.limits, &fault))
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    else if (request_is_small(&request))
        answer(&call, workspace);
    call_drop_body(&call);
    text_free(&call.text);
    format_body_free(&call.form);
    infer_request_free(&request);
    return 0;
}
