/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_stories.c - whole passes of checkpoints in Meta's and Mistral's own form, and of
 * stories260K, a real trained model, from its text to the story that it writes.
 *
 * The passes are written out of llama/model.py of meta-llama/llama, Transformer, and of
 * src/mistral_inference/transformer_layers.py of mistralai/mistral-inference at 2557e12d0e18,
 * TransformerBlock. What stories260K answers is compared with numbers of another implementation
 * (tests/conformance/README.md). */
#include "answer.h"
#include "fixture.h"
#include "forward_decoder.h"
#include "forward_edits.h"
#include "request_text.h"
#include "tensor_file.h"
#include "test.h"

/* ----------------------------------------------------- Meta's and Mistral's form -- */

#define LAYER "layers.#."

static void pass_meta_of(struct forward *forward, double theta, double eps, int64_t window,
                         const char *head)
{
    const struct decoder_attention attention = {
        .attention = { .heads = 4, .kv_heads = 2, .scale = 0.5, .causal = true, .window = window },
        .rotary_dim = 4,
        .theta = theta,
        .is_every_two = true,
    };
    struct rows x = forward_embed(published_tensor("tok_embeddings.weight", 0), decoder_tokens(),
                                  decoder_length);
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = forward_rms_norm(x, LAYER "attention_norm", layer, eps, 0);
        const struct decoder_projections projections = {
            published_linear(inputs, LAYER "attention.wq", layer),
            published_linear(inputs, LAYER "attention.wk", layer),
            published_linear(inputs, LAYER "attention.wv", layer),
        };
        x = forward_add(x, decoder_attend(forward, &attention, x, inputs, projections,
                                          LAYER "attention.wo", layer));
        const struct rows normed = forward_rms_norm(x, LAYER "ffn_norm", layer, eps, 0);
        const struct rows gate =
            forward_activation(published_linear(normed, LAYER "feed_forward.w1", layer), "silu");
        const struct rows up = published_linear(normed, LAYER "feed_forward.w3", layer);
        const struct rows down =
            published_linear(forward_multiply(gate, up), LAYER "feed_forward.w2", layer);
        x = forward_add(x, forward_edits_fed("self", layer, down));
    }
    forward->final_hidden_states = forward_rms_norm(x, "norm", 0, eps, 0);
    forward->logits = forward_product(forward->final_hidden_states, published_tensor(head, 0));
}

static void pass_meta(struct forward *forward)
{
    pass_meta_of(forward, 10000, 0.125, 0, "output.weight");
}

static void pass_mistral(struct forward *forward)
{
    pass_meta_of(forward, 500, 1e-5, 3, "output.weight");
}

#define META_TENSORS                                                                               \
    "tok_embeddings.weight 40x16, " LAYER "attention.wq.weight 16x16, " LAYER                      \
    "attention.wk.weight 8x16, " LAYER "attention.wv.weight 8x16, " LAYER                          \
    "attention.wo.weight 16x16, " LAYER "attention_norm.weight 16, " LAYER                         \
    "ffn_norm.weight 16, " LAYER "feed_forward.w1.weight 24x16, " LAYER                            \
    "feed_forward.w2.weight 16x24, " LAYER "feed_forward.w3.weight 24x16, norm.weight 16, "        \
    "output.weight 40x16"

TEST(meta)
{
    static const struct decoder_case META = {
        "meta",
        "{\"dim\":16,\"n_layers\":2,\"n_heads\":4,\"n_kv_heads\":2,\"vocab_size\":40,"
        "\"multiple_of\":4,\"norm_eps\":0.125}",
        META_TENSORS,
        2,
        pass_meta,
        NULL,
        0,
        false,
        false,
    };
    decoder_case_check(&META);
}

