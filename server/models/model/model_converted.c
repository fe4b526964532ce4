/* SPDX-License-Identifier: Apache-2.0 */
/* model_converted.c - copies in memory that is taken and given back by pages.
 *
 * One lock guards all copies of the process and is held for moments. A thread fills a copy without
 * the lock; other threads that need the same copy wait for it. mmap() reserves the memory of a copy
 * and madvise() gives it back, after which it reads as zero until it is filled again. */
#include "models/model/model_converted.h"

#include "base/grow.h"
#include "telemetry/metrics.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum copy_state { EMPTY, FILLING, FILLED };

struct model_copy {
    void *values;
    size_t bytes;
    struct model_converted_source source;
    enum copy_state state;
    int64_t holders;
    struct model_copy *older, *newer; /* in the list of copies that are filled and not held */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct model_copy *oldest, *newest; /* the ends of that list, by when a copy was last held */
static size_t bytes_filled, bytes_limit;

/* ------------------------------------------------- making a model's copies -- */

size_t model_converted_size(const struct model_converted_source *source)
{
    return source->decode ? source->decoded_bytes
                          : (size_t)(source->rows * source->columns) * sizeof(float);
}

void model_converted_read(void *values, const struct model_converted_source *source)
{
    float *floats = values;
    if (source->decode) {
        source->decode(values, source);
        return;
    }
    for (int64_t row = 0; row < source->rows; row++)
        dtype_read(
            floats + row * source->columns,
            attn_number_at(source->bytes, source->dtype, source->first + row * source->stride),
            source->dtype, (size_t)source->columns);
}

static bool reserve_copy(struct model_converted *set)
{
    struct model_copy **copies =
        array_with_room(set->copies, set->count, &set->capacity, sizeof(struct model_copy *));
    if (!copies)
        return false;
    set->copies = copies;
    return true;
}

/* MAP_NORESERVE: all copies together may be larger than the memory of the machine. */
const void *model_converted_add(struct model_converted *set,
                                const struct model_converted_source *source)
{
    const size_t bytes = model_converted_size(source);
    struct model_copy *copy = reserve_copy(set) ? calloc(1, sizeof *copy) : NULL;
    void *values = copy ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                        : MAP_FAILED;
    if (values == MAP_FAILED) {
        free(copy);
        return NULL;
    }
    *copy = (struct model_copy){ .values = values, .bytes = bytes, .source = *source };
    set->copies[set->count++] = copy;
    return values;
}

static int compare_copies(const void *left, const void *right)
{
    const uintptr_t a = (uintptr_t)(*(struct model_copy *const *)left)->values;
    const uintptr_t b = (uintptr_t)(*(struct model_copy *const *)right)->values;
    return (a > b) - (a < b);
}

void model_converted_sort(struct model_converted *set)
{
    if (set->count > 0)
        qsort(set->copies, (size_t)set->count, sizeof(struct model_copy *), compare_copies);
}

/* The copy that holds address; NULL: none does. */
static struct model_copy *find_copy(const struct model_converted *set, const void *address)
{
    int64_t low = 0, high = set->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        struct model_copy *copy = set->copies[middle];
        if ((uintptr_t)address < (uintptr_t)copy->values)
            high = middle;
        else if ((uintptr_t)address >= (uintptr_t)copy->values + copy->bytes)
            low = middle + 1;
        else
            return copy;
    }
    return NULL;
}

/* ------------------------------------------------------ with the lock held -- */

static void append_to_list(struct model_copy *copy)
{
    copy->older = newest;
    copy->newer = NULL;
    *(newest ? &newest->newer : &oldest) = copy;
    newest = copy;
}

static void remove_from_list(struct model_copy *copy)
{
    *(copy->older ? &copy->older->newer : &oldest) = copy->newer;
    *(copy->newer ? &copy->newer->older : &newest) = copy->older;
}

static void set_filled(size_t bytes)
{
    bytes_filled = bytes;
    metrics_gauge_set(METRICS_CONVERTED_BYTES, (int64_t)bytes);
}

static void empty_copy(struct model_copy *copy)
{
    remove_from_list(copy);
    madvise(copy->values, copy->bytes, MADV_DONTNEED);
    copy->state = EMPTY;
    set_filled(bytes_filled - copy->bytes);
}

/* Empties copies, the oldest first, until bytes more fit; false: the held ones leave no room. */
static bool make_room(size_t bytes)
{
    while (bytes_limit > 0 && bytes_filled + bytes > bytes_limit && oldest)
        empty_copy(oldest);
    return bytes_limit == 0 || bytes_filled + bytes <= bytes_limit;
}

/* Gives up the lock while it waits for the copy or fills it. */
static bool hold_copy(struct model_copy *copy, struct fault *fault)
{
    while (copy->state == FILLING)
        pthread_cond_wait(&filled, &lock);
    if (copy->state == EMPTY) {
        if (!make_room(copy->bytes))
            return fault_set(fault, FAULT_MEMORY,
                             "parameters that requests use take %zu bytes of --model-memory-max "
                             "%zu; %zu more are needed",
                             bytes_filled, bytes_limit, copy->bytes);
        set_filled(bytes_filled + copy->bytes);
        copy->state = FILLING;
        pthread_mutex_unlock(&lock);
        model_converted_read(copy->values, &copy->source);
        pthread_mutex_lock(&lock);
        copy->state = FILLED;
        pthread_cond_broadcast(&filled);
    } else if (copy->holders == 0) {
        remove_from_list(copy);
    }
    copy->holders++;
    return true;
}

static void drop_copy(struct model_copy *copy)
{
    if (--copy->holders == 0)
        append_to_list(copy);
}

/* ------------------------------------------------------------ for requests -- */

bool model_converted_hold(const struct model_converted *set, const void *const *addresses,
                          int count, struct fault *fault)
{
    if (set->count == 0)
        return true;
    bool good = true;
    pthread_mutex_lock(&lock);
    for (int i = 0; good && i < count; i++) {
        struct model_copy *copy = find_copy(set, addresses[i]);
        good = !copy || hold_copy(copy, fault);
        for (int j = 0; !good && j < i; j++)
            if ((copy = find_copy(set, addresses[j])))
                drop_copy(copy);
    }
    pthread_mutex_unlock(&lock);
    return good;
}

void model_converted_drop(const struct model_converted *set, const void *const *addresses,
                          int count)
{
    if (set->count == 0)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        struct model_copy *copy = find_copy(set, addresses[i]);
        if (copy)
            drop_copy(copy);
    }
    pthread_mutex_unlock(&lock);
}

void model_converted_free(struct model_converted *set)
{
    pthread_mutex_lock(&lock);
    for (int64_t i = 0; i < set->count; i++)
        if (set->copies[i]->state == FILLED)
            empty_copy(set->copies[i]);
    pthread_mutex_unlock(&lock);
    for (int64_t i = 0; i < set->count; i++) {
        munmap(set->copies[i]->values, set->copies[i]->bytes);
        free(set->copies[i]);
    }
    free(set->copies);
    *set = (struct model_converted){ .copies = NULL };
}

void model_converted_limit(size_t bytes_max)
{
    pthread_mutex_lock(&lock);
    bytes_limit = bytes_max;
    make_room(0);
    pthread_mutex_unlock(&lock);
}

size_t model_converted_bytes(void)
{
    pthread_mutex_lock(&lock);
    const size_t bytes = bytes_filled;
    pthread_mutex_unlock(&lock);
    return bytes;
}
