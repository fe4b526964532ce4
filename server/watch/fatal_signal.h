/* fatal_signal.h - ends the process on a signal such as SIGSEGV, after the log's last lines are
 * written. */
#ifndef ATTND_FATAL_SIGNAL_H
#define ATTND_FATAL_SIGNAL_H

/* Installs fatal_signal_end() for the signals that say that the program is broken. Call it once,
 * before threads start. A signal that has a handler already, such as a sanitizer's, keeps it. */
void fatal_signal_install(void);

/* For a handler: waits for the log, then raises the signal again with its default action. The
 * signal is blocked inside its handler, so it takes effect when the handler returns. */
void fatal_signal_end(int signal_number);

#endif
