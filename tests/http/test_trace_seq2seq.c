/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_seq2seq.c - traces of encoder-decoders, beside their families' source in double.
 *
 * "The source" is Hugging Face transformers 4.34, in the file of each family's name,
 * models/bart/modeling_bart.py and so on. T5 is in
 * test_trace_t5.c. */
#include "answer.h"
#include "edited_client.h"
#include "fixture.h"
#include "forward_block.h"
#include "reading_client.h"
#include "request_text.h"
#include "test.h"
#include "trace_client.h"

enum { LAYERS = 2, HEADS = 2, WIDTH = 12, TOKENS = 6, TARGETS = 4 };

static const int IDS[TOKENS] = { 4, 17, 39, 5, 5, 2 };
static const int TARGET_IDS[TARGETS] = { 2, 30, 8, 11 };

#define IDS_FIELD     "\"tokens\":[4,17,39,5,5,2]"
#define TARGETS_FIELD ",\"decoder_tokens\":[2,30,8,11]"

static const int POSITIONS[] = { 0, 2, 3 };
enum { POSITION_COUNT = sizeof POSITIONS / sizeof POSITIONS[0] };

static void serve(const char *name, const char *config)
{
    published_save(fixture_path(name), config);
    fixture_serve("--models", directory);
}

static void leave(void)
{
    fixture_stop(NULL);
    published_close();
}

/* Serves the open checkpoint and compares its trace and its predictions. */
static void compare(const char *name, const char *config, const char *fields,
                    const struct forward *want)
{
    serve(name, config);
    trace_client_expect_inputs(&client, name,
                               strstr(fields, "\"features\"")
                                   ? "[\"features\",\"sound\",\"decoder\"]"
                                   : "[\"tokens\",\"decoder\"]");
    trace_client_expect(&client, name, fields, want);
    trace_client_expect_predictions(&client, name, fields, POSITIONS, POSITION_COUNT, want);
    leave();
}

/* ----------------------------------------------------- BART and its copies -- */

#define ATTENTION(begin)                                                                           \
    FORWARD_LINEAR(begin "q_proj", 12, 12)                                                         \
    FORWARD_LINEAR(begin "k_proj", 12, 12)                                                         \
    FORWARD_LINEAR(begin "v_proj", 12, 12)                                                         \
    FORWARD_LINEAR(begin "out_proj", 12, 12)
#define FEED_FORWARD(begin)                                                                        \
    FORWARD_LINEAR(begin "fc1", 20, 12)                                                            \
    FORWARD_LINEAR(begin "fc2", 12, 20)                                                            \
    FORWARD_NORM(begin "final_layer_norm", 12)
#define BLOCKS(begin)                                                                              \
    ATTENTION(begin "encoder.layers.#.self_attn.")                                                 \
    FORWARD_NORM(begin "encoder.layers.#.self_attn_layer_norm", 12)                                \
    FEED_FORWARD(begin "encoder.layers.#.")                                                        \
    ATTENTION(begin "decoder.layers.#.self_attn.")                                                 \
    FORWARD_NORM(begin "decoder.layers.#.self_attn_layer_norm", 12)                                \
    ATTENTION(begin "decoder.layers.#.encoder_attn.")                                              \
    FORWARD_NORM(begin "decoder.layers.#.encoder_attn_layer_norm", 12)                             \
    FEED_FORWARD(begin "decoder.layers.#.")
#define BOTH_NORMS(begin, name)                                                                    \
    FORWARD_NORM(begin "encoder." name, 12)                                                        \
    FORWARD_NORM(begin "decoder." name, 12)
#define BOTH_POSITIONS(begin)                                                                      \
    FORWARD_TABLE(begin "encoder.embed_positions.weight", 18x12)                                   \
    FORWARD_TABLE(begin "decoder.embed_positions.weight", 18x12)
#define LOGITS_BIAS FORWARD_TABLE("final_logits_bias", 1x40)

