/* SPDX-License-Identifier: Apache-2.0 */
/* bpe_merges.c - which pair is merged next.
 *
 * A short word is searched for its lowest rank after each merge: its symbols lie in one or two
 * lines of the cache. A long one has a heap of the ranks of all its pairs, so that a word of n
 * symbols takes n log n steps. An entry of the heap is stale where the pair at its place has
 * changed since; such an entry never has the rank of the present pair, because tokens at one place
 * only become longer. */
#include "models/tokenizer/bpe_merges.h"

#include <string.h>

enum { SHORT_WORD_MAX = 48, TABLE_MIN = 64, STEPS_MERGE = 32 };

static uint64_t hash(uint64_t key)
{
    key *= 0x9E3779B97F4A7C15u;
    return key ^ key >> 32;
}

static uint64_t key_of(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

/* -------------------------------------------------------------- building -- */

bool bpe_merges_init(struct bpe_merges *merges, int64_t count, struct arena *arena)
{
    uint64_t size = TABLE_MIN;
    while (size < 2 * (uint64_t)count)
        size *= 2;
    memset(merges, 0, sizeof *merges);
    merges->pairs = arena_calloc(arena, size, sizeof *merges->pairs);
    merges->joints = arena_calloc(arena, size, sizeof *merges->joints);
    if (!merges->pairs || !merges->joints)
        return false;
    for (uint64_t i = 0; i < size; i++)
        merges->pairs[i].rank = BPE_NO_RANK;
    merges->pair_mask = merges->joint_mask = size - 1;
    return true;
}

/* The place of a pair, or of the free entry where it belongs. */
static struct bpe_pair *pair_of(const struct bpe_merges *merges, uint64_t key)
{
    uint64_t i = hash(key) & merges->pair_mask;
    while (merges->pairs[i].key != key && merges->pairs[i].rank != BPE_NO_RANK)
        i = (i + 1) & merges->pair_mask;
    return &merges->pairs[i];
}

void bpe_merges_add(struct bpe_merges *merges, int32_t left, int32_t right, uint32_t rank,
                    int32_t merged)
{
    const uint64_t key = key_of((uint32_t)left, (uint32_t)right);
    *pair_of(merges, key) = (struct bpe_pair){ key, rank, merged };
}

static bool is_narrow(uint32_t last, uint32_t first)
{
    return last < 256 && first < 256;
}

static uint64_t *joint_of(const struct bpe_merges *merges, uint64_t key)
{
    uint64_t i = hash(key) & merges->joint_mask;
    while (merges->joints[i] != 0 && merges->joints[i] != key + 1)
        i = (i + 1) & merges->joint_mask;
    return &merges->joints[i];
}

void bpe_merges_add_joint(struct bpe_merges *merges, uint32_t last, uint32_t first)
{
    const uint64_t key = key_of(last, first);
    if (is_narrow(last, first))
        merges->narrow_joints[last * 4 + first / 64] |= (uint64_t)1 << first % 64;
    else
        *joint_of(merges, key) = key + 1;
}

bool bpe_merges_may_join(const struct bpe_merges *merges, uint32_t last, uint32_t first)
{
    if (is_narrow(last, first))
        return merges->narrow_joints[last * 4 + first / 64] >> first % 64 & 1;
    return *joint_of(merges, key_of(last, first)) != 0;
}

/* --------------------------------------------------------------- merging -- */

/* Notes the merge of a symbol with the one behind it. */
static void look_up(const struct bpe_merges *merges, struct bpe_symbol *symbol,
                    const struct bpe_symbol *next)
{
    const struct bpe_pair *pair = pair_of(merges, key_of((uint32_t)symbol->id, (uint32_t)next->id));
    symbol->rank = pair->rank;
    symbol->merged = pair->merged;
}

static int64_t apply_short(const struct bpe_merges *merges, struct bpe_symbol *symbols,
                           int64_t count)
{
    for (;;) {
        int64_t best = count - 1;
        for (int64_t i = count - 1; i >= 0; i--)
            if (symbols[i].rank <= symbols[best].rank)
                best = i;
        struct bpe_symbol *left = &symbols[best];
        if (left->rank == BPE_NO_RANK)
            return count;
        left->id = left->merged;
        left->size += left[1].size;
        count--;
        memmove(left + 1, left + 2, (size_t)(count - best - 1) * sizeof *left);
        left->rank = BPE_NO_RANK;
        if (best + 1 < count)
            look_up(merges, left, left + 1);
        if (best > 0)
            look_up(merges, left - 1, left);
    }
}

static void sift_down(struct bpe_heap *heap, int64_t at, uint64_t item)
{
    for (int64_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && heap->items[child + 1] < heap->items[child])
            child++;
        if (heap->items[child] >= item)
            break;
        heap->items[at] = heap->items[child];
    }
    heap->items[at] = item;
}

