/* SPDX-License-Identifier: Apache-2.0 */
/* test_your_model.c - what --check-config says of a folder that somebody has copied, whole or
 * broken as such folders are, and that examples/your-model.md quotes every one of these sentences.
 */
#include "fixture.h"
#include "gguf_stories.h"
#include "tensor_file.h"
#include "test.h"
#include "traced_model.h"

#define PAGE "examples/your-model.md"
#define POINTER                                                                                    \
    "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:4d7a2146\\nsize 9\\n' >"
#define GGUF "rm *; cp ../gguf/story.gguf .; "
#define HTML "echo '<!DOCTYPE html><html></html>' >"

/* A script that breaks a copy of the whole folder, and what is said of it. */
static const struct {
    const char *name, *script, *says;
} BROKEN[] = {
    { "no-config", "rm config.json", "config.json is missing beside the model's file" },
    { "no-weights", "rm model.safetensors",
      "the directory holds no model.safetensors, nor its index and shards, nor a GGUF file" },
    { "pickle", "mv model.safetensors pytorch_model.bin",
      "is a pickle of PyTorch, which is not read" },
    { "pointer", POINTER "model.safetensors", "this is a pointer of git-lfs" },
    { "page", HTML "model.safetensors", "this is an HTML page" },
    { "config-page", HTML "config.json", "config.json is an HTML page" },
    { "cut", "truncate -s -100 model.safetensors", "the file is cut" },
    { "cut-head", "truncate -s 100 model.safetensors", "only 92 bytes follow: the file is cut" },
    { "empty", ": >model.safetensors", "is empty" },
    { "config-cut", "truncate -s 60 config.json", "config.json: malformed JSON" },
    { "one-shard", "mv model.safetensors model-00001-of-00002.safetensors",
      "a shard, and not the index that names all shards" },
    { "lost-shard",
      "mv model.safetensors model-00001-of-00002.safetensors; echo "
      "'{\"weight_map\":{\"model.norm.weight\":\"model-00001-of-00002.safetensors\",\"lm_head."
      "weight\":\"model-00002-of-00002.safetensors\"}}' >model.safetensors.index.json",
      "cannot open" },
    { "nested", "mkdir inner; mv *.* inner",
      "move that one up, or give this directory as --models" },
    { "adapter",
      "rm *; echo '{\"peft_type\":\"LORA\"}' >adapter_config.json; echo >adapter_model.safetensors",
      "an adapter of PEFT, and not its model" },
    { "family", "sed -i 's/\"llama\"/\"newest\"/' config.json",
      "model_type 'newest' is not known here" },
    { "field", "sed -i 's/{/{\"attention_sparkle\": 2, /' config.json",
      "what that changes in model_type 'llama' is not known here" },
    { "quantised",
      "sed -i 's/{/{\"quantization_config\": {\"quant_method\": \"gptq\"}, /' config.json",
      "the checkpoint is quantised (quant_method 'gptq')" },
    { "heads",
      "sed -i 's/\"num_attention_heads\":4/\"num_attention_heads\":3/; s/\"head_dim\":16,//' "
      "config.json",
      "no multiple of its 3 heads" },
    { "layers", "sed -i 's/\"num_hidden_layers\":3/\"num_hidden_layers\":4/' config.json",
      "the file has no tensor 'model.layers.3.self_attn.q_proj.weight', which config.json asks "
      "for" },
    { "widths", "sed -i 's/\"hidden_size\":16/\"hidden_size\":20/' config.json",
      "config.json gives 20 (hidden_size)" },
    { "no-tokenizer", "rm tokenizer.json",
      "none: there is no tokenizer.json, nor files of another form" },
    { "tokenizer-pointer", POINTER "tokenizer.json",
      "refused: tokenizer.json: is a pointer of git-lfs" },
    { "tokenizer-cut", "truncate -s 40 tokenizer.json", "refused: tokenizer.json: malformed JSON" },
    { "other-tokenizer", "sed -i 's/\"time\":4/\"time\":99/' tokenizer.json",
      "it is another model's tokenizer" },
    { "unknown-step", "sed -i 's/\"Whitespace\"/\"Frobnicate\"/' tokenizer.json",
      "pre_tokenizer type 'Frobnicate' is not known here" },
    { "gguf-cut", GGUF "truncate -s -100 story.gguf", ": it is cut" },
    { "gguf-cut-head", GGUF "truncate -s 900 story.gguf", "hold at most 26: it is cut or damaged" },
    { "gguf-projector", GGUF "mv story.gguf mmproj-story.gguf",
      "a projector of pictures, and not its model" },
    { "two-ggufs", GGUF "cp story.gguf other.gguf", "the directory holds several GGUF files" },
    { "gguf-architecture", GGUF "LC_ALL=C sed -i s/llama/mamba/g story.gguf",
      "general.architecture is 'mamba', which is not read" },
    { "gguf-tokenizer",
      GGUF "LC_ALL=C sed -i 's/llama\\(........tokenizer.ggml.tokens\\)/plamo\\1/' story.gguf",
      "tokenizer.ggml.model is 'plamo', which is not known here" },
    { "no-feed-forward", "sed -i 's/mlp[.]up_proj/mlp.up_poor/g' model.safetensors",
      "which the whole pass of the model needs" },
};

