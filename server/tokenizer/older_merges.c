/* older_merges.c - the merges of a BPE of SentencePiece.
 *
 * SentencePiece keeps no merges. It joins the two neighbours whose joint text is the piece of the
 * highest score. So a merge is every way to cut a piece in two pieces, and a piece's score is the
 * rank of its merges. A trie of all pieces finds the left parts of a piece and a trie of the
 * reversed pieces the right parts, each in one pass. Control, unknown and byte pieces are never
 * made of text. */
#include "tokenizer/older.h"

#include "base/grow.h"
#include "tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

enum { MERGES_MAX = 1 << 23 };

struct maker {
    struct older *older;
    struct arena arena; /* of the tries and the reversed texts */
    struct trie lefts, rights;
    int32_t *right_ids; /* of the suffix that begins at each byte; the longest piece's size */
    struct older_merge *merges;
    int64_t count, capacity;
};

static struct byte_slice text_of(const struct maker *maker, int64_t id)
{
    return vocabulary_text(&maker->older->vocabulary, id);
}

/* Whether text can become the piece. */
static bool is_made_of_text(const struct older *older, int64_t id)
{
    const int64_t index = id - (older->vocabulary.id_end - older->sentencepiece.piece_count);
    if (index < 0)
        return false;
    const int type = older->sentencepiece.pieces[index].type;
    return type == SENTENCEPIECE_NORMAL || type == SENTENCEPIECE_USER_DEFINED
           || type == SENTENCEPIECE_UNUSED;
}

static bool build_tries(struct maker *maker)
{
    struct older *older = maker->older;
    const int64_t count = older->vocabulary.id_end;
    struct trie_entry *lefts = arena_calloc(&maker->arena, (size_t)count, sizeof *lefts);
    struct trie_entry *rights = arena_calloc(&maker->arena, (size_t)count, sizeof *rights);
    if (!lefts || !rights)
        return fault_no_memory(older->fault);
    size_t longest = 0;
    int64_t entry_count = 0;
    for (int64_t id = 0; id < count; id++) {
        const struct byte_slice text = text_of(maker, id);
        if (!is_made_of_text(older, id))
            continue;
        char *reversed = arena_alloc(&maker->arena, text.size);
        if (!reversed)
            return fault_no_memory(older->fault);
        for (size_t i = 0; i < text.size; i++)
            reversed[i] = ((const char *)text.data)[text.size - 1 - i];
        lefts[entry_count] = (struct trie_entry){ text, (int32_t)id };
        rights[entry_count++] = (struct trie_entry){ { reversed, text.size }, (int32_t)id };
        longest = text.size > longest ? text.size : longest;
    }
    maker->right_ids = arena_calloc(&maker->arena, longest + 1, sizeof *maker->right_ids);
    return (maker->right_ids || fault_no_memory(older->fault))
           && trie_build(&maker->lefts, lefts, entry_count, &maker->arena, older->fault)
           && trie_build(&maker->rights, rights, entry_count, &maker->arena, older->fault);
}

static bool add_merge(struct maker *maker, struct older_merge merge)
{
    if (maker->count == MERGES_MAX)
        return fault_set(maker->older->fault, FAULT_TOO_LARGE,
                         "the pieces can be made in more than %d ways", MERGES_MAX);
    struct older_merge *merges =
        array_with_room(maker->merges, maker->count, &maker->capacity, sizeof *merges);
    if (!merges)
        return fault_no_memory(maker->older->fault);
    maker->merges = merges;
    merges[maker->count++] = merge;
    return true;
}

/* Adds all ways to make one piece of two. */
static bool add_merges_of(struct maker *maker, int32_t id)
{
    const struct byte_slice text = text_of(maker, id);
    const unsigned char *bytes = text.data;
    int32_t node = TRIE_ROOT;
    size_t first_right = text.size;
    while (first_right > 1) {
        node = trie_step(&maker->rights, node, bytes[first_right - 1]);
        if (node == TRIE_NONE)
            break;
        maker->right_ids[--first_right] = maker->rights.nodes[node].value;
    }
    node = TRIE_ROOT;
    for (size_t at = 1; at < text.size; at++) {
        node = trie_step(&maker->lefts, node, bytes[at - 1]);
        if (node == TRIE_NONE)
            break;
        const int32_t left = maker->lefts.nodes[node].value;
        const int32_t right = at >= first_right ? maker->right_ids[at] : -1;
        if (left >= 0 && right >= 0 && !add_merge(maker, (struct older_merge){ id, left, right }))
            return false;
    }
    return true;
}

/* By score, highest first; of one piece's merges the one with the longest left part first, so that
 * of two overlapping ones the first in the text wins. */
static int compare(const void *a, const void *b, void *state)
{
    const struct maker *maker = state;
    const struct older_merge *left = a, *right = b;
    const double left_score = maker->older->scores[left->piece];
    const double right_score = maker->older->scores[right->piece];
    if (left_score != right_score)
        return left_score > right_score ? -1 : 1;
    if (left->piece != right->piece)
        return left->piece < right->piece ? -1 : 1;
    const size_t left_size = text_of(maker, left->left).size;
    const size_t right_size = text_of(maker, right->left).size;
    return left_size > right_size ? -1 : left_size < right_size;
}

struct older_merge *older_sentencepiece_merges(struct older *older, int64_t *count)
{
    struct maker maker = { .older = older };
    arena_init(&maker.arena, SIZE_MAX);
    bool good = build_tries(&maker);
    for (int64_t id = 0; id < older->vocabulary.id_end && good; id++)
        if (is_made_of_text(older, id))
            good = add_merges_of(&maker, (int32_t)id);
    if (good && !maker.merges) {
        maker.merges = calloc(1, sizeof *maker.merges);
        good = maker.merges || fault_no_memory(older->fault);
    }
    if (good && maker.merges)
        qsort_r(maker.merges, (size_t)maker.count, sizeof *maker.merges, compare, &maker);
    arena_free(&maker.arena);
    *count = maker.count;
    if (!good)
        free(maker.merges);
    return good ? maker.merges : NULL;
}
