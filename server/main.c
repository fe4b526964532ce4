/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the daemon's life: read the configuration, listen, load the models, serve until a signal
 * comes, drain, stop. SIGHUP makes it read the keys, the models and the CPU quota again. */
#include "access/access_keys.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/version.h"
#include "batch/batch.h"
#include "call/cost_fit.h"
#include "call/progress.h"
#include "call/service.h"
#include "cli/commands.h"
#include "explorer/page.h"
#include "formats/regions.h"
#include "host/config.h"
#include "host/config_otlp.h"
#include "host/listen_address.h"
#include "host/process_start.h"
#include "host/resources.h"
#include "host/sandbox.h"
#include "host/service_manager.h"
#include "http/http.h"
#include "http/listeners.h"
#include "models/model/model_converted.h"
#include "models/model/model_guard.h"
#include "models/store/model_report.h"
#include "operations/attention.h"
#include "operations/session/session_mover.h"
#include "operations/session/session_save.h"
#include "operations/session/session_store.h"
#include "operations/spread/spread.h"
#include "operations/trace/kept_store.h"
#include "scheduler/batcher.h"
#include "telemetry/log.h"
#include "telemetry/log_writer.h"
#include "telemetry/metrics.h"
#include "telemetry/span_exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static bool fail(const char *what, const struct fault *fault)
{
    log_line(LOG_ERROR, what, LOG_STRING("reason", fault->message));
    return false;
}

/* ----------------------------------------------------------- preparation -- */

static struct region_prefixes shared_memory_prefixes(const struct config *config)
{
    return (struct region_prefixes){ config->shared_memory.items, config->shared_memory.count };
}

static sigset_t signals_of_interest(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    return signals;
}

/* ------------------------------------------------------------------- tls -- */

static struct http_tls_files tls_files(const struct config *config)
{
    return (struct http_tls_files){ config->tls_cert, config->tls_key, config->tls_client_ca };
}

/* ---------------------------------------------------------------- models -- */

/* Calls visit for every model, loaded or failed, and only then fails for those that did not load
 * (--models-strict). */
static bool load_models(struct service *service,
                        void (*visit)(void *context, const struct model_listing *listing),
                        struct fault *fault)
{
    int failed_count = 0;
    model_converted_limit(service->config->model_memory_bytes_max);
    const struct model_store_options options = {
        .directory = service->config->models,
        .model_name = service->config->model_name,
    };
    if (!model_store_create(&service->store, &options, &failed_count, fault))
        return false;
    model_store_each(service->store, NULL, visit, stdout);
    if (failed_count > 0 && service->config->models_strict)
        return fault_set(fault, FAULT_LOADING, "%d %s failed to load (--models-strict): %s",
                         failed_count, failed_count == 1 ? "model" : "models",
                         model_store_failed_names(service->store));
    return true;
}

/* Who else a session may be spread over. */
static bool read_peers(struct service *service, struct fault *fault)
{
    const struct config *config = service->config;
    if (!config->peers)
        return true;
    service->spread = spread_home_create(config->peers, config->peer_ttl_ns, fault);
    return service->spread || fault_name_file(fault, "--peers");
}

/* 0: a daemon with this configuration would start and be ready. */
static int check_config(struct service *service)
{
    struct fault fault;
    const struct config *config = service->config;
    struct session_mover *mover = NULL;
    if (!listeners_try(config, &fault) || !read_peers(service, &fault)
        || !session_mover_create(&mover, config, &fault)
        || (config->session_save && !session_save_try(config->session_save, &fault))) {
        fprintf(stderr, "attnd: %s\n", fault.message);
        session_mover_free(mover);
        return 1;
    }
    session_mover_free(mover);
    const struct http_tls_files tls = tls_files(config);
    const bool has_keys = service_open_keys(service, &fault) && http_tls_files_check(&tls, &fault);
    if (service->keys)
        printf("keys: %d, %s\n", access_keys_count(service->keys), config->keys);
    const bool loaded = has_keys && load_models(service, model_report_print, &fault);
    if (!loaded)
        fprintf(stderr, "attnd: %s\n", fault.message);
    else if (model_store_failed_names(service->store)[0])
        fprintf(stderr, "attnd: would start without what failed to load: %s\n",
                model_store_failed_names(service->store));
    model_store_free(service->store);
    access_keys_free(service->keys);
    spread_home_free(service->spread);
    return loaded ? 0 : 1;
}

