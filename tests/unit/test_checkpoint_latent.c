/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_latent.c - the latent attention of published decoders, as forward_latent.h has it
 * of its source; and checkpoints of such families that are refused. */
#include "forward_latent.h"
#include "test.h"

static void compare(const char *config, const char *tensors, const char *dtype,
                    const struct latent *latent)
{
    const struct published_attention attention = {
        .heads = LATENT_HEADS, .kv_heads = LATENT_HEADS, .scale = latent->scale, .causal = true
    };
    published_open(config, tensors, 2, dtype);
    for (int layer = 0; layer < 2; layer++) {
        const struct rows hidden = published_input(16);
        const struct decoder_projections projections = latent_project(latent, hidden, layer);
        struct published_answer answer =
            published_attend(&attention, projections.q, projections.k, projections.v);
        answer.context = published_linear(answer.context, LLAMA_ATTENTION "o_proj", layer);
        published_expect(layer, "self", hidden, hidden, &answer);
    }
    published_close();
}

#define BIASES                                                                                     \
    LLAMA_ATTENTION "q_a_proj.bias 7, " LLAMA_ATTENTION                                            \
                    "kv_a_proj_with_mqa.bias 14, " LLAMA_ATTENTION "o_proj.bias 16, "
#define END "model.norm.weight 16"

TEST(deepseek_v3)
{
    struct latent latent = { .has_down = true, .linear = published_linear };
    latent_set_plain(&latent);
    compare(LATENT_CONFIG("deepseek_v3", "2", ",\"q_lora_rank\":7"), LATENT_TENSORS LATENT_DOWN END,
            "F32", &latent);
    latent_set_yarn(&latent, 1, 0.5);
    compare(LATENT_CONFIG("deepseek_v3", "2",
                          ",\"q_lora_rank\":7,\"attention_bias\":true" LATENT_YARN("1.0", "0.5")),
            LATENT_TENSORS LATENT_DOWN BIASES END, "F16", &latent);
}

/* transformers 5 has the rotary embedding in rope_parameters. */
TEST(kimi_k2)
{
    struct latent latent = { .has_down = true, .linear = published_linear };
    latent_set_plain(&latent);
    compare(LATENT_CONFIG("kimi_k2", "2",
                          ",\"q_lora_rank\":7,\"rope_parameters\":{\"rope_type\":\"default\","
                          "\"rope_theta\":10000.0},\"num_nextn_predict_layers\":1"),
            LATENT_TENSORS LATENT_DOWN "model.layers.2.self_attn.kv_a_proj_with_mqa.weight 14x16",
            "F32", &latent);
}

TEST(deepseek_v2)
{
    struct latent latent = { .has_down = false, .linear = published_linear };
    latent_set_yarn(&latent, 0.707, 0.707);
    compare(
        LATENT_CONFIG("deepseek_v2", "2", ",\"q_lora_rank\":null" LATENT_YARN("0.707", "0.707")),
        LATENT_TENSORS LATENT_QUERIES END, "F32", &latent);
}

TEST(what_a_model_says)
{
    published_open(LATENT_CONFIG("deepseek_v3", "2", ",\"q_lora_rank\":7"),
                   LATENT_TENSORS LATENT_DOWN END, 2, "F32");
    const struct model_layer *layer = &published_model()->layers[1];
    assert_true(layer->d_query == 16 && layer->d_key == 16 && layer->d_value == 16);
    assert_true(layer->layer.q_heads == 4 && layer->layer.kv_heads == 1);
    assert_true(layer->layer.head_dim == 14 && layer->layer.v_head_dim == 5);
    assert_true(attn_layer_value_columns(&layer->layer) == 8);
    published_close();
}

/* With one field of config.json, "name":value, replaced. */
static void refused(const char *from, const char *to, const char *tensors, enum fault_code code,
                    const char *words)
{
    static const char CONFIG[] = LATENT_CONFIG("deepseek_v3", "2", ",\"q_lora_rank\":7");
    char config[1024];
    const char *at = strstr(CONFIG, from);
    assert_non_null(at);
    snprintf(config, sizeof config, "%.*s%s%s", (int)(at - CONFIG), CONFIG, to, at + strlen(from));
    published_refused(config, tensors, 2, code, words);
}

TEST(refused)
{
    static const char TENSORS[] = LATENT_TENSORS LATENT_DOWN END;
    refused("\"q_lora_rank\":7", "\"q_lora_rank\":7,\"rope_interleave\":false", TENSORS,
            FAULT_OPTION, "rope_interleave is false");
    refused("\"q_lora_rank\":7", "\"q_lora_rank\":7,\"topk_method\":\"greedy\"", TENSORS,
            FAULT_OPTION, "topk_method is 'greedy'");
    refused("\"num_key_value_heads\":4", "\"num_key_value_heads\":2", TENSORS, FAULT_OPTION,
            "2 key/value heads");
    refused("\"v_head_dim\":5", "\"v_head_dim\":0", TENSORS, FAULT_OPTION, "0 (v_head_dim)");
    refused("\"v_head_dim\":5", "\"v_head_dim\":6", TENSORS, FAULT_SHAPE, "o_proj.weight");
    refused("\"kv_lora_rank\":8", "\"kv_lora_rank\":9", TENSORS, FAULT_SHAPE,
            "kv_a_proj_with_mqa.weight");
    refused("\"qk_nope_head_dim\":4", "\"qk_nope_head_dim\":5", TENSORS, FAULT_SHAPE,
            "q_b_proj.weight");
    refused("\"q_lora_rank\":7", "\"q_lora_rank\":8", TENSORS, FAULT_SHAPE, "q_a_proj.weight");
    refused("\"qk_rope_head_dim\":6", "\"qk_rope_head_dim\":5", TENSORS, FAULT_OPTION,
            "turns 5 of 13 columns");
    refused("\"q_lora_rank\":7", "\"q_lora_rank\":7" LATENT_YARN("1.0", "1e30"), TENSORS,
            FAULT_OPTION, "the scale of scores inf");
    refused("", "", LATENT_TENSORS LATENT_QUERIES END, FAULT_FIELD, "q_a_proj.weight");
    refused("", "", LATENT_TENSORS LATENT_DOWN BIASES END, FAULT_FIELD, "bias");
    refused("", "",
            LATENT_TENSORS LATENT_DOWN "model.layers.2.self_attn.kv_a_proj_with_mqa.weight 14x16",
            FAULT_SHAPE, "model.layers.2.self_attn.kv_a_proj_with_mqa.weight");
}
