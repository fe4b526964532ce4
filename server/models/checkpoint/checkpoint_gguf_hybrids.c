/* checkpoint_gguf_hybrids.c - the table of architectures of checkpoint_hybrids.c, some of whose
 * layers are no attention. The file has rates of decays in place of A_log. */
#include "models/checkpoint/checkpoint_gguf_names.h"
#include "models/checkpoint/checkpoint_gguf_row.h"
#include "models/checkpoint/checkpoint_recurrence.h"

#include <math.h>

/* ------------------------------------------------------ Qwen3-Next, Qwen 3.5 -- */

#define DELTA_NAMES                                                                                \
    AROUND_NAMES ATTENTION_NAMES HEAD_NORM_NAMES IN_BLOCK("attn_norm", "input_layernorm")          \
        IN_BLOCK("post_attention_norm", "post_attention_layernorm") IN_BLOCK(                      \
            "attn_qkv", "linear_attn.in_proj_qkv") IN_BLOCK("attn_gate", "linear_attn.in_proj_z")  \
            IN_BLOCK("ssm_conv1d", "linear_attn.conv1d") IN_BLOCK("ssm_dt", "linear_attn.dt")      \
                IN_BLOCK("ssm_a", "linear_attn.rates") IN_BLOCK("ssm_norm", "linear_attn.norm")    \
                    IN_BLOCK("ssm_out", "linear_attn.out_proj")
#define QWEN_EXPERT_NAMES                                                                          \
    IN_BLOCK("ffn_gate_inp", "mlp.gate")                                                           \
    EXPERT_NAMES("ffn_gate", QWEN_EXPERT "gate_proj")                                              \
    EXPERT_NAMES("ffn_up", QWEN_EXPERT "up_proj")                                                  \
    EXPERT_NAMES("ffn_down", QWEN_EXPERT "down_proj")
#define DELTA_FIELDS                                                                               \
    LLAMA_FIELDS "linear_conv_kernel_dim=ssm.conv_kernel|linear_num_key_heads=ssm.group_count|"    \
                 "linear_num_value_heads=ssm.time_step_rank|linear_key_head_dim=ssm.state_size|"   \
                 "full_attention_interval=full_attention_interval?4|"                              \
                 "num_nextn_predict_layers=nextn_predict_layers?|"

/* ssm.inner_size is that of values of all heads. */
static bool finish_delta(const struct checkpoint_gguf_file *file)
{
    const double heads = checkpoint_gguf_number(file, "ssm.time_step_rank", 1);
    const double inner = checkpoint_gguf_number(file, "ssm.inner_size", 0);
    return checkpoint_gguf_take_next_layers(file)
           && checkpoint_gguf_add_types(file, "attention.recurrent_layers", "linear_attention")
           && checkpoint_gguf_add_number(file, file->config, "linear_value_head_dim",
                                         heads >= 1 ? floor(inner / heads) : 0);
}

/* The converter has added 1 to the norms. */
static void amend_added_norms(struct checkpoint_stack *stack)
{
    stack->norm_adds_one = stack->pass.norm_adds_one = false;
}

static void amend_qwen35(struct checkpoint_stack *stack)
{
    amend_added_norms(stack);
    stack->pass.recurrence = checkpoint_recurrence_delta_in_turn;
}

const struct checkpoint_gguf checkpoint_ggufs_hybrids[] = {
    { .architecture = "qwen3next",
      .model_type = "qwen3_next",
      .fields = DELTA_FIELDS COUNT_FIELDS("num_experts"),
      .tensors = DELTA_NAMES QWEN_EXPERT_NAMES SHARED_EXPERT_NAMES IN_BLOCK(
          "ssm_in", "linear_attn.in_proj_qkvz") IN_BLOCK("ssm_ba", "linear_attn.in_proj_ba"),
      .has_rope = true,
      .finish = finish_delta,
      .amend = amend_added_norms },
    { .architecture = "qwen35",
      .model_type = "qwen3_5_text",
      .fields = DELTA_FIELDS,
      .tensors = DELTA_NAMES GATED_NAMES NEXT_NAMES IN_BLOCK("ssm_beta", "linear_attn.in_proj_b")
          IN_BLOCK("ssm_alpha", "linear_attn.in_proj_a"),
      .has_rope = true,
      .finish = finish_delta,
      .amend = amend_qwen35 },
    { .architecture = "qwen35moe",
      .model_type = "qwen3_5_moe_text",
      .fields = DELTA_FIELDS COUNT_FIELDS("num_experts"),
      .tensors = DELTA_NAMES QWEN_EXPERT_NAMES SHARED_EXPERT_NAMES NEXT_NAMES IN_BLOCK(
          "ssm_beta", "linear_attn.in_proj_b") IN_BLOCK("ssm_alpha", "linear_attn.in_proj_a"),
      .has_rope = true,
      .finish = finish_delta,
      .amend = amend_qwen35 },
    { .architecture = NULL },
};
