/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_replicas.c - see traffic_replicas.h. */
#include "traffic_replicas.h"

#include "metrics_page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Where version 1 of the kernel's groups has the one for CPU time. */
#define GROUPS "/sys/fs/cgroup/cpu"

enum { TEXT_BYTES = 512, ANSWER_BYTES = 1 << 16, PERIOD_US = 20000 };

/* ----------------------------------------------------------------------------------- haproxy -- */

static const char CONFIGURATION[] =
    "global\n"
    "    maxconn 4000\n"
    "    tune.bufsize 65536\n"
    "    stats socket %s mode 600 level admin\n"
    "defaults\n"
    "    mode http\n"
    "    timeout connect 2s\n"
    "    timeout server 65s\n"
    "    timeout client 65s\n"
    "    retry-on conn-failure empty-response 503\n"
    "    retries 3\n"
    "    option redispatch 1\n"
    "frontend attnd\n"
    "    bind 127.0.0.1:%d\n"
    "    default_backend attnd\n"
    "backend attnd\n"
    "    balance leastconn\n"
    "    option httpchk\n"
    "    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host attnd\n"
    "    http-check expect status 200\n"
    "    default-server check inter 500ms fall 2 rise 1\n"
    "    server-template replica %d 127.0.0.1:1 disabled\n";

/* Asks the runtime API one thing; answer may be NULL. */
__attribute__((format(printf, 3, 4))) static void tell(const struct replicas *replicas,
                                                       char *answer, const char *form, ...)
{
    char command[TEXT_BYTES], ignored[TEXT_BYTES];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    va_list arguments;
    va_start(arguments, form);
    const int length = vsnprintf(command, sizeof command, form, arguments);
    va_end(arguments);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", replicas->admin);
    const int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const size_t space = answer ? ANSWER_BYTES : sizeof ignored;
    char *into = answer ? answer : ignored;
    size_t used = 0;
    bool good = socket_ >= 0 && connect(socket_, (struct sockaddr *)&address, sizeof address) == 0
                && write(socket_, command, (size_t)length) == length;
    for (ssize_t size; good && used < space - 1; used += (size_t)size)
        if ((size = read(socket_, into + used, space - 1 - used)) <= 0)
            break;
    into[used] = '\0';
    close(socket_);
    if (!good || (!answer && strspn(into, "\n") != used)) {
        fprintf(stderr, "haproxy was told: %sand said: %s\n", command, good ? into : "nothing");
        exit(1);
    }
}

/* The number of a column of a line of "show stat"; columns have names in the first line. */
static int64_t column(const char *stat, const char *line, const char *name)
{
    const char *names = stat + strspn(stat, "# ");
    const char *value = line;
    const size_t length = strlen(name);
    while (strncmp(names, name, length) != 0 || names[length] != ',') {
        names = strchr(names, ',');
        value = strchr(value, ',');
        if (!names || !value)
            return 0;
        names++;
        value++;
    }
    return strtoll(value, NULL, 10);
}

struct replicas_counts replicas_counts(const struct replicas *replicas)
{
    char *stat = calloc(1, ANSWER_BYTES);
    if (!stat)
        abort();
    tell(replicas, stat, "show stat\n");
    const char *line = strstr(stat, "\nattnd,FRONTEND,");
    struct replicas_counts counts = { 0 };
    if (line) {
        counts.requests = column(stat, line + 1, "req_tot");
        counts.good = column(stat, line + 1, "hrsp_2xx");
        static const char *const failures[] = { "hrsp_3xx", "hrsp_4xx", "hrsp_5xx", "hrsp_other",
                                                "ereq" };
        for (int i = 0; i < 5; i++)
            counts.failed += column(stat, line + 1, failures[i]);
    }
    free(stat);
    return counts;
}

void replicas_init(struct replicas *replicas, double cpus)
{
    char text[sizeof CONFIGURATION + TEXT_BYTES];
    *replicas = (struct replicas){ .cpus = cpus };
    const int port = daemon_free_port();
    snprintf(replicas->admin, sizeof replicas->admin, "/tmp/attnd-replicas-%d", (int)getpid());
    snprintf(text, sizeof text, CONFIGURATION, replicas->admin, port, REPLICAS_MAX);
    balancer_prepare_text(&replicas->balancer, BALANCER_HAPROXY, port, text);
    balancer_start(&replicas->balancer, BALANCER_HAPROXY);
    for (int tries = 0; access(replicas->admin, F_OK) != 0; tries++) {
        if (tries == 200) {
            fprintf(stderr, "haproxy did not start\n");
            exit(1);
        }
        daemon_pause(0.02);
    }
}

