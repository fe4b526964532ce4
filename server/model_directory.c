/* model_directory.c - see model_directory.h. */
#include "model_directory.h"

#include "model.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define FILE_ENDING     ".safetensors"

enum { VERSION_DIGITS_MAX = 18 };

bool model_directory_name_good(const char *name)
{
    const size_t length = strlen(name);
    return length >= 1 && length <= MODEL_NAME_MAX && strspn(name, NAME_CHARACTERS "._-") == length
           && name[0] != '.' && name[0] != '_' && name[0] != '-';
}

static const char *join(struct arena *arena, const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = arena_alloc(arena, size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The path of name in folder where it is there, else NULL; *failed where there is no memory. */
static const char *find(struct arena *arena, const char *folder, const char *name, bool *failed)
{
    struct stat status;
    const char *path = join(arena, folder, name);
    *failed = *failed || !path;
    return path && stat(path, &status) == 0 ? path : NULL;
}

/* The folder's numbered sub-folder of the highest number; NULL where it has none. */
static const char *highest_version(struct arena *arena, const char *folder, bool *failed)
{
    const char *best = NULL;
    long long best_version = -1;
    DIR *stream = opendir(folder);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream))) {
        const size_t length = strlen(entry->d_name);
        if (length > VERSION_DIGITS_MAX || strspn(entry->d_name, "0123456789") != length)
            continue;
        const long long version = strtoll(entry->d_name, NULL, 10);
        const char *path = find(arena, folder, entry->d_name, failed);
        if (version > best_version && is_folder(path)) {
            best = path;
            best_version = version;
        }
    }
    if (stream)
        closedir(stream);
    return best;
}

bool model_directory_look(struct arena *arena, struct model_place *place, const char *folder)
{
    bool failed = false;
    place->config_path = find(arena, folder, "config.json", &failed);
    place->path = find(arena, folder, "model.safetensors", &failed);
    if (!place->config_path && !place->path) {
        const char *version = highest_version(arena, folder, &failed);
        if (version) {
            folder = version;
            place->config_path = find(arena, folder, "config.json", &failed);
            place->path = find(arena, folder, "model.safetensors", &failed);
        }
    }
    if (!place->path)
        place->path = find(arena, folder, "model.safetensors.index.json", &failed);
    if (!place->path)
        place->problem = "the directory holds no model.safetensors, nor its index and shards";
    return !failed;
}

bool model_directory_find(struct arena *arena, struct model_place *place, const char *path,
                          const char *name)
{
    char file_name[MODEL_NAME_MAX + sizeof FILE_ENDING];
    bool failed = false;
    *place = (struct model_place){ .name = arena_strdup(arena, name) };
    snprintf(file_name, sizeof file_name, "%s" FILE_ENDING, name);
    const char *folder = join(arena, path, name);
    const char *file = find(arena, path, file_name, &failed);
    if (!place->name || !folder || failed)
        return false;
    if (is_folder(folder)) {
        place->is_folder = true;
        place->source = folder;
        return model_directory_look(arena, place, folder);
    }
    place->source = place->path = file && !is_folder(file) ? file : NULL;
    return true;
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

/* One name in the directory; it may be no model's. False where there is no memory. */
static bool look_at(struct model_directory *directory, const char *path, const char *file_name)
{
    struct arena *arena = &directory->arena;
    const char *ending = strrchr(file_name, '.');
    struct model_place place = { .source = join(arena, path, file_name) };
    char *name = arena_strdup(arena, file_name);
    if (!place.source || !name)
        return false;
    place.name = name;
    place.is_folder = is_folder(place.source);
    if (!place.is_folder && ending && strcmp(ending, FILE_ENDING) == 0) {
        name[ending - file_name] = '\0';
        place.path = place.source;
    }
    if (!model_directory_name_good(name) || (!place.is_folder && !place.path))
        return true;
    return (!place.is_folder || model_directory_look(arena, &place, place.source))
           && add_place(directory, &place);
}

static int compare_places(const void *left, const void *right)
{
    const struct model_place *a = left, *b = right;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (int)b->is_folder - (int)a->is_folder;
}

/* The last part of the path, as the file system knows it; "model" where that is no name. */
static const char *own_name(struct arena *arena, const char *path)
{
    char *real = realpath(path, NULL);
    const char *last = real ? strrchr(real, '/') : NULL;
    const char *name =
        last && model_directory_name_good(last + 1) ? arena_strdup(arena, last + 1) : "model";
    free(real);
    return name;
}

static bool scan_one_model(struct model_directory *directory, const char *path,
                           const char *model_name)
{
    struct model_place place = {
        .name = model_name ? model_name : own_name(&directory->arena, path),
        .is_folder = true,
        .source = arena_strdup(&directory->arena, path),
    };
    directory->is_one_model = true;
    return place.name && place.source && model_directory_look(&directory->arena, &place, path)
           && add_place(directory, &place);
}

static bool scan_names(struct model_directory *directory, const char *path, DIR *stream)
{
    const struct dirent *entry;
    while ((entry = readdir(stream)))
        if (entry->d_name[0] != '.' && !look_at(directory, path, entry->d_name))
            return false;
    if (directory->count > 0)
        qsort(directory->places, (size_t)directory->count, sizeof *directory->places,
              compare_places);
    return true;
}

bool model_directory_scan(struct model_directory *directory, const char *path,
                          const char *model_name, struct fault *fault)
{
    bool failed = false;
    *directory = (struct model_directory){ .places = NULL };
    arena_init(&directory->arena, SIZE_MAX);
    DIR *stream = opendir(path);
    if (!stream)
        return fault_set(fault, FAULT_NOT_FOUND, "cannot read the models' directory '%s': %s", path,
                         strerror(errno));
    if (find(&directory->arena, path, "config.json", &failed))
        failed = failed || !scan_one_model(directory, path, model_name);
    else
        failed = failed || !scan_names(directory, path, stream);
    closedir(stream);
    if (!failed)
        return true;
    model_directory_free(directory);
    return fault_no_memory(fault);
}

void model_directory_free(struct model_directory *directory)
{
    if (!directory)
        return;
    free(directory->places);
    arena_free(&directory->arena);
    *directory = (struct model_directory){ .places = NULL };
}
