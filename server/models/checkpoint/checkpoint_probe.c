/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_probe.c - attention pooling: one query that was learnt looks at all rows.
 *
 * Source: transformers, models/siglip/modeling_siglip.py, SiglipMultiheadAttentionPoolingHead:
 *
 *     x = MultiheadAttention(probe, rows, rows);  vector = x + fc2(activation(fc1(norm(x))))
 *
 * The query is known, so a head's score of a row is a product of the row with one vector, made
 * here of the query and the head's key projection; a key's bias adds the same to all scores of a
 * head, which changes no weight. */
#include "models/checkpoint/checkpoint_pass_internal.h"

#include "models/checkpoint/checkpoint_fields.h"

#include <inttypes.h>
#include <math.h>

enum { OUT, NORM, UP, DOWN, LAYERS };

/* The parameters of torch.nn.MultiheadAttention: those of query, key and value behind one another.
 */
struct in_projection {
    const float *probe, *weight, *bias;
    int64_t width, heads;
};

static bool read_in(struct in_projection *in, struct checkpoint_pass_reader *reader)
{
    const int64_t width = in->width;
    if (!checkpoint_read_integer(reader->run->section, reader->run->stack->q_heads, &in->heads,
                                 reader->fault))
        return false;
    if (in->heads < 1 || width % in->heads != 0)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "the probe of %" PRId64 " columns has %" PRId64 " heads", width,
                         in->heads);
    return checkpoint_pass_values_now(reader, &in->probe, "head.probe", width)
           && checkpoint_pass_values_now(reader, &in->weight, "head.attention.in_proj_weight",
                                         3 * width * width)
           && checkpoint_pass_values_now(reader, &in->bias, "head.attention.in_proj_bias",
                                         3 * width);
}

/* Number i of the query, with the scale of the scores. */
static double query_at(const struct in_projection *in, int64_t i)
{
    const float *weight = in->weight + i * in->width;
    const int64_t head_dim = in->width / in->heads;
    double sum = (double)in->bias[i];
    for (int64_t c = 0; c < in->width; c++)
        sum += (double)weight[c] * (double)in->probe[c];
    return sum / sqrt((double)head_dim);
}

/* What each head's score multiplies a row with. */
static bool make_scores(struct model_probe *probe, const struct in_projection *in,
                        struct checkpoint_pass_reader *reader)
{
    const int64_t width = in->width, head_dim = width / in->heads;
    struct arena *arena = reader->parameters->arena;
    float *scores = arena_calloc(arena, (size_t)(in->heads * width), sizeof *scores);
    double *sums = arena_calloc(arena, (size_t)width, sizeof *sums);
    if (!scores || !sums)
        return fault_no_memory(reader->fault);
    for (int64_t h = 0; h < in->heads; h++) {
        for (int64_t c = 0; c < width; c++)
            sums[c] = 0;
        for (int64_t i = h * head_dim; i < (h + 1) * head_dim; i++) {
            const float *key = in->weight + (width + i) * width;
            const double query = query_at(in, i);
            for (int64_t c = 0; c < width; c++)
                sums[c] += query * (double)key[c];
        }
        for (int64_t c = 0; c < width; c++)
            scores[h * width + c] = (float)sums[c];
    }
    probe->scores = scores;
    return true;
}

static bool build_layers(struct model_dense *dense, struct checkpoint_pass_reader *reader,
                         int64_t width)
{
    dense[NORM].keeps = dense[DOWN].adds_kept = true;
    return checkpoint_pass_linear(reader, &dense[OUT].linear, "head.attention.out_proj", width,
                                  width, false, true)
           && checkpoint_pass_norm(reader, &dense[NORM].norm, "head.layernorm", width)
           && checkpoint_pass_linear(reader, &dense[UP].linear, "head.mlp.fc1", 0, width, false,
                                     true)
           && checkpoint_read_activation(reader->run->section, reader->pass.activation,
                                         &dense[UP].activation, reader->fault)
           && checkpoint_pass_linear(reader, &dense[DOWN].linear, "head.mlp.fc2", width,
                                     dense[UP].linear.out, false, true);
}

bool checkpoint_probe_build(struct model_readout *readout, struct checkpoint_pass_reader *reader,
                            int64_t width)
{
    struct arena *arena = reader->parameters->arena;
    struct model_dense *dense = arena_calloc(arena, LAYERS, sizeof *dense);
    struct model_probe *probe = arena_calloc(arena, 1, sizeof *probe);
    struct in_projection in = { .width = width };
    if (!dense || !probe)
        return fault_no_memory(reader->fault);
    if (!read_in(&in, reader) || !make_scores(probe, &in, reader)
        || !build_layers(dense, reader, width))
        return false;
    probe->heads = in.heads;
    probe->values = in.weight + 2 * width * width;
    probe->value_biases = in.bias + 2 * width;
    *readout = (struct model_readout){ .width = width,
                                       .poolings = { MODEL_POOLING_MEAN },
                                       .pooling_count = 1,
                                       .probe = probe,
                                       .dense = dense,
                                       .dense_count = LAYERS };
    return true;
}
