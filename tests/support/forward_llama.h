/* SPDX-License-Identifier: Apache-2.0 */
/* forward_llama.h - the passes of Llama and the decoders that came out of it: small checkpoints
 * under Llama's names, and a pass whose functions a family replaces with its own.
 *
 * The pass is written out of LlamaModel and LlamaDecoderLayer in Hugging Face transformers
 * 5.0.0.dev0, src/transformers/models/, as it stands in feisenyu/transformers_4573 at
 * e9d73c31189a. The blocks of other families are in the same tree. */
#ifndef FORWARD_LLAMA_H
#define FORWARD_LLAMA_H

#include "forward_decoder.h"

enum { LLAMA_HEADS = 4, LLAMA_KV_HEADS = 2 };

#define LLAMA_BLOCK      "model.layers.#."
#define LLAMA_ATTENTION  LLAMA_BLOCK "self_attn."
#define LLAMA_NORM(name) LLAMA_BLOCK name ".weight 16"

/* The tensors. Each of the lists but the last two ends with a comma. */
#define LLAMA_EMBEDDING "model.embed_tokens.weight 40x16, "
#define LLAMA_PROJECTIONS                                                                          \
    LLAMA_ATTENTION "q_proj.weight 16x16, " LLAMA_ATTENTION "k_proj.weight 8x16, " LLAMA_ATTENTION \
                    "v_proj.weight 8x16, " LLAMA_ATTENTION "o_proj.weight 16x16, "
#define LLAMA_GATED                                                                                \
    LLAMA_BLOCK "mlp.gate_proj.weight 24x16, " LLAMA_BLOCK                                         \
                "mlp.up_proj.weight 24x16, " LLAMA_BLOCK "mlp.down_proj.weight 16x24, "
#define LLAMA_NORMS      LLAMA_NORM("input_layernorm") ", " LLAMA_NORM("post_attention_layernorm") ", "
#define LLAMA_HEAD_NORMS LLAMA_ATTENTION "q_norm.weight 4, " LLAMA_ATTENTION "k_norm.weight 4, "
#define LLAMA_LAST_NORM  "model.norm.weight 16"
#define LLAMA_HEAD       ", lm_head.weight 40x16"
#define LLAMA_TENSORS                                                                              \
    LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD

/* config.json; more is text such as ",\"rms_norm_eps\":1e-06". */
#define LLAMA_CONFIG(type, layers, more)                                                           \
    "{\"model_type\":\"" type "\",\"hidden_size\":16,\"intermediate_size\":24,"                    \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":40,"                       \
    "\"num_hidden_layers\":" layers more "}"

struct llama {
    int layers;
    struct decoder_attention attention;
    int full_every;    /* every so many layers one has no window; 0: all are as attention says */
    double full_theta; /* of a layer without a window; 0: it is not rotated */
    const double *full_frequencies; /* of its pairs; NULL: as full_theta gives */
    double full_factor;             /* of what is rotated by them */
    bool has_sinks;                 /* a tensor "sinks" of each attention */
    struct rows (*norm)(struct rows x, const char *name, int layer);
    struct decoder_projections (*project)(struct rows x, int layer);
    struct rows (*feed_forward)(struct rows x, int layer);
    struct rows (*block)(struct forward *forward, const struct llama *llama, struct rows x,
                         int layer);
    double embedding_scale;         /* 0: none */
    double residual_scale;          /* of what llama_norms_before() adds; 0: none */
    const char *embedding, *output; /* of tokens; of attention. NULL: Llama's */
    const char *head;               /* NULL: the embedding */
};

/* LlamaForCausalLM of two layers, with rms_norm_eps 1e-6. */
extern const struct llama LLAMA;

/* Fills in the pass and its logits. */
void llama_pass(struct forward *forward, const struct llama *llama);

/* LlamaDecoderLayer; Gemma2DecoderLayer and Gemma3DecoderLayer; Olmo2DecoderLayer;
 * CohereDecoderLayer and StableLmDecoderLayer with use_parallel_residual, one norm for both. */
struct rows llama_norms_before(struct forward *forward, const struct llama *llama, struct rows x,
                               int layer);
struct rows llama_norms_around(struct forward *forward, const struct llama *llama, struct rows x,
                               int layer);
struct rows llama_norms_after(struct forward *forward, const struct llama *llama, struct rows x,
                              int layer);
struct rows llama_parallel(struct forward *forward, const struct llama *llama, struct rows x,
                           int layer);

/* LlamaRMSNorm with an eps of 1e-6; torch.nn.LayerNorm with one of 1e-5. */
struct rows llama_rms_norm(struct rows x, const char *name, int layer);
struct rows llama_layer_norm(struct rows x, const char *name, int layer);

struct decoder_projections llama_project(struct rows x, int layer);

/* LlamaMLP */
struct rows llama_feed_forward(struct rows x, int layer);

/* decoder_case_check() */
void llama_check(const char *name, const char *config, const char *tensors, int layers,
                 void (*pass)(struct forward *forward));

#endif
