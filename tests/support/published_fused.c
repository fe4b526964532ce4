/* SPDX-License-Identifier: Apache-2.0 */
/* published_fused.c - see published_fused.h. */
#include "published_fused.h"

static struct rows project(const struct published_fused *fused, struct rows x, const char *name,
                           int layer)
{
    return fused->is_conv1d ? published_conv1d(x, name, layer) : published_linear(x, name, layer);
}

static void rotate(const struct published_fused *fused, struct rows x, int64_t heads)
{
    if (fused->rotary_dim == 0)
        return;
    if (fused->frequencies)
        published_rotate_half_by(x, heads, fused->rotary_dim, fused->frequencies, fused->factor);
    else
        published_rotate_half(x, heads, fused->rotary_dim, fused->theta);
}

struct published_answer published_fused_answer(const struct published_fused *fused,
                                               struct rows hidden, int layer)
{
    const struct published_attention *attention = &fused->attention;
    const int64_t groups = fused->groups, queries = fused->queries, keys = fused->keys;
    const struct rows qkv = project(fused, hidden, fused->qkv, layer);
    if (fused->clip > 0)
        published_clamp(qkv, fused->clip);
    const struct rows q = published_split(qkv, groups, 0, queries);
    const struct rows k = published_split(qkv, groups, queries, keys);
    const struct rows v = published_split(qkv, groups, queries + keys, keys);
    rotate(fused, q, attention->heads);
    rotate(fused, k, attention->kv_heads ? attention->kv_heads : attention->heads);
    struct published_answer answer = published_attend(attention, q, k, v);
    answer.context = project(fused, answer.context, fused->output, layer);
    return answer;
}

void published_expect_fused(const struct published_fused *fused, int layer)
{
    const struct rows hidden = published_input(fused->width);
    const struct published_answer answer = published_fused_answer(fused, hidden, layer);
    published_expect(layer, "self", hidden, hidden, &answer);
}
