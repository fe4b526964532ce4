/* model_identity.c - see model_identity.h. */
#include "model/model_identity.h"

#include "model/model_storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WHOLE_BYTES = 8 << 20, BLOCK_BYTES = 4096, BLOCK_COUNT = 2048, LINE_BYTES = 512 };

enum { IDENTITY_NONE, IDENTITY_BEING_MADE, IDENTITY_MADE };

static void add_rope(struct sha256 *hash, const struct attn_rope *rope)
{
    const struct attn_rope_scaling *scaling = &rope->scaling;
    char line[LINE_BYTES];
    const int used = snprintf(
        line, sizeof line, "rope %" PRId64 " %a %d %d %a %a %a %a %a %a %d %a %a %a\n", rope->dim,
        rope->theta, rope->interleaved, (int)scaling->type, scaling->factor,
        scaling->original_max_position_embeddings, scaling->low_freq_factor,
        scaling->high_freq_factor, scaling->beta_fast, scaling->beta_slow, scaling->truncate,
        scaling->attention_factor, scaling->mscale, scaling->mscale_all_dim);
    sha256_add(hash, line, (size_t)used);
    if (rope->dim == 0 || scaling->type != ATTN_ROPE_LONGROPE)
        return;
    sha256_add(hash, scaling->short_factor, (size_t)rope->dim / 2 * sizeof(double));
    sha256_add(hash, scaling->long_factor, (size_t)rope->dim / 2 * sizeof(double));
}

static void add_layer(struct sha256 *hash, const struct model_layer *layer)
{
    const struct attn_layer *own = &layer->layer;
    const struct attn_options *options = &layer->options;
    char line[LINE_BYTES];
    const int used = snprintf(line, sizeof line,
                              "layer %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                              " %a %a %a %d %" PRId64 " %" PRId64 "\n",
                              own->q_heads, own->kv_heads, own->head_dim, own->v_head_dim,
                              own->projected_max, options->scale, options->softcap, options->causal,
                              options->window_left, options->window_right);
    sha256_add(hash, line, (size_t)used);
    add_rope(hash, &own->rope);
}

/* All of a short file; of a long one its length and blocks at equal distances, the first and the
 * last of them at its ends. */
static void add_file(struct sha256 *hash, const struct model_mapping *file)
{
    char line[LINE_BYTES];
    const int used = snprintf(line, sizeof line, "file %zu\n", file->size);
    const char *bytes = file->bytes;
    sha256_add(hash, line, (size_t)used);
    if (file->size <= WHOLE_BYTES) {
        sha256_add(hash, bytes, file->size);
        return;
    }
    const double step = (double)(file->size - BLOCK_BYTES) / (BLOCK_COUNT - 1);
    for (int i = 0; i < BLOCK_COUNT; i++)
        sha256_add(hash, bytes + (size_t)(step * i), BLOCK_BYTES);
}

static bool make(const struct model *model, char hex[SHA256_HEX_BYTES], struct fault *fault)
{
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, model->name, strlen(model->name) + 1);
    sha256_add(&hash, model->attention, strlen(model->attention) + 1);
    for (int64_t i = 0; i < model->layer_count; i++)
        add_layer(&hash, &model->layers[i]);
    for (const struct model_mapping *file = model->storage->mapping; file; file = file->next)
        add_file(&hash, file);
    return sha256_end(&hash, hex) || fault_no_memory(fault);
}

/* Threads that ask at the same time may each make it; one of them keeps it. */
bool model_identity(struct model *model, char hex[SHA256_HEX_BYTES], struct fault *fault)
{
    struct model_storage *storage = model->storage;
    int state = IDENTITY_NONE;
    if (atomic_load(&storage->identity_state) == IDENTITY_MADE) {
        memcpy(hex, storage->identity, SHA256_HEX_BYTES);
        return true;
    }
    if (!make(model, hex, fault))
        return false;
    if (atomic_compare_exchange_strong(&storage->identity_state, &state, IDENTITY_BEING_MADE)) {
        memcpy(storage->identity, hex, SHA256_HEX_BYTES);
        atomic_store(&storage->identity_state, IDENTITY_MADE);
    }
    return true;
}
