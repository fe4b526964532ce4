/* session_saved.c - see session_saved.h. */
#include "session/session_saved.h"

#include "host/file_save.h"
#include "watch/log.h"

#include <stdlib.h>
#include <string.h>

static bool remove_file(const char *path, struct fault *fault)
{
    const char *slash = strrchr(path, '/');
    char *directory = strndup(path, (size_t)(slash - path));
    if (!directory)
        return fault_no_memory(fault);
    const struct file_folder folder = { directory, SESSION_SAVED_WORDS, SESSION_SAVED_MODE };
    const bool removed = file_save_remove(&folder, path, fault);
    free(directory);
    return removed;
}

/* Calls of a session take turns, but it may end meanwhile: who takes the path removes the file. */
bool session_saved_remove(struct session *session, struct fault *fault)
{
    char *path = atomic_exchange(&session->saved, NULL);
    if (!path)
        return true;
    if (!remove_file(path, fault)) {
        atomic_store(&session->saved, path);
        return false;
    }
    free(path);
    return true;
}

static void log_kept(const char *id, const struct fault *fault)
{
    log_line(LOG_WARNING, "session's file not removed", LOG_STRING("session", id),
             LOG_STRING("reason", fault->message));
}

void session_saved_drop(struct session *session)
{
    struct fault fault;
    if (!session_saved_remove(session, &fault))
        log_kept(session->id, &fault);
}

void session_saved_drop_file(const char *id, const char *path)
{
    struct fault fault;
    if (!remove_file(path, &fault))
        log_kept(id, &fault);
}
