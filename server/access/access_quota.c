/* access_quota.c - see access_quota.h. */
#include "access/access_quota.h"

#include "watch/key_metrics.h"

#include <inttypes.h>

void access_quota_init(struct access_quota *quota, const char *name)
{
    *quota = (struct access_quota){ .name = name };
    access_budget_init(&quota->budget, 0, 0);
}

void access_quota_free(struct access_quota *quota)
{
    const int place = atomic_load(&quota->metrics_place);
    if (place > 0)
        key_metrics_drop(place - 1);
    access_budget_free(&quota->budget);
}

void access_quota_limit(struct access_quota *quota, const struct access_limits *limits,
                        int64_t now_ns)
{
    access_budget_change(&quota->budget, limits->cpu, limits->burst_ns, now_ns);
    atomic_store(&quota->in_flight_max, limits->in_flight);
    atomic_store(&quota->memory.bytes_max, (size_t)limits->memory_bytes);
}

/* ------------------------------------------------------------- in flight -- */

/* Two threads may both take the place; then one of them drops it again. */
int access_quota_place(struct access_quota *quota)
{
    int known = atomic_load_explicit(&quota->metrics_place, memory_order_acquire);
    if (known > 0)
        return known - 1;
    const int taken = key_metrics_take(quota->name);
    if (atomic_compare_exchange_strong(&quota->metrics_place, &known, taken + 1))
        return taken;
    key_metrics_drop(taken);
    return known - 1;
}

static bool refuse(struct fault *fault, int retry_after_s)
{
    fault->retry_after_s = retry_after_s;
    return false;
}

bool access_quota_enter(struct access_quota *quota, struct fault *fault)
{
    if (!quota)
        return true;
    access_quota_place(quota); /* so the page shows it from now on */
    const int64_t max = atomic_load_explicit(&quota->in_flight_max, memory_order_relaxed);
    const int64_t now = atomic_fetch_add_explicit(&quota->in_flight, 1, memory_order_relaxed) + 1;
    if (max == 0 || now <= max)
        return true;
    fault_set(fault, FAULT_QUOTA,
              "the key '%s' has %" PRId64 " requests in flight, as many as it may (in-flight)",
              quota->name, max);
    return refuse(fault, 1);
}

void access_quota_leave(struct access_quota *quota, enum fault_code code)
{
    if (!quota)
        return;
    atomic_fetch_sub_explicit(&quota->in_flight, 1, memory_order_relaxed);
    key_metrics_request(access_quota_place(quota), code);
}

/* --------------------------------------------------------------- CPU time -- */

static bool refuse_debt(const struct access_quota *quota, int64_t wait_ns, struct fault *fault)
{
    fault_set(fault, FAULT_QUOTA,
              "the key '%s' has used up its CPU time (cpu); try again in %" PRId64 " ms",
              quota->name, wait_ns / 1000000 + (wait_ns % 1000000 > 0));
    return refuse(fault, access_budget_wait_s(wait_ns));
}

bool access_quota_has_time(struct access_quota *quota, int64_t now_ns, struct fault *fault)
{
    int64_t wait_ns;
    return !quota || access_budget_has(&quota->budget, now_ns, &wait_ns)
           || refuse_debt(quota, wait_ns, fault);
}

bool access_quota_reserve(struct access_quota *quota, int64_t *reserved_ns, int64_t predicted_ns,
                          int64_t now_ns, struct fault *fault)
{
    int64_t wait_ns;
    if (!quota)
        return true;
    if (!access_budget_take(&quota->budget, *reserved_ns, predicted_ns, now_ns, &wait_ns))
        return refuse_debt(quota, wait_ns, fault);
    *reserved_ns = predicted_ns;
    return true;
}

void access_quota_charge(struct access_quota *quota, int64_t reserved_ns, int64_t used_ns)
{
    if (!quota)
        return;
    access_budget_correct(&quota->budget, reserved_ns, used_ns);
    key_metrics_charge(access_quota_place(quota), used_ns);
}

/* ----------------------------------------------------------------- memory -- */

void access_quota_explain(const struct access_quota *quota, const struct memory_share *share,
                          struct fault *fault)
{
    memory_explain(share, fault);
    if (!quota || fault->code != FAULT_MEMORY || !share->owner_refused)
        return;
    fault_set(fault, FAULT_QUOTA,
              "the requests in flight of the key '%s' may hold %zu bytes of memory together, which "
              "leave too few for this one (memory)",
              quota->name, atomic_load(&quota->memory.bytes_max));
    refuse(fault, 1);
}
