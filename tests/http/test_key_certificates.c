/* SPDX-License-Identifier: Apache-2.0 */
/* test_key_certificates.c - a client's certificate in place of a key: its common name is the name
 * of a key. The certificates are openssl's, and the client is curl. */
#include "fixture.h"
#include "key_file.h"
#include "skip.h"
#include "test.h"

#include <signal.h>

static const struct key_line KEYS[] = {
    { "robot", "- infer:demo" },
    { "both", "metrics" },
    { "old", "- admin expires=2020-01-31" },
    { NULL, NULL },
};

/* Runs a shell command in the directory. */
static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
    char command[1000], whole[1400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof whole, "cd '%s' && { %s; } >>commands.log 2>&1", directory, command);
    if (system(whole) != 0)
        fail_msg("%s", whole);
}

/* A certificate that the authority has signed for a client; its files are NAME.pem and NAME.key. */
static void make_client(const char *name)
{
    run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=%s' "
        "-keyout %s.key -out %s.csr && printf 'extendedKeyUsage=clientAuth' >client.ext && "
        "openssl x509 -req -in %s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile client.ext -out %s.pem",
        name, name, name, name, name);
}

static void make_certificates(void)
{
    static const char *const CLIENTS[] = { "robot", "both", "old", "stranger" };
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        "-subj /CN=authority -keyout ca.key -out ca.pem");
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout own.key -out own.pem");
    for (int i = 0; i < 4; i++)
        make_client(CLIENTS[i]);
}

/* Asks for path with the certificate of a client and a header; NULL: without. The answer must have
 * this status, and says in its body. */
static void expect(const char *name, const char *key, const char *path, int status,
                   const char *says)
{
    char certificate[100] = "", header[200] = "";
    if (name)
        snprintf(certificate, sizeof certificate, "--cert %s.pem --key %s.key", name, name);
    if (key)
        snprintf(header, sizeof header, "-H 'X-Api-Key: %s'", key_secret(key));
    run("echo \"%s %s %s\"; s=$(curl -sS -o answer -w '%%{http_code}' --cacert own.pem %s %s "
        "https://127.0.0.1:%d%s); echo $s; cat answer; test $s = %d && grep -q -- '%s' answer",
        name ? name : "-", key ? key : "-", path, certificate, header, server.port, path, status,
        says);
}

static void start_daemon(void)
{
    char own[256], key[256], authority[256], keys[256];
    snprintf(own, sizeof own, "%s", fixture_path("own.pem"));
    snprintf(key, sizeof key, "%s", fixture_path("own.key"));
    snprintf(authority, sizeof authority, "%s", fixture_path("ca.pem"));
    snprintf(keys, sizeof keys, "%s", fixture_path("keys"));
    key_file_write(keys, KEYS);
    const char *const arguments[] = { "--tls-cert", own,      "--tls-key", key, "--tls-client-ca",
                                      authority,    "--keys", keys,        NULL };
    daemon_start(&server,
                 &(struct daemon_options){ .arguments = arguments, .may_not_be_ready = true });
    free(daemon_log_with(&server, " ready "));
}

TEST(names)
{
    skip_without("openssl", "openssl version");
    skip_without("curl", "curl --version");
    make_certificates();
    start_daemon();
    expect(NULL, NULL, "/readyz", 200, "ready");
    expect(NULL, NULL, "/v1/models", 401, "a key is needed");
    expect("robot", NULL, "/v1/models", 200, "demo");
    expect("robot", NULL, "/v1/models/sdpa", 403, "infer:sdpa");
    expect("robot", NULL, "/metrics", 403, "metrics");
    expect("both", NULL, "/metrics", 200, "attnd_requests_total");
    expect(NULL, "both", "/metrics", 200, "attnd_requests_total");
    expect("stranger", NULL, "/v1/models", 401, "certificate");
    expect("old", NULL, "/v1/models", 401, "certificate");
    /* A key in the headers decides, also where it is worth less, or nothing. */
    expect("robot", "both", "/metrics", 200, "attnd_requests_total");
    expect("robot", "both", "/v1/models", 403, "infer");
    expect("robot", "nobody", "/v1/models", 401, "not known");
    expect("robot", "robot", "/v1/models", 401, "not known");
    free(daemon_log_with(&server, " key=robot "));
    daemon_stop(&server);
}

static int clear(void **state)
{
    daemon_kill(&server);
    daemon_directory_remove(directory);
    return 0;
}

ALL_TESTS(fixture_make_directory, clear);
