/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_line.c - flags, environment, addresses, and the other commands of the program. */
#include "answer.h"
#include "daemon.h"
#include "model_bytes.h"
#include "test.h"

#include <signal.h>
#include <unistd.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});

static const char *const OPEN[] = { "ATTND_OPEN=1", NULL };

static struct daemon server;

static const char *const FLAGS[] = {
    "--listen",          "--open",
    "--models",          "--model-name",
    "--model-control",   "--models-strict",
    "--workers",         "--kernels",
    "--body-max",        "--answer-max",
    "--queue-max",       "--queue-cost-max",
    "--timeout",         "--body-timeout",
    "--drain-delay",     "--drain-max",
    "--connections-max", "--connections-per-ip-max",
    "--log-level",       "--log-format",
    "--json-nonfinite",  "--check-config",
    "--explorer",        "--host",
    "--version",         "--help",
};

TEST(help_and_version)
{
    struct daemon_result result = daemon_command((const char *const[]){ "--help", NULL }, NULL);
    assert_int_equal(result.exit_code, 0);
    for (size_t i = 0; i < sizeof(FLAGS) / sizeof(FLAGS[0]); i++)
        if (!strstr(result.output, FLAGS[i]))
            fail_msg("--help does not name %s", FLAGS[i]);
    assert_non_null(strstr(result.output, "64MiB"));
    daemon_result_free(&result);
    result = daemon_command((const char *const[]){ "--version", NULL }, NULL);
    assert_int_equal(result.exit_code, 0);
    assert_true(strncmp(result.output, "attnd ", 6) == 0);
    daemon_result_free(&result);
}

/* The daemon refuses the value at once, with a line that names the fault. */
static void expect_refused(const char *flag, const char *value, const char *word)
{
    const char *const arguments[] = {
        "--listen", "127.0.0.1:0", "--check-config", flag, value, NULL
    };
    struct daemon_result result = daemon_command(arguments, NULL);
    if (result.exit_code <= 0 || result.exit_code >= 126 || !strstr(result.errors, word))
        fail_msg("%s %s ended with %d, without \"%s\": %s%s", flag, value ? value : "",
                 result.exit_code, word, result.output, result.errors);
    daemon_result_free(&result);
}

TEST(bad_flags)
{
    expect_refused("--nonsense", NULL, "--nonsense");
    expect_refused("--body-mx", "1", "--body-max");
    expect_refused("--Workers", "1", "--workers");
    expect_refused("words", NULL, "words");
    expect_refused("-x", NULL, "-x");
    expect_refused("--workers", NULL, "--workers");
    expect_refused("--models-strict=yes", NULL, "--models-strict");
    static const struct {
        const char *flag;
        const char *values[8];
    } bad[] = {
        { "--workers", { "-1", "x", "1.5", "", "2x", "99999999999999999999" } },
        { "--kernels", { "avx1024", "", "AVX2" } },
        { "--body-max", { "x", "-1", "1XiB", "1.5.5", "", "99999999999GiB", "MiB" } },
        { "--answer-max", { "ten", "-5MiB" } },
        { "--queue-max", { "0", "-1", "many", "1KiB" } },
        { "--queue-cost-max", { "0", "-1", "1e9", "30", "1KiB" } },
        { "--timeout", { "10x", "-1s", "s", "", "1e3" } },
        { "--body-timeout", { "soon" } },
        { "--drain-delay", { "-1ms", "later" } },
        { "--connections-max", { "0", "x" } },
        { "--log-level", { "loud", "" } },
        { "--log-format", { "xml" } },
        { "--json-nonfinite", { "maybe" } },
        { "--model-control", { "both" } },
    };
    expect_refused("--kernels=sse", NULL,
#ifdef __aarch64__
                   "no kernels 'sse'; expected generic|neon_bf16");
#else
                   "no kernels 'sse'; expected generic|avx2|avx512|avx512_vnni|avx512_bf16|amx");
