/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_gguf_model.c - any bytes as a GGUF file that becomes a model.
 *
 * Tensors under the names of their family lie in the file and have as many bytes as their shapes
 * say, whatever was cut out of them. What is refused has a reason; a model that is made has numbers
 * wherever its layers and its pass say so. */
#include "base/dtype.h"
#include "models/checkpoint/checkpoint_gguf.h"
#include "models/model/model_forward.h"
#include "models/store/model_open.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_entry(const struct model_entry *entry, const uint8_t *data, size_t size)
{
    const uint8_t *begin = entry->data;
    uint64_t count = 1;
    enum attn_dtype dtype;
    require(strlen(entry->name) == entry->name_length);
    require(begin >= data && entry->size <= size && begin + entry->size <= data + size);
    for (int64_t i = 0; i < entry->rank; i++)
        count *= entry->shape[i];
    require(count == entry->number_count);
    if (dtype_find(entry->dtype, &dtype))
        require(count / (uint64_t)attn_block_numbers(dtype) * attn_block_bytes(dtype)
                == entry->size);
}

/* Reads the first and the last byte: an address sanitizer sees it if they are not there. */
static void check_linear(const struct attn_linear *linear)
{
    if (!linear->weight)
        return;
    const volatile char *const bytes = linear->weight;
    const int64_t blocks = linear->out * linear->in / attn_block_numbers(linear->dtype);
    const volatile char first = bytes[0];
    const volatile char last = bytes[blocks * (int64_t)attn_block_bytes(linear->dtype) - 1];
    (void)first;
    (void)last;
}

static void check_floats(const float *values, int64_t count)
{
    const volatile float *const floats = values;
    if (!floats)
        return;
    const volatile float first = floats[0], last = floats[count - 1];
    (void)first;
    (void)last;
}

static void check_recurrence(const struct model_recurrence *recurrence)
{
    const struct attn_convolution *convolution = &recurrence->convolution;
    const struct attn_ssd *ssd = &recurrence->ssd;
    const char *where;
    int64_t columns = 0;
    for (int i = 0; i < recurrence->in_count; i++) {
        check_linear(&recurrence->in[i]);
        columns += recurrence->in[i].out;
    }
    require(columns == recurrence->columns);
    check_linear(&recurrence->out);
    require(attn_convolution_check(convolution, &where) == ATTN_OK);
    check_floats(convolution->weight, convolution->columns * convolution->taps);
    check_floats(convolution->bias, convolution->columns);
    check_floats(recurrence->norm.weight, recurrence->mixed);
    if (recurrence->kind != MODEL_RECURRENCE_SSD)
        return;
    require(attn_ssd_check(ssd, &where) == ATTN_OK);
    check_floats(ssd->a, ssd->heads);
    check_floats(ssd->dt_bias, ssd->heads);
    check_floats(ssd->d, ssd->heads);
}

static void check_model(const struct model *model)
{
    require(model->forward || model->forward_reason[0]);
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct attn_layer *layer = &model->layers[i].layer;
        check_linear(&layer->q_proj);
        check_linear(&layer->k_proj);
        check_linear(&layer->v_proj);
        check_linear(&layer->o_proj);
    }
    if (!model->forward)
        return;
    check_linear(&model->forward->head.output);
    for (int i = 0; i < model->forward->stream_count; i++)
        for (int64_t b = 0; b < model->forward->streams[i].block_count; b++) {
            const struct model_block *block = &model->forward->streams[i].blocks[b];
            if (block->recurrence)
                check_recurrence(block->recurrence);
            check_linear(&block->dense.up);
            check_linear(&block->dense.down);
            for (int64_t e = 0; block->experts.router.weight && e < block->experts.count; e++)
                check_linear(&block->experts.experts[e].up);
        }
}

static void check_names(const uint8_t *data, size_t size)
{
    struct model_tensors tensors;
    struct checkpoint checkpoint;
    struct fault fault = { .code = FAULT_NONE };
    char *config;
    if (!model_tensors_read(&tensors, data, size, &fault)) {
        require(fault.message[0]);
        return;
    }
    if (model_tensors_gguf(&tensors)) {
        if (checkpoint_read_gguf(&checkpoint, &config, &tensors, &fault)) {
            for (int64_t i = 0; i < tensors.entry_count; i++)
                check_entry(&tensors.entries[i], data, size);
            checkpoint_free(&checkpoint);
            free(config);
        } else {
            require(fault.message[0] && !config);
        }
    }
    model_tensors_free(&tensors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model *model;
    struct fault fault = { .code = FAULT_NONE };
    if (size < 4 || memcmp(data, "GGUF", 4) != 0)
        return 0;
    check_names(data, size);
    if (model_create(&model, "fuzz", "fuzz", data, size, NULL, NULL, NULL, &fault)) {
        check_model(model);
        model_release(model);
    } else {
        require(fault.message[0]);
    }
    return 0;
}
