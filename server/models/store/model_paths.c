/* SPDX-License-Identifier: Apache-2.0 */
/* model_paths.c - rules of names and paths, and the layout of the hub's cache. */
#include "models/store/model_paths.h"

#include "models/model/model.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

DIR *model_paths_open_folder(const char *folder, bool *failed)
{
    struct fault ignored;
    DIR *stream = opendir(folder);
    *failed = *failed || (!stream && fault_from_shortage(&ignored, errno));
    return stream;
}

bool model_paths_name_good(const char *name)
{
    const size_t length = strlen(name);
    return length >= 1 && length <= MODEL_NAME_MAX
           && strspn(name, NAME_CHARACTERS " ._-+()@~") == length
           && strspn(name, NAME_CHARACTERS) > 0 && name[length - 1] != ' ';
}

int64_t model_paths_version(const char *text)
{
    const size_t length = strlen(text);
    if (length > MODEL_PATHS_VERSION_DIGITS_MAX || text[0] == '0'
        || strspn(text, "0123456789") != length)
        return 0;
    return strtoll(text, NULL, 10);
}

const char *model_paths_join(struct arena *arena, const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = arena_alloc(arena, size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

bool model_paths_is_folder(const char *path)
{
    struct stat status;
    return path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* What follows directory and its slashes in text; NULL: text does not begin with directory. */
static const char *path_after(const char *directory, const char *text)
{
    size_t length = directory ? strlen(directory) : 0;
    while (length > 1 && directory[length - 1] == '/')
        length--;
    if (length == 0 || strncmp(text, directory, length) != 0)
        return NULL;
    const char *rest = text + length;
    if (*rest != '/' && directory[length - 1] != '/')
        return NULL;
    return rest + strspn(rest, "/");
}

const char *model_paths_relative(const char *directory, const char *path)
{
    const char *rest = path_after(directory, path);
    const char *slash = strrchr(path, '/');
    if (directory && strcmp(directory, path) == 0)
        return ".";
    if (rest)
        return *rest ? rest : ".";
    return slash ? slash + 1 : path;
}

void model_paths_hide(const char *directory, struct fault *fault)
{
    const size_t length = directory ? strlen(directory) : 0;
    for (char *quote = strchr(fault->message, '\''); quote; quote = strchr(quote + 1, '\'')) {
        const char *rest = path_after(directory, quote + 1);
        if (rest) {
            memmove(quote + 1, rest, strlen(rest) + 1);
        } else if (length > 0 && strncmp(quote + 1, directory, length) == 0
                   && quote[1 + length] == '\'') { /* the directory itself */
            quote[1] = '.';
            memmove(quote + 2, quote + 1 + length, strlen(quote + 1 + length) + 1);
        }
    }
}

/* ------------------------------------------------------------------ the hub -- */

enum { REVISION_BYTES = 128 };

/* Reads the revision in refs/main; "": there is none, or it is no name of a folder. */
static void read_main_revision(struct arena *arena, const char *folder,
                               char revision[REVISION_BYTES], bool *failed)
{
    const char *path = model_paths_join(arena, folder, "refs/main");
    FILE *stream = path ? fopen(path, "re") : NULL;
    size_t length = 0;
    *failed = *failed || !path;
    if (stream) {
        length = fread(revision, 1, REVISION_BYTES - 1, stream);
        fclose(stream);
    }
    revision[length] = '\0';
    revision[strcspn(revision, " \r\n")] = '\0';
    if (!model_paths_name_good(revision))
        revision[0] = '\0';
}

/* The name of the only folder in snapshots; "": there are none or several. */
static void find_only_revision(const char *snapshots, char revision[REVISION_BYTES], bool *failed)
{
    int count = 0;
    DIR *stream = model_paths_open_folder(snapshots, failed);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream)))
        if (model_paths_name_good(entry->d_name)) {
            count++;
            snprintf(revision, REVISION_BYTES, "%.*s", REVISION_BYTES - 1, entry->d_name);
        }
    if (stream)
        closedir(stream);
    if (count != 1)
        revision[0] = '\0';
}

const char *model_hub_snapshot(struct arena *arena, const char *folder, bool *failed)
{
    char revision[REVISION_BYTES];
    const char *snapshots = model_paths_join(arena, folder, "snapshots");
    *failed = *failed || !snapshots;
    if (!snapshots || !model_paths_is_folder(snapshots))
        return NULL;
    read_main_revision(arena, folder, revision, failed);
    if (!revision[0])
        find_only_revision(snapshots, revision, failed);
    const char *path = revision[0] ? model_paths_join(arena, snapshots, revision) : NULL;
    *failed = *failed || (revision[0] && !path);
    return model_paths_is_folder(path) ? path : NULL;
}
