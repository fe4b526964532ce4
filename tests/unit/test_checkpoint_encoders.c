/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_encoders.c - published encoders, and encoders with decoders, by their own
 * config.json and names.
 *
 * Each family's attention is written out of the forward() of its modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. */
#include "published.h"
#include "test.h"

/* query, key, value and dense of names that begin alike, over hidden_states or over what an encoder
 * gives; scores divided by the root of the head's size. */
struct plain {
    const char *begin, *query, *key, *value, *dense;
    int64_t heads;
    bool causal;
};

#define PLAIN(q, k, v, o) .query = (q), .key = (k), .value = (v), .dense = (o)
#define BERT_NAMES        PLAIN("self.query", "self.key", "self.value", "output.dense")
#define ALBERT_NAMES      PLAIN("query", "key", "value", "dense")
#define VIT_NAMES         PLAIN("attention.query", "attention.key", "attention.value", "output.dense")
#define OUT_PROJ_NAMES    PLAIN("q_proj", "k_proj", "v_proj", "out_proj")

static struct published_answer forward(const struct plain *plain, int layer, struct rows hidden,
                                       struct rows other)
{
    char name[4][128];
    const char *const endings[] = { plain->query, plain->key, plain->value, plain->dense };
    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof name[i], "%s%s", plain->begin, endings[i]);
    const struct rows q = published_linear(hidden, name[0], layer);
    const struct rows k = published_linear(other, name[1], layer);
    const struct rows v = published_linear(other, name[2], layer);
    const struct published_attention attention = {
        .heads = plain->heads,
        .scale = 1 / sqrt((double)q.columns / (double)plain->heads),
        .causal = plain->causal,
    };
    struct published_answer answer = published_attend(&attention, q, k, v);
    answer.context = published_linear(answer.context, name[3], layer);
    return answer;
}

static void expect_self(const struct plain *plain, int layer, int64_t index, const char *kind,
                        int64_t width)
{
    const struct rows hidden = published_input(width);
    const struct published_answer answer = forward(plain, layer, hidden, hidden);
    published_expect(index, kind, hidden, hidden, &answer);
}

static void expect_cross(const struct plain *plain, int layer, int64_t index, int64_t width)
{
    const struct rows hidden = published_input(width), memory = published_memory(width);
    const struct published_answer answer = forward(plain, layer, hidden, memory);
    published_expect(index, "cross", hidden, memory, &answer);
}

/* ---------------------------------------------------- BERT and those named like it -- */

#define BERT_LAYER(prefix, kind) prefix "encoder.layer.#." kind "."
#define BERT_TENSORS(prefix, kind)                                                                 \
    PUBLISHED_LINEARS(BERT_LAYER(prefix, kind), "self.query", "self.key", "self.value",            \
                      "output.dense", "12")                                                        \
    ", " BERT_LAYER(prefix, kind) "output.LayerNorm.weight 12"

#define BERT_FIELDS "\"hidden_size\":12,\"num_attention_heads\":3,\"num_hidden_layers\":2"

/* bert/modeling_bert.py at 8ec58104181b, BertSelfAttention and BertSelfOutput;
 * electra/modeling_electra.py at 4770c6d87fb4 and roberta copy it. */
TEST(bert)
{
    static const struct {
        const char *model_type, *prefix, *tensors;
    } FAMILIES[] = {
        { "bert", "bert.", BERT_TENSORS("bert.", "attention") },
        { "bert", "", BERT_TENSORS("", "attention") },
        { "roberta", "roberta.", BERT_TENSORS("roberta.", "attention") },
        { "xlm-roberta", "roberta.", BERT_TENSORS("roberta.", "attention") },
        { "electra", "electra.", BERT_TENSORS("electra.", "attention") },
    };
    for (size_t i = 0; i < sizeof FAMILIES / sizeof FAMILIES[0]; i++) {
        char config[256], begin[64];
        snprintf(config, sizeof config,
                 "{\"model_type\":\"%s\",\"position_embedding_type\":\"absolute\"," BERT_FIELDS "}",
                 FAMILIES[i].model_type);
        snprintf(begin, sizeof begin, "%sencoder.layer.#.attention.", FAMILIES[i].prefix);
        const struct plain plain = { .begin = begin, BERT_NAMES, .heads = 3 };
        published_open(config, FAMILIES[i].tensors, 2, i % 2 ? "F16" : "F32");
        assert_int_equal(published_model()->layer_count, 2);
        expect_self(&plain, 0, 0, "self", 12);
        expect_self(&plain, 1, 1, "self", 12);
        published_close();
    }
}

