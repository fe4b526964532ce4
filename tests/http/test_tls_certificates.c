/* SPDX-License-Identifier: Apache-2.0 */
/* test_tls_certificates.c - the files of TLS: wrong ones at the start, new and wrong ones at SIGHUP
 * while requests go on, and sessions that go on with earlier ones. */
#include "answer.h"
#include "test.h"
#include "tls_daemon.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static int start(void **state)
{
    tls_daemon_prepare();
    return 0;
}

static int stop(void **state)
{
    daemon_kill(&server);
    daemon_directory_remove(directory);
    return 0;
}

static void replace(const char *name, const char *by)
{
    char from[256], to[256];
    snprintf(from, sizeof from, "%s/%s", directory, by);
    snprintf(to, sizeof to, "%s/%s", directory, name);
    assert_int_equal(rename(from, to), 0);
}

static void write_file(const char *name, const char *text)
{
    daemon_directory_write(directory, name, text, strlen(text));
}

/* ------------------------------------------------------------------ at the start -- */

/* The daemon, and --check-config, must refuse the files in these words. */
static void expect_refused(const char *certificate, const char *key, const char *words)
{
    char certificate_path[256], key_path[256];
    snprintf(certificate_path, sizeof certificate_path, "%s/%s", directory, certificate);
    snprintf(key_path, sizeof key_path, "%s/%s", directory, key);
    for (int checks = 0; checks < 2; checks++) {
        const char *arguments[] = { "--listen",
                                    "127.0.0.1:0",
                                    "--tls-cert",
                                    certificate_path,
                                    "--tls-key",
                                    key_path,
                                    checks ? "--check-config" : NULL,
                                    NULL };
        struct daemon_result result = daemon_command(arguments, NULL);
        assert_int_equal(result.exit_code, 1);
        if (!strstr(result.errors, words))
            fail_msg("no \"%s\" in: %s", words, result.errors);
        daemon_result_free(&result);
    }
}

static void set_mode_of_key(mode_t mode)
{
    char path[256];
    snprintf(path, sizeof path, "%s/server-key.pem", directory);
    assert_int_equal(chmod(path, mode), 0);
}

