/* SPDX-License-Identifier: Apache-2.0 */
/* batch_folder.c - see batch_folder.h. */
#include "batch/batch_folder.h"

#include "base/version.h"
#include "host/file_save.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTION "batch.json"

enum { DESCRIPTION_BYTES = 512, BUFFER_BYTES = 1 << 20 };

static bool fail(const struct batch_folder *folder, const char *name, struct fault *fault)
{
    return batch_fail_to_write(folder->path, name, fault);
}

/* ------------------------------------------------------------------- what it is of -- */

static void describe(const struct batch_folder *folder, const struct batch_source *source,
                     char text[DESCRIPTION_BYTES])
{
    snprintf(text, DESCRIPTION_BYTES,
             "{\"attnd\":\"" ATTND_VERSION
             "\",\"requests_sha256\":\"%s\",\"requests_bytes\":%" PRId64 ",\"lines\":%" PRId64
             ",\"chunk\":%" PRId64 ",\"format\":\"%s\"}\n",
             source->sha256, source->bytes, source->line_count, source->chunk_lines,
             folder->has_tensors ? "safetensors" : "json");
}

static bool write_description(const struct batch_folder *folder, const char *text,
                              struct fault *fault)
{
    const struct file_folder place = { folder->path, "folder of answers", 0666 };
    const struct byte_slice part = { text, strlen(text) };
    struct file_save save;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/" DESCRIPTION, folder->path) >= (int)sizeof path)
        return fault_set(fault, FAULT_STORAGE, "%.80s...: the path is too long", folder->path);
    const bool good = file_save_begin(&save, &place, &part, 1, fault)
                      && file_save_commit(&save, &place, path, fault);
    file_save_free(&save);
    return good || fault_name_file(fault, folder->path);
}

/* 1: it is there and says this; 0: it is not there; -1: it says something else, or the fault. */
static int compare_description(struct batch_folder *folder, const char *text, struct fault *fault)
{
    char found[DESCRIPTION_BYTES] = "";
    folder->described = openat(folder->directory, DESCRIPTION, O_RDWR | O_CLOEXEC);
    if (folder->described < 0 && errno == ENOENT)
        return 0;
    if (folder->described < 0)
        return fail(folder, DESCRIPTION, fault) - 1;
    if (read(folder->described, found, sizeof found - 1) >= 0 && strcmp(found, text) == 0)
        return 1;
    found[strcspn(found, "\n")] = '\0';
    return fault_set(fault, FAULT_CONFLICT,
                     "%s has the answers of another batch; give an empty folder. Its " DESCRIPTION
                     " is %.300s, and now it would be %.*s",
                     folder->path, found, (int)strcspn(text, "\n"), text)
           - 1;
}

/* A file system without locks has none. */
static bool lock_part(const struct batch_folder *folder, struct fault *fault)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = folder->part, .l_len = 1
    };
    if (fcntl(folder->described, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES))
        return true;
    return fault_set(fault, FAULT_CONFLICT,
                     "another attnd batch computes part %" PRId64 " in %s; wait for its end",
                     folder->part, folder->path);
}

/* What another part has written meanwhile is seen by the second look. */
static bool settle(struct batch_folder *folder, const struct batch_source *source,
                   struct fault *fault)
{
    char text[DESCRIPTION_BYTES];
    describe(folder, source, text);
    int found = compare_description(folder, text, fault);
    if (found == 0) {
        if (!write_description(folder, text, fault))
            return false;
        found = compare_description(folder, text, fault);
        if (found == 0)
            return fault_set(fault, FAULT_STORAGE, "%s: " DESCRIPTION " is gone", folder->path);
    }
    return found == 1 && lock_part(folder, fault);
}

bool batch_folder_open(struct batch_folder *folder, const struct batch_source *source,
                       struct fault *fault)
{
    folder->directory = folder->described = -1;
    if (mkdir(folder->path, 0777) != 0 && errno != EEXIST)
        return fault_set(fault, FAULT_STORAGE, "%s cannot be made: %s", folder->path,
                         strerror(errno));
    folder->directory = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->directory < 0)
        return fail(folder, "", fault);
    if (settle(folder, source, fault))
        return true;
    batch_folder_close(folder);
    return false;
}

void batch_folder_close(struct batch_folder *folder)
{
    if (folder->described >= 0)
        close(folder->described);
    if (folder->directory >= 0)
        close(folder->directory);
    folder->directory = folder->described = -1;
}

/* Of a chunk whose name is not on disk when the power fails nothing is left, and it is computed
 * again. So the names are synced once. */
bool batch_folder_sync(const struct batch_folder *folder, struct fault *fault)
{
    return fsync(folder->directory) == 0 || fail(folder, "", fault);
}

/* ------------------------------------------------------------------------ its chunks -- */

static const char LINES[] = "jsonl", TENSORS[] = "safetensors";

