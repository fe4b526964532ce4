/* SPDX-License-Identifier: Apache-2.0 */
/* model_open.c - models from safetensors, and the two that are built in.
 *
 * The parsed header and config are freed once a model is made. The layers stay, and the parts of
 * the file that they point at. */
#include "models/store/model_open.h"

#include "formats/safetensors.h"
#include "models/checkpoint/checkpoint_gguf.h"
#include "models/model/model_config.h"
#include "models/model/model_forward.h"
#include "models/model/model_layers.h"
#include "models/model/model_mapping.h"
#include "models/model/model_storage.h"
#include "models/model/model_tensors.h"
#include "models/tokenizer/tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------------- from bytes -- */

/* What a model is called and configured by. */
struct naming {
    const char *name, *source;
    const char *config;    /* NULL: it is in the file's metadata */
    const char *file;      /* that config is in, "config.json"; NULL: in none */
    const char *no_config; /* said where that has none either */
    const char *path;      /* of the file with the parameters; NULL: it is in memory */
};

static const char NO_CONFIG[] = "the file has no config: there is no \"attnd\" in its __metadata__";

/* checkpoint: of a published checkpoint, of which config has the layers' number and score function;
 * NULL: config is all there is. */
static bool build_model(struct model **model, const struct naming *naming,
                        const struct model_tensors *tensors, const struct model_config *config,
                        const struct checkpoint *checkpoint, struct fault *fault)
{
    struct model *made;
    struct model_parameters parameters = { 0 };
    if (!model_storage_create(&made, naming->name, naming->source, config->layers, fault))
        return false;
    made->attention = config->attention->name;
    made->format = model_tensors_gguf(tensors) ? "gguf" : "safetensors";
    made->total_parameter_count = model_tensors_count_numbers(tensors);
    if (checkpoint)
        made->family = arena_strdup(&made->storage->arena, checkpoint->type);
    bool good = (!checkpoint || made->family || fault_no_memory(fault))
                && model_parameters_init(&parameters, tensors, &made->storage->arena,
                                         &made->storage->copies, fault)
                && (checkpoint ? checkpoint_build(made->layers, checkpoint, &parameters, fault)
                               : model_layers_build(made->layers, config, &parameters, fault));
    made->dtype = parameters.dtype;
    made->parameter_count = parameters.count;
    made->parameter_bytes = parameters.bytes;
    if (!checkpoint)
        made->forward_reason = "the model's config is attnd's own, which describes attention "
                               "layers only";
    else if (good)
        good = checkpoint_pass_build(&made->forward, &made->forward_reason, checkpoint,
                                     made->layers, &parameters, fault);
    model_parameters_free(&parameters);
    model_converted_sort(&made->storage->copies);
    if (good)
        *model = made;
    else
        model_release(made);
    return good;
}

/* Of a config that is read as our own because it does not say that it is published. Returns false.
 */
static bool refuse_own(const struct naming *naming, struct fault *fault)
{
    if (!naming->file || fault->code != FAULT_FIELD || strstr(naming->config, "\"attention\""))
        return false;
    return fault_set_at(fault, fault->pointer, fault->code,
                        "%s; where this is a published checkpoint: its %s has neither model_type "
                        "nor architectures",
                        fault->message, naming->file);
}

/* With a config of our own. */
static bool create_own(struct model **model, const struct naming *naming,
                       const struct model_tensors *tensors, struct fault *fault)
{
    size_t length = 0;
    const char *text = naming->config ? naming->config : model_tensors_config(tensors, &length);
    struct model_config config;
    if (!text)
        return fault_set(fault, FAULT_FIELD, "%s", naming->no_config);
    if (!model_config_read(&config, text, naming->config ? strlen(text) : length, fault))
        return refuse_own(naming, fault);
    const bool good = build_model(model, naming, tensors, &config, NULL, fault);
    model_config_free(&config);
    return good;
}

static bool create_published(struct model **model, const struct naming *naming,
                             const struct model_tensors *tensors, struct checkpoint *checkpoint,
                             struct fault *fault)
{
    bool good = checkpoint_find(checkpoint, tensors, fault);
    const struct model_config config = { .layers = checkpoint->layer_count,
                                         .attention = model_attention_find("scaled_dot_product") };
    good = good && build_model(model, naming, tensors, &config, checkpoint, fault);
    checkpoint_free(checkpoint);
    return good;
}

/* Whether every token of the vocabulary has a row in the model's tables. Added tokens may have
 * none: published tokenizers have such that represent pictures, or that fine-tuning adds. */
