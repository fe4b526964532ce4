/* SPDX-License-Identifier: Apache-2.0 */
/* test_check_config.c - what --check-config says of a configuration and of each model, and that its
 * status says whether the daemon would start. The log of a daemon says the same of tokenizers. */
#include "answer.h"
#include "fixture.h"
#include "forward_bert.h"
#include "model_bytes.h"
#include "published.h"
#include "test.h"
#include "vector_case.h"

static void write_demo(const char *name)
{
    struct model_bytes file = model_bytes_demo(1, "");
    daemon_directory_write(directory, name, file.data, file.size);
    free(file.data);
}

/* --check-config of the directory ends with this status and these words. */
static void expect_config(int exit_code, const char *output, const char *errors, const char *flag)
{
    const char *const arguments[] = { "--check-config", "--models", directory, flag, NULL };
    struct daemon_result result = daemon_command(arguments, NULL);
    if (result.exit_code != exit_code || !strstr(result.output, output)
        || !strstr(result.errors, errors))
        fail_msg("ended with %d:\n%s%s", result.exit_code, result.output, result.errors);
    daemon_result_free(&result);
}

/* A configuration that would start, without one of its models, is good: 0, and the model is named.
 * With --models-strict it is not. */
TEST(failed)
{
    static const char BROKEN[] = "broken: UNAVAILABLE: ";
    write_demo("words.safetensors");
    expect_config(0, "\nwords: scaled_dot_product, 1 layer, 27 parameters, 27 of attention, ", "",
                  NULL);
    expect_config(0, "", "", "--models-strict");
    write_demo("a,b.safetensors");
    daemon_directory_write(directory, "broken.safetensors", "broken", 6);
    expect_config(0, BROKEN, "without what failed to load: a,b, broken\n", NULL);
    fixture_serve("--models", directory);
    fixture_stop(NULL);
    expect_config(1, BROKEN, "2 models failed to load (--models-strict): a,b, broken\n",
                  "--models-strict");
}

/* A model with the files of stories260K, and a tokenizer of its own. */
static void make_story(const char *name, const char *tokenizer)
{
    char command[600], file[100];
    snprintf(command, sizeof command, "cp -r examples/models/stories260K '%s/%s'", directory, name);
    assert_int_equal(system(command), 0);
    if (!tokenizer)
        return;
    snprintf(file, sizeof file, "%s/tokenizer.json", name);
    daemon_directory_write(directory, file, tokenizer, strlen(tokenizer));
}

#define WORD_LEVEL "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"w0\",\"vocab\":{"

/* Words with the ids 0 to 511, each of which has a row in the model, and an added token 512, which
 * has none, as published tokenizers have for pictures. */
static void make_added(void)
{
    char text[12000];
    int used = snprintf(text, sizeof text,
                        "{\"added_tokens\":[{\"id\":512,\"content\":\"<image>\",\"special\":true,"
                        "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                        "\"normalized\":false}]," WORD_LEVEL);
    for (int i = 0; i < 512; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s\"w%d\":%d", i > 0 ? "," : "",
                         i, i);
    snprintf(text + used, sizeof text - (size_t)used, "}}}");
    make_story("added", text);
}

#define NORM(name)                 name ".weight 16, " name ".bias 16, "
#define LINEARS(begin, q, k, v, o) PUBLISHED_LINEARS_BUT_KEY(begin, q, k, v, o, "16") ", "
#define VIT_TENSORS                                                                                \
    LINEARS("encoder.layer.#.attention.", "attention.query", "attention.key", "attention.value",   \
            "output.dense")                                                                        \
    "encoder.layer.#.attention.attention.key.bias 16, "                                            \
    "encoder.layer.#.intermediate.dense.weight 40x16, "                                            \
    "encoder.layer.#.intermediate.dense.bias 40, encoder.layer.#.output.dense.weight 16x40, "      \
    "encoder.layer.#.output.dense.bias 16, " NORM("encoder.layer.#.layernorm_before")              \
        NORM("encoder.layer.#.layernorm_after")                                                    \
            NORM("layernorm") "embeddings.patch_embeddings.projection.weight 16x2x3x3, "           \
                              "embeddings.patch_embeddings.projection.bias 16, "                   \
                              "embeddings.cls_token 1x1x16, "                                      \
                              "embeddings.position_embeddings 1x5x16"
