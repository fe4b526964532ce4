/* SPDX-License-Identifier: Apache-2.0 */
/* trie.h - a set of strings of bytes, walked byte by byte from the front of a text.
 *
 * A walk finds every piece of a vocabulary that a text begins with, in one step a byte, whatever
 * the vocabulary's size. The nodes are a double array (Aoe, "An efficient digital search algorithm
 * by using a double-array structure", 1989): the child of a node by byte b is the node at
 * base + b, if that one names the node as its parent. */
#ifndef ATTND_TRIE_H
#define ATTND_TRIE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/fault.h"

struct trie_node {
    int32_t base;   /* children are at base + byte; 0: it has none */
    int32_t parent; /* TRIE_FREE: no node is here */
    int32_t value;  /* of the string that ends here; -1: none does */
};

struct trie {
    struct trie_node *nodes; /* [count], in the arena; nodes[0] is the root */
    int64_t count;
};

enum { TRIE_ROOT = 0, TRIE_NONE = -1, TRIE_FREE = -1, TRIE_NO_PARENT = -2 };

/* A string of a trie that is to be built. */
struct trie_entry {
    struct byte_slice string;
    int32_t value; /* at least 0 */
};

/* Builds the trie of count entries, which are sorted in place; of equal strings the largest value
 * counts. No string is kept. The fault is memory, or too_large for strings that need more than
 * 2^31 nodes. */
bool trie_build(struct trie *trie, struct trie_entry *entries, int64_t count, struct arena *arena,
                struct fault *fault);

/* The child of a node by a byte; TRIE_NONE: there is none. */
static inline int32_t trie_step(const struct trie *trie, int32_t node, unsigned char byte)
{
    const int64_t child = (int64_t)trie->nodes[node].base + byte;
    return child < trie->count && trie->nodes[child].parent == node ? (int32_t)child : TRIE_NONE;
}

/* The node at the end of a string; TRIE_NONE: no string of the set begins with it. */
static inline int32_t trie_walk(const struct trie *trie, int32_t node, const char *bytes,
                                size_t size)
{
    for (size_t i = 0; i < size && node != TRIE_NONE; i++)
        node = trie_step(trie, node, (unsigned char)bytes[i]);
    return node;
}

/* The value of a whole string; -1: it is not in the set. */
static inline int32_t trie_find(const struct trie *trie, const char *bytes, size_t size)
{
    const int32_t node = trie_walk(trie, TRIE_ROOT, bytes, size);
    return node == TRIE_NONE ? -1 : trie->nodes[node].value;
}

#endif
