/* regions.h - the regions of shared memory that clients have registered, by their names.
 * Thread-safe.
 *
 * A region belongs to the name of the key that registered it: other keys neither see nor use it,
 * and may have one of the same name. Where no keys are in use, all regions are everybody's. The
 * number of regions and their bytes have bounds. */
#ifndef ATTND_REGIONS_H
#define ATTND_REGIONS_H

#include "access/access_key.h"
#include "regions/region.h"

enum {
    REGIONS_MAX = 256,
    REGIONS_PART = 4, /* one key may have one in 4 of the regions and of their bytes */
};

struct access_keys;
struct regions;

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

/* The region of this name, held for the caller; NULL, with a fault. */
struct region *regions_find(struct regions *regions, const struct access_key *access,
                            const char *name, struct fault *fault);

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
