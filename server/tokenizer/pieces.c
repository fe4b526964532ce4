/* pieces.c - see pieces.h.
 *
 * Two buffers take turns. Buffers grow in the arena by doubling, which leaves at most as much
 * unused memory behind as they have themselves. */
#include "tokenizer/pieces.h"

#include <string.h>

enum { STEPS_OF_STEP = 64 };

static void show_now(struct pieces *pieces)
{
    pieces->bytes = pieces->now.bytes;
    pieces->size = pieces->now.size;
    pieces->list = pieces->now.list;
    pieces->count = pieces->now.count;
}

bool pieces_init(struct pieces *pieces, const char *text, int64_t size, struct work_limit *limit,
                 struct arena *arena, struct fault *fault)
{
    *pieces = (struct pieces){ .arena = arena, .limit = limit, .opened = -1 };
    limit->text_bytes += size;
    pieces->now.bytes = (char *)text;
    pieces->now.size = size;
    show_now(pieces);
    if (size == 0)
        return true;
    pieces_begin_cut(pieces);
    pieces_cut(pieces, 0, (uint32_t)size);
    return pieces_end(pieces, fault);
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

/* ----------------------------------------------------------------- steps -- */

void pieces_begin_cut(struct pieces *pieces)
{
    pieces->rewrites = false;
    pieces->next.count = 0;
}

void pieces_begin_rewrite(struct pieces *pieces)
{
    pieces->rewrites = true;
    pieces->next.count = 0;
    pieces->next.size = 0;
    if (!pieces->next.spans) { /* these bytes are the original text */
        pieces->next.bytes = NULL;
        pieces->next.capacity = 0;
    }
}

void pieces_keep(struct pieces *pieces, int64_t i)
{
    append(pieces, pieces->list[i]);
}

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

void pieces_open(struct pieces *pieces)
{
    pieces->opened = pieces->next.size;
}

void pieces_close(struct pieces *pieces, int64_t i)
{
    append(pieces, (struct piece){ -1, (uint32_t)pieces->opened, (uint32_t)pieces->next.size,
                                   pieces->list[i].origin });
    pieces->opened = -1;
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

bool pieces_end(struct pieces *pieces, struct fault *fault)
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