TEST(mistral)
{
    static const struct decoder_case MISTRAL = {
        "mistral",
        "{\"dim\":16,\"n_layers\":2,\"n_heads\":4,\"n_kv_heads\":2,\"head_dim\":4,"
        "\"hidden_dim\":24,\"vocab_size\":40,\"norm_eps\":1e-05,\"rope_theta\":500,"
        "\"sliding_window\":3}",
        META_TENSORS,
        2,
        pass_mistral,
        NULL,
        0,
        false,
        false,
    };
    decoder_case_check(&MISTRAL);
}

/* ----------------------------------------------------------------- stories260K -- */

enum { STORY = 257, WIDTH = 64, HEADS = 8, TRACED = 64, LAYERS = 5 };

#define STORIES "\"model\":\"stories260K\""

static int story[STORY];

static void read_story(void)
{
    char *text = (char *)tensor_read_bytes("tests/conformance/stories260K/greedy.json", NULL);
    cJSON *json = cJSON_Parse(text);
    const cJSON *ids = cJSON_GetObjectItem(json, "ids");
    assert_int_equal(cJSON_GetArraySize(ids), STORY);
    for (int i = 0; i < STORY; i++)
        story[i] = cJSON_GetArrayItem(ids, i)->valueint;
    cJSON_Delete(json);
    free(text);
}

struct protobuf {
    unsigned char bytes[1 << 15];
    size_t used;
};

static void add_byte(struct protobuf *file, int byte)
{
    assert_true(byte < 256 && file->used < sizeof file->bytes);
    file->bytes[file->used++] = (unsigned char)byte;
}

static void add_number(struct protobuf *file, int field, int number)
{
    const int tag = field << 3;
    assert_true(number < 128);
    if (tag >= 128)
        add_byte(file, (tag & 127) | 128);
    add_byte(file, tag >= 128 ? tag >> 7 : tag);
    add_byte(file, number);
}

static void add_message(struct protobuf *file, int field, const void *bytes, size_t size)
{
    assert_true(size < 128);
    add_byte(file, field << 3 | 2);
    add_byte(file, (int)size);
    for (size_t i = 0; i < size; i++)
        add_byte(file, ((const unsigned char *)bytes)[i]);
}

/* A SentencePiece: its text, its score, and its type: 2 unknown, 3 control, 6 a byte, 1 any other.
 */
static void add_piece(struct protobuf *file, int id, const char *text)
{
    struct protobuf piece = { .used = 0 };
    const float score = id < 259 ? 0.0F : 259.0F - (float)id;
    add_message(&piece, 1, text, strlen(text));
    add_byte(&piece, 2 << 3 | 5);
    for (size_t i = 0; i < sizeof score; i++)
        add_byte(&piece, ((const unsigned char *)&score)[i]);
    add_number(&piece, 3, id == 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1);
    add_message(file, 1, piece.bytes, piece.used);
}

/* tokenizer.model as SentencePiece writes it for a BPE with byte_fallback, without changes to the
 * text but a space before it. Of the pieces of text the earlier has the higher score. */
static void write_sentencepiece(const char *path)
{
    static struct protobuf file;
    struct protobuf trainer = { .used = 0 }, normalizer = { .used = 0 };
    char *text = (char *)tensor_read_bytes("examples/models/stories260K/tokenizer.json", NULL);
    cJSON *json = cJSON_Parse(text);
    const cJSON *token = NULL;
    int id = 0;
    file.used = 0;
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(cJSON_GetObjectItem(json, "model"), "vocab")) {
        assert_int_equal(token->valueint, id);
        add_piece(&file, id++, token->string);
    }
    assert_int_equal(id, 512);
    add_number(&trainer, 3, 2);
    add_number(&trainer, 35, 1);
    add_message(&file, 2, trainer.bytes, trainer.used);
    add_message(&normalizer, 1, "identity", 8);
    add_number(&normalizer, 3, 1);
    add_number(&normalizer, 4, 0);
    add_number(&normalizer, 5, 1);
    add_message(&file, 3, normalizer.bytes, normalizer.used);
    daemon_directory_write(directory, path, (const char *)file.bytes, file.used);
    cJSON_Delete(json);
    free(text);
}

