/* SPDX-License-Identifier: Apache-2.0 */
/* test_accidents_names.c - accidents that other model servers had with names: an answer that tells
 * an attacker a path, an address or a name of the inside; a model's name that leads out of the
 * models' directory; a checkpoint that is a program; a URL that the server fetches. SECURITY.md has
 * the list. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "test.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static char *outside; /* a directory beside that of the models */
static const char OUTSIDE_NAME[] = "kept-outside.safetensors";

static const char PICKLE[] =
    "\x80\x04\x95\x1c\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93";
static const char ZIP[] = "PK\3\4\x14\0\0\0\0\0archive/data.pkl";

/* ------------------------------------------------------------- the directory -- */

static void write_model(const char *folder, const char *name)
{
    struct model_bytes file = model_bytes_demo(2, "");
    daemon_directory_write(folder, name, file.data, file.size);
    free(file.data);
}

static void link_to(const char *target, const char *name)
{
    assert_int_equal(symlink(target, fixture_path(name)), 0);
}

/* Models that are broken in every way that a directory can be, and links that lead out of it. */
static int make_models(void **state)
{
    char target[300];
    if (fixture_make_directory(state) != 0)
        return -1;
    outside = daemon_directory_create();
    write_model(outside, OUTSIDE_NAME);
    write_model(directory, "good.safetensors");
    snprintf(target, sizeof target, "%s/%s", outside, OUTSIDE_NAME);
    link_to(target, "link.safetensors");
    link_to(outside, "folder");
    link_to("../../../../../../etc/hostname", "up.safetensors");
    link_to("loop.safetensors", "loop.safetensors");
    link_to("/nowhere/kept-dangling", "dangling.safetensors");
    assert_int_equal(mkfifo(fixture_path("fifo.safetensors"), 0600), 0);
    assert_int_equal(mkdir(fixture_path("dir.safetensors"), 0700), 0);
    daemon_directory_write(directory, "garbage.safetensors", "garbage", 7);
    daemon_directory_write(directory, "pickle.safetensors", PICKLE, sizeof PICKLE - 1);
    daemon_directory_write(directory, "zip.safetensors", ZIP, sizeof ZIP - 1);
    daemon_directory_write(directory, "program.pkl", PICKLE, sizeof PICKLE - 1);
    daemon_directory_write(directory, "program.pt", ZIP, sizeof ZIP - 1);
    daemon_directory_write(directory, "torch/pytorch_model.bin", PICKLE, sizeof PICKLE - 1);
    daemon_directory_write(directory, "torch/config.json", JSON({"model_type":"bert"}), 21);
    daemon_directory_write(directory, "pth/weights.pth", PICKLE, sizeof PICKLE - 1);
    daemon_directory_write(directory, "pkl/model.pkl", PICKLE, sizeof PICKLE - 1);
    daemon_directory_write(directory, "pkl/config.json", "{}", 2);
    return 0;
}

static int clear(void **state)
{
    daemon_directory_remove(outside);
    return fixture_clear(state);
}

static void start_server(void)
{
    fixture_serve("--models", directory, "--model-control", "explicit");
}

/* ------------------------------------------------------------- what leaks out -- */

/* What no answer has. A test of its own names comes from the daemon's inside or from the files. */
static const char *const INSIDE[] = {
    "/tmp",    "/etc",          "/usr",         "/proc",         "/home",    "/root",       "/var/",
    "server/", "lib/",          "build/",       ".c:",           ".h:",      "0x",          "(nil)",
    "cJSON",   "libmicrohttpd", "libopenblas",  "pthread",       "malloc",   "mmap",        "errno",
    "assert",  "struct ",       "kept-outside", "kept-dangling", "hostname", "stack trace",
};

/* The name of a function: a letter and then a bracket. */
static const char *find_call(const char *text)
{
    for (const char *bracket = strchr(text, '('); bracket; bracket = strchr(bracket + 1, '('))
        if (bracket > text && (isalnum((unsigned char)bracket[-1]) || bracket[-1] == '_')
            && strncmp(bracket, "(s)", 3) != 0)
            return bracket;
    return NULL;
}

