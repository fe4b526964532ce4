/* metrics_places.c - see metrics_places.h. */
#include "watch/metrics_places.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The place of this name; else one that nobody holds: a free one first, then the one dropped
 * longest ago. NULL where all are held. */
static struct metrics_place *find(const struct metrics_places *all, const char *name)
{
    struct metrics_place *best = NULL;
    for (int i = 0; i < all->count; i++) {
        struct metrics_place *place = &all->places[i];
        if (strcmp(place->name, name) == 0)
            return place;
        if (place->holder_count == 0 && (!best || place->dropped_at < best->dropped_at))
            best = place;
    }
    return best;
}

int metrics_places_take(struct metrics_places *all, const char *name, bool *is_new)
{
    struct metrics_place *place = find(all, name);
    *is_new = place && strcmp(place->name, name) != 0;
    if (!place)
        return -1;
    if (*is_new)
        snprintf(place->name, sizeof place->name, "%s", name);
    place->holder_count++;
    return (int)(place - all->places);
}

void metrics_places_drop(struct metrics_places *all, int index)
{
    struct metrics_place *place = &all->places[index];
    assert(place->holder_count > 0);
    if (--place->holder_count == 0)
        place->dropped_at = ++all->drop_count;
}
