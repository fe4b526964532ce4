/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_run.h - a running task of a plan of the matrix unit: groups of 32 query rows of one head,
 * which visit each chunk of keys in turn. */
#ifndef ATTN_MATRIX_RUN_H
#define ATTN_MATRIX_RUN_H

#include "base/compensated.h"
#include "forward/forward_tile.h"
#include "forward/matrix_plan.h"

/* Compensated sums have parts of ATTN_COMPENSATED_TILES such tiles: two chunks. */
enum { ATTN_MATRIX_KV_TILE = 2 * ATTN_MATRIX_CHUNK * ATTN_MATRIX_STEP / ATTN_COMPENSATED_TILES };

/* Tiles of query rows that one join takes, and the groups that they are. */
enum {
    ATTN_MATRIX_JOIN_TILES = 2,
    ATTN_MATRIX_GROUPS = ATTN_MATRIX_JOIN_TILES * ATTN_WIDTH_MAX / ATTN_MATRIX_LANES
};

/* 32 query rows. Weights are 2^(score - base): base is a whole number, so that to change it loses
 * nothing, and is raised only where the weights of a step outgrow a limit. Where it would be so
 * large that floats beside it are no fractions, an offset of the scores takes its place. */
struct attn_matrix_group {
    struct attn_row_task task; /* work has what a group has alone, and what all groups share */
    uint16_t *queries;         /* [key_blocks][part][block] */
    float *offset, *base;      /* [ATTN_MATRIX_LANES] */
    float *odd_context_t;      /* [v_head_dim][ATTN_MATRIX_LANES], of odd values */
    uint32_t unset;            /* lanes that have seen no key, and have no base */
    uint32_t odd_queries;      /* lanes whose products say nothing */
    bool has_odd_context;      /* else odd_context_t is not set */
};

/* A step of a chunk that a group visits; group is NULL after the last. */
struct attn_matrix_item {
    struct attn_matrix_group *group;
    int64_t step;
    struct attn_tile tile;
};

/* Steps whose weights are made and whose context is not. */
struct attn_matrix_slots {
    struct attn_matrix_group *group;
    uint16_t *weights; /* [slot][part][block] */
    uint8_t steps[ATTN_MATRIX_CHUNK];
    int64_t count;
    int64_t block, slot; /* the next to be added: 32 columns of the values, and the slot */
};

struct attn_matrix_run {
    struct attn_plan_full plan; /* of tiles as wide as a group */
    const struct attn_matrix_kernels *kernels;
    struct attn_matrix matrix;
    struct attn_matrix_group groups[ATTN_MATRIX_GROUPS];
    int64_t group_count;
    const void *packed; /* the chunks of the head; NULL: own_chunk is filled as it is needed */
    void *own_chunk;
    uint32_t own_steps; /* of own_chunk that are filled */
    int64_t number;     /* of the chunk */
    struct attn_matrix_chunk chunk;
    struct attn_matrix_slots slots[2]; /* of this group, and of the group before */
    int which;                         /* of the two is this group's */
    float *scores_t[2];                /* of this step, and of the next */
    int at;                            /* of the two is this step's */
    float *sums;                       /* [ATTN_MATRIX_LANES], of the weights of a step */
    float *limits;                     /* of these sums */
    float *greatest;
    float *odd_scores_t; /* [ATTN_MATRIX_STEP][ATTN_MATRIX_LANES] */
};

/* The sum of a step's weights that makes a base too low. Weights have as many bits at any size, and
 * values stay below 2^64: only sums beyond 2^127 must not be. */
#define ATTN_MATRIX_LIMIT 0x1p40f

/* matrix_plan.c: describe the run of a plan and lay out its memory; with memory NULL, only count. A
 * run without packed keys has its chunk. */
size_t attn_matrix_cut_run(struct attn_matrix_run *run, const struct attn_plan_full *plan,
                           void *memory);

/* matrix_scores.c. Before the keys: a sink is a key without a value that every row sees first. */
void attn_matrix_begin_sums(const struct attn_matrix_run *run, struct attn_matrix_group *group);

/* Give a base to lanes that see keys for the first time in this step. */
void attn_matrix_set_bases(struct attn_matrix_run *run, struct attn_matrix_group *group);

/* Are the sums of a lane beyond its limit? */
bool attn_matrix_any_exceeds(const struct attn_matrix_run *run);

/* Raise the base of lanes whose weights are beyond their limit to the greatest score of the step,
 * and scale what was made with the old one: by a power of 2, except offsets. */
void attn_matrix_raise_bases(struct attn_matrix_run *run, struct attn_matrix_group *group);

/* From the products of a step to its masked scores. */
void attn_matrix_mask(struct attn_matrix_run *run, const struct attn_matrix_item *item);

/* matrix_fallback.c: numbers that tiles cannot multiply, which the float kernels take. */

/* Put scores of odd keys and odd queries in place of their products. */
void attn_matrix_fallback_scores(struct attn_matrix_run *run, const struct attn_matrix_item *item);

/* Lower the limits of lanes that see odd values: their weights must not exceed 1. */
void attn_matrix_fallback_limits(struct attn_matrix_run *run, const struct attn_matrix_item *item);

/* Add weights times odd values to odd_context_t; the weights are those of a slot. */
void attn_matrix_fallback_context(struct attn_matrix_run *run, const struct attn_matrix_item *item,
                                  const uint16_t *weights);

#endif
