/* kept_pair.h - why a query gives a key its weight: every stage of one score of a kept trace. */
#ifndef ATTND_KEPT_PAIR_H
#define ATTND_KEPT_PAIR_H

#include "forward/kept_trace.h"

struct kept_pair {
    const float *query, *key; /* [head_dim] of the head, as attention reads them */
    float score;              /* scale * query . key */
    float softcapped;         /* score where the layer has no softcap */
    float masked;             /* with biases; -INFINITY: hidden */
    float lse;                /* of the row */
    float weight;             /* exp(masked - lse) */
};

/* Every number is the library's own. workspace: attn_map_tile_workspace_bytes() of the head. */
void kept_pair_compute(const struct kept_layer *layer, int64_t head, int64_t row, int64_t key,
                       struct kept_pair *pair, void *workspace);
size_t kept_pair_workspace_bytes(const struct kept_layer *layer);

#endif