#define CONFIG_OF(type, more)                                                                      \
    "{\"model_type\":\"" type "\",\"d_model\":12,\"encoder_layers\":2,\"decoder_layers\":2,"       \
    "\"encoder_attention_heads\":2,\"decoder_attention_heads\":2,\"encoder_ffn_dim\":20,"          \
    "\"decoder_ffn_dim\":20,\"vocab_size\":40,\"decoder_start_token_id\":2,"                       \
    "\"max_position_embeddings\":16" more "}"

struct seq2seq {
    const char *begin; /* of the names of blocks, "model." or "" */
    const char *activation;
    double embedding_scale;
    struct rows (*positions)(const struct seq2seq *, const char *stack, const int *ids, int count);
    bool is_norm_first; /* and a norm follows the last block */
    bool has_embedding_norm;
};

struct names {
    char text[16][128];
    int count;
};

/* begin, stack and end as one name, which is valid as long as names. */
static const char *join(struct names *names, const char *begin, const char *stack, const char *end)
{
    char *name = names->text[names->count++];
    snprintf(name, sizeof names->text[0], "%s%s.%s", begin, stack, end);
    return name;
}

static void name_attention(struct forward_attention *to, struct names *names, const char *begin,
                           const char *stack, const char *middle)
{
    static const char *const ENDS[] = { "q_proj", "k_proj", "v_proj", "out_proj" };
    const char *name[4];
    char end[64];
    for (int i = 0; i < 4; i++) {
        snprintf(end, sizeof end, "layers.#.%s.%s", middle, ENDS[i]);
        name[i] = join(names, begin, stack, end);
    }
    snprintf(end, sizeof end, "layers.#.%s_layer_norm", middle);
    to->norm = join(names, begin, stack, end);
    to->q = name[0];
    to->k = name[1];
    to->v = name[2];
    to->output = name[3];
    to->of.heads = HEADS;
    to->of.scale = 1 / sqrt(WIDTH / HEADS);
}

/* BartEncoderLayer and BartDecoderLayer, or where norms come first MBart's. */
static struct rows run_stack(struct forward *want, const struct seq2seq *family, const char *stack,
                             struct rows x, struct rows memory)
{
    struct names names = { .count = 0 };
    const bool is_decoder = memory.data != NULL;
    struct forward_block block = {
        .activation = family->activation,
        .is_norm_first = family->is_norm_first,
        .eps = 1e-5,
    };
    name_attention(&block.self, &names, family->begin, stack, "self_attn");
    block.self.kind = stack;
    block.self.first_layer = is_decoder ? LAYERS : 0;
    block.self.of.causal = is_decoder;
    if (is_decoder) {
        name_attention(&block.cross, &names, family->begin, stack, "encoder_attn");
        block.cross.kind = "cross";
        block.cross.first_layer = 2 * LAYERS;
    }
    block.up = join(&names, family->begin, stack, "layers.#.fc1");
    block.down = join(&names, family->begin, stack, "layers.#.fc2");
    block.norm = join(&names, family->begin, stack, "layers.#.final_layer_norm");
    for (int layer = 0; layer < LAYERS; layer++)
        x = forward_block_run(want, &block, x, memory, layer);
    return family->is_norm_first
               ? forward_layer_norm(x, join(&names, family->begin, stack, "layer_norm"), 0, 1e-5)
               : x;
}

static struct rows embed(const struct seq2seq *family, const char *stack, const char *table,
                         const int *ids, int count)
{
    struct names names = { .count = 0 };
    struct rows x = forward_scale(forward_embed(published_tensor(table, 0), ids, count),
                                  family->embedding_scale);
    x = forward_add(x, family->positions(family, stack, ids, count));
    return family->has_embedding_norm ? forward_layer_norm(
               x, join(&names, family->begin, stack, "layernorm_embedding"), 0, 1e-5)
                                      : x;
}

