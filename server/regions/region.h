/* region.h - one region of shared memory: a part of a file in /dev/shm, which a client has made
 * with shm_open() and the daemon reads tensors from and writes tensors to.
 *
 * The daemon never maps the file. It reads and writes with pread() and pwrite(), because whoever
 * owns the file may cut it short at any moment: a mapping would then end the daemon with SIGBUS,
 * and a read is only short. A tensor is also the same bytes from the first check to the last
 * kernel, whatever is written to the file meanwhile. */
#ifndef ATTND_REGION_H
#define ATTND_REGION_H

#include "access/access_account.h"
#include "base/fault.h"
#include "regions/region_key.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

enum { REGION_NAME_MAX = 128 };

struct region {
    _Atomic int holders;
    int file;
    char
        owner[ACCESS_NAME_MAX + 1]; /* the name of the key that registered it; "": no keys in use */
    char name[REGION_NAME_MAX + 1];
    char key[NAME_MAX + 2]; /* "/input_simple" */
    uint64_t offset, size;  /* of the region in the file, in bytes */
};

/* Opens a region, held once. The file must be a regular one of the daemon's user, with no other
 * name, and hold all bytes of the region. NULL, with a fault. */
struct region *region_open(const char *owner, const char *name, const char *key, uint64_t offset,
                           uint64_t size, const struct region_prefixes *prefixes,
                           struct fault *fault);

struct region *region_hold(struct region *region);
void region_release(struct region *region); /* the last one closes the file; NULL is fine */

/* Whether size bytes at offset lie in the region. */
bool region_check(const struct region *region, uint64_t offset, uint64_t size, struct fault *fault);

/* Copy size bytes at offset of the region, after region_check(). False, with a fault, where the
 * file has become shorter, or has no room. Both are thread-safe. Bytes that a client writes at the
 * same time come as they are. */
bool region_read(const struct region *region, uint64_t offset, void *bytes, size_t size,
                 struct fault *fault);
bool region_write(const struct region *region, uint64_t offset, const void *bytes, size_t size,
                  struct fault *fault);

#endif
