/* SPDX-License-Identifier: Apache-2.0 */
/* test_tls_clients.c - certificates of clients: whose are taken, and which key they stand for. */
#include "answer.h"
#include "key_file.h"
#include "test.h"
#include "tls_daemon.h"

#include <signal.h>

static const struct key_line KEYS[] = {
    { "team-a", "- infer" }, { "team-b", "- infer,admin" },
    { "caller", "infer" },   { "old-team", "- infer expires=2020-01-01" },
    { NULL, NULL },
};

static const char LIST[] = "/v1/models", STATISTICS[] = "/metrics";

static int start(void **state)
{
    static char keys[256], ca[256];
    if (!tls_daemon_prepare())
        return 0;
    snprintf(keys, sizeof keys, "%s/keys", directory);
    snprintf(ca, sizeof ca, "%s/ca.pem", directory);
    key_file_write(keys, KEYS);
    tls_files_make_authority(directory, "ca");
    tls_files_make_authority(directory, "foreign");
    tls_files_make_client(directory, "ca", "team-a", "/CN=team-a", "clientAuth", 30);
    tls_files_make_client(directory, "ca", "team-b", "/O=us/CN=team-b/OU=there", "clientAuth", 30);
    tls_files_make_client(directory, "ca", "unknown", "/CN=unknown", "clientAuth", 30);
    tls_files_make_client(directory, "ca", "old-team", "/CN=old-team", "clientAuth", 30);
    tls_files_make_client(directory, "ca", "two", "/CN=team-a/CN=team-b", "clientAuth", 30);
    tls_files_make_client(directory, "ca", "nameless", "/O=team-a", "clientAuth", 30);
    tls_files_make_client(directory, "ca", "expired", "/CN=team-a", "clientAuth", -1);
    tls_files_make_client(directory, "ca", "for-servers", "/CN=team-a", "serverAuth", 30);
    tls_files_make_client(directory, "foreign", "stranger", "/CN=team-a", "clientAuth", 30);
    tls_daemon_start("--keys", keys, "--tls-client-ca", ca, NULL);
    return 0;
}

static int stop(void **state)
{
    tls_daemon_stop();
    return 0;
}

/* The status of an answer to a client that shows this certificate (NULL: none) and sends this key
 * (NULL: none) on a connection of its own; 0: the handshake fails. */
static long status_of(const char *certificate, const char *key, const char *path)
{
    char certificate_path[256], key_path[256];
    struct http_client_tls tls = { .ca = tls_client.ca };
    struct http_client caller;
    snprintf(certificate_path, sizeof certificate_path, "%s/%s.pem", directory, certificate);
    snprintf(key_path, sizeof key_path, "%s/%s-key.pem", directory, certificate);
    if (certificate) {
        tls.certificate = certificate_path;
        tls.key = key_path;
    }
    http_client_init(&caller, server.port);
    caller.tls = &tls;
    struct http_response response =
        key_send(&caller, key, &(struct http_request){ .path = path }, NULL);
    const long status = response.status;
    http_response_free(&response);
    http_client_free(&caller);
    return status;
}

TEST(matrix)
{
    tls_files_need();
    static const struct {
        const char *certificate, *key, *path;
        long status;
    } CASES[] = {
        { NULL, NULL, "/livez", 200 },           { NULL, NULL, LIST, 401 },
        { NULL, "caller", LIST, 200 },           { NULL, "nobody", LIST, 401 },
        { NULL, "team-a", LIST, 401 }, /* the line has no hash */
        { "team-a", NULL, LIST, 200 },           { "team-a", NULL, STATISTICS, 403 },
        { "team-b", NULL, LIST, 200 },           { "team-b", NULL, STATISTICS, 200 },
        { "team-b", "caller", STATISTICS, 403 }, /* the key in the headers counts */
        { "team-a", "nobody", LIST, 401 },       { "unknown", NULL, "/livez", 200 },
        { "unknown", NULL, LIST, 401 },          { "unknown", "caller", LIST, 200 },
        { "old-team", NULL, LIST, 401 },         { "two", NULL, LIST, 401 },
        { "nameless", NULL, LIST, 401 },         { "expired", NULL, "/livez", 0 },
        { "expired", "caller", LIST, 0 },        { "for-servers", NULL, "/livez", 0 },
        { "stranger", NULL, "/livez", 0 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const long status = status_of(CASES[i].certificate, CASES[i].key, CASES[i].path);
        if (status != CASES[i].status)
            fail_msg("%s with key %s at %s: %ld", CASES[i].certificate, CASES[i].key, CASES[i].path,
                     status);
    }
}

/* The alert tells the client what is wrong, in both versions; the log tells the operator. */
TEST(alerts)
{
    tls_files_need();
    static const struct {
        const char *certificate, *alert, *reason;
    } CASES[] = {
        { "expired", "alert certificate expired", "expired" },
        { "stranger", "alert unknown ca", "issuer is unknown" },
        { "for-servers", "alert bad certificate", "purpose" },
    };
    for (int version = 2; version <= 3; version++)
        for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
            char *command = NULL;
            assert_true(asprintf(&command,
                                 "cd %s && sleep 1 | openssl s_client -tls1_%d -connect "
                                 "127.0.0.1:%d -cert %s.pem -key %s-key.pem 2>&1 | grep -q '%s'",
                                 directory, version, server.port, CASES[i].certificate,
                                 CASES[i].certificate, CASES[i].alert)
                        > 0);
            if (system(command) != 0)
                fail_msg("no \"%s\" by TLS 1.%d", CASES[i].alert, version);
            free(command);
            free(daemon_log_with(&server, CASES[i].reason));
        }
}

/* Each connection shows its certificate anew: no session goes on by a ticket. */
TEST(no_tickets)
{
    tls_files_need();
    char *command = NULL;
    assert_true(asprintf(&command,
                         "cd %s && for i in 1 2; do { printf 'GET /livez HTTP/1.1\\r\\nHost: "
                         "x\\r\\n\\r\\n'; sleep 0.3; } | openssl s_client -connect 127.0.0.1:%d "
                         "-cert team-a.pem -key team-a-key.pem $(test -e session && echo -sess_in "
                         "session) -sess_out session; done 2>&1 | grep -q '^Reused'",
                         directory, server.port)
                > 0);
    assert_int_not_equal(system(command), 0);
    free(command);
}

/* From SIGHUP on, handshakes ask the new authority. A connection that is open stays what it is. */
TEST(new_authority)
{
    tls_files_need();
    static const char REQUEST[] = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
    char certificate[256], key[256];
    snprintf(certificate, sizeof certificate, "%s/team-a.pem", directory);
    snprintf(key, sizeof key, "%s/team-a-key.pem", directory);
    struct tls_tunnel kept;
    assert_true(
        tls_tunnel_open(&kept, server.port,
                        &(struct tls_tunnel_options){ .certificate = certificate, .key = key }));
    tls_files_openssl(directory, "x509 -in foreign.pem -out ca.pem");
    kill(server.pid, SIGHUP);
    const double until = daemon_now() + 10 * daemon_slowness();
    while (status_of("stranger", NULL, LIST) != 200 && daemon_now() < until)
        daemon_pause(0.01);
    assert_int_equal(status_of("stranger", NULL, LIST), 200);
    assert_int_equal(status_of("team-a", NULL, LIST), 0);
    assert_true(http_raw_send_text(&kept.raw, REQUEST));
    struct http_response response = http_raw_receive(&kept.raw, 10 * daemon_slowness());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    tls_tunnel_close(&kept);
}

ALL_TESTS(start, stop);
