/* region_key.h - the keys of shared memory: the names that clients give to shm_open(), such as
 * "/input_simple", and the prefixes with which the operator allows some of them. */
#ifndef ATTND_REGION_KEY_H
#define ATTND_REGION_KEY_H

#include "base/fault.h"

/* The beginnings of the keys that are allowed, each with "/" before it or without; "/" alone allows
 * all. Borrowed. */
struct region_prefixes {
    const char *const *items;
    int count;
};

/* Whether the operator's prefixes are such beginnings. */
bool region_prefixes_check(const struct region_prefixes *prefixes, struct fault *fault);

/* The name of a key's file in /dev/shm, which is a part of key; NULL, with a fault at "/key", where
 * the key is no name of shared memory, or no prefix allows it. */
const char *region_key_file(const char *key, const struct region_prefixes *prefixes,
                            struct fault *fault);

#endif
