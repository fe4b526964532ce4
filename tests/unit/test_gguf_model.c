/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_model.c - the config.json that the metadata of a GGUF file makes, and the names that
 * its tensors take. What models of all architectures compute is compared in
 * tests/http/test_gguf_*.c. */
#include "gguf_models.h"
#include "gguf_write.h"
#include "models/checkpoint/checkpoint_gguf.h"
#include "models/store/model_open.h"
#include "test.h"

static struct gguf_write *file;
static struct model_tensors tensors;
static struct checkpoint checkpoint;
static char *config;
static void *bytes;

static void add(const char *name, int rank, int64_t a, int64_t b, int64_t c)
{
    static float numbers[512];
    for (int i = 0; i < 512; i++)
        numbers[i] = (float)i + 1;
    gguf_write_tensor(file, name, "F32", rank, (int64_t[]){ a, b, c }, numbers);
}

static int begin(void **state)
{
    (void)state;
    file = gguf_write_create(3);
    gguf_write_text(file, "general.architecture", "llama");
    gguf_write_integer(file, "llama.block_count", 'I', 1);
    gguf_write_integer(file, "llama.embedding_length", 'I', 8);
    gguf_write_number(file, "llama.attention.layer_norm_rms_epsilon", 'f', 1e-6);
    add("blk.0.attn_q.weight", 2, 8, 8, 0);
    config = NULL;
    bytes = NULL;
    return 0;
}

static bool read_file(struct fault *fault)
{
    size_t size;
    bytes = gguf_write_bytes(file, &size);
    assert_true(model_tensors_read(&tensors, bytes, size, fault));
    return checkpoint_read_gguf(&checkpoint, &config, &tensors, fault);
}

static int end(void **state)
{
    (void)state;
    free(config);
    checkpoint_free(&checkpoint);
    model_tensors_free(&tensors);
    gguf_write_free(file);
    free(bytes);
    return 0;
}

static void expect_refused(enum fault_code code, const char *pointer, const char *words)
{
    struct fault fault = { .code = FAULT_NONE };
    assert_false(read_file(&fault));
    assert_null(config);
    assert_int_equal(fault.code, code);
    assert_string_equal(fault.pointer, pointer);
    if (!strstr(fault.message, words))
        fail_msg("no '%s' in '%s'", words, fault.message);
}

/* Numbers are those of the config.json that the file was made from: 1e-6, not the float's
 * 9.99999997e-7; a list of equal numbers is one number. */
TEST(config)
{
    struct fault fault;
    static const int32_t HEADS[] = { 4, 4 };
    gguf_write_numbers(file, "llama.attention.head_count", 'i', HEADS, 2);
    gguf_write_integer(file, "llama.attention.head_count_kv", 'Q', 2);
    gguf_write_number(file, "llama.rope.freq_base", 'f', 10000.5);
    gguf_write_integer(file, "tokenizer.ggml.eos_token_id", 'I', 2);
    gguf_write_integer(file, "tokenizer.ggml.eot_token_id", 'I', 7);
    assert_true(read_file(&fault));
    assert_string_equal(
        config, "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":8,"
                "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"rms_norm_eps\":1e-06,"
                "\"attention_bias\":false,\"mlp_bias\":false,\"tie_word_embeddings\":true,"
                "\"eos_token_id\":[2,7],\"rope_theta\":10000.5,\"rotary_dim\":0}");
    assert_string_equal(checkpoint.type, "llama");
}

