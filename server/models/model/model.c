/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - references, what is held for a request, biases by position, and what tells one model
 * from another. */
#include "models/model/model.h"

#include "models/model/model_forward.h"
#include "models/model/model_mapping.h"
#include "models/model/model_storage.h"
#include "models/tokenizer/tokenizer.h"
#include "telemetry/log.h"
#include "telemetry/model_statistics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------ life and death -- */

bool model_storage_create(struct model **model, const char *name, const char *source,
                          int64_t layer_count, struct fault *fault)
{
    struct model *made = calloc(1, sizeof *made);
    struct model_storage *storage = calloc(1, sizeof *storage);
    if (!made || !storage) {
        free(made);
        free(storage);
        fault_no_memory(fault);
        return false;
    }
    arena_init(&storage->arena, SIZE_MAX);
    atomic_init(&storage->references, 1);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->version = 1;
    made->storage = storage;
    made->attention = made->dtype = made->format = "";
    made->source = arena_strdup(&storage->arena, source);
    made->layers = arena_calloc(&storage->arena, (size_t)layer_count, sizeof *made->layers);
    made->layer_count = layer_count;
    made->statistics = arena_calloc(&storage->arena, 1, sizeof *made->statistics);
    if (!made->source || !made->layers || !made->statistics) {
        model_release(made);
        fault_no_memory(fault);
        return false;
    }
    *model = made;
    return true;
}

/* Of models that are served no more and that somebody still holds. */
static _Atomic size_t retired_bytes;

struct model *model_retain(struct model *model)
{
    atomic_fetch_add_explicit(&model->storage->references, 1, memory_order_relaxed);
    return model;
}

void model_release(struct model *model)
{
    if (!model
        || atomic_fetch_sub_explicit(&model->storage->references, 1, memory_order_acq_rel) > 1)
        return;
    struct model_storage *storage = model->storage;
    model_statistics_free(model->statistics);
    tokenizer_free(model->tokenizer);
    model_converted_free(&storage->copies);
    if (storage->is_retired)
        atomic_fetch_sub(&retired_bytes, model_mapping_bytes(storage->mapping));
    if (storage->release)
        storage->release(storage->context);
    arena_free(&storage->arena);
    free(storage);
    free(model);
}

void model_retire(struct model *model)
{
    /* The only holder frees it below, and nobody else can hold it. */
    if (model && atomic_load(&model->storage->references) > 1) {
        atomic_fetch_add(&retired_bytes, model_mapping_bytes(model->storage->mapping));
        model->storage->is_retired = true;
    }
    model_release(model);
}

size_t model_retired_bytes(void)
{
    return atomic_load(&retired_bytes);
}

const char *model_damage(const struct model *model)
{
    bool is_new;
    const char *damage = model_mapping_damage(model->storage->mapping, &is_new);
    if (is_new)
        log_line(LOG_WARNING, "model unavailable", LOG_STRING("name", model->name),
                 LOG_NUMBER("version", model->version), LOG_STRING("reason", damage));
    return damage;
}

bool model_rename_file(struct model *model, const char *path, struct fault *fault)
{
    return model_mapping_rename(model->storage->mapping, path, fault);
}

/* ------------------------------------------------------------------ layers -- */

enum { LAYER_LINEARS = MODEL_PROJECTION_COUNT + 5, LAYER_ADDRESSES = 2 * LAYER_LINEARS + 4 };

static void list_addresses(const struct model_layer *layer, const void *addresses[LAYER_ADDRESSES])
{
    const struct attn_latent *latent = &layer->layer.latent;
    const struct attn_linear *const linears[LAYER_LINEARS] = {
        &layer->layer.q_proj, &layer->layer.k_proj, &layer->layer.v_proj,
        &layer->layer.o_proj, &layer->concat_proj,  &layer->layer.gate_proj,
        &latent->q_down,      &latent->k_up,        &latent->v_up
    };
    int count = 0;
    for (int i = 0; i < LAYER_LINEARS; i++) {
        addresses[count++] = linears[i]->weight;
        addresses[count++] = linears[i]->bias;
    }
    addresses[count++] = latent->q_norm.weight;
    addresses[count++] = layer->layer.q_norm.weight;
    addresses[count++] = layer->layer.k_norm.weight;
    addresses[count] = layer->layer.additive_weight;
}

