/* SPDX-License-Identifier: Apache-2.0 */
/* answer_pieces.c - see answer_pieces.h.
 *
 * The memory of a long answer is allocated in pages of 2 MiB, where the kernel has them: allocating
 * and freeing 240 MB in pages of 4 KiB takes longer than some requests. */
#include "call/answer_pieces.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PIECE_WEIGHT = 65536, /* a float weighs 1: about a millisecond */
    DOUBLE_WEIGHT = 16,   /* a double takes longer to write */
    LARGE_PAGE_BYTES = 2 << 20,
    LARGE_BYTES = 32 << 20, /* malloc() always maps allocations from this size on */
};

/* Where a piece begins; it ends where the next one does. */
struct answer_piece {
    int64_t gap, first; /* the first number, of the tensor in that gap */
    size_t offset;      /* of its bytes in the room */
};

static int64_t weight_of(const struct tensor_text *tensor)
{
    return !tensor->is_integers && tensor->dtype == ATTN_F64 ? DOUBLE_WEIGHT : 1;
}

/* Counts the pieces. Notes where each begins, unless begins is NULL. */
static int64_t cut(const struct text_deferred *deferred, struct answer_piece *begins)
{
    int64_t count = 0, left = 0;
    for (int64_t gap = 0; gap < deferred->count; gap++) {
        const struct tensor_text *tensor = &deferred->gaps[gap].tensor;
        const int64_t weight = weight_of(tensor);
        for (int64_t first = 0, some; first < tensor->count; first += some) {
            if (left < weight) {
                if (begins)
                    begins[count] = (struct answer_piece){ .gap = gap, .first = first };
                count++;
                left = PIECE_WEIGHT;
            }
            some = tensor->count - first < left / weight ? tensor->count - first : left / weight;
            left -= some * weight;
        }
    }
    return count;
}

/* The part of a piece in one gap: numbers of the tensor, and before the first of them the text. */
struct stretch {
    const struct tensor_text *tensor;
    int64_t first, count;
    size_t text_at, text_bytes;
};

/* Finds the stretch of a piece in a gap; false behind the piece's last one. */
static bool find_stretch(const struct answer_pieces *pieces, int64_t piece, int64_t gap,
                         struct stretch *stretch)
{
    const struct answer_piece *begin = &pieces->pieces[piece], *end = begin + 1;
    const struct text_deferral *gaps = pieces->deferred.gaps;
    if (gap > end->gap || (gap == end->gap && end->first == 0))
        return false;
    const struct tensor_text *tensor = &gaps[gap].tensor;
    const int64_t first = gap == begin->gap ? begin->first : 0;
    const size_t text_at = gap > 0 ? gaps[gap - 1].at : 0;
    *stretch = (struct stretch){ .tensor = tensor,
                                 .first = first,
                                 .count = (gap == end->gap ? end->first : tensor->count) - first,
                                 .text_at = text_at,
                                 .text_bytes = first == 0 ? gaps[gap].at - text_at : 0 };
    return true;
}

/* Where the text behind the last tensor begins, which the last piece includes. */
static size_t tail_at(const struct answer_pieces *pieces)
{
    return pieces->deferred.gaps[pieces->deferred.count - 1].at;
}

static size_t bytes_most(const struct answer_pieces *pieces, const struct text *text, int64_t piece)
{
    struct stretch stretch;
    size_t bytes = piece == pieces->count - 1 ? text->used - tail_at(pieces) : 0;
    for (int64_t gap = pieces->pieces[piece].gap; find_stretch(pieces, piece, gap, &stretch); gap++)
        bytes += stretch.text_bytes + tensor_text_bytes(stretch.tensor, stretch.count);
    return bytes;
}