TEST(names)
{
    struct fault fault;
    gguf_write_integer(file, "llama.attention.head_count", 'I', 4);
    add("blk.0.attn_k.bias", 1, 8, 0, 0);
    add("output_norm.weight", 1, 8, 0, 0);
    add("rope_freqs.weight", 1, 1, 0, 0);
    assert_true(read_file(&fault));
    assert_non_null(model_tensors_find(&tensors, "model.layers.0.self_attn.q_proj.weight"));
    assert_non_null(model_tensors_find(&tensors, "model.layers.0.self_attn.k_proj.bias"));
    assert_non_null(model_tensors_find(&tensors, "model.norm.weight"));
    assert_non_null(model_tensors_find(&tensors, "rope_freqs.weight"));
    assert_null(model_tensors_find(&tensors, "blk.0.attn_q.weight"));
    assert_int_equal(tensors.entry_count, 4);
    assert_non_null(strstr(config, "\"rope_scaling\":{\"rope_type\":\"longrope\",\"short_factor\":"
                                   "[1],\"long_factor\":[1],"));
}

static void add_mixture(void)
{
    gguf_write_integer(file, "llama.attention.head_count", 'I', 4);
    gguf_write_integer(file, "llama.expert_count", 'I', 3);
    gguf_write_integer(file, "llama.expert_used_count", 'I', 1);
    add("blk.0.ffn_gate_inp.weight", 2, 3, 8, 0);
}

/* Each expert is a view of the one tensor. */
TEST(experts)
{
    struct fault fault;
    char name[96];
    add_mixture();
    add("blk.0.ffn_up_exps.weight", 3, 3, 5, 8);
    assert_true(read_file(&fault));
    assert_string_equal(checkpoint.type, "mixtral");
    assert_int_equal(tensors.entry_count, 5);
    for (int e = 0; e < 3; e++) {
        snprintf(name, sizeof name, "model.layers.0.block_sparse_moe.experts.%d.w3.weight", e);
        const struct model_entry *entry = model_tensors_find(&tensors, name);
        assert_non_null(entry);
        assert_int_equal(entry->rank, 2);
        assert_int_equal(entry->shape[0], 5);
        assert_int_equal(entry->shape[1], 8);
        assert_int_equal(entry->number_count, 40);
        assert_int_equal(entry->size, 160);
        assert_true(*(const float *)entry->data == (float)(e * 40 + 1));
    }
}

TEST(experts_of_no_stack)
{
    add_mixture();
    add("blk.0.ffn_up_exps.weight", 1, 40, 0, 0);
    expect_refused(FAULT_SHAPE, "/parameters", "tensor 'blk.0.ffn_up_exps.weight' is not of 1 to");
}

TEST(heads_that_differ)
{
    static const int32_t HEADS[] = { 4, 2 };
    gguf_write_numbers(file, "llama.attention.head_count", 'i', HEADS, 2);
    expect_refused(FAULT_OPTION, "/config/num_attention_heads",
                   "has no single number for all layers under 'llama.attention.head_count'");
}

TEST(missing_key)
{
    expect_refused(FAULT_OPTION, "/config/num_attention_heads",
                   "has no 'llama.attention.head_count', which is num_attention_heads");
}

TEST(factors_of_another_type)
{
    gguf_write_integer(file, "llama.attention.head_count", 'I', 4);
    gguf_write_tensor(file, "rope_freqs.weight", "F16", 1, (int64_t[]){ 1 }, (float[]){ 1 });
    expect_refused(FAULT_SHAPE, "/config/rope_scaling", "'rope_freqs.weight' is no list of 1 to");
}

/* llama.cpp refuses them, too: "wrong number of tensors". */
TEST(blocks_behind_the_last)
{
    gguf_write_integer(file, "llama.attention.head_count", 'I', 4);
    add("blk.7.attn_k.weight", 2, 8, 8, 0);
    expect_refused(FAULT_FIELD, "/parameters",
                   "a tensor 'blk.7.attn_k.weight', and its llama.block_count is 1");
}

TEST(factors_of_blocks_behind_the_last)
{
    gguf_write_integer(file, "llama.attention.head_count", 'I', 4);
    add("blk.1.rope_freqs.weight", 1, 1, 0, 0);
    expect_refused(FAULT_FIELD, "/parameters", "'blk.1.rope_freqs.weight', and its");
}

