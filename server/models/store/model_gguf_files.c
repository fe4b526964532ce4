/* SPDX-License-Identifier: Apache-2.0 */
/* model_gguf_files.c - looks for GGUF files in folders. */
#include "models/store/model_gguf_files.h"

#include "models/store/model_paths.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ENDING ".gguf"

enum { PART_BYTES = sizeof "-00001-of-00003" - 1, PROBLEM_BYTES = 640 };

/* Whether text is "-00001-of-00003" and more behind it. */
static bool read_part(const char *text, int64_t *number, int64_t *count)
{
    static const char FORM[] = "-ddddd-of-ddddd";
    for (size_t i = 0; i < PART_BYTES; i++)
        if (FORM[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != FORM[i])
            return false;
    *number = strtoll(text + 1, NULL, 10);
    *count = strtoll(text + sizeof "-00001-of-" - 1, NULL, 10);
    return *number >= 1 && *number <= *count;
}

bool model_gguf_name(const char *file_name, struct model_gguf_name *name)
{
    const size_t whole = strlen(file_name), ending = sizeof ENDING - 1;
    if (whole <= ending || strcasecmp(file_name + whole - ending, ENDING) != 0)
        return false;
    *name = (struct model_gguf_name){ .length = whole - ending, .number = 1, .count = 1 };
    if (name->length > PART_BYTES
        && read_part(file_name + name->length - PART_BYTES, &name->number, &name->count))
        name->length -= PART_BYTES;
    return true;
}

/* Whether a file is, or begins, a model: the first part stands for all of them. */
static bool begins_model(const char *file_name, struct model_gguf_name *name)
{
    return file_name[0] != '.' && model_gguf_name(file_name, name) && name->number == 1;
}

const char *model_gguf_find(struct arena *arena, const char *folder, const char *name, bool *failed)
{
    char found[NAME_MAX + 1] = "";
    struct model_gguf_name read;
    DIR *stream = model_paths_open_folder(folder, failed);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream)))
        if (begins_model(entry->d_name, &read) && read.length == strlen(name)
            && strncmp(entry->d_name, name, read.length) == 0 && strcmp(entry->d_name, found) > 0)
            snprintf(found, sizeof found, "%s", entry->d_name);
    if (stream)
        closedir(stream);
    const char *path = found[0] ? model_paths_join(arena, folder, found) : NULL;
    *failed = *failed || (found[0] && !path);
    return path && access(path, F_OK) == 0 ? path : NULL;
}

const char *model_gguf_find_only(struct arena *arena, const char *folder, const char **problem,
                                 bool *failed)
{
    char found[2][NAME_MAX + 1] = { "", "" };
    struct model_gguf_name name;
    const char *path = model_gguf_find(arena, folder, "model", failed);
    if (path || *failed)
        return path;
    DIR *stream = model_paths_open_folder(folder, failed);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream))) {
        if (!begins_model(entry->d_name, &name) || strncmp(entry->d_name, "mmproj", 6) == 0)
            continue;
        const int which = !found[0][0] ? 0 : strcmp(entry->d_name, found[0]) < 0 ? 2 : 1;
        if (which == 2)
            snprintf(found[1], sizeof found[1], "%s", found[0]);
        if (which != 1)
            snprintf(found[0], sizeof found[0], "%s", entry->d_name);
        else if (!found[1][0] || strcmp(entry->d_name, found[1]) < 0)
            snprintf(found[1], sizeof found[1], "%s", entry->d_name);
    }
    if (stream)
        closedir(stream);
    if (found[1][0]) {
        char *text = arena_alloc(arena, PROBLEM_BYTES);
        *failed = *failed || !text;
        if (text)
            snprintf(text, PROBLEM_BYTES,
                     "the directory holds several GGUF files, '%.100s' and '%.100s': call one "
                     "model.gguf, or give the directory as --models, then each is a model",
                     found[0], found[1]);
        *problem = text;
        return NULL;
    }
    path = found[0][0] ? model_paths_join(arena, folder, found[0]) : NULL;
    *failed = *failed || (found[0][0] && !path);
    return path;
}
