/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - see peers.h. */
#include "peers.h"

#include "machine.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds_of(clockid_t clock)
{
    struct timespec time;
    return clock_gettime(clock, &time) == 0 ? (double)time.tv_sec + (double)time.tv_nsec * 1e-9 : 0;
}

static void become(const struct peer *peer, const char *path, int threads)
{
    char count[16];

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a peer that stands still would not notice the end */
    snprintf(count, sizeof count, "%d", threads);
    setenv("OMP_NUM_THREADS", count, 1);
    if (peer->setting)
        putenv((char *)(uintptr_t)peer->setting);
    if (!freopen("/dev/null", "w", stderr))
        _exit(127);
    if (peer->interpreter)
        execlp(peer->interpreter, peer->interpreter, path, (char *)NULL);
    else
        execl(path, path, (char *)NULL);
    _exit(127);
}

static bool launch(struct peer *peer, const char *path, int threads)
{
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        return false;
    fflush(stdout);
    peer->pid = fork();
    if (peer->pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        become(peer, path, threads);
    }
    close(to[0]);
    close(from[1]);
    peer->to = fdopen(to[1], "w");
    peer->from = fdopen(from[0], "r");
    return peer->pid > 0 && peer->to && peer->from;
}

/* The threads of a peer look for work a while longer, and hold a core that the next peer needs.
 * So a peer stands still between its turns. */
static void set_free(const struct peer *peer)
{
    kill(peer->pid, SIGCONT);
}

static bool stand_still(const struct peer *peer, bool done)
{
    kill(peer->pid, SIGSTOP);
    return done;
}

bool peer_start(struct peer *peer, const char *folder, int threads)
{
    const struct bench_shape smallest = { 1, 1, 1, 16, 16, 16, 0, threads };
    char path[1024];
    double sums[2];

    if (peer->interpreter)
        snprintf(path, sizeof path, "tests/bench/%s", peer->program);
    else
        snprintf(path, sizeof path, "%s/%s", folder, peer->program);
    peer->is_there =
        access(path, R_OK) == 0 && launch(peer, path, threads) && peer_shape(peer, &smallest, sums);
    if (!peer->is_there)
        printf("%s: not on this machine, left out\n", peer->name);
    return peer->is_there;
}

bool peer_shape(struct peer *peer, const struct bench_shape *s, double sums[2])
{
    char line[256];

    peer->threads = s->threads;
    peer->cpu_s = peer->clock_s = peer->others_s = 0;
    set_free(peer);
    fprintf(peer->to, "shape %d %d %d %d %d %d %d %d\n", s->batch, s->q_heads, s->kv_heads,
            s->q_len, s->kv_len, s->head_dim, s->causal, s->threads);
    const bool done = fflush(peer->to) == 0 && fgets(line, sizeof line, peer->from)
                      && sscanf(line, "ok %lf %lf", &sums[0], &sums[1]) == 2;
    return stand_still(peer, done);
}

static bool read_times(const struct peer *peer, int count, double *seconds)
{
    double first;

    if (fflush(peer->to) != 0 || fscanf(peer->from, " t %lf", &first) != 1)
        return false;
    for (int i = 0; i < count; i++)
        if (fscanf(peer->from, "%lf", &seconds[i]) != 1)
            return false;
    return fgetc(peer->from) == '\n';
}

void peer_watch_start(struct peer_watch *watch, const struct peer *peer)
{
    *watch =
        (struct peer_watch){ seconds_of(CLOCK_MONOTONIC), peer_cpu_s(peer->pid), machine_busy_s() };
}

void peer_watch_stop(const struct peer_watch *watch, struct peer *peer)
{
    const double cpu_s = peer_cpu_s(peer->pid) - watch->cpu_s;
    peer->cpu_s += cpu_s;
    peer->clock_s += seconds_of(CLOCK_MONOTONIC) - watch->clock_s;
    peer->others_s += machine_busy_s() - watch->busy_s - cpu_s;
}

bool peer_time(struct peer *peer, int count, double *seconds)
{
    struct peer_watch watch;

    peer_watch_start(&watch, peer);
    set_free(peer);
    fprintf(peer->to, "run %d\n", count + 1);
    const bool done = stand_still(peer, read_times(peer, count, seconds));
    peer_watch_stop(&watch, peer);
    return done;
}

bool peer_is_busy(double cpu_s, double could_s)
{
    return cpu_s * 100 >= could_s * PEER_BUSY_PERCENT;
}

double peer_could_s(double clock_s, int threads, int cpus, double others_s)
{
    const double left_s = fmax(0, clock_s * cpus - others_s);
    return fmin(clock_s * threads, left_s);
}

double peer_could_of(const struct peer *peer)
{
    return peer_could_s(peer->clock_s, peer->threads, (int)sysconf(_SC_NPROCESSORS_ONLN),
                        peer->others_s);
}

bool peer_was_busy(const struct peer *peer)
{
    return peer_is_busy(peer->cpu_s, peer_could_of(peer));
}

void peer_describe_idle(char text[PEER_IDLE_BYTES], double cpu_s, double could_s)
{
    snprintf(text, PEER_IDLE_BYTES, "not busy: %.0f%% CPU",
             could_s > 0 ? 100 * cpu_s / could_s : 0.0);
}

double peer_cpu_s(pid_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0 ? seconds_of(clock) : 0;
}

double peer_peak_mib(const struct peer *peer)
{
    char path[64], line[256];
    long kib = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)peer->pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (double)kib / 1024;
}

void peer_stop(struct peer *peer)
{
    if (peer->pid > 0)
        set_free(peer);
    if (peer->to)
        fclose(peer->to);
    if (peer->from)
        fclose(peer->from);
    if (peer->pid > 0)
        waitpid(peer->pid, NULL, 0);
    peer->to = peer->from = NULL;
    peer->pid = 0;
    peer->is_there = false;
}