TEST(experts_behind_the_last)
{
    add_mixture();
    add("blk.0.ffn_up.3.weight", 2, 5, 8, 0);
    expect_refused(FAULT_FIELD, "/parameters",
                   "a tensor 'blk.0.ffn_up.3.weight', and its llama.expert_count is 3");
}

TEST(stack_of_more_experts)
{
    add_mixture();
    add("blk.0.ffn_up_exps.weight", 3, 4, 5, 8);
    expect_refused(FAULT_SHAPE, "/parameters", "'blk.0.ffn_up_exps.weight' is of 4 experts");
}

/* llama.cpp computes both, one on top of the other. */
TEST(yarn_beside_factors)
{
    gguf_write_integer(file, "llama.attention.head_count", 'I', 4);
    gguf_write_text(file, "llama.rope.scaling.type", "yarn");
    add("rope_freqs.weight", 1, 1, 0, 0);
    expect_refused(FAULT_OPTION, "/config/rope_scaling",
                   "llama.rope.scaling.type is 'yarn' beside a tensor 'rope_freqs.weight'");
}

TEST(alpha_of_another_family)
{
    gguf_write_integer(file, "llama.attention.head_count", 'I', 4);
    gguf_write_number(file, "llama.rope.scaling.alpha", 'f', 1000);
    expect_refused(FAULT_OPTION, "/config", "'llama.rope.scaling.alpha', which is not computed");
}

TEST(factor_on_scores_of_linear)
{
    gguf_write_integer(file, "llama.attention.head_count", 'I', 4);
    gguf_write_number(file, "llama.rope.scaling.attn_factor", 'f', 1.5);
    expect_refused(FAULT_OPTION, "/config/rope_scaling", "attn_factor is 1.5, and its type is");
}

TEST(groups_of_experts)
{
    add_mixture();
    gguf_write_integer(file, "llama.expert_group_count", 'I', 3);
    expect_refused(FAULT_OPTION, "/config", "'llama.expert_group_count', which is not computed");
}

TEST(decoder_both_ways)
{
    struct fault fault;
    gguf_write_integer(file, "llama.attention.head_count", 'I', 4);
    gguf_write_bool(file, "llama.attention.causal", false);
    assert_true(read_file(&fault));
    assert_non_null(strstr(config, "\"is_causal\":false"));
}

/* A whole model, generated with one part of its keys replaced. */
static void expect_model_refused(const char *name, const char *from, const char *to,
                                 const char *pointer, const char *words)
{
    struct gguf_model model = *gguf_model_named(name);
    char pairs[2048];
    const char *at = strstr(model.pairs, from);
    assert_non_null(at);
    snprintf(pairs, sizeof pairs, "%.*s%s%s", (int)(at - model.pairs), model.pairs, to,
             at + strlen(from));
    model.pairs = pairs;
    gguf_write_free(file);
    file = gguf_model_make(&model, (struct gguf_model_form){ "F32", false });
    size_t size;
    struct fault fault;
    bytes = gguf_write_bytes(file, &size);
    struct model *made;
    assert_false(model_create(&made, "m", "m.gguf", bytes, size, NULL, free, bytes, &fault));
    assert_string_equal(fault.pointer, pointer);
    assert_non_null(strstr(fault.message, words));
}

TEST(causal_encoder)
{
    expect_model_refused("nomic-bert", ".attention.causal ? 0", ".attention.causal ? 1",
                         "/config/is_causal", "is_causal is true; its family looks both ways");
}

TEST(deepseek_says_all_of_yarn)
{
    expect_model_refused("deepseek2", ".rope.scaling.yarn_log_multiplier f 0.0707, ", "",
                         "/config/mscale_all_dim",
                         "has no 'deepseek2.rope.scaling.yarn_log_multiplier'");
}

TEST(glm_without_sigmoids)
{
    expect_model_refused("glm4moe", ".expert_gating_func I 2", ".expert_gating_func I 1",
                         "/config/scoring_func",
                         "has no sigmoids under 'glm4moe.expert_gating_func'");
}

EACH_TEST(begin, end);
