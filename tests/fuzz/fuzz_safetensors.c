/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_safetensors.c - any bytes as a file: to safetensors_read(), and then as a model.
 *
 * If the bytes are refused, the fault must be one that safetensors.h names. If they are taken,
 * the tensors must cover the data without gap or overlap, each must be found by its name, and
 * its size must be that of its shape. A model made of them must have numbers wherever its layers
 * say so. */
#include "formats/safetensors.h"
#include "models/model/model.h"
#include "models/store/model_open.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_entry(const struct safetensors *file, const struct safetensors_entry *entry)
{
    uint64_t shape[4], bits = 1;
    require(entry->name[entry->name_length] == '\0');
    if (strlen(entry->name) == entry->name_length)
        require(safetensors_find(file, entry->name) == entry);
    if (entry->rank > 4)
        return;
    safetensors_shape(entry, shape, entry->rank);
    for (int64_t i = 0; i < entry->rank; i++)
        bits *= shape[i];
    if (strcmp(entry->dtype, "F32") == 0)
        require(bits * 4 == entry->size);
    if (strcmp(entry->dtype, "F4") == 0)
        require(bits == entry->size * 2);
}

static void check_file(const struct safetensors *file, const uint8_t *data, size_t size)
{
    const uint8_t *end = data + 8 + file->header_size;
    for (int64_t i = 0; i < file->entry_count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        require(entry->data == end);
        end += entry->size;
        check_entry(file, entry);
    }
    require(end == data + size);
    for (int64_t i = 0; i < file->metadata_count; i++) {
        const struct safetensors_pair *pair = &file->metadata[i];
        if (strlen(pair->key) == pair->key_length)
            require(safetensors_metadata(file, pair->key) == pair);
    }
}

/* Reads the first and the last number: an address sanitizer sees it if they are not there. */
static void check_linear(const struct attn_linear *linear, int64_t out)
{
    if (!linear->weight)
        return;
    const volatile char *const bytes = linear->weight;
    const volatile char first = bytes[0];
    const volatile char last =
        bytes[linear->out * linear->in * (int64_t)attn_dtype_size(linear->dtype) - 1];
    (void)first;
    (void)last;
    require(linear->out == out);
    if (linear->bias) {
        const volatile float bias = linear->bias[out - 1];
        (void)bias;
    }
}

static void check_model(const struct model *model)
{
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct attn_layer *layer = &model->layers[i].layer;
        check_linear(&layer->q_proj, layer->q_heads * layer->head_dim);
        check_linear(&layer->k_proj, layer->kv_heads * layer->head_dim);
        check_linear(&layer->v_proj, layer->kv_heads * layer->v_head_dim);
        check_linear(&layer->o_proj, model->layers[i].d_out);
        require(layer->q_heads % layer->kv_heads == 0);
        require(attn_rope_check(&layer->rope, layer->head_dim, NULL) == ATTN_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors file;
    struct model *model;
    struct fault fault = { .code = FAULT_NONE };
    if (!safetensors_read(&file, data, size, &fault)) {
        require(fault.code == FAULT_BINARY || fault.code == FAULT_JSON
                || fault.code == FAULT_DUPLICATE || fault.code == FAULT_MEMORY);
        require(fault.message[0] != '\0' && file.entries == NULL);
        return 0;
    }
    check_file(&file, data, size);
    safetensors_free(&file);
    if (model_create(&model, "m", "fuzz", data, size, NULL, NULL, NULL, &fault)) {
        check_model(model);
        model_release(model);
    } else {
        require(fault.code != FAULT_NONE);
    }
    return 0;
}
