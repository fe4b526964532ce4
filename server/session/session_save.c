/* session_save.c - see session_save.h: the directory, and writing at the end. */
#include "session/session_save.h"

#include "base/clock.h"
#include "base/random_id.h"
#include "host/file_save.h"
#include "model/model_mapping.h"
#include "session/session_file.h"
#include "session/session_file_read.h"
#include "text/text.h"
#include "watch/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ------------------------------------------------------------------ the directory -- */

/* A descriptor of a directory that can be written to; -1, with the fault, where it is none. */
static int open_directory(const char *directory, struct fault *fault)
{
    const int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0 && access(directory, R_OK | W_OK | X_OK) == 0)
        return descriptor;
    fault_set(fault, FAULT_STORAGE,
              "--session-save: '%.100s' came, and %s; expected a directory that the daemon may "
              "write to",
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

/* Reads a file back as a start does, but for the model. */
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
        || asprintf(&path, "%s/" SESSION_SAVE_PREFIX "%s" SESSION_SAVE_ENDING, save->directory,
                    random)
               < 0)
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

struct all {
    struct session **sessions; /* held */
    int64_t count, capacity;
};

static void take(void *context, struct session *session)
{
    struct all *all = context;
    if (all->count < all->capacity)
        all->sessions[all->count++] = session_hold(session);
}

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
    struct all all = { .count = 0 };
    size_t bytes = 0;
    int64_t written = 0, lost = 0;
    session_store_sweep(sessions, start_ns);
    all.capacity = session_store_list(sessions, NULL, 0, 0, take, &all);
    all.sessions = calloc((size_t)all.capacity + 1, sizeof(struct session *));
    if (!all.sessions) {
        log_line(LOG_ERROR, "sessions lost", LOG_NUMBER("count", all.capacity),
                 LOG_STRING("reason", "no memory"));
        return all.capacity == 0;
    }
    session_store_list(sessions, NULL, 0, all.capacity, take, &all);
    for (int64_t i = 0; i < all.count; i++) {
        struct session *session = all.sessions[i];
        if (write_session(save, session, start_ns, &fault)) {
            bytes += session_bytes(session);
            written++;
        } else if (!has_file(session)) { /* else that is as good as before */
            log_lost(session, &fault);
            lost++;
        }
        session_release(session);
    }
    free(all.sessions);
    log_line(LOG_INFO, "sessions saved", LOG_NUMBER("count", written), LOG_NUMBER("lost", lost),
             LOG_NUMBER("bytes", bytes), LOG_MS("ms", clock_now_ns() - start_ns));
    return lost == 0;
}
