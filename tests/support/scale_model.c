/* SPDX-License-Identifier: Apache-2.0 */
/* scale_model.c - the formulas. */
#include "scale_model.h"

#include <math.h>

/* Medians of three runs of load_scale, 2026-11-30, on the Xeon with AMX of deploy/MEASURED.md. */
const struct scale_node scale_measured_node = { .name = "two cores here",
                                                .cores = 2,
                                                .read_alone = 12.9e9,
                                                .read_all = 25.7e9,
                                                .flops_alone = 116e9,
                                                .flops_all = 225e9 };
const struct scale_link scale_measured_links[3] = { { "shared memory", 2.1e-6, 5.1e9 },
                                                    { "TCP", 6.7e-6, 3.6e9 },
                                                    { "HTTP", 49e-6, 1.4e9 } };
const double scale_measured_merge_s = 1.55e-9;

static double key_bytes(const struct scale_shape *shape)
{
    return 2.0 * shape->kv_heads * shape->head_dim * shape->number_bytes;
}

/* Numbers of a row of queries or of an answer, and its bytes on the way: queries down, context and
 * lse up. */
static double row_numbers(const struct scale_shape *shape)
{
    return (double)shape->q_heads * shape->head_dim;
}

double scale_prefill_flops(const struct scale_shape *shape, double tokens)
{
    return shape->layers * 2 * row_numbers(shape) * tokens * tokens; /* half of 4 n^2 */
}

double scale_token_bytes(const struct scale_shape *shape)
{
    return shape->layers * key_bytes(shape);
}

static double rate(const struct scale_cluster *cluster, double alone, double all, int ranks_of_node)
{
    return ranks_of_node * cluster->threads == 1 ? alone : all;
}

/* A level of the tree: a message down, one up, and a merge. */
static double level_s(const struct scale_cluster *cluster, const struct scale_link *link,
                      double rows)
{
    const double numbers = rows * row_numbers(&cluster->shape);
    const double bytes = 4 * (2 * numbers + rows * cluster->shape.q_heads);

    return 2 * link->latency_s + bytes / link->bytes_s + numbers * cluster->merge_s;
}

double scale_decode(const struct scale_cluster *cluster, int nodes, int ranks_of_node, double keys,
                    double rows)
{
    const struct scale_node *node = &cluster->node;
    const double read = keys * key_bytes(&cluster->shape)
                        / (nodes * rate(cluster, node->read_alone, node->read_all, ranks_of_node));

    return read + ceil(log2(ranks_of_node)) * level_s(cluster, &cluster->inside, rows)
           + ceil(log2(nodes)) * level_s(cluster, &cluster->between, rows);
}

double scale_prefill(const struct scale_cluster *cluster, int nodes, int ranks_of_node,
                     double tokens, double *attend_s)
{
    const struct scale_node *node = &cluster->node;
    const double ranks = (double)nodes * ranks_of_node;
    const double flops = scale_prefill_flops(&cluster->shape, tokens) / cluster->shape.layers;
    const double slice = tokens / ranks * key_bytes(&cluster->shape);
    const double step =
        flops / (nodes * rate(cluster, node->flops_alone, node->flops_all, ranks_of_node));
    const double inside =
        ranks_of_node > 1 ? cluster->inside.latency_s + slice / cluster->inside.bytes_s : 0;
    const double between =
        nodes > 1 ? cluster->between.latency_s + slice / cluster->between.bytes_s : 0;
    /* Of the four pairs of runs in a step two are seen. Threads take turns where they are more than
     * the cores. */
    const double turns = fmax(1, (double)ranks_of_node * cluster->threads / node->cores);
    const double merge = 2 * tokens / ranks * row_numbers(&cluster->shape) * cluster->merge_s
                         * turns / cluster->threads;

    *attend_s = step;
    return ranks * fmax(step / ranks + merge, fmax(inside, between));
}