/* The same file: a decoder is causal, and add_cross_attention gives it a second attention. */
TEST(bert_decoder)
{
    const struct plain self = {
        .begin = "bert.encoder.layer.#.attention.", BERT_NAMES, .heads = 3, .causal = true
    };
    struct plain cross = self;
    cross.begin = "bert.encoder.layer.#.crossattention.";
    cross.causal = false;
    published_open(
        "{\"model_type\":\"bert\",\"is_decoder\":true,\"add_cross_attention\":true," BERT_FIELDS
        "}",
        BERT_TENSORS("bert.", "attention") ", " BERT_TENSORS("bert.", "crossattention"), 2, "F32");
    assert_int_equal(published_model()->layer_count, 4);
    expect_self(&self, 1, 1, "self", 12);
    expect_cross(&cross, 0, 2, 12);
    expect_cross(&cross, 1, 3, 12);
    published_close();
}

/* distilbert/modeling_distilbert.py at e368c1a8819d, MultiHeadSelfAttention. */
TEST(distilbert)
{
    const struct plain plain = { .begin = "distilbert.transformer.layer.#.attention.",
                                 PLAIN("q_lin", "k_lin", "v_lin", "out_lin"),
                                 .heads = 2 };
    published_open("{\"model_type\":\"distilbert\",\"dim\":8,\"n_heads\":2,\"n_layers\":2}",
                   PUBLISHED_LINEARS("distilbert.transformer.layer.#.attention.", "q_lin", "k_lin",
                                     "v_lin", "out_lin", "8"),
                   2, "F32");
    expect_self(&plain, 0, 0, "self", 8);
    expect_self(&plain, 1, 1, "self", 8);
    published_close();
}

#define ALBERT_GROUP(group)                                                                        \
    "albert.encoder.albert_layer_groups." group ".albert_layers.0.attention."

#define ALBERT_TENSORS(begin) PUBLISHED_LINEARS(begin, "query", "key", "value", "dense", "12")

/* albert/modeling_albert.py at 3c354ea20e34, AlbertAttention, and AlbertTransformer.forward(): the
 * group of layer i is int(i / (num_hidden_layers / num_hidden_groups)). */
TEST(albert)
{
    const struct plain first = { .begin = ALBERT_GROUP("0"), ALBERT_NAMES, .heads = 3 };
    const struct plain second = { .begin = ALBERT_GROUP("1"), ALBERT_NAMES, .heads = 3 };
    published_open("{\"model_type\":\"albert\",\"hidden_size\":12,\"num_attention_heads\":3,"
                   "\"num_hidden_layers\":5,\"num_hidden_groups\":2}",
                   ALBERT_TENSORS(ALBERT_GROUP("0")) ", " ALBERT_TENSORS(ALBERT_GROUP("1")), 1,
                   "F16");
    assert_int_equal(published_model()->layer_count, 5);
    assert_int_equal(published_model()->parameter_count, 2 * 4 * (12 * 12 + 12));
    for (int layer = 0; layer < 5; layer++)
        expect_self(layer < 3 ? &first : &second, 0, layer, "self", 12);
    published_close();
    published_open("{\"model_type\":\"albert\",\"hidden_size\":12,\"num_attention_heads\":3}",
                   ALBERT_TENSORS(ALBERT_GROUP("0")), 1, "F32");
    assert_int_equal(published_model()->layer_count, 12);
    expect_self(&first, 0, 11, "self", 12);
    published_close();
}

#define ALBERT_INNER(group, inner)                                                                 \
    "albert.encoder.albert_layer_groups." group ".albert_layers." inner ".attention."
#define ALBERT_INNER_GROUP(group)                                                                  \
    ALBERT_TENSORS(ALBERT_INNER(group, "0")) ", " ALBERT_TENSORS(ALBERT_INNER(group, "1"))

