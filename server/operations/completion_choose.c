/* SPDX-License-Identifier: Apache-2.0 */
/* completion_choose.c - the next token of a choice: the most probable one, or one that is drawn;
 * and whether the text ends with it. */
#include "operations/completion.h"

#include "models/model/model_continue.h"
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ drawing -- */

/* Number i of the sequence of a seed, in [0, 1): two rounds of SplitMix64 (Steele et al. 2014). */
static double uniform(uint64_t seed, int64_t i)
{
    uint64_t x = seed;
    for (int round = 0; round < 2; round++) {
        x += UINT64_C(0x9E3779B97F4A7C15) * (round == 0 ? 1 : (uint64_t)i + 1);
        x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
        x ^= x >> 31;
    }
    return (double)(x >> 11) * 0x1p-53;
}

/* What a distribution is: exp((logit - max) / temperature) of each token, not normalised. */
struct weights {
    const float *logits;
    int64_t count;
    double max, temperature, total;
};

static double weight_of(const struct weights *weights, double logit)
{
    const double weight = exp((logit - weights->max) / weights->temperature);
    return weight >= 0 ? weight : 0;
}

static int64_t draw_among_all(const struct weights *weights, double u)
{
    double sum = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < weights->count; i++) {
        const double weight = weight_of(weights, weights->logits[i]);
        sum += weight;
        last = weight > 0 ? i : last;
        if (u * weights->total < sum)
            return i;
    }
    return last;
}

/* The most probable tokens up to a sum of top_p, most probable first. False: so many are not
 * enough. */
static bool draw_among_some(const struct weights *weights, double top_p, double u,
                            const float *values, const int64_t *indices, int64_t some, int64_t *id)
{
    double kept = 0, sum = 0;
    int64_t count = 0;
    while (count < some && (count == 0 || kept < top_p * weights->total))
        kept += weight_of(weights, values[count++]);
    if (count == some && some < weights->count && kept < top_p * weights->total)
        return false;
    for (int64_t i = 0; i < count; i++) {
        sum += weight_of(weights, values[i]);
        *id = indices[i];
        if (u * kept < sum)
            break;
    }
    return true;
}

static bool draw_among_top(const struct weights *weights, double top_p, double u, int64_t *id,
                           struct fault *fault)
{
    bool found = false;
    for (int64_t some = 64; !found; some *= 8) {
        some = some < weights->count ? some : weights->count;
        float *values = malloc((size_t)some * sizeof *values);
        int64_t *indices = malloc((size_t)some * sizeof *indices);
        const bool has_memory = values && indices;
        if (has_memory) {
            attn_top_k(weights->logits, weights->count, some, values, indices);
            found = draw_among_some(weights, top_p, u, values, indices, some, id);
        }
        free(values);
        free(indices);
        if (!has_memory)
            return fault_no_memory(fault);
    }
    return true;
}

/* Draws a token. Where no number of the row is finite, the id stays as it is. */
static bool draw(const struct completion_asked *asked, const struct completion_choice *choice,
                 const float *logits, int64_t vocabulary, int64_t *id, struct fault *fault)
{
    struct weights weights = { logits, vocabulary, -INFINITY, asked->temperature, 0 };
    for (int64_t i = 0; i < vocabulary; i++)
        if (logits[i] > weights.max)
            weights.max = logits[i];
    for (int64_t i = 0; i < vocabulary; i++)
        weights.total += weight_of(&weights, logits[i]);
    const double u = uniform(choice->seed, choice->count);
    if (!(weights.total > 0) || !isfinite(weights.total))
        return true;
    if (asked->top_p < 1)
        return draw_among_top(&weights, asked->top_p, u, id, fault);
    *id = draw_among_all(&weights, u);
    return true;
}

/* ---------------------------------------------------------------------- the end -- */

