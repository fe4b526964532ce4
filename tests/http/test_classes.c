/* SPDX-License-Identifier: Apache-2.0 */
/* test_classes.c - heads over classes: the logits of a trace against the head's source in double,
 * over the rows that the trace answers, which test_trace_*.c hold to their families' sources.
 *
 * "The source" is Hugging Face transformers, models/<family>/modeling_<family>.py, and
 * modeling_layers.py for decoders. */
#include "answer.h"
#include "classes_case.h"
#include "fixture.h"
#include "forward_bert.h"
#include "request_text.h"
#include "test.h"
#include "vector_case.h"
#include "word_model.h"

#define TOKENS "\"tokens\":[2,17,39,5,5,30,3]"

#define SIZES                                                                                      \
    "\"hidden_size\":12,\"num_attention_heads\":2,\"num_hidden_layers\":2,"                        \
    "\"intermediate_size\":20,\"vocab_size\":40,\"max_position_embeddings\":16"
#define CONFIG(type, architecture, more)                                                           \
    "{\"model_type\":\"" type "\",\"architectures\":[\"" architecture "\"]," SIZES more "}"
#define LABELS ",\"id2label\":{\"0\":\"no\",\"1\":\"maybe\",\"2\":\"yes\"}"

#define BERT(begin)                                                                                \
    BERT_EMBEDDINGS(begin, 2, 12, FORWARD_NORM)                                                    \
    BERT_BLOCK(begin "encoder.layer.#.", 12, 20, FORWARD_NORM)
#define CLASSIFIER FORWARD_LINEAR("classifier", 3, 12)
#define CLASS_DENSE                                                                                \
    FORWARD_LINEAR("classifier.dense", 12, 12) FORWARD_LINEAR("classifier.out_proj", 3, 12)

static struct rows linear(struct rows x, const char *name)
{
    return published_linear(x, name, 0);
}

static struct rows first(struct rows rows)
{
    return forward_slice(rows, 0, 1);
}

static const struct classes_case NAMED = { false, "[\"no\",\"maybe\",\"yes\"]", "softmax" };
static const struct classes_case UNNAMED = { false, "[\"LABEL_0\",\"LABEL_1\",\"LABEL_2\"]",
                                             "softmax" };
static const struct classes_case OF_TOKENS = { true, "[\"no\",\"maybe\",\"yes\"]", "softmax" };

/* --------------------------------------------------------------- of a text -- */

static struct rows bert_head(struct rows rows)
{
    return linear(forward_activation(linear(first(rows), "bert.pooler.dense"), "tanh"),
                  "classifier");
}

#define BERT_POOLED BERT("bert.") FORWARD_LINEAR("bert.pooler.dense", 12, 12)

/* BertForSequenceClassification; once with rows in double too. */
TEST(bert)
{
    static const char OF_BERT[] = CONFIG("bert", "BertForSequenceClassification", LABELS);
    static const int ids[] = { 2, 17, 39, 5, 5, 30, 3 }, types[7] = { 0 },
                     positions[] = { 0, 1, 2, 3, 4, 5, 6 };
    classes_case_check("bert", OF_BERT, BERT_POOLED CLASSIFIER, TOKENS, &NAMED, bert_head);
    published_open(OF_BERT, BERT_POOLED CLASSIFIER, 2, "F32");
    fixture_serve("--models", directory);
    classes_case_expect("bert", TOKENS, &NAMED,
                        bert_head(forward_bert(&(struct forward_bert){ "bert.", "gelu", 1e-12, ids,
                                                                       types, positions, 0, 0 })
                                      .final_hidden_states));
    fixture_stop(NULL);
    published_close();
}

