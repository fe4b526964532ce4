/* SPDX-License-Identifier: Apache-2.0 */
/* test_page.c - the page at / and its files: what a browser is told of them, who gets them, and
 * that all of it is there and small. */
#include "answer.h"
#include "explorer/page_files.h"
#include "fixture.h"
#include "key_file.h"
#include "manifest.h"
#include "request_text.h"
#include "test.h"

#include <glob.h>

enum { PACKED_BYTES_MAX = 200 * 1000 };

#define POLICY                                                                                     \
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "         \
    "form-action 'none'; frame-ancestors 'self' http://localhost:* http://127.0.0.1:* "            \
    "https://localhost:*"

static const char *address_of(const struct page_file *file)
{
    static char address[200];
    snprintf(address, sizeof address, "/explorer/%s", file->path);
    return strcmp(file->path, "index.html") == 0 ? "/" : address;
}

static struct http_response ask(struct http_client *who, const char *method, const char *path,
                                const char *header)
{
    const char *const headers[] = { header, NULL };
    return http_client_send(
        who, &(struct http_request){ .method = method, .path = path, .headers = headers });
}

static void expect_header(const struct http_response *response, const char *name, const char *want)
{
    char value[4000];
    const char *found = http_response_header(response, name, value, sizeof value);
    if (!found != !want || (want && strcmp(found, want) != 0))
        fail_msg("%s is %s; expected %s\n%s", name, found ? found : "not there",
                 want ? want : "none", response->headers);
}

static void expect_status(const struct http_response *response, long status)
{
    if (response->status != status)
        fail_msg("expected %ld:\n%s%s", status, response->headers, response->body);
}

/* What every answer with a file, and every 304, says beside its bytes. */
static void expect_page_headers(const struct http_response *response, const struct page_file *file)
{
    expect_header(response, "ETag", file->tag);
    expect_header(response, "Cache-Control", "no-cache");
    expect_header(response, "Content-Security-Policy", POLICY);
    expect_header(response, "X-Content-Type-Options", "nosniff");
    expect_header(response, "Referrer-Policy", "no-referrer");
    expect_header(response, "Vary", "Accept-Encoding");
}

static void expect_bytes(const struct http_response *response, const void *bytes, size_t size)
{
    assert_int_equal(response->body_size, size);
    assert_memory_equal(response->body, bytes, size);
}

/* The file as a client gets it that takes no coding; the caller frees it. */
static char *plain_of(const struct page_file *file)
{
    struct http_response response = ask(&client, "GET", address_of(file), NULL);
    expect_status(&response, 200);
    assert_int_equal(response.body_size, file->bytes);
    char *text = strndup(response.body, response.body_size);
    http_response_free(&response);
    assert_int_equal(strlen(text), file->bytes);
    return text;
}

/* --------------------------------------------------------------------- the files -- */

TEST(packed_and_plain)
{
    for (int i = 0; i < PAGE_FILE_COUNT; i++) {
        const struct page_file *file = &PAGE_FILES[i];
        char *source = plain_of(file);
        struct http_response packed =
            ask(&client, "GET", address_of(file), "Accept-Encoding: br, gzip");
        expect_status(&packed, 200);
        expect_page_headers(&packed, file);
        expect_header(&packed, "Content-Type", file->type);
        expect_header(&packed, "Content-Encoding", "gzip");
        expect_bytes(&packed, file->packed.data, file->packed.size);
        http_response_free(&packed);
        struct http_response plain = ask(&client, "GET", address_of(file), NULL);
        expect_status(&plain, 200);
        expect_page_headers(&plain, file);
        expect_header(&plain, "Content-Type", file->type);
        expect_header(&plain, "Content-Encoding", NULL);
        expect_bytes(&plain, source, file->bytes);
        http_response_free(&plain);
        static const char *const CODINGS[] = { "gzip", "deflate", "gzip;q=0.5, deflate" };
        for (int j = 0; j < 3; j++) {
            struct http_response unpacked =
                http_client_send(&client, &(struct http_request){ .path = address_of(file),
                                                                  .accept_encoding = CODINGS[j] });
            expect_bytes(&unpacked, source, file->bytes);
            http_response_free(&unpacked);
        }
        free(source);
    }
}

