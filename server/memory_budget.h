/* memory_budget.h - one budget for the memory of all requests in flight: their bodies as they
 * arrive, unpacked bodies, numbers read from JSON, arenas, answers.
 *
 * Each exchange has a share. What is reserved in it is counted until it is returned, at the latest
 * when the exchange ends. A share belongs to the thread that serves its request just then; the
 * budget itself is thread-safe and takes no lock. */
#ifndef ATTND_MEMORY_BUDGET_H
#define ATTND_MEMORY_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory_share {
    size_t bytes; /* reserved */
};

/* Of all shares together; before any thread, as malloc() is told too to have one heap for all.
 * SIZE_MAX, as without a call: no limit. */
void memory_budget_limit(size_t bytes_max);

/* The largest body that may be taken: half of it, so that there is always some to compute in. */
size_t memory_budget_body_bytes_max(void);

/* False, and nothing was reserved, where the budget is spent; counted. A share of NULL is not
 * counted and has no bound. */
bool memory_reserve(struct memory_share *share, size_t bytes);

/* The same for a body that a client announces or sends: only up to half of the budget. */
bool memory_reserve_body(struct memory_share *share, size_t bytes);

/* Counts what is there already. */
void memory_take(struct memory_share *share, size_t bytes);

/* Of what was reserved, at most all. */
void memory_return(struct memory_share *share, size_t bytes);
void memory_return_all(struct memory_share *share);

/* To be called now and then: gives memory back to the system that was freed after a burst and that
 * no request has asked for since. */
void memory_budget_trim(int64_t now_ns);

/* Its part of the page of /metrics. */
struct text;
void memory_budget_write_metrics(struct text *text);

#endif
