/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_newer.c - decoders that came out of Llama from 2024 on, by their own config.json
 * and names: which layers have windows and which are rotated, what their configs leave out, and the
 * names of their tensors.
 *
 * What a field means is read in the family's modeling and configuration file in Hugging Face
 * transformers, src/transformers/models/, at the commits that tests/http/test_trace_newer.c names,
 * which compares the numbers of whole passes. */
#include "forward_case.h"
#include "published_rotary.h"
#include "test.h"

#define GROUPED PUBLISHED_GROUPED
#define AT      "model.layers.#.self_attn."
#define NORMED  GROUPED ", " AT "q_norm.weight 4, " AT "k_norm.weight 4"
#define FIELDS                                                                                     \
    "\"hidden_size\":16,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                      \
    "\"num_hidden_layers\":4"

/* A letter for each of four layers: window or full, in capitals where the layer is rotated. */
static void expect_layers(const char *type, const char *fields, const char *tensors,
                          const char *letters)
{
    char config[1024], got[5] = "";
    snprintf(config, sizeof config, "{\"model_type\":\"%s\"," FIELDS "%s%s}", type,
             fields[0] ? "," : "", fields);
    published_open(config, tensors, 4, "F32");
    for (int i = 0; i < 4; i++) {
        const struct model_layer *layer = &published_model()->layers[i];
        const bool has_window = layer->options.window_left >= 0;
        assert_true(!has_window || layer->options.window_left == 2);
        got[i] = layer->layer.rope.dim > 0 ? (has_window ? 'W' : 'F') : (has_window ? 'w' : 'f');
    }
    assert_string_equal(got, letters);
    published_close();
}

TEST(smollm3_layers)
{
    expect_layers("smollm3", "", GROUPED, "FFFf");
    expect_layers("smollm3", "\"no_rope_layer_interval\":2", GROUPED, "FfFf");
    expect_layers("smollm3", "\"no_rope_layers\":null,\"no_rope_layer_interval\":3", GROUPED,
                  "FFfF");
    expect_layers("smollm3", "\"no_rope_layers\":[0,1,1,0],\"sliding_window\":3", GROUPED, "fFFf");
    expect_layers("smollm3", "\"sliding_window\":3,\"use_sliding_window\":true", GROUPED, "FFFw");
    expect_layers("smollm3",
                  "\"sliding_window\":3,\"use_sliding_window\":true,\"layer_types\":["
                  "\"sliding_attention\",\"full_attention\",\"full_attention\",\"full_attention\"]",
                  GROUPED, "WFFf");
    published_refused("{\"model_type\":\"smollm3\"," FIELDS ",\"no_rope_layers\":[1,1,0]}", GROUPED,
                      4, FAULT_SHAPE, "no_rope_layers has nothing for layer 3");
    published_refused("{\"model_type\":\"smollm3\"," FIELDS ",\"no_rope_layers\":\"all\"}", GROUPED,
                      4, FAULT_SHAPE, "no_rope_layers has nothing for layer 0");
}

TEST(olmo3_layers)
{
    static const char TENSORS[] = GROUPED ", " AT "q_norm.weight 16, " AT "k_norm.weight 8";
    expect_layers("olmo3", "\"sliding_window\":3", TENSORS, "WWWF");
    expect_layers("olmo3", "\"sliding_window\":null", TENSORS, "FFFF");
    expect_layers("olmo3",
                  "\"sliding_window\":3,\"layer_types\":[\"full_attention\",\"sliding_attention\","
                  "\"full_attention\",\"sliding_attention\"]",
                  TENSORS, "FWFW");
}

TEST(exaone4_layers)
{
    expect_layers("exaone4", "\"sliding_window\":3", NORMED, "WWWf");
    expect_layers("exaone4", "\"sliding_window\":3,\"sliding_window_pattern\":2", NORMED, "WfWf");
    expect_layers("exaone4", "\"sliding_window\":3,\"sliding_window_pattern\":\"LG\"", NORMED,
                  "WfWf");
    expect_layers("exaone4", "\"sliding_window\":3,\"sliding_window_pattern\":\"L\"", NORMED,
                  "WWWf");
    expect_layers("exaone4", "\"sliding_window\":null,\"sliding_window_pattern\":4", NORMED,
                  "FFFF");
    expect_layers("exaone4",
                  "\"sliding_window\":3,\"sliding_window_pattern\":\"LLLG\",\"layer_types\":["
                  "\"full_attention\",\"sliding_attention\",\"sliding_attention\","
                  "\"full_attention\"]",
                  NORMED, "fWWf");
}