static bool check_tokenizer_fits(const struct model *model, struct fault *fault)
{
    const struct model_forward *forward = model->forward;
    if (!model->tokenizer)
        return true;
    const int64_t end = tokenizer_vocabulary_end(model->tokenizer);
    for (int i = 0; forward && i < forward->stream_count; i++) {
        const struct model_embedding *embedding = &forward->streams[i].embedding;
        if (embedding->input == MODEL_INPUT_TOKENS && end > embedding->tokens.count)
            return fault_set(fault, FAULT_SHAPE,
                             "%s has tokens with ids to %" PRId64
                             ", and the model has rows for %" PRId64
                             " tokens: it is another model's tokenizer",
                             tokenizer_file(model->tokenizer), end - 1, embedding->tokens.count);
    }
    return true;
}

/* A tokenizer may be refused: the model's attention answers without it, and the reason is kept. */
static bool drop_tokenizer(struct model *model, const struct fault *refused, struct fault *fault)
{
    if (refused->code == FAULT_MEMORY)
        return fault_no_memory(fault);
    tokenizer_free(model->tokenizer);
    model->tokenizer = NULL;
    model->tokenizer_reason = arena_strdup(&model->storage->arena, refused->message);
    return model->tokenizer_reason || fault_no_memory(fault);
}

/* The tokens that end a text: those that config names, and those that are called so. */
static bool set_ends(struct model *model, const char *config, struct fault *fault)
{
    int32_t ids[TOKENIZER_ENDS_MAX];
    char named[32 + 12 * TOKENIZER_ENDS_MAX] = "{\"eos_token_id\":[";
    const int count = tokenizer_ends(model->tokenizer, ids);
    size_t used = strlen(named);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(named + used, sizeof named - used, i > 0 ? ",%d" : "%d", ids[i]);
    snprintf(named + used, sizeof named - used, "]}");
    return checkpoint_ends_set(model, (const char *const[]){ config, named }, 2, tokenizer_find,
                               fault);
}

/* What the metadata says beside config, the config.json made of it: the tokenizer, and the tokens
 * that end a text. */
static bool open_metadata(struct model *model, const struct gguf *metadata,
                          const struct naming *naming, const char *config, struct fault *fault)
{
    struct fault refused = { .code = FAULT_NONE };
    const char *path = naming->path ? naming->path : naming->source;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    return ((tokenizer_open_gguf(&model->tokenizer, metadata, name, &refused)
             && check_tokenizer_fits(model, &refused))
            || drop_tokenizer(model, &refused, fault))
           && set_ends(model, config, fault) && checkpoint_gguf_vectors_set(model, metadata, fault);
}

/* Says that the config.json of a message is none that lies anywhere. */
static bool name_metadata(struct fault *fault)
{
    if (!strstr(fault->message, "config.json"))
        return false;
    return fault_set_at(fault, fault->pointer, fault->code,
                        "%.600s (of a GGUF file, config.json is what its metadata says)",
                        fault->message);
}

/* With the config that its metadata makes. */
static bool create_gguf(struct model **model, const struct naming *naming,
                        struct model_tensors *tensors, struct fault *fault)
{
    struct checkpoint checkpoint;
    char *config;
    if (!checkpoint_read_gguf(&checkpoint, &config, tensors, fault)
        || !create_published(model, naming, tensors, &checkpoint, fault)) {
        free(config);
        return name_metadata(fault);
    }
    const bool good = open_metadata(*model, model_tensors_gguf(tensors), naming, config, fault);
    free(config);
    if (!good)
        model_release(*model);
    return good;
}

static bool create_model(struct model **model, const struct naming *naming,
                         struct model_tensors *tensors, struct fault *fault)
{
    struct checkpoint checkpoint;
    bool is_published = false;
    if (!naming->config && model_tensors_gguf(tensors))
        return create_gguf(model, naming, tensors, fault);
    if (naming->config && !checkpoint_read(&checkpoint, naming->config, &is_published, fault))
        return naming->file ? fault_name_file(fault, naming->file) : false;
    return is_published ? create_published(model, naming, tensors, &checkpoint, fault)
                        : create_own(model, naming, tensors, fault);
}

bool model_create(struct model **model, const char *name, const char *source, const void *bytes,
                  size_t size, const char *config, void (*release)(void *context), void *context,
                  struct fault *fault)
{
    const struct naming naming = {
        .name = name, .source = source, .config = config, .no_config = NO_CONFIG
    };
    struct model_tensors tensors;
    if (!model_tensors_read(&tensors, bytes, size, fault))
        return false;
    const bool good = create_model(model, &naming, &tensors, fault);
    model_tensors_free(&tensors);
    if (good) {
        (*model)->storage->release = release;
        (*model)->storage->context = context;
    }
    return good;
}

