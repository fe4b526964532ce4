/* SPDX-License-Identifier: Apache-2.0 */
/* access_key.h - one key of the keys' file, what it may do, and what a route asks for. */
#ifndef ATTND_ACCESS_KEY_H
#define ATTND_ACCESS_KEY_H

#include "access/access_account.h"
#include "access/access_secret.h"
#include "base/fault.h"

#include <stdatomic.h>
#include <stdbool.h>

/* ----------------------------------------------------------------- scopes -- */

/* Name in the code, name in the keys' file. */
#define ACCESS_SCOPE_MAP(X)                                                                        \
    X(INFER, "infer")               /* calls on models, all or those of the key's patterns */      \
    X(MODELS, "models")             /* models put, deleted, loaded, unloaded */                    \
    X(SESSIONS, "sessions")         /* its own sessions */                                         \
    X(SESSIONS_ALL, "sessions:all") /* any session; holds sessions too */                          \
    X(REGIONS, "regions")           /* its own regions of shared memory */                         \
    X(METRICS, "metrics")           /* /metrics, statistics */                                     \
    X(ADMIN, "admin")               /* logging, and everything else: holds all other scopes */

/* A route of OPEN asks for no key, one of ANY for any key of the file. */
enum access_scope {
    ACCESS_OPEN,
    ACCESS_ANY,
#define X(name, text) ACCESS_##name,
    ACCESS_SCOPE_MAP(X)
#undef X
        ACCESS_SCOPE_COUNT
};

/* What only the operators' listener serves, where there is one (--admin-listen): a bit 1 << scope
 * for each scope. */
#define ACCESS_OF_OPERATORS (1u << ACCESS_MODELS | 1u << ACCESS_METRICS | 1u << ACCESS_ADMIN)

/* "sessions:all"; "" for OPEN and ANY. */
const char *access_scope_name(enum access_scope scope);

/* The scope of that name; ACCESS_OPEN where no scope has it. */
enum access_scope access_scope_find(const char *name);

/* The name of the scope that a mistyped one probably means; NULL where none is near. */
const char *access_scope_nearest(const char *name);

/* "infer, models, ..., admin": all names, for messages. */
const char *access_scope_names(void);

/* ------------------------------------------------------------------- keys -- */

/* One key of the keys' file: a name, the hash of a secret, scopes and limits.
 *
 * A key never changes. A file that is read again gives new keys; a request keeps the key
 * that it began with. */

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

/* --------------------------------------------------------------- refusals -- */

/* Whether a key holds the scope. False with the fault `scope`, which names it. */
bool access_check_scope(const struct access_key *key, enum access_scope scope, struct fault *fault);

/* Whether a key may see and call the models of that name. False with the fault `scope`, which is
 * the same whether there is such a model or not. */
bool access_check_model(const struct access_key *key, const char *model, struct fault *fault);

#endif