/* --------------------------------------------------------------- service -- */

/* Makes the sessions that the daemon before had. */
static bool restore_sessions(struct service *service, struct session_save *save,
                             struct fault *fault)
{
    const char *directory = service->config->session_save;
    if (!directory)
        return true;
    if (!session_save_open(save, directory, fault))
        return false;
    session_save_restore(save, service->sessions, service->store, service->keys);
    return true;
}

/* sandbox may be NULL. */
static bool load_and_warm_up(struct service *service, struct session_save *save,
                             struct sandbox *sandbox, struct fault *fault)
{
    if (!load_models(service, model_report_log, fault) || !restore_sessions(service, save, fault))
        return false;
    cost_fit(service->kernels);
    if (!attention_warm_up(service, fault) || (sandbox && !sandbox_leave_calls(sandbox, fault)))
        return false;
    atomic_store(&service->state, SERVICE_SERVING);
    metrics_gauge_set(METRICS_READY, 1);
    return true;
}

/* Sleeps until the deadline, or until http is drained; http may be NULL. */
static void sleep_until(int64_t deadline_ns, int step_ms, const struct http *http)
{
    while (clock_now_ns() < deadline_ns && (!http || !http_is_drained(http)))
        poll(NULL, 0, step_ms);
}

/* Moves sessions, those that are new since the last time or all, until the deadline. */
static void move_sessions(struct service *service, bool only_new, int64_t deadline_ns)
{
    struct session_moved result;
    struct fault fault;
    if (service->mover)
        session_mover_run(service->mover, service->sessions, NULL, only_new, deadline_ns, &result,
                          &fault);
}

/* Sessions that requests make meanwhile move too. */
static void move_until(struct service *service, int64_t until_ns, int64_t deadline_ns)
{
    move_sessions(service, false, deadline_ns);
    while (service->mover && clock_now_ns() < until_ns) {
        sleep_until(clock_now_ns() + 100000000, 10, NULL);
        move_sessions(service, true, deadline_ns);
    }
}

/* The readiness endpoint answers 503 from now on. Everything is served as before for the drain
 * delay, or until all sessions that can have moved. Then the daemon accepts no new connection and
 * answers the requests that clients have sent on the open ones. */
static void drain(struct service *service, struct http *http)
{
    const struct config *config = service->config;
    const int64_t start_ns = clock_now_ns();
    const int64_t delay_end_ns = start_ns + config->drain_delay_ns;
    const int64_t end_ns = delay_end_ns + config->drain_max_ns;
    log_line(LOG_INFO, "draining", LOG_NUMBER("delay_ms", (double)config->drain_delay_ns / 1e6));
    atomic_store(&service->state, SERVICE_DRAINING);
    metrics_gauge_set(METRICS_READY, 0);
    notify("STOPPING=1");
    http_end_connections(http);
    if (service->mover)
        session_mover_end_by(service->mover, end_ns);
    move_until(service, delay_end_ns, end_ns);
    sleep_until(delay_end_ns, 10, NULL);
    http_drain(http);
    sleep_until(end_ns, 1, http);
    if (!http_is_drained(http)) {
        http_refuse(http);
        log_line(LOG_WARNING, "drain cut short", LOG_NUMBER("active", http_active_count(http)));
        scheduler_cancel_all(service->scheduler);
        scheduler_cancel_all(service->disk_jobs);
        sleep_until(clock_now_ns() + 2000000000, 1, http);
    }
    move_sessions(service, true, end_ns);
}

/* Whether a signal to stop is pending. Reading the models again may take long, so it ends early for
 * such a signal. */
static bool end_is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0
           && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* The number of workers that the configuration asks for, or of CPUs that may be used now. */
