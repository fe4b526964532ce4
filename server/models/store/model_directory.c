/* SPDX-License-Identifier: Apache-2.0 */
/* model_directory.c - what each file and folder of the directory is, and why it is no model. */
#include "models/store/model_directory.h"

#include "base/dtype.h"
#include "formats/foreign_form.h"
#include "models/model/model.h"
#include "models/store/model_gguf_files.h"
#include "models/store/model_paths.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_ENDING ".safetensors"

enum { PROBLEM_BYTES = 320 };

/* The path of name in folder; NULL: it is not there. Sets *failed where there is no memory. */
static const char *find_path(struct arena *arena, const char *folder, const char *name,
                             bool *failed)
{
    struct stat status;
    const char *path = model_paths_join(arena, folder, name);
    *failed = *failed || !path;
    return path && stat(path, &status) == 0 ? path : NULL;
}

/* ----------------------------------------------------------- fingerprints -- */

/* FNV-1a, one number at a time. */
static uint64_t mix_hash(uint64_t hash, uint64_t number)
{
    return (hash ^ number) * 0x100000001b3u;
}

/* Of the file at path and of name. 0: the file is not there. */
static uint64_t fingerprint_of_file(const char *path, const char *name)
{
    struct stat status;
    uint64_t hash = 0xcbf29ce484222325u;
    if (!path || stat(path, &status) != 0)
        return 0;
    for (; *name; name++)
        hash = mix_hash(hash, (unsigned char)*name);
    hash = mix_hash(hash, status.st_ino);
    hash = mix_hash(hash, (uint64_t)status.st_size);
    hash = mix_hash(hash, (uint64_t)status.st_mtim.tv_sec);
    return mix_hash(hash, (uint64_t)status.st_mtim.tv_nsec);
}

uint64_t model_directory_fingerprint(const char *path)
{
    return fingerprint_of_file(path, "");
}

/* A sum over all files in folder, and where depth is above 0 in folders in it whose names begin
 * with a digit, so that the order of the listing does not matter. All files count, because a file
 * such as a shard changes the model too, and so does one of a module, 1_Pooling/config.json. */
