/* pieces.h - a text on its way through the pipeline, cut into pieces.
 *
 * Normalizers change the bytes of the text, pre-tokenizers cut it into pieces, and the tokens of
 * each piece must still say which bytes of the original text they stand for. So every byte of the
 * changed text has a span, the bytes of the original that its character came from. All pieces lie
 * in one buffer with one array of spans, and steps write the next buffer beside the present one, so
 * that no piece needs memory of its own. Until the first change there are no spans at all.
 *
 * A step either cuts (the bytes stay, the list of pieces is made anew) or rewrites (bytes, spans
 * and pieces are made anew). Both read the present list while they write the next one:
 *
 *     pieces_begin_cut(pieces);
 *     for (int64_t i = 0; i < pieces->count; i++)
 *         if (pieces->list[i].id >= 0) pieces_keep(pieces, i);
 *         else { pieces_cut(pieces, start, end); ... }
 *     return pieces_end(pieces, fault);
 *
 *     pieces_begin_rewrite(pieces);
 *     for (int64_t i = 0; i < pieces->count; i++)
 *         if (pieces->list[i].id >= 0) pieces_keep(pieces, i);
 *         else {
 *             pieces_open(pieces);
 *             pieces_copy(pieces, start, end);     bytes that stay as they are
 *             pieces_put(pieces, "x", 1, span);    bytes that are new
 *             pieces_close(pieces, i);
 *         }
 *     return pieces_end(pieces, fault);
 *
 * A lack of memory is remembered, and pieces_end() reports it. */
#ifndef ATTND_PIECES_H
#define ATTND_PIECES_H

#include "base/arena.h"
#include "tokenizer/work_limit.h"

#include <stdbool.h>
#include <stdint.h>

enum { PIECES_TEXT_BYTES_MAX = 1 << 30 }; /* of a text, and of each of its changed forms */

struct pieces_span {
    uint32_t start, end; /* bytes of the original text */
};

struct piece {
    int32_t id;          /* an added token's; -1: a piece of text */
    uint32_t start, end; /* bytes of the present text; of an added token: of the original text */
    uint32_t origin;     /* where the piece begins in the original text */
};

struct pieces_buffer {
    char *bytes;
    struct pieces_span *spans; /* of each byte; NULL: the bytes are the original text */
    struct piece *list;
    int64_t size, capacity;       /* of bytes and spans */
    int64_t count, list_capacity; /* of list */
};

struct pieces {
    const char *bytes; /* the present text: UTF-8 */
    int64_t size;
    const struct piece *list;
    int64_t count;

    struct pieces_buffer now, next; /* of pieces.c alone */
    struct arena *arena;
    struct work_limit *limit; /* of the text */
    int64_t opened;           /* where the piece that is being written begins; -1: none is open */
    bool rewrites, failed, too_long;
};

/* One piece, the whole text, which must be valid UTF-8 of at most PIECES_TEXT_BYTES_MAX bytes and
 * outlive the pieces. An empty text has no pieces. On false the fault is memory. */
bool pieces_init(struct pieces *pieces, const char *text, int64_t size, struct work_limit *limit,
                 struct arena *arena, struct fault *fault);

/* The bytes of the original text that the bytes [start, end) of the present text stand for. start
 * is below end. */
struct pieces_span pieces_span(const struct pieces *pieces, uint32_t start, uint32_t end);

void pieces_begin_cut(struct pieces *pieces);
void pieces_begin_rewrite(struct pieces *pieces);

/* Appends piece i of the present list as it is: an added token, or in a cut any piece. */
void pieces_keep(struct pieces *pieces, int64_t i);

/* Cuts out the bytes [start, end) of the present text, whole characters, as a piece. An empty one
 * is dropped. */
void pieces_cut(struct pieces *pieces, uint32_t start, uint32_t end);

/* The same for an added token. */
void pieces_cut_token(struct pieces *pieces, uint32_t start, uint32_t end, int32_t id);

/* Begins and ends a piece of the next text, which is made from piece i. An empty one is kept: an
 * empty piece is dropped by the next cut. */
void pieces_open(struct pieces *pieces);
void pieces_close(struct pieces *pieces, int64_t i);

/* Appends the bytes [start, end) of the present text, whole characters, with their spans. */
void pieces_copy(struct pieces *pieces, uint32_t start, uint32_t end);

/* Appends what the map makes of each of the bytes [start, end), whole characters. What is made of
 * the bytes of a character stands for the character. */
struct pieces_mapped {
    char bytes[2];
    uint8_t size; /* 1 or 2 */
};
void pieces_map(struct pieces *pieces, uint32_t start, uint32_t end,
                const struct pieces_mapped map[256]);

/* Appends whole characters that all stand for one span. */
void pieces_put(struct pieces *pieces, const char *bytes, size_t size, struct pieces_span span);

/* Makes the next list, and text, the present ones. The fault is memory, a text that has grown past
 * PIECES_TEXT_BYTES_MAX, or a request that is over. */
bool pieces_end(struct pieces *pieces, struct fault *fault);

#endif