#define WHISPER_PART(begin) LINEARS(begin, "q_proj", "k_proj", "v_proj", "out_proj")
#define WHISPER_REST(begin)                                                                        \
    NORM(begin "self_attn_layer_norm")                                                             \
    NORM(begin "final_layer_norm")                                                                 \
    begin "fc1.weight 40x16, " begin "fc1.bias 40, " begin "fc2.weight 16x40, " begin              \
          "fc2.bias 16, "
#define WHISPER_TENSORS                                                                            \
    WHISPER_PART("model.encoder.layers.#.self_attn.")                                              \
    WHISPER_PART("model.decoder.layers.#.self_attn.")                                              \
    WHISPER_PART("model.decoder.layers.#.encoder_attn.")                                           \
    WHISPER_REST("model.encoder.layers.#.")                                                        \
    WHISPER_REST("model.decoder.layers.#.")                                                        \
    NORM("model.decoder.layers.#.encoder_attn_layer_norm")                                         \
    NORM("model.encoder.layer_norm")                                                               \
    NORM("model.decoder.layer_norm")                                                               \
    "model.decoder.embed_tokens.weight 30x16, model.decoder.embed_positions.weight 9x16, "         \
    "model.encoder.embed_positions.weight 6x16, model.encoder.conv1.weight 16x4x3, "               \
    "model.encoder.conv1.bias 16, model.encoder.conv2.bias 16, "                                   \
    "model.encoder.conv2.weight 16x16x3"

/* Says of each model whether it takes text, a picture or sound, or why no trace of it is computed.
 */
TEST(inputs)
{
    static const struct {
        const char *name, *config, *tensors, *says;
    } CASES[] = {
        { "seeing",
          "{\"model_type\":\"vit\",\"hidden_size\":16,\"num_attention_heads\":2,"
          "\"num_hidden_layers\":1,\"image_size\":7,\"patch_size\":3,\"num_channels\":2}",
          VIT_TENSORS,
          "seeing: vit, 1 layer, 2920 parameters, 1088 of attention, F32, seeing\n"
          "    tokenizer: none\n"
          "    trace: takes pixels of a picture, embeddings\n" },
        { "hearing",
          "{\"model_type\":\"whisper\",\"d_model\":16,\"num_mel_bins\":4,"
          "\"max_source_positions\":6,\"max_target_positions\":9,\"encoder_layers\":1,"
          "\"decoder_layers\":1,\"encoder_attention_heads\":2,\"decoder_attention_heads\":2}",
          WHISPER_TENSORS,
          "    trace: takes features, sound, tokens of the decoder, embeddings\n" },
        { "turned",
          "{\"model_type\":\"vit\",\"hidden_size\":16,\"num_attention_heads\":2,"
          "\"num_hidden_layers\":1,\"image_size\":7,\"patch_size\":3,\"num_channels\":2,"
          "\"hidden_act\":\"odd\"}",
          VIT_TENSORS, "    trace: none: config.json's hidden_act is 'odd', an activation" },
    };
    for (int i = 0; i < 3; i++) {
        published_open(CASES[i].config, CASES[i].tensors, 1, "F32");
        published_save(fixture_path(CASES[i].name), CASES[i].config);
        published_close();
    }
    for (int i = 0; i < 3; i++)
        expect_config(0, CASES[i].says, "", NULL);
}

#define OF_CLASSES(architecture)                                                                   \
    "{\"model_type\":\"bert\",\"architectures\":[\"" architecture                                  \
    "\"],\"hidden_size\":12,\"num_attention_heads\":2,\"num_hidden_layers\":1,"                    \
    "\"intermediate_size\":20,\"vocab_size\":40,\"max_position_embeddings\":16}"
#define BERT_TENSORS                                                                               \
    BERT_EMBEDDINGS("bert.", 2, 12, FORWARD_NORM)                                                  \
    BERT_BLOCK("bert.encoder.layer.#.", 12, 20, FORWARD_NORM)

