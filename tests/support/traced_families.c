/* SPDX-License-Identifier: Apache-2.0 */
/* traced_families.c - see traced_families.h. */
#include "traced_families.h"

#include "forward_reference.h"

#include <stdio.h>

#define T5_NORM(name) name ".weight 12*4, "
#define T5_ATTENTION(begin)                                                                        \
    FORWARD_TENSOR(begin "q.weight", 6x12)                                                         \
    FORWARD_TENSOR(begin "k.weight", 6x12)                                                         \
    FORWARD_TENSOR(begin "v.weight", 6x12)                                                         \
    FORWARD_TENSOR(begin "o.weight", 12x6)
#define T5_FEED_FORWARD(begin)                                                                     \
    FORWARD_TENSOR(begin "DenseReluDense.wi.weight", 20x12)                                        \
    FORWARD_TENSOR(begin "DenseReluDense.wo.weight", 12x20)
#define T5_BIAS(stack)                                                                             \
    FORWARD_TABLE(stack ".block.0.layer.0.SelfAttention.relative_attention_bias.weight", 8x2)
#define T5_ENCODER "encoder.block.#.layer."
#define T5_DECODER "decoder.block.#.layer."

static const char T5_CONFIG[] =
    "{\"model_type\":\"t5\",\"d_model\":12,\"d_kv\":3,\"num_heads\":2,\"num_layers\":2,"
    "\"d_ff\":20,\"vocab_size\":40,\"relative_attention_num_buckets\":8,"
    "\"relative_attention_max_distance\":5,\"decoder_start_token_id\":0}";

/* clang-format off */
static const char T5_TENSORS[] =
    FORWARD_TABLE("shared.weight", 40x12) T5_BIAS("encoder")
    T5_ATTENTION(T5_ENCODER "0.SelfAttention.") T5_NORM(T5_ENCODER "0.layer_norm")
    T5_FEED_FORWARD(T5_ENCODER "1.") T5_NORM(T5_ENCODER "1.layer_norm")
    T5_NORM("encoder.final_layer_norm") T5_BIAS("decoder")
    T5_ATTENTION(T5_DECODER "0.SelfAttention.") T5_NORM(T5_DECODER "0.layer_norm")
    T5_ATTENTION(T5_DECODER "1.EncDecAttention.") T5_NORM(T5_DECODER "1.layer_norm")
    T5_FEED_FORWARD(T5_DECODER "2.") T5_NORM(T5_DECODER "2.layer_norm")
    T5_NORM("decoder.final_layer_norm");

#define VIT_LAYER "vit.encoder.layer.#."

static const char VIT_CONFIG[] =
    "{\"model_type\":\"vit\",\"hidden_size\":12,\"num_attention_heads\":2,"
    "\"num_hidden_layers\":2,\"intermediate_size\":20,\"patch_size\":2,\"image_size\":6}";
static const char VIT_TENSORS[] =
    FORWARD_TABLE("vit.embeddings.cls_token", 1x1x12)
    FORWARD_LINEAR("vit.embeddings.patch_embeddings.projection", 12, 3x2x2)
    FORWARD_TENSOR("vit.embeddings.position_embeddings", 1x10x12)
    FORWARD_LINEAR(VIT_LAYER "attention.attention.query", 12, 12)
    FORWARD_LINEAR(VIT_LAYER "attention.attention.key", 12, 12)
    FORWARD_LINEAR(VIT_LAYER "attention.attention.value", 12, 12)
    FORWARD_LINEAR(VIT_LAYER "attention.output.dense", 12, 12)
    FORWARD_NORM(VIT_LAYER "layernorm_before", 12) FORWARD_NORM(VIT_LAYER "layernorm_after", 12)
    FORWARD_LINEAR(VIT_LAYER "intermediate.dense", 20, 12)
    FORWARD_LINEAR(VIT_LAYER "output.dense", 12, 20) FORWARD_NORM("vit.layernorm", 12);

#define CLIP_LAYER(begin)                                                                          \
    FORWARD_LINEAR(begin "self_attn.q_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "self_attn.k_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "self_attn.v_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "self_attn.out_proj", 12, 12)                                             \
    FORWARD_NORM(begin "layer_norm1", 12)                                                          \
    FORWARD_NORM(begin "layer_norm2", 12)                                                          \
    FORWARD_LINEAR(begin "mlp.fc1", 20, 12)                                                        \
    FORWARD_LINEAR(begin "mlp.fc2", 12, 20)
#define CLIP_FIELDS                                                                                \
    "\"hidden_size\":12,\"num_attention_heads\":2,\"num_hidden_layers\":2,"                        \
    "\"intermediate_size\":20"

static const char CLIP_CONFIG[] =
    "{\"model_type\":\"clip\",\"text_config\":{" CLIP_FIELDS
    ",\"vocab_size\":40,\"max_position_embeddings\":16},\"vision_config\":{" CLIP_FIELDS
    ",\"patch_size\":2,\"image_size\":6}}";
static const char CLIP_TENSORS[] =
    FORWARD_TABLE("text_model.embeddings.token_embedding.weight", 40x12)
    FORWARD_TENSOR("text_model.embeddings.position_embedding.weight", 16x12)
    CLIP_LAYER("text_model.encoder.layers.#.") FORWARD_NORM("text_model.final_layer_norm", 12)
    FORWARD_TABLE("vision_model.embeddings.class_embedding", 12)
    FORWARD_TENSOR("vision_model.embeddings.patch_embedding.weight", 12x3x2x2)
    FORWARD_TENSOR("vision_model.embeddings.position_embedding.weight", 10x12)
    FORWARD_NORM("vision_model.pre_layrnorm", 12) CLIP_LAYER("vision_model.encoder.layers.#.")
    FORWARD_NORM("vision_model.post_layernorm", 12) "logit_scale 1";
/* clang-format on */

static void save(const char *directory, const char *name, const char *config, const char *tensors)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    published_open(config, tensors, 2, "F32");
    published_save(path, config);
    published_close();
}

void traced_families_save(const char *directory)
{
    save(directory, "t5", T5_CONFIG, T5_TENSORS);
    save(directory, "vit", VIT_CONFIG, VIT_TENSORS);
    save(directory, "clip", CLIP_CONFIG, CLIP_TENSORS);
}
