/* SPDX-License-Identifier: Apache-2.0 */
/* bpe_merges.h - the merges of byte pair encoding: which pairs of tokens become one, and in which
 * order.
 *
 * Source: R. Sennrich, B. Haddow, A. Birch, Neural Machine Translation of Rare Words with Subword
 * Units, https://arxiv.org/abs/1508.07909; models/bpe of Hugging Face tokenizers. */
#ifndef ATTND_BPE_MERGES_H
#define ATTND_BPE_MERGES_H

#include "base/arena.h"
#include "models/tokenizer/work_limit.h"

#include <stdbool.h>
#include <stdint.h>

#define BPE_NO_RANK UINT32_MAX

/* A symbol of a word: a token and how many bytes of the word it stands for. */
struct bpe_symbol {
    int32_t id;
    uint32_t size;
    uint32_t rank;  /* of the merge with the next symbol; BPE_NO_RANK: there is none */
    int32_t merged; /* what that merge makes */
};

struct bpe_pair {
    uint64_t key; /* both ids */
    uint32_t rank;
    int32_t merged;
};

/* Pairs by their ids, and pairs of characters where a merge can join two tokens. Both are hash
 * tables with open addressing, and do not change once they are made. */
struct bpe_merges {
    struct bpe_pair *pairs;
    uint64_t pair_mask;
    uint64_t *joints; /* 1 + last character of the left token << 32 | first of the right one */
    uint64_t joint_mask;
    uint64_t narrow_joints[256 * 256 / 64]; /* of characters below 256 */
};

/* Room for count merges in the arena. False: no memory. */
bool bpe_merges_init(struct bpe_merges *merges, int64_t count, struct arena *arena);

/* Adds a merge; where the pair is known already, the new rank takes its place. */
void bpe_merges_add(struct bpe_merges *merges, int32_t left, int32_t right, uint32_t rank,
                    int32_t merged);

/* Notes that a merge joins a token that ends with the character `last` and one that begins with
 * `first`. */
void bpe_merges_add_joint(struct bpe_merges *merges, uint32_t last, uint32_t first);

/* Whether any merge joins tokens at these characters. */
bool bpe_merges_may_join(const struct bpe_merges *merges, uint32_t last, uint32_t first);

/* What long words need, kept from word to word. A zeroed one is empty. */
struct bpe_heap {
    uint64_t *items; /* rank << 32 | place of the symbol */
    int64_t count, capacity;
    struct bpe_link {
        int32_t previous, next; /* -1: none */
    } * links;
    int64_t link_capacity;
};

/* Merges the symbols of a word in place: always the pair of the lowest rank, of several the first.
 * Returns how many symbols are left; -1: no memory, or the work is stopped. */
int64_t bpe_merges_apply(const struct bpe_merges *merges, struct bpe_symbol *symbols, int64_t count,
                         struct bpe_heap *heap, struct work_limit *limit, struct arena *arena);

#endif
