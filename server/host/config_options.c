/* SPDX-License-Identifier: Apache-2.0 */
/* config_options.c - see config_options.h.
 *
 * Defaults are text and are read like what a user types, so --help always shows the default that is
 * in force. */
#include "host/config_options.h"

#include "base/names.h"
#include "base/version.h"
#include "host/config.h"

#include <stdio.h>
#include <string.h>

#define FIELD(name) offsetof(struct config, name), sizeof(((struct config *)0)->name)
#ifdef __aarch64__
#define KERNELS "generic|neon_bf16"
#else
#define KERNELS "generic|avx2|avx512|avx512_vnni|avx512_bf16|amx"
#endif
#define GROUP(title)                                                                               \
    {                                                                                              \
        .name = "", .kind = CONFIG_GROUP, .value = "", .help = (title)                             \
    }

/* Units of the bounds. A small multiple of the largest size must still fit into a size_t. */
#define MS         ((int64_t)1000000)
#define DAY        ((int64_t)86400 * 1000 * MS)
#define BYTES_MOST ((int64_t)1 << 40)

const struct config_option CONFIG_OPTIONS[] = {
    GROUP("Set these first"),
    { "listen", CONFIG_LISTEN, "ADDR:PORT", "127.0.0.1:8080",
      "or unix:PATH; several; port 0: a free one", FIELD(listen), 0, 0 },
    { "keys", CONFIG_TEXT, "FILE", NULL, "who may do what, read again at SIGHUP; unset: all may",
      FIELD(keys), 0, 0 },
    { "models", CONFIG_TEXT, "DIR", NULL, "the models' directory; none: the built-in ones alone",
      FIELD(models), 0, 0 },
    { "memory-max", CONFIG_SIZE, "SIZE", NULL,
      "of all requests in flight; unset: half of what is granted", FIELD(memory_bytes_max), 1 << 20,
      BYTES_MOST },
    { "timeout", CONFIG_TIME, "TIME", "60s", "the longest a request may take", FIELD(timeout_ns),
      MS, DAY },
    GROUP("Who may connect"),
    { "admin-listen", CONFIG_LISTEN, "ADDR:PORT", NULL,
      "takes models, metrics and logging off --listen; several", FIELD(admin_listen), 0, 0 },
    { "unix-mode", CONFIG_MODE, "MODE", "0660", "who may connect to a Unix socket, octal",
      FIELD(unix_mode), 0, 0777 },
    { "unix-owner", CONFIG_TEXT, "USER:GROUP", NULL,
      "of a Unix socket; unset: who starts the daemon", FIELD(unix_owner), 0, 0 },
    { "tls-cert", CONFIG_TEXT, "FILE", NULL,
      "certificate or chain; all but unix sockets then speak TLS", FIELD(tls_cert), 0, 0 },
    { "tls-key", CONFIG_TEXT, "FILE", NULL, "its key; both are read again at SIGHUP",
      FIELD(tls_key), 0, 0 },
    { "tls-client-ca", CONFIG_TEXT, "FILE", NULL,
      "CA of clients, whose names are in --keys; unset: none asked", FIELD(tls_client_ca), 0, 0 },
    { "open", CONFIG_SWITCH, "", NULL, "listen without keys where other machines reach it",
      FIELD(open), 0, 0 },
    { "allow-origin", CONFIG_ORIGIN, "ORIGIN", NULL,
      "whose pages may ask, https://app.example; several, or *", FIELD(allow_origin), 0, 0 },
    { "host", CONFIG_HOST, "NAME", NULL, "an accepted Host name (against DNS rebinding); several",
      FIELD(host), 0, 0 },
    { "explorer", CONFIG_CHOICE, "off|on", "on", "the page at / that shows the maps",
      FIELD(explorer), 0, 0 },
    { "replica", CONFIG_TEXT, "NAME", NULL, "in Attnd-Replica and, if set, session ids",
      FIELD(replica), 0, 0 },
    GROUP("Models"),
    { "model-name", CONFIG_TEXT, "NAME", NULL, "its name, where DIR is itself one model",
      FIELD(model_name), 0, 0 },
    { "model-control", CONFIG_CHOICE, "none|explicit", "none",
      "whether clients may put and delete models", FIELD(model_control), 0, 0 },
    { "models-strict", CONFIG_SWITCH, "", NULL, "do not start where a model fails to load",
      FIELD(models_strict), 0, 0 },
    { "model-memory-max", CONFIG_SIZE, "SIZE", "0", "parameters converted to floats; 0: no limit",
      FIELD(model_memory_bytes_max), 0, BYTES_MOST },
    GROUP("Threads and kernels"),
    { "workers", CONFIG_INTEGER, "N", NULL, "threads that compute; unset: the CPUs granted",
      FIELD(workers), 1, 64 },
    { "pin-workers", CONFIG_SWITCH, "", NULL, "bind each worker to one CPU", FIELD(pin_workers), 0,
      0 },
    { "kernels", CONFIG_TEXT, KERNELS, NULL, "what computes attention; unset: the best",
      FIELD(kernels), 0, 0 },
    { "precision", CONFIG_CHOICE, "highest|high|medium", "highest",
      "of products in parts, unless a call or model says", FIELD(precision), 0, 0 },
    GROUP("Requests and answers"),
    { "body-max", CONFIG_SIZE, "SIZE", "64MiB", "the largest request body", FIELD(body_bytes_max),
      1, BYTES_MOST },
    { "answer-max", CONFIG_SIZE, "SIZE", "256MiB", "the largest answer", FIELD(answer_bytes_max), 1,
      BYTES_MOST },
    { "compress-min", CONFIG_SIZE, "SIZE", "1KiB",
      "the shortest answer that is compressed where asked", FIELD(compress_bytes_min), 0,
      BYTES_MOST },
    { "json-nonfinite", CONFIG_CHOICE, "reject|allow", "reject",
      "numbers in JSON that no float holds", FIELD(json_nonfinite_allowed), 0, 0 },
    GROUP("Memory that stays between requests"),
    { "trace-memory-max", CONFIG_SIZE, "SIZE", NULL,
      "of all kept traces; unset: an eighth of what is granted", FIELD(trace_bytes_max), 1,
      BYTES_MOST },
    { "session-memory-max", CONFIG_SIZE, "SIZE", NULL,
      "of all sessions; unset: a quarter of what is granted", FIELD(session_bytes_max), 1,
      BYTES_MOST },
    { "sessions-max", CONFIG_INTEGER, "N", "100000", "how many sessions there may be",
      FIELD(sessions_max), 1, 1000000 },
    { "session-save", CONFIG_TEXT, "DIR", NULL, "where the end writes sessions, for the next start",
      FIELD(session_save), 0, 0 },
    { "peers", CONFIG_TEXT, "FILE", NULL, "daemons that sessions may be spread over, with keys",
      FIELD(peers), 0, 0 },
    { "peer-ttl", CONFIG_TIME, "TIME", "2m",
      "how long a spread session's parts outlive this daemon", FIELD(peer_ttl_ns),
      (int64_t)3000 * MS, DAY },
    { "shared-memory-prefix", CONFIG_LIST, "PREFIX", NULL,
      "of keys in /dev/shm that clients register; several; /: all", FIELD(shared_memory), 0, 0 },
    GROUP("The queue"),
    { "queue-max", CONFIG_INTEGER, "N", "1024", "requests and items not done yet; more get 429",
      FIELD(queue_max), 1, 1000000 },
    { "queue-cost-max", CONFIG_TIME, "TIME", NULL,
      "limit of predicted work, of all workers; unset: --timeout", FIELD(queue_cost_ns_max), MS,
      DAY },
    { "batch-max", CONFIG_INTEGER, "N", "64",
      "rows of several requests projected together; 1: none", FIELD(batch_rows_max), 1, 4096 },
    { "batch-delay", CONFIG_TIME, "TIME", "0s",
      "how long a row waits for others to share a product", FIELD(batch_delay_ns), 0,
      (int64_t)60000 * MS },
    GROUP("Times and connections"),
    { "body-timeout", CONFIG_TIME, "TIME", "30s", "the longest a body may take to arrive",
      FIELD(body_timeout_ns), MS, DAY },
    { "idle-timeout", CONFIG_TIME, "TIME", "120s",
      "the longest a connection may be without a request", FIELD(idle_timeout_ns), MS, DAY },
    { "send-timeout", CONFIG_TIME, "TIME", "30s",
      "time in which a client has to read 1/64 of an answer", FIELD(send_timeout_ns), MS, DAY },
    { "drain-delay", CONFIG_TIME, "TIME", "0s", "how long SIGTERM still lets requests in",
      FIELD(drain_delay_ns), 0, DAY },
    { "drain-max", CONFIG_TIME, "TIME", "60s", "how long what was accepted may take after that",
      FIELD(drain_max_ns), 0, DAY },
    { "move-to", CONFIG_LIST, "URL", NULL, "where the end moves sessions, http://b:8080; several",
      FIELD(move_to), 0, 0 },
    { "move-key", CONFIG_TEXT, "FILE", NULL, "the secret of a key there; unset: none",
      FIELD(move_key), 0, 0 },
    { "move-ca", CONFIG_TEXT, "FILE", NULL, "CA of https:// there; unset: the system's",
      FIELD(move_ca), 0, 0 },
    { "connections-max", CONFIG_INTEGER, "N", "10000", "open connections", FIELD(connections_max),
      1, 1000000 },
    { "connections-per-ip-max", CONFIG_INTEGER, "N", "0",
      "open connections of one address; 0: no limit", FIELD(connections_per_ip_max), 0, 1000000 },
    GROUP("Log, metrics and sandbox"),
    { "log-level", CONFIG_CHOICE, "debug|info|warning|error", "info", "the least that is logged",
      FIELD(log_level), 0, 0 },
    { "log-format", CONFIG_CHOICE, "text|json", "text", "the form of a line", FIELD(log_format), 0,
      0 },
    { "metrics-nv-aliases", CONFIG_SWITCH, "", NULL,
      "/metrics also by Triton's names, nv_inference_*", FIELD(metrics_nv_aliases), 0, 0 },
    { "otlp-endpoint", CONFIG_TEXT, "URL", NULL,
      "where spans go, as http://127.0.0.1:4318; unset: OTEL_*", FIELD(otlp_endpoint), 0, 0 },
    { "sandbox", CONFIG_SWITCH, "", NULL, "give up the files and calls that serving needs no more",
      FIELD(sandbox), 0, 0 },
    GROUP("In place of serving"),
    { "check-config", CONFIG_SWITCH, "", NULL, "load everything, print what would be served, exit",
      FIELD(check_config), 0, 0 },
    { "version", CONFIG_PRINTS, "", NULL, "print the version", 0, 0, 0, 0 },
    { "help", CONFIG_PRINTS, "", NULL, "print this; so does -h", 0, 0, 0, 0 },
};

