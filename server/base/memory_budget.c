/* SPDX-License-Identifier: Apache-2.0 */
/* memory_budget.c - see memory_budget.h.
 *
 * malloc() keeps memory that is freed: after a burst of large requests, a daemon that starts with
 * 9 MiB kept 137 MiB resident. Mapping large blocks one by one would avoid that, but every large
 * request would pay for it. So the heap is trimmed once nothing has been in flight for a while. The
 * process has a single heap, because malloc_trim() gives back the end of only the first one. */
#include "base/memory_budget.h"

#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TRIM_PEAK_BYTES = 4 << 20, TRIM_AFTER_MS = 500 };

/* In sixteenths of the budget; memory_budget.h says what each is for. */
enum {
    PARTS = 16,
    PARTS_BODIES = 8,
    PARTS_BODIES_OF_OTHERS = 10,
    PARTS_SMALL_BODIES = 11,
    PARTS_PEER = 1,
    PARTS_COMPUTED = 12,
    PARTS_LARGE = 15,
};

enum { PEERS = 4096 };

static struct {
    size_t bytes_max;
    _Atomic size_t used;
    _Atomic size_t bodies; /* the part of used that bodies take */
    _Atomic size_t peak;   /* of used, since the last trim */
    _Atomic uint64_t refused;
    _Atomic int64_t quiet_since_ns; /* 0: the last call of memory_budget_trim() saw used memory */
} budget = { .bytes_max = SIZE_MAX };

/* Bytes of bodies that are not whole, by peer. Two peers with the same remainder count as one. */
static _Atomic size_t peers[PEERS];

static size_t parts(size_t count)
{
    return budget.bytes_max / PARTS * count + budget.bytes_max % PARTS * count / PARTS;
}

void memory_budget_limit(size_t bytes_max)
{
    budget.bytes_max = bytes_max;
    mallopt(M_ARENA_MAX, 1);
}

size_t memory_budget_body_bytes_max(void)
{
    return parts(PARTS_BODIES);
}

size_t memory_budget_request_bytes_max(void)
{
    return parts(PARTS_COMPUTED);
}

/* --------------------------------------------------------------- counting -- */

static size_t load(const _Atomic size_t *bytes)
{
    return atomic_load_explicit(bytes, memory_order_relaxed);
}

/* Returns the new sum. */
static size_t add(_Atomic size_t *sum, size_t bytes)
{
    return atomic_fetch_add_explicit(sum, bytes, memory_order_relaxed) + bytes;
}

static void subtract(_Atomic size_t *sum, size_t bytes)
{
    atomic_fetch_sub_explicit(sum, bytes, memory_order_relaxed);
}

static void note_peak(size_t used)
{
    size_t peak = load(&budget.peak);
    while (used > peak
           && !atomic_compare_exchange_weak_explicit(&budget.peak, &peak, used,
                                                     memory_order_relaxed, memory_order_relaxed))
        ;
}

static bool refuse(const struct memory_share *share)
{
    if (!share->owner_refused)
        atomic_fetch_add_explicit(&budget.refused, 1, memory_order_relaxed);
    return false;
}

static bool fits(size_t used, size_t bytes, size_t bytes_max)
{
    return used <= bytes_max && bytes <= bytes_max - used;
}

static bool owner_has_room(struct memory_share *share, size_t held, size_t bytes)
{
    const size_t bytes_max = load(&share->owner->bytes_max);
    share->owner_refused = bytes_max > 0 && !fits(held, bytes, bytes_max);
    return !share->owner_refused;
}

