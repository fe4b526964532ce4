/* SPDX-License-Identifier: Apache-2.0 */
/* session_save.c - the directory, writing at the end, and loading at the next start. */
#include "operations/session/session_save.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/unique_id.h"
#include "call/model_access.h"
#include "host/file_save.h"
#include "models/model/model_mapping.h"
#include "operations/session/session_file.h"
#include "operations/session/session_file_read.h"
#include "telemetry/log.h"
#include "json/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "session-"
#define ENDING ".safetensors"

/* ------------------------------------------------------------------ the directory -- */

/* A descriptor of a directory that can be written to; -1, with the fault, where it is none. */
static int open_directory(const char *directory, struct fault *fault)
{
    const int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0 && access(directory, R_OK | W_OK | X_OK) == 0)
        return descriptor;
    fault_set(fault, FAULT_STORAGE,
              "--session-save: '%.100s': %s; expected a directory that the daemon may write to",
              directory, strerror(errno));
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

bool session_save_try(const char *directory, struct fault *fault)
{
    const int descriptor = open_directory(directory, fault);
    if (descriptor >= 0)
        close(descriptor);
    return descriptor >= 0;
}

bool session_save_open(struct session_save *save, const char *directory, struct fault *fault)
{
    *save = (struct session_save){ directory, open_directory(directory, fault) };
    if (save->lock >= 0 && flock(save->lock, LOCK_EX | LOCK_NB) == 0) {
        file_save_clean(directory);
        return true;
    }
    if (save->lock >= 0 && errno == EWOULDBLOCK)
        fault_set(fault, FAULT_STORAGE,
                  "--session-save: another daemon uses the directory '%.100s'; give each one of "
                  "its own",
                  directory);
    else if (save->lock >= 0)
        fault_set(fault, FAULT_STORAGE,
                  "--session-save: '%.100s' cannot be locked: %s; expected a directory of a file "
                  "system with flock(2)",
                  directory, strerror(errno));
    session_save_close(save);
    return false;
}

void session_save_close(struct session_save *save)
{
    if (save->directory && save->lock >= 0)
        close(save->lock);
    *save = (struct session_save){ NULL, -1 };
}

/* ---------------------------------------------------------------------- one session -- */

static struct file_folder folder_of(const struct session_save *save)
{
    return (struct file_folder){ save->directory, SESSION_FILE_WORDS, SESSION_FILE_MODE };
}

/* Reads a file back as a start does, without the model. */
static bool check_file(const char *path, struct fault *fault)
{
    struct session_file_read read;
    struct model_mapping *mapping = model_mapping_create(path, fault);
    if (!mapping)
        return false;
    bool good = session_file_read(&read, mapping->bytes, mapping->size, NULL, fault);
    if (good) {
        good = session_file_check_sums(&read, fault);
        session_file_read_free(&read);
    }
    model_mapping_free(mapping);
    return good;
}

static bool write_file(const struct session_save *save, struct session_file *file, const char *path,
                       struct fault *fault)
{
    const struct file_folder folder = folder_of(save);
    struct file_save saved;
    if (!file_save_begin(&saved, &folder, file->parts, file->part_count, fault))
        return false;
    const bool good =
        check_file(saved.temporary, fault) && file_save_commit(&saved, &folder, path, fault);
    file_save_free(&saved);
    return good;
}

static char *new_path(const struct session_save *save)
{
    char random[RANDOM_ID_LENGTH + 1], *path;
    if (!random_id_make(random)
        || asprintf(&path, "%s/" PREFIX "%s" ENDING, save->directory, random) < 0)
        return NULL;
    return path;
}

/* Over the file that the session has, or into a new one. */
static bool write_session(const struct session_save *save, struct session *session, int64_t now_ns,
                          struct fault *fault)
{
    struct session_file file;
    struct text head;
    char *old = atomic_load(&session->saved), *path = old ? strdup(old) : new_path(save);
    if (!path)
        return fault_no_memory(fault);
    if (!session_file_begin(&file, session, NULL, fault)) {
        free(path);
        return false;
    }
    file.now_ns = now_ns;
    for (int64_t i = 0; i < file.tensor_count; i++)
        session_file_sum(&file, i);
    text_init(&head, SIZE_MAX);
    const bool good =
        session_file_write_head(&file, &head, fault) && write_file(save, &file, path, fault);
    text_free(&head);
    session_file_free(&file);
    free(path);
    return good;
}