TEST(head)
{
    char length[32];
    for (int i = 0; i < PAGE_FILE_COUNT; i++) {
        const struct page_file *file = &PAGE_FILES[i];
        struct http_response response =
            ask(&client, "HEAD", address_of(file), "Accept-Encoding: gzip");
        expect_status(&response, 200);
        expect_page_headers(&response, file);
        snprintf(length, sizeof length, "%zu", file->packed.size);
        expect_header(&response, "Content-Length", length);
        assert_int_equal(response.body_size, 0);
        http_response_free(&response);
    }
}

/* Every file has its own tag, and a browser that names it gets the headers alone. */
TEST(not_modified)
{
    static const char *const FORMS[] = { "If-None-Match: %s", "If-None-Match: \"a\", %s, \"b\"",
                                         "If-None-Match: *" };
    for (int i = 0; i < PAGE_FILE_COUNT; i++) {
        const struct page_file *file = &PAGE_FILES[i];
        const char *const tags[] = { file->tag, strchr(file->tag, '"') };
        for (int form = 0; form < 3; form++)
            for (int tag = 0; tag < 2; tag++) {
                char header[200];
                const char *star = strstr(FORMS[form], "%s");
                snprintf(header, sizeof header, "%.*s%s%s",
                         (int)(star ? (size_t)(star - FORMS[form]) : strlen(FORMS[form])),
                         FORMS[form], star ? tags[tag] : "", star ? star + 2 : "");
                struct http_response response = ask(&client, "GET", address_of(file), header);
                expect_status(&response, 304);
                expect_page_headers(&response, file);
                assert_int_equal(response.body_size, 0);
                http_response_free(&response);
            }
        char other[100];
        snprintf(other, sizeof other, "If-None-Match: %s",
                 PAGE_FILES[(i + 1) % PAGE_FILE_COUNT].tag);
        struct http_response response = ask(&client, "GET", address_of(file), other);
        expect_status(&response, 200);
        http_response_free(&response);
    }
}

TEST(nothing_there)
{
    static const struct {
        const char *path, *says;
    } CASES[] = {
        { "/explorer/app/nothing.js", "has no file 'app/nothing.js'" },
        { "/explorer/app/main.jsx", "has no file" },
        { "/explorer/..%2Fapp/main.js", "has no file" },
        { "/explorer/app/..%2F..%2F..%2FMakefile", "has no file" },
        { "/explorer/page.c", "there is nothing at" },
        { "/explorer/app/", "there is nothing at" },
        { "/explorer/", "there is nothing at" },
        { "/explorer", "there is nothing at" },
        { "/index.html", "there is nothing at" },
        { "/docs/nothing", "no page 'nothing'; expected calls, types or flags: /docs/types" },
        { "/docs/types.md", "no page 'types.md'" },
        { "/docs/..%2Findex", "no page '../index'" },
        { "/docs", "there is nothing at /docs; the reference is at /docs/calls, /docs/types and "
                   "/docs/flags, and as OpenAPI at /openapi.json" },
        { "/docs/", "there is nothing at /docs/; the reference is at /docs/calls" },
        { "/swagger", "the reference is at /docs/calls" },
        { "/healthz",
          "there is nothing at /healthz; GET /livez says that the daemon lives, and GET "
          "/readyz that it serves" },
        { "/ping/", "GET /livez says" },
        { "/health/ready", "GET /readyz" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct http_response response = http_client_get(&client, CASES[i].path);
        if (response.status != 404 || !strstr(response.body, CASES[i].says))
            fail_msg("%s: %s", CASES[i].path, response.body);
        answer_expect_fault(&response, 404, "not_found", "");
        expect_header(&response, "ETag", NULL);
        http_response_free(&response);
    }
}

TEST(methods)
{
    static const char *const METHODS[] = { "POST", "PUT", "DELETE", "OPTIONS" };
    static const char *const PATHS[] = { "/", "/explorer/app/main.js" };
    for (int i = 0; i < 8; i++) {
        struct http_response response = ask(&client, METHODS[i / 2], PATHS[i % 2], NULL);
        answer_expect_fault(&response, 405, "method", "");
        expect_header(&response, "Allow", "GET, HEAD");
        http_response_free(&response);
    }
}

/* ------------------------------------------------------------------- who gets them -- */

TEST(off)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--explorer", "off", NULL);
    http_client_init(&own, other.port);
    for (int i = 0; i < PAGE_FILE_COUNT; i++) {
        struct http_response response = http_client_get(&own, address_of(&PAGE_FILES[i]));
        assert_non_null(strstr(response.body, "the explorer is off (--explorer off)"));
        answer_expect_fault(&response, 404, "not_found", "");
        expect_header(&response, "Content-Security-Policy", NULL);
        http_response_free(&response);
    }
    struct http_response response = http_client_get(&own, "/v1/models");
    expect_status(&response, 200);
    http_response_free(&response);
    http_client_free(&own);
    daemon_stop(&other);
}

