/* SPDX-License-Identifier: Apache-2.0 */
/* access_keys.c - the bytes of the file, the exchange of tables, metrics of the keys. */
#include "access/access_keys.h"

#include "access/access_table.h"
#include "telemetry/key_metrics.h"
#include "telemetry/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------- file -- */

enum { PATH_SHOWN = 160 };

static bool refuse(const char *path, struct fault *fault, const char *reason)
{
    return fault_set(fault, FAULT_OPTION, "%.*s: %s", PATH_SHOWN, path, reason);
}

/* The mode is that of the open file, so nobody can change files in between. */
static bool check_file(int descriptor, const char *path, struct fault *fault)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return refuse(path, fault, strerror(errno));
    const unsigned mode = status.st_mode & 07777;
    if (!S_ISREG(status.st_mode))
        return refuse(path, fault, "is not a regular file; expected one");
    if (mode & S_IWOTH)
        return fault_set(fault, FAULT_OPTION,
                         "%.*s: others may write it (mode %04o); expected none to, chmod o-w",
                         PATH_SHOWN, path, mode);
    if (mode & S_IROTH)
        log_line(LOG_WARNING, "keys readable by others", LOG_STRING("file", path),
                 LOG_STRING("advice", "chmod o-r"));
    return true;
}

/* Reads up to one byte more than a file may have. */
static bool read_bytes(int descriptor, const char *path, char *text, size_t *size,
                       struct fault *fault)
{
    *size = 0;
    while (*size <= ACCESS_FILE_BYTES_MAX) {
        const ssize_t got = read(descriptor, text + *size, ACCESS_FILE_BYTES_MAX + 1 - *size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return refuse(path, fault, strerror(errno));
        if (got == 0)
            return true;
        *size += (size_t)got;
    }
    return fault_set(fault, FAULT_OPTION, "%.*s: has more than %d bytes; expected at most as many",
                     PATH_SHOWN, path, ACCESS_FILE_BYTES_MAX);
}

bool access_file_read(const char *path, char **text, size_t *size, struct fault *fault)
{
    *text = NULL;
    /* O_NONBLOCK: a pipe without a writer must not hold up the start. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return refuse(path, fault, strerror(errno));
    bool good = check_file(descriptor, path, fault);
    if (good)
        *text = malloc(ACCESS_FILE_BYTES_MAX + 1);
    good = good && (*text || fault_no_memory(fault))
           && read_bytes(descriptor, path, *text, size, fault);
    close(descriptor);
    if (!good) {
        free(*text);
        *text = NULL;
    }
    return good;
}

/* ------------------------------------------------------------------- keys -- */

/* A reader holds the lock for one search in memory. Reading the file again makes a new table beside
 * the old one, and takes the lock only to exchange the two. The lock prefers writers, so that many
 * searches cannot keep the exchange waiting. */

struct access_keys {
    const char *path;
    pthread_rwlock_t lock; /* guards the pointer to the table */
    struct access_table *table;
    struct access_accounts *accounts;
};

static void init_lock(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

static bool read_table(struct access_keys *keys, struct access_table **table, struct fault *fault)
{
    char *text;
    size_t size;
    if (!access_file_read(keys->path, &text, &size, fault))
        return false;
    const bool good = access_table_create(table, keys->path, text, size, keys->accounts, fault);
    free(text);
    return good;
}

/* The names of the one table that the other does not have. */
static int count_missing(const struct access_table *names, const struct access_table *others)
{
    int count = 0;
    for (int64_t i = 0; i < names->count; i++)
        count += !access_table_find_name(others, names->keys[i]->name);
    return count;
}

static void set_limits(const struct access_table *table)
{
    for (int64_t i = 0; i < table->count; i++)
        access_account_limit(table->keys[i]->account, &table->keys[i]->limits);
}

bool access_keys_open(struct access_keys **keys, const char *path, struct fault *fault)
{
    *keys = calloc(1, sizeof **keys);
    if (!*keys)
        return fault_no_memory(fault);
    (*keys)->path = path;
    init_lock(&(*keys)->lock);
    (*keys)->accounts = access_accounts_create();
    const bool good =
        ((*keys)->accounts || fault_no_memory(fault)) && read_table(*keys, &(*keys)->table, fault);
    if (good) {
        set_limits((*keys)->table);
    } else {
        access_keys_free(*keys);
        *keys = NULL;
    }
    return good;
}

bool access_keys_reload(struct access_keys *keys, struct access_keys_change *change,
                        struct fault *fault)
{
    struct access_table *fresh;
    if (!read_table(keys, &fresh, fault))
        return false;
    set_limits(fresh); /* first: no request of a new name may find an account without bounds */
    pthread_rwlock_wrlock(&keys->lock);
    struct access_table *old = keys->table;
    keys->table = fresh;
    pthread_rwlock_unlock(&keys->lock);
    if (change)
        *change = (struct access_keys_change){
            .count = (int)fresh->count,
            .added = count_missing(fresh, old),
            .removed = count_missing(old, fresh),
        };
    access_table_free(old);
    return true;
}

int access_keys_count(struct access_keys *keys)
{
    pthread_rwlock_rdlock(&keys->lock);
    const int count = (int)keys->table->count;
    pthread_rwlock_unlock(&keys->lock);
    return count;
}

/* A key that was found, held unless it has expired. The caller holds the lock. */
static struct access_key *hold_valid(struct access_key *key)
{
    return key && !access_key_is_expired(key, time(NULL)) ? access_key_hold(key) : NULL;
}

struct access_key *access_keys_find(struct access_keys *keys, const char *secret, size_t size)
{
    pthread_rwlock_rdlock(&keys->lock);
    struct access_key *key = hold_valid(access_table_find(keys->table, secret, size));
    pthread_rwlock_unlock(&keys->lock);
    return key;
}

struct access_key *access_keys_find_name(struct access_keys *keys, const char *name)
{
    pthread_rwlock_rdlock(&keys->lock);
    struct access_key *key = hold_valid(access_table_find_name(keys->table, name));
    pthread_rwlock_unlock(&keys->lock);
    return key;
}

void access_keys_each_account(struct access_keys *keys,
                              void (*visit)(void *context, struct access_account *account),
                              void *context)
{
    access_accounts_each(keys->accounts, visit, context);
}

void access_keys_free(struct access_keys *keys)
{
    if (!keys)
        return;
    access_table_free(keys->table);
    access_accounts_free(keys->accounts);
    pthread_rwlock_destroy(&keys->lock);
    free(keys);
}

/* ---------------------------------------------------------------- metrics -- */

/* Several accounts may count in one place. An account that had no request yet has none, but for one
 * whose sessions are from an earlier life of the daemon. */
static void add(void *context, struct access_account *account)
{
    struct access_quota *quota = &account->quota;
    struct key_holding *holdings = context;
    const int64_t sessions = atomic_load(&account->sessions);
    if (atomic_load(&quota->metrics_place) == 0 && sessions == 0)
        return;
    struct key_holding *holding = &holdings[access_quota_place(quota)];
    holding->requests += atomic_load(&quota->in_flight);
    holding->memory_bytes += atomic_load(&quota->memory.bytes);
    holding->sessions += sessions;
    holding->session_bytes += atomic_load(&account->session_bytes);
}

void access_metrics_write(struct access_keys *keys, struct text *text)
{
    struct key_holding holdings[KEY_METRICS_PLACES] = { { 0 } };
    if (!keys)
        return;
    access_keys_each_account(keys, add, holdings);
    key_metrics_write(text, holdings);
}
