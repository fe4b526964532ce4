/* regions.c - see regions.h. */
#include "regions/regions.h"

#include "access/access_keys.h"
#include "watch/metrics.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct regions {
    struct region_prefixes prefixes;
    size_t bytes_max;
    _Atomic size_t bytes;  /* of all; changed under the mutex */
    pthread_mutex_t mutex; /* guards what follows */
    struct region *all[REGIONS_MAX];
    int count;
};

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
        region_release(regions->all[i]);
    pthread_mutex_destroy(&regions->mutex);
    free(regions);
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
            (size_t)(regions->count - place) * sizeof regions->all[0]);
    count_bytes(regions, regions_bytes(regions) - region->size);
    region_release(region);
}

/* What a key may have of a bound; where no keys are in use, there is no other. */
static size_t part_of(size_t bound, const char *owner)
{
    return owner[0] ? bound / REGIONS_PART : bound;
}

static bool check_room(const struct regions *regions, const struct region *region,
                       struct fault *fault)
{
    const size_t bytes_max = part_of(regions->bytes_max, region->owner);
    const size_t count_max = part_of(REGIONS_MAX, region->owner);
    size_t own_bytes = 0, own_count = 0;
    for (int i = 0; i < regions->count; i++)
        if (is_of(regions->all[i], region->owner)) {
            own_bytes += regions->all[i]->size;
            own_count++;
        }
    if (region->size > bytes_max)
        return fault_set_at(fault, "/byte_size", FAULT_TOO_LARGE,
                            "byte_size is %" PRIu64 "; regions may have %zu bytes together",
                            region->size, bytes_max);
    if (region->size > bytes_max - own_bytes
        || region->size > regions->bytes_max - regions_bytes(regions))
        return fault_set_at(fault, "/byte_size", FAULT_MEMORY,
                            "byte_size is %" PRIu64 ", and %zu bytes are registered already; "
                            "regions may have %zu bytes together; unregister one",
                            region->size, own_bytes, bytes_max);
    if (own_count >= count_max || regions->count >= REGIONS_MAX)
        return fault_set(fault, FAULT_MEMORY,
                         "%zu regions are registered already, and there may be %zu; unregister one",
                         own_count, count_max);
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
    struct region *region =
        region_open(owner_of(access), name, key, offset, size, &regions->prefixes, fault);
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
        region_release(region);
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

struct region *regions_find(struct regions *regions, const struct access_key *access,
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
