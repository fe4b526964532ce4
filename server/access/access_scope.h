/* access_scope.h - what a key may do, and what a route asks for. */
#ifndef ATTND_ACCESS_SCOPE_H
#define ATTND_ACCESS_SCOPE_H

#include <stdbool.h>

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

/* Whether scopes, one bit 1 << scope for each, hold this one: OPEN and ANY are held by all. */
bool access_scope_held(unsigned scopes, enum access_scope scope);

#endif