static void copy_to(const char *path, const char *from)
{
    size_t size;
    unsigned char *bytes = tensor_read_bytes(from, &size);
    daemon_directory_write(directory, path, (const char *)bytes, size);
    free(bytes);
}

/* The same model with the vocabulary in the older form. */
static void serve_sentencepiece(void)
{
    /* LlamaTokenizer puts <s> before a text. */
    static const char TOKENIZER_CONFIG[] = JSON({"tokenizer_class":"LlamaTokenizer"});
    copy_to("stories260K/config.json", "examples/models/stories260K/config.json");
    copy_to("stories260K/model.safetensors", "examples/models/stories260K/model.safetensors");
    write_sentencepiece("stories260K/tokenizer.model");
    daemon_directory_write(directory, "stories260K/tokenizer_config.json", TOKENIZER_CONFIG,
                           sizeof TOKENIZER_CONFIG - 1);
    read_story();
    fixture_serve("--models", directory);
}

static void serve_stories(void)
{
    read_story();
    fixture_serve("--models", "examples/models");
}

/* The request's tokens: count tokens of the story from first on. */
static void add_tokens(struct request_text *body, int first, int count)
{
    request_text_add(body, "{" STORIES ",\"tokens\":");
    for (int i = 0; i < count; i++)
        request_text_add(body, "%c%d", i > 0 ? ',' : '[', story[first + i]);
    request_text_add(body, "]");
}

static void expect_tensor(const cJSON *layer, const char *name, const struct tensor_file *file,
                          const char *published, int rank, const int64_t *shape)
{
    const struct tensor tensor = tensor_file_get(file, published);
    float *want = tensor_floats(&tensor);
    double *got = answer_numbers(layer, name, rank, shape);
    for (int64_t i = 0; i < tensor.count; i++)
        if (!(fabs(got[i] - (double)want[i]) <= 1e-5 * (1 + fabs((double)want[i]))))
            fail_msg("%s[%d] is %.9g, not %.9g", name, (int)i, got[i], (double)want[i]);
    free(got), free(want);
}

/* What enters the projections of three layers, their weights and what leaves them. */
TEST(published_layers)
{
    static const int64_t ROWS[] = { TRACED, WIDTH }, MAPS[] = { HEADS, TRACED, TRACED };
    struct request_text body = { .data = NULL };
    serve_stories();
    add_tokens(&body, 0, TRACED);
    request_text_add(&body, ",\"outputs\":[\"weights\",\"inputs\",\"attention_output\"]}");
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    const cJSON *layers = cJSON_GetObjectItem(answer, "layers");
    assert_int_equal(cJSON_GetArraySize(layers), LAYERS);
    for (int layer = 0; layer < LAYERS; layer += 2) {
        char path[128];
        struct tensor_file file;
        const cJSON *traced = cJSON_GetArrayItem(layers, layer);
        snprintf(path, sizeof path, "tests/conformance/stories260K/layer%d.safetensors", layer);
        tensor_file_open(&file, path);
        expect_tensor(traced, "inputs", &file, "x", 2, ROWS);
        expect_tensor(traced, "weights", &file, "weights", 3, MAPS);
        expect_tensor(traced, "attention_output", &file, "out", 2, ROWS);
        tensor_file_close(&file);
    }
    cJSON_Delete(answer);
    free(body.data);
    fixture_stop(NULL);
}

static int first_prediction(const cJSON *prediction)
{
    const cJSON *tokens = cJSON_GetObjectItem(prediction, "tokens");
    assert_int_equal(cJSON_GetArraySize(tokens), 1);
    return cJSON_GetObjectItem(cJSON_GetArrayItem(tokens, 0), "id")->valueint;
}

