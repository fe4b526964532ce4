/* hybrid_model.h - a small LFM2, whose layers 0, 2 and 4 are convolutions and keep a state of two
 * rows, and layers 1 and 3 attention: its tensors, and its folder for tests that ask for no
 * numbers.
 */
#ifndef HYBRID_MODEL_H
#define HYBRID_MODEL_H

#include "forward_llama.h"

enum { LFM2_LAYERS = 5, LFM2_STATE = 2 * 16 };

#define LFM2_MLP LLAMA_BLOCK "feed_forward."
#define LFM2_CONVOLUTION(layer, bias)                                                              \
    "model.layers." layer ".conv.in_proj.weight 48x16*2, "                                         \
    "model.layers." layer ".conv.conv.weight 16x1x3*2, "                                           \
    "model.layers." layer ".conv.out_proj.weight 16x16, " bias
#define LFM2_ATTENTION(layer)                                                                      \
    "model.layers." layer ".self_attn.q_proj.weight 16x16, "                                       \
    "model.layers." layer ".self_attn.k_proj.weight 8x16, "                                        \
    "model.layers." layer ".self_attn.v_proj.weight 8x16, "                                        \
    "model.layers." layer ".self_attn.out_proj.weight 16x16, "                                     \
    "model.layers." layer ".self_attn.q_layernorm.weight 4*2, "                                    \
    "model.layers." layer ".self_attn.k_layernorm.weight 4*2, "
#define LFM2_BIAS(layer)                                                                           \
    "model.layers." layer ".conv.in_proj.bias 48, model.layers." layer ".conv.conv.bias 16, "      \
    "model.layers." layer ".conv.out_proj.bias 16, "
#define LFM2_REST                                                                                  \
    LLAMA_EMBEDDING LFM2_MLP "w1.weight 24x16, " LFM2_MLP "w3.weight 24x16, " LFM2_MLP             \
                             "w2.weight 16x24, " LLAMA_NORM("operator_norm") ", " LLAMA_NORM(      \
                                 "ffn_norm") ", model.embedding_norm.weight 16"

#define LFM2_CONFIG                                                                                \
    LLAMA_CONFIG("lfm2", "5", ",\"norm_eps\":1e-05,\"conv_L_cache\":3,\"full_attn_idxs\":[1,3]")
#define LFM2_TENSORS                                                                               \
    LFM2_CONVOLUTION("0", "")                                                                      \
    LFM2_ATTENTION("1")                                                                            \
    LFM2_CONVOLUTION("2", "") LFM2_ATTENTION("3") LFM2_CONVOLUTION("4", "") LFM2_REST

/* Makes the folder, with the files of the model. */
void hybrid_model_make(const char *folder);

#endif
