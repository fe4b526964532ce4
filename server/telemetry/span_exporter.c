/* SPDX-License-Identifier: Apache-2.0 */
/* span_exporter.c - see span_exporter.h.
 *
 * Nobody wakes the thread when a record comes: that would cost the request a system call. It looks
 * at the queue after each delay, and takes at most one queue of records at a look. So a queue's
 * places, divided by the delay, bound what tracing may cost at any load. */
#include "telemetry/span_exporter.h"

#include "base/clock.h"
#include "base/unique_id.h"
#include "remote/remote.h"
#include "telemetry/log.h"
#include "telemetry/metrics_text.h"
#include "telemetry/span_answer.h"
#include "telemetry/span_queue.h"
#include "telemetry/span_record.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

enum {
    BATCH_BYTES = 256 << 10, /* of JSON in one post */
    PAUSE_FIRST_S = 1,       /* after a post that failed; it doubles */
    PAUSE_MOST_S = 30,
    GIVE_UP_S = 300, /* a batch is dropped that nobody has taken for so long */
    ANSWER_BYTES_MAX = 64 << 10,
    LATE_MS = 200,    /* for the thread to end, beyond the time for the last posts */
    TELL_EVERY_S = 60 /* a reason is logged at most so often while posts succeed */
};

struct span_exporter {
    struct span_options options;
    struct span_queue *queue;
    pthread_t thread;
    int ended; /* eventfd(2): the thread has ended */
    struct remote_stop stop;

    _Atomic uint64_t exported, full, refused, expired; /* spans */
    _Atomic uint64_t failures;                         /* posts */

    /* The thread's own. */
    struct remote_address address;
    struct remote *collector;
    bool is_failing;
    int64_t told_ns; /* when a partial success was logged */
    char batch[BATCH_BYTES];
};

/* -------------------------------------------------------------- what is told -- */

/* Logs the first failure after a success, and the first success after a failure. */
static void tell(struct span_exporter *exporter, bool fails, const char *reason)
{
    const struct span_options *options = &exporter->options;
    if (fails == exporter->is_failing)
        return;
    exporter->is_failing = fails;
    if (fails)
        log_line(LOG_WARNING, "spans not taken", LOG_STRING("host", options->host),
                 LOG_NUMBER("port", options->port), LOG_STRING("reason", reason));
    else
        log_line(LOG_INFO, "spans taken again", LOG_STRING("host", options->host),
                 LOG_NUMBER("port", options->port));
}

static void tell_status(struct span_exporter *exporter, const struct remote_answer *answer)
{
    char reason[REMOTE_REASON_MAX];
    struct text text = text_in(reason, sizeof reason);
    text_raw(&text, "status ");
    text_integer(&text, answer->status);
    reason[text.used] = '\0';
    tell(exporter, true, reason);
}

/* Returns how many of count spans the collector says that it refused. */
static uint64_t refused_in_part(struct span_exporter *exporter, const struct remote_answer *answer,
                                uint64_t count)
{
    char message[SPAN_ANSWER_MESSAGE_MAX];
    const uint64_t rejected = span_answer_rejected(answer->body, answer->size, message);
    const int64_t now_ns = clock_now_ns();
    if ((rejected > 0 || message[0])
        && (exporter->told_ns == 0 || now_ns - exporter->told_ns > TELL_EVERY_S * NS_PER_S)) {
        exporter->told_ns = now_ns;
        log_line(LOG_WARNING, "spans refused", LOG_NUMBER("count", rejected),
                 LOG_STRING("reason", message));
    }
    return rejected < count ? rejected : count;
}

/* ------------------------------------------------------------------ sending -- */

static bool is_ending(const struct span_exporter *exporter)
{
    return atomic_load(&exporter->stop.ends_ns) != 0;
}

/* From a half to the whole of pause_s, so that many daemons do not come back at once. What the
 * collector has asked for is waited for whole. */
