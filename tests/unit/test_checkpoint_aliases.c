/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_aliases.c - fields of a config.json that go by several names.
 *
 * The configuration file of a family in Hugging Face transformers has an attribute_map of
 * aliases. Each alias gives what the own name of the field gives, to the bit. If both are there,
 * the alias counts: PreTrainedConfig.__init__() sets it last. Here the value under the own name
 * would make another model, or none. */
#include "published.h"
#include "test.h"

#define OUT_PROJ(begin)                                                                            \
    begin "q_proj.weight 8x8, " begin "q_proj.bias 8, " begin "k_proj.weight 8x8, " begin          \
          "k_proj.bias 8, " begin "v_proj.weight 8x8, " begin "v_proj.bias 8, " begin              \
          "out_proj.weight 8x8, " begin "out_proj.bias 8"
#define SEQ2SEQ                                                                                    \
    OUT_PROJ("model.encoder.layers.#.self_attn.")                                                  \
    ", " OUT_PROJ("model.decoder.layers.#.self_attn.") ", " OUT_PROJ(                              \
        "model.decoder.layers.#.encoder_attn.")
#define WHISPER_PROJ(begin)                                                                        \
    begin "q_proj.weight 8x8, " begin "q_proj.bias 8, " begin "k_proj.weight 8x8, " begin          \
          "v_proj.weight 8x8, " begin "v_proj.bias 8, " begin "out_proj.weight 8x8, " begin        \
          "out_proj.bias 8"
#define LIN(begin)                                                                                 \
    begin "q_lin.weight 8x8, " begin "q_lin.bias 8, " begin "k_lin.weight 8x8, " begin             \
          "k_lin.bias 8, " begin "v_lin.weight 8x8, " begin "v_lin.bias 8, " begin                 \
          "out_lin.weight 8x8, " begin "out_lin.bias 8"
#define T5_TENSORS                                                                                 \
    "encoder.block.#.layer.0.SelfAttention.q.weight 12x8, "                                        \
    "encoder.block.#.layer.0.SelfAttention.k.weight 12x8, "                                        \
    "encoder.block.#.layer.0.SelfAttention.v.weight 12x8, "                                        \
    "encoder.block.#.layer.0.SelfAttention.o.weight 8x12, "                                        \
    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight 32x4"
#define GPTJ                                                                                       \
    "h.#.attn.q_proj.weight 8x8, h.#.attn.k_proj.weight 8x8, h.#.attn.v_proj.weight 8x8, "         \
    "h.#.attn.out_proj.weight 8x8"
#define GPT_NEO                                                                                    \
    "h.#.attn.attention.q_proj.weight 8x8, h.#.attn.attention.k_proj.weight 8x8, "                 \
    "h.#.attn.attention.v_proj.weight 8x8, h.#.attn.attention.out_proj.weight 8x8, "               \
    "h.#.attn.attention.out_proj.bias 8"
#define GPT2                                                                                       \
    "h.#.attn.c_attn.weight 8x24, h.#.attn.c_attn.bias 24, h.#.attn.c_proj.weight 8x8, "           \
    "h.#.attn.c_proj.bias 8"
#define CODEGEN "h.#.attn.qkv_proj.weight 24x8, h.#.attn.out_proj.weight 8x8"
#define FUSED_GPT                                                                                  \
    "h.#.attn.c_attn.weight 24x8, h.#.attn.c_attn.bias 24, h.#.attn.c_proj.weight 8x8, "           \
    "h.#.attn.c_proj.bias 8"
#define FUSED                                                                                      \
    "h.#.self_attention.query_key_value.weight 24x8, h.#.self_attention.query_key_value.bias 24, " \
    "h.#.self_attention.dense.weight 8x8, h.#.self_attention.dense.bias 8"
#define FALCON "h.#.self_attention.query_key_value.weight 24x8, h.#.self_attention.dense.weight 8x8"
#define MPT                                                                                        \
    "transformer.blocks.#.attn.Wqkv.weight 24x8, transformer.blocks.#.attn.out_proj.weight 8x8"

/* A config of two layers, 4 heads and 8 columns under its own names. Then the same config with
 * an alias of one field; the own name of that field has another value. */