/* -------------------------------------------------------------- from disk -- */

/* The model then owns the mappings of its files. */
static bool load_files(struct model **model, const struct naming *naming,
                       const struct model_files *files, struct fault *fault)
{
    struct model_tensors tensors;
    if (!model_tensors_open(&tensors, files->path, files->root, fault))
        return false;
    const bool good = create_model(model, naming, &tensors, fault);
    if (good) {
        struct model_mapping *mapping = model_tensors_take_mapping(&tensors);
        (*model)->storage->release = model_mapping_free;
        (*model)->storage->context = mapping;
        (*model)->storage->mapping = mapping;
    }
    model_tensors_free(&tensors);
    if (!good)
        return false;
    bool is_new;
    const char *damage = model_mapping_damage((*model)->storage->mapping, &is_new);
    if (!damage)
        return true;
    model_release(*model);
    return fault_set(fault, FAULT_LOADING, "'%s' was not loaded: %s", files->path, damage);
}

/* Whether no link in the folder leads out of root; else the fault names one that does. */
static bool check_links(const char *folder, const char *root, struct fault *fault)
{
    DIR *stream = opendir(folder);
    bool good = stream || !fault_from_shortage(fault, errno);
    const struct dirent *entry;
    while (good && stream && (entry = readdir(stream))) {
        char path[PATH_MAX];
        if (entry->d_name[0] == '.'
            || snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            continue;
        good = model_mapping_is_inside(root, path, fault)
               || (fault->code != FAULT_MEMORY
                   && fault_set(fault, FAULT_BINARY,
                                "'%.80s' in its folder is a symbolic link that leads out of the "
                                "models' directory",
                                entry->d_name));
    }
    if (stream)
        closedir(stream);
    return good;
}

static bool open_tokenizer(struct model *model, const char *folder, const char *root,
                           struct fault *fault)
{
    struct fault refused = { .code = FAULT_NONE };
    return ((!root || check_links(folder, root, &refused))
            && tokenizer_open(&model->tokenizer, folder, &refused)
            && check_tokenizer_fits(model, &refused))
           || drop_tokenizer(model, &refused, fault);
}

/* The text of a file in the folder, or NULL with the reason in refused; neither where there is no
 * such file, or folder is NULL. */
static char *read_beside(const char *folder, const char *root, const char *name,
                         struct fault *refused)
{
    char path[PATH_MAX];
    const bool is_there = folder
                          && snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path
                          && access(path, F_OK) == 0;
    return is_there && (!root || check_links(folder, root, refused))
               ? model_mapping_read_text(path, refused)
               : NULL;
}

/* What a file in the folder says, by the function that reads its text. */
static bool open_text(struct model *model, const char *folder, const char *root, const char *name,
                      bool (*set)(struct model *, const char *, const char *, struct fault *),
                      struct fault *fault)
{
    struct fault refused = { .code = FAULT_NONE };
    char *text = read_beside(folder, root, name, &refused);
    const bool good =
        refused.code == FAULT_MEMORY
            ? fault_no_memory(fault)
            : set(model, text, refused.code == FAULT_NONE ? NULL : refused.message, fault);
    free(text);
    return good;
}

/* The tokens that end a text: what the config and two files beside it say. */
static bool open_ends(struct model *model, const struct model_files *files, const char *folder,
                      struct fault *fault)
{
    static const char *const NAMES[] = { "config.json", "generation_config.json",
                                         "tokenizer_config.json" };
    struct fault refused = { .code = FAULT_NONE };
    char path[PATH_MAX], *texts[3] = { NULL };
    const bool is_inside = !files->root || check_links(folder, files->root, &refused);
    for (int i = 0; is_inside && i < 3; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]) < (int)sizeof path
            && access(path, F_OK) == 0)
            texts[i] = model_mapping_read_text(path, &refused);
    const bool good =
        refused.code == FAULT_MEMORY
            ? fault_no_memory(fault)
            : checkpoint_ends_set(model, (const char *const *)texts, 3, tokenizer_find, fault);
    for (int i = 0; i < 3; i++)
        free(texts[i]);
    return good;
}

