/* fatal_signal.h - the end by a signal that says that the program is broken: the log's last lines
 * are written before it. */
#ifndef ATTND_FATAL_SIGNAL_H
#define ATTND_FATAL_SIGNAL_H

/* Once, before threads start. A signal that has a handler already, a sanitizer's, keeps it. */
void fatal_signal_install(void);

/* In a handler: what would have happened without one, after the log has been written. The signal
 * is blocked here and so comes when the handler returns. */
void fatal_signal_end(int signal_number);

#endif
