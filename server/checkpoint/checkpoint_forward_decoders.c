/* checkpoint_forward_decoders.c - what stands around the attention of decoders whose tensors have
 * names of their own.
 *
 * To add a family, put a row before the last row, as checkpoint_forward.h says. */
#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_forward.h"

#include <string.h>

/* opt/modeling_opt.py, OPTDecoderLayer and OPTDecoder: the 350M norms after its steps, and has no
 * last norm then. Norms may have no parameters. */
static bool adjust_opt(struct checkpoint_forward_row *row, const cJSON *section,
                       struct fault *fault)
{
    bool is_before, has_parameters, has_no_last;
    if (!checkpoint_read_flag(section, "do_layer_norm_before=true", &is_before, fault)
        || !checkpoint_read_flag(section, "layer_norm_elementwise_affine=true", &has_parameters,
                                 fault)
        || !checkpoint_read_flag(section, "_remove_final_layer_norm", &has_no_last, fault))
        return false;
    row->norm_is_bare = !has_parameters;
    if (!is_before) {
        row->attention = (struct checkpoint_norms){ .after = row->attention.before };
        row->feed_forward = (struct checkpoint_norms){ .after = row->feed_forward.before };
    }
    if (!is_before || has_no_last)
        row->final_norm = NULL;
    return true;
}

/* bloom/modeling_bloom.py, BloomBlock: residuals may be the rows after the norm. */
static bool adjust_bloom(struct checkpoint_forward_row *row, const cJSON *section,
                         struct fault *fault)
{
    (void)row;
    return !checkpoint_find_set(section, "apply_residual_connection_post_layernorm")
           || fault_set(fault, FAULT_OPTION,
                        "config.json sets apply_residual_connection_post_layernorm, with which the "
                        "whole pass is not computed here");
}

/* falcon/modeling_falcon.py, FalconDecoderLayer: in parallel with one norm or with two, or one
 * after the other. The 40B's first release is of the new architecture without its name. */
static bool adjust_falcon(struct checkpoint_forward_row *row, const cJSON *section,
                          struct fault *fault)
{
    bool is_new, is_parallel;
    int64_t norm_count;
    if (!checkpoint_read_flag(section, "new_decoder_architecture", &is_new, fault)
        || !checkpoint_read_flag(section, "parallel_attn=true", &is_parallel, fault)
        || !checkpoint_read_integer(section, "num_ln_in_parallel_attn", &norm_count, fault))
        return false;
    is_new = is_new || checkpoint_find_set(section, "n_head_kv");
    if (norm_count == 0)
        norm_count = is_new ? 2 : 1;
    if (!is_new && !is_parallel)
        return true;
    row->parallel = "=true";
    row->attention.before = is_new && norm_count == 2 ? "ln_attn" : "input_layernorm";
    row->feed_forward.before = is_new && norm_count == 2 ? "ln_mlp" : "input_layernorm";
    return true;
}

static bool refuse_mpt(const char *field, const char *value, struct fault *fault)
{
    return fault_set(fault, FAULT_OPTION,
                     "config.json's %s is '%.40s', with which the whole pass is not computed here",
                     field, value);
}

/* MPT's feed-forward: mptmlp, or mptglu with a gate; its activation is a function of
 * torch.nn.functional. */
static bool adjust_mpt_feed_forward(struct checkpoint_forward_row *row, const cJSON *section,
                                    struct fault *fault)
{
    const char *type, *activation, *form;
    if (!checkpoint_read_string(section, "ffn_config.ffn_type=mptmlp", &type, fault))
        return false;
    const cJSON *function = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(section, "ffn_config"), "ffn_act_fn");
    if (!checkpoint_read_string(function, "name=gelu", &activation, fault)
        || !checkpoint_read_string(function, "approximate=none", &form, fault))
        return false;
    if (strcmp(type, "mptglu") == 0)
        row->gate = "ffn.gate_proj";
    else if (strcmp(type, "mptmlp") != 0)
        return refuse_mpt("ffn_config.ffn_type", type, fault);
    const bool is_gelu = strcmp(activation, "gelu") == 0;
    if (is_gelu)
        row->activation = strcmp(form, "tanh") == 0 ? "=gelu_pytorch_tanh" : "=gelu";
    else if (strcmp(activation, "silu") == 0)
        row->activation = "=silu";
    else if (strcmp(activation, "relu") == 0)
        row->activation = "=relu";
    else
        return refuse_mpt("ffn_config.ffn_act_fn.name", activation, fault);
    return true;
}

