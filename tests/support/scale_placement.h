/* SPDX-License-Identifier: Apache-2.0 */
/* scale_placement.h - where sessions come to lie by consistent hashing with bounded loads.
 *
 * Mirrokni, Thorup and Zadimoghaddam 2016 (arXiv 1608.01350): nodes and sessions are points of a
 * circle; a session lies on the first node at or behind its point that has room, and a node has
 * room for bound times the mean. Without a bound it is plain consistent hashing. */
#ifndef SCALE_PLACEMENT_H
#define SCALE_PLACEMENT_H

#include <stdint.h>

struct scale_placement {
    double greatest; /* sessions of the fullest node, over the mean */
    double moved; /* part of the sessions of other nodes that lie elsewhere when a node is gone */
};

enum { SCALE_POINTS = 64 /* of a node */ };

/* bound 0: none. The same numbers in every run. */
struct scale_placement scale_place(int nodes, int sessions, double bound);

#endif