static const struct alias {
    const char *tensors, *own, *alias;
} ALIASES[] = {
#define BART_FIELDS(type, width, heads)                                                            \
    "{\"model_type\":\"" type "\"," width "," heads ",\"decoder_attention_heads\":4,"              \
    "\"encoder_layers\":2,\"decoder_layers\":2}"
#define BART(type)                                                                                 \
    { SEQ2SEQ, BART_FIELDS(type, "\"d_model\":8", "\"encoder_attention_heads\":4"),                \
      BART_FIELDS(type, "\"d_model\":8",                                                           \
                  "\"encoder_attention_heads\":2,\"num_attention_heads\":4") },                    \
    {                                                                                              \
        SEQ2SEQ, BART_FIELDS(type, "\"d_model\":8", "\"encoder_attention_heads\":4"),              \
            BART_FIELDS(type, "\"d_model\":16,\"hidden_size\":8", "\"encoder_attention_heads\":4") \
    }
    BART("bart"),
    BART("mbart"),
    BART("marian"),
    BART("pegasus"),
    BART("m2m_100"),
#undef BART
#define WHISPER WHISPER_PROJ("model.encoder.layers.#.self_attn.")
#define WHISPER_FIELDS(width, heads)                                                               \
    "{\"model_type\":\"whisper\"," width "," heads ",\"encoder_layers\":2}"
    { WHISPER, WHISPER_FIELDS("\"d_model\":8", "\"encoder_attention_heads\":4"),
      WHISPER_FIELDS("\"d_model\":16,\"hidden_size\":8",
                     "\"encoder_attention_heads\":2,\"num_attention_heads\":4") },
#define DISTILBERT(dim, heads, layers)                                                             \
    "{\"model_type\":\"distilbert\"," dim "," heads "," layers "}"
#define DISTILBERT_OWN DISTILBERT("\"dim\":8", "\"n_heads\":4", "\"n_layers\":2")
    { LIN("transformer.layer.#.attention."), DISTILBERT_OWN,
      DISTILBERT("\"dim\":16,\"hidden_size\":8", "\"n_heads\":4", "\"n_layers\":2") },
    { LIN("transformer.layer.#.attention."), DISTILBERT_OWN,
      DISTILBERT("\"dim\":8", "\"n_heads\":2,\"num_attention_heads\":4", "\"n_layers\":2") },
    { LIN("transformer.layer.#.attention."), DISTILBERT_OWN,
      DISTILBERT("\"dim\":8", "\"n_heads\":4", "\"n_layers\":1,\"num_hidden_layers\":2") },
#define T5(type, width, heads, layers, dim)                                                        \
    "{\"model_type\":\"" type "\"," width "," heads "," layers "," dim "}"
#define T5_OWN(type) T5(type, "\"d_model\":8", "\"num_heads\":4", "\"num_layers\":2", "\"d_kv\":3")
#define T5_ALIASES(type)                                                                           \
    { T5_TENSORS, T5_OWN(type),                                                                    \
      T5(type, "\"d_model\":16,\"hidden_size\":8", "\"num_heads\":4", "\"num_layers\":2",          \
         "\"d_kv\":3") },                                                                          \
        { T5_TENSORS, T5_OWN(type),                                                                \
          T5(type, "\"d_model\":8", "\"num_heads\":2,\"num_attention_heads\":4",                   \
             "\"num_layers\":2", "\"d_kv\":3") },                                                  \
        { T5_TENSORS, T5_OWN(type),                                                                \
          T5(type, "\"d_model\":8", "\"num_heads\":4", "\"num_layers\":1,\"num_hidden_layers\":2", \
             "\"d_kv\":3") },                                                                      \
    {                                                                                              \
        T5_TENSORS, T5_OWN(type),                                                                  \
            T5(type, "\"d_model\":8", "\"num_heads\":4", "\"num_layers\":2",                       \
               "\"d_kv\":2,\"head_dim\":3")                                                        \
    }
    T5_ALIASES("t5"),
    T5_ALIASES("mt5"),
#define GPT(type, width, heads, layers) "{\"model_type\":\"" type "," width "," heads "," layers "}"
#define GPT_ALIASES(type, tensors)                                                                 \
    { tensors, GPT(type, "\"n_embd\":8", "\"n_head\":4", "\"n_layer\":2"),                         \
      GPT(type, "\"n_embd\":16,\"hidden_size\":8", "\"n_head\":4", "\"n_layer\":2") },             \
        { tensors, GPT(type, "\"n_embd\":8", "\"n_head\":4", "\"n_layer\":2"),                     \
          GPT(type, "\"n_embd\":8", "\"n_head\":2,\"num_attention_heads\":4", "\"n_layer\":2") },  \
    {                                                                                              \
        tensors, GPT(type, "\"n_embd\":8", "\"n_head\":4", "\"n_layer\":2"),                       \
            GPT(type, "\"n_embd\":8", "\"n_head\":4", "\"n_layer\":1,\"num_hidden_layers\":2")     \
    }
    GPT_ALIASES("gptj\",\"rotary_dim\":2", GPTJ),
    GPT_ALIASES("gpt2\"", GPT2),
    GPT_ALIASES("codegen\",\"rotary_dim\":2", CODEGEN),
    GPT_ALIASES("gpt_bigcode\",\"multi_query\":false", FUSED_GPT),
#define NEO(fields) "{\"model_type\":\"gpt_neo\",\"hidden_size\":8," fields "}"
    { GPT_NEO, NEO("\"num_heads\":4,\"num_layers\":2"),
      NEO("\"num_heads\":2,\"num_attention_heads\":4,\"num_layers\":1,\"num_hidden_layers\":2") },
#define BLOOM(fields) "{\"model_type\":\"bloom\"," fields "}"
    { FUSED, BLOOM("\"hidden_size\":8,\"n_head\":4,\"n_layer\":2"),
      BLOOM("\"hidden_size\":16,\"n_embed\":8,\"n_head\":2,\"num_attention_heads\":4,\"n_layer\":1,"
            "\"num_hidden_layers\":2") },
#define RW(type, fields) "{\"model_type\":\"" type "\",\"multi_query\":false," fields "}"
    { FALCON, RW("falcon", "\"hidden_size\":8,\"num_attention_heads\":4,\"num_hidden_layers\":2"),
      RW("RefinedWebModel", "\"hidden_size\":16,\"n_embed\":8,\"n_head\":4,\"n_layer\":2") },
#define MPT_CONFIG(fields) "{\"model_type\":\"mpt\"," fields "}"
    { MPT, MPT_CONFIG("\"d_model\":8,\"n_heads\":4,\"n_layers\":2"),
      MPT_CONFIG("\"d_model\":16,\"hidden_size\":8,\"n_heads\":2,\"num_attention_heads\":4,"
                 "\"n_layers\":1,\"num_hidden_layers\":2") },
    { "gpt_neox.layers.#.attention.query_key_value.weight 24x8, "
      "gpt_neox.layers.#.attention.query_key_value.bias 24, "
      "gpt_neox.layers.#.attention.dense.weight 8x8, gpt_neox.layers.#.attention.dense.bias 8",
      "{\"model_type\":\"gpt_neox\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"rotary_pct\":0.5,\"rope_theta\":100}",
      "{\"model_type\":\"gpt_neox\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"rotary_pct\":0.5,\"rotary_emb_base\":100}" },
};

