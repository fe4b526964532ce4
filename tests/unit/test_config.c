/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c - flags and variables: defaults, kinds of value, refusals: a line with the flag. */
#include "base/version.h"
#include "capture.h"
#include "host/config.h"
#include "host/config_options.h"
#include "host/config_value.h"
#include "test.h"

#include <unistd.h>

enum { ARGUMENTS_MAX = 24 };

/* Reads words as the arguments. Single spaces separate them. */
static enum config_outcome read_words(struct config *config, const char *words)
{
    static char text[1024]; /* config borrows from it */
    char *argv[ARGUMENTS_MAX] = { "attnd" };
    int argc = 1;
    assert_true(strlen(words) < sizeof text);
    strcpy(text, words);
    char *rest = text;
    for (char *word = strsep(&rest, " "); word && word[0]; word = strsep(&rest, " ")) {
        assert_true(argc < ARGUMENTS_MAX - 1);
        argv[argc++] = word;
    }
    return config_read(config, argc, argv);
}

static void assert_accepted(struct config *config, const char *words)
{
    struct capture capture;
    capture_begin(&capture, STDERR_FILENO);
    const enum config_outcome outcome = read_words(config, words);
    char *printed = capture_end(&capture, NULL);
    assert_string_equal(printed, "");
    assert_int_equal(outcome, CONFIG_RUN);
    free(printed);
}

/* It is refused, with exactly this behind "attnd: ". */
static void assert_refused(const char *words, const char *message)
{
    struct config config;
    struct capture capture;
    char expected[512];
    capture_begin(&capture, STDERR_FILENO);
    const enum config_outcome outcome = read_words(&config, words);
    char *printed = capture_end(&capture, NULL);
    snprintf(expected, sizeof expected, "attnd: %s\n", message);
    assert_string_equal(printed, expected);
    assert_int_equal(outcome, CONFIG_EXIT_ERROR);
    free(printed);
}

static void assert_variable_refused(const char *name, const char *value, const char *message)
{
    setenv(name, value, 1);
    assert_refused("", message);
    unsetenv(name);
}

TEST(defaults)
{
    struct config config;
    memset(&config, 0x5a, sizeof config);
    assert_accepted(&config, "");
    assert_int_equal(config.listen.count, 1);
    assert_string_equal(config.listen.items[0], "127.0.0.1:8080");
    assert_int_equal(config.unix_mode, 0660);
    assert_null(config.unix_owner);
    assert_null(config.keys);
    assert_true(!config.open && config.explorer);
    assert_null(config.models);
    assert_null(config.peers);
    assert_int_equal(config.peer_ttl_ns, 120000000000);
    assert_null(config.model_name);
    assert_int_equal(config.model_control, MODEL_CONTROL_NONE);
    assert_false(config.models_strict);
    assert_false(config.sandbox);
    assert_int_equal(config.workers, 0);
    assert_true(config.kernels == NULL && config.precision == ATTN_PRECISION_HIGHEST);
    assert_int_equal(config.body_bytes_max, 64 << 20);
    assert_int_equal(config.compress_bytes_min, 1024);
    assert_int_equal(config.model_memory_bytes_max, 0);
    assert_int_equal(config.answer_bytes_max, 256 << 20);
    assert_int_equal(config.queue_max, 1024);
    assert_int_equal(config.timeout_ns, 60000000000);
    assert_int_equal(config.body_timeout_ns, 30000000000);
    assert_int_equal(config.idle_timeout_ns, 120000000000);
    assert_int_equal(config.send_timeout_ns, 30000000000);
    assert_int_equal(config.memory_bytes_max, 0);
    assert_int_equal(config.drain_delay_ns, 0);
    assert_int_equal(config.drain_max_ns, 60000000000);
    assert_int_equal(config.connections_max, 10000);
    assert_int_equal(config.connections_per_ip_max, 0);
    assert_int_equal(config.log_level, LOG_INFO);
    assert_int_equal(config.log_format, LOG_TEXT);
    assert_false(config.json_nonfinite_allowed || config.check_config || config.otlp_endpoint);
}

