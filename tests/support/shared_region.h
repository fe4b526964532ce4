/* SPDX-License-Identifier: Apache-2.0 */
/* shared_region.h - shared memory as a client makes it, by shm_open(), and its regions at the
 * daemon. */
#ifndef SHARED_REGION_H
#define SHARED_REGION_H

#include "http_client.h"

enum { SHARED_KEY_BYTES = 64 };

/* How the keys begin that shared_region_make() makes: "/attnd-test-", for --shared-memory-prefix.
 */
#define SHARED_PREFIX "/attnd-test-"

struct shared_region {
    char key[SHARED_KEY_BYTES];
    int file;
    unsigned char *bytes; /* mapped */
    size_t size;
};

/* Makes shared memory of size bytes, all 0. No other process has the key. The memory is removed at
 * the end of this process, if not before. */
void shared_region_make(struct shared_region *region, const char *name, size_t size);

/* The same by a key of the caller's. */
void shared_region_make_as(struct shared_region *region, const char *key, size_t size);

void shared_region_remove(struct shared_region *region);

/* Registers size bytes at offset of the memory of this key under a name. The caller frees the
 * answer. */
struct http_response shared_region_send(struct http_client *client, const char *name,
                                        const char *key, unsigned long long offset,
                                        unsigned long long size);

/* The same of all of the memory; the daemon must take it. */
void shared_region_register(struct http_client *client, const char *name,
                            const struct shared_region *region);

/* Unregisters the region, or all where name is NULL. */
void shared_region_unregister(struct http_client *client, const char *name);

/* How many regions the daemon lists. */
int shared_region_count(struct http_client *client);

/* Writes the parameters of a tensor in a region into text of 200 bytes, and returns it. */
const char *shared_region_parameters(char *text, const char *name, unsigned long long offset,
                                     unsigned long long size);

#endif