bool model_hold_layer(struct model *model, int64_t layer, struct fault *fault)
{
    const void *addresses[LAYER_ADDRESSES];
    list_addresses(&model->layers[layer], addresses);
    return model_converted_hold(&model->storage->copies, addresses, LAYER_ADDRESSES, fault);
}

void model_drop_layer(struct model *model, int64_t layer)
{
    const void *addresses[LAYER_ADDRESSES];
    list_addresses(&model->layers[layer], addresses);
    model_converted_drop(&model->storage->copies, addresses, LAYER_ADDRESSES);
}

bool model_forward_hold(struct model *model, struct fault *fault)
{
    return model_converted_hold(&model->storage->copies, model->forward->addresses,
                                model->forward->address_count, fault);
}

void model_forward_drop(struct model *model)
{
    model_converted_drop(&model->storage->copies, model->forward->addresses,
                         model->forward->address_count);
}

const char *model_layer_kind(const struct model_layer *layer)
{
    const bool is_self = layer->d_query >= 0 && layer->d_query == layer->d_key
                         && (layer->d_value < 0 || layer->d_value == layer->d_key);
    return layer->kind ? layer->kind : is_self ? "self" : "cross";
}

bool model_is_hybrid(const struct model *model)
{
    for (int64_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].lacks_attention)
            return true;
    return false;
}

int64_t model_state_numbers(const struct model *model, int64_t layer)
{
    const struct model_forward *forward = model->forward;
    for (int s = 0; forward && s < forward->stream_count; s++)
        for (int64_t i = 0; i < forward->streams[s].block_count; i++) {
            const struct model_block *block = &forward->streams[s].blocks[i];
            if (model_block_recurrence(block, layer))
                return model_recurrence_state(block->recurrence);
        }
    return 0;
}

/* ------------------------------------------------- relative position biases -- */

/* A picture's numbers are in the order of generate_relative_position_index() of transformers'
 * beit/modeling_beit.py: one for each step down and right from a patch to another, then one each
 * for class to patch, patch to class, and class to class. */
static int64_t picture_column(const struct model_relative_bias *bias, int64_t query, int64_t key)
{
    if (query == 0)
        return bias->count - (key == 0 ? 1 : 3);
    if (key == 0)
        return bias->count - 2;
    const int64_t down = (query - 1) / bias->width - (key - 1) / bias->width;
    const int64_t right = (query - 1) % bias->width - (key - 1) % bias->width;
    return (down + bias->height - 1) * (2 * bias->width - 1) + right + bias->width - 1;
}

int64_t model_bias_column(const struct model_relative_bias *bias, int64_t query, int64_t key)
{
    if (bias->height > 0)
        return picture_column(bias, query, key);
    const int64_t distance = bias->by_query ? query - key : key - query, reach = bias->reach;
    const int64_t nearest = distance < -reach ? -reach : distance > reach ? reach : distance;
    return bias->by_head ? bias->row_of[nearest + reach] : nearest + reach;
}

static bool check_picture_rows(const struct model_relative_bias *bias, const char *name,
                               const char *pointer, int64_t first, int64_t count,
                               struct fault *fault)
{
    const int64_t positions = bias->height * bias->width + 1;
    return (first >= 0 && count <= positions && first <= positions - count)
           || fault_set_at(fault, pointer, FAULT_LENGTH,
                           "%s has %" PRId64 " rows from position %" PRId64
                           " on; this layer's bias is for %" PRId64
                           " of them, a class token and %" PRId64 " by %" PRId64 " patches",
                           name, count, first, positions, bias->height, bias->width);
}

static bool check_reach(const struct model_relative_bias *bias, int64_t last, int64_t first,
                        struct fault *fault)
{
    return last - first <= bias->reach
           || fault_set_at(fault, "/query", FAULT_LENGTH,
                           "rows of query and key are up to %" PRId64
                           " positions apart; this layer has relative positions to %" PRId64,
                           last - first, bias->reach);
}

