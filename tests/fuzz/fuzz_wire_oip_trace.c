/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire_oip_trace.c - any bytes as an inference request of the Open Inference Protocol to a
 * model that can be traced: read, not computed.
 *
 * The first byte says whether there is a header length and where in memory the body begins. The
 * next two bytes are that length. Any bytes must end in a fault with a message, or in items of one
 * shape whose ids the model has. */
#include "daemon.h"
#include "models/store/model_store.h"
#include "operations/oip.h"
#include "operations/plan/trace_job.h"
#include "operations/plan/trace_plan.h"
#include "request.h"
#include "word_model.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_BYTES = 3 };

static struct model_store *open_store(void)
{
    struct model_store *store;
    struct fault fault;
    int failed_count;
    char folder[512];
    char *directory = daemon_directory_create();
    const struct model_store_options options = { .directory = directory };
    snprintf(folder, sizeof folder, "%s/words", directory);
    word_model_make(folder, NULL);
    require(model_store_create(&store, &options, &failed_count, &fault) && failed_count == 0);
    daemon_directory_remove(directory);
    return store;
}

static void check(const struct trace_request *request)
{
    const struct trace_item *first = &request->items[0];
    require(request->item_count >= 1 && request->item_count <= TRACE_ITEMS_MAX);
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct trace_item *item = &request->items[i];
        require(item->has_tokens || item->embeddings.data);
        require(item->token_count == first->token_count);
        require(item->attention_mask_count == first->attention_mask_count);
        for (int64_t k = 0; k < item->token_count; k++)
            require(item->tokens[k] >= 0
                    && item->tokens[k] < item->model->forward->streams[0].embedding.tokens.count);
    }
}

static void set_body(struct call *call, size_t offset, const uint8_t *bytes, size_t size)
{
    char *memory = malloc(offset + size + 1);
    require(memory != NULL);
    memcpy(memory + offset, bytes, size);
    call->body_memory = memory;
    call->body = (struct byte_slice){ memory + offset, size };
}

static void read_call(struct call *call, const struct oip_headers *headers)
{
    struct fault fault = { .code = FAULT_NONE };
    const bool good =
        oip_infer_begin(call, "words", "", headers, &fault) && operation_read(call, &fault);
    if (!good)
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    else if (call->operation == &oip_trace)
        check(trace_request_of(call));
    operation_drop(call);
    if (call->work && call->operation == &oip_trace)
        trace_request_free(trace_request_of(call));
    else if (call->work)
        infer_request_free(infer_request_of(call));
    free(call->work);
    model_release(call->model);
    arena_free(&call->arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model_store *store;
    char length[16];
    if (!store)
        store = open_store();
    if (size < HEAD_BYTES)
        return 0;
    struct call call = {
        .operation = &oip_infer,
        .limits = { .store = store,
                    .worker_count = 1,
                    .answer_bytes_max = 1 << 24,
                    .scratch_bytes_max = 1 << 26 },
    };
    snprintf(length, sizeof length, "%d", data[1] + 256 * data[2]);
    const struct oip_headers headers = {
        .header_length = (data[0] & 2) != 0 ? length : NULL,
        .content_type = "",
    };
    arena_init(&call.arena, call.limits.scratch_bytes_max);
    set_body(&call, data[0] >> 4, data + HEAD_BYTES, size - HEAD_BYTES);
    read_call(&call, &headers);
    free(call.body_memory);
    return 0;
}
