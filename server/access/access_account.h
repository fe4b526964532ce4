/* SPDX-License-Identifier: Apache-2.0 */
/* access_account.h - what the keys of one name may use, and what they use.
 *
 * There are three parts: the limits of a key, as the file has them; a quota, which holds the
 * requests of a name to them, with its budget of CPU time; and the account of a name, which has the
 * quota. */
#ifndef ATTND_ACCESS_ACCOUNT_H
#define ATTND_ACCESS_ACCOUNT_H

#include "base/fault.h"
#include "base/memory_budget.h"
#include "scheduler/job_share.h"
#include "json/text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ----------------------------------------------------------------- limits -- */

struct access_limits {
    double cpu;            /* CPU seconds a second; 0: no bound */
    int64_t burst_ns;      /* CPU time that may be saved up; 0 where cpu is 0 */
    int64_t in_flight;     /* requests at a time; 0: no bound */
    int64_t memory_bytes;  /* of all its requests in flight; 0: no bound */
    int64_t sessions;      /* 0: no bound */
    int64_t session_bytes; /* of its sessions and their pages; 0: no bound */
    int64_t traces;        /* that are kept; 0: no bound */
    int64_t trace_bytes;   /* of these; 0: no bound */
    double weight;         /* its share of the workers, beside those of other keys */
    int64_t expires_s;     /* from this second on the key is not valid, UTC since 1970; INT64_MAX:
                              never */
};

/* No bounds, a weight of 1, no end. */
void access_limits_init(struct access_limits *limits);

/* The number of the limit of that name, 0 to ACCESS_LIMIT_COUNT - 1; -1 where there is none. */
enum { ACCESS_LIMIT_COUNT = 10 };
int access_limit_find(const char *name);

const char *access_limit_name(int limit);

/* What a value is, "CPU seconds a second, as in 0.5", for --help. */
const char *access_limit_help(int limit);

/* The name that a mistyped one probably means; NULL where none is near. */
const char *access_limit_nearest(const char *name);

/* Writes "cpu, burst, ..., expires", for messages; 144 bytes hold them. */
void access_limit_names(char *text, size_t bytes);

/* Sets a limit from its text in the keys' file. False, with a fault that says what came and what
 * was expected, where the text is no such value or out of bounds. */
bool access_limit_set(struct access_limits *limits, int limit, const char *text,
                      struct fault *fault);

/* To be called when all limits are set: a burst that was not given is one second of the budget. */
void access_limits_settle(struct access_limits *limits);

/* Writes " cpu=0.5 in-flight=8": what differs from access_limits_init(), as in the keys' file. */
void access_limits_write(const struct access_limits *limits, struct text *text);

/* ----------------------------------------------------- budget of CPU time -- */

/* A budget of CPU time: so many seconds of it a second, of which some may be
 * saved up for later.
 *
 * This is a token bucket whose tokens are nanoseconds of CPU time. Its level rises at the rate of
 * the budget up to the depth, burst_ns. A request is taken unless the budget is in debt, that is
 * unless the level is below zero. The predicted time of the request is then taken from the level,
 * which may fall below zero; when the request is over, the level is corrected by the time that the
 * request used. Therefore
 *
 * - a request that is larger than the depth is taken too, and the debt that it leaves is paid off
 *   before the next one;
 * - a wrong prediction does no harm that lasts: the time that all requests used until t is at most
 *   rate * t, plus the depth, plus the requests that were taken before the level fell below zero;
 * - the end of a debt is known exactly, and does not depend on what the next request will cost.
 *
 * The level begins at zero, not at the depth, so the first seconds of a budget are worth no more
 * than any later ones. Beyond the depth, time in which no request came is lost. A budget of rate 0
 * has no bound. Thread-safe; time is passed by the caller. */

struct access_budget {
    pthread_mutex_t mutex;
    double rate;     /* CPU seconds a second */
    double burst_ns; /* the depth */
    double level_ns; /* at seen_ns */
    int64_t seen_ns; /* 0: the budget has not been used yet */
};