/* The table of a stack's tokens: that of both, or its own. */
static const char *table_of(struct names *names, const struct seq2seq *family, const char *stack)
{
    const char *own = join(names, family->begin, stack, "embed_tokens.weight");
    char *shared = names->text[names->count++];
    snprintf(shared, sizeof names->text[0], "%sshared.weight", family->begin);
    return published_has(shared, 0) ? shared : own;
}

/* BartModel, lm_head of the decoder's table, and final_logits_bias where it exists. */
static struct forward run(const struct seq2seq *family, const int *ids, int count,
                          const int *target_ids, int target_count)
{
    struct forward want = { .layer_count = 0 };
    struct names names = { .count = 0 };
    const char *table = table_of(&names, family, "encoder");
    const char *target_table = table_of(&names, family, "decoder");
    want.encoder_hidden_states = run_stack(
        &want, family, "encoder", embed(family, "encoder", table, ids, count), FORWARD_NONE);
    want.final_hidden_states = run_stack(
        &want, family, "decoder", embed(family, "decoder", target_table, target_ids, target_count),
        want.encoder_hidden_states);
    want.logits = forward_product(want.final_hidden_states, published_tensor(target_table, 0));
    if (published_has("final_logits_bias", 0))
        want.logits = forward_add_row(want.logits, published_tensor("final_logits_bias", 0));
    return want;
}

/* BartLearnedPositionalEmbedding: positions begin at row 2. */
static struct rows learned_positions(const struct seq2seq *family, const char *stack,
                                     const int *ids, int count)
{
    struct names names = { .count = 0 };
    (void)ids;
    return forward_slice(
        published_tensor(join(&names, family->begin, stack, "embed_positions.weight"), 0), 2,
        count);
}

/* MarianSinusoidalPositionalEmbedding: the sines of all frequencies, then the cosines. */
static struct rows sinusoidal_positions(const struct seq2seq *family, const char *stack,
                                        const int *ids, int count)
{
    const struct rows x = published_rows(count, WIDTH);
    (void)family, (void)stack, (void)ids;
    for (int i = 0; i < count; i++)
        for (int c = 0; c < WIDTH / 2; c++) {
            const double angle = i / pow(10000, 2.0 * c / WIDTH);
            x.data[i * WIDTH + c] = sin(angle);
            x.data[i * WIDTH + WIDTH / 2 + c] = cos(angle);
        }
    return x;
}

/* M2M100SinusoidalPositionalEmbedding: positions count what is no padding, from padding_idx + 1,
 * and padding has a row of zeros. */
static struct rows m2m_100_positions(const struct seq2seq *family, const char *stack,
                                     const int *ids, int count)
{
    const struct rows x = published_rows(count, WIDTH);
    int seen = 0;
    (void)family, (void)stack;
    for (int i = 0; i < count; i++)
        for (int c = 0; c < WIDTH / 2 && ids[i] != 1; c++) {
            seen += c == 0;
            const double angle = (seen + 1) * exp(-c * log(10000) / (WIDTH / 2 - 1));
            x.data[i * WIDTH + c] = sin(angle);
            x.data[i * WIDTH + WIDTH / 2 + c] = cos(angle);
        }
    return x;
}

#define BART_TENSORS(begin)                                                                        \
    FORWARD_TABLE(begin "shared.weight", 40x12)                                                    \
    BOTH_POSITIONS(begin)                                                                          \
    BOTH_NORMS(begin, "layernorm_embedding")                                                       \
    BLOCKS(begin)

static const struct seq2seq BART_FAMILY = { .begin = "model.",
                                            .activation = "gelu",
                                            .embedding_scale = 1,
                                            .positions = learned_positions,
                                            .has_embedding_norm = true };

