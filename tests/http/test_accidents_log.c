/* SPDX-License-Identifier: Apache-2.0 */
/* test_accidents_log.c - accidents that servers had with their logs: what a client or a file is
 * called ends a line, begins another, or gives a command to the terminal of whoever reads the log.
 * Each field of the log that somebody else fills gets such a text, in both forms of the log. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "test.h"

#include <signal.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* What a text may do to a line. The word tells where it came out. */
static const char *const TEXTS[] = {
    "FORGED\r\n2026-01-01T00:00:00.000Z error FORGED a=b",
    "FORGED\n{\"level\":\"error\",\"event\":\"FORGED\"}",
    "FORGED\x1b[2J\x1b]0;FORGED\x07",
    "FORGED\",\"level\":\"FORGED",
    "FORGED\\\",\\u000a",
    "FORGED\" level=error event=FORGED",
    "FORGED\xC2\x9B"
    "2J\xE2\x80\xA8\xFF\xFE",
    "FORGED\x7f\b\b\b\t%s%n%x",
    "${jndi:ldap://127.0.0.1/FORGED}{{7*7}}",
};

/* Percent-codes each byte that is no letter and no digit. */
static void encode(char *out, const char *text)
{
    for (; *text; text++)
        out += sprintf(out,
                       (*text >= '0' && *text <= '9') || (*text >= 'A' && *text <= 'Z')
                               || (*text >= 'a' && *text <= 'z')
                           ? "%c"
                           : "%%%02X",
                       (unsigned char)*text);
    *out = '\0';
}

/* Sends a request that may be none, and drops its answer. */
static void send_raw(const char *request)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    http_raw_send_text(&raw, request);
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    if (response.status >= 500)
        fail_msg("%ld: %s", response.status, request);
    http_response_free(&response);
    http_raw_close(&raw);
}

/* The text as it is, and percent-coded, in each part of a request that the log has. */
static void send_text(const char *text)
{
    static const char *const FORMS[] = {
        "GET /%s HTTP/1.1\r\nHost: x\r\n\r\n",
        "%s /livez HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/models/%s HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/models?%s HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v2/repository/models/%s/load HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "PUT /v1/models/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Content-Length: 2\r\n\r\n{}",
        "DELETE /v1/models/%s HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: x\r\ntraceparent: %s\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nUser-Agent: %s\r\nOrigin: %s\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: %s\r\n\r\n",
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Api-Key: %s\r\n\r\n",
    };
    char encoded[600], request[2000];
    encode(encoded, text);
    for (size_t i = 0; i < COUNT(FORMS); i++) {
        snprintf(request, sizeof request, FORMS[i], text, text);
        send_raw(request);
        snprintf(request, sizeof request, FORMS[i], encoded, encoded);
        send_raw(request);
    }
}

/* The names of models and settings, where JSON says them. */
static void send_json(const char *text)
{
    static const char *const FORMS[][2] = {
        { "/v1/attention", "{\"model\":%s,\"query\":[[1,0,0]]}" },
        { "/v1/attention/batch", "{\"model\":%s,\"requests\":[{\"query\":[[1]]}]}" },
        { "/v2/models/demo/infer", "{\"id\":%s,\"inputs\":[]}" },
        { "/v2/logging", "{\"log_file\":%s}" },
        { "/v2/logging", "{%s:true}" },
    };
    cJSON *string = cJSON_CreateString(text);
    char *quoted = cJSON_PrintUnformatted(string), body[1000];
    for (size_t i = 0; i < COUNT(FORMS); i++) {
        snprintf(body, sizeof body, FORMS[i][1], quoted);
        struct http_response response = http_client_post(&client, FORMS[i][0], body);
        assert_in_range(response.status, 200, 499);
        http_response_free(&response);
    }
    cJSON_free(quoted);
    cJSON_Delete(string);
}

