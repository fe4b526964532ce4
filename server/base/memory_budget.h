/* memory_budget.h - one budget for the memory of all requests in flight: their bodies as they
 * arrive, unpacked bodies, numbers read from JSON, arenas, answers.
 *
 * Each exchange has a share. What is reserved in it is counted until it is returned, at the latest
 * when the exchange ends. A share belongs to the thread that serves its request just then; the
 * budget itself is thread-safe and takes no lock.
 *
 * Bodies and all else are counted apart, so that neither whoever sends slowly nor whoever reads
 * slowly takes it all. In sixteenths of the budget:
 *
 *     12   numbers, results and answers at the most, so that 3 are always there for bodies
 *      8   bodies at the most, from their first byte until they are answered,
 *     10   those of peers that hold not more than 1 in bodies which are not whole, so that one
 *          peer's slow bodies leave something to the others
 *     15   of both together; the last is kept for small requests
 *
 * A request is small whose body has at most 64 KiB and that needs at most 1 MiB; beside the last
 * sixteenth it has its part of all others. A peer is a client's address: one that passes on the
 * requests of many has as much as there was before anybody was told apart. */
#ifndef ATTND_MEMORY_BUDGET_H
#define ATTND_MEMORY_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMORY_SMALL_BODY_BYTES = 64 << 10, MEMORY_SMALL_BYTES = 1 << 20 };

/* Zero to begin with, but for peer. */
struct memory_share {
    size_t bytes;         /* reserved */
    size_t body_bytes;    /* of these, counted as a body's */
    size_t waiting_bytes; /* of these, counted for the peer: the body is not whole */
    uint32_t peer;        /* any number that is the same for one peer, and hardly for two */
    bool is_large;        /* what is kept for small requests is not for this one */
};

/* Of all shares together; before any thread, as malloc() is told too to have one heap for all.
 * SIZE_MAX, as without a call: no limit. */
void memory_budget_limit(size_t bytes_max);

/* The largest body that may be taken: half of it, so that there is always some to compute in. And
 * what one request may take to compute in. */
size_t memory_budget_body_bytes_max(void);
size_t memory_budget_request_bytes_max(void);

/* False, and nothing was reserved, where the budget is spent; counted. A share of NULL is not
 * counted and has no bound. */
bool memory_reserve(struct memory_share *share, size_t bytes);

/* The same for bytes of a body that are there. */
bool memory_reserve_body(struct memory_share *share, size_t bytes);

/* Whether a body of so many bytes that a client announces could be taken now. Nothing is reserved:
 * an announcement takes no memory. */
bool memory_has_room_for_body(struct memory_share *share, size_t bytes);

/* The body is whole: it does not depend on its peer any more how long it stays. */
void memory_body_is_whole(struct memory_share *share);

/* It is answered: what may be left of the body is a part of the answer. */
void memory_body_is_answered(struct memory_share *share);

/* Counts what is there already. */
void memory_take(struct memory_share *share, size_t bytes);

/* Of what was reserved, at most all; of the body first. */
void memory_return(struct memory_share *share, size_t bytes);
void memory_return_all(struct memory_share *share);

/* To be called now and then: gives memory back to the system that was freed after a burst and that
 * no request has asked for since. */
void memory_budget_trim(int64_t now_ns);

/* For the page of metrics. */
struct memory_budget_state {
    uint64_t bytes_max, used_bytes, body_bytes; /* body_bytes: the part of used_bytes that bodies
                                                   take until they are answered */
    uint64_t refused_count;                     /* reservations that had no room */
};
struct memory_budget_state memory_budget_state(void);

#endif