TEST(every_flag)
{
    struct config config;
    assert_accepted(&config, "--models /m --model-name one --model-control explicit --workers 64 "
                             "--models-strict --kernels avx2 --body-max 1KiB --queue-max 7 "
                             "--answer-max=2GiB --compress-min 1GiB --shared-memory-prefix=/ "
                             "--precision=medium");
    assert_string_equal(config.shared_memory.items[0], "/");
    assert_string_equal(config.models, "/m");
    assert_string_equal(config.model_name, "one");
    assert_int_equal(config.model_control, MODEL_CONTROL_EXPLICIT);
    assert_true(config.models_strict);
    assert_true(config.workers == 64 && config.precision == ATTN_PRECISION_MEDIUM);
    assert_string_equal(config.kernels, "avx2");
    assert_int_equal(config.body_bytes_max, 1024);
    assert_int_equal(config.answer_bytes_max, (size_t)2 << 30);
    assert_int_equal(config.compress_bytes_min, 1 << 30);
    assert_int_equal(config.queue_max, 7);
    assert_accepted(&config, "--peers /p --peer-ttl 3s");
    assert_string_equal(config.peers, "/p");
    assert_int_equal(config.peer_ttl_ns, 3000000000);
    assert_accepted(&config, "--timeout=1ms --body-timeout 2s --drain-delay 1500ms --drain-max 0 "
                             "--connections-max 1 --connections-per-ip-max 3 --log-level error "
                             "--log-format json --json-nonfinite allow --check-config");
    assert_int_equal(config.timeout_ns, 1000000);
    assert_int_equal(config.body_timeout_ns, 2000000000);
    assert_int_equal(config.drain_delay_ns, 1500000000);
    assert_int_equal(config.drain_max_ns, 0);
    assert_int_equal(config.connections_max, 1);
    assert_int_equal(config.connections_per_ip_max, 3);
    assert_int_equal(config.log_level, LOG_ERROR);
    assert_int_equal(config.log_format, LOG_JSON);
    assert_true(config.json_nonfinite_allowed);
    assert_true(config.check_config);
    assert_accepted(&config, "--keys /k --open --explorer off --otlp-endpoint http://c:4318");
    assert_string_equal(config.keys, "/k");
    assert_true(config.open && !config.explorer && config.otlp_endpoint);
    assert_accepted(&config, "--log-level debug --log-level warning --models=--odd=name");
    assert_int_equal(config.log_level, LOG_WARNING);
    assert_string_equal(config.models, "--odd=name");
}

