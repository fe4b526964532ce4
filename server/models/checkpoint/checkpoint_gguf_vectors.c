/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf_vectors.c - how a GGUF file says that its rows become one vector: the key
 * "pooling_type" behind the architecture.
 *
 * Source: llama.cpp, include/llama.h, enum llama_pooling_type; gguf-py/gguf/constants.py,
 * Keys.LLM.POOLING_TYPE. What sentence-transformers has behind the pooling is in none of these
 * files; llama.cpp divides a vector by its length where it is asked for one. */
#include "models/checkpoint/checkpoint_gguf.h"

#include "formats/gguf.h"
#include "models/model/model_forward.h"
#include "models/model/model_storage.h"

#include <inttypes.h>
#include <stdio.h>

enum { KEY_BYTES = 96, REASON_BYTES = 160 };

/* By their numbers in a file. */
enum pooling_type { POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_TYPE_COUNT };

static const enum model_pooling POOLINGS[POOLING_TYPE_COUNT] = {
    [POOLING_MEAN] = MODEL_POOLING_MEAN,
    [POOLING_CLS] = MODEL_POOLING_CLS,
    [POOLING_LAST] = MODEL_POOLING_LAST,
};

/* The number of the key; POOLING_NONE where the file has none, or no number there. */
static int64_t read_type(const struct gguf *metadata)
{
    const struct gguf_value *architecture = gguf_find(metadata, "general.architecture");
    const char *name;
    char key[KEY_BYTES];
    size_t length;
    int64_t type;
    if (!architecture || !gguf_text(architecture, &name, &length))
        return POOLING_NONE;
    snprintf(key, sizeof key, "%.64s.pooling_type", name);
    const struct gguf_value *value = gguf_find(metadata, key);
    return value && gguf_integer(value, &type) ? type : POOLING_NONE;
}

bool checkpoint_gguf_vectors_set(struct model *model, const struct gguf *metadata,
                                 struct fault *fault)
{
    const int64_t type = read_type(metadata);
    struct arena *arena = &model->storage->arena;
    char reason[REASON_BYTES];
    if (!model->forward || type == POOLING_NONE)
        return true;
    struct model_vectors *vectors = arena_calloc(arena, 1, sizeof *vectors);
    if (!vectors)
        return fault_no_memory(fault);
    model->vectors = vectors;
    vectors->source = "pooling_type";
    const bool has_dense = gguf_tensor_find(metadata, "dense_2.weight") != NULL;
    if (type > POOLING_NONE && type < POOLING_TYPE_COUNT && !has_dense) {
        vectors->readout = (struct model_readout){ .width = model->forward->streams[0].width,
                                                   .poolings = { POOLINGS[type] },
                                                   .pooling_count = 1 };
        return true;
    }
    if (has_dense)
        snprintf(reason, sizeof reason,
                 "the file has layers behind its pooling (dense_2.weight), which are not read; say "
                 "a pooling to have the vector before them");
    else
        snprintf(reason, sizeof reason,
                 "the file's pooling_type is %" PRId64 "; expected 1 (mean), 2 (cls) or 3 (last)",
                 type);
    vectors->reason = arena_strdup(arena, reason);
    return vectors->reason || fault_no_memory(fault);
}