/* The scaling of layers with a window, and of others. */
static void expect_scalings(const char *fields, enum attn_rope_type window,
                            enum attn_rope_type full)
{
    char config[1024];
    snprintf(config, sizeof config, "{\"model_type\":\"olmo3\"," FIELDS ",\"sliding_window\":3,%s}",
             fields);
    published_open(config, GROUPED ", " AT "q_norm.weight 16, " AT "k_norm.weight 8", 4, "F32");
    const struct model_layer *layers = published_model()->layers;
    assert_int_equal(layers[0].layer.rope.scaling.type, window);
    assert_int_equal(layers[3].layer.rope.scaling.type, full);
    assert_true(layers[0].layer.rope.theta == 500 && layers[3].layer.rope.theta == 500);
    published_close();
}

TEST(olmo3_scaling)
{
    expect_scalings("\"rope_theta\":500", ATTN_ROPE_DEFAULT, ATTN_ROPE_DEFAULT);
    expect_scalings("\"rope_theta\":500,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}",
                    ATTN_ROPE_DEFAULT, ATTN_ROPE_LINEAR);
    expect_scalings("\"rope_parameters\":{\"rope_theta\":500,\"rope_type\":\"linear\","
                    "\"factor\":2}",
                    ATTN_ROPE_DEFAULT, ATTN_ROPE_LINEAR);
    expect_scalings("\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":500,"
                    "\"rope_type\":\"linear\",\"factor\":2},\"full_attention\":{\"rope_theta\":500,"
                    "\"rope_type\":\"default\"}}",
                    ATTN_ROPE_LINEAR, ATTN_ROPE_DEFAULT);
}

/* Llama4TextConfig: what config.json says of its layers, or what is refused of it. */
TEST(llama4_layers)
{
#define LLAMA4(more) "{\"model_type\":\"llama4_text\",\"head_dim\":4," FIELDS more "}"
    published_open(LLAMA4(""), GROUPED, 4, "F32");
    for (int i = 0; i < 4; i++) {
        const struct model_layer *layer = &published_model()->layers[i];
        const struct attn_rope *rope = &layer->layer.rope;
        assert_true(layer->options.chunk == (i < 3 ? 8192 : 0));
        assert_true(rope->dim == (i < 3 ? 4 : 0)
                    && (layer->layer.q_norm.weight != NULL) == (i < 3));
        assert_true(rope->query_growth == (i < 3 ? 0 : 0.1)
                    && rope->query_offset == (i < 3 ? 0 : 1));
        assert_true(i < 3 || rope->query_length == 8192);
    }
    published_close();
    published_refused(LLAMA4(",\"floor_scale\":0"), GROUPED, 4, FAULT_OPTION,
                      "floor_scale is 0; expected 1 or more");
    published_refused(LLAMA4(",\"no_rope_layers\":[1,1]"), GROUPED, 4, FAULT_SHAPE,
                      "no_rope_layers has nothing for layer 2");
    published_refused(LLAMA4(",\"layer_types\":[\"sliding_attention\"]"), GROUPED, 4, FAULT_OPTION,
                      "expected full_attention or chunked_attention");
}

/* Ministral3Config.__post_init__(): a file without rope_parameters has these. */
TEST(ministral3_rope)
{
    static const char *const CONFIGS[] = {
        "{\"model_type\":\"ministral3\",\"head_dim\":4," FIELDS "}",
        "{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"ministral3\","
        "\"head_dim\":4," FIELDS "}}",
    };
    for (int i = 0; i < 2; i++) {
        published_open(CONFIGS[i], GROUPED, 4, "F32");
        const struct model_layer *layer = &published_model()->layers[3];
        const struct attn_rope *rope = &layer->layer.rope;
        assert_true(rope->theta == 1e6 && rope->query_growth == 0.1 && rope->query_length == 16384);
        assert_true(rope->scaling.type == ATTN_ROPE_YARN && rope->scaling.factor == 16);
        assert_true(rope->scaling.original_max_position_embeddings == 16384);
        assert_true(attn_rope_attention_factor(rope) == 1);
        assert_true(layer->options.window_left < 0);
        published_close();
    }
    published_refused("{\"model_type\":\"mistral\",\"rope_parameters\":{\"rope_type\":\"yarn\","
                      "\"factor\":2,\"original_max_position_embeddings\":8,"
                      "\"llama_4_scaling_beta\":0.5}," FIELDS "}",
                      GROUPED, 4, FAULT_FIELD, "llama_4_scaling_beta");
}

