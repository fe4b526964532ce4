/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_speech.c - traces of wav2vec 2.0, HuBERT and WavLM, from samples on, beside their
 * source in double; their heads over letters and classes.
 *
 * "The source" is Hugging Face transformers, models/wav2vec2/modeling_wav2vec2.py and
 * feature_extraction_wav2vec2.py, models/hubert/modeling_hubert.py, models/wavlm/modeling_wavlm.py.
 */
#include "answer.h"
#include "classes_case.h"
#include "edited_client.h"
#include "fixture.h"
#include "forward_block.h"
#include "published_client.h"
#include "request_text.h"
#include "tensor_body.h"
#include "test.h"
#include "trace_client.h"

/* 490 samples are 40 rows: three pieces of the convolutions, of which the last is short. */
enum { LAYERS = 2, HEADS = 2, HEAD_DIM = 6, WIDTH = 12, SAMPLES = 490, ROWS = 40, GROUPS = 3 };
enum { CONVOLUTIONS = 3 };

static const int COLUMNS[CONVOLUTIONS] = { 6, 8, 8 }, KERNELS[CONVOLUTIONS] = { 5, 3, 2 },
                 STRIDES[CONVOLUTIONS] = { 3, 2, 2 };

#define CONFIG(type, more)                                                                         \
    "{\"model_type\":\"" type "\",\"hidden_size\":12,\"num_attention_heads\":2,"                   \
    "\"num_hidden_layers\":2,\"intermediate_size\":20,\"conv_dim\":[6,8,8],"                       \
    "\"conv_kernel\":[5,3,2],\"conv_stride\":[3,2,2],\"num_conv_pos_embedding_groups\":3" more "}"
#define STABLE  ",\"feat_extract_norm\":\"layer\",\"conv_bias\":true,\"do_stable_layer_norm\":true"
#define BUCKETS ",\"num_conv_pos_embeddings\":4,\"num_buckets\":12,\"max_bucket_distance\":20"
#define LABELS  ",\"id2label\":{\"0\":\"no\",\"1\":\"maybe\",\"2\":\"yes\"}"

#define CONV0(begin) FORWARD_TENSOR(begin "feature_extractor.conv_layers.0.conv.weight", 6x1x5)
#define CONV1(begin) FORWARD_TENSOR(begin "feature_extractor.conv_layers.1.conv.weight", 8x6x3)
#define CONV2(begin) FORWARD_TENSOR(begin "feature_extractor.conv_layers.2.conv.weight", 8x8x2)
#define GROUP_NORM(begin)                                                                          \
    CONV0(begin)                                                                                   \
    CONV1(begin) CONV2(begin) FORWARD_NORM(begin "feature_extractor.conv_layers.0.layer_norm", 6)
#define LAYER_NORMS(begin)                                                                         \
    GROUP_NORM(begin)                                                                              \
    FORWARD_TENSOR(begin "feature_extractor.conv_layers.0.conv.bias", 6)                           \
    FORWARD_TENSOR(begin "feature_extractor.conv_layers.1.conv.bias", 8)                           \
    FORWARD_TENSOR(begin "feature_extractor.conv_layers.2.conv.bias", 8)                           \
    FORWARD_NORM(begin "feature_extractor.conv_layers.1.layer_norm", 8)                            \
    FORWARD_NORM(begin "feature_extractor.conv_layers.2.layer_norm", 8)
#define PROJECTION(begin)                                                                          \
    FORWARD_NORM(begin "feature_projection.layer_norm", 8)                                         \
    FORWARD_LINEAR(begin "feature_projection.projection", 12, 8)
