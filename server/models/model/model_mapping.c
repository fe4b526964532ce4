/* SPDX-License-Identifier: Apache-2.0 */
/* model_mapping.c - maps files, and looks whether they changed since. */
#include "models/model/model_mapping.h"

#include "formats/foreign_form.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 16 << 20 };

/* Opens a regular file of at least one byte for reading and fills *status with fstat(). Returns the
 * descriptor; -1 at a fault. O_NONBLOCK: opening a pipe in place of a file must not block the
 * start. */
static int open_file(const char *path, struct stat *status, struct fault *fault)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, status) != 0) {
        if (!fault_from_shortage(fault, errno))
            fault_set(fault, FAULT_NOT_FOUND, "cannot open '%s': %s", path, strerror(errno));
    } else if (!S_ISREG(status->st_mode) || status->st_size == 0) {
        fault_set(fault, FAULT_BINARY, "'%s' is %s", path,
                  S_ISREG(status->st_mode) ? "empty" : "not a regular file");
    } else {
        return file;
    }
    if (file >= 0)
        close(file);
    return -1;
}

static struct model_mapping *map_file(int file, const char *path, const struct stat *status,
                                      struct fault *fault)
{
    const size_t size = (size_t)status->st_size;
    struct model_mapping *mapping = calloc(1, sizeof *mapping);
    char *real_path = mapping ? realpath(path, NULL) : NULL;
    void *bytes = real_path ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (bytes == MAP_FAILED) {
        if (!mapping || real_path || errno == ENOMEM)
            fault_no_memory(fault);
        else
            fault_set(fault, FAULT_NOT_FOUND, "cannot open '%s': %s", path, strerror(errno));
        free(real_path);
        free(mapping);
        return NULL;
    }
    *mapping = (struct model_mapping){
        .bytes = bytes,
        .size = size,
        .guard = model_guard_add(bytes, size),
        .real_path = real_path,
        .opened = *status,
    };
    return mapping;
}

struct model_mapping *model_mapping_create(const char *path, struct fault *fault)
{
    struct stat status;
    const int file = open_file(path, &status, fault);
    if (file < 0)
        return NULL;
    struct model_mapping *mapping = map_file(file, path, &status, fault);
    close(file);
    if (!mapping || mapping->guard)
        return mapping;
    model_mapping_free(mapping);
    fault_set(fault, FAULT_MEMORY, "more than %d files are mapped", MODEL_GUARD_MAPPINGS_MAX);
    return NULL;
}

void model_mapping_free(void *mapping)
{
    struct model_mapping *freed = mapping;
    while (freed) {
        struct model_mapping *next = freed->next;
        model_guard_remove(freed->guard);
        munmap(freed->bytes, freed->size);
        free(freed->real_path);
        free(freed);
        freed = next;
    }
}

size_t model_mapping_bytes(const struct model_mapping *mapping)
{
    size_t bytes = 0;
    for (; mapping; mapping = mapping->next)
        bytes += mapping->size;
    return bytes;
}

#define CUT "its file was cut short while it was mapped"
#define WRITTEN                                                                                    \
    "its file was written into while it was mapped; a model is replaced by renaming a file"

/* The system gives the inode of a mapped file to no other file, so the path leads to the mapped
 * file where the inode is the same. */
static const char *find_damage(const struct model_mapping *mapping)
{
    const struct stat *opened = &mapping->opened;
    struct stat status;
    if (model_guard_damaged(mapping->guard))
        return CUT;
    if (stat(mapping->real_path, &status) != 0 || status.st_dev != opened->st_dev
        || status.st_ino != opened->st_ino)
        return NULL;
    if (status.st_size < opened->st_size)
        return CUT;
    return status.st_size != opened->st_size || status.st_mtim.tv_sec != opened->st_mtim.tv_sec
                   || status.st_mtim.tv_nsec != opened->st_mtim.tv_nsec
               ? WRITTEN
               : NULL;
}

const char *model_mapping_damage(struct model_mapping *mapping, bool *is_new)
{
    *is_new = false;
    for (; mapping; mapping = mapping->next) {
        const char *damage = atomic_load(&mapping->damage), *found;
        if (!damage && (found = find_damage(mapping))) {
            *is_new = atomic_compare_exchange_strong(&mapping->damage, &damage, found);
            damage = *is_new ? found : damage;
        }
        if (damage)
            return damage;
    }
    return NULL;
}

bool model_mapping_rename(struct model_mapping *mapping, const char *path, struct fault *fault)
{
    const char *slash = strrchr(path, '/');
    const int folder = (int)(strrchr(mapping->real_path, '/') - mapping->real_path);
    char *renamed;
    if (asprintf(&renamed, "%.*s/%s", folder, mapping->real_path, slash ? slash + 1 : path) < 0)
        return fault_no_memory(fault);
    free(mapping->real_path);
    mapping->real_path = renamed;
    return true;
}

/* Whether text is none of another form than its name says; else the fault names its file. */
static bool check_form(const char *path, const char *text, struct fault *fault)
{
    struct foreign_form foreign;
    const char *slash = strrchr(path, '/');
    return !foreign_form_of_bytes(text, strlen(text), &foreign)
           || fault_set(fault, FAULT_BINARY, "%s is %s: %s", slash ? slash + 1 : path, foreign.form,
                        foreign.advice);
}

char *model_mapping_read_text(const char *path, struct fault *fault)
{
    struct stat status;
    const int file = open_file(path, &status, fault);
    if (file < 0)
        return NULL;
    char *text = NULL;
    if (status.st_size > TEXT_BYTES_MAX) {
        fault_set(fault, FAULT_TOO_LARGE, "'%s' has %lld bytes; expected at most %d", path,
                  (long long)status.st_size, TEXT_BYTES_MAX);
    } else if (!(text = malloc((size_t)status.st_size + 1))) {
        fault_no_memory(fault);
    } else {
        const ssize_t got = read(file, text, (size_t)status.st_size);
        text[got > 0 ? got : 0] = '\0';
        if (got != status.st_size)
            fault_set(fault, FAULT_NOT_FOUND, "cannot read '%s' whole", path);
        if (got != status.st_size || !check_form(path, text, fault)) {
            free(text);
            text = NULL;
        }
    }
    close(file);
    return text;
}

bool model_mapping_is_inside(const char *folder, const char *path, struct fault *fault)
{
    char *real_folder = realpath(folder, NULL);
    bool is_short = !real_folder && errno == ENOMEM;
    char *real_path = realpath(path, NULL);
    is_short = is_short || (!real_path && errno == ENOMEM);
    const size_t length = real_folder ? strlen(real_folder) : 0;
    const bool inside = !real_path
                        || (real_folder && strncmp(real_path, real_folder, length) == 0
                            && (real_path[length] == '/' || strcmp(real_folder, "/") == 0));
    free(real_folder);
    free(real_path);
    if (is_short)
        return fault_no_memory(fault);
    return inside
           || fault_set(fault, FAULT_BINARY,
                        "this is a symbolic link that leads out of the directory");
}
