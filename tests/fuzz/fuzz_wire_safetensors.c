/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire_safetensors.c - any bytes as a call in the form of a safetensors file: read,
 * planned, computed, written.
 *
 * The first byte chooses attention, its gradients or a merge. Any bytes must end in a fault with
 * a message, or in an answer that is a safetensors file again. */
#include "call/infer_results.h"
#include "models/store/model_store.h"
#include "operations/attention.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORKSPACE_BYTES = 1 << 18, WORK_MAX = 1 << 20 };

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool is_small(const struct infer_item *item)
{
    return item->q_len * (item->kv_len_max + item->part_count) * (item->d_out + 1) < WORK_MAX;
}

static void run(const struct infer_item *item, void *workspace)
{
    void *own = item->workspaces ? item->workspaces : workspace;
    int64_t count = 1;
    for (int stage = 0; count > 0; stage++) {
        count = infer_tasks_count(item, stage);
        for (int64_t task = 0; task < count; task++)
            infer_tasks_run(item, stage, task, own);
    }
}

static void answer(struct call *call)
{
    struct safetensors file;
    struct fault fault;
    size_t size = 0;
    require(operation_write(call, &fault));
    for (int i = 0; i < call->part_count; i++)
        size += call->parts[i].size;
    char *bytes = malloc(size + 1), *end = bytes;
    require(bytes != NULL);
    for (int i = 0; i < call->part_count; i++) {
        memcpy(end, call->parts[i].data, call->parts[i].size);
        end += call->parts[i].size;
    }
    require(safetensors_read(&file, bytes, size, &fault));
    require(safetensors_metadata(&file, "model") != NULL);
    safetensors_free(&file);
    free(bytes);
}

static const struct operation *operation_of(uint8_t how)
{
    return (how & 2) != 0   ? &attention_merge
           : (how & 1) != 0 ? &attention_gradients
                            : &attention_single;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model_store *store;
    static void *workspace;
    const struct model_store_options no_directory = { .directory = NULL };
    struct fault fault = { .code = FAULT_NONE };
    int failed_count;
    if (!store) {
        require(model_store_create(&store, &no_directory, &failed_count, &fault));
        workspace = aligned_alloc(64, WORKSPACE_BYTES);
        require(workspace != NULL);
    }
    if (size == 0)
        return 0;
    struct infer_request request = { .items = NULL };
    struct call call = {
        .work = &request,
        .limits = { .store = store,
                    .worker_count = 1,
                    .workspace_bytes = WORKSPACE_BYTES,
                    .answer_bytes_max = 1 << 24,
                    .scratch_bytes_max = 1 << 26 },
        .operation = operation_of(data[0]),
        .form.format = &format_safetensors,
        .answer = &format_safetensors,
        .body_memory = malloc(size), /* aligned as the body of a request is */
    };
    require(call.body_memory != NULL);
    memcpy(call.body_memory, data + 1, size - 1);
    call.body = (struct byte_slice){ call.body_memory, size - 1 };
    request.arena = &call.arena;
    arena_init(request.arena, call.limits.scratch_bytes_max);
    text_init(&call.text, (size_t)1 << 28);
    if (!call.operation->read(&call, &fault) || !infer_plan(&request, &call.limits, &fault)) {
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    } else if (request.items[0].fault.code != FAULT_NONE) {
        require(request.items[0].fault.message[0] != '\0');
    } else if (is_small(&request.items[0])) {
        run(&request.items[0], workspace);
        answer(&call);
    }
    call_drop_body(&call);
    text_free(&call.text);
    format_body_free(&call.form);
    infer_request_free(&request);
    return 0;
}
