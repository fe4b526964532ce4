/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - flags and environment, from one table that also prints --help.
 *
 * Every flag --some-name is also ATTND_SOME_NAME; the flag wins. Sizes take KiB
 * MiB GiB (or none: bytes), times ms s m h. */
#ifndef ATTND_CONFIG_H
#define ATTND_CONFIG_H

#include "attn.h"
#include "base/fault.h"
#include "telemetry/log.h"
#include "telemetry/trace_context.h"

enum { CONFIG_LIST_MAX = 8, CONFIG_REPLICA_MAX = 31 };

/* The values of a flag that may be repeated. */
struct config_list {
    const char *items[CONFIG_LIST_MAX];
    int count;
    bool is_set;   /* by flags or a variable: not the default */
    bool is_given; /* by flags; they replace those of the environment and the default */
};

enum config_model_control { MODEL_CONTROL_NONE, MODEL_CONTROL_EXPLICIT };

struct config {
    struct config_list listen;        /* "127.0.0.1:8080", "[::1]:0" */
    struct config_list allow_origin;  /* of pages that browsers may call the daemon from */
    struct config_list host;          /* further names that browsers may know it by */
    struct config_list admin_listen;  /* the operators' addresses; none: all are everybody's */
    struct config_list shared_memory; /* prefixes of keys; none: no shared memory */
    int unix_mode;                    /* of a Unix socket's file, as in chmod(2) */
    const char *unix_owner;           /* "USER", "USER:GROUP" or ":GROUP"; NULL: the process's */
    const char *keys;                 /* the keys' file; NULL: no request needs a key */
    const char *tls_cert, *tls_key;   /* both or none */
    const char *tls_client_ca;        /* or NULL; set only with both and with keys */
    const char *replica;              /* as given; NULL: not */
    char replica_name[CONFIG_REPLICA_MAX + 1]; /* of this daemon: config_replica_settle() */
    bool open;              /* without keys, too, it may listen where other machines reach it */
    bool explorer;          /* the page at / is served */
    const char *models;     /* --models DIR, or NULL */
    const char *model_name; /* or NULL */
    enum config_model_control model_control;
    bool models_strict;
    int workers; /* 0: what the cgroup grants */
    bool pin_workers;
    const char *kernels; /* NULL: the best */
    enum attn_precision precision;
    size_t body_bytes_max;
    size_t answer_bytes_max;
    size_t model_memory_bytes_max; /* 0: no limit */
    size_t trace_bytes_max;        /* of kept traces; 0: an eighth of what is granted */
    size_t session_bytes_max;      /* of all sessions; 0: a quarter of what is granted */
    int sessions_max;              /* how many there may be */
    const char *peers;             /* the file of daemons to spread sessions over; NULL: none */
    int64_t peer_ttl_ns;           /* of sessions there, from their last use or renewal on */
    const char *session_save;      /* the directory of sessions between two daemons; NULL: none */
    size_t memory_bytes_max;       /* of all requests in flight; 0: a half of what is granted */
    size_t compress_bytes_min;
    int queue_max;
    int batch_rows_max;        /* 1: requests share no products */
    int64_t batch_delay_ns;    /* 0: no request waits for others */
    int64_t queue_cost_ns_max; /* 0: the same as timeout_ns */
    int64_t timeout_ns;
    int64_t body_timeout_ns;
    int64_t idle_timeout_ns;
    int64_t send_timeout_ns;
    int64_t drain_delay_ns;
    int64_t drain_max_ns;
    struct config_list move_to; /* where the end moves sessions; none: nowhere */
    const char *move_key;       /* a file with the secret of a key there; NULL: none */
    const char *move_ca;        /* authorities in PEM; NULL: those of the system */
    int connections_max;
    int connections_per_ip_max; /* 0: no limit for one address */
    enum log_level log_level;
    enum log_format log_format;
    bool json_nonfinite_allowed;
    bool metrics_nv_aliases;
    const char *otlp_endpoint; /* NULL: variables of OpenTelemetry may name one */
    struct span_options spans; /* of config_otlp.h */
    bool sandbox;
    bool check_config;
};

enum config_outcome { CONFIG_RUN, CONFIG_EXIT_OK, CONFIG_EXIT_ERROR };

/* Reads the environment, then argv. --help and --version print and give CONFIG_EXIT_OK. Anything
 * unknown or out of range prints one line to stderr, which names the flag or variable, what came
 * and what was expected, and gives CONFIG_EXIT_ERROR. Strings are borrowed from argv and the
 * environment. */
enum config_outcome config_read(struct config *config, int argc, char **argv);

/* ---------------------------------------------------- left to the machine -- */

/* Sets what is not given from what the machine grants, and one budget for all requests
 * (memory_budget.h). Lowers the bound of one body so that it fits in. */
void config_memory_settle(struct config *config);

/* Sets config->replica_name, that of this daemon among its replicas: --replica, or else the first
 * label of the host's name, with "-" for what a name may not have. False, with the fault: --replica
 * is not a name. */
bool config_replica_settle(struct config *config, struct fault *fault);

#endif