static uint64_t fingerprint_of_folder(struct arena *arena, const char *folder, int depth)
{
    uint64_t sum = 0;
    DIR *stream = folder ? opendir(folder) : NULL;
    const struct dirent *entry;
    while (stream && (entry = readdir(stream)))
        if (entry->d_name[0] != '.') {
            const char *path = model_paths_join(arena, folder, entry->d_name);
            sum += fingerprint_of_file(path, entry->d_name);
            if (depth > 0 && entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
                sum += fingerprint_of_folder(arena, path, depth - 1);
        }
    if (stream)
        closedir(stream);
    return sum;
}

/* ----------------------------------------------------------------- places -- */

/* A text in the arena, cut at PROBLEM_BYTES; NULL: no memory, and *failed is set. */
__attribute__((format(printf, 3, 4))) static const char *
write_problem(struct arena *arena, bool *failed, const char *format, ...)
{
    char *text = arena_alloc(arena, PROBLEM_BYTES);
    va_list arguments;
    *failed = *failed || !text;
    va_start(arguments, format);
    if (text)
        vsnprintf(text, PROBLEM_BYTES, format, arguments);
    va_end(arguments);
    return text;
}

static const char *foreign_problem(struct arena *arena, const char *before, const char *file_name,
                                   bool *failed)
{
    return write_problem(arena, failed,
                         "%s'%.80s' is %s, which is not read: save the model as safetensors, its "
                         "parameters " DTYPE_NUMBERS,
                         before, file_name, foreign_form_of_name(file_name));
}

#define NO_FILE                                                                                    \
    "the directory holds no model.safetensors, nor its index and shards, nor a GGUF file"

/* Of a folder whose safetensors has another name than those that are read. */
static const char *name_problem(struct arena *arena, const char *file_name, bool *failed)
{
    if (fnmatch("adapter_*", file_name, 0) == 0)
        return write_problem(arena, failed,
                             "the directory holds '%.80s', an adapter of PEFT, and not its model: "
                             "merge both (merge_and_unload() of PEFT) and save that",
                             file_name);
    return fnmatch("*-*-of-*" FILE_ENDING, file_name, 0) == 0
               ? write_problem(arena, failed,
                               "the directory holds '%.80s', a shard, and not the index that names "
                               "all shards, model.safetensors.index.json: download that too",
                               file_name)
               : write_problem(arena, failed,
                               NO_FILE "; where '%.80s' is the whole model, rename it "
                                       "model.safetensors",
                               file_name);
}

/* The first of these names that folder has; NULL where it has none. */
static const char *find_one(struct arena *arena, const char *folder, const char *const names[2],
                            bool *failed)
{
    const char *path = find_path(arena, folder, names[0], failed);
    return path ? path : find_path(arena, folder, names[1], failed);
}

/* Of a folder with a link of one of these names that leads nowhere, as a copy of the hub's cache
 * without its blobs has. NULL where it has none. */
static const char *link_problem(struct arena *arena, const char *folder, const char *const names[2],
                                bool *failed)
{
    for (int i = 0; i < 2; i++) {
        struct stat status;
        const char *path = model_paths_join(arena, folder, names[i]);
        *failed = *failed || !path;
        if (path && lstat(path, &status) == 0 && S_ISLNK(status.st_mode)
            && stat(path, &status) != 0)
            return write_problem(arena, failed,
                                 "'%.80s' is a link that leads nowhere: put the file there that it "
                                 "stands for",
                                 names[i]);
    }
    return NULL;
}

/* Of a folder as a publisher's, org/name/: the model lies in a folder of it. Links are left out,
 * because they may lead out of the models' directory. NULL where no folder of it has a model. */
static const char *deeper_problem(struct arena *arena, const char *folder, bool *failed)
{
    static const char *const FILES[] = { "model.safetensors", "model.safetensors.index.json" };
    const char *text = NULL, *ignored;
    DIR *stream = model_paths_open_folder(folder, failed);
    const struct dirent *entry;
    while (!text && !*failed && stream && (entry = readdir(stream))) {
        if (entry->d_name[0] == '.' || entry->d_type == DT_LNK)
            continue;
        const char *inner = model_paths_join(arena, folder, entry->d_name);
        *failed = *failed || !inner;
        if (!inner || !model_paths_is_folder(inner)
            || (!find_one(arena, inner, FILES, failed)
                && !model_gguf_find_only(arena, inner, &ignored, failed)))
            continue;
        text = write_problem(arena, failed,
                             NO_FILE "; its folder '%.80s' does: move that one up, or give this "
                                     "directory as --models",
                             entry->d_name);
    }
    if (stream)
        closedir(stream);
    return text;
}

/* Why a folder without the files of a model holds none; names a safetensors of another name, a
 * file of another form or a folder with a model that it has. */
static const char *folder_problem(struct arena *arena, const char *folder, bool *failed)
{
    char found[NAME_MAX + 1] = "", own[NAME_MAX + 1] = "", projector[NAME_MAX + 1] = "";
    DIR *stream = model_paths_open_folder(folder, failed);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream))) {
        const char *name = entry->d_name;
        const char *ending = strrchr(name, '.');
        if (name[0] == '.')
            continue;
        if (strcmp(ending ? ending : "", FILE_ENDING) == 0 && (!own[0] || strcmp(name, own) < 0))
            snprintf(own, sizeof own, "%s", name);
        if (fnmatch("mmproj*.gguf", name, FNM_CASEFOLD) == 0)
            snprintf(projector, sizeof projector, "%s", name);
        if (foreign_form_of_name(name) && (!found[0] || foreign_form_is_better(name, found)))
            snprintf(found, sizeof found, "%s", name);
    }
    if (stream)
        closedir(stream);
    if (own[0])
        return name_problem(arena, own, failed);
    if (found[0])
        return foreign_problem(arena, NO_FILE "; its ", found, failed);
    if (projector[0])
        return write_problem(arena, failed,
                             "the directory holds '%.80s', a projector of pictures, and not its "
                             "model: copy that GGUF file too",
                             projector);
    const char *deeper = deeper_problem(arena, folder, failed);
    return deeper ? deeper : NO_FILE;
}

/* Whether folder holds files of a model, whose paths go to place: files named as in Hugging Face's
 * repositories, else as in Meta's and Mistral's own releases. */