#endif
    expect_refused("--memory-max", "1KiB", "64MiB, from 1MiB to 1024GiB");
    expect_refused("--compress-min=-1", NULL, "64MiB, from 0 to 1024GiB");
    expect_refused("--batch-delay", "61s", "ms, s, m or h as in 500ms, from 0s to 60s");
    expect_refused("--models", "examples/models/stories260K/config.json",
                   "Not a directory; give the folder that the file is in");
    for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++)
        for (int v = 0; v < 8 && bad[b].values[v]; v++)
            expect_refused(bad[b].flag, bad[b].values[v], bad[b].flag + 2);
}

/* A file that cannot be read is named with the flag that asks for it. */
TEST(files_that_are_none)
{
    static const char *const cases[][2] = {
        { "--peers=/nowhere/at/all", "attnd: --peers: /nowhere/at/all: No such file" },
        { "--peers=/dev/null", "--peers: /dev/null: is not a regular file; expected one\n" },
        { "--move-key=/nowhere/at/all", "attnd: --move-key: /nowhere/at/all: No such file" },
        { "--move-ca=/nowhere/at/all", "attnd: --move-ca: /nowhere/at/all: no certificate" },
        { "--keys=/nowhere/at/all", "attnd: --keys: /nowhere/at/all: No such file" },
        { "--session-save=/nowhere/at/all", "attnd: --session-save: '/nowhere/at/all': No such" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const arguments[] = { "--listen",  "127.0.0.1:0",
                                          "--move-to", "https://[::1]",
                                          cases[i][0], "--check-config",
                                          NULL };
        struct daemon_result result = daemon_command(arguments, NULL);
        if (result.exit_code != 1 || !strstr(result.errors, cases[i][1]))
            fail_msg("%s ended with %d: %s", cases[i][0], result.exit_code, result.errors);
        daemon_result_free(&result);
    }
}

/* The daemon refuses a flag that the contract has and this build lacks; it does not ignore it. */
TEST(flags_of_later)
{
    static const char *const flags[][2] = {
        { "--tls-cert", "cert" },
        { "--tls-key", "key" },
        { "--cors-origin", "*" },
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        expect_refused(flags[i][0], flags[i][1], flags[i][0]);
}

static long status_of(int port, size_t body_size)
{
    struct http_client client;
    char *body = malloc(body_size + 1);
    memset(body, ' ', body_size);
    body[body_size] = '\0';
    memcpy(body, GOOD, sizeof(GOOD) - 1);
    http_client_init(&client, port);
    struct http_response response = http_client_post(&client, PATH, body);
    long status = response.status;
    http_response_free(&response);
    http_client_free(&client);
    free(body);
    return status;
}

/* Whether the running daemon's environment has the line. */
static bool has_variable(const struct daemon *daemon, const char *line)
{
    char path[64], variables[65536];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)daemon->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t size = fread(variables, 1, sizeof(variables) - 1, file);
    fclose(file);
    variables[size] = '\0';
    for (const char *p = variables; p < variables + size; p += strlen(p) + 1)
        if (strcmp(p, line) == 0)
            return true;
    return false;
}

TEST(environment)
{
    const char *const environment[] = { "ATTND_BODY_MAX=1KiB", "ATTND_LISTEN=127.0.0.1:0",
                                        "ATTND_LOG_FORMAT=json", NULL };
    daemon_start(&server,
                 &(struct daemon_options){ .environment = environment, .listen_count = 1 });
    assert_int_equal(status_of(server.port, 1024), 200);
    assert_int_equal(status_of(server.port, 1025), 413);
    char *log = daemon_log(&server);
    assert_true(*log == '{');
    free(log);
    daemon_stop(&server);

    const char *const arguments[] = { "--body-max=2KiB", "--log-format", "text", NULL };
    daemon_start(&server,
                 &(struct daemon_options){ .environment = environment, .arguments = arguments });
    assert_int_equal(status_of(server.port, 2048), 200);
    assert_int_equal(status_of(server.port, 2049), 413);
    daemon_stop(&server);

    static const char *const bad[][2] = { { "ATTND_BODY_MAX=lots", "ATTND_BODY_MAX" },
                                          { "ATTND_NONSENSE=1", "ATTND_NONSENSE" },
                                          { "ATTND_API_KEYS=file", "ATTND_API_KEYS" },
                                          { "ATTND_WORKERS=-1", "ATTND_WORKERS" },
                                          { "ATTND_MODELS_STRICT=maybe", "ATTND_MODELS_STRICT" } };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct daemon_result result =
            daemon_command((const char *const[]){ "--check-config", NULL },
                           (const char *const[]){ bad[i][0], NULL });
        if (result.exit_code <= 0 || !strstr(result.errors, bad[i][1]))
            fail_msg("%s ended with %d: %s", bad[i][0], result.exit_code, result.errors);
        daemon_result_free(&result);
    }
}