/* AlbertLayerGroup.forward() of the same file: a group runs its inner layers one after another. */
TEST(albert_inner)
{
    static const char *const NAMES[] = { ALBERT_INNER("0", "0"), ALBERT_INNER("0", "1"),
                                         ALBERT_INNER("0", "0"), ALBERT_INNER("0", "1"),
                                         ALBERT_INNER("1", "0"), ALBERT_INNER("1", "1") };
    published_open("{\"model_type\":\"albert\",\"hidden_size\":12,\"num_attention_heads\":3,"
                   "\"num_hidden_layers\":3,\"num_hidden_groups\":2,\"inner_group_num\":2}",
                   ALBERT_INNER_GROUP("0") ", " ALBERT_INNER_GROUP("1"), 1, "F32");
    assert_int_equal(published_model()->layer_count, 6);
    for (int layer = 0; layer < 6; layer++) {
        const struct plain plain = { .begin = NAMES[layer], ALBERT_NAMES, .heads = 3 };
        expect_self(&plain, 0, layer, "self", 12);
    }
    published_close();
}

/* ----------------------------------------------------------------- pictures -- */

#define VIT_TENSORS(prefix)                                                                        \
    PUBLISHED_LINEARS(prefix "encoder.layer.#.attention.", "attention.query", "attention.key",     \
                      "attention.value", "output.dense", "12")

#define VIT "vit.encoder.layer.#.attention."

/* vit/modeling_vit.py at d8b2b23c6ed1, ViTSelfAttention and ViTSelfOutput, which deit/ and
 * dinov2/modeling_dinov2.py at 158e70c28570 copy. */
TEST(vit)
{
    static const struct {
        const char *model_type, *prefix, *tensors;
    } FAMILIES[] = {
        { "vit", "vit.", VIT_TENSORS("vit.") },
        { "deit", "deit.", VIT_TENSORS("deit.") },
        { "dinov2", "", VIT_TENSORS("") },
        { "dinov2", "dinov2.", VIT_TENSORS("dinov2.") },
    };
    for (size_t i = 0; i < sizeof FAMILIES / sizeof FAMILIES[0]; i++) {
        char config[256], begin[64];
        snprintf(config, sizeof config, "{\"model_type\":\"%s\",\"qkv_bias\":true," BERT_FIELDS "}",
                 FAMILIES[i].model_type);
        snprintf(begin, sizeof begin, "%sencoder.layer.#.attention.", FAMILIES[i].prefix);
        const struct plain plain = { .begin = begin, VIT_NAMES, .heads = 3 };
        published_open(config, FAMILIES[i].tensors, 2, "F32");
        expect_self(&plain, 1, 1, "self", 12);
        published_close();
    }
    published_open("{\"model_type\":\"vit\",\"qkv_bias\":false," BERT_FIELDS "}",
                   VIT "attention.query.weight 12x12, " VIT "attention.key.weight 12x12, " VIT
                       "attention.value.weight 12x12, " PUBLISHED_LINEAR(VIT "output.dense", "12"),
                   2, "F32");
    const struct plain plain = { .begin = VIT, VIT_NAMES, .heads = 3 };
    expect_self(&plain, 0, 0, "self", 12);
    published_close();
}

#define OUT_PROJ(begin, size)                                                                      \
    PUBLISHED_LINEARS(begin, "q_proj", "k_proj", "v_proj", "out_proj", size)

#define CLIP_TEXT   "text_model.encoder.layers.#.self_attn."
#define CLIP_VISION "vision_model.encoder.layers.#.self_attn."

/* clip/modeling_clip.py at 679021a6b0de, CLIPAttention; the text is causal. */
TEST(clip)
{
    const struct plain text = { .begin = CLIP_TEXT, OUT_PROJ_NAMES, .heads = 2, .causal = true };
    const struct plain vision = { .begin = CLIP_VISION, OUT_PROJ_NAMES, .heads = 4 };
    published_open("{\"model_type\":\"clip\",\"text_config\":{\"hidden_size\":8,"
                   "\"num_attention_heads\":2,\"num_hidden_layers\":2},\"vision_config\":{"
                   "\"hidden_size\":12,\"num_attention_heads\":4,\"num_hidden_layers\":2}}",
                   OUT_PROJ(CLIP_TEXT, "8") ", " OUT_PROJ(CLIP_VISION, "12"), 2, "F16");
    assert_int_equal(published_model()->layer_count, 4);
    expect_self(&text, 0, 0, "text", 8);
    expect_self(&text, 1, 1, "text", 8);
    expect_self(&vision, 0, 2, "vision", 12);
    expect_self(&vision, 1, 3, "vision", 12);
    published_close();
    /* configuration_clip.py, CLIPConfig: text_config_dict and vision_config_dict are whole configs,
     * and count. */
    published_open("{\"model_type\":\"clip\",\"text_config\":{\"hidden_size\":8,"
                   "\"num_attention_heads\":4,\"num_hidden_layers\":2},\"text_config_dict\":{"
                   "\"hidden_size\":8,\"num_attention_heads\":2,\"num_hidden_layers\":2},"
                   "\"vision_config\":{\"hidden_size\":12,\"num_attention_heads\":2,"
                   "\"num_hidden_layers\":3},\"vision_config_dict\":{\"hidden_size\":12,"
                   "\"num_attention_heads\":4,\"num_hidden_layers\":2}}",
                   OUT_PROJ(CLIP_TEXT, "8") ", " OUT_PROJ(CLIP_VISION, "12"), 2, "F32");
    expect_self(&text, 1, 1, "text", 8);
    expect_self(&vision, 1, 3, "vision", 12);
    published_close();
    published_open("{\"model_type\":\"clip_text_model\",\"hidden_size\":8,"
                   "\"num_attention_heads\":2,\"num_hidden_layers\":2}",
                   OUT_PROJ(CLIP_TEXT, "8"), 2, "F32");
    expect_self(&text, 1, 1, "text", 8);
    published_close();
}

