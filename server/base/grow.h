/* SPDX-License-Identifier: Apache-2.0 */
/* grow.h - arrays on the heap that grow one element at a time. */
#ifndef ATTND_GROW_H
#define ATTND_GROW_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { ARRAY_CAPACITY_MIN = 8 };

/* Returns the malloc'd array, moved where it must grow, with room for one more element behind its
 * count elements. *capacity counts elements and doubles; it is 0 where array is NULL. Returns NULL
 * where there is no memory; array and *capacity are then unchanged. */
static inline void *array_with_room(void *array, int64_t count, int64_t *capacity,
                                    size_t element_size)
{
    if (count < *capacity)
        return array;
    const int64_t wanted = *capacity > 0 ? 2 * *capacity : ARRAY_CAPACITY_MIN;
    void *larger = realloc(array, (size_t)wanted * element_size);
    if (larger)
        *capacity = wanted;
    return larger;
}

#endif
