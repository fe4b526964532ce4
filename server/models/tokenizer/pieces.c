/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.c - the present pieces and the next ones.
 *
 * Two buffers take turns. Buffers grow in the arena by doubling, which leaves at most as much
 * unused memory behind as they have themselves. */
#include "models/tokenizer/pieces.h"

#include "base/utf8.h"
#include "models/tokenizer/unicode.h"

#include <string.h>

enum { STEPS_OF_STEP = 64 };

static void show_now(struct pieces *pieces)
{
    pieces->bytes = pieces->now.bytes;
    pieces->size = pieces->now.size;
    pieces->list = pieces->now.list;
    pieces->count = pieces->now.count;
}

/* --------------------------------------------------------------- growing -- */

static void *moved(struct arena *arena, const void *old, size_t old_size, size_t new_size)
{
    void *larger = arena_alloc(arena, new_size);
    if (larger && old_size > 0)
        memcpy(larger, old, old_size);
    return larger;
}

/* Room for size more bytes in the next text. */
static bool reserve_bytes(struct pieces *pieces, size_t size)
{
    struct pieces_buffer *next = &pieces->next;
    if (pieces->failed || size > (size_t)(PIECES_TEXT_BYTES_MAX - next->size)) {
        pieces->too_long |= !pieces->failed;
        pieces->failed = true;
        return false;
    }
    if (!work_limit_spend(pieces->limit, (int64_t)size)) {
        pieces->failed = true;
        return false;
    }
    const int64_t needed = next->size + (int64_t)size;
    if (needed <= next->capacity)
        return true;
    int64_t capacity = next->capacity > 0 ? 2 * next->capacity : pieces->size + pieces->size / 4;
    capacity = capacity > needed ? capacity : needed + 64;
    char *bytes = moved(pieces->arena, next->bytes, (size_t)next->size, (size_t)capacity);
    struct pieces_span *spans =
        moved(pieces->arena, next->spans, (size_t)next->size * sizeof *spans,
              (size_t)capacity * sizeof *spans);
    if (!bytes || !spans) {
        pieces->failed = true;
        return false;
    }
    next->bytes = bytes;
    next->spans = spans;
    next->capacity = capacity;
    return true;
}

static void append(struct pieces *pieces, struct piece piece)
{
    struct pieces_buffer *next = &pieces->next;
    if (pieces->failed)
        return;
    if (next->count == next->list_capacity) {
        int64_t capacity = 2 * next->list_capacity;
        capacity = capacity > pieces->count + 64 ? capacity : pieces->count + 64;
        struct piece *list = moved(pieces->arena, next->list, (size_t)next->count * sizeof *list,
                                   (size_t)capacity * sizeof *list);
        if (!list) {
            pieces->failed = true;
            return;
        }
        next->list = list;
        next->list_capacity = capacity;
    }
    next->list[next->count++] = piece;
}

/* ----------------------------------------------------------------- spans -- */

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

struct pieces_span pieces_span(const struct pieces *pieces, uint32_t start, uint32_t end)
{
    const struct pieces_buffer *now = &pieces->now;
    if (now->spans)
        return (struct pieces_span){ now->spans[start].start, now->spans[end - 1].end };
    while (start > 0 && is_continuation(now->bytes[start]))
        start--;
    while (end < now->size && is_continuation(now->bytes[end]))
        end++;
    return (struct pieces_span){ start, end };
}

/* --------------------------------------------------- appending to the next -- */

void pieces_cut(struct pieces *pieces, uint32_t start, uint32_t end)
{
    if (start < end)
        append(pieces, (struct piece){ -1, start, end, pieces_span(pieces, start, end).start });
}

void pieces_cut_token(struct pieces *pieces, uint32_t start, uint32_t end, int32_t id)
{
    const struct pieces_span span = pieces_span(pieces, start, end);
    append(pieces, (struct piece){ id, span.start, span.end, span.start });
}

