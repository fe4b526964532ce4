/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.h - tokens by id, and ids by token.
 *
 * Built once. All texts lie in one block; a table of ids with open addressing finds a text. */
#ifndef ATTND_VOCABULARY_H
#define ATTND_VOCABULARY_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/fault.h"

#include <stdint.h>

/* Ids have holes in published files; this bound keeps the table of a file that lies small. */
enum { VOCABULARY_ID_MAX = (1 << 22) - 1, VOCABULARY_NONE = -1 };

struct vocabulary_token; /* of vocabulary.c alone */

struct vocabulary {
    struct vocabulary_token *tokens; /* by id */
    char *texts;                     /* each with a NUL byte behind it */
    int32_t *table;                  /* ids; VOCABULARY_NONE: free */
    int64_t id_end, tokens_capacity; /* 1 + the largest id */
    int64_t count;                   /* ids that have a token */
    int64_t texts_size, texts_capacity;
    int64_t table_size;
};

/* A zeroed vocabulary is empty. Memory is malloc'd. */
void vocabulary_free(struct vocabulary *vocabulary);

/* Adds a token. The fault is memory; an id below 0 or past VOCABULARY_ID_MAX; an id that another
 * token has. Where another id has the same text, vocabulary_find() answers the id that was added
 * last. */
bool vocabulary_add(struct vocabulary *vocabulary, const char *text, size_t size, int64_t id,
                    struct fault *fault);

/* VOCABULARY_NONE: no token has the text. */
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t size);

/* The text of an id, with a NUL byte behind it; .data is NULL where no token has the id. Valid
 * until the next vocabulary_add(). */
struct byte_slice vocabulary_text(const struct vocabulary *vocabulary, int64_t id);

#endif