/* The reference lies in the program as the explorer does, packed, and is sent with equal headers.
 */
TEST(docs)
{
    static const struct {
        const char *path, *begins;
    } CASES[] = {
        { "/docs/calls", "# Reference: every operation\n" },
        { "/docs/types", "# Reference: what bodies hold\n" },
        { "/docs/flags", "# Reference: flags, variables and commands\n" },
    };
    assert_int_equal(DOCS_FILE_COUNT, 3);
    for (int i = 0; i < 3; i++) {
        struct http_response response = http_client_get(&client, CASES[i].path);
        expect_status(&response, 200);
        expect_page_headers(&response, &DOCS_FILES[i]);
        expect_header(&response, "Content-Type", "text/markdown; charset=utf-8");
        assert_int_equal(strncmp(response.body, CASES[i].begins, strlen(CASES[i].begins)), 0);
        assert_int_equal(response.body_size, DOCS_FILES[i].bytes);
        http_response_free(&response);
    }
}

/* The page needs no key, and is no way around the keys of the API. */
TEST(keys_in_use)
{
    static const struct key_line KEYS[] = { { "reader", "infer" }, { NULL, NULL } };
    static const struct http_request MODELS = { .path = "/v1/models" };
    struct daemon other;
    struct http_client own;
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--keys", fixture_path("keys"), NULL);
    http_client_init(&own, other.port);
    for (int i = 0; i < PAGE_FILE_COUNT; i++) {
        const struct http_request file = { .path = address_of(&PAGE_FILES[i]) };
        struct http_response response = key_expect(&own, NULL, &file, 200);
        expect_page_headers(&response, &PAGE_FILES[i]);
        http_response_free(&response);
        response = key_expect(&own, "nobody", &file, 200);
        http_response_free(&response);
    }
    key_expect_refused(&own, NULL, &MODELS, 401, "key", NULL);
    struct http_response response = key_expect(&own, "reader", &MODELS, 200);
    http_response_free(&response);
    http_client_free(&own);
    daemon_stop(&other);
}

#define AGENT                                                                                      \
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0.0.0\r\nAccept-Language: en\r\n"
#define FETCH(site, mode, dest)                                                                    \
    "Sec-Fetch-Site: " site "\r\nSec-Fetch-Mode: " mode "\r\nSec-Fetch-Dest: " dest "\r\n"
#define SCRIPT "GET /explorer/app/main.js"

