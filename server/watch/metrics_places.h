/* metrics_places.h - a fixed number of places for what is counted by name, where names come and go.
 *
 * A name keeps its place, and its counters go on, until its last holder has dropped it and another
 * name needs the place. The caller holds a lock around each call. */
#ifndef ATTND_METRICS_PLACES_H
#define ATTND_METRICS_PLACES_H

#include <stdbool.h>
#include <stdint.h>

enum { METRICS_NAME_MAX = 128 };

struct metrics_place {
    char name[METRICS_NAME_MAX + 1]; /* "": free */
    int holder_count;
    uint64_t dropped_at; /* drop_count when the last holder dropped it */
};

/* places is an array of count zeroed places. */
struct metrics_places {
    struct metrics_place *places;
    int count;
    uint64_t drop_count;
};

/* Takes the place of this name and returns its index; -1 where all places are held by other names.
 * *is_new: the counters there are of another name, or of none. */
int metrics_places_take(struct metrics_places *all, const char *name, bool *is_new);
void metrics_places_drop(struct metrics_places *all, int index);

#endif