/* Whether the file that the session was made of is there, and whole. */
static bool has_file(const struct session *session)
{
    struct fault fault;
    const char *path = atomic_load(&session->saved);
    return path && check_file(path, &fault);
}

/* ------------------------------------------------------------------------- all -- */

static void log_lost(const struct session *session, const struct fault *fault)
{
    log_line(LOG_ERROR, "session lost", LOG_STRING("session", session->id),
             LOG_STRING("owner", session->account ? session->account->name : ""),
             LOG_STRING("reason", fault->message));
}

bool session_save_write(const struct session_save *save, struct session_store *sessions)
{
    const int64_t start_ns = clock_now_ns();
    struct fault fault;
    size_t bytes = 0;
    int64_t total, written = 0, lost = 0;
    session_store_sweep(sessions, start_ns);
    session_store_list(sessions, NULL, 0, NULL, 0, &total);
    struct session **all = calloc((size_t)total + 1, sizeof(struct session *));
    if (!all) {
        log_line(LOG_ERROR, "sessions lost", LOG_NUMBER("count", total),
                 LOG_STRING("reason", "no memory"));
        return total == 0;
    }
    const int64_t count = session_store_list(sessions, NULL, 0, all, total, &total);
    for (int64_t i = 0; i < count; i++) {
        struct session *session = all[i];
        if (session->elsewhere) /* its keys and values are elsewhere, and end with it */
            ;
        else if (write_session(save, session, start_ns, &fault)) {
            bytes += session_bytes(session);
            written++;
        } else if (!has_file(session)) { /* else the old file is valid */
            log_lost(session, &fault);
            lost++;
        }
        session_release(session);
    }
    free(all);
    log_line(LOG_INFO, "sessions saved", LOG_NUMBER("count", written), LOG_NUMBER("lost", lost),
             LOG_NUMBER("bytes", bytes), LOG_MS("ms", clock_now_ns() - start_ns));
    return lost == 0;
}

/* ---------------------------------------------------------------------- the start -- */

struct restore {
    const struct session_save *save;
    struct session_store *sessions;
    struct model_store *models;
    struct access_keys *keys; /* NULL: none are in use */
    int64_t now_ns;           /* by which all ages are */
};

struct entry {
    char *path;
    char *id, *owner; /* of a file that could not be loaded; NULL: not known */
    struct timespec changed_at;
};

/* ------------------------------------------------------------------- one session -- */

/* The key of the owner, held; *key is NULL where no keys are in use. */
static bool find_owner(const struct restore *restore, const char *owner, struct access_key **key,
                       struct fault *fault)
{
    *key = NULL;
    if (!restore->keys)
        return !owner
               || fault_set(fault, FAULT_KEY,
                            "it belongs to the key '%.64s', and --keys is not "
                            "given",
                            owner);
    if (!owner)
        return fault_set(fault, FAULT_KEY, "it was made without keys, and --keys is given");
    *key = access_keys_find_name(restore->keys, owner);
    return *key
           || fault_set(fault, FAULT_KEY, "it belongs to '%.64s', and no key has this name", owner);
}

/* Its age and the time since its last use continue from what they were: the time between two
 * daemons does not count, for nobody could use it. */
static bool add(const struct restore *restore, const struct session_file_read *read,
                struct model *model, const struct access_key *key, const char *path,
                struct fault *fault)
{
    struct session *session =
        session_file_make(read, model, restore->sessions, key ? key->account : NULL, fault);
    if (!session)
        return false;
    session->created_ns = restore->now_ns - read->age_ns;
    atomic_store(&session->used_ns, restore->now_ns - read->idle_ns);
    char *saved = strdup(path);
    if (!saved) {
        session_release(session);
        return fault_no_memory(fault);
    }
    atomic_store(&session->saved, saved);
    return session_store_add(restore->sessions, session, read->id, key, fault);
}

static bool make(const struct restore *restore, const struct session_file_read *read,
                 const char *path, struct fault *fault)
{
    struct access_key *key;
    struct model *model;
    if (!read->id)
        return fault_set(fault, FAULT_FIELD, "session is missing in __metadata__");
    if (!session_file_check_id(read, read->id, fault) || !session_file_check_sums(read, fault)
        || !find_owner(restore, read->owner, &key, fault))
        return false;
    bool good = session_store_takes(restore->sessions, read->id, key, fault)
                && model_access_resolve(restore->models, NULL, read->model_name, "", &model, fault);
    if (good) {
        good = add(restore, read, model, key, path, fault);
        model_release(model);
    }
    access_key_release(key);
    return good;
}

