/* SPDX-License-Identifier: Apache-2.0 */
/* published_rotary.c - see published_rotary.h. */
#include "published_rotary.h"
#include "test.h"

const struct published_rotary PUBLISHED_LLAMA = { .begin = "model.layers.#.self_attn.",
                                                  .output = "o_proj",
                                                  .width = 16,
                                                  .heads = 4,
                                                  .kv_heads = 2,
                                                  .rotary_dim = 4,
                                                  .theta = 10000,
                                                  .scale = 0.5 };

static void rotate(const struct published_rotary *rotary, struct rows x, int64_t heads)
{
    double frequencies[64];
    const double *by = rotary->frequencies ? rotary->frequencies : frequencies;
    const double factor = rotary->frequencies ? rotary->factor : 1;
    if (rotary->rotary_dim == 0)
        return;
    published_frequencies(frequencies, rotary->rotary_dim, rotary->theta);
    if (rotary->is_every_two)
        published_rotate_every_two_by(x, heads, rotary->rotary_dim, by, factor);
    else
        published_rotate_half_by(x, heads, rotary->rotary_dim, by, factor);
}

void published_expect_rotary(const struct published_rotary *rotary, int layer)
{
    char name[4][128], norm[2][128], sinks[128];
    const char *const endings[] = { "q_proj", "k_proj", "v_proj", rotary->output };
    const struct rows hidden = published_input(rotary->width);
    snprintf(sinks, sizeof sinks, "%ssinks", rotary->begin);
    const struct published_attention attention = {
        .heads = rotary->heads,
        .kv_heads = rotary->kv_heads,
        .scale = rotary->scale,
        .softcap = rotary->softcap,
        .causal = !rotary->is_bidirectional,
        .window = rotary->window,
        .reach = rotary->reach,
        .sinks = rotary->has_sinks ? published_tensor(sinks, layer).data : NULL,
    };
    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof name[i], "%s%s", rotary->begin,
                 i < 3 && rotary->projections[i] ? rotary->projections[i] : endings[i]);
    const struct rows q = published_linear(hidden, name[0], layer);
    const struct rows k = published_linear(hidden, name[1], layer);
    if (rotary->norm_eps > 0) {
        snprintf(norm[0], sizeof norm[0], "%sq_norm.weight", rotary->begin);
        snprintf(norm[1], sizeof norm[1], "%sk_norm.weight", rotary->begin);
        published_rms_norm(q, rotary->heads, norm[0], layer, rotary->norm_eps, rotary->norm_offset);
        published_rms_norm(k, rotary->kv_heads, norm[1], layer, rotary->norm_eps,
                           rotary->norm_offset);
    }
    rotate(rotary, q, rotary->heads);
    rotate(rotary, k, rotary->kv_heads);
    struct published_answer answer =
        published_attend(&attention, q, k, published_linear(hidden, name[2], layer));
    answer.context = published_linear(answer.context, name[3], layer);
    published_expect(layer, "self", hidden, hidden, &answer);
}

void published_compare_rotary(const char *config, const char *tensors, const char *dtype,
                              const struct published_rotary *rotary)
{
    published_open(config, tensors, 2, dtype);
    published_expect_rotary(rotary, 0);
    published_expect_rotary(rotary, 1);
    published_close();
}