void pieces_copy(struct pieces *pieces, uint32_t start, uint32_t end)
{
    const size_t size = end - start;
    if (size == 0 || !reserve_bytes(pieces, size))
        return;
    struct pieces_buffer *next = &pieces->next;
    struct pieces_span *spans = next->spans + next->size;
    memcpy(next->bytes + next->size, pieces->bytes + start, size);
    if (pieces->now.spans) {
        memcpy(spans, pieces->now.spans + start, size * sizeof *spans);
    } else {
        for (uint32_t at = start; at < end;) {
            uint32_t after = at + 1;
            while (after < end && is_continuation(pieces->bytes[after]))
                after++;
            for (uint32_t i = at; i < after; i++)
                *spans++ = (struct pieces_span){ at, after };
            at = after;
        }
    }
    next->size += (int64_t)size;
}

void pieces_map(struct pieces *pieces, uint32_t start, uint32_t end,
                const struct pieces_mapped map[256])
{
    if (start == end || !reserve_bytes(pieces, 2 * (size_t)(end - start)))
        return;
    struct pieces_buffer *next = &pieces->next;
    char *bytes = next->bytes + next->size;
    struct pieces_span *spans = next->spans + next->size;
    struct pieces_span character = { start, start };
    for (uint32_t at = start; at < end; at++) {
        if (pieces->now.spans)
            character = pieces->now.spans[at];
        else if (at == character.end)
            character = pieces_span(pieces, at, at + 1);
        const struct pieces_mapped *mapped = &map[(unsigned char)pieces->bytes[at]];
        bytes[0] = mapped->bytes[0];
        bytes[1] = mapped->bytes[1]; /* there is room, and what follows overwrites it */
        spans[0] = spans[1] = character;
        bytes += mapped->size;
        spans += mapped->size;
    }
    next->size = bytes - next->bytes;
}

void pieces_put(struct pieces *pieces, const char *bytes, size_t size, struct pieces_span span)
{
    if (!reserve_bytes(pieces, size))
        return;
    struct pieces_buffer *next = &pieces->next;
    for (size_t i = 0; i < size; i++) {
        next->bytes[next->size + (int64_t)i] = bytes[i];
        next->spans[next->size + (int64_t)i] = span;
    }
    next->size += (int64_t)size;
}

/* ----------------------------------------------------------------- steps -- */

static void rewrite_begin(struct pieces *pieces, bool rewrites)
{
    pieces->rewrites = rewrites;
    pieces->next.count = 0;
    if (!rewrites)
        return;
    pieces->next.size = 0;
    if (!pieces->next.spans) { /* these bytes are the original text */
        pieces->next.bytes = NULL;
        pieces->next.capacity = 0;
    }
}

/* Makes the next list, and text, the present ones. */
static bool rewrite_end(struct pieces *pieces, struct fault *fault)
{
    if (pieces->too_long)
        return fault_set(fault, FAULT_LENGTH,
                         "the text is over %d bytes after the tokenizer has normalized it",
                         PIECES_TEXT_BYTES_MAX);
    if (!work_limit_spend(pieces->limit, STEPS_OF_STEP + pieces->size) || pieces->limit->is_stopped)
        return work_limit_fault(fault);
    if (pieces->failed)
        return fault_no_memory(fault);
    struct pieces_buffer *now = &pieces->now, *next = &pieces->next;
    const struct pieces_buffer before = *now;
    if (pieces->rewrites) {
        *now = *next;
        *next = before;
    } else {
        now->list = next->list;
        now->count = next->count;
        now->list_capacity = next->list_capacity;
        next->list = before.list;
        next->list_capacity = before.list_capacity;
    }
    show_now(pieces);
    return true;
}

/* Whether the step changes any piece of text. */
static bool changes_any(const struct pieces *pieces, pieces_test *test, const void *state)
{
    for (int64_t i = 0; i < pieces->count; i++)
        if (pieces->list[i].id < 0 && test(state, pieces, &pieces->list[i]))
            return true;
    return false;
}

bool pieces_split(struct pieces *pieces, pieces_test *test, pieces_change *cut, const void *state,
                  struct fault *fault)
{
    if (test && !changes_any(pieces, test, state))
        return true;
    rewrite_begin(pieces, false);
    for (int64_t i = 0; i < pieces->count; i++) {
        if (pieces->list[i].id >= 0)
            append(pieces, pieces->list[i]);
        else if (!cut(state, pieces, &pieces->list[i], fault))
            return false;
    }
    return rewrite_end(pieces, fault);
}

