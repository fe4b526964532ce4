/* SPDX-License-Identifier: Apache-2.0 */
/* word_model.c - see word_model.h. */
#include "word_model.h"
#include "test.h"

#include "published.h"

#include <sys/stat.h>

const char word_model_config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":12,\"vocab_size\":10,"
    "\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\"}";

#define LAYER "model.layers.#."

const char word_model_tensors[] =
    LAYER "self_attn.q_proj.weight 8x8, " LAYER "self_attn.k_proj.weight 8x8, " LAYER
          "self_attn.v_proj.weight 8x8, " LAYER "self_attn.o_proj.weight 8x8, " LAYER
          "mlp.gate_proj.weight 12x8, " LAYER "mlp.up_proj.weight 12x8, " LAYER
          "mlp.down_proj.weight 8x12, " LAYER "input_layernorm.weight 8, " LAYER
          "post_attention_layernorm.weight 8, "
          "model.embed_tokens.weight 10x8, model.norm.weight 8, lm_head.weight 10x8";

const char word_model_tokenizer[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":["
    "{\"id\":1,\"content\":\"[CLS]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false,\"special\":true},"
    "{\"id\":2,\"content\":\"[SEP]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false,\"special\":true}],"
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
    "\"handle_chinese_chars\":true,\"strip_accents\":null,\"lowercase\":true},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":"
    "\"##\",\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,"
    "\"the\":3,\"cat\":4,\"sat\":5,\".\":6,\"##s\":7,\"on\":8,\"mat\":9}}}";

static void make(const char *folder, const char *config, const char *tensors, const char *tokenizer)
{
    char path[256];
    assert_int_equal(mkdir(folder, 0755), 0);
    published_open(config, tensors, WORD_MODEL_LAYERS, "F32");
    published_save(folder, config);
    published_close();
    if (!tokenizer)
        return;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(tokenizer, file);
    fclose(file);
}

void word_model_make(const char *folder, const char *tokenizer)
{
    make(folder, word_model_config, word_model_tensors, tokenizer);
}

void word_model_make_judge(const char *folder)
{
    char config[512], tensors[2048];
    snprintf(
        config, sizeof config,
        "{\"architectures\":[\"LlamaForSequenceClassification\"],\"id2label\":{\"0\":\"apt\"},%s",
        word_model_config + 1);
    snprintf(tensors, sizeof tensors, "%s, score.weight 1x8", word_model_tensors);
    make(folder, config, tensors, word_model_tokenizer);
}

char *word_model_request(int words, const char *more)
{
    static const char *const KNOWN[] = { "the ", "cat ", "sat ", "on ", "mats. " };
    char *body = calloc(1, (size_t)words * 8 + strlen(more) + 64);
    strcpy(body, "{\"model\":\"words\",\"text\":\"");
    for (int i = 0; i < words; i++)
        strcat(body, KNOWN[i * i % 5]);
    strcat(body, "\"");
    strcat(body, more);
    strcat(body, "}");
    return body;
}
