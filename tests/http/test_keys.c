/* SPDX-License-Identifier: Apache-2.0 */
/* test_keys.c - a daemon with keys: how a key is sent, keys that come and go while it runs, what
 * the log says of them, and clients that others wrote. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "skip.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static const struct key_line KEYS[] = {
    { "caller", "infer" },
    { "owner", "infer,models" },
    { "admin", "admin" },
    { NULL, NULL },
};

static char path_of_keys[256];

static const struct http_request LIST = { .path = "/v1/models" };

static void write_and_reload(const struct key_line *lines, const char *event)
{
    char *before = daemon_log(&server);
    const size_t length = strlen(before);
    free(before);
    key_file_write(path_of_keys, lines);
    kill(server.pid, SIGHUP);
    const double until = daemon_now() + 10 * daemon_slowness();
    for (;;) {
        char *log = daemon_log(&server);
        const bool found = strstr(log + length, event) != NULL;
        free(log);
        if (found)
            return;
        if (daemon_now() > until)
            fail_msg("no \"%s\" in the log", event);
        daemon_pause(0.005);
    }
}

/* --------------------------------------------------------------------- headers -- */

TEST(headers)
{
    char secret[128];
    snprintf(secret, sizeof secret, "%s", key_secret("caller"));
    const struct {
        const char *format, *other; /* with the secret in place of %s */
        long status;
        const char *challenge;
    } CASES[] = {
        { NULL, NULL, 401, "Bearer realm=\"attnd\"" },
        { "Authorization: Bearer %s", NULL, 200, NULL },
        { "authorization: bearer   %s  ", NULL, 200, NULL },
        { "X-Api-Key: %s", NULL, 200, NULL },
        { "Authorization: Bearer %s", "X-Api-Key: %s", 200, NULL },
        { "Authorization: Basic %s", "X-Api-Key: %s", 200, NULL },
        { "Authorization: Basic %s", NULL, 401, "Bearer realm=\"attnd\"" },
        { "Authorization: Bearer %sx", NULL, 401,
          "Bearer realm=\"attnd\", error=\"invalid_token\"" },
        { "Authorization: Bearer %s", "X-Api-Key: x%s", 401,
          "Bearer realm=\"attnd\", error=\"invalid_token\"" },
        { "Authorization: Bearer x%s", "X-Api-Key: %s", 401,
          "Bearer realm=\"attnd\", error=\"invalid_token\"" },
        { "X-Api-Key: %s", "X-Api-Key: %s", 401,
          "Bearer realm=\"attnd\", error=\"invalid_token\"" },
        { "Authorization: Bearer %s %s", NULL, 401,
          "Bearer realm=\"attnd\", error=\"invalid_token\"" },
        { "Authorization: Bearer", NULL, 401, "Bearer realm=\"attnd\", error=\"invalid_token\"" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char one[400], other[400], value[128] = "";
        const char *headers[3] = { NULL };
        int count = 0;
        if (CASES[i].format) {
            snprintf(one, sizeof one, CASES[i].format, secret, secret);
            headers[count++] = one;
        }
        if (CASES[i].other) {
            snprintf(other, sizeof other, CASES[i].other, secret);
            headers[count++] = other;
        }
        struct http_request request = { .path = "/v1/models", .headers = headers };
        struct http_response response = http_client_send(&client, &request);
        if (response.status != CASES[i].status)
            fail_msg("case %zu: %ld %s", i, response.status, response.body);
        http_response_header(&response, "WWW-Authenticate", value, sizeof value);
        assert_string_equal(value, CASES[i].challenge ? CASES[i].challenge : "");
        assert_null(strstr(response.body, secret));
        http_response_free(&response);
    }
}

TEST(scope_challenge)
{
    char value[128];
    const struct http_request request = { .path = "/metrics" };
    struct http_response response = key_expect(&client, "caller", &request, 403);
    assert_non_null(http_response_header(&response, "WWW-Authenticate", value, sizeof value));
    assert_string_equal(value, "Bearer realm=\"attnd\", error=\"insufficient_scope\"");
    http_response_free(&response);
}

/* Probes have no key. */
TEST(health)
{
    static const char *const PATHS[] = { "/livez", "/readyz", "/v2/health/live",
                                         "/v2/health/ready" };
    char url[64];
    for (int i = 0; i < 4; i++) {
        struct http_response response =
            key_expect(&client, NULL, &(struct http_request){ .path = PATHS[i] }, 200);
        http_response_free(&response);
        response = key_expect(&client, "nobody", &(struct http_request){ .path = PATHS[i] }, 200);
        http_response_free(&response);
    }
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
    const char *const arguments[] = { "health", url, NULL };
    struct daemon_result result = daemon_command(arguments, NULL);
    if (result.exit_code != 0)
        fail_msg("attnd health: %d %s%s", result.exit_code, result.output, result.errors);
    daemon_result_free(&result);
}

/* The refusal does not wait for a short body either, which could have been read beside others. */
TEST(body_that_does_not_come)
{
    char with_key[128];
    snprintf(with_key, sizeof with_key, "X-Api-Key: %s\r\n", key_secret("caller"));
    const struct {
        const char *method, *path, *header;
        int status;
        const char *code;
    } CASES[] = {
        { "POST", "/v1/attention", "", 401, "key" },
        { "POST", "/nowhere", "", 401, "key" },
        { "PUT", "/v1/models/m", with_key, 403, "scope" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct http_raw raw;
        char head[400], value[100];
        http_raw_connect(&raw, server.port);
        snprintf(head, sizeof head,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 100\r\n\r\n{",
                 CASES[i].method, CASES[i].path, CASES[i].header);
        assert_true(http_raw_send_text(&raw, head));
        struct http_response response = http_raw_receive(&raw, 5 * daemon_slowness());
        answer_expect_fault(&response, CASES[i].status, CASES[i].code, NULL);
        assert_non_null(http_response_header(&response, "WWW-Authenticate", value, sizeof value));
        http_response_free(&response);
        http_raw_close(&raw);
    }
}

/* ------------------------------------------------------------------ coming, going -- */

static void expect_status(const char *key, long status)
{
    struct http_response response = key_expect(&client, key, &LIST, status);
    assert_false(response.on_new_connection);
    http_response_free(&response);
}

/* On one kept connection. */
TEST(reload)
{
    static const struct key_line OTHERS[] = {
        { "newcomer", "infer" }, { "caller", "models" }, { "admin", "admin" }, { NULL, NULL }
    };
    static const struct key_line WRONG[] = { { "caller", "infer,everything" }, { NULL, NULL } };
    static const struct key_line EXPIRED[] = { { "caller", "infer expires=2020-01-31" },
                                               { "owner", "infer expires=2999-12-31" },
                                               { NULL, NULL } };
    struct http_response response = key_expect(&client, "caller", &LIST, 200);
    http_response_free(&response);
    expect_status("newcomer", 401);
    expect_status("owner", 200);
    write_and_reload(OTHERS, "keys read again");
    expect_status("newcomer", 200);
    expect_status("owner", 401);
    expect_status("caller", 403);
    write_and_reload(WRONG, "keys not read");
    expect_status("newcomer", 200);
    expect_status("caller", 403);
    write_and_reload(EXPIRED, "keys read again");
    expect_status("caller", 401);
    expect_status("owner", 200);
    write_and_reload(KEYS, "keys read again");
    expect_status("caller", 200);
}

/* ---------------------------------------------------------------------- clients -- */

static void run_client(const char *package, const char *present, const char *format)
{
    char command[1000], secret[128];
    skip_without(package, present);
    snprintf(secret, sizeof secret, "%s", key_secret("caller"));
    snprintf(command, sizeof command, format, secret, server.port);
    if (system(command) != 0)
        fail_msg("%s", command);
}

TEST(curl)
{
    run_client("curl", "curl --version",
               "test \"$(curl -sS -o /dev/null -w '%%{http_code}' --oauth2-bearer %s "
               "-d '{\"model\":\"demo\",\"query\":[[1,0,0]]}' "
               "http://127.0.0.1:%d/v1/attention)\" = 200");
    run_client("curl", "curl --version",
               "test \"$(curl -sS -o /dev/null -w '%%{http_code}' --oauth2-bearer x%s "
               "--data-binary @build/attnd -H 'Expect: 100-continue' "
               "http://127.0.0.1:%d/v1/attention)\" = 401");
}

TEST(python)
{
    run_client(
        "python3", "python3 --version",
        "python3 -c '\n"
        "import json, urllib.request, urllib.error\n"
        "key, port = \"%s\", %d\n"
        "url = \"http://127.0.0.1:{}/v1/attention\".format(port)\n"
        "body = json.dumps({\"model\": \"demo\", \"query\": [[1, 0, 0]]}).encode()\n"
        "def ask(headers):\n"
        "    request = urllib.request.Request(url, body, headers)\n"
        "    try: return urllib.request.urlopen(request).status\n"
        "    except urllib.error.HTTPError as e: return e.code, e.headers[\"WWW-Authenticate\"]\n"
        "assert ask({\"Authorization\": \"Bearer \" + key}) == 200\n"
        "assert ask({\"X-Api-Key\": key}) == 200\n"
        "assert ask({})[0] == 401 and ask({})[1].startswith(\"Bearer\")\n"
        "'");
}

/* Reads a recorded request whole. */
static char *read_request(const char *name, size_t *size)
{
    char path[300];
    snprintf(path, sizeof path, "tests/http/tritonclient/%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(65536);
    assert_non_null(bytes);
    *size = fread(bytes, 1, 65536, file);
    fclose(file);
    return bytes;
}

/* The status that a recorded request gets with a header behind its request line; "": none. */
static long status_of(const char *name, const char *header)
{
    size_t size;
    struct http_raw raw;
    char *bytes = read_request(name, &size);
    const size_t line = (size_t)(strstr(bytes, "\r\n") + 2 - bytes);
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send(&raw, bytes, line));
    assert_true(http_raw_send_text(&raw, header));
    assert_true(http_raw_send(&raw, bytes + line, size - line));
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    const long status = response.status;
    http_response_free(&response);
    http_raw_close(&raw);
    free(bytes);
    return status;
}

/* tritonclient's users give the header as headers={"Authorization": "Bearer ..."}. */
TEST(tritonclient)
{
    char header[200];
    int count = 0;
    snprintf(header, sizeof header, "authorization: Bearer %s\r\n", key_secret("admin"));
    DIR *folder = opendir("tests/http/tritonclient");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name;
        if (!strstr(name, ".http") || strstr(name, "load") || strstr(name, "update"))
            continue;
        const bool is_health =
            strstr(name, "-live.") || strstr(name, "c-ready.") || strstr(name, "o-ready.");
        const long with = status_of(name, header), without = status_of(name, "");
        if (with == 401 || with == 403 || without != (is_health ? 200 : 401))
            fail_msg("%s: %ld with the key, %ld without", name, with, without);
        count++;
    }
    closedir(folder);
    assert_true(count > 40);
}

/* How often a text is in the memory of the daemon that can be written; -1: it cannot be read. */
static int count_in_memory(const char *text)
{
    char path[64], line[512], access[8];
    unsigned long begin, end;
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)server.pid);
    FILE *maps = fopen(path, "r");
    snprintf(path, sizeof path, "/proc/%d/mem", (int)server.pid);
    const int memory = open(path, O_RDONLY | O_CLOEXEC);
    while (maps && memory >= 0 && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, access) != 3 || access[1] != 'w')
            continue;
        char *bytes = malloc(end - begin);
        const ssize_t size = pread(memory, bytes, end - begin, (off_t)begin);
        for (const char *at = bytes; size > 0; at++) {
            at = memmem(at, (size_t)(bytes + size - at), text, strlen(text));
            if (!at)
                break;
            count++;
        }
        free(bytes);
    }
    if (maps)
        fclose(maps);
    if (memory >= 0)
        close(memory);
    return maps && memory >= 0 ? count : -1;
}