/* problem_type, and without one the number of labels, say what makes probabilities of logits. */
TEST(problem_types)
{
    static const struct classes_case MANY = { false, "[\"LABEL_0\",\"LABEL_1\",\"LABEL_2\"]",
                                              "sigmoid" };
    static const struct classes_case NONE = { false, "[\"LABEL_0\",\"LABEL_1\",\"LABEL_2\"]",
                                              "none" };
    static const struct classes_case ONE = { false, "[\"LABEL_0\"]", "sigmoid" };
    classes_case_check("many",
                       CONFIG("bert", "BertForSequenceClassification",
                              ",\"problem_type\":\"multi_label_classification\""),
                       BERT_POOLED CLASSIFIER, TOKENS, &MANY, bert_head);
    classes_case_check(
        "regression",
        CONFIG("bert", "BertForSequenceClassification", ",\"problem_type\":\"regression\""),
        BERT_POOLED CLASSIFIER, TOKENS, &NONE, bert_head);
    classes_case_check("one", CONFIG("bert", "BertForSequenceClassification", ""),
                       BERT_POOLED FORWARD_LINEAR("classifier", 1, 12), TOKENS, &ONE, bert_head);
}

static struct rows roberta_head(struct rows rows)
{
    return linear(forward_activation(linear(first(rows), "classifier.dense"), "tanh"),
                  "classifier.out_proj");
}

/* RobertaClassificationHead. */
TEST(roberta)
{
    classes_case_check("roberta", CONFIG("roberta", "RobertaForSequenceClassification", LABELS),
                       BERT("roberta.") CLASS_DENSE, TOKENS, &NAMED, roberta_head);
    classes_case_check("xlm", CONFIG("xlm-roberta", "XLMRobertaForSequenceClassification", ""),
                       BERT("roberta.") CLASS_DENSE, TOKENS, &UNNAMED, roberta_head);
}

static struct rows electra_head(struct rows rows)
{
    return linear(forward_activation(linear(first(rows), "classifier.dense"), "gelu"),
                  "classifier.out_proj");
}

/* ElectraClassificationHead has GELU whatever the blocks have. */
TEST(electra)
{
    classes_case_check(
        "electra",
        CONFIG("electra", "ElectraForSequenceClassification", LABELS ",\"hidden_act\":\"relu\""),
        BERT("electra.") CLASS_DENSE, TOKENS, &NAMED, electra_head);
}

static struct rows distilbert_head(struct rows rows)
{
    return linear(forward_activation(linear(first(rows), "pre_classifier"), "relu"), "classifier");
}

TEST(distilbert)
{
    classes_case_check("distilbert",
                       JSON({"model_type":"distilbert","architectures":["DistilBertForSequenceClassification"],"dim":12,"n_heads":2,"n_layers":2,"hidden_dim":20,"vocab_size":40,"max_position_embeddings":16,"id2label":{"0":"no","1":"maybe","2":"yes"}}),
                             DISTILBERT FORWARD_LINEAR("pre_classifier", 12, 12) CLASSIFIER, TOKENS,
                             &NAMED, distilbert_head);
}

#define ALBERT                                                                                     \
    ALBERT_EMBEDDINGS ALBERT_BLOCK("albert.encoder.albert_layer_groups.0.albert_layers.0.")

static struct rows albert_head(struct rows rows)
{
    return linear(forward_activation(linear(first(rows), "albert.pooler"), "tanh"), "classifier");
}

TEST(albert)
{
    classes_case_check(
        "albert",
        CONFIG("albert", "AlbertForSequenceClassification", LABELS ",\"embedding_size\":8"),
        ALBERT FORWARD_LINEAR("albert.pooler", 12, 12) CLASSIFIER, TOKENS, &NAMED, albert_head);
}

#define MPNET_LAYER "mpnet.encoder.layer.#."
#define MPNET                                                                                      \
    FORWARD_TENSOR("mpnet.embeddings.word_embeddings.weight", 40x12)                               \
    FORWARD_TENSOR("mpnet.embeddings.position_embeddings.weight", 16x12)                           \
    FORWARD_TENSOR("mpnet.encoder.relative_attention_bias.weight", 32x2)                           \
    FORWARD_NORM("mpnet.embeddings.LayerNorm", 12)                                                 \
    FORWARD_LINEAR(MPNET_LAYER "attention.attn.q", 12, 12)                                         \
    FORWARD_LINEAR(MPNET_LAYER "attention.attn.k", 12, 12)                                         \
    FORWARD_LINEAR(MPNET_LAYER "attention.attn.v", 12, 12)                                         \
    FORWARD_LINEAR(MPNET_LAYER "attention.attn.o", 12, 12)                                         \
    FORWARD_NORM(MPNET_LAYER "attention.LayerNorm", 12)                                            \
    FORWARD_LINEAR(MPNET_LAYER "intermediate.dense", 20, 12)                                       \
    FORWARD_LINEAR(MPNET_LAYER "output.dense", 12, 20)                                             \
    FORWARD_NORM(MPNET_LAYER "output.LayerNorm", 12)

