/* checkpoint_forward_llamas.c - what stands around the attention of decoders whose tensors have the
 * names of Llama or of Meta.
 *
 * To add a family, put a row before the last row, as checkpoint_forward.h says; most are LLAMA and
 * what is different. */
#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_forward.h"

/* stablelm/modeling_stablelm.py, StableLmDecoderLayer: in parallel both parts have one norm. */
static bool adjust_stablelm(struct checkpoint_forward_row *row, const cJSON *section,
                            struct fault *fault)
{
    bool is_parallel;
    if (!checkpoint_read_flag(section, row->parallel, &is_parallel, fault))
        return false;
    if (is_parallel)
        row->feed_forward.before = row->attention.before;
    return true;
}

/* A mixture of experts where params.json has moe: transformer_layers.py and moe.py of
 * mistral-inference. */
static bool adjust_mistral(struct checkpoint_forward_row *row, const cJSON *section,
                           struct fault *fault)
{
    (void)fault;
    if (!checkpoint_find_object(section, "moe"))
        return true;
    row->router = "feed_forward.gate";
    row->expert = "feed_forward.experts.%.";
    row->expert_count = "moe.num_experts";
    row->chosen_count = "moe.num_experts_per_tok";
    row->gate = "w1";
    row->up = "w3";
    row->down = "w2";
    return true;
}

/* llama/modeling_llama.py: LlamaDecoderLayer, LlamaMLP. */
#define GATED .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"
#define AROUND                                                                                     \
    .tokens = "embed_tokens", .layer = "layers.%.", .final_norm = "norm", .output = "/lm_head"
#define NORMS(first, second) .attention = { first }, .feed_forward = { second }
#define LLAMA_NORMS          NORMS(.before = "input_layernorm", .before = "post_attention_layernorm")
#define LLAMA                                                                                      \
    AROUND, LLAMA_NORMS, GATED, .activation = "hidden_act=silu", .tied = "tie_word_embeddings"

/* gemma/modeling_gemma.py: GemmaModel scales its tokens, GemmaRMSNorm adds 1. */
#define GEMMA                                                                                      \
    .tokens = "embed_tokens", .layer = "layers.%.", .final_norm = "norm",                          \
    .output = "/lm_head|/language_model.lm_head", GATED, .root_scale_if = "=true",                 \
    .norm_adds_one = true, .norm_eps = "rms_norm_eps=0.000001",                                    \
    .activation = "hidden_activation=gelu_pytorch_tanh", .tied = "tie_word_embeddings=true"
/* gemma2/modeling_gemma2.py, Gemma2DecoderLayer; gemma3 is the same. */
#define GEMMA2                                                                                     \
    GEMMA, .attention = { .before = "input_layernorm", .inside = "post_attention_layernorm" },     \
           .feed_forward = { .before = "pre_feedforward_layernorm",                                \
                             .inside = "post_feedforward_layernorm" }

/* llama/model.py of meta-llama/llama, and mistral-inference: a file without output ties it. */
#define META                                                                                       \
    .tokens = "tok_embeddings", .layer = "layers.%.",                                              \
    NORMS(.before = "attention_norm", .before = "ffn_norm"), .norm_eps = "norm_eps=0.00001",       \
    .gate = "feed_forward.w1", .up = "feed_forward.w3", .down = "feed_forward.w2",                 \
    .activation = "=silu", .final_norm = "norm", .output = "output", .tied_if_absent = true

/* cohere/modeling_cohere.py: CohereDecoderLayer; cohere2 is the same. */
#define COHERE                                                                                     \
    AROUND, GATED, NORMS(.before = "input_layernorm", .before = "input_layernorm"),                \
        .parallel = "=true", .norm_is_centred = true, .norm_eps = "layer_norm_eps=0.00001",        \
        .activation = "hidden_act=silu", .tied = "tie_word_embeddings=true",                       \
        .logit_scale = "logit_scale=0.0625"

