/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_vectors.c - what the files of sentence-transformers beside a checkpoint say: modules,
 * and prompts.
 *
 *     modules.json                         [{"type": "...Transformer"}, {"type": "...Pooling"},
 * ...] <path>/config.json                   of Pooling and Dense <path>/model.safetensors of Dense
 *     sentence_bert_config.json            max_seq_length
 *     config_sentence_transformers.json    prompts
 *
 * Source: sentence_transformer/modules/pooling.py, base/modules/dense.py and normalize.py. A module
 * that is not known is refused by its name: the vector would be another. */
#include "models/checkpoint/checkpoint.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/model/model_forward.h"
#include "models/model/model_storage.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MODULES_MAX = 16, PROMPTS_MAX = 64, PROMPT_BYTES_MAX = 4096, PATH_NAME_MAX = 64 };
enum { FILE_BYTES = PATH_NAME_MAX + 40 };

struct vectors_reader {
    struct model *model;
    const char *folder, *root;
    struct model_vectors *vectors;
    struct model_dense *dense; /* [MODULES_MAX] */
    int64_t numbers;           /* in the files of Dense modules */
    int64_t width;             /* of the vector, up to the module that is read; 0: not pooled yet */
    char file[FILE_BYTES];     /* that is read, or was read last: "1_Pooling/config.json" */
    struct fault *fault;
};

/* -------------------------------------------------------------------- files -- */

/* The path of folder/sub/name; sub "" is the folder. False: there is no such file. A link that
 * leads out of root is a fault. */
static bool find_file(struct vectors_reader *reader, const char *sub, const char *name,
                      char path[PATH_MAX])
{
    snprintf(reader->file, sizeof reader->file, "%s%s%s", sub, sub[0] ? "/" : "", name);
    const int used = snprintf(path, PATH_MAX, "%s/%s", reader->folder, reader->file);
    if (used >= PATH_MAX || access(path, F_OK) != 0)
        return false;
    return !reader->root || model_mapping_is_inside(reader->root, path, reader->fault)
           || (reader->fault->code != FAULT_MEMORY
               && fault_set(reader->fault, FAULT_BINARY,
                            "'%s' is a symbolic link that leads out of the models' directory",
                            reader->file));
}

/* Reads a file of JSON whose root is of one kind; false with or without a fault. */
static bool read_file(struct vectors_reader *reader, const char *sub, const char *name,
                      bool is_list, struct json_document *document)
{
    const struct json_options options = { .nonfinite_allowed = true };
    char path[PATH_MAX];
    if (!find_file(reader, sub, name, path))
        return false;
    char *text = model_mapping_read_text(path, reader->fault);
    const bool is_read = text && json_read(document, text, strlen(text), &options, reader->fault);
    free(text);
    if (!is_read)
        return fault_name_file(reader->fault, reader->file);
    if (is_list ? cJSON_IsArray(document->root) : cJSON_IsObject(document->root))
        return true;
    fault_set(reader->fault, FAULT_TYPE, "%s is %s; expected %s", reader->file,
              json_kind(document, document->root), is_list ? "a list of modules" : "an object");
    json_free(document);
    return false;
}

/* The config of a module, which there has to be. */
static bool read_module_config(struct vectors_reader *reader, const char *sub,
                               struct json_document *document)
{
    return read_file(reader, sub, "config.json", false, document)
           || (reader->fault->code == FAULT_NONE
               && fault_set(reader->fault, FAULT_FIELD, "'%s' is missing", reader->file));
}

/* ------------------------------------------------------------------ pooling -- */

/* The names of a mode: in lists of the newer form, and of flags of the older one, in the order in
 * which they are joined. */
static const struct {
    const char *name, *flag;
} MODES[MODEL_POOLING_COUNT] = {
    [MODEL_POOLING_CLS] = { "cls", "pooling_mode_cls_token" },
    [MODEL_POOLING_MAX] = { "max", "pooling_mode_max_tokens" },
    [MODEL_POOLING_MEAN] = { "mean", "pooling_mode_mean_tokens" },
    [MODEL_POOLING_MEAN_SQRT_LEN] = { "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens" },
    [MODEL_POOLING_WEIGHTEDMEAN] = { "weightedmean", "pooling_mode_weightedmean_tokens" },
    [MODEL_POOLING_LAST] = { "lasttoken", "pooling_mode_lasttoken" },
};

