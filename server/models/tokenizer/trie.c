/* SPDX-License-Identifier: Apache-2.0 */
/* trie.c - how a double array is built.
 *
 * The strings are sorted, so that the strings below a node are a range of them and the node's
 * children are the runs of equal bytes at the node's depth. A list of ranges that are still to be
 * done takes the place of recursion, since a string may be as long as the file.
 *
 * A node's children need places base + byte that are all free. The search for a base starts at the
 * first place that may be free and gives up after TRIES places, so that the time is linear in the
 * size of the strings whatever they are. It then takes fresh places at the end. The slot where it
 * gave up is not looked at again, or a bad start would be paid for by each later node. */
#include "models/tokenizer/trie.h"

#include "base/grow.h"

#include <assert.h>
#include <string.h>

enum { BYTES = 256, TRIES = 64 };

/* The strings [first, end) share their first `depth` bytes and are below `node`. */
struct range {
    int64_t first, end;
    int64_t depth;
    int32_t node;
};

struct builder {
    struct trie_node *nodes;
    int64_t count, capacity; /* places, also free ones, and room for them */
    int64_t first_free;      /* no place before it is looked at */
    struct range *ranges;    /* still to be done */
    int64_t range_count, range_capacity;
};

static int compare_entries(const void *a, const void *b)
{
    const struct trie_entry *left = a, *right = b;
    const size_t size =
        left->string.size < right->string.size ? left->string.size : right->string.size;
    const int order = size > 0 ? memcmp(left->string.data, right->string.data, size) : 0;
    if (order != 0)
        return order;
    if (left->string.size != right->string.size)
        return left->string.size < right->string.size ? -1 : 1;
    return left->value < right->value ? -1 : left->value > right->value;
}

/* Makes `count` the count of places; new ones are free. */
static bool extend(struct builder *builder, int64_t count, struct fault *fault)
{
    if (count <= builder->count)
        return true;
    if (count > INT32_MAX)
        return fault_set(fault, FAULT_TOO_LARGE,
                         "the vocabulary's pieces need more than %d nodes of a trie", INT32_MAX);
    if (count > builder->capacity) {
        const int64_t capacity = count > 2 * builder->capacity ? count : 2 * builder->capacity;
        struct trie_node *larger = reallocarray(builder->nodes, (size_t)capacity, sizeof *larger);
        if (!larger)
            return fault_no_memory(fault);
        builder->nodes = larger;
        builder->capacity = capacity;
    }
    for (int64_t i = builder->count; i < count; i++)
        builder->nodes[i] = (struct trie_node){ .base = 0, .parent = TRIE_FREE, .value = -1 };
    builder->count = count;
    return true;
}

static bool is_free(const struct builder *builder, int64_t place)
{
    return place >= builder->count || builder->nodes[place].parent == TRIE_FREE;
}

/* A base at which the places of all labels are free, at least 1. */
static int64_t find_base(struct builder *builder, const unsigned char *labels, int label_count)
{
    while (builder->first_free < builder->count && !is_free(builder, builder->first_free))
        builder->first_free++;
    int64_t place = builder->first_free;
    for (int tried = 0; tried < TRIES && place < builder->count; tried++, place++) {
        const int64_t base = place - labels[0];
        int fits = 0;
        while (base >= 1 && fits < label_count && is_free(builder, base + labels[fits]))
            fits++;
        if (fits == label_count)
            return base;
    }
    if (place >= builder->count)
        return builder->count > labels[0] ? builder->count - labels[0] : 1;
    builder->first_free++;
    return builder->count;
}

static bool add_range(struct builder *builder, struct range range, struct fault *fault)
{
    struct range *ranges = array_with_room(builder->ranges, builder->range_count,
                                           &builder->range_capacity, sizeof *ranges);
    if (!ranges)
        return fault_no_memory(fault);
    builder->ranges = ranges;
    ranges[builder->range_count++] = range;
    return true;
}

/* Places the children of one node and notes the ranges below them. */
static bool place_children(struct builder *builder, const struct trie_entry *entries,
                           struct range range, struct fault *fault)
{
    int64_t at = range.first;
    while (at < range.end && entries[at].string.size == (size_t)range.depth)
        builder->nodes[range.node].value = entries[at++].value;
    unsigned char labels[BYTES];
    int64_t begins[BYTES + 1];
    int label_count = 0;
    for (; at < range.end; at++) {
        const unsigned char label = ((const unsigned char *)entries[at].string.data)[range.depth];
        if (label_count > 0 && labels[label_count - 1] == label)
            continue;
        begins[label_count] = at;
        labels[label_count++] = label;
    }
    if (label_count == 0)
        return true;
    begins[label_count] = range.end;
    const int64_t base = find_base(builder, labels, label_count);
    if (!extend(builder, base + labels[label_count - 1] + 1, fault))
        return false;
    builder->nodes[range.node].base = (int32_t)base;
    for (int i = 0; i < label_count; i++)
        builder->nodes[base + labels[i]].parent = range.node;
    for (int i = 0; i < label_count; i++)
        if (!add_range(builder,
                       (struct range){ begins[i], begins[i + 1], range.depth + 1,
                                       (int32_t)(base + labels[i]) },
                       fault))
            return false;
    return true;
}

static bool build(struct builder *builder, const struct trie_entry *entries, int64_t count,
                  struct fault *fault)
{
    if (!extend(builder, 1, fault))
        return false;
    assert(builder->nodes);
    builder->nodes[TRIE_ROOT].parent = TRIE_NO_PARENT;
    builder->first_free = 1;
    if (!add_range(builder, (struct range){ 0, count, 0, TRIE_ROOT }, fault))
        return false;
    while (builder->range_count > 0)
        if (!place_children(builder, entries, builder->ranges[--builder->range_count], fault))
            return false;
    return true;
}

bool trie_build(struct trie *trie, struct trie_entry *entries, int64_t count, struct arena *arena,
                struct fault *fault)
{
    qsort(entries, (size_t)count, sizeof *entries, compare_entries);
    struct builder builder = { 0 };
    bool built = build(&builder, entries, count, fault);
    if (built) {
        const size_t size = (size_t)builder.count * sizeof *trie->nodes;
        *trie = (struct trie){ .nodes = arena_alloc(arena, size), .count = builder.count };
        built = trie->nodes || fault_no_memory(fault);
        if (built)
            memcpy(trie->nodes, builder.nodes, size);
    }
    free(builder.ranges);
    free(builder.nodes);
    return built;
}