static bool has_files(struct arena *arena, struct model_place *place, const char *folder,
                      bool *failed)
{
    static const char *const FILES[] = { "model.safetensors", "model.safetensors.index.json" };
    static const char *const OWN_FILES[] = { "consolidated.safetensors",
                                             "consolidated.safetensors.index.json" };
    static const char *const OWN_CONFIGS[] = { "params.json", "config.json" };
    const char *broken = NULL;
    place->config_path = find_path(arena, folder, "config.json", failed);
    place->path = find_one(arena, folder, FILES, failed);
    if (!place->path) {
        place->path = find_one(arena, folder, OWN_FILES, failed);
        if (place->path)
            place->config_path = find_one(arena, folder, OWN_CONFIGS, failed);
    }
    if (!place->path && (place->path = model_gguf_find_only(arena, folder, &broken, failed)))
        place->config_path = NULL; /* the metadata is the config */
    if (!place->path && !broken)
        broken = link_problem(arena, folder, FILES, failed);
    if (!place->path && !broken)
        broken = link_problem(arena, folder, OWN_FILES, failed);
    if (!place->config_path && !broken)
        broken = link_problem(arena, folder, OWN_CONFIGS, failed);
    if (broken || !place->path)
        place->problem = broken ? broken : folder_problem(arena, folder, failed);
    return place->config_path || place->path;
}

bool model_directory_look(struct arena *arena, struct model_place *place, const char *folder)
{
    bool failed = false;
    const char *highest = NULL;
    int64_t version = 0;
    const char *snapshot = model_hub_snapshot(arena, folder, &failed);
    if (has_files(arena, place, snapshot ? snapshot : folder, &failed) || snapshot)
        return !failed;
    DIR *stream = model_paths_open_folder(folder, &failed);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream)))
        if (model_paths_version(entry->d_name) > version) {
            const char *path = find_path(arena, folder, entry->d_name, &failed);
            if (!model_paths_is_folder(path))
                continue;
            version = model_paths_version(entry->d_name);
            highest = path;
        }
    if (stream)
        closedir(stream);
    if (highest) {
        place->problem = NULL;
        has_files(arena, place, highest, &failed);
    }
    return !failed;
}

/* A link that leads out of the models' directory is a problem of its place, and then the only one:
 * what lies outside is not named. False: no memory. */
static bool check_inside(struct model_directory *directory, struct model_place *place,
                         const char *path)
{
    char *real = path ? realpath(path, NULL) : NULL;
    const size_t length = directory->root ? strlen(directory->root) : 0;
    bool good = !path || real || errno != ENOMEM;
    place->root = directory->root;
    if (real && length > 1
        && (strncmp(real, directory->root, length) != 0
            || (real[length] != '/' && real[length] != '\0'))) {
        const size_t size = strlen(path) + 64;
        char *text = arena_alloc(&directory->arena, size);
        good = text != NULL;
        if (text)
            snprintf(text, size, "'%s' leads out of the models' directory", path);
        place->problem = text;
    }
    free(real);
    return good;
}

static bool add_place(struct model_directory *directory, const struct model_place *place)
{
    struct model_place *places =
        realloc(directory->places, (size_t)(directory->count + 1) * sizeof *places);
    if (!places)
        return false;
    directory->places = places;
    places[directory->count++] = *place;
    return true;
}

/* Adds the place of one model's folder, or of one version's. False: no memory. */
static bool add_folder_place(struct model_directory *directory, struct model_place *place)
{
    place->fingerprint = fingerprint_of_folder(&directory->arena, place->source, 1);
    return check_inside(directory, place, place->path ? place->path : place->source)
           && check_inside(directory, place, place->config_path) && add_place(directory, place);
}

static bool add_version(struct model_directory *directory, const char *name, const char *folder,
                        const char *number)
{
    bool failed = false;
    struct model_place place = {
        .name = name,
        .version = model_paths_version(number),
        .is_folder = true,
        .source = model_paths_join(&directory->arena, folder, number),
    };
    if (!place.source)
        return false;
    if (!model_paths_is_folder(place.source))
        return true;
    has_files(&directory->arena, &place, place.source, &failed);
    return !failed && add_folder_place(directory, &place);
}

/* Adds a folder: one model, or numbered versions of one, or a place with a problem. */
static bool add_folder(struct model_directory *directory, const char *name, const char *folder)
{
    bool failed = false;
    const char *snapshot = model_hub_snapshot(&directory->arena, folder, &failed);
    struct model_place place = {
        .name = name, .version = 1, .is_folder = true, .source = snapshot ? snapshot : folder
    };
    if (has_files(&directory->arena, &place, place.source, &failed) || snapshot || failed)
        return !failed && add_folder_place(directory, &place);
    const int64_t count = directory->count;
    DIR *stream = model_paths_open_folder(folder, &failed);
    const struct dirent *entry;
    while (!failed && stream && (entry = readdir(stream)))
        if (model_paths_version(entry->d_name) > 0)
            failed = !add_version(directory, name, folder, entry->d_name);
    if (stream)
        closedir(stream);
    return !failed && (directory->count > count || add_folder_place(directory, &place));
}