/* After all that was sent, and refused. */
TEST(no_secret_in_log)
{
    key_expect_not_logged(&server, "caller");
}

/* Nothing writes over the headers of the last request of a connection, as the next request of one
 * that stays open does. What the daemon refuses is forgotten too. */
TEST(no_secret_in_memory)
{
    char secret[128], request[600];
    enum { COUNT = 40 };
    struct http_raw raw[COUNT];
    snprintf(secret, sizeof secret, "%s", key_secret("caller"));
    if (daemon_slowness() > 1 || count_in_memory("attnd") < 0)
        skip();
    static const char *const FORMATS[] = {
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n",
        "GET /livez HTTP/1.1\r\nHost: x\r\nx-api-key: %s\r\n%s\r\n",
        "GET /none HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nX-Api-Key: y\r\n%s\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\nX-Api-Key: %s\r\n%s\r\n",
    };
    for (int i = 0; i < COUNT; i++) {
        snprintf(request, sizeof request, FORMATS[i % 4], secret,
                 i < COUNT / 2 ? "" : "Connection: close\r\n");
        http_raw_connect(&raw[i], server.port);
        assert_true(http_raw_send_text(&raw[i], request));
        struct http_response response = http_raw_receive(&raw[i], 10);
        assert_true(response.status > 0);
        http_response_free(&response);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i >= COUNT / 2)
            assert_true(http_raw_is_closed(&raw[i], 10));
        http_raw_close(&raw[i]);
    }
    assert_int_equal(count_in_memory(secret), 0);
}