static int workers_wanted(const struct config *config)
{
    const int workers = config->workers ? config->workers : resources_cpu_count();
    return workers < SCHEDULER_WORKERS_MAX ? workers : SCHEDULER_WORKERS_MAX;
}

static void follow_quota(struct service *service)
{
    const int before = scheduler_worker_count(service->scheduler);
    const int wanted = workers_wanted(service->config);
    if (wanted > before)
        blas_reserve(service->blas_use, scheduler_threads_max(wanted));
    const int now = scheduler_set_worker_count(service->scheduler, wanted);
    if (service->config->pin_workers)
        scheduler_pin_workers(service->scheduler);
    if (now != before)
        log_line(LOG_INFO, "workers", LOG_NUMBER("before", before), LOG_NUMBER("now", now));
    metrics_gauge_set(METRICS_WORKERS, now);
}

/* Waits for a signal to stop. Reads the keys, the certificate and the models again at each SIGHUP,
 * and frees kept traces and sessions whose time has come: this thread has nothing else to do. */
static void wait_for_end(struct service *service, struct http *http, const sigset_t *signals)
{
    static const struct timespec SWEEP = { .tv_sec = 1 };
    int signal_number;
    for (;;) {
        signal_number = sigtimedwait(signals, NULL, &SWEEP);
        if (signal_number < 0 && (errno == EAGAIN || errno == EINTR)) {
            kept_store_sweep(service->kept, clock_now_ns());
            session_store_sweep(service->sessions, clock_now_ns());
            spread_home_sweep(service->spread, clock_now_ns());
            continue;
        }
        if (signal_number < 0)
            return;
        if (signal_number != SIGHUP)
            break;
        const int64_t start_ns = clock_now_ns();
        service_read_keys_again(service);
        http_tls_read_again(http);
        follow_quota(service);
        if (model_store_rescan(service->store, end_is_pending))
            log_line(LOG_INFO, "models read again",
                     LOG_NUMBER("ms", (double)(clock_now_ns() - start_ns) / 1e6));
    }
    log_line(LOG_INFO, "signal", LOG_STRING("name", strsignal(signal_number)));
}

/* With few CPUs, most requests are small and each connection thread computes its own. With many
 * CPUs, workers compute, so fewer connection threads are needed. */
static int connection_thread_count(int worker_count)
{
    return worker_count <= 2 ? worker_count : (worker_count + 1) / 2;
}

/* *saved: no session is lost at the end. */
static bool serve(struct service *service, struct listeners *listeners, struct sandbox *sandbox,
                  const sigset_t *signals, bool *saved, struct fault *fault)
{
    struct session_save save = { .directory = NULL };
    const struct config *config = service->config;
    int route_count;
    const int threads = connection_thread_count(scheduler_worker_count(service->scheduler));
    const int connections_max = open_files_connections(config->connections_max, threads,
                                                       service->regions ? REGIONS_MAX : 0);
    const struct http_options options = {
        .listeners = listeners,
        .replica = config->replica_name,
        .has_operators = listeners_have_operators(listeners),
        .pages = { .listen = config->listen.items,
                   .listen_count = config->listen.count,
                   .hosts = config->host.items,
                   .host_count = config->host.count,
                   .origins = config->allow_origin.items,
                   .origin_count = config->allow_origin.count },
        .keys = service->keys,
        .spans = service->spans,
        .tls = tls_files(config),
        .thread_count = threads,
        .body_bytes_max = config->body_bytes_max,
        .pack_bytes_min = config->compress_bytes_min,
        .body_timeout_ns = config->body_timeout_ns,
        .idle_timeout_ns = config->idle_timeout_ns,
        .send_timeout_ns = config->send_timeout_ns,
        .connections_max = connections_max,
        .connections_per_ip_max = config->connections_per_ip_max,
        .routes = routes_table(&route_count),
        .route_count = route_count,
        .unknown_route_metrics_index = routes_unknown(),
        .context = service,
    };
    struct http *http = NULL;
    metrics_gauge_set(METRICS_CONNECTIONS_MAX, connections_max);
    page_begin(config);
    if (!http_create(&http, &options, fault))
        return false;
    const int64_t start_ns = clock_now_ns();
    const bool loaded = load_and_warm_up(service, &save, sandbox, fault);
    if (loaded) {
        log_line(LOG_INFO, "ready", LOG_NUMBER("ms", (double)(clock_now_ns() - start_ns) / 1e6));
        notify("READY=1");
        wait_for_end(service, http, signals);
        drain(service, http);
    }
    http_free(http);
    *saved = !loaded || !save.directory || session_save_write(&save, service->sessions);
    session_save_close(&save);
    return loaded;
}