/* MPNetClassificationHead. */
TEST(mpnet)
{
    classes_case_check("mpnet", CONFIG("mpnet", "MPNetForSequenceClassification", LABELS),
                       MPNET CLASS_DENSE, TOKENS, &NAMED, roberta_head);
}

#define MODERN "model.layers.#."
#define MODERNBERT                                                                                 \
    "model.embeddings.tok_embeddings.weight 40x12, model.embeddings.norm.weight 12*4, "            \
    "model.layers.1.attn_norm.weight 12*4, " MODERN "mlp_norm.weight 12*4, "                       \
    "model.final_norm.weight 12*4, " MODERN "attn.Wqkv.weight 36x12, " MODERN                      \
    "attn.Wo.weight 12x12, " MODERN "mlp.Wi.weight 40x12, " MODERN "mlp.Wo.weight 12x20, "         \
    "head.dense.weight 12x12, head.norm.weight 12*4, "

/* ModernBertPredictionHead and the classifier. */
static struct rows modern_rows_head(struct rows rows)
{
    rows = forward_activation(linear(rows, "head.dense"), "gelu");
    return linear(forward_layer_norm(rows, "head.norm", 0, 1e-5), "classifier");
}

static struct rows modern_first_head(struct rows rows)
{
    return modern_rows_head(first(rows));
}

static struct rows modern_mean_head(struct rows rows)
{
    return modern_rows_head(vector_pool(rows, "mean", 0));
}

TEST(modernbert)
{
    classes_case_check("modern_cls",
                       CONFIG("modernbert", "ModernBertForSequenceClassification", LABELS),
                       MODERNBERT CLASSIFIER, TOKENS, &NAMED, modern_first_head);
    classes_case_check("modern_mean",
                       CONFIG("modernbert", "ModernBertForSequenceClassification",
                              ",\"classifier_pooling\":\"mean\",\"classifier_bias\":true"),
                       MODERNBERT "head.dense.bias 12, " CLASSIFIER, TOKENS, &UNNAMED,
                       modern_mean_head);
    classes_case_check("modern_tokens",
                       CONFIG("modernbert", "ModernBertForTokenClassification", LABELS),
                       MODERNBERT CLASSIFIER, TOKENS, &OF_TOKENS, modern_rows_head);
}

#define DEBERTA_LAYER "deberta.encoder.layer.#."
#define DEBERTA                                                                                    \
    FORWARD_TENSOR("deberta.embeddings.word_embeddings.weight", 40x12)                             \
    FORWARD_NORM("deberta.embeddings.LayerNorm", 12)                                               \
    FORWARD_TENSOR("deberta.encoder.rel_embeddings.weight", 16x12)                                 \
    FORWARD_NORM("deberta.encoder.LayerNorm", 12)                                                  \
    FORWARD_LINEAR(DEBERTA_LAYER "attention.self.query_proj", 12, 12)                              \
    FORWARD_LINEAR(DEBERTA_LAYER "attention.self.key_proj", 12, 12)                                \
    FORWARD_LINEAR(DEBERTA_LAYER "attention.self.value_proj", 12, 12)                              \
    FORWARD_LINEAR(DEBERTA_LAYER "attention.output.dense", 12, 12)                                 \
    FORWARD_NORM(DEBERTA_LAYER "attention.output.LayerNorm", 12)                                   \
    FORWARD_LINEAR(DEBERTA_LAYER "intermediate.dense", 20, 12)                                     \
    FORWARD_LINEAR(DEBERTA_LAYER "output.dense", 12, 20)                                           \
    FORWARD_NORM(DEBERTA_LAYER "output.LayerNorm", 12)
#define DEBERTA_FIELDS                                                                             \
    ",\"relative_attention\":true,\"position_buckets\":8,\"norm_rel_ebd\":\"layer_norm\","         \
    "\"share_att_key\":true,\"pos_att_type\":\"p2c|c2p\",\"max_relative_positions\":-1,"           \
    "\"position_biased_input\":false,\"type_vocab_size\":0,\"layer_norm_eps\":1e-7,"               \
    "\"pooler_hidden_act\":\"gelu\",\"pooler_hidden_size\":12,\"pooler_dropout\":0"

