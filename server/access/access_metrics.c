/* access_metrics.c - see access_metrics.h. */
#include "access/access_metrics.h"

#include "watch/key_metrics.h"

/* Several accounts may count in one place. An account that had no request yet has none, but for one
 * whose sessions are from an earlier life of the daemon. */
static void add(void *context, struct access_account *account)
{
    struct access_quota *quota = &account->quota;
    struct key_holding *holdings = context;
    const int64_t sessions = atomic_load(&account->sessions);
    if (atomic_load(&quota->metrics_place) == 0 && sessions == 0)
        return;
    struct key_holding *holding = &holdings[access_quota_place(quota)];
    holding->requests += atomic_load(&quota->in_flight);
    holding->memory_bytes += atomic_load(&quota->memory.bytes);
    holding->sessions += sessions;
    holding->session_bytes += atomic_load(&account->session_bytes);
}

void access_metrics_write(struct access_keys *keys, struct text *text)
{
    struct key_holding holdings[KEY_METRICS_PLACES] = { { 0 } };
    if (!keys)
        return;
    access_keys_each_account(keys, add, holdings);
    key_metrics_write(text, holdings);
}
