/* SPDX-License-Identifier: Apache-2.0 */
/* textbook.h - attention as a textbook writes it, in a type of number of your choice.
 *
 * It takes whole rows, with one loop for each sum, front to back: scores, maximum, exponentials,
 * their sum, quotients, the weighted sum. Only the type differs: with float it is what the
 * library is compared with, with long double it is the truth of bench_exactness.c. Define before
 * each inclusion:
 *
 *     REAL          float, or long double
 *     EXP LOG TANH  the functions of C's library for it
 *     NAMED(name)   how its names are made different */

/* One row of a problem, whose outputs are dense. */
static void NAMED(textbook_row)(const struct attn_problem *problem, const struct textbook_place *at,
                                REAL *context, REAL *lse, REAL *weights)
{
    const struct attn_options *options = &problem->options;
    const float *query = attention_at(&problem->query, at->batch, at->head, at->row, 0);
    const int64_t kv_len = problem->key.shape[2], head_dim = problem->key.shape[3];
    REAL max = -INFINITY, sum = 0;

    for (int64_t j = 0; j < kv_len; j++) {
        const float *key = attention_at(&problem->key, at->batch, at->kv_head, j, 0);
        REAL score = 0;
        for (int64_t d = 0; d < head_dim; d++)
            score += (REAL)query[d] * (REAL)key[d];
        score *= (REAL)options->scale;
        if (options->softcap > 0)
            score = (REAL)options->softcap * TANH(score / (REAL)options->softcap);
        if (problem->alibi_slopes != NULL)
            score -= (REAL)problem->alibi_slopes[at->head] * (REAL)llabs((long long)(at->row - j));
        weights[j] = options->causal && j > at->row ? -INFINITY : score;
        max = weights[j] > max ? weights[j] : max;
    }
    for (int64_t j = 0; j < kv_len; j++)
        sum += weights[j] = EXP(weights[j] - max);
    *lse = max + LOG(sum);
    for (int64_t d = 0; d < problem->value.shape[3]; d++)
        context[d] = 0;
    for (int64_t j = 0; j < kv_len; j++) {
        const float *value = attention_at(&problem->value, at->batch, at->kv_head, j, 0);
        weights[j] /= sum;
        for (int64_t d = 0; d < problem->value.shape[3]; d++)
            context[d] += weights[j] * (REAL)value[d];
    }
}

#undef REAL
#undef EXP
#undef LOG
#undef TANH
#undef NAMED