static void expect_no_inside(const struct http_response *response, const char *request)
{
    const char *const texts[] = { response->headers, response->body };
    char folder[200], cwd[200];
    snprintf(folder, sizeof folder, "%s", strrchr(directory, '/') + 1);
    assert_non_null(getcwd(cwd, sizeof cwd));
    for (size_t i = 0; i < COUNT(texts); i++) {
        for (size_t j = 0; j < COUNT(INSIDE); j++)
            if (strstr(texts[i], INSIDE[j]))
                fail_msg("%s: '%s' is in the answer: %s", request, INSIDE[j], texts[i]);
        if (strstr(texts[i], folder) || strstr(texts[i], cwd) || strstr(texts[i], outside))
            fail_msg("%s: a folder is in the answer: %s", request, texts[i]);
        if (i == 1 && response->status >= 400 && find_call(texts[i]))
            fail_msg("%s: a function is in the answer: %s", request, texts[i]);
    }
}

/* Writes the pattern with a model's name, a version and a repository in its braces. */
static void fill_in(char path[400], const char *pattern, const char *model)
{
    size_t used = 0;
    while (*pattern && used < 300)
        if (*pattern == '{') {
            const char *name = strncmp(pattern, "{model}", 7) == 0     ? model
                               : strncmp(pattern, "{version}", 9) == 0 ? "1"
                                                                       : "elsewhere";
            used += (size_t)snprintf(path + used, 400 - used, "%s", name);
            pattern = strchr(pattern, '}') + 1;
        } else {
            path[used++] = *pattern++;
        }
    path[used] = '\0';
}

static const char *const MODELS[] = {
    "good",    "link",     "folder",        "up",
    "loop",    "dangling", "fifo",          "dir",
    "garbage", "pickle",   "zip",           "torch",
    "pth",     "pkl",      "nobody",        "demo",
    "sdpa",    "%2e%2e",   "%2fnot%2fmine", "..%2f..%2fnot%2fmine",
};

static const char *const BODIES[] = {
    NULL,
    "{",
    "[]",
    "{}",
    "{\"model\":\"link\",\"query\":[[1,0,0]]}",
    "{\"model\":\"good\",\"query\":[[1,0,0]],\"key\":[[1]]}",
    "{\"config\":{\"attention\":\"none\"},\"parameters\":{}}",
    "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}",
    "{\"parameters\":{\"config\":\"{}\",\"file:1/model.safetensors\":\"AAAA\"}}",
};

static const char *const HEADERS[][3] = {
    { "Content-Type: application/json", NULL, NULL },
    { "Content-Type: application/x-safetensors", NULL, NULL },
    { "Content-Type: application/json", "Content-Encoding: gzip", NULL },
    { "Content-Type: text/plain", "Inference-Header-Content-Length: 5", NULL },
};

static void ask_all(const char *method, const char *pattern)
{
    const bool has_model = strstr(pattern, "{") != NULL;
    for (size_t i = 0; i < (has_model ? COUNT(MODELS) : 1); i++)
        for (size_t j = 0; j < COUNT(BODIES); j++) {
            char path[400], request[900];
            fill_in(path, pattern, MODELS[i]);
            struct http_response response = http_client_send(
                &client, &(struct http_request){ .method = method,
                                                 .path = path,
                                                 .body = BODIES[j],
                                                 .headers = HEADERS[(i + j) % COUNT(HEADERS)] });
            snprintf(request, sizeof request, "%s %s %s", method, path, BODIES[j] ? BODIES[j] : "");
            if (response.status == 0 || response.status == 500)
                fail_msg("%s: %ld", request, response.status);
            if (strcmp(path, "/openapi.json") != 0 || response.status != 200)
                expect_no_inside(&response, request);
            http_response_free(&response);
        }
}

