/* model_paths.c - see model_paths.h. */
#include "store/model_paths.h"

#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

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
static const char *after(const char *directory, const char *text)
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
    const char *rest = after(directory, path);
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
        const char *rest = after(directory, quote + 1);
        if (rest) {
            memmove(quote + 1, rest, strlen(rest) + 1);
        } else if (length > 0 && strncmp(quote + 1, directory, length) == 0
                   && quote[1 + length] == '\'') { /* the directory itself */
            quote[1] = '.';
            memmove(quote + 2, quote + 1 + length, strlen(quote + 1 + length) + 1);
        }
    }
}
