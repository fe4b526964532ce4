/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire_oip.c - any bytes as an inference request of the Open Inference Protocol.
 *
 * The first byte chooses the model, whether there is a header length, and where in memory the
 * body begins. The next two bytes are that length. Any bytes must end in a fault with a message,
 * or in JSON whose outputs have the number and the lengths that their shapes and sizes say.
 * Sequences go on from one input to the next; what they hold is bounded. */
#include "models/store/model_store.h"
#include "operations/oip.h"
#include "operations/session/session_store.h"
#include "request.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_BYTES = 3, SESSIONS_BYTES = 1 << 20 };

static int64_t count_of(const struct json_document *document, const cJSON *output)
{
    const struct json_numbers *shape =
        json_numbers_of(document, cJSON_GetObjectItemCaseSensitive(output, "shape"));
    int64_t count = 1;
    require(shape != NULL);
    for (int64_t i = 0; i < shape->count; i++)
        count *= (int64_t)shape->values[i];
    return count;
}

static size_t size_of(const cJSON *output)
{
    const char *datatype = cJSON_GetObjectItemCaseSensitive(output, "datatype")->valuestring;
    const struct oip_datatype *found = oip_datatype_find(datatype);
    require(found != NULL);
    return found->size;
}

static void check_output(const struct json_document *document, const cJSON *output,
                         const struct call *call, int *part)
{
    const int64_t count = count_of(document, output);
    const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(output, "parameters");
    if (parameters) {
        const double size =
            cJSON_GetObjectItemCaseSensitive(parameters, "binary_data_size")->valuedouble;
        require(*part < call->part_count && (double)call->parts[*part].size == size);
        if (size_of(output) > 0)
            require(size == (double)count * (double)size_of(output));
        ++*part;
        return;
    }
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(output, "data");
    const struct json_numbers *numbers = json_numbers_of(document, values);
    require(numbers ? numbers->count == count : cJSON_GetArraySize(values) == count);
}

static void answer(struct call *call, void *workspace)
{
    const struct json_options options = { .nonfinite_allowed = false };
    struct json_document answered;
    struct fault fault = { .code = FAULT_NONE };
    const cJSON *output;
    int part = 1;
    for (int64_t i = 0; i < infer_request_of(call)->item_count; i++)
        request_run(&infer_request_of(call)->items[i], workspace);
    require(!call->order || call->order->check(call, &fault));
    if (!operation_write(call, &fault)) {
        require(fault.code == FAULT_MEMORY);
        return;
    }
    require(text_finish(&call->text, &fault));
    if (!json_read(&answered, call->text.data, call->text.used, &options, &fault)) {
        require(fault.code == FAULT_TOO_LARGE); /* strings outside arrays of numbers */
        return;
    }
    cJSON_ArrayForEach(output, cJSON_GetObjectItemCaseSensitive(answered.root, "outputs"))
        check_output(&answered, output, call, &part);
    require(call->part_count == 0 ? part == 1 : part == call->part_count);
    json_free(&answered);
}

static void set_body(struct call *call, size_t offset, const uint8_t *bytes, size_t size)
{
    char *memory = malloc(offset + size + 1);
    require(memory != NULL);
    memcpy(memory + offset, bytes, size);
    call->body_memory = memory;
    call->body = (struct byte_slice){ memory + offset, size };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model_store *store;
    static void *workspace;
    static struct service service;
    const struct model_store_options no_directory = { .directory = NULL };
    struct fault fault = { .code = FAULT_NONE };
    char length[16];
    int failed_count;
    if (!store) {
        require(model_store_create(&store, &no_directory, &failed_count, &fault));
        workspace = aligned_alloc(64, WORKSPACE_BYTES);
        require(workspace != NULL);
        service.sessions = session_store_create(SESSIONS_BYTES, INT64_MAX, "");
        require(service.sessions != NULL);
    }
    if (size < HEAD_BYTES)
        return 0;
    struct call call = {
        .operation = &oip_infer,
        .service = &service,
        .limits = { .store = store,
                    .worker_count = 1,
                    .workspace_bytes = WORKSPACE_BYTES,
                    .answer_bytes_max = 1 << 24,
                    .scratch_bytes_max = 1 << 26 },
        .form.nonfinite_allowed = (data[0] & 4) != 0,
    };
    snprintf(length, sizeof length, "%d", data[1] + 256 * data[2]);
    const struct oip_headers headers = {
        .header_length = (data[0] & 2) != 0 ? length : NULL,
        .content_type = "",
    };
    arena_init(&call.arena, call.limits.scratch_bytes_max);
    text_init(&call.text, (size_t)1 << 28);
    set_body(&call, data[0] >> 4, data + HEAD_BYTES, size - HEAD_BYTES);
    const bool planned =
        oip_infer_begin(&call, (data[0] & 1) != 0 ? "sdpa" : "demo", "", &headers, &fault)
        && operation_read(&call, &fault)
        && (!call.order || (call.order->is_turn(&call) && call.order->prepare(&call, &fault)))
        && infer_plan(infer_request_of(&call), &call.limits, &fault);
    if (!planned) {
        if (call.operation->explain && fault.code != FAULT_NONE)
            call.operation->explain(&call, &fault);
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    } else if (request_is_small(infer_request_of(&call))) {
        answer(&call, workspace);
    }
    if (call.order)
        call.order->end(&call, &fault);
    operation_drop(&call);
    free(call.body_memory);
    text_free(&call.text);
    if (call.work)
        infer_request_free(infer_request_of(&call));
    free(call.work);
    model_release(call.model);
    arena_free(&call.arena);
    return 0;
}
