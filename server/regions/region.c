/* region.c - see region.h. */
#include "regions/region.h"

#include "text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

struct region *region_open(const char *owner, const char *name, const char *key, uint64_t offset,
                           uint64_t size, const struct region_prefixes *prefixes,
                           struct fault *fault)
{
    const char *file = region_key_file(key, prefixes, fault);
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
    region->file = descriptor;
    region->offset = offset;
    region->size = size;
    text_copy(region->owner, sizeof region->owner, owner);
    text_copy(region->name, sizeof region->name, name);
    snprintf(region->key, sizeof region->key, "/%s", file);
    return region;
}

struct region *region_hold(struct region *region)
{
    atomic_fetch_add_explicit(&region->holders, 1, memory_order_relaxed);
    return region;
}

void region_release(struct region *region)
{
    if (!region || atomic_fetch_sub_explicit(&region->holders, 1, memory_order_acq_rel) > 1)
        return;
    close(region->file);
    free(region);
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