static void pause_for(struct span_exporter *exporter, int pause_s, int asked_s)
{
    const int64_t half_ns = pause_s * NS_PER_S / 2;
    const int64_t extra_ns = (int64_t)(unique_id_next() % (uint64_t)half_ns);
    const int64_t least_ns = asked_s > GIVE_UP_S ? GIVE_UP_S * NS_PER_S
                             : asked_s > 0       ? asked_s * NS_PER_S
                                                 : half_ns;
    remote_stop_wait(&exporter->stop, clock_now_ns() + least_ns + extra_ns);
}

/* Posts the bytes. False, with the reason, where there is no answer. Collectors close connections
 * that are idle, and one may do so while a post is on its way, so it may be sent again. */
static bool post(struct span_exporter *exporter, const char *body, size_t size,
                 struct remote_answer *answer, char reason[REMOTE_REASON_MAX])
{
    const struct byte_slice part = { body, size };
    const struct remote_request request = {
        .method = "POST",
        .target = exporter->options.target,
        .headers = "Content-Type: application/json\r\n",
        .parts = &part,
        .part_count = 1,
        .deadline_ns = clock_now_ns() + exporter->options.timeout_ns,
        .answer_bytes_max = ANSWER_BYTES_MAX,
        .may_repeat = true,
    };
    return remote_ask(exporter->collector, &request, answer, reason) == REMOTE_ANSWERED;
}

/* Posts a batch until it is taken or refused, or it is too late. At the daemon's end each batch has
 * one more try. */
static void deliver(struct span_exporter *exporter, const char *body, size_t size, uint64_t count)
{
    const int64_t since_ns = clock_now_ns();
    struct remote_answer answer = { .status = 0 };
    char reason[REMOTE_REASON_MAX];
    for (int pause_s = PAUSE_FIRST_S;;) {
        const bool is_last = is_ending(exporter);
        const bool answered = post(exporter, body, size, &answer, reason);
        if (answered && span_answer_is_taken(answer.status)) {
            const uint64_t rejected = refused_in_part(exporter, &answer, count);
            metrics_count(&exporter->exported, count - rejected);
            metrics_count(&exporter->refused, rejected);
            tell(exporter, false, "");
            return;
        }
        metrics_count(&exporter->failures, 1);
        if (answered)
            tell_status(exporter, &answer);
        else
            tell(exporter, true, reason);
        if (answered && !span_answer_is_again(answer.status)) {
            metrics_count(&exporter->refused, count);
            return;
        }
        if (is_last || clock_now_ns() - since_ns > GIVE_UP_S * NS_PER_S)
            break;
        pause_for(exporter, pause_s, answered ? answer.retry_after_s : 0);
        pause_s = 2 * pause_s < PAUSE_MOST_S ? 2 * pause_s : PAUSE_MOST_S;
    }
    metrics_count(&exporter->expired, count);
}

/* Writes and posts one batch of at most *records_left records. False: the queue is empty. */
static bool send_batch(struct span_exporter *exporter, int *records_left)
{
    const int64_t unix_ns = clock_read_ns(CLOCK_REALTIME) - clock_now_ns();
    const struct span_record *record;
    uint64_t count = 0;
    struct text text = text_in(exporter->batch, sizeof exporter->batch);
    span_json_begin(&text, exporter->options.resource);
    while (*records_left > 0 && text.capacity - text.used > 2 * (size_t)SPAN_JSON_BYTES_MAX
           && (record = span_queue_first(exporter->queue))) {
        if (count > 0)
            text_bytes(&text, ",", 1);
        span_json_write(&text, record, unix_ns);
        count += (uint64_t)span_record_count(record);
        span_queue_drop(exporter->queue);
        (*records_left)--;
    }
    span_json_end(&text);
    if (count == 0)
        return false;
    deliver(exporter, text.data, text.used, count);
    return true;
}

/* After the end was set it looks once more: what came until then is sent, if there is time. The
 * thread gives way to those that serve. */
static void *exporter_thread(void *context)
{
    struct span_exporter *exporter = context;
    setpriority(PRIO_PROCESS, 0, 10);
    for (bool is_last = false; !is_last;) {
        remote_stop_wait(&exporter->stop, clock_now_ns() + exporter->options.delay_ns);
        is_last = is_ending(exporter);
        int records_left = span_queue_places(exporter->queue);
        while (send_batch(exporter, &records_left))
            ;
    }
    remote_close(exporter->collector);
    eventfd_write(exporter->ended, 1);
    return NULL;
}

