/* access_key.h - one key of the keys' file: a name, the hash of a secret, scopes and limits.
 *
 * A key never changes. A file that is read again gives new keys; a request goes on with the key
 * that it began with. */
#ifndef ATTND_ACCESS_KEY_H
#define ATTND_ACCESS_KEY_H

#include "access/access_account.h"
#include "access/access_scope.h"
#include "access/access_secret.h"

#include <stdatomic.h>

struct access_key {
    _Atomic int holders;
    int line; /* in the keys' file, from 1 */
    char name[ACCESS_NAME_MAX + 1];
    bool has_hash; /* false: only a client's certificate has this name */
    unsigned char hash[ACCESS_HASH_BYTES];
    unsigned scopes; /* bits 1 << enum access_scope */
    char *patterns;  /* of infer: each ended by NUL, then an empty one; NULL: all models */
    struct access_limits limits;
    struct access_account *account; /* held */
};

/* A key without a name, held once; NULL: no memory. */
struct access_key *access_key_create(void);

struct access_key *access_key_hold(struct access_key *key); /* NULL stays NULL */
void access_key_release(struct access_key *key);            /* NULL is fine */

/* Whether the key holds the scope. No key, NULL, where no keys are in use, holds all. */
bool access_key_may(const struct access_key *key, enum access_scope scope);

/* Whether the key may infer with this model: it holds the scope infer, and one of its patterns, if
 * it has any, matches the name. NULL may. */
bool access_key_may_infer(const struct access_key *key, const char *model);

/* Whether the limit `expires` of the key has come, at a time in seconds of UTC since 1970. */
bool access_key_is_expired(const struct access_key *key, int64_t now_s);

/* Writes the scopes, "infer:model-a,team-*,metrics", as in the keys' file. */
void access_key_write_scopes(const struct access_key *key, struct text *text);

/* Writes the line of the key in the keys' file, without a newline. */
void access_key_write(const struct access_key *key, struct text *text);

/* The share of the schedulers that the jobs of the key's name have; NULL gives NULL, the common
 * share. Needs the key no longer than the key needs its account. */
struct job_share *access_key_share(const struct access_key *key);

#endif