static void push(struct bpe_heap *heap, const struct bpe_symbol *symbols, int32_t place)
{
    if (symbols[place].rank == BPE_NO_RANK)
        return;
    const uint64_t item = key_of(symbols[place].rank, (uint32_t)place);
    int64_t at = heap->count++;
    for (; at > 0 && heap->items[(at - 1) / 2] > item; at = (at - 1) / 2)
        heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = item;
}

static uint64_t pop(struct bpe_heap *heap)
{
    const uint64_t first = heap->items[0];
    heap->count--;
    if (heap->count > 0)
        sift_down(heap, 0, heap->items[heap->count]);
    return first;
}

/* Each merge takes one entry out and puts at most two in, so there are never more than two entries
 * for each symbol. */
static bool reserve(struct bpe_heap *heap, int64_t count, struct arena *arena)
{
    if (count <= heap->link_capacity)
        return true;
    const int64_t capacity = 2 * count;
    heap->items = arena_alloc(arena, 2 * (size_t)capacity * sizeof *heap->items);
    heap->links = arena_alloc(arena, (size_t)capacity * sizeof *heap->links);
    heap->link_capacity = heap->items && heap->links ? capacity : 0;
    return heap->link_capacity > 0;
}

static void merge_at(const struct bpe_merges *merges, struct bpe_symbol *symbols, int32_t place,
                     struct bpe_heap *heap)
{
    struct bpe_link *link = &heap->links[place];
    struct bpe_symbol *left = &symbols[place], *right = &symbols[link->next];
    left->id = left->merged;
    left->size += right->size;
    left->rank = right->rank = BPE_NO_RANK;
    right->size = 0;
    link->next = heap->links[link->next].next;
    if (link->next >= 0) {
        heap->links[link->next].previous = place;
        look_up(merges, left, &symbols[link->next]);
        push(heap, symbols, place);
    }
    if (link->previous >= 0) {
        look_up(merges, &symbols[link->previous], left);
        push(heap, symbols, link->previous);
    }
}

static int64_t apply_long(const struct bpe_merges *merges, struct bpe_symbol *symbols,
                          int64_t count, struct bpe_heap *heap, struct work_limit *limit,
                          struct arena *arena)
{
    if (!reserve(heap, count, arena))
        return -1;
    heap->count = 0;
    for (int32_t i = 0; i < count; i++) {
        heap->links[i] = (struct bpe_link){ i - 1, i + 1 < count ? i + 1 : -1 };
        if (symbols[i].rank != BPE_NO_RANK)
            heap->items[heap->count++] = key_of(symbols[i].rank, (uint32_t)i);
    }
    for (int64_t i = heap->count / 2 - 1; i >= 0; i--)
        sift_down(heap, i, heap->items[i]);
    while (heap->count > 0) {
        const uint64_t item = pop(heap);
        if (!work_limit_spend(limit, STEPS_MERGE))
            return -1;
        const int32_t place = (int32_t)(uint32_t)item;
        if (symbols[place].rank == item >> 32)
            merge_at(merges, symbols, place, heap);
    }
    int64_t left = 0;
    for (int64_t i = 0; i >= 0; i = heap->links[i].next)
        symbols[left++] = symbols[i];
    return left;
}

int64_t bpe_merges_apply(const struct bpe_merges *merges, struct bpe_symbol *symbols, int64_t count,
                         struct bpe_heap *heap, struct work_limit *limit, struct arena *arena)
{
    if (count == 0) /* no character of the piece is a token */
        return 0;
    for (int64_t i = 0; i + 1 < count; i++)
        look_up(merges, &symbols[i], &symbols[i + 1]);
    symbols[count - 1].rank = BPE_NO_RANK;
    return count <= SHORT_WORD_MAX ? apply_short(merges, symbols, count)
                                   : apply_long(merges, symbols, count, heap, limit, arena);
}
