/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_classes.c - the heads of families that tell classes: of a whole text, of each token,
 * or where an answer starts and ends. config.json's architectures say which head a file has.
 *
 * Source: transformers, models/<family>/modeling_<family>.py: BertForSequenceClassification and its
 * like; RobertaClassificationHead, ElectraClassificationHead, MPNetClassificationHead,
 * EsmClassificationHead; ModernBertPredictionHead; modeling_layers.py,
 * GenericForSequenceClassification and GenericForTokenClassification, of decoders;
 * Wav2Vec2ForSequenceClassification, Wav2Vec2ForAudioFrameClassification and Wav2Vec2ForCTC. */
#include "models/checkpoint/checkpoint_pass_internal.h"

#include "models/checkpoint/checkpoint_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS_MAX = 4, LABEL_BYTES = 32, CLASSES_MAX = 65536 };

/* A head is output(norm(activation(dense(x)))), where x is a row, or what the file's pooler makes
 * of the first one. Names are as in struct checkpoint_pass. */
struct classifier {
    const char *model_type;   /* NULL: of any other decoder */
    const char *architecture; /* the end of its class's name; */
    bool is_of_rows;          /* it reads each row */
    bool has_pooler;
    bool is_of_decoder;      /* that has an encoder */
    const char *pooling;     /* the field that says how rows are pooled, "=cls" */
    const char *dense;       /* NULL: none */
    const char *dense_bias;  /* a flag; NULL: it has one */
    const char *activation;  /* of dense */
    const char *norm;        /* behind it; NULL: none */
    const char *output;      /* it has a bias where the file has this tensor: */
    const char *output_bias; /* a whole name */
    bool has_layer_sum; /* where use_weighted_layer_sum is set it reads the rows of all blocks */
    bool are_letters;   /* of vocab.json */
};

#define OF_TEXT    .architecture = "ForSequenceClassification"
#define OF_TOKENS  .architecture = "ForTokenClassification", .is_of_rows = true
#define ANSWER     .architecture = "ForQuestionAnswering", .is_of_rows = true
#define PICTURE    .architecture = "ForImageClassification", .pooling = "=cls"
#define CLASSIFIER .output = "/classifier", .output_bias = "/classifier.bias"
#define OUT_CLASSIFIER                                                                             \
    .dense = "/classifier.dense", .output = "/classifier.out_proj",                                \
    .output_bias = "/classifier.out_proj.bias", .pooling = "=cls"
#define OF_SOUND "wav2vec2|hubert|wavlm"
#define SCORE    .output = "/score", .output_bias = "/score.bias"
#define SPAN     .output = "/qa_outputs", .output_bias = "/qa_outputs.bias"

#define MODERNBERT_HEAD                                                                            \
    .dense = "/head.dense", .dense_bias = "classifier_bias",                                       \
    .activation = "classifier_activation=gelu", .norm = "/head.norm"

static const struct classifier CLASSIFIERS[] = {
    { "bert|albert|jina_bert_v2|new|gte", OF_TEXT, .has_pooler = true, CLASSIFIER },
    { "roberta|xlm-roberta|camembert|mpnet|esm", OF_TEXT, OUT_CLASSIFIER, .activation = "=tanh" },
    { "electra", OF_TEXT, OUT_CLASSIFIER, .activation = "=gelu" },
    { "distilbert", OF_TEXT, .pooling = "=cls", .dense = "/pre_classifier", .activation = "=relu",
      CLASSIFIER },
    { "deberta-v2", OF_TEXT, .pooling = "=cls", .dense = "/pooler.dense",
      .activation = "pooler_hidden_act=gelu", CLASSIFIER },
    { "modernbert", OF_TEXT, .pooling = "classifier_pooling=cls", MODERNBERT_HEAD, CLASSIFIER },
    { "modernbert", OF_TOKENS, MODERNBERT_HEAD, CLASSIFIER },
    { "bert|albert|jina_bert_v2|new|gte|roberta|xlm-roberta|camembert|mpnet|esm|electra|distilbert|"
      "deberta-v2",
      OF_TOKENS, CLASSIFIER },
    { "bert|albert|jina_bert_v2|new|gte|roberta|xlm-roberta|camembert|mpnet|electra|distilbert|"
      "deberta-v2",
      ANSWER, SPAN },
    { "vit|deit", PICTURE, CLASSIFIER },
    { OF_SOUND, OF_TEXT, .pooling = "=mean", .dense = "/projector", .activation = "=linear",
      CLASSIFIER, .has_layer_sum = true },
    { OF_SOUND, .architecture = "ForAudioFrameClassification", .is_of_rows = true, CLASSIFIER,
      .has_layer_sum = true },
    { OF_SOUND, .architecture = "ForCTC", .is_of_rows = true, .output = "/lm_head",
      .output_bias = "/lm_head.bias", .are_letters = true },
    { "bart|mbart", OF_TEXT, .is_of_decoder = true, .pooling = "=last",
      .dense = "/classification_head.dense", .activation = "=tanh",
      .output = "/classification_head.out_proj",
      .output_bias = "/classification_head.out_proj.bias" },
    { "gpt2|gpt_neox|bloom|mpt|falcon", OF_TOKENS, CLASSIFIER },
    { NULL, OF_TEXT, .pooling = "=last", SCORE },
    { NULL, OF_TOKENS, SCORE },
    { NULL, ANSWER, SPAN },
};