/* Asks every operation of the document, deleting last. */
static void walk(const cJSON *document)
{
    static const char *const METHODS[] = { "get", "head", "post", "put", "patch", "delete" };
    const cJSON *path;
    for (size_t i = 0; i < COUNT(METHODS); i++)
        cJSON_ArrayForEach(path, cJSON_GetObjectItem(document, "paths")) {
            char method[8] = "";
            for (size_t j = 0; METHODS[i][j]; j++)
                method[j] = (char)toupper((unsigned char)METHODS[i][j]);
            if (strcmp(method, "HEAD") != 0 || cJSON_HasObjectItem(path, "get"))
                ask_all(method, path->string);
        }
}

static void expect_outside_is_untouched(void)
{
    char path[300];
    struct stat status;
    struct model_bytes file = model_bytes_demo(2, "");
    snprintf(path, sizeof path, "%s/%s", outside, OUTSIDE_NAME);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, file.size);
    assert_int_equal(daemon_directory_count(outside), 1);
    free(file.data);
}

TEST(nothing_of_the_inside)
{
    char moved[300];
    start_server();
    cJSON *document = answer_get(&client, "/openapi.json");
    walk(document);
    snprintf(moved, sizeof moved, "%s/gone", outside);
    /* Where the directory is gone, faults are of the disk. */
    assert_int_equal(rename(directory, moved), 0);
    struct http_response response = model_put(&client, "new", model_bytes_demo(2, ""));
    expect_no_inside(&response, "PUT new");
    http_response_free(&response);
    walk(document);
    assert_int_equal(rename(moved, directory), 0);
    cJSON_Delete(document);
    expect_outside_is_untouched();
    fixture_stop(NULL);
}

/* -------------------------------------------------------------------- names -- */

/* Names that lead out, as a path, in the text of a request, and with each method. Nothing is served
 * or written by them. */
TEST(traversal)
{
    static const char *const PATHS[] = {
        "../%s",
        "..%%2f%s",
        "%%2e%%2e/%s",
        "%%2e%%2e%%2f%s",
        "..%%5c%s",
        "..%%252f%s",
        ".%%2f..%%2f%s",
        "good%%2f..%%2f..%%2f%s",
        "%%2f%s",
        "good%%00%%2f%s",
        "%%c0%%ae%%c0%%ae%%2f%s",
        "folder%%2f%s",
        "folder/%s",
        "%%2e%%2e%%2f%%2e%%2e%%2f%s",
    };
    static const char *const ENDS[] = { "", ".safetensors" };
    start_server();
    const int count = daemon_directory_count(directory);
    for (size_t i = 0; i < COUNT(PATHS); i++)
        for (size_t j = 0; j < COUNT(ENDS); j++) {
            static const char *const FORMS[][2] = {
                { "GET", "/v1/models/%s" },
                { "PUT", "/v1/models/%s" },
                { "DELETE", "/v1/models/%s" },
                { "POST", "/v2/repository/models/%s/load" },
                { "POST", "/v2/repository/models/%s/unload" },
                { "GET", "/v2/models/%s" },
                { "GET", "/v2/models/%s/config" },
                { "POST", "/v2/models/%s/infer" },
            };
            char name[300], target[300];
            snprintf(target, sizeof target, "%s/kept-outside%s", strrchr(outside, '/') + 1,
                     ENDS[j]);
            snprintf(name, sizeof name, PATHS[i], target);
            for (size_t k = 0; k < COUNT(FORMS); k++) {
                char line[700];
                struct http_raw raw;
                snprintf(line, sizeof line, FORMS[k][1], name);
                http_raw_connect(&raw, server.port);
                char request[1000];
                snprintf(request, sizeof request,
                         "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         "Content-Length: 2\r\n\r\n{}",
                         FORMS[k][0], line);
                assert_true(http_raw_send_text(&raw, request));
                struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
                if (response.status != 400 && response.status != 404 && response.status != 405)
                    fail_msg("%s: %ld %s", request, response.status, response.body);
                http_response_free(&response);
                http_raw_close(&raw);
            }
        }
    assert_int_equal(daemon_directory_count(directory), count);
    expect_outside_is_untouched();
    fixture_stop(NULL);
}

