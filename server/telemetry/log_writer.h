/* SPDX-License-Identifier: Apache-2.0 */
/* log_writer.h - writes the log's lines to standard error, so that no other thread waits for its
 * reader.
 *
 * Before log_writer_start() the thread that logs a line writes it at once. After it a thread of its
 * own writes the lines, those of a few milliseconds together. When lines come faster than the
 * reader takes them, memory keeps some megabytes of lines; further ones are dropped and counted. */
#ifndef ATTND_LOG_WRITER_H
#define ATTND_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Logs that count lines were dropped, as log_dropped() does. A parameter, because log.c uses this
 * file, and this file does not use log.c. */
typedef void log_writer_notice(uint64_t count);

/* Starts the thread, which calls notice when lines were dropped since its last notice. False: the
 * thread cannot be started, and lines are written as before the call. Not called by two threads at
 * once. */
bool log_writer_start(log_writer_notice *notice);

/* Writes the lines that are left, for a second at the most, and ends the thread. Later lines are
 * written at once; but where that second was too short, they are dropped. */
void log_writer_stop(void);

/* Takes a line with its newline, at most PIPE_BUF bytes. An urgent line is written without delay,
 * and there is still room for it when others are dropped. */
void log_writer_put(const char *line, size_t size, bool urgent);

/* How many lines were dropped: for want of room, or because they could not be written. */
uint64_t log_writer_dropped(void);

/* Waits until all lines are written, ms_max milliseconds at the most. A signal's handler may call
 * it. */
void log_writer_settle(int ms_max);

/* Ends the process on a signal such as SIGSEGV, after the log's last lines are
 * written. */

/* Installs fatal_signal_end() for the signals that say that the program is broken. Call it once,
 * before threads start. A signal that has a handler already, such as a sanitizer's, keeps it. */
void fatal_signal_install(void);

/* For a handler: waits for the log, then raises the signal again with its default action. The
 * signal is blocked inside its handler, so it takes effect when the handler returns. */
void fatal_signal_end(int signal_number);

#endif
