/* transform.h - a piece that is rewritten character by character.
 *
 * Each new character says how it stands to the old ones, which settles its span, as the reference
 * implementation does it:
 *     1 and more   it is inserted, and takes the span of the old character before it
 *     0            it takes the place of the next old character, and its span
 *     -N           the same, and the N old characters behind that one go */
#ifndef ATTND_TRANSFORM_H
#define ATTND_TRANSFORM_H

#include "tokenizer/pieces.h"

struct transform {
    struct pieces *pieces;
    int64_t piece;
    uint32_t at, end; /* the next old character; the end of the piece */
};

/* Between pieces_begin_rewrite() and pieces_end(). */
void transform_begin(struct transform *transform, struct pieces *pieces, int64_t piece);
void transform_end(struct transform *transform);

void transform_put(struct transform *transform, uint32_t code, int64_t change);

/* Copies the old bytes up to `end` as they are. */
void transform_copy(struct transform *transform, uint32_t end);

/* What a map makes of one character: `count` characters, or UNCHANGED. */
enum { TRANSFORM_UNCHANGED = -1, TRANSFORM_CHARACTERS_MAX = 3 };
typedef int transform_map(const void *state, uint32_t code, uint32_t out[TRANSFORM_CHARACTERS_MAX]);

/* Maps each character of each piece by itself; what a character becomes has its span. Writes
 * nothing where no character changes. */
bool transform_each(struct pieces *pieces, transform_map *map, const void *state,
                    struct fault *fault);

#endif
