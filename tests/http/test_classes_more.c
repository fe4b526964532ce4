/* SPDX-License-Identifier: Apache-2.0 */
/* test_classes_more.c - heads over classes of further families, as test_classes.c: of encoders from
 * the Hub, of proteins, of pictures, and of a decoder behind an encoder.
 *
 * "The source" is Hugging Face transformers, models/<family>/modeling_<family>.py; of GTE
 * NewForSequenceClassification of Alibaba-NLP/new-impl. */
#include "answer.h"
#include "classes_case.h"
#include "fixture.h"
#include "forward_encoder.h"
#include "picture_case.h"
#include "request_text.h"
#include "test.h"

#define TOKENS           "\"tokens\":[2,17,39,5,5,30,3]"
#define LABELS           ",\"id2label\":{\"0\":\"no\",\"1\":\"maybe\",\"2\":\"yes\"}"
#define CLASSIFIER(size) "classifier.weight 3x" size ", classifier.bias 3, "

static const struct classes_case NAMED = { false, "[\"no\",\"maybe\",\"yes\"]", "softmax" };
static const struct classes_case OF_TOKENS = { true, "[\"no\",\"maybe\",\"yes\"]", "softmax" };

static struct rows linear(struct rows x, const char *name)
{
    return published_linear(x, name, 0);
}

static struct rows first(struct rows rows)
{
    return forward_slice(rows, 0, 1);
}

static struct rows last(struct rows rows)
{
    return forward_slice(rows, rows.count - 1, 1);
}

static struct rows tanh_of(struct rows x, const char *name)
{
    return forward_activation(linear(x, name), "tanh");
}

static struct rows rows_classifier(struct rows rows)
{
    return linear(rows, "classifier");
}

/* --------------------------------------------------------------------- ESM -- */

#define ESM "esm.encoder.layer.#."
#define ESM_TENSORS                                                                                \
    "esm.embeddings.word_embeddings.weight 40x16, " ENCODER_LINEAR(ESM "attention.self.query",     \
                                                                   "16x16", "16")                  \
        ENCODER_LINEAR(ESM "attention.self.key", "16x16", "16")                                    \
            ENCODER_LINEAR(ESM "attention.self.value", "16x16", "16")                              \
                ENCODER_LINEAR(ESM "attention.output.dense", "16x16", "16")                        \
                    ENCODER_LINEAR(ESM "intermediate.dense", "24x16", "24")                        \
                        ENCODER_LINEAR(ESM "output.dense", "16x24", "16")                          \
                            ENCODER_SMALL_NORM(ESM "attention.LayerNorm")                          \
                                ENCODER_SMALL_NORM(ESM "LayerNorm")                                \
                                    ENCODER_SMALL_NORM("esm.encoder.emb_layer_norm_after")
#define ESM_CONFIG(architecture)                                                                   \
    "{\"model_type\":\"esm\",\"architectures\":[\"" architecture                                   \
    "\"],\"hidden_size\":16,\"num_attention_heads\":4,\"num_hidden_layers\":2,"                    \
    "\"intermediate_size\":24,\"vocab_size\":40,\"layer_norm_eps\":1e-5,\"mask_token_id\":26,"     \
    "\"position_embedding_type\":\"rotary\",\"token_dropout\":true" LABELS "}"

static struct rows esm_head(struct rows rows)
{
    return linear(tanh_of(first(rows), "classifier.dense"), "classifier.out_proj");
}

/* EsmClassificationHead, EsmForTokenClassification. */
TEST(esm)
{
    classes_case_check("esm", ESM_CONFIG("EsmForSequenceClassification"),
                       ESM_TENSORS ENCODER_LINEAR("classifier.dense", "16x16", "16")
                           ENCODER_LINEAR("classifier.out_proj", "3x16", "3"),
                       TOKENS, &NAMED, esm_head);
    classes_case_check("esm_tokens", ESM_CONFIG("EsmForTokenClassification"),
                       ESM_TENSORS CLASSIFIER("16"), TOKENS, &OF_TOKENS, rows_classifier);
}

/* --------------------------------------------------------------------- GTE -- */