#define POSITIONAL(begin, kernel, lengths, directions)                                             \
    FORWARD_TENSOR(begin "encoder.pos_conv_embed.conv." lengths, 1x1x##kernel)                     \
    FORWARD_TENSOR(begin "encoder.pos_conv_embed.conv." directions, 12x4x##kernel)                 \
    FORWARD_TENSOR(begin "encoder.pos_conv_embed.conv.bias", 12)
#define BLOCK(begin)                                                                               \
    FORWARD_LINEAR(begin "attention.q_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "attention.k_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "attention.v_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "attention.out_proj", 12, 12)                                             \
    FORWARD_TENSOR(begin "layer_norm.weight", 12)                                                  \
    FORWARD_TENSOR(begin "layer_norm.bias", 12)                                                    \
    FORWARD_NORM(begin "final_layer_norm", 12)                                                     \
    FORWARD_LINEAR(begin "feed_forward.intermediate_dense", 20, 12)                                \
    FORWARD_LINEAR(begin "feed_forward.output_dense", 12, 20)
#define ENCODER(begin) FORWARD_NORM(begin "encoder.layer_norm", 12) BLOCK(begin "encoder.layers.#.")
#define GATES(begin)                                                                               \
    FORWARD_TABLE(begin "encoder.layers.0.attention.rel_attn_embed.weight", 12x2)                  \
    FORWARD_TENSOR(begin "encoder.layers.#.attention.gru_rel_pos_const", 1x2x1x1)                  \
    FORWARD_LINEAR(begin "encoder.layers.#.attention.gru_rel_pos_linear", 8, 6)

/* -------------------------------------------------------------------- samples -- */

static float sample_at(int i)
{
    return (float)(0.1 + 0.3 * sin(i * 0.7) * cos(i * 0.013) + i % 31 * 0.01);
}

static char *samples_field(int count)
{
    struct request_text text = { .data = NULL };
    for (int i = 0; i < count; i++)
        request_text_add(&text, "%s%.9g", i > 0 ? "," : "\"sound\":[", (double)sample_at(i));
    request_text_add(&text, "]");
    return text.data;
}

/* Wav2Vec2FeatureExtractor. */
static struct rows read_samples(bool normalizes)
{
    const struct rows x = published_rows(SAMPLES, 1);
    double mean = 0, variance = 0;
    for (int i = 0; i < SAMPLES; i++)
        mean += (double)sample_at(i) / SAMPLES;
    for (int i = 0; i < SAMPLES; i++)
        variance += pow((double)sample_at(i) - mean, 2) / SAMPLES;
    for (int i = 0; i < SAMPLES; i++)
        x.data[i] = normalizes ? ((double)sample_at(i) - mean) / sqrt(variance + 1e-7)
                               : (double)sample_at(i);
    return x;
}

/* --------------------------------------------------------------------- source -- */

struct source {
    const char *begin;
    bool is_stable, is_group, has_gate, is_raw;
    int kernel; /* of the positional convolution */
    const char *lengths, *directions;
};

static const char *named(const struct source *of, const char *name)
{
    static char names[4][160];
    static int next;
    char *to = names[next++ % 4];
    snprintf(to, sizeof names[0], "%s%s", of->begin, name);
    return to;
}

/* torch.nn.Conv1d: x is [time][columns], weight [out][columns of a group][kernel]. */
static struct rows convolve(struct rows x, const double *weight, const double *bias, int out,
                            int kernel, int stride, int padding, int groups)
{
    const int64_t count = (x.count + 2 * padding - kernel) / stride + 1;
    const int64_t columns = x.columns / groups;
    const struct rows y = published_rows(count, out);
    for (int64_t t = 0; t < count; t++)
        for (int o = 0; o < out; o++) {
            const int64_t first = o / (out / groups) * columns;
            double sum = bias ? bias[o] : 0;
            for (int64_t c = 0; c < columns; c++)
                for (int k = 0; k < kernel; k++) {
                    const int64_t at = t * stride + k - padding;
                    if (at >= 0 && at < x.count)
                        sum += weight[(o * columns + c) * kernel + k]
                               * x.data[at * x.columns + first + c];
                }
            y.data[t * out + o] = sum;
        }
    return y;
}

/* torch.nn.GroupNorm of as many groups as columns: over time. */
static void group_norm(struct rows x, const double *weight, const double *bias)
{
    for (int64_t c = 0; c < x.columns; c++) {
        double mean = 0, variance = 0;
        for (int64_t t = 0; t < x.count; t++)
            mean += x.data[t * x.columns + c] / (double)x.count;
        for (int64_t t = 0; t < x.count; t++)
            variance += pow(x.data[t * x.columns + c] - mean, 2) / (double)x.count;
        for (int64_t t = 0; t < x.count; t++)
            x.data[t * x.columns + c] =
                (x.data[t * x.columns + c] - mean) / sqrt(variance + 1e-5) * weight[c] + bias[c];
    }
}

/* Wav2Vec2FeatureEncoder. */
static struct rows encode(const struct source *of, struct rows x)
{
    char name[4][96];
    for (int i = 0; i < CONVOLUTIONS; i++) {
        for (int n = 0; n < 4; n++)
            snprintf(name[n], sizeof name[n], "%sfeature_extractor.conv_layers.%d.%s", of->begin, i,
                     (const char *[]){ "conv.weight", "conv.bias", "layer_norm.weight",
                                       "layer_norm.bias" }[n]);
        x = convolve(x, published_tensor(name[0], 0).data,
                     of->is_group ? NULL : published_tensor(name[1], 0).data, COLUMNS[i],
                     KERNELS[i], STRIDES[i], 0, 1);
        if (of->is_group && i == 0)
            group_norm(x, published_tensor(name[2], 0).data, published_tensor(name[3], 0).data);
        if (!of->is_group)
            published_layer_norm(x, 0, x.columns, published_tensor(name[2], 0).data,
                                 published_tensor(name[3], 0).data, 1e-5);
        x = forward_activation(x, "gelu");
    }
    return x;
}

/* Wav2Vec2PositionalConvEmbedding, under torch.nn.utils.weight_norm over dim 2. */
static struct rows positions(const struct source *of, struct rows x)
{
    const int columns = WIDTH / GROUPS, kernel = of->kernel;
    const double *lengths = published_tensor(named(of, of->lengths), 0).data;
    const double *directions = published_tensor(named(of, of->directions), 0).data;
    double *weight = published_rows((int64_t)WIDTH * columns, kernel).data;
    for (int k = 0; k < kernel; k++) {
        double sum = 0;
        for (int i = 0; i < WIDTH * columns; i++)
            sum += pow(directions[i * kernel + k], 2);
        for (int i = 0; i < WIDTH * columns; i++)
            weight[i * kernel + k] = directions[i * kernel + k] * lengths[k] / sqrt(sum);
    }
    struct rows y =
        convolve(x, weight, published_tensor(named(of, "encoder.pos_conv_embed.conv.bias"), 0).data,
                 WIDTH, kernel, 1, kernel / 2, GROUPS);
    y.count -= kernel % 2 == 0; /* Wav2Vec2SamePadLayer */
    return forward_activation(y, "gelu");
}

/* Of the layer that is computed now, for gated_bias(): WavLMAttention.forward(). */
static struct {
    const struct source *of;
    struct rows inputs;
    int layer;
} gated;

static void see_inputs(struct rows inputs, int layer)
{
    gated.inputs = inputs;
    gated.layer = layer;
}

static double gated_bias(int64_t head, int64_t query, int64_t key)
{
    const char *const begin = "encoder.layers.#.attention.";
    char name[3][160];
    double sums[2] = { 0, 0 };
    for (int i = 0; i < 3; i++)
        snprintf(name[i], sizeof name[i], "%s%s%s", gated.of->begin, begin,
                 (const char *[]){ "gru_rel_pos_linear.weight", "gru_rel_pos_linear.bias",
                                   "gru_rel_pos_const" }[i]);
    const double *weight = published_tensor(name[0], gated.layer).data;
    const double *bias = published_tensor(name[1], gated.layer).data;
    for (int row = 0; row < 8; row++) {
        sums[row / 4] += bias[row];
        for (int c = 0; c < HEAD_DIM; c++)
            sums[row / 4] +=
                weight[row * HEAD_DIM + c] * gated.inputs.data[query * WIDTH + head * HEAD_DIM + c];
    }
    const double a = 1 / (1 + exp(-sums[0])), b = 1 / (1 + exp(-sums[1]));
    const double gate = a * (b * published_tensor(name[2], gated.layer).data[head] - 1) + 2;
    const struct rows table =
        published_tensor(named(gated.of, "encoder.layers.0.attention.rel_attn_embed.weight"), 0);
    return gate * table.data[published_t5_bucket(key - query, true, 12, 20) * HEADS + head];
}

static struct forward_block block_of(const struct source *of)
{
    static char names[9][160];
    static const char *const PARTS[9] = {
        "attention.q_proj",          "attention.k_proj", "attention.v_proj",
        "attention.out_proj",        "layer_norm",       "feed_forward.intermediate_dense",
        "feed_forward.output_dense", "final_layer_norm",
    };
    for (int i = 0; i < 8; i++)
        snprintf(names[i], sizeof names[i], "%sencoder.layers.#.%s", of->begin, PARTS[i]);
    return (struct forward_block){ .self = { .kind = "self",
                                             .q = names[0],
                                             .k = names[1],
                                             .v = names[2],
                                             .output = names[3],
                                             .norm = names[4],
                                             .see = of->has_gate ? see_inputs : NULL,
                                             .of = { .heads = HEADS,
                                                     .scale = 1 / sqrt(HEAD_DIM),
                                                     .bias = of->has_gate ? gated_bias : NULL } },
                                   .up = names[5],
                                   .down = names[6],
                                   .norm = names[7],
                                   .activation = "gelu",
                                   .is_norm_first = of->is_stable,
                                   .eps = 1e-5 };
}

/* Wav2Vec2Model; states, where it is not NULL, gets all hidden states. */
static struct forward run(const struct source *of, struct rows *states)
{
    const struct forward_block block = block_of(of);
    struct forward want = { .layer_count = 0 };
    gated.of = of;
    struct rows x = encode(of, read_samples(!of->is_raw));
    x = forward_layer_norm(x, named(of, "feature_projection.layer_norm"), 0, 1e-5);
    x = published_linear(x, named(of, "feature_projection.projection"), 0);
    x = forward_add(x, positions(of, x));
    if (!of->is_stable)
        x = forward_layer_norm(x, named(of, "encoder.layer_norm"), 0, 1e-5);
    for (int layer = 0; layer < LAYERS; layer++) {
        if (states)
            states[layer] = x;
        x = forward_block_run(&want, &block, x, FORWARD_NONE, layer);
    }
    want.final_hidden_states =
        of->is_stable ? forward_layer_norm(x, named(of, "encoder.layer_norm"), 0, 1e-5) : x;
    assert_int_equal(want.final_hidden_states.count, ROWS);
    if (states)
        states[LAYERS] = want.final_hidden_states;
    return want;
}

/* -------------------------------------------------------------------- families -- */

#define OLD                                                                                        \
    .lengths = "encoder.pos_conv_embed.conv.weight_g",                                             \
    .directions = "encoder.pos_conv_embed.conv.weight_v"
#define NEW                                                                                        \
    .lengths = "encoder.pos_conv_embed.conv.parametrizations.weight.original0",                    \
    .directions = "encoder.pos_conv_embed.conv.parametrizations.weight.original1"

/* Writes a file beside the model. */
static void write_beside(const char *name, const char *file, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", fixture_path(name), file);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_true(fputs(text, stream) >= 0 && fclose(stream) == 0);
}

static void save(const char *name, const char *config, const char *preprocessor)
{
    published_save(fixture_path(name), config);
    if (preprocessor)
        write_beside(name, "preprocessor_config.json", preprocessor);
}

static void expect(const char *name, const char *config, const char *tensors,
                   const char *preprocessor, const struct source *of)
{
    char *fields = samples_field(SAMPLES);
    published_open(config, tensors, LAYERS, "F32");
    const struct forward want = run(of, NULL);
    save(name, config, preprocessor);
    fixture_serve("--models", directory);
    trace_client_expect(&client, name, fields, &want);
    trace_client_expect_inputs(&client, name, "[\"sound\"]");
    fixture_stop(NULL);
    published_close();
    free(fields);
}

/* Wav2Vec2Encoder behind a group norm: wav2vec2-base. */
TEST(wav2vec2)
{
    static const struct source of = { .begin = "wav2vec2.", .is_group = true, .kernel = 4, OLD };
    expect("wav2vec2", CONFIG("wav2vec2", ",\"num_conv_pos_embeddings\":4"),
           GROUP_NORM("wav2vec2.") PROJECTION("wav2vec2.")
               POSITIONAL("wav2vec2.", 4, "weight_g", "weight_v") ENCODER("wav2vec2."),
           "{\"do_normalize\":true,\"sampling_rate\":16000}", &of);
}

/* Wav2Vec2EncoderStableLayerNorm behind layer norms: hubert-large. */
static const struct source HUBERT = { .begin = "hubert.", .is_stable = true, .kernel = 5, NEW };
#define HUBERT_TENSORS                                                                             \
    LAYER_NORMS("hubert.")                                                                         \
    PROJECTION("hubert.")                                                                          \
    POSITIONAL("hubert.", 5, "parametrizations.weight.original0",                                  \
               "parametrizations.weight.original1")                                                \
    ENCODER("hubert.")

TEST(hubert)
{
    expect("hubert", CONFIG("hubert", STABLE ",\"num_conv_pos_embeddings\":5"), HUBERT_TENSORS,
           NULL, &HUBERT);
}

#define WAVLM_TENSORS                                                                              \
    GROUP_NORM("") PROJECTION("") POSITIONAL("", 4, "weight_g", "weight_v") ENCODER("") GATES("")

static const struct source WAVLM = {
    .begin = "", .is_group = true, .has_gate = true, .is_raw = true, .kernel = 4, OLD
};

/* Samples as they are: wavlm-base. */
TEST(wavlm)
{
    expect("wavlm", CONFIG("wavlm", BUCKETS), WAVLM_TENSORS, "{\"do_normalize\":false}", &WAVLM);
}

TEST(wavlm_stable)
{
    static const struct source of = {
        .begin = "wavlm.", .is_stable = true, .has_gate = true, .kernel = 4, OLD
    };
    expect("stable", CONFIG("wavlm", STABLE BUCKETS),
           LAYER_NORMS("wavlm.") PROJECTION("wavlm.")
               POSITIONAL("wavlm.", 4, "weight_g", "weight_v") ENCODER("wavlm.") GATES("wavlm."),
           NULL, &of);
}

/* By the Open Inference Protocol samples come as the preprocessor left them. */
TEST(input_values)
{
    struct request_text body = { .data = NULL };
    published_open(CONFIG("hubert", STABLE ",\"num_conv_pos_embeddings\":5"), HUBERT_TENSORS,
                   LAYERS, "F32");
    const struct rows samples = read_samples(true), want = run(&HUBERT, NULL).final_hidden_states;
    save("hubert", CONFIG("hubert", STABLE ",\"num_conv_pos_embeddings\":5"), NULL);
    fixture_serve("--models", directory);
    request_text_add(&body,
                     "{\"inputs\":[{\"name\":\"input_values\",\"shape\":[1,%d],"
                     "\"datatype\":\"FP32\",\"data\":[",
                     SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        request_text_add(&body, "%s%.9g", i > 0 ? "," : "", samples.data[i]);
    request_text_add(&body, "]}],\"outputs\":[{\"name\":\"last_hidden_state\"}]}");
    cJSON *answer = answer_post(&client, "/v2/models/hubert/infer", body.data);
    const cJSON *output =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "outputs"), 0);
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(output, "data");
    assert_int_equal(cJSON_GetArraySize(number), ROWS * WIDTH);
    number = number->child;
    for (int i = 0; i < ROWS * WIDTH; i++, number = number->next)
        if (!(fabs(number->valuedouble - want.data[i]) <= 2e-5 * (1 + fabs(want.data[i]))))
            fail_msg("number %d is %.9g, not %.9g", i, number->valuedouble, want.data[i]);
    cJSON_Delete(answer);
    free(body.data);
    fixture_stop(NULL);
    published_close();
}

/* An edit changes what follows it, as in the source. */
static void pass_wavlm(struct forward *forward)
{
    *forward = run(&WAVLM, NULL);
}

TEST(wavlm_edited)
{
    char *fields = samples_field(SAMPLES);
    struct forward want;
    published_open(CONFIG("wavlm", BUCKETS), WAVLM_TENSORS, LAYERS, "F32");
    save("wavlm", CONFIG("wavlm", BUCKETS), "{\"do_normalize\":false}");
    pass_wavlm(&want);
    fixture_serve("--models", directory);
    edited_client_expect("wavlm", fields, &want, pass_wavlm);
    fixture_stop(NULL);
    published_close();
    free(fields);
}

/* ----------------------------------------------------------------------- heads -- */

#define BASE(more)                                                                                 \
    GROUP_NORM("wav2vec2.")                                                                        \
    PROJECTION("wav2vec2.")                                                                        \
    POSITIONAL("wav2vec2.", 4, "weight_g", "weight_v") ENCODER("wav2vec2.") more
#define HEAD_CONFIG(architecture, more)                                                            \
    CONFIG("wav2vec2",                                                                             \
           ",\"num_conv_pos_embeddings\":4,\"architectures\":[\"" architecture "\"]" more)

#define STABLE_CONFIG(architecture, more)                                                          \
    CONFIG("hubert",                                                                               \
           STABLE ",\"num_conv_pos_embeddings\":5,\"architectures\":[\"" architecture "\"]" more)

static const struct source OF_BASE = { .begin = "wav2vec2.", .is_group = true, .kernel = 4, OLD };

/* A model and its head; states are those of the pass. */
static void expect_head(const struct source *source, const char *config, const char *tensors,
                        const struct classes_case *of,
                        struct rows (*head)(const struct rows *states))
{
    char *fields = samples_field(SAMPLES);
    struct rows states[LAYERS + 1];
    published_open(config, tensors, LAYERS, "F32");
    run(source, states);
    save("head", config, NULL);
    fixture_serve("--models", directory);
    classes_case_expect("head", fields, of, head(states));
    fixture_stop(NULL);
    published_close();
    free(fields);
}

/* Where use_weighted_layer_sum is set: _HIDDEN_STATES_START_POSITION and what follows. */
static struct rows weighted_sum(const struct rows *states)
{
    const struct rows weights = published_tensor("layer_weights", 0);
    struct rows sum = forward_scale(states[0], 0);
    double total = 0;
    for (int i = 0; i <= LAYERS; i++)
        total += exp(weights.data[i]);
    for (int i = 0; i <= LAYERS; i++)
        sum = forward_add(sum, forward_scale(states[i], exp(weights.data[i]) / total));
    return sum;
}

static struct rows mean_of(struct rows x)
{
    const struct rows mean = published_rows(1, x.columns);
    for (int64_t i = 0; i < x.count * x.columns; i++)
        mean.data[i % x.columns] += x.data[i] / (double)x.count;
    return mean;
}

/* Wav2Vec2ForSequenceClassification. */
static struct rows classify(struct rows x)
{
    return published_linear(mean_of(published_linear(x, "projector", 0)), "classifier", 0);
}

static struct rows last_head(const struct rows *states)
{
    return classify(states[LAYERS]);
}

static struct rows sum_head(const struct rows *states)
{
    return classify(weighted_sum(states));
}

/* Wav2Vec2ForAudioFrameClassification. */
static struct rows frame_head(const struct rows *states)
{
    return published_linear(weighted_sum(states), "classifier", 0);
}

#define CLASSES FORWARD_LINEAR("projector", 5, 12) FORWARD_LINEAR("classifier", 3, 5)

TEST(classes)
{
    static const struct classes_case of = { false, "[\"no\",\"maybe\",\"yes\"]", "softmax" };
    static const struct classes_case of_rows = { true, "[\"no\",\"maybe\",\"yes\"]", "softmax" };
    expect_head(&OF_BASE, HEAD_CONFIG("Wav2Vec2ForSequenceClassification", LABELS), BASE(CLASSES),
                &of, last_head);
    expect_head(
        &OF_BASE,
        HEAD_CONFIG("Wav2Vec2ForSequenceClassification", LABELS ",\"use_weighted_layer_sum\":true"),
        BASE(CLASSES FORWARD_TABLE("layer_weights", 3)), &of, sum_head);
    expect_head(&OF_BASE,
                HEAD_CONFIG("Wav2Vec2ForAudioFrameClassification",
                            LABELS ",\"use_weighted_layer_sum\":true"),
                BASE(FORWARD_LINEAR("classifier", 3, 12) FORWARD_TABLE("layer_weights", 3)),
                &of_rows, frame_head);
}

/* Wav2Vec2ForCTC, without a vocabulary. */
static struct rows letters_head(const struct rows *states)
{
    return published_linear(states[LAYERS], "lm_head", 0);
}

#define LETTERS                                                                                    \
    "{\"<pad>\":0,\"<s>\":1,\"</s>\":2,\"<unk>\":3,\"|\":4,\"A\":5,\"B\":6,\"C\":7,\"'\":8}"
#define CTC_CONFIG STABLE_CONFIG("HubertForCTC", ",\"id2label\":{\"0\":\"x\"}")
#define CTC_TENSORS                                                                                \
    HUBERT_TENSORS FORWARD_TABLE("lm_head.weight", 9x12) FORWARD_TENSOR("lm_head.bias", 9)

TEST(letters_without_names)
{
    static const struct classes_case of = {
        true,
        "[\"LABEL_0\",\"LABEL_1\",\"LABEL_2\",\"LABEL_3\",\"LABEL_4\",\"LABEL_5\",\"LABEL_6\","
        "\"LABEL_7\",\"LABEL_8\"]",
        "softmax"
    };
    expect_head(&HUBERT, CTC_CONFIG, CTC_TENSORS, &of, letters_head);
}

/* Wav2Vec2CTCTokenizer.convert_tokens_to_string(): letters in a row are one, then the pad token is
 * none, then "|" is a space; spaces at both ends go. */
static void transcribe(struct rows logits, char *text)
{
    static const char *const TEXTS[] = { "", "<s>", "</s>", "<unk>", " ", "A", "B", "C", "'" };
    int last = -1;
    char all[ROWS * 6 + 1] = "";
    for (int64_t t = 0; t < logits.count; t++) {
        int best = 0;
        for (int k = 1; k < 9; k++)
            if (logits.data[t * 9 + k] > logits.data[t * 9 + best])
                best = k;
        if (best != last)
            strcat(all, TEXTS[best]);
        last = best;
    }
    const size_t first = strspn(all, " ");
    strcpy(text, all + first);
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--)
        text[n - 1] = '\0';
}

static void expect_letters(const char *fields, const char *transcript)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"letters\",\"layers\":[],\"outputs\":[\"logits\"],");
    request_text_add(&body, "%s}", fields);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    char *labels = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(answer, "labels"));
    print_message("transcript: %s\n", transcript);
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "transcript")), transcript);
    assert_string_equal(labels,
                        "[\"<pad>\",\"<s>\",\"</s>\",\"<unk>\",\"|\",\"A\",\"B\",\"C\",\"'\"]");
    free(labels);
    cJSON_Delete(answer);
    struct http_response file = tensor_body_post_json(&client, "/v1/trace", body.data);
    cJSON *header = tensor_body_header(&file);
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(header, "__metadata__");
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, "transcript")), transcript);
    cJSON_Delete(header);
    http_response_free(&file);
    free(body.data);
}

