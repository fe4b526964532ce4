/* SPDX-License-Identifier: Apache-2.0 */
/* forward_llama.c - see forward_llama.h. */
#include "forward_llama.h"

#include "forward_edits.h"

const struct llama LLAMA = {
    .layers = 2,
    .attention = { .attention = { .heads = LLAMA_HEADS,
                                  .kv_heads = LLAMA_KV_HEADS,
                                  .scale = 0.5,
                                  .causal = true },
                   .rotary_dim = 4,
                   .theta = 10000 },
    .norm = llama_rms_norm,
    .project = llama_project,
    .feed_forward = llama_feed_forward,
    .block = llama_norms_before,
    .head = "lm_head.weight",
};

/* -------------------------------------------------------------- the blocks -- */

static struct decoder_attention attention_of(const struct llama *llama, int layer)
{
    struct decoder_attention attention = llama->attention;
    if (llama->full_every > 0 && (layer + 1) % llama->full_every == 0) {
        attention.attention.window = attention.attention.reach = attention.attention.chunk = 0;
        attention.theta = llama->full_theta;
        attention.frequencies = llama->full_frequencies;
        attention.factor = llama->full_factor;
        attention.rotary_dim = llama->full_theta > 0 ? attention.rotary_dim : 0;
    }
    if (llama->has_sinks)
        attention.attention.sinks = published_tensor(LLAMA_ATTENTION "sinks", layer).data;
    return attention;
}

/* What leaves o_proj. */
static struct rows attend(struct forward *forward, const struct llama *llama, struct rows x,
                          struct rows inputs, int layer)
{
    const struct decoder_attention attention = attention_of(llama, layer);
    return decoder_attend(forward, &attention, x, inputs, llama->project(inputs, layer),
                          llama->output ? llama->output : LLAMA_ATTENTION "o_proj", layer);
}

static struct rows feed(const struct llama *llama, struct rows x, int layer)
{
    return forward_edits_fed("self", layer, llama->feed_forward(x, layer));
}

struct rows llama_norms_before(struct forward *forward, const struct llama *llama, struct rows x,
                               int layer)
{
    const double scale = llama->residual_scale > 0 ? llama->residual_scale : 1;
    const struct rows inputs = llama->norm(x, LLAMA_BLOCK "input_layernorm", layer);
    x = forward_add(x, forward_scale(attend(forward, llama, x, inputs, layer), scale));
    const struct rows normed = llama->norm(x, LLAMA_BLOCK "post_attention_layernorm", layer);
    return forward_add(x, forward_scale(feed(llama, normed, layer), scale));
}

struct rows llama_norms_around(struct forward *forward, const struct llama *llama, struct rows x,
                               int layer)
{
    const struct rows inputs = llama->norm(x, LLAMA_BLOCK "input_layernorm", layer);
    struct rows y = attend(forward, llama, x, inputs, layer);
    x = forward_add(x, llama->norm(y, LLAMA_BLOCK "post_attention_layernorm", layer));
    y = llama->norm(x, LLAMA_BLOCK "pre_feedforward_layernorm", layer);
    y = feed(llama, y, layer);
    return forward_add(x, llama->norm(y, LLAMA_BLOCK "post_feedforward_layernorm", layer));
}

struct rows llama_norms_after(struct forward *forward, const struct llama *llama, struct rows x,
                              int layer)
{
    struct rows y = attend(forward, llama, x, x, layer);
    x = forward_add(x, llama->norm(y, LLAMA_BLOCK "post_attention_layernorm", layer));
    y = feed(llama, x, layer);
    return forward_add(x, llama->norm(y, LLAMA_BLOCK "post_feedforward_layernorm", layer));
}

struct rows llama_parallel(struct forward *forward, const struct llama *llama, struct rows x,
                           int layer)
{
    const struct rows inputs = llama->norm(x, LLAMA_BLOCK "input_layernorm", layer);
    const struct rows y = forward_add(x, attend(forward, llama, x, inputs, layer));
    return forward_add(y, feed(llama, inputs, layer));
}

void llama_pass(struct forward *forward, const struct llama *llama)
{
    const struct rows embedding =
        published_tensor(llama->embedding ? llama->embedding : "model.embed_tokens.weight", 0);
    struct rows x = forward_embed(embedding, decoder_tokens(), decoder_length);
    if (llama->embedding_scale > 0)
        x = forward_scale(x, llama->embedding_scale);
    for (int layer = 0; layer < llama->layers; layer++)
        x = llama->block(forward, llama, forward_edits_enter("self", layer, layer, x), layer);
    forward->final_hidden_states = llama->norm(x, "model.norm", 0);
    forward->logits = forward_product(forward->final_hidden_states,
                                      llama->head ? published_tensor(llama->head, 0) : embedding);
}

/* ----------------------------------------------------------- their functions -- */

struct rows llama_rms_norm(struct rows x, const char *name, int layer)
{
    return forward_rms_norm(x, name, layer, 1e-6, 0);
}

struct rows llama_layer_norm(struct rows x, const char *name, int layer)
{
    return forward_layer_norm(x, name, layer, 1e-5);
}

struct decoder_projections llama_project(struct rows x, int layer)
{
    return decoder_project(x, LLAMA_ATTENTION, layer);
}

struct rows llama_feed_forward(struct rows x, int layer)
{
    return decoder_gated(x, LLAMA_BLOCK "mlp.", "silu", layer);
}

void llama_check(const char *name, const char *config, const char *tensors, int layers,
                 void (*pass)(struct forward *forward))
{
    const struct decoder_case decoder = {
        name, config, tensors, layers, pass, NULL, 0, false, false
    };
    decoder_case_check(&decoder);
}
