/* checkpoint_forward_llamas.c - what stands around the attention of decoders whose tensors have the
 * names of Llama or of Meta.
 *
 * To add a family, put a row before the last row, as checkpoint_forward.h says; most are LLAMA and
 * what is different. */
#include "checkpoint/checkpoint_forward.h"

/* llama/modeling_llama.py: LlamaDecoderLayer, LlamaMLP. */
#define GATED .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"

#define LLAMA                                                                                      \
    .tokens = "embed_tokens", .layer = "layers.%.", .attention = { .before = "input_layernorm" },  \
    .feed_forward = { .before = "post_attention_layernorm" }, .final_norm = "norm",                \
    .activation = "hidden_act=silu", .output = "/lm_head"

const struct checkpoint_forward_row checkpoint_forward_llamas[] = {
    { .model_type = "llama",
      LLAMA,
      GATED,
      .biases = "mlp_bias",
      .norm_eps = "rms_norm_eps=0.000001",
      .tied = "tie_word_embeddings" },
    { .model_type = NULL },
};
