/* SPDX-License-Identifier: Apache-2.0 */
/* memory_budget.h - one budget for the memory of all requests in flight: bodies as they arrive,
 * unpacked bodies, numbers read from JSON, arenas, answers.
 *
 * Each exchange has a share of the budget. Bytes reserved in a share count until they are returned,
 * at the latest when the exchange ends. A share belongs to the thread that serves its request at
 * that moment; the budget itself is thread-safe and takes no lock.
 *
 * Bodies and computed bytes (numbers, results and answers) have separate bounds, so that neither
 * clients that send slowly nor clients that read slowly take all memory. The bounds, in sixteenths
 * of the budget:
 *
 *     12   computed bytes, so that at least 3 are left for bodies
 *
 *      8   bodies, from their first byte until they are answered
 *
 *     10   bodies, for a peer whose unfinished bodies take at most 1, so that one peer's slow
 *          bodies leave something to the others
 *
 *     15   both together; the last sixteenth is kept for small requests
 *
 * A request is small if its body has at most 64 KiB and it needs at most 1 MiB. Small requests may
 * use the last sixteenth and, like all others, the rest. A peer is a client's address. A proxy that
 * forwards the requests of many clients is one peer, and still has the 8 sixteenths that all peers
 * share. */
#ifndef ATTND_MEMORY_BUDGET_H
#define ATTND_MEMORY_BUDGET_H

#include "base/fault.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMORY_SMALL_BODY_BYTES = 64 << 10, MEMORY_SMALL_BYTES = 1 << 20 };

/* What all requests of one owner hold at a time, and may hold: a bound beside the
 * budget's. Zeroed, it has no bound. An owner stays until its last share has returned all. */
struct memory_owner {
    _Atomic size_t bytes;
    _Atomic size_t bytes_max; /* 0: no bound; may change at any time */
};

/* All fields but peer and owner are zero at first. */
struct memory_share {
    size_t bytes;         /* reserved */
    size_t body_bytes;    /* the part of bytes that counts as a body */
    size_t waiting_bytes; /* the part of body_bytes that counts for the peer: of a body not whole */
    uint32_t peer;        /* the same number for one peer, and hardly ever for two */
    bool is_large;        /* the request may not use what is kept for small ones */
    struct memory_owner *owner; /* NULL: none; set before the first reservation */
    bool owner_refused;         /* the owner's bound refused the latest reservation */
    size_t never_over;          /* the latest refusal would be one if the request were alone, too:
                                   the bound that it is over; else 0 */
};

/* Sets the budget of all shares together; SIZE_MAX, as before the first call, is no limit. Call it
 * before any thread starts, because it also tells malloc() to use one heap for all threads. */
void memory_budget_limit(size_t bytes_max);

/* The largest body that is accepted, half of the budget, so that some is always left to compute in;
 * and the most that one request may take to compute in. */
size_t memory_budget_body_bytes_max(void);
size_t memory_budget_request_bytes_max(void);

/* Reserves bytes in the share. Where the budget has no room: returns false, reserves nothing and
 * counts a refusal. The same where the owner's bound leaves no room, but owner_refused is set and
 * no refusal of the budget is counted. For a share of NULL nothing is counted and there is no
 * bound. */
bool memory_reserve(struct memory_share *share, size_t bytes);

/* The same for bytes of a body that have arrived. */
bool memory_reserve_body(struct memory_share *share, size_t bytes);

/* Whether a body whose size a client announces would have room now; where not, a refusal is
 * counted. Nothing is reserved: an announcement takes no memory. */
bool memory_has_room_for_body(struct memory_share *share, size_t bytes);

/* The body has arrived whole. Its peer no longer decides how long it stays, so it no longer counts
 * for the peer. */
void memory_body_is_whole(struct memory_share *share);

/* The request is answered. Memory of the body that is left is a part of the answer, and no longer
 * counts as a body. */
void memory_body_is_answered(struct memory_share *share);

/* Notes that a bound of the request's own, in bytes, refused a reservation. */
void memory_never_fits(struct memory_share *share, size_t bytes_max);

/* Makes of a lack of memory that would be there if the request were alone a fault that does not ask
 * the client to try again: too_large, with the bound. */
void memory_explain(const struct memory_share *share, struct fault *fault);

/* Counts bytes that are allocated already; there is no bound. */
void memory_take(struct memory_share *share, size_t bytes);

/* Returns reserved bytes, at most all of them; those of the body first. */
void memory_return(struct memory_share *share, size_t bytes);
void memory_return_all(struct memory_share *share);

/* Returns all reserved bytes but these, which are still held. */
void memory_hold(struct memory_share *share, size_t bytes);

/* Gives the whole pages of some allocated memory that nobody reads any more back to the system.
 * Returns their bytes. */
size_t memory_give_back(void *memory, size_t bytes);

/* Call it now and then. After a burst of requests it gives the freed memory back to the system,
 * once no request has used any for a while. */
void memory_budget_trim(int64_t now_ns);

/* For the page of metrics. */
struct memory_budget_state {
    uint64_t bytes_max, used_bytes;
    uint64_t body_bytes;    /* the part of used_bytes that bodies take until they are answered */
    uint64_t refused_count; /* reservations and announcements that had no room */
};
struct memory_budget_state memory_budget_state(void);

#endif
