/* SPDX-License-Identifier: Apache-2.0 */
/* access_keys.h - the keys in use: read from a file, and replaced as a whole when it is read again.
 */
#ifndef ATTND_ACCESS_KEYS_H
#define ATTND_ACCESS_KEYS_H

#include "access/access_key.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

/* ------------------------------------------------------------------- file -- */

enum { ACCESS_FILE_BYTES_MAX = 1 << 20 };

/* Reads the whole file; *text is malloc'd. Refuses a file that is not regular, that is over
 * ACCESS_FILE_BYTES_MAX, or that others may write, because they could give themselves a key. Logs a
 * warning where others may read it. */
bool access_file_read(const char *path, char **text, size_t *size, struct fault *fault);

/* ------------------------------------------------------------------- keys -- */

struct access_keys; /* thread-safe */

/* Reads the file. A fault names the file, line and column, what came and what was expected. path is
 * borrowed. */
bool access_keys_open(struct access_keys **keys, const char *path, struct fault *fault);

/* What reading the file again changed, in keys. */
struct access_keys_change {
    int count; /* there are now */
    int added; /* whose names were not there */
    int removed;
};

/* Reads the file again. If anything is wrong in it: false, and the keys of before stay. Threads
 * that look for keys meanwhile find those of before, and do not wait for the file. For one thread
 * at a time. change may be NULL. */
bool access_keys_reload(struct access_keys *keys, struct access_keys_change *change,
                        struct fault *fault);

int access_keys_count(struct access_keys *keys);

/* The key with this secret, or of this name (for a client's certificate), held for the caller;
 * NULL: there is none, or it has expired. The search takes the same time whatever is wrong with
 * the secret. */
struct access_key *access_keys_find(struct access_keys *keys, const char *secret, size_t size);
struct access_key *access_keys_find_name(struct access_keys *keys, const char *name);

/* Calls visit for each account, sorted by name, also for those whose names are no longer in the
 * file and whose requests have not ended. visit must not hold or release keys or accounts. */
void access_keys_each_account(struct access_keys *keys,
                              void (*visit)(void *context, struct access_account *account),
                              void *context);

/* No key is held any more. NULL is fine. */
void access_keys_free(struct access_keys *keys);

/* ---------------------------------------------------------------- metrics -- */

/* Writes it by the names of keys; nothing where keys is NULL. */
void access_metrics_write(struct access_keys *keys, struct text *text);

#endif