/* ---------------------------------------------------------------------- finding -- */

/* The first of architectures; "": none. */
static const char *architecture_of(const struct checkpoint_pass_reader *reader)
{
    const cJSON *list =
        cJSON_GetObjectItemCaseSensitive(reader->run->document->root, "architectures");
    const cJSON *first = cJSON_IsArray(list) ? list->child : NULL;
    return cJSON_IsString(first) ? first->valuestring : "";
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), ending_length = strlen(ending);
    return length >= ending_length && strcmp(name + length - ending_length, ending) == 0;
}

/* is_causal: of the stack's attention. */
static const struct classifier *find_classifier(const struct checkpoint_pass_reader *reader,
                                                const char *architecture, bool is_causal)
{
    const bool has_encoder = reader->pass.cross_kind != NULL;
    for (size_t i = 0; i < sizeof CLASSIFIERS / sizeof CLASSIFIERS[0]; i++) {
        const struct classifier *classifier = &CLASSIFIERS[i];
        if (ends_with(architecture, classifier->architecture)
            && classifier->is_of_decoder == has_encoder
            && (classifier->model_type
                    ? checkpoint_has_type(classifier->model_type, reader->checkpoint_type)
                    : is_causal))
            return classifier;
    }
    return NULL;
}

/* Whether the name of a class says that it has such a head. */
static bool is_classifier(const char *architecture)
{
    for (size_t i = 0; i < sizeof CLASSIFIERS / sizeof CLASSIFIERS[0]; i++)
        if (ends_with(architecture, CLASSIFIERS[i].architecture))
            return true;
    return false;
}

/* ----------------------------------------------------------------------- labels -- */

/* "LABEL_3", where id2label says nothing. */
static const char *default_label(struct arena *arena, int64_t i)
{
    char label[LABEL_BYTES];
    snprintf(label, sizeof label, "LABEL_%" PRId64, i);
    return arena_strdup(arena, label);
}

static bool read_labels(struct model_classes *classes, const struct checkpoint_pass_reader *reader,
                        const cJSON *root)
{
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(root, "id2label");
    struct arena *arena = reader->parameters->arena;
    const char **labels = arena_calloc(arena, (size_t)classes->count, sizeof *labels);
    if (!labels)
        return fault_no_memory(reader->fault);
    classes->labels = labels;
    if (classes->are_letters)
        names = NULL;
    if (cJSON_IsObject(names) && cJSON_GetArraySize(names) != classes->count)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "config.json's id2label has %d labels, and the head has %" PRId64
                         " outputs",
                         cJSON_GetArraySize(names), classes->count);
    for (int64_t i = 0; i < classes->count; i++) {
        char key[LABEL_BYTES];
        snprintf(key, sizeof key, "%" PRId64, i);
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(names, key);
        labels[i] =
            cJSON_IsString(name) ? arena_strdup(arena, name->valuestring) : default_label(arena, i);
        if (!labels[i])
            return fault_no_memory(reader->fault);
    }
    return true;
}

/* As pipelines/text_classification.py chooses, where nobody asks for another. */
static bool read_problem(struct model_classes *classes, const struct checkpoint_pass_reader *reader,
                         const cJSON *root)
{
    const char *problem;
    if (!checkpoint_read_string(root, "problem_type=", &problem, reader->fault))
        return false;
    classes->activation = strcmp(problem, "regression") == 0 ? MODEL_CLASSES_NONE
                          : strcmp(problem, "multi_label_classification") == 0
                                  || (classes->count == 1 && !classes->is_of_rows)
                              ? MODEL_CLASSES_SIGMOID
                              : MODEL_CLASSES_SOFTMAX;
    return true;
}

/* Of each token how much an answer starts, and ends, with it. */
static bool set_answer(struct model_classes *classes, const struct checkpoint_pass_reader *reader)
{
    static const char *const LABELS[] = { "start", "end" };
    classes->labels = LABELS;
    classes->activation = MODEL_CLASSES_NONE;
    return classes->count == 2
           || fault_set(reader->fault, FAULT_SHAPE,
                        "the head over answers has %" PRId64 " outputs; expected 2",
                        classes->count);
}

/* --------------------------------------------------------------------- building -- */

static bool read_pooling(struct model_readout *readout, const struct classifier *classifier,
                         const struct checkpoint_pass_reader *reader)
{
    const char *name;
    if (!classifier->pooling)
        return true;
    if (!checkpoint_read_string(reader->run->section, classifier->pooling, &name, reader->fault))
        return false;
    for (int i = 0; i < MODEL_POOLING_COUNT; i++)
        if (strcmp(model_pooling_names[i], name) == 0) {
            readout->poolings[0] = (enum model_pooling)i;
            readout->pooling_count = 1;
            return true;
        }
    return fault_set(reader->fault, FAULT_OPTION,
                     "config.json's %.*s is '%.40s', which is not computed here",
                     CHECKPOINT_FIELD_NAME(reader->run->section, classifier->pooling), name);
}

