/* SPDX-License-Identifier: Apache-2.0 */
/* regions.h - regions of shared memory that clients have registered, by their names. */
#ifndef ATTND_REGIONS_H
#define ATTND_REGIONS_H

#include "access/access_account.h"
#include "access/access_key.h"
#include "base/fault.h"
#include "base/list.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

/* The beginnings of the keys that are allowed, which are the names that clients give to shm_open(),
 * such as "/input_simple"; each with "/" before it or without; "/" alone allows
 * all. Borrowed. */
struct region_prefixes {
    const char *const *items;
    int count;
};

/* Whether the operator's prefixes are such beginnings. */
bool region_prefixes_check(const struct region_prefixes *prefixes, struct fault *fault);

/* One region of shared memory: a part of a file in /dev/shm, which a client has made
 * with shm_open() and the daemon reads tensors from and writes tensors to.
 *
 * The daemon never maps the file. It reads and writes with pread() and pwrite(), because the client
 * may cut the file short at any moment: a mapping would then end the daemon with SIGBUS, and a read
 * is only short. A tensor also has equal bytes from the first check to the last kernel, whatever is
 * written to the file meanwhile. */

enum { REGION_NAME_MAX = 128 };

struct regions;

struct region {
    _Atomic int holders;
    struct regions *home;
    LIST_LINK(struct region) in_leaving; /* of those that were taken out and are held still */
    int file;
    char
        owner[ACCESS_NAME_MAX + 1]; /* the name of the key that registered it; "": no keys in use */
    char name[REGION_NAME_MAX + 1];
    char key[NAME_MAX + 2]; /* "/input_simple" */
    uint64_t offset, size;  /* of the region in the file, in bytes */
};

/* Whether size bytes at offset lie in the region. */
bool region_check(const struct region *region, uint64_t offset, uint64_t size, struct fault *fault);

/* Copy size bytes at offset of the region, after region_check(). False, with a fault, where the
 * file has become shorter, or has no room. Both are thread-safe. Bytes that a client writes at the
 * same time come as they are. */
bool region_read(const struct region *region, uint64_t offset, void *bytes, size_t size,
                 struct fault *fault);
bool region_write(const struct region *region, uint64_t offset, const void *bytes, size_t size,
                  struct fault *fault);

/* The regions of shared memory that clients have registered, by their names.
 * Thread-safe.
 *
 * A region belongs to the name of the key that registered it: other keys neither see nor use it,
 * and may have one of the same name. Where no keys are in use, all regions are everybody's. The
 * number of regions and their bytes have bounds, in which one that was taken out counts as long as
 * requests hold its file open. */

enum {
    REGIONS_MAX = 256,
    REGIONS_PART = 4, /* one key may have one in 4 of the regions and of their bytes */
};

struct access_keys;

/* bytes_max bounds the sizes of all regions together. prefixes are borrowed. NULL: no memory. */
struct regions *regions_create(const struct region_prefixes *prefixes, size_t bytes_max);
void regions_free(struct regions *regions); /* NULL is fine */

/* Opens and keeps a region. key NULL: no keys are in use. */
bool regions_register(struct regions *regions, const struct access_key *access, const char *name,
                      const char *key, uint64_t offset, uint64_t size, struct fault *fault);

/* Takes the region out: it is not found any more. Requests that have found it go on with it.
 * Whether there was one. */
bool regions_unregister(struct regions *regions, const struct access_key *access, const char *name);

/* The same of all that the key may see. */
void regions_unregister_all(struct regions *regions, const struct access_key *access);

/* The same of all whose owner has no key of the file any more. */
void regions_unregister_lost(struct regions *regions, struct access_keys *keys);

/* Calls visit for each region that the key may see, in the order of their registration. visit must
 * not call functions of regions. */
void regions_each(struct regions *regions, const struct access_key *access,
                  void (*visit)(void *context, const struct region *region), void *context);

/* The sizes of all regions together. */
size_t regions_bytes(const struct regions *regions);

/* ------------------------------------------------------ what one request uses -- */

/* Zeroed, it holds none. For one thread at a time. */
struct regions_held {
    struct region **all;
    int count;
};

/* Finds a region, which held keeps until it is freed. A region that it holds already is found
 * there. */
struct region *regions_held_find(struct regions_held *held, struct regions *regions,
                                 const struct access_key *access, const char *name,
                                 struct fault *fault);
void regions_held_free(struct regions_held *held);

#endif
