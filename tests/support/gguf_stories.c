/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_stories.c - see gguf_stories.h.
 *
 * Queries and keys of Meta's form lie as llama.cpp has them: a rotary pair is two neighbours. The
 * pieces of a vocabulary of SentencePiece have scores that fall with their ids, which stand here
 * for those that the tokenizer.json no longer has. */
#include "gguf_stories.h"
#include "gguf_quantize.h"
#include "gguf_write.h"
#include "tensor_file.h"
#include "test.h"

#define FOLDER "examples/models/stories260K/"

enum { LAYERS = 5, WORDS = 512, BYTE_IDS_END = 259, NAME_BYTES = 64 };
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_BYTE = 6 };

/* ------------------------------------------------------------- vocabulary -- */

static void write_vocabulary(struct gguf_write *file)
{
    char *text = (char *)tensor_read_bytes(FOLDER "tokenizer.json", NULL);
    cJSON *tokenizer = cJSON_Parse(text);
    const cJSON *vocabulary = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(tokenizer, "model"), "vocab");
    const char *words[WORDS] = { NULL };
    float scores[WORDS];
    int32_t types[WORDS];
    const cJSON *word;
    cJSON_ArrayForEach(word, vocabulary)
        words[word->valueint] = word->string;
    for (int i = 0; i < WORDS; i++) {
        assert_non_null(words[i]);
        scores[i] = i < BYTE_IDS_END ? 0 : (float)(BYTE_IDS_END - i);
        types[i] = i == 0             ? TYPE_UNKNOWN
                   : i < 3            ? TYPE_CONTROL
                   : i < BYTE_IDS_END ? TYPE_BYTE
                                      : TYPE_NORMAL;
    }
    gguf_write_text(file, "tokenizer.ggml.model", "llama");
    gguf_write_texts(file, "tokenizer.ggml.tokens", words, WORDS);
    gguf_write_numbers(file, "tokenizer.ggml.scores", 'f', scores, WORDS);
    gguf_write_numbers(file, "tokenizer.ggml.token_type", 'i', types, WORDS);
    gguf_write_integer(file, "tokenizer.ggml.unknown_token_id", 'I', 0);
    gguf_write_integer(file, "tokenizer.ggml.bos_token_id", 'I', 1);
    gguf_write_integer(file, "tokenizer.ggml.eos_token_id", 'I', 2);
    gguf_write_bool(file, "tokenizer.ggml.add_bos_token", true);
    gguf_write_bool(file, "tokenizer.ggml.add_eos_token", false);
    gguf_write_bool(file, "tokenizer.ggml.add_space_prefix", true);
    cJSON_Delete(tokenizer);
    free(text);
}

/* -------------------------------------------------------------- parameters -- */

static void write_tensor(struct gguf_write *file, const struct tensor_file *model, const char *from,
                         const char *to, const char *type)
{
    const struct tensor tensor = tensor_file_get(model, from);
    float *values = tensor_floats(&tensor);
    const bool is_whole = tensor.rank == 2 && tensor.shape[1] % gguf_block(type)->count == 0;
    gguf_write_tensor(file, to, is_whole ? type : "F32", tensor.rank, tensor.shape, values);
    free(values);
}

static void write_parameters(struct gguf_write *file, const char *type)
{
    static const char *const NAMES[][2] = {
        { "attention_norm", "attn_norm" }, { "attention.wq", "attn_q" },
        { "attention.wk", "attn_k" },      { "attention.wv", "attn_v" },
        { "attention.wo", "attn_output" }, { "ffn_norm", "ffn_norm" },
        { "feed_forward.w1", "ffn_gate" }, { "feed_forward.w2", "ffn_down" },
        { "feed_forward.w3", "ffn_up" },
    };
    struct tensor_file model;
    tensor_file_open(&model, FOLDER "model.safetensors");
    write_tensor(file, &model, "tok_embeddings.weight", "token_embd.weight", type);
    write_tensor(file, &model, "norm.weight", "output_norm.weight", type);
    for (int layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
            char from[NAME_BYTES], to[NAME_BYTES];
            snprintf(from, sizeof from, "layers.%d.%s.weight", layer, NAMES[i][0]);
            snprintf(to, sizeof to, "blk.%d.%s.weight", layer, NAMES[i][1]);
            write_tensor(file, &model, from, to, type);
        }
    tensor_file_close(&model);
}

void gguf_stories_write(const char *type, const char *path)
{
    struct gguf_write *file = gguf_write_create(3);
    gguf_write_text(file, "general.architecture", "llama");
    gguf_write_text(file, "general.name", "stories260K");
    gguf_write_integer(file, "llama.vocab_size", 'I', WORDS);
    gguf_write_integer(file, "llama.context_length", 'I', 512);
    gguf_write_integer(file, "llama.embedding_length", 'I', 64);
    gguf_write_integer(file, "llama.block_count", 'I', LAYERS);
    gguf_write_integer(file, "llama.feed_forward_length", 'I', 172);
    gguf_write_integer(file, "llama.attention.head_count", 'I', 8);
    gguf_write_integer(file, "llama.attention.head_count_kv", 'I', 4);
    gguf_write_integer(file, "llama.rope.dimension_count", 'I', 8);
    gguf_write_number(file, "llama.rope.freq_base", 'f', 10000);
    gguf_write_number(file, "llama.attention.layer_norm_rms_epsilon", 'f', 1e-5);
    write_vocabulary(file);
    write_parameters(file, type);
    gguf_write_file(file, path);
    gguf_write_free(file);
}
