/* unique_id.h - numbers for ids that are unique, not secret. */
#ifndef ATTND_UNIQUE_ID_H
#define ATTND_UNIQUE_ID_H

#include <stdint.h>

/* 64 bits, unique within the process, and unlikely to equal those of another process. From any
 * thread; it takes no lock and, but for the first call, no system call. */
uint64_t unique_id_next(void);

/* The same of several at once, for the price of one. */
void unique_id_take(uint64_t *ids, int count);

#endif