static bool add_mode(const struct vectors_reader *reader, const cJSON *node)
{
    struct model_readout *readout = &reader->vectors->readout;
    const char *name = cJSON_IsString(node) ? node->valuestring : "";
    for (int i = 0; i < MODEL_POOLING_COUNT; i++)
        if (strcmp(name, MODES[i].name) == 0) {
            if (readout->pooling_count == MODEL_POOLING_COUNT)
                return fault_set(reader->fault, FAULT_OPTION, "%s's pooling_mode has over %d modes",
                                 reader->file, MODEL_POOLING_COUNT);
            readout->poolings[readout->pooling_count++] = (enum model_pooling)i;
            return true;
        }
    return fault_set(reader->fault, FAULT_OPTION, "%s's pooling_mode '%.40s' is not computed here",
                     reader->file, name);
}

static bool read_modes(const struct vectors_reader *reader, const cJSON *config)
{
    struct model_readout *readout = &reader->vectors->readout;
    const cJSON *modes = cJSON_GetObjectItemCaseSensitive(config, "pooling_mode"), *mode;
    bool is_set;
    if (modes && !cJSON_IsArray(modes))
        return add_mode(reader, modes);
    cJSON_ArrayForEach(mode, modes) {
        if (!add_mode(reader, mode))
            return false;
    }
    for (int i = 0; !modes && i < MODEL_POOLING_COUNT; i++) {
        if (!checkpoint_read_flag(config, MODES[i].flag, &is_set, reader->fault))
            return false;
        if (is_set)
            readout->poolings[readout->pooling_count++] = (enum model_pooling)i;
    }
    if (readout->pooling_count == 0)
        readout->poolings[readout->pooling_count++] = MODEL_POOLING_MEAN;
    return true;
}

static bool add_pooling(struct vectors_reader *reader, const char *sub)
{
    const int64_t rows = reader->model->forward->streams[0].width;
    struct json_document document;
    int64_t width;
    bool includes;
    if (reader->width > 0)
        return fault_set(reader->fault, FAULT_OPTION, "modules.json has two modules of Pooling");
    if (!read_module_config(reader, sub, &document))
        return false;
    const bool good =
        read_modes(reader, document.root)
        && checkpoint_read_integer(document.root, "embedding_dimension|word_embedding_dimension",
                                   &width, reader->fault)
        && checkpoint_read_flag(document.root, "include_prompt=true", &includes, reader->fault)
        && (width == rows
            || fault_set(reader->fault, FAULT_SHAPE,
                         "%s is of rows of %" PRId64 " columns; those of the model have %" PRId64,
                         reader->file, width, rows));
    json_free(&document);
    if (!good)
        return false;
    reader->vectors->leaves_prompt_out = !includes;
    reader->width = rows * reader->vectors->readout.pooling_count;
    return true;
}

/* -------------------------------------------------------------------- dense -- */

/* PyTorch's classes, by the ends of their names. */
static const struct {
    const char *name;
    enum attn_activation activation;
} FUNCTIONS[] = {
    { "Identity", ATTN_NO_ACTIVATION },
    { "Tanh", ATTN_TANH },
    { "GELU", ATTN_GELU },
    { "ReLU", ATTN_RELU },
    { "SiLU", ATTN_SILU },
};

static bool read_function(const struct vectors_reader *reader, const cJSON *config,
                          enum attn_activation *activation)
{
    const char *name;
    if (!checkpoint_read_string(config, "activation_function=torch.nn.modules.activation.Tanh",
                                &name, reader->fault))
        return false;
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof FUNCTIONS[0]; i++)
        if (strncmp(name, "torch.nn.", 9) == 0 && strcmp(dot + 1, FUNCTIONS[i].name) == 0) {
            *activation = FUNCTIONS[i].activation;
            return true;
        }
    return fault_set(reader->fault, FAULT_OPTION,
                     "%s's activation_function '%.60s' is not computed here", reader->file, name);
}