enum { OPTION_COUNT = sizeof CONFIG_OPTIONS / sizeof CONFIG_OPTIONS[0] };

const int CONFIG_OPTION_COUNT = OPTION_COUNT;

bool config_option_is_shown(const struct config_option *option)
{
    return option->kind != CONFIG_GROUP;
}

const struct config_option *config_option_find(const char *name, size_t length)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (CONFIG_OPTIONS[i].kind != CONFIG_GROUP && strlen(CONFIG_OPTIONS[i].name) == length
            && memcmp(CONFIG_OPTIONS[i].name, name, length) == 0)
            return &CONFIG_OPTIONS[i];
    return NULL;
}

const struct config_option *config_option_nearest(const char *name)
{
    const char *names[OPTION_COUNT];
    int count = 0;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (config_option_is_shown(&CONFIG_OPTIONS[i]))
            names[count++] = CONFIG_OPTIONS[i].name;
    const char *near = nearest_name(name, names, count);
    return near ? config_option_find(near, strlen(near)) : NULL;
}

bool config_help_asked(char **argv)
{
    for (int i = 1; argv[i]; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static void print_option(const struct config_option *option)
{
    char left[80];
    snprintf(left, sizeof left, "--%s %s", option->name, option->value);
    printf("  %-38s %s%s%s%s\n", left, option->help, option->initial ? " [" : "",
           option->initial ? option->initial : "", option->initial ? "]" : "");
}

void config_options_print_group(const char *title)
{
    bool is_in = false;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct config_option *option = &CONFIG_OPTIONS[i];
        if (option->kind == CONFIG_GROUP)
            is_in = strcmp(option->help, title) == 0;
        if (is_in && option->kind == CONFIG_GROUP)
            printf("\n%s:\n", title);
        else if (is_in)
            print_option(option);
    }
}

void config_options_print(void)
{
    printf(
        "attnd " ATTND_VERSION ": an attention service\n\n"
        "  attnd [FLAG]...            serve\n"
        "  attnd batch --out DIR FILE answer a file of requests without HTTP; --help says more\n"
        "  attnd model show PATH      what a file or checkpoint holds\n"
        "  attnd model new FLAGS FILE a model to begin with, from a seed; alone it says its flags\n"
        "  attnd key new NAME         a key, and its line for --keys; attnd key --help says more\n"
        "  attnd health [URL]         ask /readyz; exit 0 or 1\n");
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct config_option *option = &CONFIG_OPTIONS[i];
        if (option->kind == CONFIG_GROUP)
            printf("\n%s:\n", option->help);
        else
            print_option(option);
    }
    printf(
        "\nADDR is numeric, 0.0.0.0 and [::] are all of this machine's. localhost:PORT, :PORT and\n"
        "localhost, with port 8080, are 127.0.0.1 and [::1]: of this machine alone. An address\n"
        "that other machines reach takes --keys or --open.\n"
        "SIZE takes KiB, MiB, GiB or nothing for bytes; TIME takes ms, s, m or h. Each flag is\n"
        "also a variable: --body-max is ATTND_BODY_MAX, ATTND_LISTEN takes commas, a switch 1 or\n"
        "0. A flag wins.\n");
}