TEST(listen)
{
    struct config config;
    assert_accepted(&config, "--listen [::1]:0 --listen=0.0.0.0:65535");
    assert_int_equal(config.listen.count, 2);
    assert_string_equal(config.listen.items[0], "[::1]:0");
    assert_string_equal(config.listen.items[1], "0.0.0.0:65535");
    setenv("ATTND_LISTEN", "127.0.0.1:1,[::]:2,127.0.0.1:3", 1);
    assert_accepted(&config, "");
    assert_string_equal(getenv("ATTND_LISTEN"), "127.0.0.1:1,[::]:2,127.0.0.1:3");
    assert_int_equal(config.listen.count, 3);
    assert_string_equal(config.listen.items[0], "127.0.0.1:1");
    assert_string_equal(config.listen.items[1], "[::]:2");
    assert_string_equal(config.listen.items[2], "127.0.0.1:3");
    assert_accepted(&config, "--listen 127.0.0.1:9");
    assert_int_equal(config.listen.count, 1);
    assert_string_equal(config.listen.items[0], "127.0.0.1:9");
    unsetenv("ATTND_LISTEN");
    static const char EXPECTED[] = "expected an IPv4 address as in 127.0.0.1:8080, an IPv6 "
                                   "address as in [::1]:8080, or localhost:8080";
    static const char *const BROKEN[] = {
        "127.0.0.1",      "127.0.0.1:",    "local:",    ":65536",         ":-1",
        ":80x",           "8080",          ":1,:2",     ":080808",        ":+1",
        ":0x10",          ":99999999999",  "*:80",      "[*]:80",         "0:80",
        "127.1:80",       "2130706433:80", "0x7f.1:80", "127.0.0.01:80",  "::1:80",
        "[localhost]:80", "[]:80",         "[::1%]:80", "[127.0.0.1]:80", "[:::1]:80",
        "local.host:80",  "localhost.:80", "[::1:80",   "::1]:80",        "256.0.0.1:80",
    };
    for (size_t i = 0; i < sizeof BROKEN / sizeof BROKEN[0]; i++) {
        char words[64], message[256];
        snprintf(words, sizeof words, "--listen %s", BROKEN[i]);
        snprintf(message, sizeof message, "--listen: '%s' came; %s", BROKEN[i], EXPECTED);
        assert_refused(words, message);
    }
    assert_accepted(&config, "--listen unix:/run/attnd.sock --listen=unix:@attnd --unix-mode 600 "
                             "--unix-owner 7:8");
    assert_int_equal(config.listen.count, 2);
    assert_int_equal(config.unix_mode, 0600);
    assert_string_equal(config.unix_owner, "7:8");
    assert_refused("--listen :1 --listen :2 --listen :3 --listen :4 --listen :5 "
                   "--listen :6 --listen :7 --listen :8 --listen :9",
                   "--listen: more than 8 addresses");
    char message[256];
    snprintf(message, sizeof message, "ATTND_LISTEN: '' came; %s", EXPECTED);
    assert_variable_refused("ATTND_LISTEN", ":1,,:2", message);
    assert_accepted(&config, "--listen LOCALHOST --listen LocalHost:80 --listen :81 "
                             "--listen [fe80::1%lo]:82 --listen [::FFFF:127.0.0.1]:83");
    assert_int_equal(config.listen.count, 5);
    char *many = calloc(1, 4097);
    assert_non_null(many);
    memset(many, 'a', 4096);
    assert_variable_refused("ATTND_LISTEN", many,
                            "ATTND_LISTEN: more than 1023 bytes of addresses");
    free(many);
}

/* Pages' origins and hosts' names: kept as they are typed, and refused where they have no form. */
TEST(browsers)
{
    static const char *const ORIGINS[] = { "app.example",           "https://app.example/",
                                           "https://*.app.example", "null",
                                           "file:///page.html",     "https://user@app.example" };
    static const char *const HOSTS[] = { "https://attnd.example", "attnd.example/", "*" };
    char words[100], message[400];
    struct config config;
    assert_accepted(&config, "--allow-origin HTTPS://App.example:443 --allow-origin=* --host "
                             "attnd.example:8443 --host [::1]");
    assert_int_equal(config.allow_origin.count, 2);
    assert_string_equal(config.allow_origin.items[0], "HTTPS://App.example:443");
    assert_string_equal(config.allow_origin.items[1], "*");
    assert_int_equal(config.host.count, 2);
    assert_string_equal(config.host.items[0], "attnd.example:8443");
    for (size_t i = 0; i < sizeof ORIGINS / sizeof ORIGINS[0]; i++) {
        snprintf(words, sizeof words, "--allow-origin %s", ORIGINS[i]);
        snprintf(message, sizeof message,
                 "--allow-origin: '%s' came; expected an origin as in https://app.example or "
                 "http://localhost:3000, without a path, or * for the pages of all origins",
                 ORIGINS[i]);
        assert_refused(words, message);
    }
    for (size_t i = 0; i < sizeof HOSTS / sizeof HOSTS[0]; i++) {
        snprintf(words, sizeof words, "--host %s", HOSTS[i]);
        snprintf(message, sizeof message,
                 "--host: '%s' came; expected the name of a host as in attnd.example, without a "
                 "scheme or a path",
                 HOSTS[i]);
        assert_refused(words, message);
    }
    assert_refused("--keys /k --allow-origin https://a.example --allow-origin *",
                   "--allow-origin: '*' came together with --keys; expected the origins whose "
                   "pages may use a key, as in https://app.example");
    assert_accepted(&config, "--keys /k --allow-origin https://a.example");
    setenv("ATTND_ALLOW_ORIGIN", "https://a.example,https://b.example", 1);
    assert_accepted(&config, "");
    assert_int_equal(config.allow_origin.count, 2);
    unsetenv("ATTND_ALLOW_ORIGIN");
    assert_variable_refused("ATTND_ALLOW_ORIGIN", "https://a.example,",
                            "ATTND_ALLOW_ORIGIN: '' came; expected an origin as in "
                            "https://app.example or http://localhost:3000, without a path, or * "
                            "for the pages of all origins");
}