/* Looks for the first stop string that ends behind `from` bytes; true: the text ends before it. */
static bool find_stop(const struct completion_asked *asked, struct completion_choice *choice,
                      size_t from)
{
    const struct text *text = &choice->text;
    size_t first = SIZE_MAX;
    for (int64_t i = 0; i < asked->stop_count; i++) {
        const struct byte_slice stop = asked->stops[i];
        const size_t at = from >= stop.size ? from - stop.size + 1 : 0;
        const char *found =
            text->used > at ? memmem(text->data + at, text->used - at, stop.data, stop.size) : NULL;
        if (found && (size_t)(found - text->data) < first)
            first = (size_t)(found - text->data);
    }
    if (first == SIZE_MAX)
        return false;
    choice->text_end = first;
    return true;
}

/* Whether the token is of the text: it is none of the special ones, and the tokenizer has it. A
 * model's vocabulary may be padded beyond that of its tokenizer. */
static bool is_text(const struct tokenizer *tokenizer, int32_t id)
{
    return tokenizer_token_text(tokenizer, id) && !tokenizer_is_special(tokenizer, id);
}

int32_t completion_before(const struct completion *job, const struct completion_choice *choice,
                          int64_t count)
{
    const struct tokenizer *tokenizer = job->model->tokenizer;
    const struct token_list *prompt = &choice->item->streams[0].tokens;
    for (int64_t i = count - 1; i >= 0; i--)
        if (is_text(tokenizer, choice->tokens[i].id))
            return choice->tokens[i].id;
    for (int64_t i = prompt->count - 1; i >= 0; i--)
        if (is_text(tokenizer, prompt->tokens[i].id))
            return prompt->tokens[i].id;
    return -1;
}

/* Adds what the token adds to the text. */
static bool add_text(const struct completion *job, struct completion_choice *choice,
                     struct completion_token *token, struct fault *fault)
{
    const struct tokenizer *tokenizer = job->model->tokenizer;
    struct token_piece piece;
    struct arena arena;
    if (!tokenizer || !tokenizer_token_text(tokenizer, token->id))
        return true;
    arena_init(&arena, SIZE_MAX);
    const bool good = tokenizer_piece(tokenizer, completion_before(job, choice, choice->count),
                                      token->id, &arena, &piece, fault);
    if (good && !piece.is_special)
        text_bytes(&choice->text, piece.bytes.data, piece.bytes.size);
    token->is_byte = good && piece.is_byte;
    arena_free(&arena);
    return good && text_finish(&choice->text, fault);
}

/* ------------------------------------------------------------------- the choice -- */

static bool choose(const struct completion *job, struct completion_slot *slot)
{
    struct completion_choice *choice = slot->choice;
    const struct trace_item *item = choice->count > 0 ? slot->item : choice->item;
    const struct trace_predictions *predicted = &item->predictions;
    const int64_t vocabulary = trace_vocabulary(job->model->forward);
    int64_t id = predicted->ids[0];
    float logprob = predicted->logprobs[0];
    if (slot->logits) {
        if (!draw(&job->asked, choice, slot->logits, vocabulary, &id, &slot->fault))
            return false;
        const struct attn_row_sums sums = attn_row_sums(slot->logits, vocabulary);
        logprob = (float)((double)slot->logits[id] - (double)sums.max - sums.log_sum);
    }
    struct completion_token *token = &choice->tokens[choice->count];
    *token = (struct completion_token){ .id = (int32_t)id, .logprob = logprob };
    for (int64_t k = 0; k < job->candidates; k++) {
        choice->ids[choice->count * job->candidates + k] = predicted->ids[k];
        choice->logprobs[choice->count * job->candidates + k] = predicted->logprobs[k];
    }
    const size_t before = choice->text.used;
    choice->is_stopped = model_is_end(job->model, id);
    if (!choice->is_stopped && !add_text(job, choice, token, &slot->fault))
        return false;
    token->end = choice->text_end = choice->text.used;
    if (!choice->is_stopped)
        choice->is_stopped = find_stop(&job->asked, choice, before);
    choice->count++;
    choice->is_over = choice->is_stopped || choice->count == choice->room;
    return true;
}

void completion_choose(const struct completion *job, struct completion_slot *slot)
{
    if (slot->choice->room == 0)
        slot->choice->is_over = true;
    else
        choose(job, slot);
}
