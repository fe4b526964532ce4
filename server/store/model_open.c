/* model_open.c - see model_open.h.
 *
 * The parsed header and config are freed once a model is made. The layers stay, and the parts of
 * the file that they point at. */
#include "store/model_open.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_forward.h"
#include "checkpoint/checkpoint_pixels.h"
#include "model/model_config.h"
#include "model/model_layers.h"
#include "model/model_mapping.h"
#include "model/model_storage.h"
#include "model/model_tensors.h"
#include "tokenizer/tokenizer.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------- from bytes -- */

/* What a model is made of: its tensors, and a config of our own or a published checkpoint's. */
struct recipe {
    const struct model_tensors *tensors;
    const struct model_config *config;
    const struct checkpoint *checkpoint; /* NULL: the model has a config of our own */
};

static bool build(struct model **model, const char *name, const char *source,
                  const struct recipe *recipe, struct fault *fault)
{
    const struct checkpoint *checkpoint = recipe->checkpoint;
    struct model *made;
    struct model_parameters parameters;
    if (!model_storage_create(&made, name, source,
                              checkpoint ? checkpoint->layer_count : recipe->config->layers, fault))
        return false;
    made->attention = checkpoint ? "scaled_dot_product" : recipe->config->attention->name;
    bool good =
        model_parameters_init(&parameters, recipe->tensors, &made->storage->arena,
                              &made->storage->copies, fault)
        && (checkpoint ? checkpoint_build(made->layers, checkpoint, &parameters, fault)
                       : model_layers_build(made->layers, recipe->config, &parameters, fault));
    made->dtype = parameters.dtype;
    made->parameter_count = parameters.count;
    made->parameter_bytes = parameters.bytes;
    if (!checkpoint)
        made->forward_reason = "the model's config is attnd's own, which describes attention "
                               "layers only";
    else if (good)
        good = checkpoint_forward_build(&made->forward, &made->forward_reason, checkpoint,
                                        made->layers, &parameters, fault);
    model_parameters_free(&parameters);
    model_converted_sort(&made->storage->copies);
    if (good)
        *model = made;
    else
        model_release(made);
    return good;
}

/* With a config of our own: text, or where text is NULL what the metadata has under "attnd". */
static bool create_own(struct model **model, const char *name, const char *source,
                       const struct model_tensors *tensors, const char *text, struct fault *fault)
{
    const struct safetensors_pair *pair = safetensors_metadata(tensors->files, "attnd");
    struct model_config config;
    if (!text && !pair)
        return fault_set(fault, FAULT_FIELD,
                         "the file has no config: there is no \"attnd\" in its __metadata__");
    if (!model_config_read(&config, text ? text : pair->value,
                           text ? strlen(text) : pair->value_length, fault))
        return false;
    const struct recipe recipe = { .tensors = tensors, .config = &config };
    const bool good = build(model, name, source, &recipe, fault);
    model_config_free(&config);
    return good;
}

static bool create(struct model **model, const char *name, const char *source,
                   const struct model_tensors *tensors, const char *text, struct fault *fault)
{
    struct checkpoint checkpoint;
    bool is_published = false;
    if (text && !checkpoint_read(&checkpoint, text, &is_published, fault))
        return false;
    if (!is_published)
        return create_own(model, name, source, tensors, text, fault);
    const struct recipe recipe = { .tensors = tensors, .checkpoint = &checkpoint };
    const bool good =
        checkpoint_find(&checkpoint, tensors, fault) && build(model, name, source, &recipe, fault);
    checkpoint_free(&checkpoint);
    return good;
}

bool model_create(struct model **model, const char *name, const char *source, const void *bytes,
                  size_t size, const char *config, void (*release)(void *context), void *context,
                  struct fault *fault)
{
    struct model_tensors tensors;
    if (!model_tensors_read(&tensors, bytes, size, fault))
        return false;
    const bool good = create(model, name, source, &tensors, config, fault);
    model_tensors_free(&tensors);
    if (good) {
        (*model)->storage->release = release;
        (*model)->storage->context = context;
    }
    return good;
}

