/* access_quota.h - what the requests of one name may use, and what they use: CPU time, requests in
 * flight, memory.
 *
 * A request is counted from the check of its key to its end. Its CPU time is settled in steps, each
 * with more known: the client is in debt or not; the body has come, and its likely cost is
 * reserved; the request is planned, and its predicted cost is reserved; it is over, and pays what
 * it used.
 *
 * A quota of NULL, that of a request without a key, has no bounds, and nothing is counted. Each
 * refusal is the fault quota, with the time after which it is worth to try again. Thread-safe. */
#ifndef ATTND_ACCESS_QUOTA_H
#define ATTND_ACCESS_QUOTA_H

#include "access/access_budget.h"
#include "access/access_limits.h"
#include "base/memory_budget.h"

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

#endif