/* A link that leads out is no model, is not written through, and goes without what it leads to. */
TEST(links)
{
    start_server();
    static const char *const LINKS[] = { "link", "folder", "up", "loop", "dangling" };
    for (size_t i = 0; i < COUNT(LINKS); i++) {
        char body[100];
        snprintf(body, sizeof body, JSON({"model":"%s","query":[[1,0,0]]}), LINKS[i]);
        struct http_response response = http_client_post(&client, "/v1/attention", body);
        if (response.status != 404 && response.status != 503)
            fail_msg("%s: %ld %s", LINKS[i], response.status, response.body);
        http_response_free(&response);
        response = model_put(&client, LINKS[i], model_bytes_demo(3, ""));
        expect_no_inside(&response, LINKS[i]);
        http_response_free(&response);
        expect_outside_is_untouched();
    }
    fixture_stop(NULL);
}

/* ------------------------------------------------------------------ programs -- */

/* The names of the files that were opened, one after another. */
static void read_opened(int watch, char *names, size_t size)
{
    char events[65536] __attribute__((aligned(__alignof__(struct inotify_event))));
    size_t used = strlen(names);
    for (ssize_t got; (got = read(watch, events, sizeof events)) > 0;)
        for (const char *at = events; at < events + got;) {
            const struct inotify_event *event = (const void *)at;
            if (event->len > 0 && used < size)
                used += (size_t)snprintf(names + used, size - used, "%s ", event->name);
            at += sizeof *event + event->len;
        }
}

/* A pickle is a program that runs when it is read. The daemon names its form and never opens the
 * file, at its start, when it reads the directory again and when a client asks. */
TEST(pickles)
{
    static const char *const FOLDERS[] = { "torch", "pth", "pkl" };
    static char opened[65536];
    opened[0] = '\0';
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(watch >= 0);
    assert_true(inotify_add_watch(watch, directory, IN_OPEN | IN_ACCESS) >= 0);
    for (size_t i = 0; i < COUNT(FOLDERS); i++)
        assert_true(inotify_add_watch(watch, fixture_path(FOLDERS[i]), IN_OPEN | IN_ACCESS) >= 0);
    start_server();
    kill(server.pid, SIGHUP);
    free(daemon_log_with(&server, "models read again"));
    static const char *const NAMES[] = { "torch",   "pth",        "pkl",
                                         "program", "program.pt", "program.pkl" };
    for (size_t i = 0; i < COUNT(NAMES); i++) {
        char path[200];
        snprintf(path, sizeof path, "/v2/repository/models/%s/load", NAMES[i]);
        struct http_response response = http_client_post(&client, path, "{}");
        if (response.status != 400 && response.status != 404)
            fail_msg("%s: %ld %s", path, response.status, response.body);
        http_response_free(&response);
    }
    for (size_t i = 0; i < COUNT(FOLDERS); i++) {
        char path[100];
        snprintf(path, sizeof path, "/v1/models/%s", FOLDERS[i]);
        cJSON *model = answer_get(&client, path);
        const char *reason = cJSON_GetStringValue(cJSON_GetObjectItem(model, "reason"));
        if (!reason || !strstr(reason, "pickle"))
            fail_msg("%s: the reason is %s", FOLDERS[i], reason ? reason : "not there");
        cJSON_Delete(model);
    }
    read_opened(watch, opened, sizeof opened);
    assert_non_null(strstr(opened, "good.safetensors")); /* the watch works */
    static const char *const ENDINGS[] = { ".bin", ".pt ", ".pth", ".pkl" };
    for (size_t i = 0; i < COUNT(ENDINGS); i++)
        if (strstr(opened, ENDINGS[i]))
            fail_msg("a %s was opened: %s", ENDINGS[i], opened);
    close(watch);
    static const struct {
        const char *bytes;
        size_t size;
    } FILES[] = { { PICKLE, sizeof PICKLE - 1 }, { ZIP, sizeof ZIP - 1 } };
    for (size_t i = 0; i < COUNT(FILES); i++) {
        static const char *const headers[] = { "Content-Type: application/x-safetensors", NULL };
        struct http_response response =
            http_client_send(&client, &(struct http_request){ .method = "PUT",
                                                              .path = "/v1/models/put",
                                                              .body = FILES[i].bytes,
                                                              .body_size = FILES[i].size,
                                                              .headers = headers });
        answer_expect_fault(&response, 400, "binary|json", NULL);
        http_response_free(&response);
    }
    fixture_stop(NULL);
}