static const struct browser_case {
    const char *line, *host, *headers;
    long status;
} BROWSERS[] = {
    /* The page in a window, what it loads itself, and what it asks. */
    { "GET /", "127.0.0.1", AGENT FETCH("none", "navigate", "document"), 200 },
    { "GET /", "127.0.0.1", AGENT FETCH("cross-site", "navigate", "document"), 200 },
    { SCRIPT, "127.0.0.1", AGENT FETCH("same-origin", "cors", "script"), 200 },
    { "GET /v1/models", "127.0.0.1", AGENT FETCH("same-origin", "cors", "empty"), 200 },
    /* In a frame of a notebook at another port or host. */
    { "GET /", "127.0.0.1", AGENT FETCH("same-site", "navigate", "iframe"), 200 },
    { "GET /", "localhost", AGENT FETCH("cross-site", "navigate", "iframe"), 200 },
    /* Nothing but the page opens in frames, and in no other way into another page. */
    { "GET /v1/models", "127.0.0.1", AGENT FETCH("cross-site", "navigate", "iframe"), 403 },
    { "GET /metrics", "127.0.0.1", AGENT FETCH("same-site", "navigate", "iframe"), 403 },
    { SCRIPT, "127.0.0.1", AGENT FETCH("cross-site", "navigate", "iframe"), 403 },
    { SCRIPT, "127.0.0.1", AGENT FETCH("cross-site", "no-cors", "script"), 403 },
    { "GET /", "127.0.0.1", AGENT FETCH("cross-site", "no-cors", "iframe"), 403 },
    { "GET /", "127.0.0.1", AGENT FETCH("cross-site", "navigate", "object"), 403 },
    { "GET /", "127.0.0.1", AGENT FETCH("cross-site", "no-cors", "image"), 403 },
    { "GET /", "127.0.0.1", AGENT FETCH("cross-site", "cors", "empty"), 403 },
    { "GET /", "127.0.0.1",
      AGENT "Origin: https://evil.example\r\n" FETCH("cross-site", "navigate", "iframe"), 403 },
    { "POST /", "127.0.0.1", AGENT "Origin: null\r\n" FETCH("cross-site", "navigate", "iframe"),
      403 },
    /* A name that has been made to lead here. */
    { "GET /", "evil.example", AGENT FETCH("cross-site", "navigate", "iframe"), 403 },
    { "GET /", "evil.example", AGENT FETCH("cross-site", "navigate", "document"), 403 },
    { "GET /", "evil.example", AGENT, 403 },
    { SCRIPT, "evil.example", AGENT FETCH("same-origin", "cors", "script"), 403 },
};

TEST(browsers)
{
    for (size_t i = 0; i < sizeof BROWSERS / sizeof BROWSERS[0]; i++) {
        const struct browser_case *c = &BROWSERS[i];
        char request[1000];
        struct http_raw raw;
        snprintf(request, sizeof request,
                 "%s HTTP/1.1\r\nHost: %s:%d\r\n%sConnection: close\r\n\r\n", c->line, c->host,
                 server.port, c->headers);
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, request));
        struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
        if (response.status != c->status)
            fail_msg("expected %ld:\n%s\n%s", c->status, request, response.headers);
        http_response_free(&response);
        http_raw_close(&raw);
    }
}

/* Who may call the daemon may show its page. */
TEST(allowed_origins)
{
    static const char *const ORIGINS[] = { "https://app.example", "http://box.lan:8888",
                                           "http://[::1]:8888", NULL };
    static const char *const ALL[] = { "*", NULL };
    static const struct {
        const char *const *origins;
        const char *policy;
    } CASES[] = { { ORIGINS, POLICY " https://app.example http://box.lan:8888" },
                  { ALL, POLICY " *" } };
    for (int i = 0; i < 2; i++) {
        const char *arguments[16];
        int count = 0;
        for (const char *const *origin = CASES[i].origins; *origin; origin++) {
            arguments[count++] = "--allow-origin";
            arguments[count++] = *origin;
        }
        arguments[count] = NULL;
        struct daemon other;
        struct http_client own;
        daemon_start(&other, &(struct daemon_options){ .arguments = arguments });
        http_client_init(&own, other.port);
        struct http_response response = http_client_get(&own, "/");
        expect_status(&response, 200);
        expect_header(&response, "Content-Security-Policy", CASES[i].policy);
        http_response_free(&response);
        http_client_free(&own);
        daemon_stop(&other);
    }
}