/* To whom the daemon connects. */
static struct sandbox_peers peers_of(const struct service *service)
{
    const struct span_options *spans = &service->config->spans;
    const struct remote_address *addresses[SESSION_MOVE_TARGETS_MAX];
    const int count = session_mover_addresses(service->mover, addresses, SESSION_MOVE_TARGETS_MAX);
    struct sandbox_peers peers = { .count = 0 };
    if (spans->is_on) {
        peers.ports[peers.count++] = spans->port;
        peers.looks_up = spans->host_is_name;
    }
    for (int i = 0; i < count; i++) {
        peers.ports[peers.count++] = addresses[i]->port;
        peers.looks_up |= addresses[i]->host_is_name;
    }
    if (!service->spread)
        return peers;
    const struct spread_peers *others = spread_lines_peers(spread_home_lines(service->spread));
    for (int64_t i = 0; i < others->count; i++) {
        peers.ports[peers.count++] = others->peers[i].address.port;
        peers.looks_up |= others->peers[i].address.host_is_name;
    }
    return peers;
}

/* Gives up all files but those that a started daemon uses: what SIGHUP reads again, what clients
 * change, the Unix sockets, which its end removes, and what the resolver reads. */
static void leave_files(const struct service *service, const struct listeners *listeners,
                        struct sandbox *sandbox)
{
    enum { LISTED_MAX = 8 };
    const struct config *config = service->config;
    const struct sandbox_peers peers = peers_of(service);
    const bool changes = config->model_control == MODEL_CONTROL_EXPLICIT;
    struct sandbox_path paths[LISTED_MAX + LISTENERS_MAX] = {
        { config->models, changes ? SANDBOX_CHANGES : SANDBOX_READS, false },
        { config->keys, SANDBOX_READS, true },
        { config->tls_cert, SANDBOX_READS, true },
        { config->tls_key, SANDBOX_READS, true },
        { config->tls_client_ca, SANDBOX_READS, true },
        { config->shared_memory.count > 0 ? "/dev/shm" : NULL, SANDBOX_WRITES, false },
        { config->session_save, SANDBOX_CHANGES, false },
        { peers.looks_up ? "/etc/resolv.conf" : NULL, SANDBOX_READS, true }, /* and /etc/hosts */
    };
    for (int i = 0; i < listeners->count; i++)
        if (listeners->all[i].has_file)
            paths[LISTED_MAX + i] =
                (struct sandbox_path){ listener_file(&listeners->all[i]), SANDBOX_REMOVES, true };
    sandbox_leave_files(sandbox, paths, LISTED_MAX + LISTENERS_MAX, &peers);
}

/* The daemon may be in its own list of those that sessions move to. */
static void tell_own_ports(struct service *service, const struct listeners *listeners)
{
    for (int i = 0; service->mover && i < listeners->count; i++) {
        const char *port = strrchr(listeners->all[i].address, ':');
        if (!listeners->all[i].is_unix && port)
            session_mover_add_own_port(service->mover, (int)strtol(port + 1, NULL, 10));
    }
}

/* Listens, and then gives up what no thread may have: so it comes before any thread starts. */
static bool listen_and_leave_files(struct service *service, struct listeners *listeners,
                                   struct sandbox *sandbox, struct fault *fault)
{
    const struct config *config = service->config;
    if (config->sandbox && !sandbox_is_possible(fault))
        return false;
    if (!listeners_open(listeners, config, fault)
        || !session_mover_create(&service->mover, config, fault))
        return false;
    tell_own_ports(service, listeners);
    if (config->sandbox) {
        notify_keep();
        leave_files(service, listeners, sandbox);
    }
    return true;
}