/* malloc() reads it before main(): the daemon sets it and starts again, or keeps the user's. */
TEST(heap)
{
    static const char own[] = "GLIBC_TUNABLES=glibc.malloc.tcache_count=64";
    static const char users[] = "GLIBC_TUNABLES=glibc.malloc.tcache_count=9";
    const char *const environment[] = { users, NULL };
    unsetenv("GLIBC_TUNABLES");
    daemon_start(&server, NULL);
    assert_true(has_variable(&server, own));
    daemon_stop(&server);
    daemon_start(&server, &(struct daemon_options){ .environment = environment });
    assert_true(has_variable(&server, users));
    assert_false(has_variable(&server, own));
    daemon_stop(&server);
}

/* ------------------------------------------------------------------- addresses -- */

TEST(several_addresses)
{
    const char *const arguments[] = { "--listen", "127.0.0.1:0", "--listen=127.0.0.1:0",
                                      "--listen", "0.0.0.0:0",   NULL };
    daemon_start(&server, &(struct daemon_options){
                              .arguments = arguments, .environment = OPEN, .listen_count = 3 });
    for (int i = 0; i < 3; i++) {
        assert_int_equal(status_of(server.ports[i], 100), 200);
        assert_true(i == 0 || server.ports[i] != server.ports[i - 1]);
    }
    daemon_stop(&server);
    const char *const environment[] = { "ATTND_LISTEN=127.0.0.1:0,127.0.0.1:0", NULL };
    daemon_start(&server,
                 &(struct daemon_options){ .environment = environment, .listen_count = 2 });
    assert_int_equal(status_of(server.ports[0], 100), 200);
    assert_int_equal(status_of(server.ports[1], 100), 200);
    daemon_stop(&server);
}

TEST(port_in_use)
{
    daemon_start(&server, NULL);
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%d", server.port);
    struct daemon_result result =
        daemon_command((const char *const[]){ "--listen", address, NULL }, NULL);
    assert_int_equal(result.exit_code, 1);
    if (!strstr(result.errors, address))
        fail_msg("%s is not named: %s", address, result.errors);
    daemon_result_free(&result);
    /* The message names the address and port, because a host name alone does not say which address
     * is taken. */
    snprintf(address, sizeof(address), "localhost:%d", server.port);
    result = daemon_command((const char *const[]){ "--listen", address, NULL }, NULL);
    snprintf(address, sizeof(address), "127.0.0.1:%d", server.port);
    if (!strstr(result.errors, address))
        fail_msg("%s is not named: %s", address, result.errors);
    daemon_result_free(&result);
    assert_int_equal(status_of(server.port, 100), 200);
    daemon_stop(&server);
    /* The port is free again at once: a new daemon does not wait for old connections. */
    const char *const arguments[] = { "--listen", address, NULL };
    daemon_start(&server, &(struct daemon_options){ .arguments = arguments, .listen_count = 1 });
    assert_int_equal(status_of(server.port, 100), 200);
    daemon_stop(&server);
}