static void name_chunk(int64_t chunk, const char *kind, char name[BATCH_NAME_BYTES])
{
    snprintf(name, BATCH_NAME_BYTES, "chunk-%06" PRId64 ".%s", chunk, kind);
}

/* The hidden name is the part's own: of two cuts that run at once each has its own files. */
static void name_hidden(const struct batch_folder *folder, const char *kind,
                        char name[BATCH_NAME_BYTES])
{
    snprintf(name, BATCH_NAME_BYTES, ".part-%" PRId64 "-of-%" PRId64 ".%s", folder->part,
             folder->part_count, kind);
}

static bool has_file(const struct batch_folder *folder, int64_t chunk, const char *kind)
{
    char name[BATCH_NAME_BYTES];
    name_chunk(chunk, kind, name);
    return faccessat(folder->directory, name, F_OK, 0) == 0;
}

bool batch_folder_has(const struct batch_folder *folder, int64_t chunk)
{
    return has_file(folder, chunk, LINES)
           && (!folder->has_tensors || has_file(folder, chunk, TENSORS));
}

FILE *batch_folder_read(const struct batch_folder *folder, int64_t chunk, struct fault *fault)
{
    char name[BATCH_NAME_BYTES];
    name_chunk(chunk, LINES, name);
    const int file = openat(folder->directory, name, O_RDONLY | O_CLOEXEC);
    FILE *stream = file < 0 ? NULL : fdopen(file, "r");
    if (!stream) {
        fault_set(fault, FAULT_STORAGE, "%s/%s cannot be read: %s", folder->path, name,
                  strerror(errno));
        if (file >= 0)
            close(file);
    }
    return stream;
}

/* Opens a hidden file to write it; NULL, with the fault. */
static FILE *open_hidden(const struct batch_folder *folder, const char *name, struct fault *fault)
{
    const int file =
        openat(folder->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    FILE *stream = file < 0 ? NULL : fdopen(file, "w");
    if (stream && setvbuf(stream, NULL, _IOFBF, BUFFER_BYTES) == 0)
        return stream;
    fail(folder, name, fault);
    if (stream)
        fclose(stream);
    else if (file >= 0)
        close(file);
    return NULL;
}

/* Gives a hidden file its name, once it is on disk. */
static bool give_name(const struct batch_folder *folder, FILE *stream, const char *hidden,
                      const char *name, struct fault *fault)
{
    return (fflush(stream) == 0 && fsync(fileno(stream)) == 0
            && renameat(folder->directory, hidden, folder->directory, name) == 0)
           || fail(folder, name, fault);
}

bool batch_file_begin(struct batch_file *file, const struct batch_folder *folder, int64_t chunk,
                      struct fault *fault)
{
    char hidden[BATCH_NAME_BYTES];
    *file = (struct batch_file){ .folder = folder, .chunk = chunk };
    name_chunk(chunk, LINES, file->name);
    name_hidden(folder, LINES, file->temporary);
    name_hidden(folder, "numbers", hidden);
    file->stream = open_hidden(folder, file->temporary, fault);
    return file->stream
           && (!folder->has_tensors
               || batch_tensors_begin(&file->tensors, folder->path, folder->directory, hidden,
                                      fault));
}

bool batch_file_add(struct batch_file *file, const char *bytes, size_t size, struct fault *fault)
{
    return fwrite(bytes, 1, size, file->stream) == size || fail(file->folder, file->name, fault);
}

bool batch_file_add_tensors(struct batch_file *file, const char *id,
                            const struct safetensors *answer, struct fault *fault)
{
    return batch_tensors_add(&file->tensors, id, answer, fault);
}

static bool commit_tensors(struct batch_file *file, struct fault *fault)
{
    const struct batch_folder *folder = file->folder;
    char hidden[BATCH_NAME_BYTES], name[BATCH_NAME_BYTES];
    name_hidden(folder, TENSORS, hidden);
    name_chunk(file->chunk, TENSORS, name);
    FILE *stream = open_hidden(folder, hidden, fault);
    if (!stream)
        return false;
    const bool good = batch_tensors_write(&file->tensors, stream, name, fault)
                      && give_name(folder, stream, hidden, name, fault);
    fclose(stream);
    if (!good)
        unlinkat(folder->directory, hidden, 0);
    return good;
}

bool batch_file_commit(struct batch_file *file, struct fault *fault)
{
    if ((file->folder->has_tensors && !commit_tensors(file, fault))
        || !give_name(file->folder, file->stream, file->temporary, file->name, fault))
        return false;
    batch_tensors_free(&file->tensors);
    fclose(file->stream);
    file->stream = NULL;
    return true;
}

void batch_file_drop(struct batch_file *file)
{
    batch_tensors_free(&file->tensors);
    if (!file->stream)
        return;
    fclose(file->stream);
    unlinkat(file->folder->directory, file->temporary, 0);
    file->stream = NULL;
}
