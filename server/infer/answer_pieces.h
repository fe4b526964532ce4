/* answer_pieces.h - a long answer in JSON, cut into pieces that are written by tasks.
 *
 * The wire writes the text once, with gaps where its long tensors are to stand (text.h). Their
 * numbers are then cut into pieces of about a millisecond, whatever tensors they belong to: many
 * small ones share a piece. A piece takes the bytes of the text before its tensors along, so that
 * the pieces one after the other are the answer. Each is written where there is room for the
 * longest numbers, so that none waits for another, and nothing can go wrong any more. */
#ifndef ATTND_ANSWER_PIECES_H
#define ATTND_ANSWER_PIECES_H

#include "http/http.h"
#include "text/text.h"

struct answer_pieces {
    struct text_deferred deferred; /* what a text is to point at, see text.h */
    struct answer_piece *pieces;
    int64_t count;
    struct byte_slice *parts; /* one for each piece, and room behind them for as many more as
                                    exchange.h takes beside each other; malloc'd */
    char *room;               /* of all pieces, behind the parts */
};

/* text is whole but for its gaps. Where it has some, cuts them: there are count pieces to write.
 * What that takes is reserved in the text's share. Where it fails there are none. */
bool answer_pieces_cut(struct answer_pieces *pieces, const struct text *text, struct fault *fault);

/* Writes a piece, each once, by any thread. */
void answer_pieces_write(struct answer_pieces *pieces, const struct text *text, int64_t piece);

/* When all are written: the bytes of all. */
size_t answer_pieces_bytes(const struct answer_pieces *pieces);

/* Zeroed is fine. Memory stays reserved until its share ends. */
void answer_pieces_free(struct answer_pieces *pieces);

#endif
