/* SPDX-License-Identifier: Apache-2.0 */
/* forward_encoder.c - see forward_encoder.h. */
#include "forward_encoder.h"

void encoder_check(const char *name, const char *config, const char *tensors, int64_t length,
                   void (*pass)(struct forward *forward))
{
    const struct decoder_case encoder = { .name = name,
                                          .config = config,
                                          .tensors = tensors,
                                          .layers = ENCODER_LAYERS,
                                          .pass = pass,
                                          .length = length,
                                          .is_bidirectional = true,
                                          .norms_follow = true };
    decoder_case_check(&encoder);
}

struct rows encoder_embed(const char *name)
{
    return forward_embed(published_tensor(name, 0), decoder_tokens(), decoder_length);
}

struct decoder_projections encoder_project(struct rows x, const char *q, const char *k,
                                           const char *v, int layer)
{
    return (struct decoder_projections){ published_linear(x, q, layer),
                                         published_linear(x, k, layer),
                                         published_linear(x, v, layer) };
}

struct decoder_projections encoder_project_fused(struct rows x, const char *name, int layer)
{
    const struct rows qkv = published_linear(x, name, layer);
    return (
        struct decoder_projections){ published_split(qkv, 1, 0, ENCODER_WIDTH),
                                     published_split(qkv, 1, ENCODER_WIDTH, ENCODER_WIDTH),
                                     published_split(qkv, 1, 2 * ENCODER_WIDTH, ENCODER_WIDTH) };
}

struct rows encoder_masked_head(struct rows x, const char *dense, const char *norm, double eps,
                                const char *table, const char *bias)
{
    x = forward_activation(published_linear(x, dense, 0), "gelu");
    x = forward_product(forward_layer_norm(x, norm, 0, eps), published_tensor(table, 0));
    return forward_add_row(x, published_tensor(bias, 0));
}