enum { LAYERS_MAX = 6, WIDTH = 8, NUMBERS = PUBLISHED_LENGTH * WIDTH };

/* What all layers of a model answer. */
static int64_t read_answers(const char *config, const char *tensors,
                            double answers[LAYERS_MAX][NUMBERS])
{
    published_open(config, tensors, 2, "F32");
    const int64_t count = published_model()->layer_count;
    assert_true(count <= LAYERS_MAX);
    for (int64_t layer = 0; layer < count; layer++) {
        const struct rows input = published_input(WIDTH);
        const struct rows answer = published_compute(layer, input, input);
        assert_int_equal(answer.columns, WIDTH);
        memcpy(answers[layer], answer.data, sizeof answers[layer]);
    }
    published_close();
    return count;
}

TEST(aliases)
{
    static double own[LAYERS_MAX][NUMBERS], other[LAYERS_MAX][NUMBERS];
    for (size_t i = 0; i < sizeof ALIASES / sizeof ALIASES[0]; i++) {
        const int64_t count = read_answers(ALIASES[i].own, ALIASES[i].tensors, own);
        assert_int_equal(read_answers(ALIASES[i].alias, ALIASES[i].tensors, other), count);
        for (int64_t layer = 0; layer < count; layer++)
            if (memcmp(own[layer], other[layer], sizeof own[layer]) != 0)
                fail_msg("layer %d of %s is not that of %s", (int)layer, ALIASES[i].alias,
                         ALIASES[i].own);
    }
}
