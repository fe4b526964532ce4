/* checkpoint_forward_decoders.c - what stands around the attention of decoders whose tensors have
 * names of their own.
 *
 * To add a family, put a row before the last row, as checkpoint_forward.h says. */
#include "checkpoint/checkpoint_forward.h"

const struct checkpoint_forward_row checkpoint_forward_decoders[] = {
    /* gpt2/modeling_gpt2.py: GPT2Model, GPT2Block, GPT2MLP. */
    { .model_type = "gpt2",
      .tokens = "wte",
      .positions = "wpe",
      .layer = "h.%.",
      .attention = { .before = "ln_1" },
      .feed_forward = { .before = "ln_2" },
      .norm_is_centred = true,
      .norm_bias = "=true",
      .norm_eps = "layer_norm_epsilon=0.00001",
      .up = "mlp.c_fc",
      .down = "mlp.c_proj",
      .in_out = true,
      .biases = "=true",
      .activation = "activation_function=gelu_new",
      .final_norm = "ln_f",
      .output = "/lm_head",
      .tied = "tie_word_embeddings=true" },
    { .model_type = NULL },
};
