/* SPDX-License-Identifier: Apache-2.0 */
/* balancer.h - nginx or haproxy before two daemons, as deploy/ sets them up, for tests. */
#ifndef BALANCER_H
#define BALANCER_H

#include <sys/types.h>

enum { BALANCER_REPLICAS = 2 };

#define BALANCER_OUTPUT "output"

enum balancer_kind { BALANCER_NGINX, BALANCER_HAPROXY };

struct balancer {
    pid_t pid; /* 0: it does not run */
    int port;
    char *directory;
};

/* The file in deploy/ that the balancer runs with. */
const char *balancer_file(enum balancer_kind kind);

/* Skips the running test if the balancer is not installed. */
void balancer_need(enum balancer_kind kind);

/* Copies the shipped file into a directory of its own, which balancer_stop() removes. The
 * addresses in it are replaced: those of the replicas, and the balancer's own by a free port. */
void balancer_prepare(struct balancer *balancer, enum balancer_kind kind,
                      const int ports[BALANCER_REPLICAS]);

/* The same with the caller's text in place of the shipped file, and a port from
 * daemon_free_port(). For nginx the text is what stands inside http { }. */
void balancer_prepare_text(struct balancer *balancer, enum balancer_kind kind, int port,
                           const char *text);

/* Tells the balancer to check its file. Returns the exit status. text becomes what the balancer
 * wrote; the caller frees it. */
int balancer_check(const struct balancer *balancer, enum balancer_kind kind, char **text);

/* Starts the balancer that has been prepared. It ends with this process. balancer_output()
 * returns what it writes to its stdout or to BALANCER_OUTPUT in its directory; the caller frees
 * it. */
void balancer_start(struct balancer *balancer, enum balancer_kind kind);

char *balancer_output(const struct balancer *balancer);

/* Stops the balancer; it need not run. */
void balancer_stop(struct balancer *balancer);

#endif