static bool begin_spans(struct service *service, struct fault *fault)
{
    const struct span_options *options = &service->config->spans;
    if (!options->is_on)
        return true;
    log_line(LOG_INFO, "spans", LOG_STRING("host", options->host),
             LOG_NUMBER("port", options->port), LOG_STRING("target", options->target));
    return span_exporter_create(&service->spans, options, fault);
}

static bool begin_peers(struct service *service, struct fault *fault)
{
    return !service->spread || spread_lines_start(spread_home_lines(service->spread), fault);
}

/* What computes, and what stays between requests. False: no memory. */
static bool open_parts(struct service *service, int worker_count)
{
    const struct config *config = service->config;
    const struct region_prefixes prefixes = shared_memory_prefixes(config);
    blas_reserve(service->blas_use, scheduler_threads_max(worker_count));
    service->scheduler = scheduler_create(worker_count, config->queue_max, SERVICE_WORKSPACE_BYTES);
    service->kept = kept_store_create(config->trace_bytes_max);
    service->progress = progress_store_create();
    service->sessions =
        session_store_create(config->session_bytes_max, config->sessions_max, config->replica);
    if (prefixes.count > 0)
        service->regions = regions_create(&prefixes, config->memory_bytes_max);
    service->disk_jobs = scheduler_create(1, config->queue_max, 0);
    scheduler_set_number(service->disk_jobs, 1); /* the workers' is 0 */
    if (service->scheduler)
        service->batcher =
            batcher_create(service->scheduler, config->batch_rows_max, config->batch_delay_ns);
    const bool good = service->batcher && service->disk_jobs && service->kept && service->progress
                      && service->sessions && (service->regions || prefixes.count == 0);
    if (good && config->pin_workers)
        scheduler_pin_workers(service->scheduler);
    return good;
}

static void close_parts(struct service *service)
{
    scheduler_free(service->disk_jobs);
    scheduler_free(service->scheduler);
    batcher_free(service->batcher);
    kept_store_free(service->kept);
    progress_store_free(service->progress);
    session_store_free(service->sessions);
    spread_home_free(service->spread);
    regions_free(service->regions);
    model_store_free(service->store);
}

static int run(struct service *service)
{
    const struct config *config = service->config;
    const sigset_t signals = signals_of_interest();
    const int worker_count = workers_wanted(config);
    struct listeners listeners = { .count = 0 };
    struct sandbox sandbox;
    struct fault fault;
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write past the limit of file sizes then fails with EFBIG */
    if (config->keys || config->tls_key || config->peers
        || config->move_key) /* no core file, and no process of the user may trace it */
        prctl(PR_SET_DUMPABLE, 0);
    const bool listens = read_peers(service, &fault)
                         && listen_and_leave_files(service, &listeners, &sandbox, &fault);
    const bool logs = log_writer_start(log_dropped);
    open_files_raise();
    log_line(LOG_INFO, "starting", LOG_STRING("version", ATTND_VERSION),
             LOG_STRING("kernels", attn_kernels_name(service->kernels)),
             LOG_STRING("precision", attn_precision_name(config->precision)),
             LOG_STRING("blas_core", blas_core_name()),
             LOG_STRING("blas_computes", blas_use_name(service->blas_use)),
             LOG_NUMBER("workers", worker_count));
    log_line(LOG_INFO, "memory", LOG_NUMBER("bytes_max", config->memory_bytes_max),
             LOG_NUMBER("body_bytes_max", config->body_bytes_max));
    metrics_build_info(ATTND_VERSION, attn_kernels_name(service->kernels),
                       attn_precision_name(config->precision), blas_core_name(),
                       blas_use_name(service->blas_use));
    metrics_gauge_set(METRICS_WORKERS, worker_count);
    const bool has_parts = open_parts(service, worker_count);
    bool served = listens && service_open_keys(service, &fault)
                  && ((has_parts && logs) || fault_no_memory(&fault));
    served = served && begin_spans(service, &fault) && begin_peers(service, &fault);
    service_log_keys(service);
    bool saved = true;
    served =
        served
        && serve(service, &listeners, config->sandbox ? &sandbox : NULL, &signals, &saved, &fault);
    if (!served)
        fail("not started", &fault);
    span_exporter_free(service->spans);
    close_parts(service);
    session_mover_free(service->mover);
    access_keys_free(service->keys);
    listeners_close(&listeners);
    log_line(LOG_INFO, "stopped", LOG_NUMBER("status", served && saved ? 0 : 1));
    log_writer_stop();
    return served && saved ? 0 : 1;
}