/* Says of a model with vectors or classes what they are, or why they are refused. */
TEST(heads)
{
    static const struct {
        const char *name, *architecture, *tensors, *modules, *says;
    } CASES[] = {
        { "pooled", "BertModel", BERT_TENSORS FORWARD_LINEAR("bert.pooler.dense", 12, 12), NULL,
          "    trace: takes tokens, embeddings\n    vectors: 12 numbers, as the checkpoint "
          "says\n" },
        { "modules", "BertModel", BERT_TENSORS,
          JSON([{"type":"a.Transformer"},{"type":"a.Pooling","path":"1_Pooling"}]),
                "    vectors: 12 numbers, as modules.json says\n" },
          { "odd", "BertModel", BERT_TENSORS,
            JSON([{"type":"a.Transformer"},{"type":"a.LSTM"}]),
                  "    vectors: refused: modules.json has a module 'a.LSTM', which is not computed "
                  "here\n" },
            { "named", "BertForTokenClassification",
              BERT_TENSORS FORWARD_LINEAR("classifier", 3, 12), NULL,
              "    trace: takes tokens, embeddings\n    classes: 3, of each token\n" },
            { "headless", "BertForSequenceClassification", BERT_TENSORS, NULL,
              "    classes: refused: the file has no pooler, which its head of classes reads\n" },
          };
    for (int i = 0; i < 5; i++) {
        char config[512];
        snprintf(config, sizeof config, OF_CLASSES("%s"), CASES[i].architecture);
        published_open(config, CASES[i].tensors, 1, "F32");
        published_save(fixture_path(CASES[i].name), config);
        published_close();
        if (!CASES[i].modules)
            continue;
        vector_write(fixture_path(CASES[i].name), "modules.json", CASES[i].modules);
        vector_write(fixture_path(CASES[i].name), "1_Pooling/config.json",
                     JSON({"word_embedding_dimension":12}));
    }
    for (int i = 0; i < 5; i++)
        expect_config(0, CASES[i].says, "", NULL);
}

/* The tokenizer of each model is named, and one that is refused, in the log too. */
TEST(tokenizers)
{
    static const char POINTER[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:4d7a\nsize 2233\n";
    static const char CHECK[] = "    tokenizer: ", REFUSED[] = "    tokenizer: refused: ";
    const struct {
        const char *name, *tokenizer, *says;
    } cases[] = {
        { "cut", "{\"model\":{", "tokenizer.json: " },
        { "pointer", POINTER, "a pointer of git-lfs" },
        { "other", "{" WORD_LEVEL "\"w0\":0,\"w1\":512}}}",
          "tokenizer.json has tokens with ids to 512, and the model has rows for 512 tokens: it is "
          "another model's tokenizer" },
    };
    make_story("own", NULL);
    make_added();
    for (int i = 0; i < 3; i++)
        make_story(cases[i].name, cases[i].tokenizer);
    const char *const arguments[] = { "--check-config", "--models", directory, NULL };
    struct daemon_result result = daemon_command(arguments, NULL);
    assert_int_equal(result.exit_code, 0);
    assert_non_null(strstr(result.output, "own: meta, 5 layers, 260032 parameters, 61440 of "
                                          "attention, F32, own\n    tokenizer: BPE, ids to 511, of "
                                          "tokenizer.json\n    trace: takes text, tokens, "
                                          "embeddings\n"));
    assert_non_null(strstr(result.output, "    tokenizer: WordLevel, ids to 512, of "));
    fixture_serve("--models", directory);
    for (int i = 0; i < 3; i++) {
        char *line = strstr(result.output, cases[i].name);
        assert_non_null(line);
        line = strstr(line, CHECK);
        assert_true(line && strncmp(line, REFUSED, strlen(REFUSED)) == 0);
        assert_non_null(strstr(line, cases[i].says));
        char *log = daemon_log_with(&server, cases[i].says);
        assert_non_null(strstr(log, "tokenizer refused"));
        free(log);
        char path[100];
        snprintf(path, sizeof path, "/v1/models/%s", cases[i].name);
        struct http_response response = http_client_get(&client, path);
        cJSON *model = answer_json(&response, 200);
        http_response_free(&response);
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(model, "tokenizer")));
        answer_expect(model, "trace", "true", 0);
        cJSON_Delete(model);
    }
    daemon_result_free(&result);
    fixture_stop(NULL);
}

static int make_directory(void **state)
{
    directory = daemon_directory_create();
    return 0;
}

EACH_TEST(make_directory, fixture_clear);
