/* sentencepiece.h - what a tokenizer.model of SentencePiece says.
 *
 * Source: sentencepiece_model.proto of https://github.com/google/sentencepiece; the numbers of the
 * fields and the defaults are its own. */
#ifndef ATTND_SENTENCEPIECE_H
#define ATTND_SENTENCEPIECE_H

#include "base/bytes.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

enum sentencepiece_type {
    SENTENCEPIECE_NORMAL = 1,
    SENTENCEPIECE_UNKNOWN,
    SENTENCEPIECE_CONTROL,
    SENTENCEPIECE_USER_DEFINED,
    SENTENCEPIECE_UNUSED,
    SENTENCEPIECE_BYTE
};

enum sentencepiece_model { SENTENCEPIECE_UNIGRAM = 1, SENTENCEPIECE_BPE = 2 };

struct sentencepiece_piece {
    struct byte_slice text; /* UTF-8, in the file; not empty */
    float score;            /* finite */
    int type;               /* enum sentencepiece_type */
};

/* The texts lie in the bytes of the file. */
struct sentencepiece {
    struct sentencepiece_piece *pieces; /* malloc'd; their index is their id */
    int64_t piece_count, piece_capacity;
    int64_t model; /* enum sentencepiece_model */
    int64_t unknown_id;
    struct byte_slice unknown_piece;
    bool byte_fallback;
    bool whitespace_is_suffix, splits_at_whitespace;
    struct byte_slice charsmap; /* precompiled; empty: characters stay as they are */
    bool adds_prefix, removes_extra_whitespaces, escapes_whitespaces;
};

/* Reads size bytes of a file. The fault names what is wrong. The caller frees the model, also where
 * this returned false. */
bool sentencepiece_read(struct sentencepiece *model, struct byte_slice file, struct fault *fault);
void sentencepiece_free(struct sentencepiece *model);

#endif
