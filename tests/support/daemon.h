/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - the real daemon as a child process, for tests that talk to it over HTTP.
 *
 * The program is build/attnd, or the one that the environment variable ATTND names, so the same
 * tests serve the plain build and the builds with sanitizers. The daemon gets a free port and an
 * environment without ATTND_ variables of ours. Its output is kept, and shown if something goes
 * wrong. */
#ifndef DAEMON_H
#define DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { DAEMON_PORTS_MAX = 8 };

struct daemon {
    pid_t pid; /* 0: it does not run */
    int port;  /* the first of ports */
    int ports[DAEMON_PORTS_MAX];
    int log; /* descriptor of what it wrote to stdout and stderr */
};

struct daemon_options {
    const char *const *arguments;   /* ended by NULL; NULL is none */
    const char *const *environment; /* "NAME=value", ended by NULL; NULL is none */
    int listen_count;               /* arguments or environment name so many addresses; 0: none, and
                                       --listen 127.0.0.1:0 is added */
    bool may_not_be_ready;          /* do not wait for /readyz */
    int output; /* descriptor that it writes to instead, the caller's; 0: daemon_log() has it all */
    int port;   /* that it will listen on, where output is set; arguments name it too */
};

/* How many times longer everything takes than in a plain build: ATTND_TEST_SLOW, at least 1. */
double daemon_slowness(void);

/* The program's path. */
const char *daemon_program(void);

/* Starts the daemon and waits until it listens and is ready. Fails the test if that does not
 * happen. options may be NULL. The daemon dies with this process. */
void daemon_start(struct daemon *server, const struct daemon_options *options);

/* The flag of a daemon that gets long requests. A daemon refuses what comes beside more predicted
 * work than --timeout, and a sanitized one may predict an hour. */
#define DAEMON_PATIENT "--timeout", "86400s"

/* daemon_start() with arguments alone; the list ends with NULL. */
void daemon_start_with(struct daemon *server, const char *argument, ...) __attribute__((sentinel));

/* If the daemon is built with AddressSanitizer, daemons that start from now on keep 1 MiB of
 * freed memory instead of 256 MiB. Kept memory would look like a leak. */
void daemon_keep_little(void);

/* Waits at most seconds (not scaled) until the daemon ends. Returns the exit status, 128 + the
 * signal, or -1 if it still runs. */
int daemon_wait(struct daemon *server, double seconds);

/* Sends SIGTERM. Fails the test unless the daemon exits with 0 within 30 s (scaled); with a
 * sanitizer's report the status is not 0. Does nothing if the daemon does not run. */
void daemon_stop(struct daemon *server);

/* Kills the daemon at once, to clear up after a failed test. */
void daemon_kill(struct daemon *server);

/* Stops the daemon as SIGSTOP does. When this returns, none of its threads runs. SIGCONT lets it
 * go on. */
void daemon_freeze(struct daemon *server);

/* What the daemon wrote so far. The caller frees it. */
char *daemon_log(const struct daemon *server);

/* The same, as soon as text is in it. Fails the test if that takes more than 10 s (scaled). A
 * log line may come shortly after the event that it describes. */
char *daemon_log_with(const struct daemon *server, const char *text);

/* Resident bytes now, the most resident bytes so far, and open descriptors. */
size_t daemon_memory_bytes(const struct daemon *server);
size_t daemon_memory_peak_bytes(const struct daemon *server);
int daemon_descriptor_count(const struct daemon *server);

/* CPU time of all its threads since it began, in steps of 0.01 s. */
double daemon_cpu_seconds(const struct daemon *server);

/* ------------------------------------------------------- its other commands -- */

struct daemon_result {
    int exit_code; /* -1: it did not end in 20 s (scaled) and was killed; 128 + a signal's number */
    char *output;  /* its stdout */
    char *errors;  /* its stderr */
};

/* Runs the program to its end. Both lists end with NULL; environment may be NULL. */
struct daemon_result daemon_command(const char *const *arguments, const char *const *environment);
void daemon_result_free(struct daemon_result *result);

/* A port of 127.0.0.1 that nothing uses at the moment, below those that the kernel gives to
 * connections (ip_local_port_range): no other test gets it by chance before it is used. */
int daemon_free_port(void);

/* ------------------------------------------------------------- directories -- */

char *daemon_directory_create(void);           /* a new one under $TMPDIR; free with the next */
void daemon_directory_remove(char *directory); /* with all that is in it; NULL is fine */

/* Writes directory/name; name is "a", "a/b" or "a/b/c". Makes the directories between. */
void daemon_directory_write(const char *directory, const char *name, const void *bytes,
                            size_t size);

/* Entries of the directory itself, without "." and "..". */
int daemon_directory_count(const char *directory);

/* Sleeps. */
void daemon_pause(double seconds);

/* Seconds of the monotonic clock. */
double daemon_now(void);

#endif