/* -------------------------------------------------------------------- callers -- */

static void destroy(struct span_exporter *exporter)
{
    remote_free(exporter->collector);
    remote_stop_free(&exporter->stop);
    if (exporter->ended >= 0)
        close(exporter->ended);
    span_queue_free(exporter->queue);
    free(exporter);
}

bool span_exporter_create(struct span_exporter **created, const struct span_options *options,
                          struct fault *fault)
{
    struct span_exporter *exporter = calloc(1, sizeof *exporter);
    if (!exporter)
        return fault_no_memory(fault);
    exporter->options = *options;
    exporter->queue = span_queue_create(options->queue_max);
    exporter->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    exporter->address =
        (struct remote_address){ .host_is_name = options->host_is_name, .port = options->port };
    text_copy(exporter->address.host, sizeof exporter->address.host, options->host);
    exporter->collector = remote_create(&exporter->address, NULL, NULL, &exporter->stop);
    if (!remote_stop_init(&exporter->stop, fault) || !exporter->queue || !exporter->collector
        || exporter->ended < 0
        || pthread_create(&exporter->thread, NULL, exporter_thread, exporter) != 0) {
        destroy(exporter);
        return fault_no_memory(fault);
    }
    *created = exporter;
    return true;
}

/* A thread that the resolver holds is left to itself, with its memory: the process is about to
 * end. */
void span_exporter_free(struct span_exporter *exporter)
{
    if (!exporter)
        return;
    remote_stop_set(&exporter->stop, clock_now_ns() + SPAN_FLUSH_MS * INT64_C(1000000));
    struct pollfd ended = { .fd = exporter->ended, .events = POLLIN };
    const int64_t until_ns = clock_now_ns() + (SPAN_FLUSH_MS + LATE_MS) * INT64_C(1000000);
    int64_t left_ns = until_ns - clock_now_ns();
    while (left_ns > 0 && poll(&ended, 1, (int)(left_ns / 1000000) + 1) < 1)
        left_ns = until_ns - clock_now_ns();
    if (ended.revents == 0) {
        pthread_detach(exporter->thread);
        return;
    }
    pthread_join(exporter->thread, NULL);
    destroy(exporter);
}

const struct trace_sampler *span_exporter_sampler(const struct span_exporter *exporter)
{
    return &exporter->options.sampler;
}

static bool drop(struct span_exporter *exporter, const struct span_record *record)
{
    metrics_count(&exporter->full, (uint64_t)span_record_count(record));
    return false;
}

bool span_exporter_has_room(struct span_exporter *exporter, const struct span_record *record)
{
    return !span_queue_is_full(exporter->queue) || drop(exporter, record);
}

bool span_exporter_put(struct span_exporter *exporter, const struct span_record *record)
{
    return span_queue_put(exporter->queue, record) || drop(exporter, record);
}

void span_exporter_write_metrics(const struct span_exporter *exporter, struct text *text)
{
    static const char DROPPED[] = "attnd_otlp_spans_dropped_total";
    if (!exporter)
        return;
    metrics_write_family(text, "attnd_otlp_spans_exported_total", "counter",
                         "Spans that the collector took.");
    metrics_write_sample(text, "attnd_otlp_spans_exported_total", "",
                         metrics_value(&exporter->exported));
    metrics_write_family(text, DROPPED, "counter",
                         "Spans that were not sent, or that the collector did not take.");
    metrics_write_sample(text, DROPPED, "reason=\"queue\"", metrics_value(&exporter->full));
    metrics_write_sample(text, DROPPED, "reason=\"refused\"", metrics_value(&exporter->refused));
    metrics_write_sample(text, DROPPED, "reason=\"expired\"", metrics_value(&exporter->expired));
    metrics_write_family(text, "attnd_otlp_posts_failed_total", "counter",
                         "Posts to the collector that were not taken.");
    metrics_write_sample(text, "attnd_otlp_posts_failed_total", "",
                         metrics_value(&exporter->failures));
}