/* What else a Dense can be. */
static bool check_dense(const struct vectors_reader *reader, const cJSON *config)
{
    const char *input, *output;
    bool has_residual;
    if (!checkpoint_read_flag(config, "use_residual", &has_residual, reader->fault)
        || !checkpoint_read_string(config, "module_input_name=sentence_embedding", &input,
                                   reader->fault)
        || !checkpoint_read_string(config, "module_output_name=sentence_embedding", &output,
                                   reader->fault))
        return false;
    if (has_residual)
        return fault_set(reader->fault, FAULT_OPTION,
                         "%s: a Dense with use_residual is not computed here", reader->file);
    return (strcmp(input, "sentence_embedding") == 0 && strcmp(output, "sentence_embedding") == 0)
           || fault_set(reader->fault, FAULT_OPTION,
                        "%s: its Dense is of '%.40s', and not of the pooled vector", reader->file,
                        input);
}

static bool expect_shape(const struct vectors_reader *reader, const struct model_entry *entry,
                         int64_t out, int64_t in)
{
    const int rank = in > 0 ? 2 : 1;
    return (entry->rank == rank && entry->shape[0] == (uint64_t)out
            && (rank == 1 || entry->shape[1] == (uint64_t)in))
           || fault_set(reader->fault, FAULT_SHAPE,
                        "'%.60s' of its Dense is not of %" PRId64 " outputs%s", entry->name, out,
                        in > 0 ? " of the vector's width" : "");
}

/* Gets weight and bias. Numbers stay in the file, or are converted at once. */
static bool get_dense(const struct vectors_reader *reader, struct attn_linear *linear,
                      bool has_bias, const struct model_tensors *tensors)
{
    const struct model_slice all = { .groups = 0 };
    struct model_parameters parameters;
    const struct model_entry *weight =
        model_tensors_require(tensors, "linear.weight", reader->fault);
    const struct model_entry *bias =
        has_bias && weight ? model_tensors_require(tensors, "linear.bias", reader->fault) : NULL;
    if (!weight || (has_bias && !bias) || !expect_shape(reader, weight, linear->out, linear->in)
        || (bias && !expect_shape(reader, bias, linear->out, 0))
        || !model_parameters_init(&parameters, tensors, &reader->model->storage->arena, NULL,
                                  reader->fault))
        return false;
    const bool good =
        model_parameters_get_slice(&parameters, weight, &all, linear->in, false, &linear->weight,
                                   &linear->dtype, reader->fault)
        && (!bias || model_parameters_get(&parameters, bias, &linear->bias, reader->fault));
    model_parameters_free(&parameters);
    return good;
}

/* The model owns the file of the module as it owns its own. */
static void keep_mapping(struct model *model, struct model_mapping *mapping)
{
    struct model_mapping *last = model->storage->mapping;
    while (last->next)
        last = last->next;
    last->next = mapping;
}

static bool load_dense(struct vectors_reader *reader, const char *sub, struct attn_linear *linear,
                       bool has_bias)
{
    struct model_tensors tensors;
    char path[PATH_MAX];
    if (!find_file(reader, sub, "model.safetensors", path))
        return reader->fault->code == FAULT_NONE
               && fault_set(reader->fault, FAULT_FIELD,
                            "'%s' is missing; expected the parameters of its Dense as safetensors",
                            reader->file);
    if (!model_tensors_open(&tensors, path, reader->root, reader->fault))
        return fault_name_file(reader->fault, reader->file);
    const bool good = get_dense(reader, linear, has_bias, &tensors);
    if (good) {
        reader->numbers += model_tensors_count_numbers(&tensors);
        keep_mapping(reader->model, model_tensors_take_mapping(&tensors));
    }
    model_tensors_free(&tensors);
    return good || fault_name_file(reader->fault, reader->file);
}

