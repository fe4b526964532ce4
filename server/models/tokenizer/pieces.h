/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.h - a text on its way through the pipeline, cut into pieces.
 *
 * Normalizers change the bytes of the text, pre-tokenizers cut it into pieces, and the tokens of
 * each piece must still say which bytes of the original text they stand for. So every byte of the
 * changed text has a span, the bytes of the original that its character came from. All pieces lie
 * in one buffer with one array of spans, and steps write the next buffer beside the present one, so
 * that no piece needs its memory. Until the first change there are no spans at all.
 *
 * A step either splits (the bytes stay, the list of pieces is made anew) or rewrites (bytes, spans
 * and pieces are made anew), piece by piece, by a function that reads the present pieces and
 * appends to the next ones. Added tokens stay as they are. A lack of memory is remembered until the
 * last piece is done. */
#ifndef ATTND_PIECES_H
#define ATTND_PIECES_H

#include "base/arena.h"
#include "models/tokenizer/work_limit.h"

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
    bool rewrites, failed, too_long;
};

/* One piece, the whole text, which must be valid UTF-8 of at most PIECES_TEXT_BYTES_MAX bytes and
 * outlive the pieces. An empty text has no pieces. On false the fault is memory. */
bool pieces_init(struct pieces *pieces, const char *text, int64_t size, struct work_limit *limit,
                 struct arena *arena, struct fault *fault);

/* The bytes of the original text that the bytes [start, end) of the present text stand for. start
 * is below end. */
struct pieces_span pieces_span(const struct pieces *pieces, uint32_t start, uint32_t end);

/* Appends to the next pieces what a step makes of one piece of text. */
typedef bool pieces_change(const void *state, struct pieces *pieces, const struct piece *piece,
                           struct fault *fault);

/* Whether a step changes a piece of text at all. */
typedef bool pieces_test(const void *state, const struct pieces *pieces, const struct piece *piece);

/* Makes new pieces of the same text: `cut` calls pieces_cut(). Where no piece passes the test,
 * which may be NULL, nothing changes. The fault is memory, or a request that is over. */
bool pieces_split(struct pieces *pieces, pieces_test *test, pieces_change *cut, const void *state,
                  struct fault *fault);

/* Makes a new text: `write` appends the new bytes of its piece, which may be none: an empty piece
 * is kept, and the next split drops it. The fault may also be a text that has grown past
 * PIECES_TEXT_BYTES_MAX. */
bool pieces_rewrite(struct pieces *pieces, pieces_test *test, pieces_change *write,
                    const void *state, struct fault *fault);

/* Cuts out the bytes [start, end) of the present text, whole characters, as a piece. An empty one
 * is dropped. */
void pieces_cut(struct pieces *pieces, uint32_t start, uint32_t end);

/* The same for an added token. */
void pieces_cut_token(struct pieces *pieces, uint32_t start, uint32_t end, int32_t id);

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

/* ---------------------------------------------------- character by character -- */

/* What a map makes of one character: `count` characters, or UNCHANGED. */
enum { PIECES_UNCHANGED = -1, PIECES_MAPPED_MAX = 3 };
typedef int pieces_character_map(const void *state, uint32_t code, uint32_t out[PIECES_MAPPED_MAX]);

/* Maps each character of each piece by itself; what a character becomes has its span. */
bool pieces_map_characters(struct pieces *pieces, pieces_character_map *map, const void *state,
                           struct fault *fault);

/* A piece that is rewritten character by character, within pieces_rewrite(). Each new character
 * says how it stands to the old ones, which settles its span, as the reference implementation does
 * it:
 *     1 and more   it is inserted, and takes the span of the old character before it
 *     0            it takes the place of the next old character, and its span
 *     -N           the same, and the N old characters behind that one go */
struct pieces_transform {
    struct pieces *pieces;
    const struct piece *piece;
    uint32_t at; /* the next old character */
};

void pieces_transform_put(struct pieces_transform *transform, uint32_t code, int64_t change);

/* Copies the old bytes up to `end` as they are. */
void pieces_transform_copy(struct pieces_transform *transform, uint32_t end);

#endif
