/* SPDX-License-Identifier: Apache-2.0 */
/* log_writer.c - there are two buffers. Threads append lines to one of them under the mutex, while
 * the writer's thread writes the other without the mutex, so a slow write() delays that thread
 * alone. O_NONBLOCK on standard error would need no thread, but the daemon may not set it: it would
 * hold for every process that shares the stream.
 *
 * The kernel keeps a write() of up to PIPE_BUF bytes to a pipe in one piece, whatever else writes
 * to it. So each write() holds whole lines, as many as fit into PIPE_BUF. */
#include "telemetry/log_writer.h"

#include "base/clock.h"
#include "telemetry/metrics_text.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 2 << 20,    /* a tenth of a second of lines, as fast as two CPUs can log */
    RESERVED_BYTES = 64 << 10, /* the part of a buffer that urgent lines alone may use */
    GATHER_MS = 5, /* from the first line until it is written, where no line is urgent */
    STOP_MS_MAX = 1000,
};

/* What the writer's thread waits for. */
enum awaited { AWAITS_NOTHING, AWAITS_URGENT, AWAITS_ANY };

static char buffers[2][BUFFER_BYTES];

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t come, ended; /* come: lines are there or stopping is set; ended: has_ended */
    pthread_t thread;
    _Atomic bool runs;
    _Atomic size_t unwritten; /* bytes, in both buffers */
    _Atomic uint64_t dropped;
    log_writer_notice *notice;
    uint64_t told; /* the part of dropped that notices have told; the thread's own while it runs */

    char *filling; /* the buffer that lines are appended to; this and what follows is under mutex */
    size_t used;
    enum awaited awaited;
    bool urgent; /* the buffer holds an urgent line, or is half full */
    bool stopping, has_ended;
} writer = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* --------------------------------------------------------------- writing -- */

