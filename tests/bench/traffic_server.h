/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_server.h - the server that a load is sent to, as a child on a free port of 127.0.0.1:
 * the daemon, or what people write otherwise. */
#ifndef BENCH_TRAFFIC_SERVER_H
#define BENCH_TRAFFIC_SERVER_H

#include "daemon.h"

#include <stdbool.h>

struct traffic_server {
    const char *name;
    int port, cpus; /* cpus: on so many it can run at once */
    pid_t pid;
    struct daemon daemon; /* if the server is the daemon */
    double start_cpu_s;
};

/* Starts the daemon with these arguments, which NULL ends; NULL alone means no arguments. If the
 * daemon cannot be started, it ends the program. */
void traffic_server_start(struct traffic_server *server, const char *const *arguments);

/* Whether the daemon's --help names a flag. A bench leaves out what this build does not have. */
bool traffic_server_has_flag(const char *flag);

/* Start a rival: FastAPI, uvicorn with uvloop and httptools, and numpy, with so many processes; or
 * libmicrohttpd and cJSON, the program of that name beside this one. If it is not on this machine,
 * they print a line and return false. */
bool traffic_server_start_fastapi(struct traffic_server *server, int processes);
bool traffic_server_start_cjson(struct traffic_server *server);

void traffic_server_stop(struct traffic_server *server);

/* CPU seconds of the server and its children since the last call. */
double traffic_server_cpu_s(struct traffic_server *server);

/* Returns a socket that listens on a free port of 127.0.0.1 and whose connections have TCP_NODELAY;
 * exec closes it. If there is no such port, it ends the program. */
int traffic_listen(int *port);

/* From here on this process, or the children that it starts, run on one CPU alone; -1: on all
 * CPUs that there were at the beginning. False: there are not so many CPUs. */
bool traffic_pin(int cpu);

int traffic_cpus(void); /* how many CPUs there were at the beginning */

#endif
