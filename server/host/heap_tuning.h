/* heap_tuning.h - as many small blocks of freed memory for each thread as a request needs.
 *
 * glibc keeps seven of each size for a thread, and takes all others from the one heap, under its
 * lock; a request in JSON, or an envelope of the Open Inference Protocol, is dozens of them. How
 * many it keeps is read from the environment when it is loaded
 * (https://www.gnu.org/software/libc/manual/html_node/Memory-Allocation-Tunables.html). */
#ifndef ATTND_HEAP_TUNING_H
#define ATTND_HEAP_TUNING_H

#include <stdbool.h>

/* Sets GLIBC_TUNABLES for another start. False: it is set already, by us or the user, whose choice
 * stands. */
bool heap_tuning_set(void);

#endif