static const char TOKENIZER[] =
    "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":\"WordLevel\","
    "\"vocab\":{\"once\":0,\"upon\":1,\"a\":2,\"time\":4},\"unk_token\":\"once\"}}";

/* What is said of the directory, behind a line break. */
static char *check(void)
{
    const char *const arguments[] = { "--check-config", "--models", directory, NULL };
    struct daemon_result result = daemon_command(arguments, NULL);
    char *said = NULL;
    assert_true(asprintf(&said, "\n%s", result.output) > 0);
    assert_int_equal(result.exit_code, 0);
    daemon_result_free(&result);
    return said;
}

/* A model of the name whole, with a tokenizer. */
static void make_whole(void)
{
    char command[1200];
    traced_model_save(directory);
    snprintf(command, sizeof command, "cd '%s' && rm -r bert && mv llama whole", directory);
    assert_int_equal(system(command), 0);
    daemon_directory_write(directory, "whole/tokenizer.json", TOKENIZER, strlen(TOKENIZER));
}

TEST(whole)
{
    make_whole();
    char *said = check();
    if (!strstr(said, "\nwhole: llama, 3 layers, ")
        || !strstr(said, " of attention, F32, whole\n"
                         "    tokenizer: WordLevel, ids to 4, "
                         "of tokenizer.json\n"
                         "    trace: takes text, tokens, "
                         "embeddings\n"))
        fail_msg("%s", said);
    free(said);
}

/* What is said of the model name: its line, and those below that are indented. */
static void expect_said(const char *said, const char *name, const char *words)
{
    char head[100];
    snprintf(head, sizeof head, "\n%s: ", name);
    const char *line = strstr(said, head);
    assert_non_null(line);
    const char *end = strchr(line + 1, '\n');
    while (strncmp(end, "\n    ", 5) == 0)
        end = strchr(end + 1, '\n');
    char *of_model = strndup(line + 1, (size_t)(end - line));
    if (!strstr(of_model, words))
        fail_msg("of %s is said:\n%s\nexpected '%s'", name, of_model, words);
    free(of_model);
}

TEST(broken)
{
    char command[2400];
    char *page = (char *)tensor_read_bytes(PAGE, NULL);
    make_whole();
    snprintf(command, sizeof command, "mkdir '%s/gguf'", directory);
    assert_int_equal(system(command), 0);
    gguf_stories_write("Q8_0", fixture_path("gguf/story.gguf"));
    for (size_t i = 0; i < sizeof BROKEN / sizeof *BROKEN; i++) {
        snprintf(command, sizeof command, "cd '%s' && cp -r whole '%s' && cd '%s' && { %s; }",
                 directory, BROKEN[i].name, BROKEN[i].name, BROKEN[i].script);
        assert_int_equal(system(command), 0);
    }
    char *said = check();
    expect_said(said, "gguf", "tokenizer: BPE, ids to 511, of story.gguf");
    for (size_t i = 0; i < sizeof BROKEN / sizeof *BROKEN; i++) {
        char quoted[300];
        expect_said(said, BROKEN[i].name, BROKEN[i].says);
        snprintf(quoted, sizeof quoted, "`%s`", BROKEN[i].says);
        if (!strstr(page, quoted))
            fail_msg("the page does not quote '%s'", BROKEN[i].says);
    }
    free(said);
    free(page);
}

/* The first column of the page's table has no sentence besides. */
TEST(quoted)
{
    char *page = (char *)tensor_read_bytes(PAGE, NULL);
    const char *row = strstr(page, "## What the check says");
    size_t marks = 0;
    assert_non_null(row);
    while ((row = strstr(row + 1, "\n| `"))) {
        const char *end = strstr(row + 3, " | ");
        assert_non_null(end);
        for (const char *c = row; c < end; c++)
            marks += *c == '`';
    }
    assert_int_equal(marks, 2 * sizeof BROKEN / sizeof *BROKEN);
    free(page);
}

static int make_directory(void **state)
{
    (void)state;
    directory = daemon_directory_create();
    return 0;
}

EACH_TEST(make_directory, fixture_clear);