/* ApertusConfig.__post_init__() */
TEST(apertus_rope)
{
    published_open("{\"model_type\":\"apertus\"," FIELDS "}", NORMED, 4, "F32");
    const struct attn_rope *rope = &published_model()->layers[3].layer.rope;
    assert_true(rope->theta == 12e6 && rope->scaling.type == ATTN_ROPE_LLAMA3);
    assert_true(rope->scaling.factor == 8 && rope->scaling.low_freq_factor == 1
                && rope->scaling.high_freq_factor == 4
                && rope->scaling.original_max_position_embeddings == 8192);
    published_close();
}

TEST(dinov3_refused)
{
    published_refused("{\"model_type\":\"dinov3_vit\",\"hidden_size\":8,"
                      "\"num_attention_heads\":2,\"num_hidden_layers\":2,\"patch_size\":0}",
                      "layer.#.attention.q_proj.weight 8x8", 2, FAULT_OPTION, "patch_size");
}

/* ---------------------------------------------------------------- defaults -- */

#define EMBEDDING "model.embed_tokens.weight 30x16, model.norm.weight 16, "
#define GATED                                                                                      \
    "model.layers.#.mlp.gate_proj.weight 40x16, model.layers.#.mlp.up_proj.weight 40x16, "         \
    "model.layers.#.mlp.down_proj.weight 16x40, "
#define UP_DOWN                                                                                    \
    "model.layers.#.mlp.up_proj.weight 40x16, model.layers.#.mlp.down_proj.weight 16x40, "
#define GATE_UP                                                                                    \
    "model.layers.#.mlp.gate_up_proj.weight 80x16, model.layers.#.mlp.down_proj.weight 16x40, "
#define NORM(name) "model.layers.#." name ".weight 16, "
#define BEFORE     NORM("input_layernorm") NORM("post_attention_layernorm")
#define INSIDE     NORM("post_attention_layernorm") NORM("post_feedforward_layernorm")
#define HEAD       "lm_head.weight 30x16, "

/* One query head for each key/value head, of 128 columns. */
#define WIDE                                                                                       \
    AT "q_proj.weight 256x16, " AT "k_proj.weight 256x16, " AT "v_proj.weight 256x16, " AT         \
       "o_proj.weight 16x256, "
#define WIDE_BIASES AT "q_proj.bias 256, " AT "k_proj.bias 256, " AT "v_proj.bias 256, "
#define NARROW      GROUPED ", "

static const struct {
    const char *type, *heads, *tensors;
    double theta, eps, norm_eps; /* of the passes' norms, and of those of query and key; 0: none */
    int64_t rotary_dim;
    bool is_tied;
} DEFAULTS[] = {
    { "smollm3", "4", NARROW EMBEDDING GATED BEFORE, 2e6, 1e-6, 0, 4, true },
    { "olmo3", "4", NARROW EMBEDDING GATED INSIDE HEAD AT "q_norm.weight 16, " AT "k_norm.weight 8",
      10000, 1e-5, 1e-5, 4, false },
    { "exaone4", "4",
      NARROW EMBEDDING GATED INSIDE HEAD AT "q_norm.weight 4, " AT "k_norm.weight 4", 10000, 1e-5,
      1e-5, 4, false },
    { "seed_oss", "2", WIDE WIDE_BIASES EMBEDDING GATED BEFORE HEAD, 10000, 1e-6, 0, 128, false },
    { "ernie4_5", "2", WIDE EMBEDDING GATED BEFORE, 500000, 1e-5, 0, 128, true },
    { "glm", "2", WIDE WIDE_BIASES EMBEDDING GATE_UP BEFORE HEAD, 10000, 1.5625e-7, 0, 64, false },
    { "glm4", "2",
      WIDE WIDE_BIASES EMBEDDING GATE_UP BEFORE NORM("post_self_attn_layernorm")
          NORM("post_mlp_layernorm") HEAD,
      10000, 1.5625e-7, 0, 64, false },
    { "arcee", "4", NARROW EMBEDDING UP_DOWN BEFORE HEAD, 10000, 1e-5, 0, 4, false },
    { "nemotron", "4",
      NARROW EMBEDDING UP_DOWN BEFORE HEAD
      "model.norm.bias 16, "
      "model.layers.#.input_layernorm.bias 16, model.layers.#.post_attention_layernorm.bias 16",
      10000, 1e-5, 0, 2, false },
};