/* With what is known of a file of which no session was made. */
static bool restore_file(const struct restore *restore, struct entry *entry, struct fault *fault)
{
    const char *path = entry->path;
    struct session_file_read read;
    struct model_mapping *mapping = model_mapping_create(path, fault);
    if (!mapping)
        return false;
    bool good = session_file_read(&read, mapping->bytes, mapping->size, NULL, fault);
    if (good) {
        good = make(restore, &read, path, fault);
        if (!good && read.id) {
            entry->id = strdup(read.id);
            entry->owner = strdup(read.owner ? read.owner : "");
        }
        session_file_read_free(&read);
    }
    model_mapping_free(mapping);
    return good;
}

/* ------------------------------------------------------------------ the files -- */

struct entries {
    struct entry *all;
    int64_t count, capacity;
};

static bool is_name(const char *name)
{
    const size_t length = strlen(name), prefix = strlen(PREFIX);
    const size_t ending = strlen(ENDING);
    return length > prefix + ending && strncmp(name, PREFIX, prefix) == 0
           && strcmp(name + length - ending, ENDING) == 0;
}

static bool append(struct entries *entries, const char *directory, const char *name)
{
    struct stat status;
    struct entry entry = { .id = NULL };
    if (asprintf(&entry.path, "%s/%s", directory, name) < 0)
        return false;
    entry.changed_at = stat(entry.path, &status) == 0 ? status.st_mtim : (struct timespec){ 0 };
    struct entry *all =
        array_with_room(entries->all, entries->count, &entries->capacity, sizeof *all);
    if (!all) {
        free(entry.path);
        return false;
    }
    entries->all = all;
    entries->all[entries->count++] = entry;
    return true;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *one = a, *other = b;
    const int64_t one_ns = clock_ns_of(one->changed_at), other_ns = clock_ns_of(other->changed_at);
    return one_ns != other_ns ? (one_ns < other_ns ? 1 : -1) : strcmp(one->path, other->path);
}

static bool list(const char *directory, struct entries *entries)
{
    DIR *stream = opendir(directory);
    const struct dirent *entry;
    bool good = stream != NULL;
    while (good && (entry = readdir(stream)))
        if (is_name(entry->d_name))
            good = append(entries, directory, entry->d_name);
    if (stream)
        closedir(stream);
    if (entries->count > 0)
        qsort(entries->all, (size_t)entries->count, sizeof *entries->all, compare_entries);
    return good;
}

/* When all that can be made is there: what is made or ends from here on ends files of its id. */
static void add_unloaded(struct session_store *sessions, struct entries *entries)
{
    for (int64_t i = 0; i < entries->count; i++) {
        struct entry *entry = &entries->all[i];
        if (entry->id && entry->owner
            && !session_store_add_unloaded(sessions, entry->id, entry->owner, entry->path))
            log_line(LOG_WARNING, "session's file stays", LOG_STRING("file", entry->path),
                     LOG_STRING("reason", "no memory"));
        free(entry->id);
        free(entry->owner);
        free(entry->path);
    }
    free(entries->all);
}

void session_save_restore(const struct session_save *save, struct session_store *sessions,
                          struct model_store *models, struct access_keys *keys)
{
    const int64_t start_ns = clock_now_ns();
    const struct restore restore = { save, sessions, models, keys, start_ns };
    struct entries entries = { .count = 0 };
    struct fault fault;
    int64_t made = 0;
    if (!list(save->directory, &entries))
        log_line(LOG_WARNING, "sessions not all listed", LOG_STRING("directory", save->directory),
                 LOG_STRING("reason", strerror(errno)));
    for (int64_t i = 0; i < entries.count; i++) {
        if (restore_file(&restore, &entries.all[i], &fault))
            made++;
        else
            log_line(LOG_WARNING, "session kept aside", LOG_STRING("file", entries.all[i].path),
                     LOG_STRING("reason", fault.message));
    }
    add_unloaded(sessions, &entries);
    session_store_sort(sessions);
    log_line(LOG_INFO, "sessions restored", LOG_NUMBER("count", made),
             LOG_NUMBER("aside", entries.count - made), LOG_MS("ms", clock_now_ns() - start_ns));
}
