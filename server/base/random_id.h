/* random_id.h - ids that nobody can guess. */
#ifndef ATTND_RANDOM_ID_H
#define ATTND_RANDOM_ID_H

#include <stdbool.h>

enum { RANDOM_ID_LENGTH = 32 }; /* hexadecimal digits */

/* Writes an id of 128 random bits, with its NUL. False: the system gives no random bits. */
bool random_id_make(char id[RANDOM_ID_LENGTH + 1]);

#endif