/* ContextPooler. */
static struct rows deberta_head(struct rows rows)
{
    return linear(forward_activation(linear(first(rows), "pooler.dense"), "gelu"), "classifier");
}

TEST(deberta)
{
    classes_case_check(
        "deberta",
        CONFIG("deberta-v2", "DebertaV2ForSequenceClassification", LABELS DEBERTA_FIELDS),
        DEBERTA FORWARD_LINEAR("pooler.dense", 12, 12) CLASSIFIER, TOKENS, &NAMED, deberta_head);
}

/* -------------------------------------------------------------- of decoders -- */

#define LLAMA_CONFIG(architecture)                                                                 \
    "{\"model_type\":\"llama\",\"architectures\":[\"" architecture                                 \
    "\"],\"hidden_size\":8,\"num_hidden_layers\":2,"                                               \
    "\"num_attention_heads\":2,\"intermediate_size\":12,\"vocab_size\":10,"                        \
    "\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"num_labels\":3}"

static struct rows last_score(struct rows rows)
{
    return linear(forward_slice(rows, rows.count - 1, 1), "score");
}

static struct rows score(struct rows rows)
{
    return linear(rows, "score");
}

/* GenericForSequenceClassification: the last row, without a bias; ...TokenClassification: each row,
 * with one. */
TEST(decoders)
{
    static const struct classes_case ROWS = { true, "[\"LABEL_0\",\"LABEL_1\",\"LABEL_2\"]",
                                              "softmax" };
    struct request_text tensors = { .data = NULL };
    request_text_add(&tensors, "%s, score.weight 3x8", word_model_tensors);
    classes_case_check("llama", LLAMA_CONFIG("LlamaForSequenceClassification"), tensors.data,
                       "\"tokens\":[1,3,4,5]", &UNNAMED, last_score);
    request_text_add(&tensors, ", score.bias 3");
    classes_case_check("llama_tokens", LLAMA_CONFIG("LlamaForTokenClassification"), tensors.data,
                       "\"tokens\":[1,3,4,5]", &ROWS, score);
    free(tensors.data);
}

/* --------------------------------------------------------------- of tokens -- */

static struct rows rows_classifier(struct rows rows)
{
    return linear(rows, "classifier");
}

static struct rows answers(struct rows rows)
{
    return linear(rows, "qa_outputs");
}

TEST(tokens)
{
    static const struct classes_case ANSWERS = { true, "[\"start\",\"end\"]", "none" };
    classes_case_check("bert_tokens", CONFIG("bert", "BertForTokenClassification", LABELS),
                       BERT("bert.") CLASSIFIER, TOKENS, &OF_TOKENS, rows_classifier);
    classes_case_check("roberta_tokens", CONFIG("roberta", "RobertaForTokenClassification", LABELS),
                       BERT("roberta.") CLASSIFIER, TOKENS, &OF_TOKENS, rows_classifier);
    classes_case_check("electra_tokens", CONFIG("electra", "ElectraForTokenClassification", LABELS),
                       BERT("electra.") CLASSIFIER, TOKENS, &OF_TOKENS, rows_classifier);
    classes_case_check("answers", CONFIG("bert", "BertForQuestionAnswering", ""),
                       BERT("bert.") FORWARD_LINEAR("qa_outputs", 2, 12), TOKENS, &ANSWERS,
                       answers);
}

/* --------------------------------------------------------------------- laws -- */

static const char PLAIN[] =
    JSON({"model":"laws","layers":[],"outputs":["logits"],"tokens":[2,17,39,5,5,30,3]});

