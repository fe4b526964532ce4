/* fuzz_wire_safetensors.c - any bytes as a call in the form of a safetensors file: read,
 * planned, computed, written.
 *
 * The first byte chooses attention, its gradients or a merge. Any bytes must end in a fault with
 * a message, or in an answer that is a safetensors file again. */
#include "format/safetensors.h"
#include "infer/infer_results.h"
#include "store/model_store.h"
#include "wire/wire_safetensors.h"

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

static void answer(struct infer_call *call, bool gradients)
{
    struct safetensors file;
    struct fault fault;
    size_t size = 0;
    require(gradients ? wire_safetensors_write_gradients(call, &fault)
                      : wire_safetensors_write(call, &fault));
    for (int i = 0; i < call->base.part_count; i++)
        size += call->base.parts[i].size;
    char *bytes = malloc(size + 1), *end = bytes;
    require(bytes != NULL);
    for (int i = 0; i < call->base.part_count; i++) {
        memcpy(end, call->base.parts[i].data, call->base.parts[i].size);
        end += call->base.parts[i].size;
    }
    require(safetensors_read(&file, bytes, size, &fault));
    require(safetensors_metadata(&file, "model") != NULL);
    safetensors_free(&file);
    free(bytes);
}

static bool read_call(struct infer_call *call, uint8_t how, struct fault *fault)
{
    return (how & 2) != 0 ? wire_safetensors_read_merge(call, fault)
                          : wire_safetensors_read(call, (how & 1) != 0, fault);
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
    const bool gradients = (data[0] & 3) == 1;
    struct infer_call call = {
        .limits = { .store = store,
                    .worker_count = 1,
                    .workspace_bytes = WORKSPACE_BYTES,
                    .answer_bytes_max = 1 << 24,
                    .scratch_bytes_max = 1 << 26 },
        .base.body_memory = malloc(size), /* aligned as the body of a request is */
    };
    require(call.base.body_memory != NULL);
    memcpy(call.base.body_memory, data + 1, size - 1);
    call.base.body = (struct byte_slice){ call.base.body_memory, size - 1 };
    arena_init(&call.request.arena, call.limits.scratch_bytes_max);
    text_init(&call.base.text, (size_t)1 << 28);
    if (!read_call(&call, data[0], &fault) || !infer_plan(&call.request, &call.limits, &fault)) {
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    } else if (call.request.items[0].fault.code != FAULT_NONE) {
        require(call.request.items[0].fault.message[0] != '\0');
    } else if (is_small(&call.request.items[0])) {
        run(&call.request.items[0], workspace);
        answer(&call, gradients);
    }
    call_drop_body(&call.base);
    text_free(&call.base.text);
    infer_request_free(&call.request);
    json_free(&call.base.document);
    return 0;
}
