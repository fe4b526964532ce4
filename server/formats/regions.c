/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c - keys and the operator's prefixes, one region, all regions by their owners and names.
 */
#include "formats/regions.h"

#include "access/access_keys.h"
#include "telemetry/metrics.h"
#include "json/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct regions {
    struct region_prefixes prefixes;
    size_t bytes_max;
    _Atomic size_t bytes;  /* of all; changed under the mutex */
    pthread_mutex_t mutex; /* guards what follows */
    struct region *all[REGIONS_MAX];
    int count;
    LIST_OF(struct region) leaving; /* taken out, and held by requests */
};

/* ------------------------------------------------------------------- keys -- */

/* The slash that a name of shm_open() may begin with is no part of the name. */
static const char *without_slash(const char *key)
{
    return key + (key[0] == '/');
}

bool region_prefixes_check(const struct region_prefixes *prefixes, struct fault *fault)
{
    for (int i = 0; i < prefixes->count; i++)
        if (strchr(without_slash(prefixes->items[i]), '/'))
            return fault_set(fault, FAULT_OPTION,
                             "--shared-memory-prefix: '%.80s' came; expected how keys begin, as in "
                             "/input_, with no second /",
                             prefixes->items[i]);
    return true;
}

static bool is_name(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (name[i] == '/' || (unsigned char)name[i] < ' ' || name[i] == 127)
            return false;
    return length > 0 && length <= NAME_MAX && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool is_allowed(const char *name, const struct region_prefixes *prefixes)
{
    for (int i = 0; i < prefixes->count; i++) {
        const char *prefix = without_slash(prefixes->items[i]);
        if (strncmp(name, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

/* The name of a key's file in /dev/shm, which is a part of key; NULL, with a fault at "/key", where
 * the key is no name of shared memory, or no prefix allows it. */
static const char *region_key_file(const char *key, const struct region_prefixes *prefixes,
                                   struct fault *fault)
{
    const char *name = without_slash(key);
    if (!is_name(name)) {
        fault_set_at(fault, "/key", FAULT_OPTION,
                     "key is '%.80s'; expected a name as shm_open() takes it: / and 1 to %d bytes, "
                     "without a further / or control characters",
                     key, NAME_MAX);
        return NULL;
    }
    if (is_allowed(name, prefixes))
        return name;
    fault_set_at(fault, "/key", FAULT_FORBIDDEN,
                 "key '%.80s' begins with no prefix that the operator allows "
                 "(--shared-memory-prefix)",
                 key);
    return NULL;
}

/* ----------------------------------------------------------------- the file -- */

static bool refuse_open(const char *key, int error, struct fault *fault)
{
    if (error == ENOENT)
        return fault_set_at(fault, "/key", FAULT_NOT_FOUND,
                            "there is no shared memory '%.80s'; make it with shm_open() first",
                            key);
    if (error == EACCES || error == EPERM)
        return fault_set_at(fault, "/key", FAULT_FORBIDDEN,
                            "the daemon may not read and write shared memory '%.80s'; it has to "
                            "belong to the daemon's user",
                            key);
    if (fault_from_shortage(fault, error))
        return false;
    return fault_set_at(fault, "/key", FAULT_FORBIDDEN,
                        "'%.80s' is no shared memory as shm_open() makes it: a link, a folder or "
                        "a device",
                        key);
}

/* A file of another user could be cut and filled by somebody whom the daemon does not serve; one
 * with a second name may be a file whose own name no prefix allows. */
static bool check_file(const struct stat *status, const char *key, struct fault *fault)
{
    if (!S_ISREG(status->st_mode))
        return refuse_open(key, ELOOP, fault);
    if (status->st_uid != geteuid())
        return refuse_open(key, EACCES, fault);
    return status->st_nlink == 1
           || fault_set_at(fault, "/key", FAULT_FORBIDDEN,
                           "shared memory '%.80s' has %ju names; expected this one alone", key,
                           (uintmax_t)status->st_nlink);
}

static bool check_bounds(const struct stat *status, uint64_t offset, uint64_t size, const char *key,
                         struct fault *fault)
{
    const uint64_t bytes = status->st_size > 0 ? (uint64_t)status->st_size : 0;
    if (size < 1)
        return fault_set_at(fault, "/byte_size", FAULT_OPTION,
                            "byte_size is 0; expected 1 or more");
    if (offset <= bytes && size <= bytes - offset)
        return true;
    return fault_set_at(fault, offset < bytes ? "/byte_size" : "/offset", FAULT_OPTION,
                        "the region is %" PRIu64 " bytes at offset %" PRIu64
                        ", and shared memory '%.80s' has %" PRIu64 " bytes",
                        size, offset, key, bytes);
}

/* O_NONBLOCK: to open a pipe or a device must not wait. */
static int open_file(const char *file, const char *key, uint64_t offset, uint64_t size,
                     struct fault *fault)
{
    char path[NAME_MAX + sizeof "/dev/shm/"];
    struct stat status;
    snprintf(path, sizeof path, "/dev/shm/%s", file);
    const int descriptor = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0) {
        refuse_open(key, errno, fault);
        return -1;
    }
    if ((fstat(descriptor, &status) == 0 || refuse_open(key, errno, fault))
        && check_file(&status, key, fault) && check_bounds(&status, offset, size, key, fault))
        return descriptor;
    close(descriptor);
    return -1;
}

/* Opens a region, held once. The file must be a regular one of the daemon's user, with no other
 * name, and hold all bytes of the region. NULL, with a fault. */
static struct region *region_open(struct regions *regions, const char *owner, const char *name,
                                  const char *key, uint64_t offset, uint64_t size,
                                  struct fault *fault)
{
    const char *file = region_key_file(key, &regions->prefixes, fault);
    if (!file)
        return NULL;
    const int descriptor = open_file(file, key, offset, size, fault);
    if (descriptor < 0)
        return NULL;
    struct region *region = calloc(1, sizeof *region);
    if (!region) {
        close(descriptor);
        fault_no_memory(fault);
        return NULL;
    }
    region->holders = 1;
    region->home = regions;
    region->file = descriptor;
    region->offset = offset;
    region->size = size;
    text_copy(region->owner, sizeof region->owner, owner);
    text_copy(region->name, sizeof region->name, name);
    snprintf(region->key, sizeof region->key, "/%s", file);
    return region;
}

static struct region *region_hold(struct region *region)
{
    atomic_fetch_add_explicit(&region->holders, 1, memory_order_relaxed);
    return region;
}

static void region_close(struct region *region)
{
    close(region->file);
    free(region);
}

/* Whether the caller has dropped the last reference. */
static bool region_drop(struct region *region)
{
    return atomic_fetch_sub_explicit(&region->holders, 1, memory_order_acq_rel) == 1;
}

/* ---------------------------------------------------------------- its bytes -- */

bool region_check(const struct region *region, uint64_t offset, uint64_t size, struct fault *fault)
{
    if (offset > region->size)
        return fault_set(fault, FAULT_BINARY,
                         "Invalid offset for shared memory region: '%s'; it is %" PRIu64
                         ", and the region has %" PRIu64 " bytes",
                         region->name, offset, region->size);
    return size <= region->size - offset
           || fault_set(fault, FAULT_BINARY,
                        "Invalid offset + byte size for shared memory region: '%s'; they are "
                        "%" PRIu64 " + %" PRIu64 ", and the region has %" PRIu64 " bytes",
                        region->name, offset, size, region->size);
}

static bool refuse_short(const struct region *region, struct fault *fault)
{
    return fault_set(fault, FAULT_BINARY,
                     "shared memory '%.80s' of region '%s' has become shorter than the region; "
                     "make it as long as it was, or register it again",
                     region->key, region->name);
}

static bool refuse_error(const struct region *region, int error, struct fault *fault)
{
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
        return fault_set(fault, FAULT_MEMORY,
                         "there is no room left for the bytes of shared memory '%.80s'",
                         region->key);
    if (error == ENOMEM)
        return fault_no_memory(fault);
    return fault_set(fault, FAULT_FORBIDDEN,
                     "shared memory '%.80s' cannot be read and written; register it again",
                     region->key);
}

bool region_read(const struct region *region, uint64_t offset, void *bytes, size_t size,
                 struct fault *fault)
{
    char *to = bytes;
    for (size_t done = 0; done < size;) {
        const ssize_t count =
            pread(region->file, to + done, size - done, (off_t)(region->offset + offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return refuse_error(region, errno, fault);
        if (count == 0)
            return refuse_short(region, fault);
        done += (size_t)count;
    }
    return true;
}

/* A write behind the end would make the file longer, so its length is asked for first. Where the
 * file is cut between the two calls, it becomes as long again as the region says. */
bool region_write(const struct region *region, uint64_t offset, const void *bytes, size_t size,
                  struct fault *fault)
{
    const char *from = bytes;
    struct stat status;
    if (fstat(region->file, &status) != 0)
        return refuse_error(region, errno, fault);
    if ((uint64_t)status.st_size < region->offset + offset + size)
        return refuse_short(region, fault);
    for (size_t done = 0; done < size;) {
        const ssize_t count =
            pwrite(region->file, from + done, size - done, (off_t)(region->offset + offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return refuse_error(region, errno, fault);
        done += (size_t)count;
    }
    return true;
}

/* ------------------------------------------------------------ all regions -- */

struct regions *regions_create(const struct region_prefixes *prefixes, size_t bytes_max)
{
    struct regions *regions = calloc(1, sizeof *regions);
    if (!regions)
        return NULL;
    pthread_mutex_init(&regions->mutex, NULL);
    regions->prefixes = *prefixes;
    regions->bytes_max = bytes_max;
    return regions;
}

void regions_free(struct regions *regions)
{
    if (!regions)
        return;
    for (int i = 0; i < regions->count; i++)
        region_close(regions->all[i]);
    assert(!regions->leaving.first);
    pthread_mutex_destroy(&regions->mutex);
    free(regions);
}

/* What a request has held. The table's own reference goes under the mutex, so the last one that
 * goes here is of a region that was taken out. */
static void region_release(struct region *region)
{
    struct regions *home = region->home;
    if (!region_drop(region))
        return;
    pthread_mutex_lock(&home->mutex);
    LIST_TAKE_OUT(&home->leaving, region, in_leaving);
    pthread_mutex_unlock(&home->mutex);
    region_close(region);
}

static const char *owner_of(const struct access_key *access)
{
    return access ? access->account->name : "";
}

/* ----------------------------------------------------------- under the mutex -- */

static bool is_of(const struct region *region, const char *owner)
{
    return strcmp(region->owner, owner) == 0;
}

/* The place of a region; -1: there is none. */
static int find(const struct regions *regions, const char *owner, const char *name)
{
    for (int i = 0; i < regions->count; i++)
        if (strcmp(regions->all[i]->name, name) == 0 && is_of(regions->all[i], owner))
            return i;
    return -1;
}

static void count_bytes(struct regions *regions, size_t bytes)
{
    atomic_store_explicit(&regions->bytes, bytes, memory_order_relaxed);
    metrics_gauge_set(METRICS_REGIONS, regions->count);
    metrics_gauge_set(METRICS_REGION_BYTES, (int64_t)bytes);
}

/* Those behind it keep their order. */
static void take_out(struct regions *regions, int place)
{
    struct region *region = regions->all[place];
    regions->count--;
    memmove(&regions->all[place], &regions->all[place + 1],
            /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
            (size_t)(regions->count - place) * sizeof regions->all[0]);
    count_bytes(regions, regions_bytes(regions) - region->size);
    LIST_APPEND(&regions->leaving, region, in_leaving);
    if (!region_drop(region))
        return;
    LIST_TAKE_OUT(&regions->leaving, region, in_leaving);
    region_close(region);
}

/* What a key may have of a bound; where no keys are in use, there is no other. */
static size_t part_of(size_t bound, const char *owner)
{
    return owner[0] ? bound / REGIONS_PART : bound;
}

/* What files are open for, of one owner and of all. */
struct open_regions {
    size_t own_bytes, own_count, bytes, count;
};

static void add_open(struct open_regions *open, const struct region *region, const char *owner)
{
    open->bytes += region->size;
    open->count++;
    open->own_bytes += is_of(region, owner) ? region->size : 0;
    open->own_count += is_of(region, owner);
}

static struct open_regions count_open(const struct regions *regions, const char *owner)
{
    struct open_regions open = { .count = 0 };
    for (int i = 0; i < regions->count; i++)
        add_open(&open, regions->all[i], owner);
    for (const struct region *r = regions->leaving.first; r; r = r->in_leaving.next)
        add_open(&open, r, owner);
    return open;
}

static bool check_room(const struct regions *regions, const struct region *region,
                       struct fault *fault)
{
    const size_t bytes_max = part_of(regions->bytes_max, region->owner);
    const size_t count_max = part_of(REGIONS_MAX, region->owner);
    const struct open_regions open = count_open(regions, region->owner);
    if (region->size > bytes_max)
        return fault_set_at(fault, "/byte_size", FAULT_TOO_LARGE,
                            "byte_size is %" PRIu64 "; regions may have %zu bytes together",
                            region->size, bytes_max);
    if (region->size > bytes_max - open.own_bytes || region->size > regions->bytes_max - open.bytes)
        return fault_set_at(fault, "/byte_size", FAULT_MEMORY,
                            "byte_size is %" PRIu64 ", and %zu bytes are registered already; "
                            "regions may have %zu bytes together; unregister one",
                            region->size, open.own_bytes, bytes_max);
    if (open.own_count >= count_max || open.count >= REGIONS_MAX)
        return fault_set(fault, FAULT_MEMORY,
                         "%zu regions are registered already, and there may be %zu; unregister one",
                         open.own_count, count_max);
    return true;
}

/* -------------------------------------------------------------------- the face -- */

static bool check_name(const char *name, struct fault *fault)
{
    const size_t length = strlen(name);
    return (length > 0 && length <= REGION_NAME_MAX)
           || fault_set(fault, FAULT_OPTION, "the region's name has %zu bytes; expected 1 to %d",
                        length, REGION_NAME_MAX);
}

bool regions_register(struct regions *regions, const struct access_key *access, const char *name,
                      const char *key, uint64_t offset, uint64_t size, struct fault *fault)
{
    if (!check_name(name, fault))
        return false;
    struct region *region = region_open(regions, owner_of(access), name, key, offset, size, fault);
    if (!region)
        return false;
    pthread_mutex_lock(&regions->mutex);
    bool good =
        find(regions, region->owner, name) < 0
        || fault_set(fault, FAULT_CONFLICT,
                     "shared memory region '%s' already in manager; unregister it first", name);
    good = good && check_room(regions, region, fault);
    if (good) {
        regions->all[regions->count++] = region;
        count_bytes(regions, regions_bytes(regions) + size);
    }
    pthread_mutex_unlock(&regions->mutex);
    if (!good)
        region_close(region);
    return good;
}

bool regions_unregister(struct regions *regions, const struct access_key *access, const char *name)
{
    pthread_mutex_lock(&regions->mutex);
    const int place = find(regions, owner_of(access), name);
    if (place >= 0)
        take_out(regions, place);
    pthread_mutex_unlock(&regions->mutex);
    return place >= 0;
}

void regions_unregister_all(struct regions *regions, const struct access_key *access)
{
    pthread_mutex_lock(&regions->mutex);
    for (int i = regions->count - 1; i >= 0; i--)
        if (is_of(regions->all[i], owner_of(access)))
            take_out(regions, i);
    pthread_mutex_unlock(&regions->mutex);
}

void regions_unregister_lost(struct regions *regions, struct access_keys *keys)
{
    pthread_mutex_lock(&regions->mutex);
    for (int i = regions->count - 1; i >= 0; i--) {
        struct access_key *key = access_keys_find_name(keys, regions->all[i]->owner);
        if (!key)
            take_out(regions, i);
        access_key_release(key);
    }
    pthread_mutex_unlock(&regions->mutex);
}

/* The region of this name, held for the caller; NULL, with a fault. */
static struct region *regions_find(struct regions *regions, const struct access_key *access,
                                   const char *name, struct fault *fault)
{
    pthread_mutex_lock(&regions->mutex);
    const int place = find(regions, owner_of(access), name);
    struct region *region = place >= 0 ? region_hold(regions->all[place]) : NULL;
    pthread_mutex_unlock(&regions->mutex);
    if (!region)
        fault_set(fault, FAULT_NOT_FOUND,
                  "Unable to find shared memory region: '%.128s'; register it first", name);
    return region;
}

void regions_each(struct regions *regions, const struct access_key *access,
                  void (*visit)(void *context, const struct region *region), void *context)
{
    pthread_mutex_lock(&regions->mutex);
    for (int i = 0; i < regions->count; i++)
        if (is_of(regions->all[i], owner_of(access)))
            visit(context, regions->all[i]);
    pthread_mutex_unlock(&regions->mutex);
}

size_t regions_bytes(const struct regions *regions)
{
    return atomic_load_explicit(&regions->bytes, memory_order_relaxed);
}

/* ------------------------------------------------------ what one request uses -- */

struct region *regions_held_find(struct regions_held *held, struct regions *regions,
                                 const struct access_key *access, const char *name,
                                 struct fault *fault)
{
    for (int i = 0; i < held->count; i++)
        if (strcmp(held->all[i]->name, name) == 0)
            return held->all[i];
    struct region **all = realloc(held->all, ((size_t)held->count + 1) * sizeof(struct region *));
    if (!all) {
        fault_no_memory(fault);
        return NULL;
    }
    held->all = all;
    struct region *region = regions_find(regions, access, name, fault);
    if (region)
        all[held->count++] = region;
    return region;
}

void regions_held_free(struct regions_held *held)
{
    for (int i = 0; i < held->count; i++)
        region_release(held->all[i]);
    free(held->all);
    *held = (struct regions_held){ .all = NULL };
}
