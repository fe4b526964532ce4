/* balancer.h - nginx or haproxy before two daemons, as deploy/ sets them up, for tests. */
#ifndef BALANCER_H
#define BALANCER_H

#include <sys/types.h>

enum { BALANCER_REPLICAS = 2 };

#define BALANCER_OUTPUT "output"

enum balancer_kind { BALANCER_NGINX, BALANCER_HAPROXY };

struct balancer {
    pid_t pid; /* 0: does not run */
    int port;
    char *directory;
};

/* The file in deploy/ that it runs with. */
const char *balancer_file(enum balancer_kind kind);

/* Skips the running test where it is not installed. */
void balancer_need(enum balancer_kind kind);

/* The shipped file with its addresses replaced, in a directory of its own, which
 * balancer_stop() removes: of the replicas, and of a free port for itself. */
void balancer_prepare(struct balancer *balancer, enum balancer_kind kind,
                      const int ports[BALANCER_REPLICAS]);

/* The same with a text of the caller's, in a port of balancer_free_port(), in place of the shipped
 * file: for nginx what stands inside http { }. */
void balancer_prepare_text(struct balancer *balancer, enum balancer_kind kind, int port,
                           const char *text);

/* What it says of that file when it is told to check it: its exit status, and in text (to be freed)
 * what it wrote. */
int balancer_check(const struct balancer *balancer, enum balancer_kind kind, char **text);

/* Starts what has been prepared; ends with this process. What it writes to its stdout, or to
 * BALANCER_OUTPUT in its directory, is balancer_output()'s, to be freed. */
void balancer_start(struct balancer *balancer, enum balancer_kind kind);

char *balancer_output(const struct balancer *balancer);

/* Also where it does not run. */
void balancer_stop(struct balancer *balancer);

/* A port that nobody has just now. */
int balancer_free_port(void);

#endif
