/* SPDX-License-Identifier: Apache-2.0 */
/* traced_model.c - see traced_model.h. */
#include "traced_model.h"

#include "published.h"

#include <stdio.h>

#define LINEAR(name, out, in) name ".weight " #out "x" #in ", " name ".bias " #out ", "
#define NORM(name)            name ".weight 16, " name ".bias 16, "
#define BERT                  "bert.encoder.layer.#."
#define LLAMA                 "model.layers.#."

static const char BERT_CONFIG[] =
    "{\"model_type\":\"bert\",\"architectures\":[\"BertForMaskedLM\"],\"hidden_size\":16,"
    "\"num_attention_heads\":4,\"num_hidden_layers\":3,\"intermediate_size\":32,"
    "\"vocab_size\":40,\"hidden_act\":\"gelu\",\"max_position_embeddings\":64,"
    "\"type_vocab_size\":2,\"layer_norm_eps\":1e-12}";

static const char BERT_TENSORS[] =
    "bert.embeddings.word_embeddings.weight 40x16, "
    "bert.embeddings.position_embeddings.weight 64x16, "
    "bert.embeddings.token_type_embeddings.weight 2x16, " NORM("bert.embeddings.LayerNorm")
        LINEAR("cls.predictions.transform.dense", 16, 16)
            NORM("cls.predictions.transform.LayerNorm") LINEAR(BERT "attention.self.query", 16, 16)
                LINEAR(BERT "attention.self.key", 16, 16)
                    LINEAR(BERT "attention.self.value", 16, 16)
                        LINEAR(BERT "attention.output.dense", 16, 16)
                            NORM(BERT "attention.output.LayerNorm")
                                LINEAR(BERT "intermediate.dense", 32, 16)
                                    LINEAR(BERT "output.dense", 16, 32)
                                        NORM(BERT "output.LayerNorm") "cls.predictions.bias 40";

static const char LLAMA_CONFIG[] =
    "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":16,\"num_hidden_layers\":3,\"intermediate_size\":32,"
    "\"vocab_size\":40,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\","
    "\"tie_word_embeddings\":true}";

static const char LLAMA_TENSORS[] =
    "model.embed_tokens.weight 40x16, model.norm.weight 16, " LLAMA
    "input_layernorm.weight 16, " LLAMA "post_attention_layernorm.weight 16, " LLAMA
    "self_attn.q_proj.weight 64x16, " LLAMA "self_attn.k_proj.weight 32x16, " LLAMA
    "self_attn.v_proj.weight 32x16, " LLAMA "self_attn.o_proj.weight 16x64, " LLAMA
    "mlp.gate_proj.weight 32x16, " LLAMA "mlp.up_proj.weight 32x16, " LLAMA
    "mlp.down_proj.weight 16x32";

static void save(const char *directory, const char *name, const char *config, const char *tensors)
{
    char folder[400];
    snprintf(folder, sizeof folder, "%s/%s", directory, name);
    published_open(config, tensors, TRACED_LAYERS, "F32");
    published_save(folder, config);
    published_close();
}

void traced_model_save(const char *directory)
{
    save(directory, "bert", BERT_CONFIG, BERT_TENSORS);
    save(directory, "llama", LLAMA_CONFIG, LLAMA_TENSORS);
}

const char *traced_model_tokens(char *text, unsigned long size, int first, int count)
{
    unsigned long used = (unsigned long)snprintf(text, size, "[");
    for (int i = 0; i < count; i++)
        used += (unsigned long)snprintf(text + used, size - used, i > 0 ? ",%d" : "%d",
                                        (first + i * 7) % TRACED_TOKENS);
    snprintf(text + used, size - used, "]");
    return text;
}
