/* SPDX-License-Identifier: Apache-2.0 */
/* forward_block.c - see forward_block.h. */
#include "forward_block.h"

#include "forward_edits.h"

static struct rows norm(const struct forward_block *block, struct rows x, const char *name,
                        int layer)
{
    return block->is_rms ? forward_rms_norm(x, name, layer, block->eps, 0)
                         : forward_layer_norm(x, name, layer, block->eps);
}

static struct rows scaled(struct rows x, const char *name, int layer)
{
    if (!name)
        return x;
    const struct rows scale = published_tensor(name, layer);
    const struct rows y = forward_slice(x, 0, x.count);
    for (int64_t i = 0; i < x.count * x.columns; i++)
        y.data[i] *= scale.data[i % x.columns];
    return y;
}

/* The sum of the residual and what was computed of it, after the norm that stands there. */
static struct rows joined(const struct forward_block *block, struct rows residual, struct rows x,
                          const char *name, int layer)
{
    const struct rows sum = forward_add(residual, x);
    return block->is_norm_first ? sum : norm(block, sum, name, layer);
}

static struct rows attend(struct forward *forward, const struct forward_block *block,
                          const struct forward_attention *attention, struct rows entering,
                          struct rows residual, struct rows memory, const char *scale, int layer)
{
    const struct rows inputs =
        block->is_norm_first ? norm(block, residual, attention->norm, layer) : residual;
    const struct rows keys = memory.data ? memory : inputs;
    const struct rows q = published_linear(inputs, attention->q, layer);
    const struct rows k = published_linear(keys, attention->k, layer);
    struct forward_layer *to = forward_layer_at(forward, attention->first_layer + layer);
    if (attention->see)
        attention->see(inputs, layer);
    if (attention->turn) {
        attention->turn(q, attention->of.heads);
        attention->turn(k, attention->of.heads);
    }
    forward_edits_layer(attention->kind, attention->first_layer + layer);
    *to = (struct forward_layer){
        .kind = attention->kind,
        .heads = attention->of.heads,
        .hidden_states = entering,
        .inputs = inputs,
        .key_inputs = memory,
        .maps = forward_attend(&attention->of, q, k, published_linear(keys, attention->v, layer),
                               attention->output, layer),
    };
    return joined(block, residual, scaled(to->maps.context, scale, layer), attention->norm, layer);
}

/* What the feed-forward layer's last projection takes. */
static struct rows activated(const struct forward_block *block, struct rows inputs, int layer)
{
    struct rows up = published_linear(inputs, block->up, layer), gate = FORWARD_NONE;
    if (block->is_gate_in_up) {
        const int64_t half = up.columns / 2;
        gate = published_split(up, 1, half, half);
        up = published_split(up, 1, 0, half);
    } else if (block->gate) {
        gate = published_linear(inputs, block->gate, layer);
    }
    up = forward_activation(up, block->activation);
    return gate.data ? forward_multiply(up, gate) : up;
}

struct rows forward_block_run(struct forward *forward, const struct forward_block *block,
                              struct rows hidden, struct rows memory, int layer)
{
    const int own = block->self.first_layer + layer;
    hidden = forward_edits_enter(block->self.kind, layer, own, hidden);
    struct rows x = attend(forward, block, &block->self, hidden, hidden, FORWARD_NONE,
                           block->self_scale, layer);
    if (block->cross.kind)
        x = attend(forward, block, &block->cross, hidden, x, memory, NULL, layer);
    const struct rows inputs = block->is_norm_first ? norm(block, x, block->norm, layer) : x;
    const struct rows inner = activated(block, inputs, layer);
    const struct rows y =
        forward_edits_fed(block->self.kind, own, published_linear(inner, block->down, layer));
    return joined(block, x, scaled(y, block->feed_forward_scale, layer), block->norm, layer);
}
