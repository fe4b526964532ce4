/* SPDX-License-Identifier: Apache-2.0 */
/* unique_id.h - numbers for ids: unique ones, and ones that nobody can guess. */
#ifndef ATTND_UNIQUE_ID_H
#define ATTND_UNIQUE_ID_H

#include <stdbool.h>
#include <stdint.h>

/* A number that is unique, not secret: 64 bits, unique within the process, and unlikely to equal
 * those of another process. From any thread; it takes no lock and, but for the first call, no
 * system call. */
uint64_t unique_id_next(void);

/* The same of several at once, for the price of one. */
void unique_id_take(uint64_t *ids, int count);

/* A number for a text and an index, the same each time, and unlikely to be that of another. */
uint64_t unique_id_of(const char *text, uint64_t index);

/* Ids that nobody can guess. */

enum { RANDOM_ID_LENGTH = 32 }; /* hexadecimal digits */

/* Writes an id of 128 random bits, with its NUL. False: the system gives no random bits. */
bool random_id_make(char id[RANDOM_ID_LENGTH + 1]);

#endif
