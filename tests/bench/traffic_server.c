/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_server.c - see traffic_server.h.
 *
 * A rival gets a socket that listens already, as its descriptor 3, so that the bench need not
 * ask it for a port. The socket has TCP_NODELAY, which accepted connections inherit: a server in
 * Python sets it on sockets that it opened itself and not on these, and an answer of two writes
 * would wait 40 ms for the client's acknowledgement. */
#include "traffic_server.h"

#include "peers.h"
#include "traffic_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RIVAL_SOCKET = 3, LISTEN_BACKLOG = 4096 };

static const double START_S = 15, END_S = 5;

/* --------------------------------------------------------------------- CPU -- */

/* Those of the beginning, before this process was pinned. */
static const cpu_set_t *all_cpus(void)
{
    static cpu_set_t all;
    static bool is_known;
    if (!is_known)
        is_known = sched_getaffinity(0, sizeof all, &all) == 0;
    return &all;
}

int traffic_cpus(void)
{
    return CPU_COUNT(all_cpus());
}

/* How many of them a child gets that starts at this moment. */
static int inherited_cpus(void)
{
    cpu_set_t cpus;
    const int count = traffic_cpus();
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : count;
}

bool traffic_pin(int cpu)
{
    const cpu_set_t *all = all_cpus();
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0, count = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, all) && count++ == cpu)
            CPU_SET(i, &one);
    if (cpu >= 0 && CPU_COUNT(&one) == 0)
        return false;
    return sched_setaffinity(0, sizeof one, cpu < 0 ? all : &one) == 0;
}

double traffic_server_cpu_s(struct traffic_server *server)
{
    char path[64];
    int child;
    double seconds = peer_cpu_s(server->pid);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)server->pid, (int)server->pid);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1)
        seconds += peer_cpu_s(child);
    if (file)
        fclose(file);
    const double since = seconds - server->start_cpu_s;
    server->start_cpu_s = seconds;
    return since;
}

/* -------------------------------------------------------------- the daemon -- */

void traffic_server_start(struct traffic_server *server, const char *const *arguments)
{
    *server = (struct traffic_server){ .name = "attnd", .cpus = inherited_cpus() };
    daemon_start(&server->daemon, &(struct daemon_options){ .arguments = arguments });
    server->port = server->daemon.port;
    server->pid = server->daemon.pid;
}

bool traffic_server_has_flag(const char *flag)
{
    struct daemon_result help = daemon_command((const char *const[]){ "--help", NULL }, NULL);
    const bool has = strstr(help.output, flag) != NULL;
    daemon_result_free(&help);
    return has;
}

/* -------------------------------------------------------------- the rivals -- */

int traffic_listen(int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0 || setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)) != 0
        || bind(made, (struct sockaddr *)&address, sizeof address) != 0
        || listen(made, LISTEN_BACKLOG) != 0
        || getsockname(made, (struct sockaddr *)&address, &size) != 0) {
        perror("a listening socket");
        exit(1);
    }
    *port = ntohs(address.sin_port);
    return made;
}

/* OpenBLAS as Debian starts it does not know every CPU: its AVX-512 kernels are asked for by
 * name. Threads of its own would only be in the way. */
static void tell_openblas(void)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    else if (__builtin_cpu_supports("avx2"))
        setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
}

/* Starts the program. It gets SIGTERM when we end, so that it can end its own children. */
static void become(char *const *arguments, int socket)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    tell_openblas();
    if (dup2(socket, RIVAL_SOCKET) < 0 || !freopen("/dev/null", "w", stdout)
        || !freopen("/dev/null", "w", stderr))
        _exit(127);
    execv(arguments[0], arguments);
    _exit(127);
}

static bool has_ended(struct traffic_server *server)
{
    if (server->pid > 0 && waitpid(server->pid, NULL, WNOHANG) == server->pid)
        server->pid = 0;
    return server->pid == 0;
}

/* Whether the server answers anything at all before it ends. */
static bool answers(struct traffic_server *server)
{
    struct traffic_connection connection;
    struct traffic_request request = traffic_get("/livez");
    bool is_up = false, is_over = !traffic_connection_open(&connection, server->port);
    traffic_connection_begin(&connection, &request, 0);
    for (double until = daemon_now() + START_S; !is_over && daemon_now() < until;) {
        struct pollfd poll_for = { .fd = connection.descriptor, .events = POLLIN };
        poll(&poll_for, 1, 20);
        const enum traffic_step step = traffic_connection_step(&connection);
        is_up = step == TRAFFIC_DONE;
        is_over = step != TRAFFIC_WAITS || has_ended(server);
    }
    if (connection.descriptor >= 0)
        close(connection.descriptor);
    traffic_requests_free(&request, 1);
    return is_up;
}

static bool start_rival(struct traffic_server *server, const char *name, int cpus,
                        char *const *arguments)
{
    const int inherited = inherited_cpus();
    *server = (struct traffic_server){ .name = name, .cpus = cpus < inherited ? cpus : inherited };
    const int socket = traffic_listen(&server->port);
    fflush(stdout);
    if (access(arguments[0], X_OK) == 0)
        server->pid = fork();
    if (server->pid == 0 && access(arguments[0], X_OK) == 0)
        become(arguments, socket);
    close(socket);
    if (server->pid > 0 && answers(server))
        return true;
    printf("%s: not on this machine, left out\n", name);
    traffic_server_stop(server);
    return false;
}

bool traffic_server_start_fastapi(struct traffic_server *server, int processes)
{
    char count[16];
    char *arguments[] = { "/usr/bin/python3",
                          "-m",
                          "uvicorn",
                          "--app-dir",
                          "tests/bench",
                          "--fd",
                          "3",
                          "--workers",
                          count,
                          "--backlog",
                          "4096",
                          "--loop",
                          "uvloop",
                          "--http",
                          "httptools",
                          "--no-access-log",
                          "--log-level",
                          "warning",
                          "rival_fastapi:app",
                          NULL };
    snprintf(count, sizeof count, "%d", processes);
    return start_rival(server, processes == 1 ? "fastapi" : "fastapi, 2 processes", processes,
                       arguments);
}

bool traffic_server_start_cjson(struct traffic_server *server)
{
    char path[1024];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    memcpy(slash ? slash + 1 : path, "rival_cjson", sizeof "rival_cjson");
    return start_rival(server, "microhttpd, cJSON", inherited_cpus(), (char *[]){ path, NULL });
}

void traffic_server_stop(struct traffic_server *server)
{
    if (server->daemon.pid > 0) {
        daemon_stop(&server->daemon);
    } else if (server->pid > 0) {
        kill(server->pid, SIGTERM);
        for (double until = daemon_now() + END_S; !has_ended(server) && daemon_now() < until;)
            daemon_pause(0.01);
        if (server->pid > 0) {
            kill(server->pid, SIGKILL);
            waitpid(server->pid, NULL, 0);
        }
    }
    server->pid = 0;
}
