/* cost_guess.c - see cost_guess.h.
 *
 * A table of fixed size, in which each key has one place; a key replaces another key in its place.
 * Any thread may read and write. Two threads that write one place at once may leave the key of one
 * and the number of the other, which is only a bad guess. */
#include "service/cost_guess.h"

#include <stdatomic.h>

enum { PLACES = 4096 };

static const size_t SIZE_STEPS = 4; /* of each power of two */

static struct {
    _Atomic uint64_t key;
    _Atomic int64_t ns;
} places[PLACES];

/* FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/). */
static uint64_t hash(uint64_t so_far, const char *text)
{
    for (; *text; text++)
        so_far = (so_far ^ (unsigned char)*text) * 1099511628211u;
    return (so_far ^ 0xff) * 1099511628211u; /* the end counts: "ab" "c" is not "a" "bc" */
}

/* Numbers the steps of all powers of two. */
static size_t size_step(size_t bytes)
{
    size_t power = 0;
    if (bytes < SIZE_STEPS)
        return bytes;
    while (bytes >> power >= 2 * SIZE_STEPS)
        power++;
    return power * SIZE_STEPS + (bytes >> power);
}

uint64_t cost_guess_key(const char *path, const char *type, size_t body_bytes)
{
    const uint64_t text = hash(hash(14695981039346656037u, path), type);
    const uint64_t key = (text ^ size_step(body_bytes)) * 1099511628211u;
    return key ? key : 1;
}

int64_t cost_guess_ns(uint64_t key)
{
    const size_t place = (key ^ key >> 32) % PLACES;
    if (atomic_load_explicit(&places[place].key, memory_order_relaxed) != key)
        return 0;
    return atomic_load_explicit(&places[place].ns, memory_order_relaxed);
}

void cost_guess_learn(uint64_t key, int64_t ns)
{
    const size_t place = (key ^ key >> 32) % PLACES;
    const int64_t old_ns = cost_guess_ns(key);
    const int64_t new_ns = old_ns ? old_ns + (ns - old_ns) / 8 : ns;
    atomic_store_explicit(&places[place].ns, new_ns, memory_order_relaxed);
    atomic_store_explicit(&places[place].key, key, memory_order_relaxed);
}
