/* SPDX-License-Identifier: Apache-2.0 */
/* answer_pieces.h - a long answer in JSON, cut into pieces that are written by tasks.
 *
 * The text is written once, with gaps in place of its long tensors (text.h). Their numbers are then
 * cut into pieces of about a millisecond, across the tensors: many small tensors share a piece. A
 * piece includes the text before its tensors, so that all pieces in sequence are the answer. Each
 * piece has room for the longest numbers, so that no piece waits for another and none can fail. */
#ifndef ATTND_ANSWER_PIECES_H
#define ATTND_ANSWER_PIECES_H

#include "base/bytes.h"
#include "json/text.h"

struct answer_pieces {
    struct text_deferred deferred; /* text.deferred points at it, see text.h */
    struct answer_piece *pieces;
    int64_t count;
    struct byte_slice *parts; /* one for each piece, and room behind them for the parts of the
                                 answer that are no text; malloc'd */
    char *room;               /* of all pieces, behind the parts */
    size_t parts_bytes;       /* of parts */
};

/* text is complete except for its gaps, and part_count parts come behind it. Cuts the gaps, if
 * there are any, into count pieces to write, and reserves their memory in the text's share. On
 * failure there are no pieces. */
bool answer_pieces_cut(struct answer_pieces *pieces, const struct text *text, int part_count,
                       struct fault *fault);

/* Writes one piece. Called once for each piece, by any thread. */
void answer_pieces_write(struct answer_pieces *pieces, const struct text *text, int64_t piece);

/* The bytes of all pieces, when all are written. */
size_t answer_pieces_bytes(const struct answer_pieces *pieces);

/* Gives back the room that the written pieces have left. Returns the bytes that are still held; the
 * share is the caller's to correct. */
size_t answer_pieces_trim(struct answer_pieces *pieces);

/* Takes a zeroed struct too. The memory stays reserved until its share ends. */
void answer_pieces_free(struct answer_pieces *pieces);

#endif