static bool add_dense(struct vectors_reader *reader, const char *sub)
{
    struct model_dense *dense = &reader->dense[reader->vectors->readout.dense_count];
    struct json_document document;
    bool has_bias;
    if (!read_module_config(reader, sub, &document))
        return false;
    const bool good =
        check_dense(reader, document.root)
        && checkpoint_read_integer(document.root, "in_features", &dense->linear.in, reader->fault)
        && checkpoint_read_integer(document.root, "out_features", &dense->linear.out, reader->fault)
        && checkpoint_read_flag(document.root, "bias=true", &has_bias, reader->fault)
        && read_function(reader, document.root, &dense->activation)
        && (dense->linear.out >= 1
            || fault_set(reader->fault, FAULT_SHAPE,
                         "%s has out_features %" PRId64 "; expected 1 or more", reader->file,
                         dense->linear.out))
        && (dense->linear.in == reader->width
            || fault_set(reader->fault, FAULT_SHAPE,
                         "%s has in_features %" PRId64 "; what enters it has %" PRId64 " numbers",
                         reader->file, dense->linear.in, reader->width));
    json_free(&document);
    if (!good || !load_dense(reader, sub, &dense->linear, has_bias))
        return false;
    reader->vectors->readout.dense_count++;
    reader->width = dense->linear.out;
    return true;
}

/* ------------------------------------------------------------------ modules -- */

/* A module with a config is in a folder below the model's, whose own config.json is none of a
 * module. */
static bool check_folder(const struct vectors_reader *reader, const char *type, const char *path)
{
    return path[0]
           || fault_set(reader->fault, FAULT_OPTION,
                        "the path of its module '%.80s' is empty, so its config.json would be the "
                        "model's own; expected a folder's name, such as 1_Pooling",
                        type);
}

/* A module goes into a folder beside the model, of a plain name. */
static bool check_path(const struct vectors_reader *reader, const char *path)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return (strlen(path) <= PATH_NAME_MAX && path[strspn(path, PLAIN)] == '\0'
            && strcmp(path, ".") != 0 && strcmp(path, "..") != 0)
           || fault_set(reader->fault, FAULT_OPTION,
                        "the path '%.80s' of a module is no plain name of a folder", path);
}

static bool add_module(struct vectors_reader *reader, const cJSON *module, bool is_first)
{
    struct model_readout *readout = &reader->vectors->readout;
    const char *type, *path;
    snprintf(reader->file, sizeof reader->file, "modules.json");
    if (!cJSON_IsObject(module))
        return fault_set(reader->fault, FAULT_TYPE, "modules.json has a module that is no object");
    if (!checkpoint_read_string(module, "type=", &type, reader->fault)
        || !checkpoint_read_string(module, "path=", &path, reader->fault)
        || !check_path(reader, path))
        return false;
    const char *name = strrchr(type, '.') ? strrchr(type, '.') + 1 : type;
    if (is_first ? strcmp(name, "Transformer") == 0 : strcmp(name, "Dropout") == 0)
        return true;
    if (strcmp(name, "Pooling") == 0 && !is_first)
        return check_folder(reader, type, path) && add_pooling(reader, path);
    if (strcmp(name, "Dense") == 0 && reader->width > 0)
        return check_folder(reader, type, path) && add_dense(reader, path);
    if (strcmp(name, "Normalize") == 0 && reader->width > 0) {
        reader->dense[readout->dense_count++].is_unit = true;
        return true;
    }
    return fault_set(reader->fault, FAULT_OPTION,
                     "modules.json has a module '%.80s'%s, which is not computed here", type,
                     is_first ? " at its beginning" : "");
}

/* A last Normalize is not one of the layers: a request may want the vector without it. */
static void end_modules(struct vectors_reader *reader)
{
    struct model_readout *readout = &reader->vectors->readout;
    const int last = readout->dense_count - 1;
    if (last >= 0 && !reader->dense[last].linear.weight) {
        readout->is_unit = true;
        readout->dense_count--;
    }
    readout->width = reader->width;
}