/* ---------------------------------------------------------------------- URLs -- */

/* A URL in any text that the daemon reads is a text. */
TEST(urls)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    char url[60], text[1000], header[3][100];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/fetched", ntohs(address.sin_port));
    snprintf(text, sizeof text,
             "{\"metadata\":{},\"weight_map\":{\"q_proj.weight\":\"%s\",\"k_proj.weight\":\"%s\"}}",
             url, url);
    daemon_directory_write(directory, "hub/model.safetensors.index.json", text, strlen(text));
    snprintf(
        text, sizeof text,
        "{\"model_type\":\"bert\",\"_name_or_path\":\"%s\",\"auto_map\":{\"AutoModel\":\"%s\"}}",
        url, url);
    daemon_directory_write(directory, "hub/config.json", text, strlen(text));
    start_server();
    static const char *const BODIES_OF_URL[][2] = {
        { "/v1/attention", "{\"model\":\"%s\",\"query\":[[1]]}" },
        { "/v1/attention", "{\"model\":\"sdpa\",\"query\":\"%s\"}" },
        { "/v1/attention", "{\"model\":\"sdpa\",\"query\":[[1]],\"image_url\":{\"url\":\"%s\"}}" },
        { "/v1/attention/batch", "{\"model\":\"%s\",\"requests\":[{\"query\":[[1]]}]}" },
        { "/v2/models/demo/infer",
          "{\"id\":\"%s\",\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\","
          "\"data\":[1,2,3]}],\"parameters\":{\"own\":\"%s\"}}" },
        { "/v2/models/demo/infer",
          "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"BYTES\","
          "\"data\":[\"%s\"]}]}" },
        { "/v2/repository/index", "{\"repository_name\":\"%s\"}" },
        { "/v2/repository/models/hub/load",
          "{\"parameters\":{\"config\":\"%s\",\"file:1/model.safetensors\":\"%s\"}}" },
        { "/v2/logging", "{\"log_file\":\"%s\"}" },
    };
    snprintf(header[0], sizeof header[0], "Referer: %s", url);
    snprintf(header[1], sizeof header[1], "traceparent: %s", url);
    snprintf(header[2], sizeof header[2], "X-Forwarded-Host: %s", url);
    const char *const headers[] = { "Content-Type: application/json", header[0], header[1],
                                    header[2], NULL };
    for (size_t i = 0; i < COUNT(BODIES_OF_URL); i++) {
        snprintf(text, sizeof text, BODIES_OF_URL[i][1], url, url);
        struct http_response response = http_client_send(
            &client, &(struct http_request){
                         .path = BODIES_OF_URL[i][0], .body = text, .headers = headers });
        assert_in_range(response.status, 200, 499);
        http_response_free(&response);
    }
    snprintf(text, sizeof text, JSON({"config":{"attention":"%s"},"parameters":"%s"}), url, url);
    struct http_response response = model_put_json(&client, "put", text);
    answer_expect_fault(&response, 400, "type|option|field", NULL);
    http_response_free(&response);
    fixture_stop(NULL); /* all that the daemon does has been done */
    assert_int_equal(accept(listener, NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);
    close(listener);
}

EACH_TEST(make_models, clear);