/* llmfoundry/models/mpt/modeling_mpt.py and layers/norm.py of mosaicml/llm-foundry at 8c8dd48f7, of
 * which transformers' MPT is a part: positions are learned where there are no others. */
static bool adjust_mpt(struct checkpoint_forward_row *row, const cJSON *section,
                       struct fault *fault)
{
    const char *type;
    bool is_bare, has_alibi, has_rope, has_positions;
    if (!checkpoint_read_flag(section, "no_bias=true", &is_bare, fault)
        || !checkpoint_read_flag(section, "attn_config.alibi=true", &has_alibi, fault)
        || !checkpoint_read_flag(section, "attn_config.rope", &has_rope, fault)
        || !checkpoint_read_flag(section, "learned_pos_emb=true", &has_positions, fault)
        || !checkpoint_read_string(section, "norm_type=layernorm", &type, fault)
        || !adjust_mpt_feed_forward(row, section, fault))
        return false;
    const bool is_rms = strcmp(type, "rmsnorm") == 0 || strcmp(type, "low_precision_rmsnorm") == 0;
    if (!is_rms && strcmp(type, "layernorm") != 0 && strcmp(type, "low_precision_layernorm") != 0)
        return refuse_mpt("norm_type", type, fault);
    row->norm_is_centred = !is_rms;
    row->norm_bias = is_rms || is_bare ? NULL : "=true";
    row->biases = is_bare ? NULL : "=true";
    if (!has_positions || has_alibi || has_rope)
        row->positions = NULL;
    const cJSON *scale = cJSON_GetObjectItemCaseSensitive(section, "logit_scale");
    if (cJSON_IsString(scale)) {
        if (strcmp(scale->valuestring, "inv_sqrt_d_model") != 0)
            return refuse_mpt("logit_scale", scale->valuestring, fault);
        row->logit_scale = NULL;
        row->logit_root_divisor_if = "=true";
    }
    return true;
}

#define LAYER_NORMS(eps) .norm_is_centred = true, .norm_bias = "=true", .norm_eps = (eps)