TEST(bad_files)
{
    tls_files_need();
    tls_files_make_server(directory, "other", TLS_FILES_EC);
    tls_files_openssl(directory, "pkey -in server-key.pem -aes256 -passout pass:x -out locked.pem");
    tls_files_openssl(directory,
                      "ec -in server-key.pem -aes256 -passout pass:x -out locked-old.pem");
    tls_files_openssl(directory, "x509 -in server.pem -outform DER -out server.der");
    write_file("empty.pem", "");
    write_file("text.pem", "a certificate\n");
    write_file("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    expect_refused("none.pem", "server-key.pem", "none.pem: No such file or directory");
    expect_refused("server.pem", "none.pem", "--tls-key");
    expect_refused("server.pem", "none.pem", "none.pem: No such file or directory");
    expect_refused(".", "server-key.pem", "is not a regular file");
    expect_refused("empty.pem", "server-key.pem",
                   "empty.pem: holds no chain of certificates in PEM");
    expect_refused("text.pem", "server-key.pem", "text.pem: holds no chain of certificates in PEM");
    expect_refused("cut.pem", "server-key.pem", "cut.pem: holds no chain of certificates in PEM");
    expect_refused("server.der", "server-key.pem", "server.der: holds no chain of certificates");
    expect_refused("server-key.pem", "server-key.pem", "holds no chain of certificates in PEM");
    expect_refused("server.pem", "server.pem", "holds no private key in PEM");
    expect_refused("server.pem", "text.pem", "text.pem: holds no private key in PEM");
    expect_refused("server.pem", "locked.pem", "locked.pem: the key is encrypted");
    expect_refused("server.pem", "locked-old.pem", "locked-old.pem: the key is encrypted");
    expect_refused("server.pem", "other-key.pem", "is not the key of the certificate in");
    set_mode_of_key(0666);
    expect_refused("server.pem", "server-key.pem",
                   "server-key.pem: others may write it (mode 0666); expected none to, chmod o-w");
    set_mode_of_key(0600);
}

/* A key that others may read is taken, as a Secret of Kubernetes is mounted, and the log says so.
 */
TEST(modes)
{
    tls_files_need();
    char certificate[256], key[256];
    snprintf(certificate, sizeof certificate, "%s/server.pem", directory);
    snprintf(key, sizeof key, "%s/server-key.pem", directory);
    for (unsigned mode = 0640; mode <= 0644; mode += 4) {
        const char *const arguments[] = { "--listen",  "127.0.0.1:0", "--tls-cert",     certificate,
                                          "--tls-key", key,           "--check-config", NULL };
        set_mode_of_key(mode);
        struct daemon_result result = daemon_command(arguments, NULL);
        assert_int_equal(result.exit_code, 0);
        assert_int_equal(strstr(result.errors, "warning key of TLS readable by others") != NULL,
                         mode == 0644);
        daemon_result_free(&result);
    }
    set_mode_of_key(0600);
}

/* RSA, Ed25519, a chain, and a certificate and its key in one file. */
TEST(good_files)
{
    tls_files_need();
    char pair[2 * 256];
    tls_files_make_server(directory, "rsa", "rsa:2048");
    tls_files_make_server(directory, "ed25519", "ed25519");
    tls_files_make_server(directory, "server", TLS_FILES_EC);
    tls_files_make_authority(directory, "root");
    tls_files_make_client(directory, "root", "leaf", "/CN=localhost", "serverAuth", 30);
    snprintf(pair, sizeof pair,
             "cd %s && cat leaf.pem root.pem >chain.pem && cp leaf-key.pem "
             "chain-key.pem && cat server-key.pem server.pem >both.pem && cp "
             "both.pem both-key.pem",
             directory);
    assert_int_equal(system(pair), 0);
    static const char *const NAMES[] = { "rsa", "ed25519", "chain", "both" };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        struct tls_tunnel tunnel;
        char certificate[256], key[256];
        snprintf(certificate, sizeof certificate, "%s/%s.pem", directory, NAMES[i]);
        snprintf(key, sizeof key, "%s/%s-key.pem", directory, NAMES[i]);
        const char *const arguments[] = { "--tls-cert", certificate, "--tls-key", key, NULL };
        daemon_start(&server,
                     &(struct daemon_options){ .arguments = arguments, .may_not_be_ready = true });
        assert_true(tls_tunnel_open(&tunnel, server.port, NULL));
        tls_tunnel_close(&tunnel);
        daemon_stop(&server);
    }
}

/* ---------------------------------------------------------------- while it serves -- */

/* Sends SIGHUP and waits for a line of the log about it. */
static void reload(const char *event)
{
    char *before = daemon_log(&server);
    const size_t length = strlen(before);
    const double until = daemon_now() + 10 * daemon_slowness();
    free(before);
    kill(server.pid, SIGHUP);
    for (bool found = false; !found; daemon_pause(0.002)) {
        char *log = daemon_log(&server);
        found = strstr(log + length, event) != NULL;
        free(log);
        if (daemon_now() > until)
            fail_msg("no \"%s\" in the log", event);
    }
}

static void note_serial(char serial[64])
{
    struct tls_tunnel tunnel;
    assert_true(tls_tunnel_open(&tunnel, server.port, NULL));
    memcpy(serial, tunnel.serial, sizeof tunnel.serial);
    tls_tunnel_close(&tunnel);
}

static void make_next_pair(const char *key)
{
    tls_files_make_server(directory, "next", key);
    replace("server.pem", "next.pem");
    replace("server-key.pem", "next-key.pem");
}

/* Clients that send requests as long as they are told to: every second one on a new connection. */
struct sender {
    pthread_t thread;
    _Atomic bool *ends;
    int answered, failed;
};

static void *send_requests(void *context)
{
    struct sender *sender = context;
    static const char PARTS[] = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    while (!atomic_load(sender->ends)) {
        struct tls_tunnel tunnel;
        if (!tls_tunnel_open(&tunnel, server.port, NULL)) {
            sender->failed++;
            continue;
        }
        for (int i = 0; i < 2; i++) {
            http_raw_send_text(&tunnel.raw, PARTS);
            struct http_response response = http_raw_receive(&tunnel.raw, 10 * daemon_slowness());
            *(response.status == 200 ? &sender->answered : &sender->failed) += 1;
            http_response_free(&response);
        }
        tls_tunnel_close(&tunnel);
    }
    return NULL;
}