static bool owner_takes(struct memory_share *share, size_t bytes)
{
    struct memory_owner *owner = share->owner;
    if (!owner)
        return true;
    size_t held = load(&owner->bytes);
    do {
        if (!owner_has_room(share, held, bytes))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&owner->bytes, &held, held + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void owner_returns(struct memory_share *share, size_t bytes)
{
    if (share->owner)
        subtract(&share->owner->bytes, bytes);
}

/* Reserves bytes where all used memory then stays within used_max and the memory that is not of
 * bodies within computed_max. */
static bool take(struct memory_share *share, size_t bytes, size_t used_max, size_t computed_max)
{
    size_t used = load(&budget.used);
    if (!owner_takes(share, bytes))
        return false;
    do {
        const size_t bodies = load(&budget.bodies);
        const size_t computed = used > bodies ? used - bodies : 0;
        if (!fits(used, bytes, used_max) || !fits(computed, bytes, computed_max)) {
            owner_returns(share, bytes);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&budget.used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    note_peak(used + bytes);
    share->bytes += bytes;
    return true;
}

/* ------------------------------------------------------------- reservations -- */

static bool is_small(const struct memory_share *share, size_t bytes)
{
    return !share->is_large && fits(share->bytes, bytes, MEMORY_SMALL_BYTES);
}

/* A reservation that the budget refused: could it be granted if no other request were there? */
static bool refuse_computed(struct memory_share *share, size_t bytes)
{
    const bool small = is_small(share, bytes);
    const bool fits_alone =
        small ? fits(share->bytes, bytes, parts(PARTS))
              : fits(share->bytes, bytes, parts(PARTS_LARGE))
                    && fits(share->bytes - share->body_bytes, bytes, parts(PARTS_COMPUTED));
    share->never_over =
        share->owner_refused || fits_alone ? 0 : parts(small ? PARTS : PARTS_COMPUTED);
    return refuse(share);
}

bool memory_reserve(struct memory_share *share, size_t bytes)
{
    if (!share || bytes == 0)
        return true;
    if (is_small(share, bytes))
        return take(share, bytes, parts(PARTS), SIZE_MAX) || refuse_computed(share, bytes);
    return take(share, bytes, parts(PARTS_LARGE), parts(PARTS_COMPUTED))
           || refuse_computed(share, bytes);
}

void memory_never_fits(struct memory_share *share, size_t bytes_max)
{
    if (share)
        share->never_over = bytes_max;
}

void memory_explain(const struct memory_share *share, struct fault *fault)
{
    if (fault->code == FAULT_MEMORY && share && share->never_over > 0)
        fault_set(fault, FAULT_TOO_LARGE,
                  "the request needs more than the %zu bytes that are given to compute in",
                  share->never_over);
}

/* Whether the request may hold its part of `bodies` bytes of bodies, `of_peer` of which are the
 * bodies of its peer that are not whole. */
static bool bodies_fit(const struct memory_share *share, size_t bodies, size_t of_peer)
{
    if (!share->is_large)
        return bodies <= parts(PARTS_SMALL_BODIES)
               && of_peer <= parts(PARTS_BODIES) + parts(PARTS_PEER) / 2;
    return bodies <= parts(PARTS_BODIES)
           || (bodies <= parts(PARTS_BODIES_OF_OTHERS) && of_peer <= parts(PARTS_PEER));
}

static _Atomic size_t *peer_of(const struct memory_share *share)
{
    return &peers[share->peer % PEERS];
}

bool memory_has_room_for_body(struct memory_share *share, size_t bytes)
{
    const size_t bytes_max = memory_budget_body_bytes_max();
    share->is_large = share->is_large || bytes > MEMORY_SMALL_BODY_BYTES;
    if (share->owner && !owner_has_room(share, load(&share->owner->bytes), bytes))
        return false;
    if (!share->is_large)
        return true;
    return (bytes <= bytes_max
            && bodies_fit(share, load(&budget.bodies) + bytes, load(peer_of(share)) + bytes)
            && fits(load(&budget.used), bytes, parts(PARTS_LARGE)))
           || refuse(share);
}

bool memory_reserve_body(struct memory_share *share, size_t bytes)
{
    if (!share || bytes == 0)
        return true;
    share->never_over = 0;
    if (bytes > memory_budget_body_bytes_max())
        return refuse(share);
    share->is_large = share->is_large || !fits(share->body_bytes, bytes, MEMORY_SMALL_BODY_BYTES);
    const size_t bodies = add(&budget.bodies, bytes);
    const size_t of_peer = add(peer_of(share), bytes);
    const size_t used_max = parts(share->is_large ? PARTS_LARGE : PARTS);
    if (bodies_fit(share, bodies, of_peer) && take(share, bytes, used_max, SIZE_MAX)) {
        share->body_bytes += bytes;
        share->waiting_bytes += bytes;
        return true;
    }
    subtract(&budget.bodies, bytes);
    subtract(peer_of(share), bytes);
    return refuse(share);
}

void memory_take(struct memory_share *share, size_t bytes)
{
    note_peak(add(&budget.used, bytes));
    if (share->owner)
        add(&share->owner->bytes, bytes);
    share->bytes += bytes;
}

/* ---------------------------------------------------------------- giving back -- */

/* At most `bytes` bytes of the body still count for the peer. */
static void leave_waiting(struct memory_share *share, size_t bytes)
{
    if (share->waiting_bytes <= bytes)
        return;
    subtract(peer_of(share), share->waiting_bytes - bytes);
    share->waiting_bytes = bytes;
}

/* At most `bytes` bytes of the share still count as a body's. */
static void leave_body(struct memory_share *share, size_t bytes)
{
    leave_waiting(share, bytes);
    if (share->body_bytes <= bytes)
        return;
    subtract(&budget.bodies, share->body_bytes - bytes);
    share->body_bytes = bytes;
}

void memory_body_is_whole(struct memory_share *share)
{
    leave_waiting(share, 0);
}

void memory_body_is_answered(struct memory_share *share)
{
    leave_body(share, 0);
}

void memory_return(struct memory_share *share, size_t bytes)
{
    if (!share || share->bytes == 0)
        return;
    const size_t returned = bytes < share->bytes ? bytes : share->bytes;
    subtract(&budget.used, returned);
    owner_returns(share, returned);
    share->bytes -= returned;
    leave_body(share, share->body_bytes > returned ? share->body_bytes - returned : 0);
}

void memory_return_all(struct memory_share *share)
{
    memory_return(share, SIZE_MAX);
}

void memory_hold(struct memory_share *share, size_t bytes)
{
    if (share && share->bytes > bytes)
        memory_return(share, share->bytes - bytes);
}

size_t memory_give_back(void *memory, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = -(uintptr_t)memory % page;
    if (bytes < before + page)
        return 0;
    const size_t given = (bytes - before) / page * page;
    return madvise((char *)memory + before, given, MADV_DONTNEED) == 0 ? given : 0;
}

/* Two threads that come at the same moment may both trim, which does no harm. */
void memory_budget_trim(int64_t now_ns)
{
    if (load(&budget.peak) < TRIM_PEAK_BYTES)
        return;
    const int64_t since_ns = atomic_load_explicit(&budget.quiet_since_ns, memory_order_relaxed);
    if (load(&budget.used) > 0) {
        atomic_store_explicit(&budget.quiet_since_ns, 0, memory_order_relaxed);
    } else if (since_ns == 0) {
        atomic_store_explicit(&budget.quiet_since_ns, now_ns, memory_order_relaxed);
    } else if (now_ns - since_ns > TRIM_AFTER_MS * INT64_C(1000000)) {
        atomic_store_explicit(&budget.peak, 0, memory_order_relaxed);
        atomic_store_explicit(&budget.quiet_since_ns, 0, memory_order_relaxed);
        malloc_trim(0);
    }
}

struct memory_budget_state memory_budget_state(void)
{
    return (struct memory_budget_state){
        .bytes_max = budget.bytes_max,
        .used_bytes = load(&budget.used),
        .body_bytes = load(&budget.bodies),
        .refused_count = atomic_load_explicit(&budget.refused, memory_order_relaxed),
    };
}