const struct checkpoint_forward_row checkpoint_forward_decoders[] = {
    /* gpt2/modeling_gpt2.py: GPT2Model, GPT2Block, GPT2MLP. */
    { .model_type = "gpt2",
      .tokens = "wte",
      .positions = "wpe",
      .layer = "h.%.",
      .attention = { .before = "ln_1" },
      .feed_forward = { .before = "ln_2" },
      LAYER_NORMS("layer_norm_epsilon=0.00001"),
      .up = "mlp.c_fc",
      .down = "mlp.c_proj",
      .in_out = true,
      .biases = "=true",
      .activation = "activation_function=gelu_new",
      .final_norm = "ln_f",
      .output = "/lm_head",
      .tied = "tie_word_embeddings=true" },
    /* gpt_neox/modeling_gpt_neox.py: GPTNeoXLayer. */
    { .model_type = "gpt_neox",
      .tokens = "embed_in",
      .layer = "layers.%.",
      .attention = { .before = "input_layernorm" },
      .feed_forward = { .before = "post_attention_layernorm" },
      .parallel = "use_parallel_residual=true",
      LAYER_NORMS("layer_norm_eps=0.00001"),
      .up = "mlp.dense_h_to_4h",
      .down = "mlp.dense_4h_to_h",
      .biases = "=true",
      .activation = "hidden_act=gelu",
      .final_norm = "final_layer_norm",
      .output = "/embed_out",
      .tied = "tie_word_embeddings" },
    /* gptj/modeling_gptj.py: GPTJBlock, GPTJMLP. */
    { .model_type = "gptj",
      .tokens = "wte",
      .layer = "h.%.",
      .attention = { .before = "ln_1" },
      .feed_forward = { .before = "ln_1" },
      .parallel = "=true",
      LAYER_NORMS("layer_norm_epsilon=0.00001"),
      .up = "mlp.fc_in",
      .down = "mlp.fc_out",
      .biases = "=true",
      .activation = "activation_function=gelu_new",
      .final_norm = "ln_f",
      .output = "/lm_head",
      .output_bias = "/lm_head.bias",
      .tied = "tie_word_embeddings" },
    { .model_type = "opt",
      .tokens = "embed_tokens",
      .token_projection = "project_in",
      .positions = "embed_positions",
      .position_offset = "=2",
      .layer = "layers.%.",
      .attention = { .before = "self_attn_layer_norm" },
      .feed_forward = { .before = "final_layer_norm" },
      LAYER_NORMS("=0.00001"),
      .up = "fc1",
      .down = "fc2",
      .biases = "enable_bias=true",
      .activation = "activation_function=relu",
      .final_norm = "final_layer_norm",
      .head_projection = "project_out",
      .output = "/lm_head",
      .tied = "tie_word_embeddings=true",
      .adjust = adjust_opt,
      .reads = "do_layer_norm_before|layer_norm_elementwise_affine|_remove_final_layer_norm" },
    /* BloomGelu is the one of the hyperbolic tangent. */
    { .model_type = "bloom",
      .tokens = "word_embeddings",
      .embedding_norm = "word_embeddings_layernorm",
      .layer = "h.%.",
      .attention = { .before = "input_layernorm" },
      .feed_forward = { .before = "post_attention_layernorm" },
      LAYER_NORMS("layer_norm_epsilon=0.00001"),
      .up = "mlp.dense_h_to_4h",
      .down = "mlp.dense_4h_to_h",
      .biases = "=true",
      .activation = "=gelu_new",
      .final_norm = "ln_f",
      .output = "/lm_head",
      .tied = "tie_word_embeddings=true",
      .adjust = adjust_bloom,
      .reads = "apply_residual_connection_post_layernorm" },
    { .model_type = "falcon|RefinedWeb|RefinedWebModel",
      .tokens = "word_embeddings",
      .layer = "h.%.",
      .attention = { .before = "input_layernorm" },
      .feed_forward = { .before = "post_attention_layernorm" },
      LAYER_NORMS("layer_norm_epsilon=0.00001"),
      .up = "mlp.dense_h_to_4h",
      .down = "mlp.dense_4h_to_h",
      .biases = "bias",
      .activation = "activation=gelu",
      .final_norm = "ln_f",
      .output = "/lm_head",
      .tied = "tie_word_embeddings=true",
      .adjust = adjust_falcon,
      .reads = "parallel_attn|num_ln_in_parallel_attn" },
    { .model_type = "mpt",
      .tokens = "wte",
      .positions = "wpe",
      .layer = "blocks.%.",
      .attention = { .before = "norm_1" },
      .feed_forward = { .before = "norm_2" },
      .norm_eps = "layer_norm_epsilon|norm_eps=0.00001",
      .up = "ffn.up_proj",
      .down = "ffn.down_proj",
      .final_norm = "norm_f",
      .output = "/lm_head",
      .tied = "tie_word_embeddings=true",
      .logit_scale = "logit_scale",
      .logit_softcap = "final_logit_softcapping",
      .adjust = adjust_mpt,
      .reads = "learned_pos_emb|norm_type" },
    { .model_type = NULL },
};