TEST(letters)
{
    char *fields = samples_field(SAMPLES), want[ROWS * 6 + 1];
    struct rows states[LAYERS + 1];
    published_open(CTC_CONFIG, CTC_TENSORS, LAYERS, "F32");
    run(&HUBERT, states);
    transcribe(letters_head(states), want);
    save("letters", CTC_CONFIG, NULL);
    write_beside("letters", "vocab.json", LETTERS);
    write_beside("letters", "tokenizer_config.json",
                 "{\"do_lower_case\":false,\"pad_token\":\"<pad>\",\"unk_token\":\"<unk>\"}");
    fixture_serve("--models", directory);
    expect_letters(fields, want);
    fixture_stop(NULL);
    published_close();
    free(fields);
}

/* ---------------------------------------------------------------------- faults -- */

static void expect_fault(const char *fields, const char *code, const char *pointer,
                         const char *words)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"speech\",%s}", fields);
    struct http_response response = http_client_post(&client, "/v1/trace", body.data);
    answer_expect_fault(&response, 400, code, pointer);
    if (!strstr(response.body, words))
        fail_msg("%s", response.body);
    http_response_free(&response);
    free(body.data);
}

TEST(refused)
{
    char *shortest = samples_field(17), *shorter = samples_field(16);
    struct request_text body = { .data = NULL };
    published_open(CONFIG("wav2vec2", ",\"num_conv_pos_embeddings\":4"), BASE(""), LAYERS, "F32");
    save("speech", CONFIG("wav2vec2", ",\"num_conv_pos_embeddings\":4"), NULL);
    fixture_serve("--models", directory);
    expect_fault(shorter, "length", "/sound",
                 "sound has 16 samples; model 'speech' takes 17 or more");
    expect_fault("\"sound\":[]", "length", "/sound", "takes 17 or more");
    expect_fault("\"features\":[[1,2],[3,4]]", "field", "/features",
                 "model 'speech' takes no features; expected sound");
    expect_fault("\"tokens\":[1,2]", "field", "/tokens", "expected sound");
    expect_fault("\"layers\":[0]", "field", "", "sound is missing");
    request_text_add(&body, "{\"model\":\"speech\",%s}", shortest);
    cJSON_Delete(answer_post(&client, "/v1/trace", body.data));
    fixture_stop(NULL);
    write_beside("speech", "preprocessor_config.json", "{\"sampling_rate\":8000}");
    fixture_serve("--models", directory);
    expect_fault(shortest, "option", "/sound", "its sampling_rate is 8000");
    fixture_stop(NULL);
    published_close();
    free(body.data);
    free(shortest);
    free(shorter);
}