bool pieces_rewrite(struct pieces *pieces, pieces_test *test, pieces_change *write,
                    const void *state, struct fault *fault)
{
    if (test && !changes_any(pieces, test, state))
        return true;
    rewrite_begin(pieces, true);
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        const uint32_t start = (uint32_t)pieces->next.size;
        if (piece->id >= 0) {
            append(pieces, *piece);
            continue;
        }
        if (!write(state, pieces, piece, fault))
            return false;
        append(pieces, (struct piece){ -1, start, (uint32_t)pieces->next.size, piece->origin });
    }
    return rewrite_end(pieces, fault);
}

bool pieces_init(struct pieces *pieces, const char *text, int64_t size, struct work_limit *limit,
                 struct arena *arena, struct fault *fault)
{
    *pieces = (struct pieces){ .arena = arena, .limit = limit };
    limit->text_bytes += size;
    pieces->now.bytes = (char *)text;
    pieces->now.size = size;
    show_now(pieces);
    if (size == 0)
        return true;
    rewrite_begin(pieces, false);
    pieces_cut(pieces, 0, (uint32_t)size);
    return rewrite_end(pieces, fault);
}

/* ---------------------------------------------------- character by character -- */

static struct pieces_span span_of(const struct pieces_transform *transform, bool is_inserted)
{
    const struct pieces *pieces = transform->pieces;
    const struct piece *piece = transform->piece;
    if (is_inserted || transform->at == piece->end) {
        if (transform->at == piece->start)
            return (struct pieces_span){ piece->origin, piece->origin };
        return pieces_span(pieces, transform->at - 1, transform->at);
    }
    return pieces_span(pieces, transform->at, transform->at + 1);
}

void pieces_transform_put(struct pieces_transform *transform, uint32_t code, int64_t change)
{
    char bytes[4];
    const size_t size = utf8_encode(bytes, code);
    pieces_put(transform->pieces, bytes, size, span_of(transform, change > 0));
    uint32_t skipped;
    for (; change <= 0 && transform->at < transform->piece->end; change++)
        transform->at += unicode_decode(transform->pieces->bytes + transform->at, &skipped);
}

void pieces_transform_copy(struct pieces_transform *transform, uint32_t end)
{
    pieces_copy(transform->pieces, transform->at, end);
    transform->at = end;
}

struct mapping {
    pieces_character_map *map;
    const void *state;
};

/* The first character from `at` on that the map changes; `end`: none. */
static uint32_t find_change(const struct mapping *mapping, const char *bytes, uint32_t at,
                            uint32_t end, int *count, uint32_t *size,
                            uint32_t out[PIECES_MAPPED_MAX])
{
    for (; at < end; at += *size) {
        uint32_t code;
        *size = unicode_decode(bytes + at, &code);
        *count = mapping->map(mapping->state, code, out);
        if (*count != PIECES_UNCHANGED)
            return at;
    }
    return end;
}

static bool map_changes(const void *state, const struct pieces *pieces, const struct piece *piece)
{
    uint32_t out[PIECES_MAPPED_MAX], size;
    int count;
    return find_change(state, pieces->bytes, piece->start, piece->end, &count, &size, out)
           < piece->end;
}

static bool map_piece(const void *state, struct pieces *pieces, const struct piece *piece,
                      struct fault *fault)
{
    (void)fault;
    for (uint32_t at = piece->start; at < piece->end;) {
        uint32_t out[PIECES_MAPPED_MAX], size = 0;
        int count = 0;
        const uint32_t change =
            find_change(state, pieces->bytes, at, piece->end, &count, &size, out);
        pieces_copy(pieces, at, change);
        if (change == piece->end)
            break;
        const struct pieces_span span = pieces_span(pieces, change, change + size);
        for (int k = 0; k < count; k++) {
            char bytes[4];
            pieces_put(pieces, bytes, utf8_encode(bytes, out[k]), span);
        }
        at = change + size;
    }
    return true;
}

bool pieces_map_characters(struct pieces *pieces, pieces_character_map *map, const void *state,
                           struct fault *fault)
{
    const struct mapping mapping = { map, state };
    return pieces_rewrite(pieces, map_changes, map_piece, &mapping, fault);
}