/* -------------------------------------------------------------- from disk -- */

/* From the shards of an index. The model then owns their mappings. */
static bool create_sharded(struct model **model, const char *name, const char *source,
                           const struct model_files *files, const char *config, struct fault *fault)
{
    struct model_tensors tensors;
    if (!model_tensors_open(&tensors, files->path, files->root, fault))
        return false;
    const bool good = create(model, name, source, &tensors, config, fault);
    if (good) {
        struct model_mapping *mapping = model_tensors_take_mapping(&tensors);
        (*model)->storage->release = model_mapping_free;
        (*model)->storage->context = mapping;
        (*model)->storage->mapping = mapping;
    }
    model_tensors_free(&tensors);
    return good;
}

static bool create_mapped(struct model **model, const char *name, const char *source,
                          const char *path, const char *config, struct fault *fault)
{
    struct model_mapping *mapping = model_mapping_create(path, fault);
    if (!mapping)
        return false;
    if (!model_create(model, name, source, mapping->bytes, mapping->size, config,
                      model_mapping_free, mapping, fault)) {
        model_mapping_free(mapping);
        return false;
    }
    (*model)->storage->mapping = mapping;
    return true;
}

static bool load(struct model **model, const char *name, const char *source,
                 const struct model_files *files, const char *config, struct fault *fault)
{
    if (!(model_tensors_is_index(files->path)
              ? create_sharded(model, name, source, files, config, fault)
              : create_mapped(model, name, source, files->path, config, fault)))
        return false;
    const char *damage = model_damage(*model);
    if (!damage)
        return true;
    model_release(*model);
    return fault_set(fault, FAULT_LOADING, "'%s' was not loaded: %s", files->path, damage);
}

/* Whether no link in the folder leads out of root; else the fault names one that does. */
static bool check_links(const char *folder, const char *root, struct fault *fault)
{
    bool good = true;
    DIR *stream = opendir(folder);
    const struct dirent *entry;
    while (good && stream && (entry = readdir(stream))) {
        char path[PATH_MAX];
        if (entry->d_name[0] == '.'
            || snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            continue;
        good = model_mapping_is_inside(root, path)
               || fault_set(fault, FAULT_BINARY,
                            "'%.80s' in its folder is a symbolic link that leads out of the "
                            "models' directory",
                            entry->d_name);
    }
    if (stream)
        closedir(stream);
    return good;
}

/* Its files may be refused: the model's attention answers without them, and the reason is kept. */
static bool open_tokenizer(struct model *model, const char *folder, const char *root,
                           struct fault *fault)
{
    struct fault refused = { .code = FAULT_NONE };
    if ((!root || check_links(folder, root, &refused))
        && tokenizer_open(&model->tokenizer, folder, &refused))
        return true;
    model->tokenizer_reason = arena_strdup(&model->storage->arena, refused.message);
    return model->tokenizer_reason || fault_no_memory(fault);
}

/* How a picture becomes pixels; folder NULL: the model's config lies in no folder. */
static bool open_pixels(struct model *model, const char *folder, const char *root,
                        struct fault *fault)
{
    struct fault refused = { .code = FAULT_NONE };
    char path[PATH_MAX], *text = NULL;
    const bool is_there =
        folder
        && snprintf(path, sizeof path, "%s/preprocessor_config.json", folder) < (int)sizeof path
        && access(path, F_OK) == 0;
    if (is_there && (!root || check_links(folder, root, &refused)))
        text = model_mapping_read_text(path, &refused);
    const bool good = checkpoint_pixels_set(
        model, text, refused.code == FAULT_NONE ? NULL : refused.message, fault);
    free(text);
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
    const bool good = (!slash || open_tokenizer(model, folder, files->root, fault))
                      && open_pixels(model, slash ? folder : NULL, files->root, fault);
    free(folder);
    return good;
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
    bool good = load(model, name, source, files, config ? config : files->config, fault);
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