/* Each input of a batch has the bits that it has alone; so has the pass without edits. */
TEST(laws)
{
    static const char OF_BERT[] = CONFIG("bert", "BertForSequenceClassification", LABELS);
    published_open(OF_BERT, BERT_POOLED CLASSIFIER, 2, "F32");
    published_save(fixture_path("laws"), OF_BERT);
    fixture_serve("--models", directory);
    cJSON *plain = answer_post(&client, "/v1/trace", PLAIN);
    cJSON *batch = answer_post(
        &client, "/v1/trace/batch",
        JSON({"model":"laws","layers":[],"outputs":["logits"],"requests":[{"tokens":[5]},{"tokens":[2,17,39,5,5,30,3]},{"tokens":[1,2,3]}]}));
    assert_true(
        cJSON_Compare(cJSON_GetArrayItem(classes_case_member(batch, "results"), 1), plain, 1));
    cJSON *edited = answer_post(
        &client, "/v1/trace",
        JSON({"model":"laws","layers":[],"outputs":["logits","embedding"],"pooling":"mean","tokens":[2,17,39,5,5,30,3],"compare":true,"edits":[{"layers":[0],"heads":[1],"scale":0}]}));
    answer_expect_members(edited, "model,tokens,layers,embedding,base_embedding,labels,activation,"
                                  "logits,probabilities,base_logits,base_probabilities");
    assert_true(cJSON_Compare(classes_case_member(edited, "base_logits"),
                              classes_case_member(plain, "logits"), 1));
    assert_true(cJSON_Compare(classes_case_member(edited, "base_probabilities"),
                              classes_case_member(plain, "probabilities"), 1));
    assert_false(cJSON_Compare(classes_case_member(edited, "logits"),
                               classes_case_member(plain, "logits"), 1));
    cJSON_Delete(plain);
    cJSON_Delete(batch);
    cJSON_Delete(edited);
    fixture_stop(NULL);
    published_close();
}

/* ------------------------------------------------------------------ refused -- */

static const struct {
    const char *config, *tensors, *words;
} REFUSED[] = {
    { CONFIG("bert", "BertModel", ""), BERT_POOLED,
      "config.json's architectures name no head that tells any" },
    { CONFIG("bert", "BertForSequenceClassification", ""), BERT_POOLED,
      "the file has no tensor 'classifier.weight'" },
    { CONFIG("bert", "BertForSequenceClassification", ""), BERT("bert.") CLASSIFIER,
      "the file has no pooler, which its head of classes reads" },
    { CONFIG("bert", "BertForSequenceClassification", ",\"id2label\":{\"0\":\"a\",\"1\":\"b\"}"),
      BERT_POOLED CLASSIFIER, "id2label has 2 labels, and the head has 3 outputs" },
    { CONFIG("bert", "BertForTokenClassification", ""),
      BERT("bert.") "classifier.weight 65537x12, classifier.bias 65537, ",
      "the head of classes has 65537 outputs; expected at most 65536" },
    { CONFIG("bert", "BertForQuestionAnswering", ""),
      BERT("bert.") FORWARD_LINEAR("qa_outputs", 3, 12),
      "the head over answers has 3 outputs; expected 2" },
    { CONFIG("modernbert", "ModernBertForSequenceClassification",
             ",\"classifier_pooling\":\"sum\""),
      MODERNBERT CLASSIFIER, "classifier_pooling is 'sum', which is not computed here" },
};
enum { REFUSED_COUNT = sizeof REFUSED / sizeof REFUSED[0] };

/* A head that is not understood is a reason; traces answer without it. */
TEST(refused)
{
    char name[32], body[256];
    for (int i = 0; i < REFUSED_COUNT; i++) {
        snprintf(name, sizeof name, "refused%d", i);
        published_open(REFUSED[i].config, REFUSED[i].tensors, 2, "F32");
        published_save(fixture_path(name), REFUSED[i].config);
        published_close();
    }
    fixture_serve("--models", directory);
    for (int i = 0; i < REFUSED_COUNT; i++) {
        snprintf(body, sizeof body,
                 JSON({"model":"refused%d","layers":[],"outputs":["logits"],"tokens":[1,2]}), i);
        struct http_response response = http_client_post(&client, "/v1/trace", body);
        if (!strstr(response.body, REFUSED[i].words))
            fail_msg("%s has not '%s'", response.body, REFUSED[i].words);
        answer_expect_fault(&response, 400, "option", "/outputs");
        http_response_free(&response);
        snprintf(body, sizeof body, JSON({"model":"refused%d","layers":[0],"tokens":[1,2]}), i);
        cJSON_Delete(answer_post(&client, "/v1/trace", body));
    }
    fixture_stop(NULL);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