/* -------------------------------------------------------------- attnd batch -- */

/* Process 1 of a container ignores a signal that it does not handle. What is finished stays. */
static void end_batch(int signal_number)
{
    _exit(128 + signal_number);
}

static int run_batch(struct service *service, const struct batch_options *options)
{
    const struct config *config = service->config;
    struct batch batch;
    struct fault fault;
    int status = BATCH_EXIT_ENDED;
    signal(SIGTERM, end_batch);
    signal(SIGINT, end_batch);
    signal(SIGXFSZ, SIG_IGN);
    if (!batch_open(&batch, options, config, &fault)) {
        fprintf(stderr, "attnd batch: %s\n", fault.message);
        return status;
    }
    service->repeats = true;
    if ((open_parts(service, workers_wanted(config)) || fault_no_memory(&fault))
        && load_models(service, model_report_log, &fault)) {
        cost_fit(service->kernels);
        atomic_store(&service->state, SERVICE_SERVING);
        if (attention_warm_up(service, &fault))
            status = batch_run(&batch, service, &fault);
    }
    if (status == BATCH_EXIT_ENDED)
        fprintf(stderr, "attnd batch: %s\n", fault.message);
    close_parts(service);
    batch_close(&batch);
    return fflush(stdout) == 0 ? status : BATCH_EXIT_ENDED;
}

/* Opens /dev/null in place of each standard stream that is closed. Otherwise the next descriptor,
 * perhaps a client's socket, takes the number of the stream and gets what is written to the stream,
 * such as log lines. */
static void open_standard_streams(void)
{
    int descriptor;
    do
        descriptor = open("/dev/null", O_RDWR);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor > STDERR_FILENO)
        close(descriptor);
}

/* What a daemon is told of the world around it. */
static bool check_surroundings(struct config *config, struct fault *fault)
{
    const struct region_prefixes prefixes = shared_memory_prefixes(config);
    return region_prefixes_check(&prefixes, fault) && config_replica_settle(config, fault)
           && config_otlp_settle(config, fault) && listen_reach_check(config, fault)
           && listen_collision_check_config(config, fault);
}

int main(int argc, char **argv)
{
    open_standard_streams();
    if (argc > 1 && strcmp(argv[1], "health") == 0)
        return health_command(argc, argv);
    if (argc > 1 && strcmp(argv[1], "model") == 0)
        return model_command(argc, argv);
    if (argc > 1 && strcmp(argv[1], "key") == 0)
        return key_command(argc, argv);

    struct config config;
    struct batch_options batch;
    struct service service = { .config = &config };
    struct fault fault;
    const bool is_batch = batch_is_asked(argc, argv);
    const enum config_outcome outcome = is_batch ? batch_options_read(&batch, &config, argc, argv)
                                                 : config_read(&config, argc, argv);
    if (outcome != CONFIG_RUN)
        return outcome == CONFIG_EXIT_OK ? 0 : is_batch ? BATCH_EXIT_USAGE : 1;
    const bool heap_was_set = restart_tune_heap();
    blas_core_select(argv);
    if (heap_was_set)
        restart(argv); /* blas_core_select() has not done so */
    log_configure(config.log_level, config.log_format);
    model_guard_install();
    fatal_signal_install();
    if (!service_choose_kernels(&service, &fault)
        || (!is_batch && !check_surroundings(&config, &fault))) {
        fail("not started", &fault);
        return 1;
    }
    config_memory_settle(&config);
    if (is_batch)
        return run_batch(&service, &batch);
    return config.check_config ? check_config(&service) : run(&service);
}
