/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_session_file.c - any bytes as the file of a session.
 *
 * They end in a fault with a message, or in what session_file_read.h says: layers that ascend, each
 * with tensors of one length in the dtype of the file, and settings within their bounds. */
#include "operations/session/session_file_read.h"
#include "request.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_layer(const struct session_file_read *read, int64_t i)
{
    const struct session_file_layer *layer = &read->layers[i];
    const struct session_shape *shape = &layer->shape;
    const size_t width = attn_dtype_size(read->dtype);
    require(i == 0 || layer->number > read->layers[i - 1].number);
    require(layer->kv_len >= 0 && layer->kv_len <= read->kv_len_max);
    require(shape->dtype == read->dtype && layer->entries[0] && layer->entries[1]);
    require(layer->kv_len == layer->lengths.rows + layer->lengths.rest);
    if (layer->kv_len == 0)
        return;
    const size_t rows = (size_t)(shape->kv_heads * layer->lengths.rows);
    require(layer->entries[0]->size == rows * (size_t)shape->head_dim * width);
    require(layer->entries[1]->size == rows * (size_t)shape->v_head_dim * width);
    if (read->dtype != ATTN_I8)
        return;
    const size_t rest = (size_t)(shape->kv_heads * layer->lengths.rest);
    require(layer->lengths.rest < ATTN_I8_ROWS);
    require(layer->entries[SESSION_FILE_VALUE_SCALE]->size == rows * sizeof(float));
    require(layer->entries[SESSION_FILE_KEY_SCALE]->size
            == (size_t)(shape->kv_heads * layer->lengths.groups * shape->head_dim) * sizeof(float));
    require(layer->entries[SESSION_FILE_KEY_REST]->size
            == rest * (size_t)shape->head_dim * sizeof(float));
    require(layer->entries[SESSION_FILE_VALUE_REST]->size
            == rest * (size_t)shape->v_head_dim * sizeof(float));
}

static void check_read(const struct session_file_read *read)
{
    struct fault fault = { .code = FAULT_NONE };
    require(read->model_name && read->layer_count > 0);
    require(!read->digest || (read->model_identity && read->id));
    require(read->ttl_ns > 0 && read->ttl_ns <= SESSION_TTL_MAX_NS);
    require(read->age_ns >= 0 && read->idle_ns >= 0 && read->kv_len_max >= 1);
    for (int64_t i = 0; i < read->layer_count; i++)
        check_layer(read, i);
    require(session_file_check_sums(read, &fault) || fault.message[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct session_file_read read;
    struct fault fault = { .code = FAULT_NONE };
    if (!session_file_read(&read, data, size, NULL, &fault)) {
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
        return 0;
    }
    check_read(&read);
    session_file_read_free(&read);
    return 0;
}