/* Allocates the parts, and behind them room for all pieces. */
static char *allocate(struct answer_pieces *pieces, const struct text *text, int part_count,
                      size_t bytes)
{
    const size_t parts = (size_t)(pieces->count + part_count) * sizeof *pieces->parts;
    const size_t pages = (parts + bytes + LARGE_PAGE_BYTES - 1) / LARGE_PAGE_BYTES;
    if (!memory_reserve(text->memory, parts + bytes))
        return NULL;
    pieces->parts_bytes = parts;
    if (bytes < LARGE_BYTES)
        pieces->parts = malloc(parts + bytes);
    else if ((pieces->parts = aligned_alloc(LARGE_PAGE_BYTES, pages * LARGE_PAGE_BYTES)))
        madvise(pieces->parts, pages * LARGE_PAGE_BYTES, MADV_HUGEPAGE); /* the kernel may refuse */
    return pieces->parts ? (char *)pieces->parts + parts : NULL;
}

static bool place(struct answer_pieces *pieces, const struct text *text, int part_count)
{
    size_t bytes = 0;
    const size_t size = ((size_t)pieces->count + 1) * sizeof *pieces->pieces;
    pieces->pieces = memory_reserve(text->memory, size) ? malloc(size) : NULL;
    if (!pieces->pieces)
        return false;
    cut(&pieces->deferred, pieces->pieces);
    pieces->pieces[pieces->count] = (struct answer_piece){ .gap = pieces->deferred.count };
    for (int64_t i = 0; i < pieces->count; i++) {
        pieces->pieces[i].offset = bytes;
        bytes += bytes_most(pieces, text, i);
    }
    pieces->pieces[pieces->count].offset = bytes;
    pieces->room = allocate(pieces, text, part_count, bytes);
    return pieces->room != NULL;
}

bool answer_pieces_cut(struct answer_pieces *pieces, const struct text *text, int part_count,
                       struct fault *fault)
{
    if (!text_finish(text, fault))
        return false;
    pieces->count = cut(&pieces->deferred, NULL);
    if (pieces->count == 0 || place(pieces, text, part_count))
        return true;
    pieces->count = 0;
    return fault_no_memory(fault);
}

void answer_pieces_write(struct answer_pieces *pieces, const struct text *text, int64_t piece)
{
    char *const place = pieces->room + pieces->pieces[piece].offset, *p = place;
    struct stretch stretch;
    for (int64_t gap = pieces->pieces[piece].gap; find_stretch(pieces, piece, gap, &stretch);
         gap++) {
        memcpy(p, text->data + stretch.text_at, stretch.text_bytes);
        p += stretch.text_bytes;
        p += tensor_text_write(stretch.tensor, stretch.first, stretch.count, p);
    }
    if (piece == pieces->count - 1) {
        const size_t at = tail_at(pieces);
        memcpy(p, text->data + at, text->used - at);
        p += text->used - at;
    }
    pieces->parts[piece] = (struct byte_slice){ place, (size_t)(p - place) };
}

size_t answer_pieces_bytes(const struct answer_pieces *pieces)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < pieces->count; i++)
        bytes += pieces->parts[i].size;
    return bytes;
}

size_t answer_pieces_trim(struct answer_pieces *pieces)
{
    size_t held = pieces->parts_bytes + pieces->pieces[pieces->count].offset
                  + ((size_t)pieces->count + 1) * sizeof *pieces->pieces
                  + (size_t)pieces->deferred.capacity * sizeof *pieces->deferred.gaps;
    for (int64_t i = 0; i < pieces->count; i++) {
        const size_t used = pieces->parts[i].size;
        char *const place = pieces->room + pieces->pieces[i].offset;
        held -= memory_give_back(place + used,
                                 pieces->pieces[i + 1].offset - pieces->pieces[i].offset - used);
    }
    return held;
}

void answer_pieces_free(struct answer_pieces *pieces)
{
    free(pieces->deferred.gaps);
    free(pieces->pieces);
    free(pieces->parts);
    *pieces = (struct answer_pieces){ .count = 0 };
}
