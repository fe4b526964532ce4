/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire_trace.c - any bytes as the body of a trace: read, not computed.
 *
 * The first byte chooses JSON of one trace, JSON of a batch, or a safetensors file. Any bytes must
 * end in a fault with a message, or in items whose lists are what the fields take. */
#include "operations/plan/trace_job.h"
#include "operations/plan/trace_plan.h"
#include "operations/trace.h"
#include "request.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_list(bool has, const int64_t *list, int64_t count)
{
    require(count >= 0 && (has || count == 0));
    for (int64_t i = 0; i < count; i++)
        require(list[i] >= 0);
}

static void check_array(const struct array *array)
{
    int64_t count = 1;
    if (!array->data)
        return;
    require(array->rank >= 0 && array->rank <= ARRAY_RANK_MAX);
    for (int i = 0; i < array->rank; i++)
        count *= array->shape[i];
    /* The sum is used, so that a sanitizer sees whether the numbers are there. */
    const volatile unsigned char *bytes = array->data;
    unsigned sum = 0;
    for (size_t i = 0; i < (size_t)count * attn_dtype_size(array->dtype); i++)
        sum += bytes[i];
    (void)sum;
}

static void check_item(const struct trace_item *item)
{
    if (item->fault.code != FAULT_NONE) {
        require(item->fault.message[0] != '\0');
        return;
    }
    check_list(item->has_tokens, item->tokens, item->token_count);
    check_list(item->has_token_types, item->token_types, item->token_type_count);
    check_list(item->has_decoder_tokens, item->decoder_tokens, item->decoder_token_count);
    check_list(item->has_layers, item->layers, item->layer_count);
    check_array(&item->pixels);
    check_array(&item->features);
    check_array(&item->embeddings);
    check_array(&item->head_weights);
    for (int64_t i = 0; i < item->row_span_count; i++)
        require(item->row_spans[i].begin >= 0 && item->row_spans[i].end >= 0);
    require(item->top_k_tokens >= 0 && item->keep_ns >= 0);
    for (int64_t i = 0; i < item->span_count; i++)
        require(item->spans[i].begin >= 0 && item->spans[i].end >= 0);
    for (int64_t i = 0; i < item->kind_count; i++)
        require(strlen(item->kinds[i]) < SIZE_MAX);
    for (int64_t i = 0; i < item->span_text_count; i++)
        require(item->span_texts[i].data != NULL);
}

static void check(const struct trace_request *request)
{
    require(request->item_count >= 0 && request->item_count <= TRACE_ITEMS_MAX);
    require(request->batch || request->item_count == 1);
    for (int64_t i = 0; i < request->item_count; i++)
        check_item(&request->items[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fault fault = { .code = FAULT_NONE };
    if (size == 0)
        return 0;
    struct trace_request request = { .items = NULL };
    struct call call = {
        .work = &request,
        .operation = (data[0] & 1) != 0 ? &trace_batch : &trace_single,
        .form.nonfinite_allowed = (data[0] & 2) != 0,
        .form.format = (data[0] & 4) != 0 ? &format_safetensors : &format_json,
        .body_memory = malloc(size), /* aligned as the body of a request is */
    };
    require(call.body_memory != NULL);
    memcpy(call.body_memory, data + 1, size - 1);
    call.body = (struct byte_slice){ call.body_memory, size - 1 };
    request.arena = &call.arena;
    arena_init(request.arena, 1 << 26);
    if (call.operation->read(&call, &fault))
        check(&request);
    else
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    call_drop_body(&call);
    format_body_free(&call.form);
    trace_request_free(&request);
    return 0;
}
