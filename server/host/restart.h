/* restart.h - another start of this program, for what libraries read before main(). */
#ifndef ATTND_RESTART_H
#define ATTND_RESTART_H

#include <stdbool.h>

/* Sets GLIBC_TUNABLES for the next start, so that each thread keeps as many small blocks of freed
 * memory as a request needs. False where the variable is set already, by this program or by the
 * user, whose choice stands. */
bool restart_tune_heap(void);

/* Executes this program again with the same arguments and the environment as it is now. Returns
 * only where that cannot be done. Call it before anything is opened or started. */
void restart(char **argv);

#endif
