/* session_aside.c - see session_store.h: files of which the start could make no session. */
#include "session/session_saved.h"
#include "session/session_store_internal.h"

#include <stdlib.h>
#include <string.h>

struct session_aside {
    LIST_LINK(struct session_aside) in_store;
    char *id, *owner, *path;
};

static void free_one(struct session_aside *aside)
{
    free(aside->id);
    free(aside->owner);
    free(aside->path);
    free(aside);
}

bool session_store_set_aside(struct session_store *store, const char *id, const char *owner,
                             const char *path)
{
    struct session_aside *aside = calloc(1, sizeof *aside);
    if (!aside)
        return false;
    *aside =
        (struct session_aside){ .id = strdup(id), .owner = strdup(owner), .path = strdup(path) };
    if (!aside->id || !aside->owner || !aside->path) {
        free_one(aside);
        return false;
    }
    pthread_mutex_lock(&store->mutex);
    LIST_APPEND(&store->aside, aside, in_store);
    pthread_mutex_unlock(&store->mutex);
    return true;
}

void session_store_drop_aside(struct session_store *store, const struct session *session)
{
    LIST_OF(struct session_aside) dropped = { NULL };
    pthread_mutex_lock(&store->mutex);
    for (struct session_aside *aside = store->aside.first, *next; aside; aside = next) {
        next = aside->in_store.next;
        if (strcmp(aside->id, session->id) != 0
            || strcmp(aside->owner, session_owner(session)) != 0)
            continue;
        LIST_TAKE_OUT(&store->aside, aside, in_store);
        LIST_APPEND(&dropped, aside, in_store);
    }
    pthread_mutex_unlock(&store->mutex);
    for (struct session_aside *aside = dropped.first, *next; aside; aside = next) {
        next = aside->in_store.next;
        session_saved_drop_file(session->id, aside->path);
        free_one(aside);
    }
}

void session_store_free_aside(struct session_store *store)
{
    for (struct session_aside *aside = store->aside.first, *next; aside; aside = next) {
        next = aside->in_store.next;
        free_one(aside);
    }
}