/* -------------------------------------------------------------------- sounds -- */

/* wav2vec2/modeling_wav2vec2.py at 73a515ed5fdf, Wav2Vec2Attention. */
TEST(wav2vec2)
{
    const struct plain plain = { .begin = "wav2vec2.encoder.layers.#.attention.",
                                 OUT_PROJ_NAMES,
                                 .heads = 3 };
    published_open("{\"model_type\":\"wav2vec2\"," BERT_FIELDS "}",
                   OUT_PROJ("wav2vec2.encoder.layers.#.attention.", "12"), 2, "F32");
    expect_self(&plain, 1, 1, "self", 12);
    published_close();
}

/* ---------------------------------------------------------- encoder and decoder -- */

#define ENCODER "model.encoder.layers.#.self_attn."
#define DECODER "model.decoder.layers.#.self_attn."
#define CROSS   "model.decoder.layers.#.encoder_attn."

#define SEQ2SEQ_FIELDS                                                                             \
    "\"d_model\":8,\"encoder_layers\":2,\"decoder_layers\":2,\"encoder_attention_heads\":2,"       \
    "\"decoder_attention_heads\":4"

static void expect_seq2seq(void)
{
    const struct plain encoder = { .begin = ENCODER, OUT_PROJ_NAMES, .heads = 2 };
    const struct plain decoder = { .begin = DECODER, OUT_PROJ_NAMES, .heads = 4, .causal = true };
    const struct plain cross = { .begin = CROSS, OUT_PROJ_NAMES, .heads = 4 };
    assert_int_equal(published_model()->layer_count, 6);
    for (int layer = 0; layer < 2; layer++) {
        expect_self(&encoder, layer, layer, "encoder", 8);
        expect_self(&decoder, layer, 2 + layer, "decoder", 8);
        expect_cross(&cross, layer, 4 + layer, 8);
    }
}

/* bart/modeling_bart.py at 57228229d2ee, BartAttention, which marian/modeling_marian.py copies. */
TEST(bart)
{
    static const char TENSORS[] =
        OUT_PROJ(ENCODER, "8") ", " OUT_PROJ(DECODER, "8") ", " OUT_PROJ(CROSS, "8");
    published_open("{\"model_type\":\"bart\"," SEQ2SEQ_FIELDS "}", TENSORS, 2, "F32");
    expect_seq2seq();
    published_close();
    published_open("{\"model_type\":\"marian\"," SEQ2SEQ_FIELDS "}", TENSORS, 2, "F16");
    expect_seq2seq();
    published_close();
}

#define NO_KEY_BIAS(begin)                                                                         \
    PUBLISHED_LINEARS_BUT_KEY(begin, "q_proj", "k_proj", "v_proj", "out_proj", "8")

/* whisper/modeling_whisper.py at 5c48f71a682f, WhisperAttention: keys have no bias. */
TEST(whisper)
{
    published_open("{\"model_type\":\"whisper\"," SEQ2SEQ_FIELDS "}",
                   NO_KEY_BIAS(ENCODER) ", " NO_KEY_BIAS(DECODER) ", " NO_KEY_BIAS(CROSS), 2,
                   "F32");
    expect_seq2seq();
    published_close();
}