/* rate and burst_ns are 0 or more. */
void access_budget_init(struct access_budget *budget, double rate, int64_t burst_ns);
void access_budget_free(struct access_budget *budget);

/* From now on there is another rate and depth; the level stays, but is at most the new depth. */
void access_budget_change(struct access_budget *budget, double rate, int64_t burst_ns,
                          int64_t now_ns);

/* Whether a request would be taken now. If not, *wait_ns is the time until it would be, if no other
 * request used the budget meanwhile. */
bool access_budget_has(struct access_budget *budget, int64_t now_ns, int64_t *wait_ns);

/* Takes a request that is predicted to use predicted_ns. reserved_ns is the part of the level that
 * the same request has taken before, when less was known of it; it does not count as a debt, and is
 * replaced. Where the request is not taken, nothing changes and *wait_ns is set as above. */
bool access_budget_take(struct access_budget *budget, int64_t reserved_ns, int64_t predicted_ns,
                        int64_t now_ns, int64_t *wait_ns);

/* The request that took reserved_ns is over, and has used used_ns. */
void access_budget_correct(struct access_budget *budget, int64_t reserved_ns, int64_t used_ns);

/* A wait in whole seconds, for Retry-After: rounded up, at least 1. */
int access_budget_wait_s(int64_t wait_ns);

/* ------------------------------------------------------------------ quota -- */

/* What the requests of one name may use, and what they use: CPU time, requests in
 * flight, memory.
 *
 * A request is counted from the check of its key to its end. Its CPU time is settled in steps, each
 * with more known: the client is in debt or not; the body has come, and its likely cost is
 * reserved; the request is planned, and its predicted cost is reserved; it is over, and pays what
 * it used.
 *
 * A quota of NULL, that of a request without a key, has no bounds, and nothing is counted. Each
 * refusal is the fault quota, with the time after which it is worth to try again. Thread-safe. */

struct access_quota {
    const char *name;
    struct access_budget budget;
    struct memory_owner memory; /* of the shares of all its requests */
    _Atomic int64_t in_flight, in_flight_max;
    _Atomic int metrics_place; /* of key_metrics.h, from 1; 0: not taken yet */
};

/* name is borrowed. */
void access_quota_init(struct access_quota *quota, const char *name);
void access_quota_free(struct access_quota *quota);

/* Sets the bounds. What is used already, and the level of the budget, stay. */
void access_quota_limit(struct access_quota *quota, const struct access_limits *limits,
                        int64_t now_ns);

/* Counts a request. It is counted, and left, also where this is false because there are too many
 * in flight. */
bool access_quota_enter(struct access_quota *quota, struct fault *fault);

/* A counted request has ended with this fault, or FAULT_NONE. */
void access_quota_leave(struct access_quota *quota, enum fault_code code);

/* Whether the quota is not in debt. */
bool access_quota_has_time(struct access_quota *quota, int64_t now_ns, struct fault *fault);

/* The same, and reserves predicted_ns in place of what the request has reserved so far. */
bool access_quota_reserve(struct access_quota *quota, int64_t *reserved_ns, int64_t predicted_ns,
                          int64_t now_ns, struct fault *fault);

/* The request is over: it pays used_ns in place of what it has reserved. */
void access_quota_charge(struct access_quota *quota, int64_t reserved_ns, int64_t used_ns);

/* A lack of memory becomes the fault quota where it is the quota's bound that a request came to,
 * and what memory_explain() makes of it where the request would lack it alone. */
void access_quota_explain(const struct access_quota *quota, const struct memory_share *share,
                          struct fault *fault);

/* For the page of metrics. */
int access_quota_place(struct access_quota *quota);

/* --------------------------------------------------------------- accounts -- */

/* What the keys of one name use.
 *
 * A key is replaced when the keys' file is read again; the account of its name stays, so a client
 * cannot get a full budget by having the file read. The account of a name that is no longer in the
 * file stays until its last request has ended. */

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