#define GTE "new.encoder.layer.#."
#define GTE_TENSORS                                                                                \
    "new.embeddings.word_embeddings.weight 40x16, new.embeddings.token_type_embeddings.weight "    \
    "1x16, " ENCODER_SMALL_NORM("new.embeddings.LayerNorm") ENCODER_SMALL_NORM(GTE "attn_ln")      \
        ENCODER_SMALL_NORM(GTE "mlp_ln") ENCODER_LINEAR(GTE "attention.qkv_proj", "48x16", "48")   \
            ENCODER_LINEAR(GTE "attention.o_proj", "16x16", "16") GTE                              \
        "mlp.up_gate_proj.weight 48x16, " ENCODER_LINEAR(GTE "mlp.down_proj", "16x24", "16")

static struct rows gte_head(struct rows rows)
{
    return linear(tanh_of(first(rows), "new.pooler.dense"), "classifier");
}

TEST(gte)
{
    classes_case_check(
        "gte",
        "{\"model_type\":\"new\",\"architectures\":[\"NewForSequenceClassification\"],"
        "\"hidden_size\":16,\"num_attention_heads\":4,\"num_hidden_layers\":2,"
        "\"intermediate_size\":24,\"vocab_size\":40" LABELS "}",
        GTE_TENSORS ENCODER_LINEAR("new.pooler.dense", "16x16", "16") CLASSIFIER("16"), TOKENS,
        &NAMED, gte_head);
}

/* ---------------------------------------------------------------- JinaBERT -- */

#define JINA "bert.encoder.layer.#."
#define JINA_TENSORS                                                                               \
    "bert.embeddings.word_embeddings.weight 40x16, "                                               \
    "bert.embeddings.token_type_embeddings.weight 2x16, " ENCODER_SMALL_NORM(                      \
        "bert.embeddings.LayerNorm") ENCODER_LINEAR(JINA "attention.self.query", "16x16", "16")    \
        ENCODER_LINEAR(JINA "attention.self.key", "16x16", "16")                                   \
            ENCODER_LINEAR(JINA "attention.self.value", "16x16", "16")                             \
                ENCODER_LINEAR(JINA "attention.output.dense", "16x16", "16")                       \
                    ENCODER_SMALL_NORM(JINA "attention.output.LayerNorm") JINA                     \
        "mlp.gated_layers.weight 48x16, " ENCODER_LINEAR(JINA "mlp.wo", "16x24", "16")             \
            ENCODER_SMALL_NORM(JINA "mlp.layernorm")

static struct rows jina_head(struct rows rows)
{
    return linear(tanh_of(first(rows), "bert.pooler.dense"), "classifier");
}

TEST(jina_bert)
{
    classes_case_check(
        "jina",
        "{\"model_type\":\"bert\",\"architectures\":[\"JinaBertForSequenceClassification\"],"
        "\"hidden_size\":16,\"num_attention_heads\":4,\"num_hidden_layers\":2,"
        "\"intermediate_size\":24,\"vocab_size\":40,\"position_embedding_type\":\"alibi\","
        "\"feed_forward_type\":\"geglu\"" LABELS "}",
        JINA_TENSORS ENCODER_LINEAR("bert.pooler.dense", "16x16", "16") CLASSIFIER("16"), TOKENS,
        &NAMED, jina_head);
}

/* ---------------------------------------------------------------- pictures -- */

#define VIT "vit.encoder.layer.#."

static struct rows vit_head(struct rows rows)
{
    return linear(first(rows), "classifier");
}

