/* memory_budget.c - see memory_budget.h.
 *
 * malloc() keeps what is freed: after a burst of large requests 137 MiB stayed resident of a daemon
 * that starts with 9. Mapping large blocks one by one avoids that at the cost of every large
 * request; so the heap is trimmed once nothing has been in flight for a while. It is the only one:
 * the ends of all others but the first, malloc_trim() leaves as they are. */
#include "memory_budget.h"

#include "metrics_text.h"

#include <malloc.h>
#include <stdatomic.h>

enum { TRIM_PEAK_BYTES = 4 << 20, TRIM_AFTER_MS = 500 };

static struct {
    size_t bytes_max;
    _Atomic size_t used;
    _Atomic size_t peak; /* since the last trim */
    _Atomic uint64_t refused;
    _Atomic int64_t quiet_since_ns; /* 0: something was in flight when somebody last looked */
} budget = { .bytes_max = SIZE_MAX };

void memory_budget_limit(size_t bytes_max)
{
    budget.bytes_max = bytes_max;
    mallopt(M_ARENA_MAX, 1);
}

size_t memory_budget_body_bytes_max(void)
{
    return budget.bytes_max / 2;
}

static void note_peak(size_t used)
{
    size_t peak = atomic_load_explicit(&budget.peak, memory_order_relaxed);
    while (used > peak
           && !atomic_compare_exchange_weak_explicit(&budget.peak, &peak, used,
                                                     memory_order_relaxed, memory_order_relaxed))
        ;
}

static bool reserve(struct memory_share *share, size_t bytes, size_t bytes_max)
{
    if (!share || bytes == 0)
        return true;
    size_t used = atomic_load_explicit(&budget.used, memory_order_relaxed);
    do {
        if (used > bytes_max || bytes > bytes_max - used) {
            metrics_count(&budget.refused, 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&budget.used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    note_peak(used + bytes);
    share->bytes += bytes;
    return true;
}

bool memory_reserve(struct memory_share *share, size_t bytes)
{
    return reserve(share, bytes, budget.bytes_max);
}

bool memory_reserve_body(struct memory_share *share, size_t bytes)
{
    return reserve(share, bytes, memory_budget_body_bytes_max());
}

void memory_take(struct memory_share *share, size_t bytes)
{
    note_peak(atomic_fetch_add_explicit(&budget.used, bytes, memory_order_relaxed) + bytes);
    share->bytes += bytes;
}

void memory_return(struct memory_share *share, size_t bytes)
{
    if (!share || share->bytes == 0)
        return;
    const size_t returned = bytes < share->bytes ? bytes : share->bytes;
    share->bytes -= returned;
    atomic_fetch_sub_explicit(&budget.used, returned, memory_order_relaxed);
}

void memory_return_all(struct memory_share *share)
{
    memory_return(share, SIZE_MAX);
}

/* One thread finds the moment; that another finds it too would only trim twice. */
void memory_budget_trim(int64_t now_ns)
{
    if (atomic_load_explicit(&budget.peak, memory_order_relaxed) < TRIM_PEAK_BYTES)
        return;
    const int64_t since_ns = atomic_load_explicit(&budget.quiet_since_ns, memory_order_relaxed);
    if (atomic_load_explicit(&budget.used, memory_order_relaxed) > 0) {
        atomic_store_explicit(&budget.quiet_since_ns, 0, memory_order_relaxed);
    } else if (since_ns == 0) {
        atomic_store_explicit(&budget.quiet_since_ns, now_ns, memory_order_relaxed);
    } else if (now_ns - since_ns > TRIM_AFTER_MS * INT64_C(1000000)) {
        atomic_store_explicit(&budget.peak, 0, memory_order_relaxed);
        atomic_store_explicit(&budget.quiet_since_ns, 0, memory_order_relaxed);
        malloc_trim(0);
    }
}

void memory_budget_write_metrics(struct text *text)
{
    static const char used[] = "attnd_memory_in_flight_bytes";
    static const char most[] = "attnd_memory_max_bytes";
    static const char refused[] = "attnd_memory_refused_total";
    metrics_write_family(text, used, "gauge", "Memory reserved by the requests in flight.");
    metrics_write_sample(text, used, "", atomic_load_explicit(&budget.used, memory_order_relaxed));
    metrics_write_family(text, most, "gauge", "The most of it, see --memory-max.");
    metrics_write_sample(text, most, "", budget.bytes_max);
    metrics_write_family(text, refused, "counter", "Reservations that had no room.");
    metrics_write_sample(text, refused, "", metrics_value(&budget.refused));
}
