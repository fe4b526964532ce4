/* open_files.h - the limit of open files, of which each connection takes one. */
#ifndef ATTND_OPEN_FILES_H
#define ATTND_OPEN_FILES_H

/* Raises the limit as far as the system lets this process do so. */
void open_files_raise(void);

/* How many of the wanted connections may be open at once, so that enough files are left for the
 * rest: files that requests read and write, the descriptors that thread_count connection threads
 * wait on, and more files of other kinds. A model keeps no file open. Logs a warning where the
 * number is lower than wanted. */
int open_files_connections(int wanted, int thread_count, int more);

#endif
