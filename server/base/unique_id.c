/* SPDX-License-Identifier: Apache-2.0 */
/* unique_id.c - a counter mixed by splitmix64 (https://prng.di.unimi.it/splitmix64.c), and random
 * bits. */
#include "base/unique_id.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/random.h>
#include <time.h>

/* : a counter that starts at one random word for each process, mixed
 * by splitmix64 (https://prng.di.unimi.it/splitmix64.c). */

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

/* FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/), mixed. */
uint64_t unique_id_of(const char *text, uint64_t index)
{
    uint64_t hash = 14695981039346656037u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return mix(hash + index * STEP);
}

uint64_t unique_id_next(void)
{
    uint64_t id;
    unique_id_take(&id, 1);
    return id;
}

bool random_id_make(char id[RANDOM_ID_LENGTH + 1])
{
    static const char DIGITS[] = "0123456789abcdef";
    unsigned char bytes[RANDOM_ID_LENGTH / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        id[2 * i] = DIGITS[bytes[i] >> 4];
        id[2 * i + 1] = DIGITS[bytes[i] & 15];
    }
    id[RANDOM_ID_LENGTH] = '\0';
    return true;
}
