/* SPDX-License-Identifier: Apache-2.0 */
/* model_guard.c - a handler of SIGBUS, and the table of mappings that it knows.
 *
 * The handler may run in any thread at any instruction, so the table has a fixed size and no lock.
 * The row of the mapping that faults stays, for that mapping is in use. Other rows can change while
 * the handler reads them, so it trusts a row only if begin is the same before and after it reads
 * size. */
#include "models/model/model_guard.h"

#include "telemetry/log_writer.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FREE, TAKEN = 1 }; /* values of begin that are no address */

struct model_guard {
    _Atomic uintptr_t begin;
    _Atomic size_t size;
    _Atomic bool damaged;
};

static struct model_guard guards[MODEL_GUARD_MAPPINGS_MAX];
static size_t page_size; /* read once: a signal handler must not call sysconf() */

static bool guard_holds(struct model_guard *guard, uintptr_t address, uintptr_t *end)
{
    const uintptr_t begin = atomic_load(&guard->begin);
    const size_t size = atomic_load(&guard->size);
    if (begin <= TAKEN || atomic_load(&guard->begin) != begin || address < begin
        || address - begin >= size)
        return false;
    *end = begin + size;
    return true;
}

static bool repair_pages(uintptr_t address)
{
    for (int i = 0; i < MODEL_GUARD_MAPPINGS_MAX; i++) {
        uintptr_t end;
        if (!guard_holds(&guards[i], address, &end))
            continue;
        atomic_store(&guards[i].damaged, true);
        const uintptr_t page = address - address % page_size;
        return mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                    -1, 0)
               != MAP_FAILED;
    }
    return false;
}

static void handle_signal(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code == BUS_ADRERR && repair_pages((uintptr_t)info->si_addr))
        return;
    fatal_signal_end(signal_number); /* no watched mapping */
}

void model_guard_install(void)
{
    struct sigaction action = { .sa_sigaction = handle_signal, .sa_flags = SA_SIGINFO };
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

struct model_guard *model_guard_add(const void *mapping, size_t size)
{
    for (int i = 0; i < MODEL_GUARD_MAPPINGS_MAX; i++) {
        struct model_guard *guard = &guards[i];
        uintptr_t begin = FREE;
        if (!atomic_compare_exchange_strong(&guard->begin, &begin, TAKEN))
            continue;
        atomic_store(&guard->damaged, false);
        atomic_store(&guard->size, size);
        atomic_store(&guard->begin, (uintptr_t)mapping);
        return guard;
    }
    return NULL;
}

void model_guard_remove(struct model_guard *guard)
{
    if (guard)
        atomic_store(&guard->begin, FREE);
}

bool model_guard_damaged(const struct model_guard *guard)
{
    return guard && atomic_load(&((struct model_guard *)guard)->damaged);
}
