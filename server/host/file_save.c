/* SPDX-License-Identifier: Apache-2.0 */
/* file_save.c - see file_save.h.
 *
 * A temporary file is locked while it is being written. A second daemon over the same directory
 * cleans up at its start, and by the lock it knows a file in use from one that a crash left. */
#include "host/file_save.h"

#include "telemetry/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY_PREFIX ".attnd-saving-"

enum { NAME_TRIES = 1000 };

static bool fail(const struct file_folder *folder, const char *doing, struct fault *fault)
{
    return !fault_from_shortage(fault, errno)
           && fault_set(fault, FAULT_STORAGE, "the file cannot be %s the %s: %s", doing,
                        folder->words, strerror(errno));
}

/* Makes a file of a new name and locks it. */
static bool create_temporary(struct file_save *save, const struct file_folder *folder,
                             struct fault *fault)
{
    static _Atomic unsigned counter;
    for (int i = 0; i < NAME_TRIES; i++) {
        if (asprintf(&save->temporary, "%s/" TEMPORARY_PREFIX "%ld-%u", folder->path,
                     (long)getpid(), atomic_fetch_add(&counter, 1))
            < 0) {
            save->temporary = NULL;
            return fault_no_memory(fault);
        }
        save->file = open(save->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, folder->mode);
        if (save->file >= 0 && flock(save->file, LOCK_EX) == 0)
            return true;
        if (save->file >= 0 || errno != EEXIST)
            break;
        free(save->temporary);
        save->temporary = NULL;
    }
    fail(folder, "written to", fault);
    if (save->file < 0) {
        free(save->temporary);
        save->temporary = NULL;
    }
    return false;
}

static bool write_all(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(file, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        bytes += written;
        size -= (size_t)written;
    }
    return true;
}

static bool write_parts(int file, const struct byte_slice *parts, int64_t part_count)
{
    for (int64_t i = 0; i < part_count; i++)
        if (!write_all(file, parts[i].data, parts[i].size))
            return false;
    return true;
}

bool file_save_begin(struct file_save *save, const struct file_folder *folder,
                     const struct byte_slice *parts, int64_t part_count, struct fault *fault)
{
    *save = (struct file_save){ .file = -1 };
    if (create_temporary(save, folder, fault)) {
        if (write_parts(save->file, parts, part_count) && fsync(save->file) == 0)
            return true;
        fail(folder, "written to", fault);
    }
    file_save_free(save);
    return false;
}

/* Puts the directory's new content on disk. The change is made and visible already, so a failure
 * here is only logged. */
static void sync_directory(const char *directory)
{
    const int file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0 || fsync(file) != 0)
        log_line(LOG_WARNING, "directory not synced", LOG_STRING("directory", directory),
                 LOG_STRING("reason", strerror(errno)));
    if (file >= 0)
        close(file);
}

bool file_save_commit(struct file_save *save, const struct file_folder *folder, const char *path,
                      struct fault *fault)
{
    if (rename(save->temporary, path) != 0)
        return fail(folder, "written to", fault);
    sync_directory(folder->path);
    free(save->temporary);
    save->temporary = NULL;
    close(save->file);
    save->file = -1;
    return true;
}

void file_save_free(struct file_save *save)
{
    if (!save || !save->temporary)
        return;
    unlink(save->temporary);
    free(save->temporary);
    if (save->file >= 0)
        close(save->file);
    *save = (struct file_save){ .file = -1 };
}

bool file_save_remove(const struct file_folder *folder, const char *path, struct fault *fault)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return fail(folder, "removed from", fault);
    sync_directory(folder->path);
    return true;
}

/* Whether nobody holds the lock of a temporary file. */
static bool is_abandoned(int directory, const char *name)
{
    const int file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool is_free = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
    if (file >= 0)
        close(file);
    return is_free;
}

void file_save_clean(const char *directory)
{
    DIR *stream = opendir(directory);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream)))
        if (strncmp(entry->d_name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) == 0
            && is_abandoned(dirfd(stream), entry->d_name))
            unlinkat(dirfd(stream), entry->d_name, 0);
    if (stream)
        closedir(stream);
}