/* The same for each of these alone: the next request writes over much of what it leaves. Some have
 * a route and some have not, some the library answers before it knows of any. */
TEST(no_secret_after_a_request)
{
    char secret[128], request[600];
    struct http_raw raw;
    snprintf(secret, sizeof secret, "%s", key_secret("caller"));
    if (daemon_slowness() > 1 || count_in_memory("attnd") < 0)
        skip();
    static const char *const FORMATS[] = {
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
        "GET /none HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
        "PUT /none HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: 9\r\n\r\n",
        "BREW /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %sx\r\n\r\n",
        "POST /v1/attention HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: x\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nno header\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++) {
        snprintf(request, sizeof request, FORMATS[i], secret);
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, request));
        struct http_response response = http_raw_receive(&raw, 10); /* or what is no answer */
        http_response_free(&response);
        http_raw_close(&raw);
        daemon_pause(0.1); /* the connection ends */
        if (count_in_memory(secret) != 0)
            fail_msg("the key is in memory after %s", FORMATS[i]);
    }
}

/* ------------------------------------------------------------------- start, end -- */

static int start(void **state)
{
    directory = daemon_directory_create();
    snprintf(path_of_keys, sizeof path_of_keys, "%s", fixture_path("keys"));
    key_file_write(path_of_keys, KEYS);
    fixture_serve("--models", directory, "--model-control", "explicit", "--log-format", "json",
                  "--keys", path_of_keys);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
