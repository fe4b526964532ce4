/* SPDX-License-Identifier: Apache-2.0 */
/* access_table.h - the keys' file as text: one line, and all keys of one reading. */
#ifndef ATTND_ACCESS_TABLE_H
#define ATTND_ACCESS_TABLE_H

#include "access/access_key.h"

/* ------------------------------------------------------------------ lines -- */

enum { ACCESS_LINE_BYTES_MAX = 4096 };

struct access_line {
    const char *path; /* of the file, for messages */
    int number;       /* from 1 */
    const char *text; /* without comment and end of line */
    size_t size;
};

/* Where the name and the hash of the line begin, for faults that are found later. */
struct access_line_places {
    const char *name, *hash;
};

/* Fills in all of a new key but its account. The line has more than blanks. */
bool access_line_read(const struct access_line *line, struct access_key *key,
                      struct access_line_places *places, struct fault *fault);

/* ------------------------------------------------------------------ table -- */

/* All keys of one reading of the keys' file. It does not change once it is read,
 * so any number of threads may find keys in it. */

enum { ACCESS_KEYS_MAX = 10000 };

struct access_table {
    struct access_key **keys; /* as in the file; each is held */
    int64_t count, capacity;
    unsigned char (*hashes)[ACCESS_HASH_BYTES]; /* of those keys that have one */
    struct access_key **hashed;                 /* the keys of the hashes */
    int64_t hash_count;
    void *by_name; /* a tree of the keys (tsearch) */
};

/* Reads the text of a keys' file, whole or not at all; path is for messages. Each key holds the
 * account of its name among accounts, whose limits stay as they are. */
bool access_table_create(struct access_table **table, const char *path, const char *text,
                         size_t size, struct access_accounts *accounts, struct fault *fault);
void access_table_free(struct access_table *table); /* NULL is fine */

/* The key with this secret, expired or not, not held; NULL: there is none. The secret is compared
 * with every key in constant time, so how long it takes says nothing about how near it is. */
struct access_key *access_table_find(const struct access_table *table, const char *secret,
                                     size_t size);

/* The key of this name, not held; NULL: there is none. */
struct access_key *access_table_find_name(const struct access_table *table, const char *name);

#endif
