/* SPDX-License-Identifier: Apache-2.0 */
/* scale_model.h - how long attention over many machines takes, from what one machine was measured
 * to do and what a network is said to do.
 *
 * It follows attn-mpi (lib/mpi/README.md): a tree for decoding, a ring for prefill.
 * tests/bench/load_scale.c measures the numbers and compares predictions with jobs here;
 * tests/bench/bench_scale.c prints and draws what deploy/SCALE.md shows. */
#ifndef SCALE_MODEL_H
#define SCALE_MODEL_H

struct scale_link {
    const char *name;
    double latency_s, bytes_s; /* of one message, one way */
};

/* The rates of one core alone, and of all cores together. */
struct scale_node {
    const char *name;
    int cores;
    double read_alone, read_all;   /* bytes of keys and values a second, in decoding */
    double flops_alone, flops_all; /* of prefill */
    double memory_bytes;           /* for keys and values */
};

struct scale_shape {
    int layers, q_heads, kv_heads, head_dim, number_bytes; /* of keys and values; queries are F32 */
};

struct scale_cluster {
    struct scale_node node;
    struct scale_link inside, between; /* ranks of a node; nodes */
    double merge_s;                    /* of one number of a context, by one core */
    int threads;                       /* of a rank */
    struct scale_shape shape;
};

/* What load_scale printed on the machine that deploy/SCALE.md names. */
extern const struct scale_node scale_measured_node;
extern const struct scale_link scale_measured_links[3]; /* shared memory, TCP, HTTP; loopback */
extern const double scale_measured_merge_s;

/* Seconds of a layer for rows of one context over so many keys. */
double scale_decode(const struct scale_cluster *cluster, int nodes, int ranks_of_node, double keys,
                    double rows);

/* Seconds of a layer for a causal prefill of so many tokens. *alone is what of it is attention. */
double scale_prefill(const struct scale_cluster *cluster, int nodes, int ranks_of_node,
                     double tokens, double *attend_s);

/* Attention of all layers for a causal prefill of so many tokens on one node, in its operations. */
double scale_prefill_flops(const struct scale_shape *shape, double tokens);

/* Bytes of keys and values that a token leaves, in all layers. */
double scale_token_bytes(const struct scale_shape *shape);

#endif
