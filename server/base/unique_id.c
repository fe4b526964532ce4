/* unique_id.c - see unique_id.h: a counter that starts at one random word for each process, mixed
 * by splitmix64 (https://prng.di.unimi.it/splitmix64.c). */
#include "base/unique_id.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>

#define STEP 0x9e3779b97f4a7c15u

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void unique_id_take(uint64_t *ids, int count)
{
    static _Atomic uint64_t counter;
    uint64_t x = atomic_fetch_add(&counter, (uint64_t)count * STEP);
    if (x == 0) {
        uint64_t seed;
        if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
            seed = (uint64_t)clock_now_ns() ^ (uint64_t)time(NULL) << 32;
        atomic_fetch_add(&counter, seed);
        x = seed;
    }
    for (int i = 0; i < count; i++)
        ids[i] = mix(x + (uint64_t)i * STEP);
}

uint64_t unique_id_next(void)
{
    uint64_t id;
    unique_id_take(&id, 1);
    return id;
}
