/* SPDX-License-Identifier: Apache-2.0 */
/* scale_placement.c - the circle as a sorted list of points. */
#include "scale_placement.h"

#include "fill.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct point {
    uint64_t at;
    int node;
};

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        perror("scale_placement");
        exit(1);
    }
    return memory;
}

static int by_place(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static uint64_t hash(uint64_t kind, uint64_t number)
{
    struct fill fill = { kind << 40 ^ number };
    fill_bits(&fill);
    return fill_bits(&fill);
}

/* The first point at or behind a place; the circle is closed. */
static int first_point(const struct point *points, int count, uint64_t at)
{
    int low = 0, high = count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (points[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low % count;
}

/* The node of each session, without the node gone; loads[nodes] count them. */
static void place(const struct point *points, int nodes, int sessions, double bound, int gone,
                  int *homes, int *loads)
{
    const int count = nodes * SCALE_POINTS;
    const double room =
        bound > 0 ? ceil(bound * sessions / (nodes - (gone >= 0))) : (double)sessions;
    for (int i = 0; i < sessions; i++) {
        int at = first_point(points, count, hash(2, (uint64_t)i));
        while (points[at].node == gone || loads[points[at].node] >= room)
            at = (at + 1) % count;
        homes[i] = points[at].node;
        loads[homes[i]]++;
    }
}

struct scale_placement scale_place(int nodes, int sessions, double bound)
{
    const int gone = nodes / 2;
    struct scale_placement placement = { 0 };
    struct point *points = allocate((size_t)nodes * SCALE_POINTS, sizeof *points);
    int *homes = allocate(2 * (size_t)sessions, sizeof *homes), *later = homes + sessions;
    int *loads = allocate(2 * (size_t)nodes, sizeof *loads), moved = 0;
    for (int i = 0; i < nodes * SCALE_POINTS; i++)
        points[i] = (struct point){ hash(1, (uint64_t)i), i / SCALE_POINTS };
    qsort(points, (size_t)nodes * SCALE_POINTS, sizeof *points, by_place);
    place(points, nodes, sessions, bound, -1, homes, loads);
    place(points, nodes, sessions, bound, gone, later, loads + nodes);
    for (int i = 0; i < nodes; i++)
        placement.greatest = fmax(placement.greatest, loads[i] / ((double)sessions / nodes));
    for (int i = 0; i < sessions; i++)
        moved += homes[i] != gone && later[i] != homes[i];
    placement.moved = moved / (double)sessions;
    free(points);
    free(homes);
    free(loads);
    return placement;
}