/* The last two addresses collide with the second address of each command. */
TEST(bad_addresses)
{
    static const char second[] = "--listen=127.0.0.1:9195";
    static const char *const addresses[] = {
        "",
        "8080",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:65536",
        "[::1",
        "[::1]",
        "*:0",
        "nowhere.invalid:80",
        "127.0.0.1:-1",
        "0:0",
        "127.1:0",
        "[localhost]:0",
        "203.0.113.7:0",
        "localhost:9195",
        "0.0.0.0:9195",
    };
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        struct daemon_result result =
            daemon_command((const char *const[]){ "--listen", addresses[i], second, NULL }, OPEN);
        struct daemon_result checked = daemon_command(
            (const char *const[]){ "--check-config", "--listen", addresses[i], second, NULL },
            OPEN);
        if (result.exit_code <= 0 || strlen(result.errors) < 10)
            fail_msg("--listen '%s' ended with %d: %s", addresses[i], result.exit_code,
                     result.errors);
        if (checked.exit_code != 1 || strlen(checked.errors) < 10)
            fail_msg("--check-config takes --listen '%s': %d: %s", addresses[i], checked.exit_code,
                     checked.errors);
        daemon_result_free(&result);
        daemon_result_free(&checked);
    }
}

/* The port of the first address in the log that begins with host. */
static int port_of(const char *log, const char *host)
{
    const char *found = strstr(log, host);
    return found ? atoi(found + strlen(host)) : 0;
}

static void expect_usage(const char *const *arguments, const char *words)
{
    struct daemon_result result = daemon_command(arguments, NULL);
    if (result.exit_code != 0 || !strstr(result.output, words))
        fail_msg("%s: %d, '%s', '%s'", words, result.exit_code, result.output, result.errors);
    assert_string_equal(result.errors, "");
    daemon_result_free(&result);
}

TEST(kernels)
{
    daemon_start_with(&server, "--kernels", "generic", NULL);
    assert_int_equal(status_of(server.port, 100), 200);
    struct http_client client;
    http_client_init(&client, server.port);
    struct http_response response = http_client_get(&client, "/metrics");
    assert_non_null(strstr(response.body, "kernels=\"generic\""));
    http_response_free(&response);
    http_client_free(&client);
    daemon_stop(&server);
}