/* ---------------------------------------------------------------- that all is there -- */

static char *sent(const char *path)
{
    const struct page_file *file = page_files_find(path);
    assert_non_null(file);
    return plain_of(file);
}

/* Calls visit with each file of the tree in a folder of the page, "draw/axis.js", and its text. */
static int each_source(const char *pattern, void (*visit)(const char *, char *, const char *),
                       const char *packed)
{
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *text = manifest_file_text(found.gl_pathv[i]);
        visit(found.gl_pathv[i] + strlen("server/explorer/"), text, packed);
        free(text);
    }
    const int count = (int)found.gl_pathc;
    globfree(&found);
    return count;
}

/* Each line of code of a module is in the packed one, as far from its first as in its file: a line
 * number of the console leads there. Imports, exports and comments may be others; those of vendor/
 * are minified, and split. */
static void expect_module(const char *path, char *text, const char *packed)
{
    char begin[300];
    snprintf(begin, sizeof begin, "\nmodules['%s'] = (() => {", path);
    const char *at = strstr(packed, begin);
    if (!at || strstr(at + 1, begin))
        fail_msg("%s is not once in app/main.js", path);
    if (strcmp(path, "app/main.js") != 0)
        assert_non_null(page_files_find(path));
    bool is_import = false;
    at++;
    for (char *line = text, *end; strncmp(path, "vendor/", 7) != 0 && (end = strchr(line, '\n'));
         line = end + 1, at = strchr(at, '\n') + 1) {
        *end = '\0';
        is_import = strncmp(line, "import {", 8) == 0 || is_import;
        const bool is_code = !is_import && strncmp(line, "    ", 4) == 0;
        is_import = is_import && !strchr(line, ';');
        if (is_code && (strncmp(at, line, strlen(line)) != 0 || at[strlen(line)] != '\n'))
            fail_msg("%s has the line\n%s\napp/main.js has there\n%.*s", path, line,
                     (int)strcspn(at, "\n"), at);
    }
}

/* The rules of a style sheet are in the packed one, in their order. */
static void expect_style(const char *path, char *text, const char *packed)
{
    bool is_comment = false;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        is_comment = is_comment || strncmp(line, "/*", 2) == 0;
        if (!is_comment && !(packed = strstr(packed, line)))
            fail_msg("style/page.css has not, in this order, of %s:\n%s", path, line);
        is_comment = is_comment && !strstr(line, "*/");
    }
    char link[200];
    snprintf(link, sizeof link, "explorer/%s", path);
    char *index = sent("index.html");
    assert_null(strstr(index, link));
    free(index);
}

TEST(packed_in_one)
{
    char *script = sent("app/main.js"), *style = sent("style/page.css");
    assert_true(each_source("server/explorer/*/*.js", expect_module, script) > 60);
    assert_true(each_source("server/explorer/*/*.css", expect_style, style) > 6);
    free(script);
    free(style);
}

/* Beside the packed one, a module is a line that takes it from there. */
TEST(single_module)
{
    char *module = sent("vendor/htm.js");
    assert_string_equal(module, "import { modules } from '../app/main.js';\n"
                                "export default modules['vendor/htm.js'].default;\n");
    free(module);
    module = sent("draw/map_canvas.js");
    assert_non_null(strstr(module, "createLink"));
    assert_non_null(strstr(module, " } = modules['draw/map_canvas.js'];\n"));
    free(module);
}

