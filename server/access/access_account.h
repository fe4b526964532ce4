/* access_account.h - what the keys of one name use.
 *
 * A key is replaced when the keys' file is read again; the account of its name stays, so a client
 * cannot get a full budget by having the file read. The account of a name that is no longer in the
 * file stays until its last request has ended. */
#ifndef ATTND_ACCESS_ACCOUNT_H
#define ATTND_ACCESS_ACCOUNT_H

#include "access/access_limits.h"
#include "access/access_quota.h"
#include "work/job_share.h"

#include <stdatomic.h>
#include <stddef.h>

enum { ACCESS_NAME_MAX = 64 };

struct access_accounts; /* all accounts of a daemon, by name; thread-safe */

struct access_account {
    char name[ACCESS_NAME_MAX + 1];
    struct access_accounts *owner;
    int64_t holders; /* guarded by owner */

    struct access_limits limits;      /* of the newest key of the name; guarded by owner */
    struct access_quota quota;        /* by these limits, what its requests use */
    _Atomic int64_t sessions;         /* changed under the mutex of their store alone */
    _Atomic size_t session_bytes;     /* of its sessions, and of pages that they made */
    _Atomic size_t session_bytes_max; /* by these limits; 0: no bound */
    _Atomic int64_t traces;           /* that are kept or on their way: as sessions */
    _Atomic size_t trace_bytes;
    struct job_share share; /* of the schedulers; no job is left of it when no reference is */
};

/* A further reference. */
struct access_account *access_account_hold(struct access_account *account);

/* Gives back a reference; the last one frees the account. NULL is fine. */
void access_account_release(struct access_account *account);

struct access_accounts *access_accounts_create(void);        /* NULL: no memory */
void access_accounts_free(struct access_accounts *accounts); /* no account is held any more */

/* The account of a name, made where there is none, held for the caller. NULL: no memory. name has
 * at most ACCESS_NAME_MAX bytes. */
struct access_account *access_accounts_hold(struct access_accounts *accounts, const char *name);

/* Sets what the name may use from now on. */
void access_account_limit(struct access_account *account, const struct access_limits *limits);

/* Calls visit for each account, sorted by name. visit must not hold or release accounts. */
void access_accounts_each(struct access_accounts *accounts,
                          void (*visit)(void *context, struct access_account *account),
                          void *context);

#endif
