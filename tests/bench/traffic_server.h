/* traffic_server.h - what a load is sent to: the daemon, or what people write otherwise, as a child
 * on a free port of 127.0.0.1. */
#ifndef BENCH_TRAFFIC_SERVER_H
#define BENCH_TRAFFIC_SERVER_H

#include "daemon.h"

#include <stdbool.h>

struct traffic_server {
    const char *name;
    int port;
    pid_t pid;
    struct daemon daemon; /* where it is the daemon */
    double start_cpu_s;
};

/* The daemon with these arguments, which NULL ends; NULL is none. It ends the program if it
 * cannot be started. */
void traffic_server_start(struct traffic_server *server, const char *const *arguments);

/* Whether the daemon's --help names a flag: what this build does not have is left out. */
bool traffic_server_has_flag(const char *flag);

/* FastAPI, uvicorn and numpy with so many processes; libmicrohttpd and cJSON, the program of that
 * name beside this one. False, with a line that says so, where it is not on this machine. */
bool traffic_server_start_fastapi(struct traffic_server *server, int processes);
bool traffic_server_start_cjson(struct traffic_server *server);

void traffic_server_stop(struct traffic_server *server);

/* CPU seconds of it and its children since the last call. */
double traffic_server_cpu_s(struct traffic_server *server);

/* A socket that listens on a free port of 127.0.0.1; closed by exec. Ends the program where there
 * is none. */
int traffic_listen(int *port);

/* From here on this process, or the children that it starts, run on one CPU alone; -1: on all that
 * there were at the beginning. False where there are not so many. */
bool traffic_pin(int cpu);

#endif
