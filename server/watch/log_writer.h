/* log_writer.h - takes lines of the log to standard error, so that nobody waits for its reader.
 *
 * Until log_writer_start() a line is written by whoever has it, at once. From then on a thread of
 * its own writes them, a few milliseconds' worth together; where they come faster than they are
 * taken, memory keeps some megabytes of them, and more are dropped and counted. */
#ifndef ATTND_LOG_WRITER_H
#define ATTND_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Logs that count lines were dropped: log_dropped(). A parameter, because log.c is above this file
 * and uses it. */
typedef void log_writer_notice(uint64_t count);

/* Starts the thread, which calls notice when lines were dropped since its last notice. False: the
 * thread cannot be started, and lines are written as before the call. Not called by two threads at
 * once. */
bool log_writer_start(log_writer_notice *notice);

/* Writes what is there, for a second at the most, and ends the thread. Lines that come afterwards
 * are written at once, or, where nobody took what was there in that second, dropped. */
void log_writer_stop(void);

/* A line with its newline, at most PIPE_BUF bytes. An urgent one is written without delay, and
 * finds room where others do not any more. */
void log_writer_put(const char *line, size_t size, bool urgent);

/* Lines that nobody will see, for want of room or because they could not be written. */
uint64_t log_writer_dropped(void);

/* Waits until all lines are written, so many milliseconds at the most. For the end in a signal's
 * handler: it may be called there. */
void log_writer_settle(int ms_max);

#endif
