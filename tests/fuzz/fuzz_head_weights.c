/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_head_weights.c - any bytes as the head_weights.json beside a model.
 *
 * A file is taken with all its names, each with the numbers that its shape says, or with none and a
 * reason. */
#include "models/checkpoint/checkpoint.h"
#include "models/model/model_storage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check(const struct model_head_weights *weights)
{
    require(weights->name != NULL && weights->layers >= 0 && weights->heads >= 0);
    for (int64_t i = 0; i < weights->layers * weights->heads; i++)
        require(isfinite(weights->values[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_storage storage = { .release = NULL };
    struct model model = { .storage = &storage };
    struct fault fault = { .code = FAULT_NONE };
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    arena_init(&storage.arena, 1 << 26);
    if (checkpoint_head_weights_set(&model, text, NULL, &fault)) {
        require(model.head_weights_reason == NULL || model.head_weight_count == 0);
        for (int64_t i = 0; i < model.head_weight_count; i++)
            check(&model.head_weights[i]);
    } else {
        require(fault.code != FAULT_NONE && fault.message[0] != '\0');
    }
    arena_free(&storage.arena);
    free(text);
    return 0;
}