const struct checkpoint_forward_row checkpoint_forward_llamas[] = {
    { .model_type = "llama", LLAMA, .biases = "mlp_bias", .norm_eps = "rms_norm_eps=0.000001" },
    /* granite/modeling_granite.py: GraniteModel, GraniteDecoderLayer, GraniteForCausalLM. */
    { .model_type = "granite",
      LLAMA,
      .biases = "mlp_bias",
      .norm_eps = "rms_norm_eps=0.000001",
      .scale = "embedding_multiplier=1",
      .residual_scale = "residual_multiplier=1",
      .logit_divisor = "logits_scaling=1" },
    { .model_type = "meta", META },
    { .model_type = "mistral_params", META, .adjust = adjust_mistral, .reads = "moe" },
    { .model_type = "mistral|qwen2|qwen3", LLAMA, .norm_eps = "rms_norm_eps=0.000001" },
    /* mixtral/modeling_mixtral.py: MixtralSparseMoeBlock. */
    { .model_type = "mixtral",
      AROUND,
      LLAMA_NORMS,
      .norm_eps = "rms_norm_eps=0.00001",
      .router = "block_sparse_moe.gate",
      .expert = "block_sparse_moe.experts.%.",
      .expert_count = "num_local_experts=8",
      .chosen_count = "num_experts_per_tok=2",
      .gate = "w1",
      .up = "w3",
      .down = "w2",
      .activation = "hidden_act=silu",
      .tied = "tie_word_embeddings" },
    /* phi/modeling_phi.py: PhiDecoderLayer, PhiMLP. */
    { .model_type = "phi",
      .tokens = "embed_tokens",
      .layer = "layers.%.",
      NORMS(.before = "input_layernorm", .before = "input_layernorm"),
      .parallel = "=true",
      .norm_is_centred = true,
      .norm_bias = "=true",
      .norm_eps = "layer_norm_eps=0.00001",
      .up = "mlp.fc1",
      .down = "mlp.fc2",
      .biases = "=true",
      .activation = "hidden_act=gelu_new",
      .final_norm = "final_layernorm",
      .output = "/lm_head",
      .output_bias = "/lm_head.bias",
      .tied = "tie_word_embeddings" },
    /* phi3/modeling_phi3.py: Phi3MLP. */
    { .model_type = "phi3",
      AROUND,
      LLAMA_NORMS,
      .norm_eps = "rms_norm_eps=0.00001",
      .up = "mlp.gate_up_proj",
      .up_has_gate = true,
      .down = "mlp.down_proj",
      .activation = "hidden_act=silu",
      .tied = "tie_word_embeddings" },
    { .model_type = "stablelm",
      LLAMA,
      .parallel = "use_parallel_residual",
      .norm_is_centred = true,
      .norm_bias = "=true",
      .norm_eps = "layer_norm_eps=0.00001",
      .adjust = adjust_stablelm },
    /* olmo/modeling_olmo.py: OlmoLayerNorm has no parameters. */
    { .model_type = "olmo",
      LLAMA,
      .norm_is_centred = true,
      .norm_is_bare = true,
      .norm_eps = "=0.00001" },
    /* olmo2/modeling_olmo2.py: Olmo2DecoderLayer. */
    { .model_type = "olmo2",
      AROUND,
      GATED,
      NORMS(.inside = "post_attention_layernorm", .inside = "post_feedforward_layernorm"),
      .norm_eps = "rms_norm_eps=0.00001",
      .activation = "hidden_act=silu",
      .tied = "tie_word_embeddings" },
    { .model_type = "cohere|cohere2", COHERE },
    { .model_type = "gemma", GEMMA, LLAMA_NORMS },
    { .model_type = "gemma2", GEMMA2, .logit_softcap = "final_logit_softcapping=30" },
    { .model_type = "gemma3|gemma3_text", GEMMA2, .logit_softcap = "final_logit_softcapping" },
    { .model_type = NULL },
};