TEST(bart)
{
    static const char CONFIG[] = CONFIG_OF("bart", "");
    published_open(CONFIG, BART_TENSORS("model.") LOGITS_BIAS, LAYERS, "F32");
    const struct forward want = run(&BART_FAMILY, IDS, TOKENS, TARGET_IDS, TARGETS);
    compare("bart", CONFIG, IDS_FIELD TARGETS_FIELD, &want);
}

static void pass_bart(struct forward *forward)
{
    *forward = run(&BART_FAMILY, IDS, TOKENS, TARGET_IDS, TARGETS);
}

/* Each of the three kinds of layers, with the rows and keys of its own. Layers are 0 and 1 of the
 * encoder, 2 and 3 of the decoder, 4 and 5 of cross-attention. */
static const char *const EDITS[] = {
    "[{\"kind\":\"encoder\",\"hide\":[[1,3]],\"heads\":[1],\"rows\":[-1,[2,4]]},"
    "{\"kind\":\"cross\",\"hide\":[[0,2],[4,5]],\"layers\":[5],\"rows\":[[1,3]]},"
    "{\"kind\":\"decoder\",\"hide\":[[0,1]],\"rows\":[1,-1],\"layers\":[2]}]",
    "[{\"kind\":\"cross\",\"weights\":\"uniform\",\"heads\":[0]},"
    "{\"kind\":\"cross\",\"weights\":\"first\",\"heads\":[1],\"layers\":[4]},"
    "{\"kind\":\"cross\",\"weights\":$2K,\"layers\":[5],\"rows\":[-1,0]},"
    "{\"kind\":\"decoder\",\"weights\":\"previous\",\"layers\":[3]},"
    "{\"kind\":\"encoder\",\"weights\":\"self\",\"layers\":[0]}]",
    "[{\"kind\":\"cross\",\"scale\":0,\"heads\":[1]},{\"kind\":\"cross\",\"at\":\"attention_"
    "output\","
    "\"add\":$W,\"times\":2,\"rows\":[1]},{\"kind\":\"decoder\",\"at\":\"feed_forward\",\"mean\":"
    "true},"
    "{\"kind\":\"encoder\",\"at\":\"feed_forward\",\"set\":$2W,\"rows\":[0,5],\"layers\":[1]},"
    "{\"kind\":\"decoder\",\"at\":\"attention_output\",\"scale\":0.5}]",
    "[{\"kind\":\"encoder\",\"at\":\"embeddings\",\"add\":$W,\"rows\":[0,-1]},"
    "{\"kind\":\"decoder\",\"at\":\"embeddings\",\"scale\":2},"
    "{\"kind\":\"encoder\",\"at\":\"hidden_states\",\"set\":$2W,\"rows\":[2,4],\"layers\":[1]},"
    "{\"kind\":\"decoder\",\"at\":\"hidden_states\",\"mean\":true,\"rows\":[3],\"layers\":[3]},"
    "{\"kind\":\"cross\",\"mean\":true,\"rows\":[2]},{\"kind\":\"encoder\",\"add\":$H,\"layers\":["
    "0]}]",
};

TEST(bart_edited)
{
    static const char CONFIG[] = CONFIG_OF("bart", "");
    published_open(CONFIG, BART_TENSORS("model.") LOGITS_BIAS, LAYERS, "F32");
    const struct forward want = run(&BART_FAMILY, IDS, TOKENS, TARGET_IDS, TARGETS);
    serve("bart", CONFIG);
    /* No norm stands between the last block and the table. */
    reading_client_expect_lens_at(
        "bart", IDS_FIELD TARGETS_FIELD, LAYERS,
        forward_add_row(forward_product(want.layers[LAYERS + 1].hidden_states,
                                        published_tensor("model.shared.weight", 0)),
                        published_tensor("final_logits_bias", 0)));
    reading_client_expect_lens_at("bart", IDS_FIELD TARGETS_FIELD, LAYERS + 1, want.logits);
    reading_client_expect_contributions("bart", IDS_FIELD TARGETS_FIELD, NULL, &want, 0, pass_bart);
    for (size_t i = 0; i < sizeof EDITS / sizeof EDITS[0]; i++)
        edited_client_expect_one("bart", IDS_FIELD TARGETS_FIELD, EDITS[i], &want, 2 * LAYERS,
                                 pass_bart);
    leave();
}

