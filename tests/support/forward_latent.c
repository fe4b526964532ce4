/* SPDX-License-Identifier: Apache-2.0 */
/* forward_latent.c - see forward_latent.h. */
#include "forward_latent.h"

#include <math.h>
#include <string.h>

void latent_set_plain(struct latent *latent)
{
    published_frequencies(latent->frequencies, LATENT_ROTATED, 10000);
    latent->factor = 1;
    latent->scale = 1 / sqrt(LATENT_PLAIN + LATENT_ROTATED);
}

/* yarn_get_mscale() */
static double get_mscale(double factor, double mscale)
{
    return 0.1 * mscale * log(factor) + 1;
}

void latent_set_yarn(struct latent *latent, double mscale, double mscale_all_dim)
{
    const double base = 10000, factor = 40, length = 64, turns[2] = { 32, 1 };
    double ends[2];
    for (int i = 0; i < 2; i++)
        ends[i] = LATENT_ROTATED * log(length / (turns[i] * 2 * M_PI)) / (2 * log(base));
    ends[0] = fmax(floor(ends[0]), 0);
    ends[1] = fmin(ceil(ends[1]), LATENT_ROTATED - 1);
    for (int c = 0; c < LATENT_ROTATED / 2; c++) {
        const double plain = 1 / pow(base, 2.0 * c / LATENT_ROTATED);
        const double ramp = fmin(fmax((c - ends[0]) / (ends[1] - ends[0]), 0), 1);
        latent->frequencies[c] = plain / factor * ramp + plain * (1 - ramp);
    }
    const double all = get_mscale(factor, mscale_all_dim);
    latent->factor = get_mscale(factor, mscale) / all;
    latent->scale = all * all / sqrt(LATENT_PLAIN + LATENT_ROTATED);
}

/* The columns of a and b side by side in each head; b may have one head for all of them. */
static struct rows join_heads(struct rows a, struct rows b, int64_t b_heads)
{
    const int64_t of_a = a.columns / LATENT_HEADS, of_b = b.columns / b_heads;
    const struct rows joined = published_rows(a.count, LATENT_HEADS * (of_a + of_b));
    for (int64_t i = 0; i < a.count; i++)
        for (int64_t h = 0; h < LATENT_HEADS; h++) {
            double *to = joined.data + i * joined.columns + h * (of_a + of_b);
            memcpy(to, a.data + i * a.columns + h * of_a, (size_t)of_a * sizeof *to);
            memcpy(to + of_a, b.data + i * b.columns + (b_heads > 1 ? h * of_b : 0),
                   (size_t)of_b * sizeof *to);
        }
    return joined;
}

static struct rows project_queries(const struct latent *latent, struct rows x, int layer)
{
    if (!latent->has_down)
        return latent->linear(x, LLAMA_ATTENTION "q_proj", layer);
    x = forward_rms_norm(latent->linear(x, LLAMA_ATTENTION "q_a_proj", layer),
                         LLAMA_ATTENTION "q_a_layernorm", layer, 1e-6, 0);
    return latent->linear(x, LLAMA_ATTENTION "q_b_proj", layer);
}

struct decoder_projections latent_project(const struct latent *latent, struct rows x, int layer)
{
    const struct rows q = project_queries(latent, x, layer);
    const struct rows compressed = latent->linear(x, LLAMA_ATTENTION "kv_a_proj_with_mqa", layer);
    const struct rows row = forward_rms_norm(published_split(compressed, 1, 0, LATENT_RANK),
                                             LLAMA_ATTENTION "kv_a_layernorm", layer, 1e-6, 0);
    const struct rows both = latent->linear(row, LLAMA_ATTENTION "kv_b_proj", layer);
    const struct rows k_rot = published_split(compressed, 1, LATENT_RANK, LATENT_ROTATED);
    const struct rows q_rot = published_split(q, LATENT_HEADS, LATENT_PLAIN, LATENT_ROTATED);
    published_rotate_every_two_by(q_rot, LATENT_HEADS, LATENT_ROTATED, latent->frequencies,
                                  latent->factor);
    published_rotate_every_two_by(k_rot, 1, LATENT_ROTATED, latent->frequencies, latent->factor);
    return (struct decoder_projections){
        join_heads(published_split(q, LATENT_HEADS, 0, LATENT_PLAIN), q_rot, LATENT_HEADS),
        join_heads(published_split(both, LATENT_HEADS, 0, LATENT_PLAIN), k_rot, 1),
        published_split(both, LATENT_HEADS, LATENT_PLAIN, LATENT_VALUES),
    };
}
