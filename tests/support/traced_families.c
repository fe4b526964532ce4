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
}
