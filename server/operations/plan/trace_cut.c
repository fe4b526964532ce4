/* SPDX-License-Identifier: Apache-2.0 */
/* trace_cut.c - texts that are longer than their caller wants: cut as the reference cuts them, the
 * tokens of a text before the template adds its own.
 *
 * Source: Hugging Face tokenizers, utils/truncation.rs, the strategy longest_first. */
#include "operations/plan/trace_plan.h"

/* Which tokens stay: [first, end) of those of one sequence, by their number among these. */
struct cut {
    int64_t first, end;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many tokens of each sequence stay, most in all. */
static void share(int64_t kept[2], const int64_t counts[2], int64_t most)
{
    const bool is_swapped = counts[0] > counts[1];
    int64_t shorter = counts[is_swapped], longer;
    kept[0] = counts[0];
    kept[1] = counts[1];
    if (counts[0] + counts[1] <= most)
        return;
    if (counts[1] == 0) {
        kept[0] = most;
        return;
    }
    longer = shorter > most ? shorter : shorter > most - shorter ? shorter : most - shorter;
    if (shorter + longer > most) {
        shorter = most / 2;
        longer = shorter + most % 2;
    }
    kept[is_swapped] = shorter;
    kept[!is_swapped] = longer;
}

/* Tokens that came as ids are of no text: they are all of the first sequence here. */
static int sequence_of(const struct trace_item *item, const struct token *token)
{
    return item->has_tokens ? 0 : token->is_of_text ? (int)token->sequence : -1;
}

bool trace_cut(const struct trace_item *item, struct token_list *list, struct arena *arena,
               struct fault *fault)
{
    int64_t counts[2] = { 0, 0 }, kept[2], seen[2] = { 0, 0 }, added = 0;
    struct cut cuts[2];
    if (item->tokens_max == 0 || list->count <= item->tokens_max)
        return true;
    for (int64_t i = 0; i < list->count; i++) {
        const int sequence = sequence_of(item, &list->tokens[i]);
        if (sequence >= 0)
            counts[sequence]++;
        else
            added++;
    }
    share(kept, counts, item->tokens_max - least(added, item->tokens_max));
    for (int s = 0; s < 2; s++)
        cuts[s] = item->cuts_first ? (struct cut){ counts[s] - kept[s], counts[s] }
                                   : (struct cut){ 0, kept[s] };
    struct token_list cut = { arena_calloc(arena, (size_t)list->count, sizeof *cut.tokens), 0 };
    if (!cut.tokens)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < list->count; i++) {
        const int s = sequence_of(item, &list->tokens[i]);
        const int64_t number = s >= 0 ? seen[s]++ : 0;
        if (s < 0 || (number >= cuts[s].first && number < cuts[s].end))
            cut.tokens[cut.count++] = list->tokens[i];
    }
    *list = cut; /* the tokens may be those of other items too */
    return true;
}
