/* decoder_texts.h - changing the texts of tokens, in the arena of a decoding.
 *
 * A function that returns a slice returns one whose data is NULL where there is no memory. */
#ifndef ATTND_DECODER_TEXTS_H
#define ATTND_DECODER_TEXTS_H

#include "tokenizer/pipeline.h"

/* The text with every occurrence of `from` replaced, from left to right; the text itself where
 * there is none. An empty `from` occurs before each character and at the end. */
struct byte_slice decoder_texts_replace(struct byte_slice text, struct byte_slice from,
                                        struct byte_slice to, const struct decoder_texts *texts);

/* Both texts, one behind the other. */
struct byte_slice decoder_texts_join(struct byte_slice first, struct byte_slice second,
                                     struct arena *arena);

/* Makes one text of all. */
bool decoder_texts_fuse(struct decoder_texts *texts, struct fault *fault);

/* Calls a function for each text, with its index; what it returns takes the text's place. */
typedef struct byte_slice (*decoder_texts_change)(const void *state, struct byte_slice text,
                                                  int64_t i, const struct decoder_texts *texts);
bool decoder_texts_each(struct decoder_texts *texts, decoder_texts_change change, const void *state,
                        struct fault *fault);

/* The fault of a text that could not be made: memory, or the request is over. Returns false. */
bool decoder_texts_fault(const struct decoder_texts *texts, struct fault *fault);

/* A slice of a string, and whether a text begins with a slice. */
struct byte_slice decoder_texts_slice(const char *string);
bool decoder_texts_begins(struct byte_slice text, struct byte_slice prefix);

#endif