TEST(values_refused)
{
    static const char WORKERS[] = "came; expected an integer, from 1 to 64";
    static const char SIZE[] = "came; expected bytes, or KiB, MiB or GiB as in 64MiB, from 1 to "
                               "1024GiB";
    static const char TIME[] = "came; expected ms, s, m or h as in 500ms, from 1ms to 24h";
    static const struct {
        const char *flag, *value, *expected;
    } CASES[] = {
        { "--workers", "0", WORKERS },
        { "--workers", "65", WORKERS },
        { "--workers", "-1", WORKERS },
        { "--workers", "two", WORKERS },
        { "--workers", "1.5", WORKERS },
        { "--workers", "1k", WORKERS },
        { "--body-max", "0", SIZE },
        { "--body-max", "64MB", SIZE },
        { "--body-max", "64Mib", SIZE },
        { "--body-max", "MiB", SIZE },
        { "--body-max", "1.5GiB", SIZE },
        { "--body-max", "1025GiB", SIZE },
        { "--body-max", "9223372036854775808", SIZE },
        { "--body-max", "9007199254740993KiB", SIZE },
        { "--timeout", "60", TIME },
        { "--timeout", "0s", TIME },
        { "--timeout", "1us", TIME },
        { "--timeout", "86401s", TIME },
        { "--timeout", "9223372036854775s", TIME },
        { "--log-level", "inf", "came; expected debug|info|warning|error" },
        { "--log-format", "text|json", "came; expected text|json" },
        { "--explorer", "no", "came; expected off|on" },
        { "--model-control", "poll", "came; expected none|explicit" },
        { "--json-nonfinite", "1", "came; expected reject|allow" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char words[128], message[256];
        snprintf(words, sizeof words, "%s %s", CASES[i].flag, CASES[i].value);
        snprintf(message, sizeof message, "%s: '%s' %s", CASES[i].flag, CASES[i].value,
                 CASES[i].expected);
        assert_refused(words, message);
        snprintf(words, sizeof words, "%s=%s", CASES[i].flag, CASES[i].value);
        assert_refused(words, message);
    }
    assert_refused("--body-max", "--body-max: needs a value: SIZE");
    assert_refused("--body-max=", "--body-max: needs a value: SIZE");
    assert_refused("--body-max --workers 2", "--body-max: needs a value: SIZE");
    assert_refused("--check-config=yes", "--check-config: takes no value, and 'yes' came");
    assert_refused("--models-strict=1", "--models-strict: takes no value, and '1' came");
}

TEST(names_refused)
{
    assert_refused("--body-mx 1", "--body-mx: there is no such flag; the nearest is --body-max");
    assert_refused("--timout=1s", "--timout: there is no such flag; the nearest is --timeout");
    assert_refused("--qqqqqqqqqqqq", "--qqqqqqqqqqqq: there is no such flag; --help lists them");
    assert_refused("--=x", "--: there is no such flag; --help lists them");
    static const char COMMANDS[] = "is neither a command (batch, health, key, model) nor a flag";
    static const struct {
        const char *given, *said;
    } WORDS[] = {
        { "heath", "did you mean health?" },
        { "modl", "did you mean model?" },
        { "bach", "did you mean batch?" },
        { "help", "did you mean --help?" },
        { "serve", "flags begin with --, --help lists both" },
    };
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        char message[160];
        snprintf(message, sizeof message, "%s: %s; %s", WORDS[i].given, COMMANDS, WORDS[i].said);
        assert_refused(WORDS[i].given, message);
    }
    assert_refused("-v", "-v: is not a flag; flags begin with --, --help lists them");
    assert_refused("--check-config 1", "1: is not a flag; flags begin with --, --help lists them");
    assert_refused("--api-keys x", "--api-keys: there is no such flag; --help lists them");
    assert_refused("--cors-origin x", "--cors-origin: there is no such flag; --help lists them");
}