static bool read_modules(struct vectors_reader *reader)
{
    struct json_document document;
    const cJSON *module;
    bool is_first = true, good = true;
    if (!read_file(reader, "", "modules.json", true, &document)) {
        char path[PATH_MAX];
        if (reader->fault->code != FAULT_NONE
            || !find_file(reader, "1_Pooling", "config.json", path)
            || !add_pooling(reader, "1_Pooling"))
            return reader->fault->code == FAULT_NONE;
        reader->vectors->source = "1_Pooling/config.json";
        end_modules(reader);
        return true;
    }
    if (cJSON_GetArraySize(document.root) > MODULES_MAX)
        good =
            fault_set(reader->fault, FAULT_OPTION, "modules.json has over %d modules", MODULES_MAX);
    cJSON_ArrayForEach(module, document.root) {
        good = good && add_module(reader, module, is_first);
        is_first = false;
    }
    json_free(&document);
    if (good && reader->width == 0)
        good = fault_set(reader->fault, FAULT_FIELD, "modules.json has no module Pooling");
    reader->vectors->source = "modules.json";
    if (good)
        end_modules(reader);
    return good;
}

/* ------------------------------------------------------------------ prompts -- */

static bool add_prompts(const struct vectors_reader *reader, const cJSON *list)
{
    struct arena *arena = &reader->model->storage->arena;
    struct model_vectors *vectors = reader->vectors;
    const cJSON *node;
    struct model_prompt *prompts = arena_calloc(arena, PROMPTS_MAX, sizeof *prompts);
    if (!prompts)
        return fault_no_memory(reader->fault);
    vectors->prompts = prompts;
    cJSON_ArrayForEach(node, list) {
        if (!cJSON_IsString(node) || strlen(node->valuestring) > PROMPT_BYTES_MAX
            || vectors->prompt_count == PROMPTS_MAX)
            return fault_set(reader->fault, FAULT_OPTION,
                             "config_sentence_transformers.json has prompts that are no strings of "
                             "at most %d bytes, or over %d of them",
                             PROMPT_BYTES_MAX, PROMPTS_MAX);
        struct model_prompt *prompt = &prompts[vectors->prompt_count];
        prompt->name = arena_strdup(arena, node->string);
        prompt->text = arena_strdup(arena, node->valuestring);
        if (!prompt->name || !prompt->text)
            return fault_no_memory(reader->fault);
        vectors->prompt_count++;
    }
    return true;
}

static bool read_beside(struct vectors_reader *reader)
{
    struct json_document document;
    bool good = true;
    if (read_file(reader, "", "sentence_bert_config.json", false, &document)) {
        good = checkpoint_read_integer(document.root, "max_seq_length",
                                       &reader->vectors->length_max, reader->fault);
        json_free(&document);
    }
    if (good && reader->fault->code == FAULT_NONE
        && read_file(reader, "", "config_sentence_transformers.json", false, &document)) {
        good = add_prompts(reader, checkpoint_find_object(document.root, "prompts"));
        json_free(&document);
    }
    return good && reader->fault->code == FAULT_NONE;
}

bool checkpoint_vectors_set(struct model *model, const char *folder, const char *root,
                            struct fault *fault)
{
    struct arena *arena = &model->storage->arena;
    struct fault why = { .code = FAULT_NONE };
    if (!model->forward || !model->storage->mapping)
        return true;
    struct vectors_reader reader = {
        .model = model,
        .folder = folder,
        .root = root,
        .vectors = arena_calloc(arena, 1, sizeof *reader.vectors),
        .dense = arena_calloc(arena, MODULES_MAX, sizeof *reader.dense),
        .fault = &why,
    };
    if (!reader.vectors || !reader.dense)
        return fault_no_memory(fault);
    reader.vectors->readout.dense = reader.dense;
    model->vectors = reader.vectors;
    if (read_modules(&reader) && read_beside(&reader)) {
        model->total_parameter_count += reader.numbers;
        return true;
    }
    if (why.code == FAULT_MEMORY)
        return fault_no_memory(fault);
    checkpoint_fields_name_file(&why, reader.file);
    reader.vectors->readout = (struct model_readout){ .width = 0 };
    reader.vectors->reason = arena_strdup(arena, why.message);
    return reader.vectors->reason || fault_no_memory(fault);
}
