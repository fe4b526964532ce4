/* transform.c - see transform.h. */
#include "tokenizer/transform.h"

#include "base/utf8.h"
#include "tokenizer/unicode.h"

void transform_begin(struct transform *transform, struct pieces *pieces, int64_t piece)
{
    pieces_open(pieces);
    *transform = (struct transform){ .pieces = pieces,
                                     .piece = piece,
                                     .at = pieces->list[piece].start,
                                     .end = pieces->list[piece].end };
}

void transform_end(struct transform *transform)
{
    pieces_close(transform->pieces, transform->piece);
}

static struct pieces_span span_of(const struct transform *transform, bool is_inserted)
{
    const struct pieces *pieces = transform->pieces;
    const struct piece *piece = &pieces->list[transform->piece];
    if (is_inserted || transform->at == transform->end) {
        if (transform->at == piece->start)
            return (struct pieces_span){ piece->origin, piece->origin };
        return pieces_span(pieces, transform->at - 1, transform->at);
    }
    return pieces_span(pieces, transform->at, transform->at + 1);
}

void transform_put(struct transform *transform, uint32_t code, int64_t change)
{
    char bytes[4];
    const size_t size = utf8_encode(bytes, code);
    pieces_put(transform->pieces, bytes, size, span_of(transform, change > 0));
    uint32_t skipped;
    for (; change <= 0 && transform->at < transform->end; change++)
        transform->at += unicode_decode(transform->pieces->bytes + transform->at, &skipped);
}

void transform_copy(struct transform *transform, uint32_t end)
{
    pieces_copy(transform->pieces, transform->at, end);
    transform->at = end;
}

/* The first character from `at` on that the map changes; `end`: none. */
static uint32_t find_change(const struct pieces *pieces, uint32_t at, uint32_t end,
                            transform_map *map, const void *state, int *count, uint32_t *size,
                            uint32_t out[TRANSFORM_CHARACTERS_MAX])
{
    for (; at < end; at += *size) {
        uint32_t code;
        *size = unicode_decode(pieces->bytes + at, &code);
        *count = map(state, code, out);
        if (*count != TRANSFORM_UNCHANGED)
            return at;
    }
    return end;
}

static void map_piece(struct pieces *pieces, int64_t i, transform_map *map, const void *state)
{
    const uint32_t end = pieces->list[i].end;
    uint32_t at = pieces->list[i].start;
    pieces_open(pieces);
    while (at < end) {
        uint32_t out[TRANSFORM_CHARACTERS_MAX], size = 0;
        int count = 0;
        const uint32_t change = find_change(pieces, at, end, map, state, &count, &size, out);
        pieces_copy(pieces, at, change);
        if (change == end)
            break;
        const struct pieces_span span = pieces_span(pieces, change, change + size);
        for (int k = 0; k < count; k++) {
            char bytes[4];
            pieces_put(pieces, bytes, utf8_encode(bytes, out[k]), span);
        }
        at = change + size;
    }
    pieces_close(pieces, i);
}

static bool changes_any(const struct pieces *pieces, transform_map *map, const void *state)
{
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        uint32_t out[TRANSFORM_CHARACTERS_MAX], size;
        int count;
        if (piece->id < 0
            && find_change(pieces, piece->start, piece->end, map, state, &count, &size, out)
                   < piece->end)
            return true;
    }
    return false;
}

bool transform_each(struct pieces *pieces, transform_map *map, const void *state,
                    struct fault *fault)
{
    if (!changes_any(pieces, map, state))
        return true;
    pieces_begin_rewrite(pieces);
    for (int64_t i = 0; i < pieces->count; i++)
        if (pieces->list[i].id >= 0)
            pieces_keep(pieces, i);
        else
            map_piece(pieces, i, map, state);
    return pieces_end(pieces, fault);
}