/* A BartModel's names have no "model." before them. Without decoder_tokens the decoder sees its
 * start token alone. */
TEST(bart_from_its_start)
{
    static const char CONFIG[] =
        CONFIG_OF("bart", ",\"scale_embedding\":true,\"activation_function\":\"relu\"");
    const struct seq2seq family = { .begin = "",
                                    .activation = "relu",
                                    .embedding_scale = sqrt(WIDTH),
                                    .positions = learned_positions,
                                    .has_embedding_norm = true };
    published_open(CONFIG, BART_TENSORS(""), LAYERS, "F16");
    struct forward want = run(&family, IDS, TOKENS, TARGET_IDS, 1);
    serve("start", CONFIG);
    trace_client_expect(&client, "start", IDS_FIELD, &want);
    leave();
}

TEST(mbart)
{
    static const char CONFIG[] = CONFIG_OF("mbart", ",\"scale_embedding\":true");
    const struct seq2seq family = { .begin = "model.",
                                    .activation = "gelu",
                                    .embedding_scale = sqrt(WIDTH),
                                    .positions = learned_positions,
                                    .is_norm_first = true,
                                    .has_embedding_norm = true };
    published_open(CONFIG, BART_TENSORS("model.") BOTH_NORMS("model.", "layer_norm") LOGITS_BIAS,
                   LAYERS, "F32");
    const struct forward want = run(&family, IDS, TOKENS, TARGET_IDS, TARGETS);
    compare("mbart", CONFIG, IDS_FIELD TARGETS_FIELD, &want);
}

#define MARIAN_TENSORS                                                                             \
    FORWARD_TENSOR("model.shared.weight", 40x12)                                                   \
    BLOCKS("model.")

TEST(marian)
{
    static const char CONFIG[] = CONFIG_OF(
        "marian",
        ",\"scale_embedding\":true,\"activation_function\":\"swish\",\"pad_token_id\":39");
    const struct seq2seq family = { .begin = "model.",
                                    .activation = "silu",
                                    .embedding_scale = sqrt(WIDTH),
                                    .positions = sinusoidal_positions };
    published_open(CONFIG, MARIAN_TENSORS LOGITS_BIAS, LAYERS, "F32");
    const struct forward want = run(&family, IDS, TOKENS, TARGET_IDS, TARGETS);
    compare("marian", CONFIG, IDS_FIELD TARGETS_FIELD, &want);
}

#define APART_TENSORS                                                                              \
    FORWARD_TENSOR("model.encoder.embed_tokens.weight", 40x12)                                     \
    FORWARD_TENSOR("model.decoder.embed_tokens.weight", 40x12)                                     \
    BLOCKS("model.")

/* Encoder and decoder with tables of their own. */
TEST(marian_with_two_tables)
{
    static const char CONFIG[] =
        CONFIG_OF("marian", ",\"share_encoder_decoder_embeddings\":false,\"pad_token_id\":39");
    static const struct seq2seq family = { .begin = "model.",
                                           .activation = "gelu",
                                           .embedding_scale = 1,
                                           .positions = sinusoidal_positions };
    published_open(CONFIG, APART_TENSORS LOGITS_BIAS, LAYERS, "F32");
    const struct forward want = run(&family, IDS, TOKENS, TARGET_IDS, TARGETS);
    compare("apart", CONFIG, IDS_FIELD TARGETS_FIELD, &want);
}