/* Another process may have set O_NONBLOCK, hence the wait for room on EAGAIN. */
static bool write_whole(const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(STDERR_FILENO, bytes, size);
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (written < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){ .fd = STDERR_FILENO, .events = POLLOUT }, 1, -1);
        } else if (written == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* The size of the next write: as many whole lines as fit. */
static size_t size_of_next(const char *lines, size_t size)
{
    if (size <= PIPE_BUF)
        return size;
    const char *newline = memrchr(lines, '\n', PIPE_BUF);
    return newline ? (size_t)(newline - lines) + 1 : PIPE_BUF;
}

static uint64_t count_lines(const char *lines, size_t size)
{
    uint64_t count = 0;
    for (const char *line = lines; (line = memchr(line, '\n', size - (size_t)(line - lines)));
         line++)
        count++;
    return count;
}

/* False where the last write failed. */
static bool write_lines(const char *lines, size_t size)
{
    bool written = true;
    for (size_t next; size > 0; lines += next, size -= next) {
        next = size_of_next(lines, size);
        written = write_whole(lines, next);
        if (!written)
            metrics_count(&writer.dropped, count_lines(lines, next));
        atomic_fetch_sub(&writer.unwritten, next);
    }
    return written;
}

/* ------------------------------------------------------------ the thread -- */

/* Returns GATHER_MS after the first line came, or at once where a line is urgent or the thread has
 * to stop. Gathering lets one write at a high rate hold many lines. Under the mutex. */
static void wait_for_lines(void)
{
    while (writer.used == 0 && !writer.stopping) {
        writer.awaited = AWAITS_ANY;
        pthread_cond_wait(&writer.come, &writer.mutex);
    }
    const struct timespec until = clock_timespec(clock_now_ns() + GATHER_MS * INT64_C(1000000));
    int result = 0;
    while (result == 0 && !writer.urgent && !writer.stopping) {
        writer.awaited = AWAITS_URGENT;
        result = pthread_cond_timedwait(&writer.come, &writer.mutex, &until);
    }
    writer.awaited = AWAITS_NOTHING;
}

/* Lines are dropped while a buffer is full. The notice of their number is the first line of the
 * buffer that is filled next. */
static void tell_dropped(void)
{
    const uint64_t dropped = log_writer_dropped();
    if (dropped == writer.told)
        return;
    writer.notice(dropped - writer.told);
    writer.told = dropped;
}

static void *writer_thread(void *unused)
{
    bool taken = true; /* once a write has failed, no further notice until one succeeds */
    (void)unused;
    pthread_mutex_lock(&writer.mutex);
    for (wait_for_lines(); writer.used > 0; wait_for_lines()) {
        const char *lines = writer.filling;
        const size_t size = writer.used;
        writer.filling = lines == buffers[0] ? buffers[1] : buffers[0];
        writer.used = 0;
        writer.urgent = false;
        pthread_mutex_unlock(&writer.mutex);
        if (taken)
            tell_dropped();
        taken = write_lines(lines, size);
        pthread_mutex_lock(&writer.mutex);
    }
    writer.has_ended = true;
    pthread_cond_signal(&writer.ended);
    pthread_mutex_unlock(&writer.mutex);
    return NULL;
}

bool log_writer_start(log_writer_notice *notice)
{
    clock_init_condition(&writer.come);
    clock_init_condition(&writer.ended);
    writer.filling = buffers[0];
    writer.notice = notice;
    writer.told = log_writer_dropped();
    writer.stopping = writer.has_ended = false;
    const bool started = pthread_create(&writer.thread, NULL, writer_thread, NULL) == 0;
    atomic_store(&writer.runs, started);
    return started;
}

void log_writer_stop(void)
{
    if (!atomic_load(&writer.runs))
        return;
    const struct timespec until = clock_timespec(clock_now_ns() + STOP_MS_MAX * INT64_C(1000000));
    pthread_mutex_lock(&writer.mutex);
    writer.stopping = true;
    pthread_cond_signal(&writer.come);
    for (int result = 0; result == 0 && !writer.has_ended;)
        result = pthread_cond_timedwait(&writer.ended, &writer.mutex, &until);
    const bool ended = writer.has_ended;
    pthread_mutex_unlock(&writer.mutex);
    if (!ended) {
        pthread_detach(writer.thread);
        return;
    }
    atomic_store(&writer.runs, false);
    pthread_join(writer.thread, NULL);
    pthread_cond_destroy(&writer.come);
    pthread_cond_destroy(&writer.ended);
}

/* ------------------------------------------------------------ its callers -- */

/* Appends a line, under the mutex. False where there is no room for it, or the thread has ended and
 * nothing would write it. */
static bool append(const char *line, size_t size, bool urgent)
{
    const size_t bytes_max = urgent ? BUFFER_BYTES : BUFFER_BYTES - RESERVED_BYTES;
    if (writer.has_ended || writer.used + size > bytes_max)
        return false;
    memcpy(writer.filling + writer.used, line, size);
    writer.used += size;
    writer.urgent |= urgent || writer.used > BUFFER_BYTES / 2;
    atomic_fetch_add(&writer.unwritten, size);
    return true;
}

void log_writer_put(const char *line, size_t size, bool urgent)
{
    if (!atomic_load(&writer.runs)) {
        if (!write_whole(line, size))
            metrics_count(&writer.dropped, 1);
        return;
    }
    pthread_mutex_lock(&writer.mutex);
    const bool kept = append(line, size, urgent);
    const bool wakes =
        kept
        && (writer.awaited == AWAITS_ANY || (writer.awaited == AWAITS_URGENT && writer.urgent));
    if (wakes)
        writer.awaited = AWAITS_NOTHING;
    pthread_mutex_unlock(&writer.mutex);
    if (wakes)
        pthread_cond_signal(&writer.come);
    if (!kept)
        metrics_count(&writer.dropped, 1);
}

uint64_t log_writer_dropped(void)
{
    return metrics_value(&writer.dropped);
}

void log_writer_settle(int ms_max)
{
    for (int ms = 0; ms < ms_max && atomic_load(&writer.unwritten) > 0; ms++)
        poll(NULL, 0, 1);
}

/* ---------------------------------------------------------- fatal signals -- */

/* The handler itself writes nothing. It waits while the log's thread, which runs on, gathers lines
 * for a few milliseconds and writes them. The wait has a limit: the signal may have hit that very
 * thread, its mutex may stay locked, or nobody may read standard error. */

enum { SETTLE_MS_MAX = 200 };

void fatal_signal_end(int signal_number)
{
    log_writer_settle(SETTLE_MS_MAX);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void fatal_signal_install(void)
{
    static const int SIGNALS[] = { SIGSEGV, SIGABRT, SIGFPE, SIGILL };
    const struct sigaction action = { .sa_handler = fatal_signal_end };
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        struct sigaction before;
        if (sigaction(SIGNALS[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(SIGNALS[i], &action, NULL);
    }
}
