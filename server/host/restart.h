/* restart.h - another start of this program, for what libraries read from the environment before
 * main(). */
#ifndef ATTND_RESTART_H
#define ATTND_RESTART_H

/* Executes this program again with the same arguments and the environment as it is now. Returns
 * where that cannot be done. To be called before anything is opened or started. */
void restart(char **argv);

#endif