/* Begins with what the file's own pooler does. */
static bool take_pooler(struct model_readout *readout, struct model_dense *dense,
                        const struct model_readout *pooler,
                        const struct checkpoint_pass_reader *reader)
{
    if (pooler->width == 0)
        return fault_set(reader->fault, FAULT_FIELD,
                         "the file has no pooler, which its head of classes reads");
    *readout = *pooler;
    memcpy(dense, pooler->dense, (size_t)pooler->dense_count * sizeof *dense);
    return true;
}

static bool build_dense(struct model_dense *dense, const struct classifier *classifier,
                        struct checkpoint_pass_reader *reader, int64_t width)
{
    const cJSON *section = reader->run->section;
    bool has_bias = true;
    return (!classifier->dense_bias
            || checkpoint_read_flag(section, classifier->dense_bias, &has_bias, reader->fault))
           && checkpoint_pass_linear(reader, &dense->linear, classifier->dense, 0, width, false,
                                     has_bias)
           && checkpoint_read_activation(section, classifier->activation, &dense->activation,
                                         reader->fault)
           && checkpoint_pass_norm(reader, &dense->norm, classifier->norm, dense->linear.out);
}

/* The softmax of layer_weights, a number for the rows that enter each block and one for the last.
 */
static bool read_layer_sum(struct model_classes *classes, struct checkpoint_pass_reader *reader,
                           int64_t blocks)
{
    const float *numbers;
    bool is_sum;
    if (!checkpoint_read_flag(reader->run->document->root, "use_weighted_layer_sum", &is_sum,
                              reader->fault))
        return false;
    if (!is_sum)
        return true;
    float *weights = arena_alloc(reader->parameters->arena, (size_t)(blocks + 1) * sizeof *weights);
    if (!weights)
        return fault_no_memory(reader->fault);
    if (!checkpoint_pass_values_now(reader, &numbers, "/layer_weights", blocks + 1))
        return false;
    model_classes_activate(MODEL_CLASSES_SOFTMAX, numbers, blocks + 1, weights);
    classes->layer_weights = weights;
    return true;
}

static bool build_classes(struct model_classes *classes, const struct classifier *classifier,
                          const struct model_readout *pooler, struct checkpoint_pass_reader *reader,
                          const struct model_stream *stream)
{
    int64_t width = stream->width;
    const cJSON *root = reader->run->document->root;
    struct model_readout *readout = &classes->readout;
    struct model_dense *dense = arena_calloc(reader->parameters->arena, LAYERS_MAX, sizeof *dense);
    if (!dense)
        return fault_no_memory(reader->fault);
    if (classifier->has_pooler) {
        if (!take_pooler(readout, dense, pooler, reader))
            return false;
        width = pooler->width;
    }
    if (!read_pooling(readout, classifier, reader)
        || (classifier->has_layer_sum && !read_layer_sum(classes, reader, stream->block_count)))
        return false;
    if (classifier->dense) {
        if (!build_dense(&dense[readout->dense_count], classifier, reader, width))
            return false;
        width = dense[readout->dense_count++].linear.out;
    }
    struct attn_linear *output = &dense[readout->dense_count++].linear;
    if (!checkpoint_pass_linear(reader, output, classifier->output, 0, width, false,
                                checkpoint_pass_has_values(reader, classifier->output_bias)))
        return false;
    if (output->out > CLASSES_MAX)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "the head of classes has %" PRId64 " outputs; expected at most %d",
                         output->out, CLASSES_MAX);
    readout->dense = dense;
    readout->width = classes->count = output->out;
    classes->is_of_rows = classifier->is_of_rows;
    classes->are_letters = classifier->are_letters;
    return strcmp(classifier->architecture, "ForQuestionAnswering") == 0
               ? set_answer(classes, reader)
               : read_problem(classes, reader, root) && read_labels(classes, reader, root);
}

bool checkpoint_classes_build(struct model_forward *forward, int stream,
                              struct checkpoint_pass_reader *reader, bool is_causal)
{
    const char *architecture = architecture_of(reader);
    const struct classifier *classifier = find_classifier(reader, architecture, is_causal);
    struct model_classes classes = { .stream = stream };
    struct fault why = { .code = FAULT_NONE }, *fault = reader->fault;
    if (!is_classifier(architecture))
        return true;
    reader->fault = &why;
    const bool good =
        classifier ? build_classes(&classes, classifier, &forward->poolers[stream], reader,
                                   &forward->streams[stream])
                   : fault_set(&why, FAULT_OPTION,
                               "the head of a '%.60s' of model_type '%.24s' is not computed here",
                               architecture, reader->checkpoint_type);
    reader->fault = fault;
    if (good) {
        forward->classes = classes;
        return true;
    }
    if (why.code == FAULT_MEMORY)
        return fault_no_memory(fault);
    forward->classes_reason = arena_strdup(reader->parameters->arena, why.message);
    return forward->classes_reason || fault_no_memory(fault);
}