/* ViTForImageClassification: the class row behind the last norm, without a pooler. */
TEST(vit)
{
    char *pixels = picture_case_field(picture_case(6, 6), 6, 6);
    classes_case_check(
        "vit",
        "{\"model_type\":\"vit\",\"architectures\":[\"ViTForImageClassification\"],"
        "\"hidden_size\":12,\"num_attention_heads\":2,\"num_hidden_layers\":2,"
        "\"intermediate_size\":20,\"patch_size\":2,\"image_size\":6" LABELS "}",
        FORWARD_TABLE("vit.embeddings.cls_token", 1x1x12)
            FORWARD_LINEAR("vit.embeddings.patch_embeddings.projection", 12,
                           3x2x2) FORWARD_TENSOR("vit.embeddings.position_embeddings", 1x10x12)
                FORWARD_LINEAR(VIT "attention.attention.query", 12, 12)
                    FORWARD_LINEAR(VIT "attention.attention.key", 12, 12)
                        FORWARD_LINEAR(VIT "attention.attention.value", 12, 12)
                            FORWARD_LINEAR(VIT "attention.output.dense", 12, 12)
                                FORWARD_NORM(VIT "layernorm_before", 12)
                                    FORWARD_NORM(VIT "layernorm_after", 12)
                                        FORWARD_LINEAR(VIT "intermediate.dense", 20, 12)
                                            FORWARD_LINEAR(VIT "output.dense", 12, 20)
                                                FORWARD_NORM("vit.layernorm", 12) CLASSIFIER("12"),
        pixels, &NAMED, vit_head);
    free(pixels);
}

/* -------------------------------------------------------------------- BART -- */

#define SELF(begin, name)                                                                          \
    FORWARD_LINEAR(begin name ".q_proj", 12, 12)                                                   \
    FORWARD_LINEAR(begin name ".k_proj", 12, 12)                                                   \
    FORWARD_LINEAR(begin name ".v_proj", 12, 12)                                                   \
    FORWARD_LINEAR(begin name ".out_proj", 12, 12) FORWARD_NORM(begin name "_layer_norm", 12)
#define STACK(begin)                                                                               \
    FORWARD_TABLE(begin "embed_positions.weight", 18x12)                                           \
    FORWARD_NORM(begin "layernorm_embedding", 12)                                                  \
    SELF(begin "layers.#.", "self_attn")                                                           \
    FORWARD_LINEAR(begin "layers.#.fc1", 20, 12)                                                   \
    FORWARD_LINEAR(begin "layers.#.fc2", 12, 20)                                                   \
    FORWARD_NORM(begin "layers.#.final_layer_norm", 12)
#define BART                                                                                       \
    FORWARD_TABLE("model.shared.weight", 40x12)                                                    \
    STACK("model.encoder.")                                                                        \
    STACK("model.decoder.")                                                                        \
    SELF("model.decoder.layers.#.", "encoder_"                                                     \
                                    "attn")
#define BART_CONFIG                                                                                \
    "{\"model_type\":\"bart\",\"architectures\":[\"BartForSequenceClassification\"],"              \
    "\"d_model\":12,\"encoder_layers\":2,\"decoder_layers\":2,\"encoder_attention_heads\":2,"      \
    "\"decoder_attention_heads\":2,\"encoder_ffn_dim\":20,\"decoder_ffn_dim\":20,"                 \
    "\"vocab_size\":40,\"decoder_start_token_id\":2,\"max_position_embeddings\":16" LABELS "}"

static struct rows bart_head(struct rows rows)
{
    return linear(tanh_of(last(rows), "classification_head.dense"), "classification_head.out_proj");
}

/* BartForSequenceClassification: the decoder reads shift_tokens_right(input_ids), and the row of
 * the last token, which ends the text, is classified. */
TEST(bart)
{
    published_open(BART_CONFIG,
                   BART FORWARD_LINEAR("classification_head.dense", 12, 12)
                       FORWARD_LINEAR("classification_head.out_proj", 3, 12),
                   2, "F32");
    published_save(fixture_path("bart"), BART_CONFIG);
    fixture_serve("--models", directory);
    const struct rows rows =
        classes_case_rows("bart", TOKENS ",\"decoder_tokens\":[2,2,17,39,5,5,30]");
    classes_case_expect("bart", TOKENS, &NAMED, bart_head(rows));
    /* A decoder that is told what to read is. */
    classes_case_expect("bart", TOKENS ",\"decoder_tokens\":[2,9]", &NAMED,
                        bart_head(classes_case_rows("bart", TOKENS ",\"decoder_tokens\":[2,9]")));
    fixture_stop(NULL);
    published_close();
}

ALL_TESTS(fixture_make_directory, fixture_clear);