TEST(size)
{
    size_t bytes = 0;
    for (int i = 0; i < PAGE_FILE_COUNT; i++) {
        bytes += PAGE_FILES[i].packed.size;
        assert_ptr_equal(page_files_find(PAGE_FILES[i].path), &PAGE_FILES[i]);
    }
    assert_non_null(page_files_find("index.html"));
    print_message("%d files, %zu bytes packed\n", PAGE_FILE_COUNT, bytes);
    assert_true(bytes <= PACKED_BYTES_MAX);
}

/* Writes the path in the table that a file means by a relative address. */
static void resolve(char path[300], const struct page_file *from, const char *address, int length)
{
    const char *folder_end = strrchr(from->path, '/');
    const int folder = folder_end ? (int)(folder_end - from->path) : 0;
    if (!folder_end && strncmp(address, "explorer/", 9) == 0)
        snprintf(path, 300, "%.*s", length - 9, address + 9);
    else if (strncmp(address, "../", 3) == 0)
        snprintf(path, 300, "%.*s", length - 3, address + 3);
    else if (strncmp(address, "./", 2) == 0)
        snprintf(path, 300, "%.*s/%.*s", folder, from->path, length - 2, address + 2);
    else
        snprintf(path, 300, "(%.*s)", length, address);
}

/* Whether an address of index.html is one of the API, beside the page's own. */
static bool is_of_api(const struct page_file *file, const char *address)
{
    return strcmp(file->path, "index.html") == 0
           && (strncmp(address, "openapi.json\"", 13) == 0 || strncmp(address, "v1/", 3) == 0);
}

/* Fails unless each address behind one of these words, in quotes, is that of a file. Returns how
 * many there are. */
static int expect_all_there(const struct page_file *file, const char *source, const char *word)
{
    int count = 0;
    for (const char *at = source; (at = strstr(at, word)); at++) {
        const char *begin = at + strlen(word), quote = begin[-1];
        const char *end = strchr(begin, quote == '(' ? ')' : quote);
        char path[300];
        assert_non_null(end);
        if (strncmp(begin, "data:", 5) == 0 || begin[0] == '#' || is_of_api(file, begin))
            continue;
        resolve(path, file, begin, (int)(end - begin));
        if (!page_files_find(path))
            fail_msg("%s names %.*s, which is not there", file->path, (int)(end - begin), begin);
        count++;
    }
    return count;
}

TEST(imports)
{
    static const char *const WORDS[] = { " from '",  "import '",  "import('",
                                         " from \"", "import \"", "import(\"" };
    int count = 0;
    for (int i = 0; i < PAGE_FILE_COUNT; i++) {
        const struct page_file *file = &PAGE_FILES[i];
        char *source = plain_of(file);
        if (strstr(file->type, "html"))
            count += expect_all_there(file, source, "src=\"")
                     + expect_all_there(file, source, "href=\"");
        if (strstr(file->type, "css"))
            expect_all_there(file, source, "url(");
        if (strstr(file->type, "javascript"))
            for (int j = 0; j < 6; j++)
                count += expect_all_there(file, source, WORDS[j]);
        free(source);
    }
    assert_true(count >= 2);
}

/* The policy forbids both; a browser would leave them out without a word on the page. */
TEST(nothing_inline)
{
    char *source = plain_of(page_files_find("index.html"));
    assert_null(strstr(source, " style="));
    assert_null(strstr(source, "<style"));
    assert_null(strstr(source, " on"));
    for (const char *at = source; (at = strstr(at, "<script")); at++) {
        const char *end = strchr(at, '>');
        assert_true(memmem(at, (size_t)(end - at), "type=\"module\"", 13) != NULL);
        assert_true(strncmp(end, "></script>", 10) == 0);
    }
    free(source);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    return fixture_start(state);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