TEST(variables)
{
    struct config config;
    setenv("ATTND_BODY_MAX", "5MiB", 1);
    setenv("ATTND_DRAIN_DELAY", "5s", 1);
    setenv("ATTND_CONNECTIONS_PER_IP_MAX", "2", 1);
    setenv("ATTND_LOG_FORMAT", "json", 1);
    setenv("ATTND_MODELS", "/mnt/models", 1);
    assert_accepted(&config, "--body-max 6MiB");
    assert_int_equal(config.body_bytes_max, 6 << 20);
    assert_int_equal(config.drain_delay_ns, 5000000000);
    assert_int_equal(config.connections_per_ip_max, 2);
    assert_int_equal(config.log_format, LOG_JSON);
    assert_string_equal(config.models, "/mnt/models");
    setenv("ATTND_BODY_MAX", "", 1);
    assert_accepted(&config, "");
    assert_int_equal(config.body_bytes_max, 64 << 20);
    unsetenv("ATTND_BODY_MAX");
    unsetenv("ATTND_DRAIN_DELAY");
    unsetenv("ATTND_CONNECTIONS_PER_IP_MAX");
    unsetenv("ATTND_LOG_FORMAT");
    unsetenv("ATTND_MODELS");
    static const struct {
        const char *text;
        bool value;
    } SWITCHES[] = { { "1", true }, { "0", false }, { "true", true }, { "false", false } };
    for (size_t i = 0; i < sizeof SWITCHES / sizeof SWITCHES[0]; i++) {
        setenv("ATTND_CHECK_CONFIG", SWITCHES[i].text, 1);
        assert_accepted(&config, "");
        assert_int_equal(config.check_config, SWITCHES[i].value);
    }
    assert_accepted(&config, "--check-config");
    assert_true(config.check_config);
    unsetenv("ATTND_CHECK_CONFIG");
}

TEST(variables_refused)
{
    assert_variable_refused("ATTND_CHECK_CONFIG", "yes",
                            "ATTND_CHECK_CONFIG: 'yes' came; expected 1, 0, true or false");
    assert_variable_refused("ATTND_WORKERS", "0",
                            "ATTND_WORKERS: '0' came; expected an integer, from 1 to 64");
    assert_variable_refused("ATTND_API_KEYS", "/k",
                            "ATTND_API_KEYS: there is no such variable; --help lists the flags");
    assert_variable_refused("ATTND_BODYMAX", "1",
                            "ATTND_BODYMAX: there is no such variable; the nearest is "
                            "ATTND_BODY_MAX");
    assert_variable_refused("ATTND_QQQQQQQQQQQQ", "1",
                            "ATTND_QQQQQQQQQQQQ: there is no such variable; --help lists the "
                            "flags");
    assert_variable_refused("ATTND_HELP", "1",
                            "ATTND_HELP: there is no such variable; --help lists the flags");
}

/* A variable that Kubernetes adds for a Service is not an error. The same name with a value that
 * a person would write is one. */