/* What lies beside config.json. */
static bool open_beside(struct model *model, const struct model_files *files, struct fault *fault)
{
    char *folder = files->config_path ? strdup(files->config_path) : NULL;
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (files->config_path && !folder)
        return fault_no_memory(fault);
    if (slash)
        *slash = '\0';
    /* Without a folder, the config lies in none. */
    const char *beside = slash ? folder : NULL;
    const bool good = (!slash || open_tokenizer(model, folder, files->root, fault))
                      && open_text(model, beside, files->root, "preprocessor_config.json",
                                   checkpoint_pixels_set, fault)
                      && open_text(model, beside, files->root, "preprocessor_config.json",
                                   checkpoint_speech_set, fault)
                      && open_text(model, beside, files->root, "head_weights.json",
                                   checkpoint_head_weights_set, fault)
                      && open_text(model, beside, files->root, "generation_config.json",
                                   checkpoint_align_set, fault)
                      && (!slash || open_ends(model, files, folder, fault))
                      && (!slash || checkpoint_vectors_set(model, folder, files->root, fault));
    free(folder);
    return good;
}

/* Why files without a config have none. Where a models' directory holds files that are named as in
 * a published model's folder, it is likely to be that folder itself. */
static const char *missing_config(const struct model_files *files)
{
    static const char *const PATTERNS[] = { "model.safetensors", "consolidated.safetensors",
                                            "*-*-of-*.safetensors" };
    const char *slash = strrchr(files->path, '/');
    bool is_published = files->is_folder;
    for (size_t i = 0; i < sizeof PATTERNS / sizeof PATTERNS[0]; i++)
        is_published =
            is_published || fnmatch(PATTERNS[i], slash ? slash + 1 : files->path, 0) == 0;
    return is_published ? "config.json is missing beside the model's file, and there is no "
                          "\"attnd\" in that file's __metadata__"
                        : NO_CONFIG;
}

bool model_load_files(struct model **model, const char *name, const char *source,
                      const struct model_files *files, struct fault *fault)
{
    char *config = NULL;
    if (!files->config && files->config_path) {
        config = model_mapping_read_text(files->config_path, fault);
        if (!config)
            return false;
    }
    const char *slash = config ? strrchr(files->config_path, '/') : NULL;
    const struct naming naming = {
        .name = name,
        .source = source,
        .config = config ? config : files->config,
        .file = slash    ? slash + 1
                : config ? files->config_path
                         : NULL,
        .no_config = missing_config(files),
        .path = files->path,
    };
    bool good = load_files(model, &naming, files, fault);
    struct stat status;
    if (good && stat(files->path, &status) == 0)
        (*model)->created_s = (int64_t)status.st_mtime;
    free(config);
    if (good && !open_beside(*model, files, fault)) {
        model_release(*model);
        good = false;
    }
    return good;
}

bool model_load(struct model **model, const char *name, const char *source, const char *path,
                const char *config_path, struct fault *fault)
{
    const struct model_files files = { .path = path, .config_path = config_path };
    return model_load_files(model, name, source, &files, fault);
}

/* ---------------------------------------------------------------- built in -- */

/* The tutorial has four words of three numbers, and three matrices that it uses as x . W. They are
 * written to a safetensors file in memory, which is then opened like that of any other model. */
bool model_create_demo(struct model **model, struct fault *fault)
{
    static const float QUERY[] = { 2, 0, 2, 2, 0, 0, 2, 1, 2 };
    static const float KEY[] = { 2, 2, 2, 0, 2, 1, 0, 1, 1 };
    static const float VALUE[] = { 1, 1, 0, 0, 1, 1, 0, 0, 0 };
    static const struct safetensors_tensor TENSORS[] = {
        { "q_proj.weight", 2, { 3, 3 }, QUERY, NULL },
        { "k_proj.weight", 2, { 3, 3 }, KEY, NULL },
        { "v_proj.weight", 2, { 3, 3 }, VALUE, NULL },
    };
    static const char CONFIG[] = "{\"attention\":\"scaled_dot_product\",\"layout\":\"in_out\"}";
    void *bytes;
    size_t size;
    if (!safetensors_write(&bytes, &size, TENSORS, 3, "attnd", CONFIG, fault))
        return false;
    if (!model_create(model, "demo", "built-in", bytes, size, NULL, free, bytes, fault)) {
        free(bytes);
        return false;
    }
    (*model)->built_in = true;
    (*model)->format = "";
    return true;
}

bool model_create_sdpa(struct model **model, struct fault *fault)
{
    if (!model_storage_create(model, "sdpa", "built-in", 1, fault))
        return false;
    struct model *made = *model;
    made->attention = "scaled_dot_product";
    made->built_in = true;
    made->parameterless = true;
    made->forward_reason = "the model has no parameters";
    made->layers[0].options = attn_options_default(1);
    made->layers[0].d_query = made->layers[0].d_key = -1; /* open: each call has its own */
    made->layers[0].d_value = made->layers[0].d_out = -1;
    return true;
}
