/* SPDX-License-Identifier: Apache-2.0 */
/* trace_probe.c - a text of random tokens twice, in place of a client's: heads that find repeats
 * show there, for nothing else tells its tokens (Olsson et al. 2022). A model has the same tokens
 * each time. */
#include "operations/plan/trace_plan.h"

#include <string.h>

enum { HALF = 50, TRIES = 20000 };

/* The next number of SplitMix64 (Steele et al. 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* What is being drawn. */
struct draw {
    const struct tokenizer *tokenizer;
    int64_t id_end;
    struct arena *arena;
    struct fault *fault;
    int32_t ids[HALF];
    int count;
};

/* Takes a token that stands for a piece of a text and was not taken. False: no memory. */
static bool try_token(struct draw *draw, int32_t id)
{
    const char *text = tokenizer_token_text(draw->tokenizer, id);
    struct token_piece piece;
    for (int i = 0; i < draw->count; i++)
        if (draw->ids[i] == id)
            return true;
    if (!text || !text[0] || tokenizer_is_special(draw->tokenizer, id))
        return true;
    if (!tokenizer_piece(draw->tokenizer, -1, id, draw->arena, &piece, draw->fault))
        return false;
    if (!piece.is_byte && !piece.is_special)
        draw->ids[draw->count++] = id;
    return true;
}

/* Where a vocabulary has few such tokens, they are looked for in their order, and then repeated. */
static bool draw_tokens(struct draw *draw, const struct trace_item *item)
{
    uint64_t state = 0;
    for (int i = 0; i < TRIES && draw->count < HALF && draw->id_end > 0; i++)
        if (!try_token(draw, (int32_t)(next_random(&state) % (uint64_t)draw->id_end)))
            return false;
    for (int64_t id = 0; id < draw->id_end && draw->count < HALF; id++)
        if (!try_token(draw, (int32_t)id))
            return false;
    if (draw->count == 0)
        return fault_set_at(draw->fault, "/probe", FAULT_OPTION,
                            "the tokenizer of model '%s' has no ordinary tokens to probe it with",
                            item->model->name);
    for (int i = draw->count; i < HALF; i++)
        draw->ids[i] = draw->ids[i - draw->count];
    return true;
}

/* The tokens of the template before a text, and behind it. */
static bool encode_template(const struct trace_item *item, struct arena *arena,
                            struct token_list *list, int64_t *before, int64_t *after,
                            struct fault *fault)
{
    const struct byte_slice text = { "a", 1 };
    if (!tokenizer_encode(item->model->tokenizer, NULL, text, NULL, !item->no_special, arena, list,
                          fault))
        return false;
    *before = 0;
    while (*before < list->count && !list->tokens[*before].is_of_text)
        ++*before;
    *after = 0;
    while (*after < list->count - *before && !list->tokens[list->count - 1 - *after].is_of_text)
        ++*after;
    return true;
}

static bool fill_probe(const struct trace_item *item, int64_t id_end, struct arena *own,
                       struct arena *arena, struct token_list *list, struct fault *fault)
{
    struct draw draw = { item->model->tokenizer, id_end, own, fault, { 0 }, 0 };
    struct token_list frame;
    const int64_t drawn = (int64_t)2 * HALF;
    int64_t before, after;
    if (!draw_tokens(&draw, item) || !encode_template(item, own, &frame, &before, &after, fault))
        return false;
    *list = (struct token_list){ .count = before + drawn + after };
    list->tokens = arena_calloc(arena, (size_t)list->count, sizeof *list->tokens);
    if (!list->tokens)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < before; i++)
        list->tokens[i] = frame.tokens[i];
    for (int64_t i = 0; i < drawn; i++)
        list->tokens[before + i] =
            (struct token){ .id = draw.ids[i % HALF],
                            .type = before < frame.count ? frame.tokens[before].type : 0 };
    for (int64_t i = 0; i < after; i++)
        list->tokens[before + drawn + i] = frame.tokens[frame.count - after + i];
    return true;
}

bool trace_take_probe(const struct trace_item *item, int64_t id_end, struct arena *arena,
                      struct token_list *list, struct fault *fault)
{
    const struct model *model = item->model;
    struct arena own;
    if (item->text.data || item->has_tokens)
        return fault_set_at(fault, "/probe", FAULT_FIELD,
                            "a probe takes the place of text and tokens; expected one of them");
    if (!model->tokenizer)
        return fault_set_at(fault, "/probe", FAULT_FIELD,
                            "model '%s' has no tokenizer, whose tokens a probe is made of; send "
                            "tokens",
                            model->name);
    const int64_t own_end = tokenizer_vocabulary_end(model->tokenizer);
    arena_init(&own, 16 << 20);
    const bool is_taken =
        fill_probe(item, own_end < id_end ? own_end : id_end, &own, arena, list, fault);
    arena_free(&own);
    return is_taken;
}
