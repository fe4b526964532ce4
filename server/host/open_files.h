/* open_files.h - the limit of open files, of which each connection takes one. */
#ifndef ATTND_OPEN_FILES_H
#define ATTND_OPEN_FILES_H

/* As many as the system lets this process have. */
void open_files_raise(void);

/* How many of the wanted connections there can be at once, so that some files are left for what
 * else is opened: models, their changes on disk, what thread_count connection threads wait on.
 * Fewer than wanted are said in the log. */
int open_files_connections(int wanted, int thread_count);

#endif