TEST(pegasus)
{
    static const char CONFIG[] = CONFIG_OF(
        "pegasus", ",\"scale_embedding\":true,\"activation_function\":\"relu\",\"pad_token_id\":0");
    const struct seq2seq family = { .begin = "model.",
                                    .activation = "relu",
                                    .embedding_scale = sqrt(WIDTH),
                                    .positions = sinusoidal_positions,
                                    .is_norm_first = true };
    published_open(CONFIG, MARIAN_TENSORS BOTH_NORMS("model.", "layer_norm") LOGITS_BIAS, LAYERS,
                   "F32");
    const struct forward want = run(&family, IDS, TOKENS, TARGET_IDS, TARGETS);
    compare("pegasus", CONFIG, IDS_FIELD TARGETS_FIELD, &want);
}

/* scale_embedding and ReLU are the family's defaults. Token 1 is padding. */
TEST(m2m_100)
{
    static const char CONFIG[] = CONFIG_OF("m2m_100", "");
    static const int ids[TOKENS] = { 4, 17, 1, 5, 1, 2 };
    const struct seq2seq family = { .begin = "model.",
                                    .activation = "relu",
                                    .embedding_scale = sqrt(WIDTH),
                                    .positions = m2m_100_positions,
                                    .is_norm_first = true };
    published_open(CONFIG, MARIAN_TENSORS BOTH_NORMS("model.", "layer_norm"), LAYERS, "F32");
    const struct forward want = run(&family, ids, TOKENS, TARGET_IDS, TARGETS);
    compare("m2m", CONFIG, JSON("tokens":[4,17,1,5,1,2]) TARGETS_FIELD, &want);
}

/* ---------------------------------------------------------------- Whisper -- */

enum { MELS = 4, FRAMES = 12 };

#define WHISPER_ATTENTION(begin)                                                                   \
    FORWARD_LINEAR(begin "q_proj", 12, 12)                                                         \
    FORWARD_TENSOR(begin "k_proj.weight", 12x12)                                                   \
    FORWARD_LINEAR(begin "v_proj", 12, 12)                                                         \
    FORWARD_LINEAR(begin "out_proj", 12, 12)
#define WHISPER_TENSORS                                                                            \
    FORWARD_LINEAR("model.encoder.conv1", 12, 4x3)                                                 \
    FORWARD_LINEAR("model.encoder.conv2", 12, 12x3)                                                \
    FORWARD_TENSOR("model.encoder.embed_positions.weight", 6x12)                                   \
    WHISPER_ATTENTION("model.encoder.layers.#.self_attn.")                                         \
    FORWARD_NORM("model.encoder.layers.#.self_attn_layer_norm", 12)                                \
    FEED_FORWARD("model.encoder.layers.#.")                                                        \
    FORWARD_NORM("model.encoder.layer_norm", 12)                                                   \
    FORWARD_TABLE("model.decoder.embed_tokens.weight", 40x12)                                      \
    FORWARD_TENSOR("model.decoder.embed_positions.weight", 16x12)                                  \
    WHISPER_ATTENTION("model.decoder.layers.#.self_attn.")                                         \
    FORWARD_NORM("model.decoder.layers.#.self_attn_layer_norm", 12)                                \
    WHISPER_ATTENTION("model.decoder.layers.#.encoder_attn.")                                      \
    FORWARD_NORM("model.decoder.layers.#.encoder_attn_layer_norm", 12)                             \
    FEED_FORWARD("model.decoder.layers.#.")                                                        \
    FORWARD_NORM("model.decoder.layer_norm", 12)

/* torch.nn.Conv1d with kernel 3 and padding 1, of columns [frames][channels]. */
static struct rows conv1d(struct rows x, const char *name, int stride)
{
    char weight_name[96], bias_name[96];
    snprintf(weight_name, sizeof weight_name, "%s.weight", name);
    snprintf(bias_name, sizeof bias_name, "%s.bias", name);
    const struct rows weight = published_tensor(weight_name, 0);
    const struct rows bias = published_tensor(bias_name, 0);
    const struct rows y = published_rows((x.count - 1) / stride + 1, weight.count);
    for (int64_t i = 0; i < y.count; i++)
        for (int64_t o = 0; o < y.columns; o++) {
            double sum = bias.data[o];
            for (int64_t c = 0; c < x.columns; c++)
                for (int64_t k = 0; k < 3; k++) {
                    const int64_t at = i * stride + k - 1;
                    if (at >= 0 && at < x.count)
                        sum += x.data[at * x.columns + c]
                               * weight.data[o * weight.columns + 3 * c + k];
                }
            y.data[i * y.columns + o] = sum;
        }
    return y;
}