static void expect_none(const char *config, const char *tensors, const char *words)
{
    char *fields = samples_field(SAMPLES);
    published_open(config, tensors, LAYERS, "F32");
    save("none", config, NULL);
    fixture_serve("--models", directory);
    trace_client_expect_none(&client, "none", fields, words);
    fixture_stop(NULL);
    published_close();
    free(fields);
}

#define HUBERT_LISTS(more)                                                                         \
    "{\"model_type\":\"hubert\",\"hidden_size\":12,\"num_attention_heads\":2,"                     \
    "\"num_hidden_layers\":2," more "}"

/* Models that attention alone is computed of. */
TEST(has_no_trace)
{
    expect_none(CONFIG("wav2vec2", ""), ENCODER("wav2vec2."),
                "no tensor 'wav2vec2.feature_extractor.conv_layers.0.conv.weight'");
    expect_none(CONFIG("wav2vec2", ",\"add_adapter\":true"), BASE(""), "sets add_adapter");
    expect_none(CONFIG("wav2vec2", ",\"feat_extract_norm\":\"rms\""), BASE(""),
                "feat_extract_norm is 'rms'; expected group or layer");
    expect_none(CONFIG("wav2vec2", ",\"num_conv_pos_embeddings\":2000"), BASE(""),
                "a positional convolution of 2000 rows");
    expect_none(HUBERT_LISTS("\"conv_dim\":[6,0],\"conv_stride\":[1,2]"), ENCODER("hubert."),
                "conv_dim is not a list of 1 to 16 integers from 1 to 16384");
    expect_none(HUBERT_LISTS("\"conv_dim\":[6,8],\"conv_stride\":[1,2]"), ENCODER("hubert."),
                "gives 2 convolutions (conv_dim), 7 kernels (conv_kernel) and 2 strides");
    expect_none(HUBERT_LISTS("\"conv_stride\":[64,64,64,64,64,64,64]"), ENCODER("hubert."),
                "make one row of more than 1048576 samples");
}

EACH_TEST(fixture_make_directory, fixture_clear);