static bool add_file(struct model_directory *directory, const char *name, const char *path)
{
    struct model_place place = {
        .name = name,
        .version = 1,
        .source = path,
        .path = path,
        .fingerprint = model_directory_fingerprint(path),
    };
    return check_inside(directory, &place, path) && add_place(directory, &place);
}

/* Of all parts of a GGUF file, the first of which lies at path. */
static uint64_t fingerprint_of_parts(struct arena *arena, const char *path)
{
    struct model_gguf_name name;
    const char *file_name = strrchr(path, '/') + 1;
    uint64_t sum = 0;
    if (!model_gguf_name(file_name, &name))
        return 0;
    char *part = arena_strdup(arena, path);
    for (int64_t i = 1; part && i <= name.count; i++) {
        if (name.count > 1) /* the digits of the number, between two dashes */
            snprintf(part + (file_name - path) + name.length, sizeof "-00001-of-00003.gguf",
                     "-%05d-of-%05d.gguf", (int)i, (int)name.count);
        sum += fingerprint_of_file(part, "");
    }
    return sum;
}

/* Adds a GGUF file, whole or the first of its parts. */
static bool add_gguf(struct model_directory *directory, const char *name, const char *path)
{
    struct model_place place = {
        .name = name,
        .version = 1,
        .source = path,
        .path = path,
        .fingerprint = fingerprint_of_parts(&directory->arena, path),
    };
    return check_inside(directory, &place, path) && add_place(directory, &place);
}

/* ------------------------------------------------------------------ names -- */

/* Folders among models that hold none: the hub's cache of other things, and what a file
 * system makes. */
static bool is_no_model(const char *name)
{
    static const char *const BEGINNINGS[] = { "datasets--", "spaces--", "lost+found" };
    for (size_t i = 0; i < sizeof BEGINNINGS / sizeof BEGINNINGS[0]; i++)
        if (strncmp(name, BEGINNINGS[i], strlen(BEGINNINGS[i])) == 0)
            return true;
    return false;
}

/* Adds a model whose name no model can have, with that as its problem. False: no memory. */
static bool add_misnamed(struct model_directory *directory, const char *name, const char *source)
{
    static const char PROBLEM[] =
        "no model can have this name: rename it; expected " MODEL_PATHS_NAME_RULE;
    struct model_place place = {
        .name = name, .version = 1, .is_folder = model_paths_is_folder(source), .source = source
    };
    if (place.is_folder) {
        if (!model_directory_look(&directory->arena, &place, source))
            return false;
        if (!place.path && !place.config_path)
            return true;
    }
    place.problem = PROBLEM;
    return add_place(directory, &place);
}

/* Whether folder has a model of that name: a folder, or a safetensors file. */
static bool has_model(struct arena *arena, const char *folder, const char *name, bool *failed)
{
    char file_name[MODEL_NAME_MAX + sizeof FILE_ENDING];
    snprintf(file_name, sizeof file_name, "%s" FILE_ENDING, name);
    return model_paths_is_folder(find_path(arena, folder, name, failed))
           || find_path(arena, folder, file_name, failed);
}

/* Adds what one entry of the directory holds, which may be no model. False: no memory. */
static bool add_entry(struct model_directory *directory, const char *path, const char *file_name)
{
    struct arena *arena = &directory->arena;
    const char *ending = strrchr(file_name, '.');
    const char *source = model_paths_join(arena, path, file_name);
    char *name = arena_strdup(arena, file_name);
    if (!source || !name)
        return false;
    if (model_paths_is_folder(source))
        return is_no_model(name)             ? true
               : model_paths_name_good(name) ? add_folder(directory, name, source)
                                             : add_misnamed(directory, name, source);
    struct model_gguf_name gguf;
    const bool is_gguf = model_gguf_name(file_name, &gguf);
    if (!ending || (strcmp(ending, FILE_ENDING) != 0 && !is_gguf) || (is_gguf && gguf.number > 1))
        return true;
    name[is_gguf ? gguf.length : (size_t)(ending - file_name)] = '\0';
    if (!model_paths_name_good(name))
        return add_misnamed(directory, name, source);
    if (!is_gguf)
        return add_file(directory, name, source);
    bool failed = false;
    return has_model(arena, path, name, &failed) ? !failed
                                                 : !failed && add_gguf(directory, name, source);
}

static int compare_places(const void *left, const void *right)
{
    const struct model_place *a = left, *b = right;
    const int order = strcmp(a->name, b->name);
    if (order != 0 || a->is_folder != b->is_folder)
        return order != 0 ? order : (int)b->is_folder - (int)a->is_folder;
    return a->version != b->version ? (a->version > b->version) - (a->version < b->version)
                                    : strcmp(b->source, a->source); /* as model_gguf_find() */
}