/* The health check takes the address from its argument, or from the daemon's own setting. */
TEST(health_command)
{
    daemon_start(&server, NULL);
    char url[64], listen[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
    snprintf(listen, sizeof(listen), "ATTND_LISTEN=0.0.0.0:%d", server.port);
    struct daemon_result result =
        daemon_command((const char *const[]){ "health", url, NULL }, NULL);
    assert_int_equal(result.exit_code, 0);
    daemon_result_free(&result);
    result = daemon_command((const char *const[]){ "health", NULL },
                            (const char *const[]){ listen, NULL });
    assert_int_equal(result.exit_code, 0);
    daemon_result_free(&result);
    daemon_stop(&server);
    result = daemon_command((const char *const[]){ "health", url, NULL }, NULL);
    assert_int_equal(result.exit_code, 1);
    daemon_result_free(&result);
}

/* A configuration is valid while a daemon runs with it. */
TEST(check_config_beside_a_daemon)
{
    char address[64];
    daemon_start(&server, NULL);
    snprintf(address, sizeof address, "127.0.0.1:%d", server.port);
    struct daemon_result result =
        daemon_command((const char *const[]){ "--check-config", "--listen", address, NULL }, NULL);
    assert_int_equal(result.exit_code, 0);
    daemon_result_free(&result);
    daemon_stop(&server);
}

/* The daemon listens on the loopback of both families, on one port, and on nothing else. */
TEST(localhost)
{
    static const char *const addresses[] = { "localhost:0", ":0" };
    for (int i = 0; i < 2; i++) {
        const char *const arguments[] = { "--listen", addresses[i], NULL };
        daemon_start(&server,
                     &(struct daemon_options){ .arguments = arguments, .listen_count = 1 });
        char *log = daemon_log(&server);
        const int port = port_of(log, "=127.0.0.1:"), other = port_of(log, "[::1]:");
        assert_int_equal(port, server.ports[0]);
        if (other == 0)
            print_message("    there is no ::1 here\n");
        assert_true(other == 0 || other == port);
        assert_null(strstr(log, "0.0.0.0"));
        assert_null(strstr(log, "[::]"));
        free(log);
        assert_int_equal(status_of(port, 100), 200);
        char variable[64];
        snprintf(variable, sizeof variable, "ATTND_LISTEN=%s:%d", i == 0 ? "localhost" : "", port);
        struct daemon_result result = daemon_command((const char *const[]){ "health", NULL },
                                                     (const char *const[]){ variable, NULL });
        if (result.exit_code != 0)
            fail_msg("health of %s: %s", variable, result.errors);
        daemon_result_free(&result);
        daemon_stop(&server);
    }
}

TEST(help_of_commands)
{
    expect_usage((const char *const[]){ "-h", NULL }, "--listen");
    expect_usage((const char *const[]){ "health", "--help", NULL }, "attnd health [URL]");
    expect_usage((const char *const[]){ "health", "-h", NULL }, "attnd health [URL]");
    expect_usage((const char *const[]){ "model", "--help", NULL }, "attnd model show");
    expect_usage((const char *const[]){ "model", "new", "--help", NULL }, "  --seed S ");
    expect_usage((const char *const[]){ "model", "new", "-h", NULL }, "--force");
    expect_usage((const char *const[]){ "model", "show", "--help", NULL }, "attnd model show");
}

/* With closed standard streams the log goes nowhere: not into a socket that got their number. */
TEST(closed_streams)
{
    char command[600], link[64], path[64];
    const char *program = getenv("ATTND");
    char *words = daemon_directory_create();
    snprintf(command, sizeof command,
             "exec 3>'%s/pid'; env -i '%s' --listen 127.0.0.1:0 0<&- 1>&- 2>&- 3>&- & echo $! >&3",
             words, program && *program ? program : "build/attnd");
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/pid", words);
    FILE *file = fopen(path, "r");
    int pid = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    const double until = daemon_now() + 10 * daemon_slowness();
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, i);
        do { /* until the program has begun, the process is the shell's */
            const ssize_t size = readlink(path, link, sizeof link - 1);
            link[size > 0 ? size : 0] = '\0';
            daemon_pause(0.01);
        } while (strcmp(link, "/dev/null") != 0 && daemon_now() < until);
        assert_string_equal(link, "/dev/null");
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    daemon_directory_remove(words);
}

/* The directory of models is gone. The log says that the models were not read again. It says that
 * they were only after the directory has come back, with one model more. */
TEST(failed_reload)
{
    char moved[512];
    char *directory = daemon_directory_create();
    struct model_bytes file = model_bytes_demo(2, "");
    snprintf(moved, sizeof moved, "%s-moved", directory);
    daemon_start_with(&server, "--models", directory, NULL);
    assert_int_equal(rename(directory, moved), 0);
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    free(daemon_log_with(&server, "models not read again"));
    daemon_directory_write(moved, "late.safetensors", file.data, file.size);
    assert_int_equal(rename(moved, directory), 0);
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    char *log = daemon_log_with(&server, "model loaded");
    *strstr(log, "model loaded") = '\0';
    assert_null(strstr(log, " models read again"));
    free(log);
    free(daemon_log_with(&server, " models read again"));
    daemon_stop(&server);
    free(file.data);
    daemon_directory_remove(directory);
}

static int clear(void **state)
{
    daemon_kill(&server);
    return 0;
}

EACH_TEST(NULL, clear);