TEST(service_links)
{
    static const char *const LINKS[][2] = {
        { "ATTND_SERVICE_HOST", "10.0.0.1" },
        { "ATTND_SERVICE_PORT", "8080" },
        { "ATTND_SERVICE_PORT_HTTP", "8080" },
        { "ATTND_PORT", "tcp://10.0.0.1:8080" },
        { "ATTND_PORT_8080_TCP", "tcp://10.0.0.1:8080" },
        { "ATTND_PORT_8080_TCP_ADDR", "10.0.0.1" },
        { "ATTND_PORTAL_PORT_80_TCP_PROTO", "tcp" },
    };
    struct config config;
    for (size_t i = 0; i < sizeof LINKS / sizeof LINKS[0]; i++) {
        setenv(LINKS[i][0], LINKS[i][1], 1);
        assert_accepted(&config, "");
        unsetenv(LINKS[i][0]);
    }
    assert_variable_refused("ATTND_PORT", "9000",
                            "ATTND_PORT: there is no such variable; --help lists the flags");
}

TEST(help_and_version)
{
    struct config config;
    struct capture capture;
    capture_begin(&capture, STDOUT_FILENO);
    const enum config_outcome version = read_words(&config, "--version");
    char *printed = capture_end(&capture, NULL);
    assert_int_equal(version, CONFIG_EXIT_OK);
    assert_string_equal(printed, "attnd " ATTND_VERSION "\n");
    free(printed);
    setenv("ATTND_WORKERS", "broken", 1);
    capture_begin(&capture, STDOUT_FILENO);
    const enum config_outcome help = read_words(&config, "--body-max --help");
    printed = capture_end(&capture, NULL);
    unsetenv("ATTND_WORKERS");
    assert_int_equal(help, CONFIG_EXIT_OK);
    for (int i = 0; i < CONFIG_OPTION_COUNT; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "  --%s ", CONFIG_OPTIONS[i].name);
        assert_int_equal(!!strstr(printed, flag), config_option_is_shown(&CONFIG_OPTIONS[i]));
    }
    assert_non_null(strstr(printed, "[64MiB]"));
    for (const char *line = printed; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    free(printed);
}

TEST(values)
{
    int64_t value = -5;
    assert_true(config_value_size("9223372036854775807", &value));
    assert_int_equal(value, INT64_MAX);
    assert_false(config_value_size("9223372036854775808", &value));
    assert_false(config_value_time("9223372037s", &value));
    assert_true(config_value_time("007ms", &value));
    assert_int_equal(value, 7000000);
    value = 3;
    assert_false(config_value_integer("", &value));
    assert_false(config_value_integer(" 1", &value));
    assert_false(config_value_size("", &value));
    assert_false(config_value_time("", &value));
    assert_int_equal(value, 3);
    assert_int_equal(config_value_choice("b", "a|b|c"), 1);
    assert_int_equal(config_value_choice("c", "a|b|c"), 2);
    assert_int_equal(config_value_choice("", "a|b|c"), -1);
    assert_int_equal(config_value_choice("a|b", "a|b|c"), -1);
}

TEST(tls)
{
    struct config config;
    assert_refused("--tls-cert c.pem", "--tls-cert: there is no --tls-key; TLS takes both");
    assert_refused("--tls-key k.pem", "--tls-key: there is no --tls-cert; TLS takes both");
    assert_refused("--tls-client-ca ca.pem",
                   "--tls-client-ca: there is no --tls-cert and --tls-key; only a client that "
                   "comes by TLS can show a certificate");
    assert_refused("--tls-cert c.pem --tls-key k.pem --tls-client-ca ca.pem",
                   "--tls-client-ca: there are no --keys; a client's certificate names one of "
                   "their lines");
    assert_int_equal(read_words(&config, "--tls-cert c.pem --tls-key k.pem --tls-client-ca ca.pem "
                                         "--keys keys"),
                     CONFIG_RUN);
    assert_string_equal(config.tls_cert, "c.pem");
    assert_string_equal(config.tls_key, "k.pem");
    assert_string_equal(config.tls_client_ca, "ca.pem");
}

static int forget_variables(void **state)
{
    for (char **entry = environ; *entry;) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(name, "ATTND_", 6) == 0 && unsetenv(name) == 0)
            entry = environ;
        else
            entry++;
    }
    return 0;
}

ALL_TESTS(forget_variables, NULL);