/* What a config.json leaves out is as the family's configuration file has it. */
TEST(defaults)
{
    for (size_t i = 0; i < sizeof DEFAULTS / sizeof DEFAULTS[0]; i++) {
        char config[256];
        snprintf(config, sizeof config,
                 "{\"model_type\":\"%s\",\"hidden_size\":16,\"num_attention_heads\":%s,"
                 "\"num_key_value_heads\":2,\"num_hidden_layers\":2}",
                 DEFAULTS[i].type, DEFAULTS[i].heads);
        const struct model_forward *forward = forward_case_open(config, DEFAULTS[i].tensors, 2);
        const struct attn_layer *layer = &published_model()->layers[0].layer;
        const struct model_stream *stream = &forward->streams[0];
        const struct model_part *part = &stream->blocks[1].feed_forward;
        const struct attn_norm *norm = part->before.weight ? &part->before : &part->inside;
        print_message("%s\n", DEFAULTS[i].type);
        assert_true(layer->rope.theta == DEFAULTS[i].theta);
        assert_int_equal(layer->rope.dim, DEFAULTS[i].rotary_dim);
        assert_true(norm->eps == DEFAULTS[i].eps && stream->final_norm.eps == DEFAULTS[i].eps);
        assert_true(layer->q_norm.weight ? layer->q_norm.eps == DEFAULTS[i].norm_eps
                                         : DEFAULTS[i].norm_eps == 0);
        assert_int_equal(forward->head.output.weight == stream->embedding.tokens.rows,
                         DEFAULTS[i].is_tied);
        assert_non_null(forward->head.output.weight);
        published_close();
    }
}

/* A bias in the file that config.json does not ask for. */
TEST(biases)
{
    published_refused(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"seed_oss\",\"head_dim\":4"),
                      GROUPED ", " AT "q_proj.bias 16, " AT "k_proj.bias 8, " AT
                              "v_proj.bias 8, " AT "o_proj.bias 16",
                      2, FAULT_FIELD, "o_proj.bias");
    published_refused(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"ernie4_5\",\"head_dim\":4"),
                      GROUPED ", " AT "q_proj.bias 16", 2, FAULT_FIELD, "q_proj.bias");
    published_refused(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"glm4\",\"head_dim\":4"), GROUPED,
                      2, FAULT_FIELD, "q_proj.bias");
}

/* ------------------------------------------------------------- names of Mistral 3 -- */

#define NAMED(prefix, head)                                                                        \
    prefix "embed_tokens.weight 30x16, " prefix "norm.weight 16, " prefix                          \
           "layers.#.self_attn.q_proj.weight 16x16, " prefix                                       \
           "layers.#.self_attn.k_proj.weight 8x16, " prefix                                        \
           "layers.#.self_attn.v_proj.weight 8x16, " prefix                                        \
           "layers.#.self_attn.o_proj.weight 16x16, " prefix                                       \
           "layers.#.mlp.gate_proj.weight 40x16, " prefix                                          \
           "layers.#.mlp.up_proj.weight 40x16, " prefix                                            \
           "layers.#.mlp.down_proj.weight 16x40, " prefix                                          \
           "layers.#.input_layernorm.weight 16, " prefix                                           \
           "layers.#.post_attention_layernorm.weight 16" head

/* Versions of transformers name the text's tensors differently; a head that is not in the file is
 * the embedding. */
TEST(mistral3_names)
{
    static const struct {
        const char *tensors, *head;
    } FILES[] = {
        { NAMED("language_model.model.", ", language_model.lm_head.weight 30x16"),
          "language_model.lm_head" },
        { NAMED("model.language_model.", ", lm_head.weight 30x16"), "lm_head" },
        { NAMED("model.language_model.", ""), NULL },
    };
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        const struct model_forward *forward = forward_case_open(
            "{\"model_type\":\"mistral3\",\"text_config\":{" PUBLISHED_GROUPED_FIELDS "},"
            "\"vision_config\":{\"hidden_size\":1024,\"rope_theta\":10000}}",
            FILES[i].tensors, 2);
        if (FILES[i].head)
            forward_case_expect_linear(&forward->head.output, FILES[i].head, 0, 30, 16);
        else
            assert_ptr_equal(forward->head.output.weight,
                             forward->streams[0].embedding.tokens.rows);
        published_close();
    }
}