static struct rows transposed(struct rows x)
{
    const struct rows y = published_rows(x.columns, x.count);
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t c = 0; c < x.columns; c++)
            y.data[c * y.columns + i] = x.data[i * x.columns + c];
    return y;
}

static struct rows whisper_positions(const struct seq2seq *family, const char *stack,
                                     const int *ids, int count)
{
    struct names names = { .count = 0 };
    (void)ids;
    return forward_slice(
        published_tensor(join(&names, family->begin, stack, "embed_positions.weight"), 0), 0,
        count);
}

static char *features_field(struct rows features)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "\"features\":[");
    for (int64_t i = 0; i < features.count * features.columns; i++)
        request_text_add(&text, "%s%.9g", i % features.columns == 0 ? (i > 0 ? "],[" : "[") : ",",
                         features.data[i]);
    request_text_add(&text, "]]" TARGETS_FIELD);
    return text.data;
}

static const char WHISPER_CONFIG[] =
    CONFIG_OF("whisper", ",\"num_mel_bins\":4,\"max_source_positions\":6,\"max_target_"
                         "positions\":16,\"pad_token_id\":0");

/* The request's floats: what published_memory() makes has few digits. */
static struct rows whisper_features(void)
{
    return forward_slice(published_memory(FRAMES), 0, MELS);
}

static void pass_whisper(struct forward *forward)
{
    static const struct seq2seq family = { .begin = "model.",
                                           .activation = "gelu",
                                           .embedding_scale = 1,
                                           .positions = whisper_positions,
                                           .is_norm_first = true };
    struct forward want = { .layer_count = 0 };
    struct rows x = conv1d(transposed(whisper_features()), "model.encoder.conv1", 1);
    x = conv1d(forward_activation(x, "gelu"), "model.encoder.conv2", 2);
    x = forward_add(forward_activation(x, "gelu"),
                    published_tensor("model.encoder.embed_positions.weight", 0));
    want.encoder_hidden_states = run_stack(&want, &family, "encoder", x, FORWARD_NONE);
    x = embed(&family, "decoder", "model.decoder.embed_tokens.weight", TARGET_IDS, TARGETS);
    want.final_hidden_states = run_stack(&want, &family, "decoder", x, want.encoder_hidden_states);
    want.logits = forward_product(want.final_hidden_states,
                                  published_tensor("model.decoder.embed_tokens.weight", 0));
    *forward = want;
}

TEST(whisper)
{
    static struct forward want;
    published_open(WHISPER_CONFIG, WHISPER_TENSORS, LAYERS, "F32");
    pass_whisper(&want);
    char *fields = features_field(whisper_features());
    compare("whisper", WHISPER_CONFIG, fields, &want);
    free(fields);
}

/* Rows of the encoder are those behind the convolutions. */
TEST(whisper_edited)
{
    static struct forward want;
    published_open(WHISPER_CONFIG, WHISPER_TENSORS, LAYERS, "F32");
    pass_whisper(&want);
    char *fields = features_field(whisper_features());
    serve("whisper", WHISPER_CONFIG);
    for (size_t i = 0; i < sizeof EDITS / sizeof EDITS[0]; i++)
        edited_client_expect_one("whisper", fields, EDITS[i], &want, 2 * LAYERS, pass_whisper);
    free(fields);
    leave();
}

EACH_TEST(fixture_make_directory, fixture_clear);