/* -------------------------------------------------------------------------------- a CPU limit --
 */

static void group_of(char path[TEXT_BYTES], int index, const char *file)
{
    snprintf(path, TEXT_BYTES, GROUPS "/attnd-replica-%d-%d%s", (int)getpid(), index, file);
}

static bool write_number(int index, const char *file, long number)
{
    char path[TEXT_BYTES];
    group_of(path, index, file);
    FILE *stream = fopen(path, "we");
    if (!stream)
        return false;
    fprintf(stream, "%ld\n", number);
    return fclose(stream) == 0;
}

/* As a CPU limit of a pod does. */
static bool bound_cpu(int index, double cpus, pid_t pid)
{
    char path[TEXT_BYTES];
    group_of(path, index, "");
    return cpus < 1 && mkdir(path, 0755) == 0
           && write_number(index, "/cpu.cfs_period_us", PERIOD_US)
           && write_number(index, "/cpu.cfs_quota_us", (long)(cpus * PERIOD_US))
           && write_number(index, "/cgroup.procs", pid);
}

/* ---------------------------------------------------------------------------------- replicas -- */

static void start_replica(struct replicas *replicas)
{
    const int index = replicas->count++;
    struct replica *replica = &replicas->replicas[index];
    *replica = (struct replica){ .cpu_share = NAN };
    daemon_start_with(&replica->daemon, "--workers", "1", "--drain-delay", "1s", "--models",
                      "examples/models", NULL);
    replicas->bounded = bound_cpu(index, replicas->cpus, replica->daemon.pid);
    http_client_init(&replica->client, replica->daemon.port);
    tell(replicas, (char[ANSWER_BYTES]){ 0 }, "set server attnd/replica%d addr 127.0.0.1 port %d\n",
         index + 1, replica->daemon.port);
    tell(replicas, NULL, "set server attnd/replica%d state ready\n", index + 1);
}

static void stop_replica(struct replicas *replicas)
{
    const int index = --replicas->count;
    struct replica *replica = &replicas->replicas[index];
    char group[TEXT_BYTES];
    tell(replicas, NULL, "set server attnd/replica%d state drain\n", index + 1);
    daemon_stop(&replica->daemon);
    tell(replicas, NULL, "set server attnd/replica%d state maint\n", index + 1);
    http_client_free(&replica->client);
    group_of(group, index, "");
    rmdir(group);
}

void replicas_set(struct replicas *replicas, int count)
{
    while (replicas->count < count)
        start_replica(replicas);
    while (replicas->count > count)
        stop_replica(replicas);
}

void replicas_scrape(struct replicas *replicas, int index)
{
    struct replica *replica = &replicas->replicas[index];
    struct metrics_page page = { 0 };
    struct http_response response = http_client_get(&replica->client, "/metrics");
    const double now_s = daemon_now(), cpu_s = daemon_cpu_seconds(&replica->daemon);
    if (response.status == 200) {
        metrics_page_read(&page, response.body);
        memmove(replica->costs + 1, replica->costs,
                sizeof replica->costs - sizeof replica->costs[0]);
        replica->costs[0] = metrics_page_value(&page, "attnd_queue_cost_seconds");
        if (replica->scrapes++ > 0)
            replica->cpu_share =
                (cpu_s - replica->cpu_s) / (now_s - replica->cpu_at_s) / replicas->cpus;
        replica->cpu_s = cpu_s;
        replica->cpu_at_s = now_s;
        metrics_page_free(&page);
    }
    http_response_free(&response);
}

double replicas_mean_cost(const struct replica *replica)
{
    const int count = replica->scrapes < REPLICA_SCRAPES ? replica->scrapes : REPLICA_SCRAPES;
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += replica->costs[i];
    return count > 0 ? sum / count : NAN;
}

void replicas_free(struct replicas *replicas)
{
    replicas_set(replicas, 0);
    balancer_stop(&replicas->balancer);
    unlink(replicas->admin);
}