/* Files with such names lie among the models; the log and the lists tell of them. */
static void write_files(void)
{
    for (size_t i = 0; i < COUNT(TEXTS); i++) {
        char name[200];
        if (strchr(TEXTS[i], '/'))
            continue;
        snprintf(name, sizeof name, "%s.safetensors", TEXTS[i]);
        daemon_directory_write(directory, name, "no model", 8);
        snprintf(name, sizeof name, "%s/model.safetensors", TEXTS[i]);
        daemon_directory_write(directory, name, "no model", 8);
    }
    struct model_bytes file = model_bytes_demo(2, "");
    daemon_directory_write(directory, "good.safetensors", file.data, file.size);
    free(file.data);
}

/* A line holds printable text only, whatever its form. */
static void expect_printable(const char *line)
{
    for (const char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f
            || ((unsigned char)*c == 0xC2 && (unsigned char)c[1] < 0xA0)
            || strncmp(c, "\xE2\x80\xA8", 3) == 0 || (unsigned char)*c >= 0xF8)
            fail_msg("a byte of 0x%02x: %s", (unsigned char)*c, line);
}

static void expect_json(const char *line)
{
    const char *end;
    cJSON *object = cJSON_ParseWithOpts(line, &end, true);
    const cJSON *member;
    if (!cJSON_IsObject(object))
        fail_msg("no JSON object: %s", line);
    cJSON_ArrayForEach(member, object) {
        if (strstr(member->string, "FORGED"))
            fail_msg("a name was forged: %s", line);
        for (const cJSON *other = member->next; other; other = other->next)
            if (strcmp(member->string, other->string) == 0)
                fail_msg("%s is there twice: %s", member->string, line);
    }
    const char *level = cJSON_GetStringValue(cJSON_GetObjectItem(object, "level"));
    if (!level || strstr(level, "FORGED"))
        fail_msg("the level is forged: %s", line);
    cJSON_Delete(object);
}

/* "time level event name=value name="value" ...": each value with a blank or a quote is quoted, so
 * that no name can come out of one. */
static void expect_text(const char *line)
{
    int year, used = 0;
    char level[12];
    if (sscanf(line, "%d-%*d-%*dT%*d:%*d:%*fZ %11s %n", &year, level, &used) != 2 || used == 0
        || (strcmp(level, "info") != 0 && strcmp(level, "warning") != 0
            && strcmp(level, "error") != 0 && strcmp(level, "debug") != 0))
        fail_msg("no line of the log: %s", line);
    bool quoted = false, in_name = true;
    for (const char *c = line + used; *c; c++) {
        if (quoted && *c == '\\' && c[1])
            c++;
        else if (*c == '"')
            quoted = !quoted;
        else if (!quoted && *c == ' ')
            in_name = true;
        else if (!quoted && *c == '=')
            in_name = false;
        if (!quoted && in_name && strncmp(c, "FORGED", 6) == 0)
            fail_msg("a name or an event was forged: %s", line);
    }
    if (quoted)
        fail_msg("a quote is open at its end: %s", line);
}

static void expect_lines(void (*expect)(const char *line))
{
    int told = 0;
    char *log = daemon_log(&server), *rest = log;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (!line[0])
            continue;
        told += strstr(line, "FORGED") != NULL;
        expect_printable(line);
        expect(line);
    }
    assert_in_range(told, 2 * COUNT(TEXTS), 100000); /* the texts did come into the log */
    free(log);
}

static void check(const char *format, void (*expect)(const char *line))
{
    fixture_serve("--models", directory, "--model-control", "explicit", "--log-level", "debug",
                  "--log-format", format);
    for (size_t i = 0; i < COUNT(TEXTS); i++) {
        send_text(TEXTS[i]);
        send_json(TEXTS[i]);
    }
    cJSON_Delete(answer_get(&client, "/v1/models"));
    kill(server.pid, SIGHUP);
    free(daemon_log_with(&server, "models read again"));
    expect_lines(expect);
    fixture_stop(NULL);
}

TEST(text)
{
    check("text", expect_text);
}

TEST(json)
{
    check("json", expect_json);
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    write_files();
    return 0;
}

ALL_TESTS(start, fixture_clear);