static void sort_places(struct model_directory *directory)
{
    if (directory->count > 0)
        qsort(directory->places, (size_t)directory->count, sizeof *directory->places,
              compare_places);
}

/* The last part of the real path; "model" where no model can have that name; NULL: no memory. */
static const char *own_name(struct arena *arena, const char *path)
{
    char *real = realpath(path, NULL);
    if (!real && errno == ENOMEM)
        return NULL;
    const char *last = real ? strrchr(real, '/') : NULL;
    const char *name =
        last && model_paths_name_good(last + 1) ? arena_strdup(arena, last + 1) : "model";
    free(real);
    return name;
}

static bool scan_one_model(struct model_directory *directory, const char *path,
                           const char *model_name)
{
    const char *name = model_name ? model_name : own_name(&directory->arena, path);
    const char *source = arena_strdup(&directory->arena, path);
    directory->is_one_model = true;
    return name && source && add_folder(directory, name, source);
}

static bool scan_names(struct model_directory *directory, const char *path, DIR *stream)
{
    const struct dirent *entry;
    while ((entry = readdir(stream)))
        if (entry->d_name[0] != '.' && !add_entry(directory, path, entry->d_name))
            return false;
    return true;
}

/* Returns 0, or the errno that left the directory without a root. */
static int init_directory(struct model_directory *directory, const char *path)
{
    *directory = (struct model_directory){ .places = NULL };
    arena_init(&directory->arena, SIZE_MAX);
    char *real = realpath(path, NULL);
    const int error = real ? 0 : errno;
    directory->root = real ? arena_strdup(&directory->arena, real) : NULL;
    free(real);
    return error;
}

static bool finish_directory(struct model_directory *directory, bool good, struct fault *fault)
{
    if (good && directory->root) {
        sort_places(directory);
        return true;
    }
    model_directory_free(directory);
    return fault_no_memory(fault);
}

static bool refuse_directory(const char *path, int error, struct fault *fault)
{
    return !fault_from_shortage(fault, error)
           && fault_set(fault, FAULT_NOT_FOUND, "cannot read the models' directory '%s': %s%s",
                        path, strerror(error),
                        error == ENOTDIR ? "; give the folder that the file is in" : "");
}

bool model_directory_scan(struct model_directory *directory, const char *path,
                          const char *model_name, struct fault *fault)
{
    bool failed = false;
    DIR *stream = opendir(path);
    if (!stream)
        return refuse_directory(path, errno, fault);
    const int error = init_directory(directory, path);
    if (error && error != ENOMEM) {
        closedir(stream);
        model_directory_free(directory);
        return refuse_directory(path, error, fault);
    }
    struct arena *arena = &directory->arena;
    const bool is_one = find_path(arena, path, "config.json", &failed)
                        || find_path(arena, path, "params.json", &failed)
                        || model_hub_snapshot(arena, path, &failed);
    const bool good =
        is_one ? scan_one_model(directory, path, model_name) : scan_names(directory, path, stream);
    closedir(stream);
    return finish_directory(directory, good && !failed, fault);
}

bool model_directory_find(struct model_directory *directory, const char *path, const char *name,
                          bool is_one_model, struct fault *fault)
{
    init_directory(directory, path);
    directory->is_one_model = is_one_model;
    char file_name[MODEL_NAME_MAX + sizeof FILE_ENDING];
    bool failed = false;
    snprintf(file_name, sizeof file_name, "%s" FILE_ENDING, name);
    const char *copy = arena_strdup(&directory->arena, name);
    const char *folder = is_one_model ? arena_strdup(&directory->arena, path)
                                      : model_paths_join(&directory->arena, path, name);
    const char *file = find_path(&directory->arena, path, file_name, &failed);
    const char *gguf = model_gguf_find(&directory->arena, path, name, &failed);
    bool good = copy && folder && !failed;
    if (good && model_paths_is_folder(folder))
        good = add_folder(directory, copy, folder);
    else if (good && !is_one_model && file && !model_paths_is_folder(file))
        good = add_file(directory, copy, file);
    else if (good && !is_one_model && gguf && !model_paths_is_folder(gguf))
        good = add_gguf(directory, copy, gguf);
    return finish_directory(directory, good, fault);
}

void model_directory_free(struct model_directory *directory)
{
    if (!directory)
        return;
    free(directory->places);
    arena_free(&directory->arena);
    *directory = (struct model_directory){ .places = NULL };
}