bool model_bias_check(const struct model_relative_bias *bias, int64_t first_query, int64_t q_len,
                      int64_t first_key, int64_t kv_len, struct fault *fault)
{
    if (bias->by_query && !bias->by_head)
        return check_reach(bias, first_query + q_len - 1, first_key, fault)
               && check_reach(bias, first_key + kv_len - 1, first_query, fault);
    return bias->height == 0
           || (check_picture_rows(bias, "query", "/query", first_query, q_len, fault)
               && check_picture_rows(bias, "key", "/key", first_key, kv_len, fault));
}

/* ---------------------------------------------------------------- identity -- */

enum { WHOLE_BYTES = 8 << 20, BLOCK_BYTES = 4096, BLOCK_COUNT = 2048, LINE_BYTES = 512 };

enum { IDENTITY_NONE, IDENTITY_BEING_MADE, IDENTITY_MADE };

/* What few ropes have. */
static void hash_rope_more(struct sha256 *hash, const struct attn_rope *rope)
{
    char line[LINE_BYTES];
    int used = 0;
    if (rope->grid.height > 0)
        used = snprintf(line, sizeof line, "grid %" PRId64 " %" PRId64 " %" PRId64 "\n",
                        rope->grid.first, rope->grid.height, rope->grid.width);
    if (rope->query_growth > 0)
        used =
            snprintf(line, sizeof line, "growth %a %a\n", rope->query_growth, rope->query_length);
    sha256_add(hash, line, (size_t)used);
    if (rope->pairs > 0)
        sha256_add(hash, line,
                   (size_t)snprintf(line, sizeof line, "pairs %" PRId64 "\n", rope->pairs));
    if (rope->query_offset > 0)
        sha256_add(hash, line,
                   (size_t)snprintf(line, sizeof line, "offset %a\n", rope->query_offset));
}

static void hash_rope(struct sha256 *hash, const struct attn_rope *rope)
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
    hash_rope_more(hash, rope);
    if (rope->dim == 0 || scaling->type != ATTN_ROPE_LONGROPE)
        return;
    sha256_add(hash, scaling->short_factor, (size_t)rope->dim / 2 * sizeof(double));
    sha256_add(hash, scaling->long_factor, (size_t)rope->dim / 2 * sizeof(double));
}

static void hash_layer(struct sha256 *hash, const struct model_layer *layer)
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
    if (layer->lacks_attention)
        sha256_add(hash, layer->kind, strlen(layer->kind) + 1);
    if (own->gate_proj.weight)
        sha256_add(hash, "gate\n", 5);
    if (own->norms_follow_rope)
        sha256_add(hash, "norms follow rope\n", 18);
    if (own->v_norm.weight)
        sha256_add(hash, "normed values\n", 14);
    if (layer->shares_keys)
        sha256_add(hash, line,
                   (size_t)snprintf(line, sizeof line, "keys of %" PRId64 "\n", layer->keys_of));
    if (options->chunk > 0)
        sha256_add(hash, line,
                   (size_t)snprintf(line, sizeof line, "chunk %" PRId64 "\n", options->chunk));
    hash_rope(hash, &own->rope);
}

/* All of a short file; of a long one its length and blocks at equal distances, the first and the
 * last of them at its ends. */
static void hash_file(struct sha256 *hash, const struct model_mapping *file)
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

static bool make_identity(const struct model *model, char hex[SHA256_HEX_BYTES],
                          struct fault *fault)
{
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, model->name, strlen(model->name) + 1);
    sha256_add(&hash, model->attention, strlen(model->attention) + 1);
    for (int64_t i = 0; i < model->layer_count; i++)
        hash_layer(&hash, &model->layers[i]);
    for (const struct model_mapping *file = model->storage->mapping; file; file = file->next)
        hash_file(&hash, file);
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
    if (!make_identity(model, hex, fault))
        return false;
    if (atomic_compare_exchange_strong(&storage->identity_state, &state, IDENTITY_BEING_MADE)) {
        memcpy(storage->identity, hex, SHA256_HEX_BYTES);
        atomic_store(&storage->identity_state, IDENTITY_MADE);
    }
    return true;
}