/* The most probable token after each token of the story is the token that follows. */
TEST(greedy_story)
{
    struct request_text body = { .data = NULL };
    serve_stories();
    add_tokens(&body, 0, STORY);
    request_text_add(&body, ",\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":1,"
                            "\"positions\":");
    for (int i = 0; i < STORY - 1; i++)
        request_text_add(&body, "%c%d", i > 0 ? ',' : '[', i);
    request_text_add(&body, "]}");
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    const cJSON *prediction = cJSON_GetObjectItem(answer, "predictions")->child;
    for (int i = 0; i < STORY - 1; i++, prediction = prediction->next)
        assert_int_equal(first_prediction(prediction), story[i + 1]);
    assert_null(prediction);
    cJSON_Delete(answer);
    free(body.data);
    fixture_stop(NULL);
}

/* The tokens of an answer must be the first count of the story. */
static void expect_story(const cJSON *answer, int count)
{
    const cJSON *tokens = cJSON_GetObjectItem(answer, "tokens");
    assert_int_equal(cJSON_GetArraySize(tokens), count);
    for (int i = 0; i < count; i++)
        assert_int_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(tokens, i), "id")->valueint,
                         story[i]);
}

/* From text alone: its tokens, and the story that comes after them, one token at a time. Then the
 * whole story's text gives the story's tokens. */
static void check_text(void)
{
    enum { PROMPT = 5, WRITTEN = 24 };
    cJSON *answer =
        answer_post(&client, "/v1/tokenize", "{" STORIES ",\"text\":\"Once upon a time\"}");
    expect_story(answer, PROMPT);
    cJSON_Delete(answer);
    answer = answer_post(&client, "/v1/trace",
                         "{" STORIES ",\"text\":\"Once upon a time\",\"top_k_tokens\":1,"
                         "\"outputs\":[\"predictions\"]}");
    expect_story(answer, PROMPT);
    for (int length = PROMPT; length < WRITTEN; length++) {
        struct request_text body = { .data = NULL };
        const cJSON *predictions = cJSON_GetObjectItem(answer, "predictions");
        assert_int_equal(cJSON_GetArraySize(predictions), 1);
        assert_int_equal(first_prediction(predictions->child), story[length]);
        cJSON_Delete(answer);
        add_tokens(&body, 0, length + 1);
        request_text_add(&body, ",\"top_k_tokens\":1,\"outputs\":[\"predictions\"]}");
        answer = answer_post(&client, "/v1/trace", body.data);
        free(body.data);
    }
    cJSON_Delete(answer);

    struct request_text body = { .data = NULL };
    add_tokens(&body, 1, STORY - 1);
    request_text_add(&body, "}");
    answer = answer_post(&client, "/v1/detokenize", body.data);
    free(body.data);
    cJSON *request = cJSON_CreateObject();
    cJSON_AddStringToObject(request, "model", "stories260K");
    cJSON_AddStringToObject(request, "text", cJSON_GetObjectItem(answer, "text")->valuestring);
    char *text = cJSON_PrintUnformatted(request);
    cJSON_Delete(answer);
    answer = answer_post(&client, "/v1/tokenize", text);
    expect_story(answer, STORY);
    free(text);
    cJSON_Delete(request);
    cJSON_Delete(answer);
    fixture_stop(NULL);
}

TEST(text)
{
    serve_stories();
    check_text();
}

/* The only model that is not built in is that of requests that name none. */
TEST(only_model)
{
    static const struct {
        const char *path, *body;
    } CALLS[] = {
        { "/v1/trace", "{\"text\":\"One day\",\"layers\":[]}" },
        { "/v1/trace", "{\"model\":null,\"text\":\"One day\",\"layers\":[]}" },
        { "/v1/tokenize", "{\"text\":\"One day\"}" },
        { "/v1/detokenize", "{\"tokens\":[1,403]}" },
    };
    serve_stories();
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
        cJSON *answer = answer_post(&client, CALLS[i].path, CALLS[i].body);
        answer_expect(answer, "model", "\"stories260K\"", 0);
        cJSON_Delete(answer);
    }
    fixture_stop(NULL);
}

TEST(sentencepiece)
{
    serve_sentencepiece();
    check_text();
}

ALL_TESTS(fixture_make_directory, fixture_clear);