TEST(reload_under_load)
{
    tls_files_need();
    enum { SENDERS = 3, RELOADS = 20 };
    struct sender senders[SENDERS] = { 0 };
    _Atomic bool ends = false;
    struct tls_tunnel kept;
    char before[64], now[64];
    tls_daemon_start(NULL);
    note_serial(before);
    assert_true(tls_tunnel_open(&kept, server.port, NULL));
    for (int i = 0; i < SENDERS; i++) {
        senders[i].ends = &ends;
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_requests, &senders[i]), 0);
    }
    for (int i = 0; i < RELOADS; i++) {
        make_next_pair(i % 4 == 3 ? "rsa:2048" : TLS_FILES_EC);
        reload("certificate file=");
        note_serial(now);
        assert_string_not_equal(before, now);
        memcpy(before, now, sizeof now);
    }
    atomic_store(&ends, true);
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].thread, NULL);
        assert_int_equal(senders[i].failed, 0);
        assert_true(senders[i].answered > 0);
    }
    assert_true(http_raw_send_text(&kept.raw, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
    struct http_response response = http_raw_receive(&kept.raw, 10 * daemon_slowness());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    tls_tunnel_close(&kept);
    fixture_stop(NULL);
}

TEST(wrong_reload)
{
    tls_files_need();
    char before[64], now[64];
    tls_daemon_start(NULL);
    note_serial(before);
    static const struct {
        const char *name, *text, *words;
    } CASES[] = {
        { "server.pem", "nothing", "holds no chain of certificates" },
        { "server-key.pem", "nothing", "holds no private key" },
        { "server.pem", NULL, "No such file or directory" },
        { "server.pem", "", "holds no chain of certificates" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char path[256], kept[256];
        snprintf(path, sizeof path, "%s/%s", directory, CASES[i].name);
        snprintf(kept, sizeof kept, "%s/kept", directory);
        assert_int_equal(rename(path, kept), 0);
        if (CASES[i].text)
            write_file(CASES[i].name, CASES[i].text);
        reload("certificate not read again");
        free(daemon_log_with(&server, CASES[i].words));
        note_serial(now);
        assert_string_equal(before, now);
        assert_int_equal(rename(kept, path), 0);
    }
    reload("certificate file=");
    tls_files_make_server(directory, "next", TLS_FILES_EC);
    replace("server-key.pem", "next-key.pem");
    reload("is not the key of the certificate");
    replace("server.pem", "next.pem");
    reload("certificate file=");
    note_serial(now);
    assert_string_not_equal(before, now);
    fixture_stop(NULL);
}

/* ------------------------------------------------------------------- resumption -- */

/* Whether openssl's client went on with the session of its call before. */
static bool resumes(const char *version)
{
    char *command = NULL;
    assert_true(asprintf(&command,
                         "cd %s && { printf 'GET /livez HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'; sleep "
                         "0.3; } | openssl s_client %s -connect 127.0.0.1:%d $(test -e session && "
                         "echo -sess_in session) -sess_out session 2>&1 | grep -q '^Reused'",
                         directory, version, server.port)
                > 0);
    const int status = system(command);
    free(command);
    return status == 0;
}

/* A session goes on until the certificate is read again. */
TEST(resumption)
{
    tls_files_need();
    static const char *const VERSIONS[] = { "-tls1_3", "-tls1_2" };
    char session[256];
    snprintf(session, sizeof session, "%s/session", directory);
    tls_daemon_start(NULL);
    for (int i = 0; i < 2; i++) {
        unlink(session);
        assert_false(resumes(VERSIONS[i]));
        assert_true(resumes(VERSIONS[i]));
        make_next_pair(TLS_FILES_EC);
        reload("certificate file=");
        assert_false(resumes(VERSIONS[i]));
        assert_true(resumes(VERSIONS[i]));
    }
    fixture_stop(NULL);
}

ALL_TESTS(start, stop);
