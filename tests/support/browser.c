/* SPDX-License-Identifier: Apache-2.0 */
/* browser.c - see browser.h. The driver is asked over the protocol that the W3C calls WebDriver. */
#include "browser.h"
#include "test.h"

#include "daemon.h"
#include "skip.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const double PATIENCE = 30; /* seconds, scaled */

void browser_skip_without(void)
{
    skip_without("chromium", "command -v chromium");
    skip_without("chromium-driver", "command -v chromedriver");
}

/* --------------------------------------------------------------------- the driver -- */

static char *driver_log(const struct browser *browser)
{
    char *text = calloc(1, 65536);
    assert_non_null(text);
    const ssize_t size = pread(browser->log, text, 65535, 0);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

static void start_driver(struct browser *browser)
{
    browser->log = memfd_create("chromedriver", MFD_CLOEXEC);
    assert_true(browser->log >= 0);
    browser->driver = fork();
    assert_true(browser->driver >= 0);
    if (browser->driver > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(browser->log, 1);
    dup2(browser->log, 2);
    close_range(3, ~0u, 0);
    execlp("chromedriver", "chromedriver", "--port=0", (char *)NULL);
    fprintf(stderr, "cannot start chromedriver: %s\n", strerror(errno));
    _exit(127);
}

/* Reads the port from what the driver prints once it listens. */
static void find_driver(struct browser *browser)
{
    static const char words[] = "started successfully on port ";
    const double until = daemon_now() + PATIENCE * daemon_slowness();
    for (int port = 0; port == 0; daemon_pause(0.01)) {
        char *log = driver_log(browser), *found = strstr(log, words);
        if (found)
            port = atoi(found + sizeof words - 1);
        if (port == 0 && daemon_now() > until)
            fail_msg("chromedriver does not get ready: %s", log);
        free(log);
        if (port > 0)
            http_client_init(&browser->client, port);
    }
}

/* ----------------------------------------------------------------------- commands -- */

cJSON *browser_call(struct browser *browser, const char *path, cJSON *body)
{
    char whole[512];
    snprintf(whole, sizeof whole, "/session%s%s%s", browser->session[0] ? "/" : "",
             browser->session, path);
    char *text = body ? cJSON_PrintUnformatted(body) : NULL;
    cJSON_Delete(body);
    struct http_response response = http_client_send(
        &browser->client,
        &(struct http_request){ .path = whole, .body = text, .timeout_seconds = 2 * PATIENCE });
    cJSON *answer = cJSON_Parse(response.body);
    cJSON *value = cJSON_DetachItemFromObjectCaseSensitive(answer, "value");
    if (response.status != 200) {
        const cJSON *message = cJSON_GetObjectItemCaseSensitive(value, "message");
        fail_msg("%s %.600s: %ld %.2000s", path, text ? text : "", response.status,
                 cJSON_IsString(message) ? message->valuestring : response.body);
    }
    free(text);
    cJSON_Delete(answer);
    http_response_free(&response);
    return value;
}

/* The page's own storage, caches and profile lie in the folder. Chromium ends when its driver
 * does, because they talk over a pipe. */
static cJSON *capabilities(const struct browser *browser)
{
    static const char form[] =
        "{\"capabilities\":{\"alwaysMatch\":{\"browserName\":\"chrome\",\"goog:loggingPrefs\":{"
        "\"browser\":\"ALL\",\"performance\":\"ALL\"},\"goog:chromeOptions\":{\"args\":["
        "\"--headless=new\",\"--no-sandbox\",\"--disable-gpu\",\"--disable-quic\","
        "\"--no-first-run\",\"--disable-background-networking\",\"--disable-component-update\","
        "\"--disable-sync\",\"--disable-dev-shm-usage\",\"--remote-debugging-pipe\","
        "\"--enable-precise-memory-info\",\"--hide-scrollbars\",\"--force-color-profile=srgb\","
        "\"--lang=en\",\"--user-data-dir=%s/"
        "profile\"],\"perfLoggingPrefs\":{\"enableNetwork\":true,"
        "\"enablePage\":false}}}}}";
    char *text = NULL;
    assert_true(asprintf(&text, form, browser->directory) > 0);
    cJSON *body = cJSON_Parse(text);
    assert_non_null(body);
    free(text);
    return body;
}

void browser_open(struct browser *browser)
{
    *browser = (struct browser){ .directory = daemon_directory_create() };
    start_driver(browser);
    find_driver(browser);
    cJSON *value = browser_call(browser, "", capabilities(browser));
    const cJSON *session = cJSON_GetObjectItemCaseSensitive(value, "sessionId");
    assert_true(cJSON_IsString(session));
    snprintf(browser->session, sizeof browser->session, "%s", session->valuestring);
    cJSON_Delete(value);
    browser_keep_downloads(browser);
    browser_resize(browser, 1280, 800);
}

void browser_close(struct browser *browser)
{
    if (browser->driver > 0) {
        if (browser->session[0]) {
            char path[128];
            snprintf(path, sizeof path, "/session/%s", browser->session);
            struct http_response response = http_client_send(
                &browser->client, &(struct http_request){ .method = "DELETE", .path = path });
            http_response_free(&response);
        }
        kill(browser->driver, SIGTERM);
        waitpid(browser->driver, NULL, 0);
        if (browser->client.curl)
            http_client_free(&browser->client);
        close(browser->log);
    }
    daemon_directory_remove(browser->directory);
    *browser = (struct browser){ 0 };
}

/* ------------------------------------------------------------------------ scripts -- */

static char *text_of(const char *format, va_list list)
{
    char *text = NULL;
    assert_true(vasprintf(&text, format, list) >= 0);
    return text;
}

static cJSON *object_with(const char *name, const char *text)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, name, text);
    return object;
}

void browser_go(struct browser *browser, const char *address, ...)
{
    va_list list;
    va_start(list, address);
    char *text = text_of(address, list);
    va_end(list);
    cJSON_Delete(browser_call(browser, "/url", object_with("url", text)));
    free(text);
}

static cJSON *run(struct browser *browser, const char *script)
{
    cJSON *body = object_with("script", script);
    cJSON_AddItemToObject(body, "args", cJSON_CreateArray());
    return browser_call(browser, "/execute/sync", body);
}

static cJSON *evaluate(struct browser *browser, const char *form, const char *expression)
{
    char *script = NULL;
    assert_true(asprintf(&script, form, expression) > 0);
    cJSON *value = run(browser, script);
    free(script);
    return value;
}

void browser_do(struct browser *browser, const char *script, ...)
{
    va_list list;
    va_start(list, script);
    char *text = text_of(script, list);
    va_end(list);
    cJSON_Delete(run(browser, text));
    free(text);
}

cJSON *browser_run(struct browser *browser, const char *script, ...)
{
    va_list list;
    va_start(list, script);
    char *text = text_of(script, list);
    va_end(list);
    cJSON *value = run(browser, text);
    free(text);
    return value;
}

double browser_number(struct browser *browser, const char *expression, ...)
{
    va_list list;
    va_start(list, expression);
    char *text = text_of(expression, list);
    va_end(list);
    cJSON *value = evaluate(browser, "return (%s);", text);
    if (!cJSON_IsNumber(value))
        fail_msg("no number but %s: %s", cJSON_PrintUnformatted(value), text);
    const double number = value->valuedouble;
    cJSON_Delete(value);
    free(text);
    return number;
}

char *browser_text(struct browser *browser, const char *expression, ...)
{
    va_list list;
    va_start(list, expression);
    char *text = text_of(expression, list);
    va_end(list);
    cJSON *value = evaluate(browser, "return (%s);", text);
    if (!cJSON_IsString(value))
        fail_msg("no text but %s: %s", cJSON_PrintUnformatted(value), text);
    char *found = strdup(value->valuestring);
    cJSON_Delete(value);
    free(text);
    return found;
}

/* A promise is waited for: by itself it would hold whatever it brings. */
static bool holds(struct browser *browser, const char *condition)
{
    cJSON *value = evaluate(browser, "return Promise.resolve(%s).then(Boolean);", condition);
    const bool is_true = cJSON_IsTrue(value);
    cJSON_Delete(value);
    return is_true;
}

bool browser_is(struct browser *browser, const char *condition, ...)
{
    va_list list;
    va_start(list, condition);
    char *text = text_of(condition, list);
    va_end(list);
    const bool is_true = holds(browser, text);
    free(text);
    return is_true;
}

/* Ends the test with a screenshot and what the page says. */
static void fail_at(struct browser *browser, const char *condition)
{
    char path[256];
    snprintf(path, sizeof path, "build/page/failed-%s.png", program_invocation_short_name);
    browser_save_picture(browser, path);
    char *said = browser_text(browser, "document.body ? document.body.innerText : ''");
    fail_msg("not so: %s\nThe page, in %s, says:\n%.1500s", condition, path, said);
}

void browser_wait(struct browser *browser, const char *condition, ...)
{
    va_list list;
    va_start(list, condition);
    char *text = text_of(condition, list);
    va_end(list);
    const double until = daemon_now() + PATIENCE * daemon_slowness();
    while (!holds(browser, text)) {
        if (daemon_now() > until)
            fail_at(browser, text);
        daemon_pause(0.02);
    }
    free(text);
}

void browser_expect(struct browser *browser, const char *condition, ...)
{
    va_list list;
    va_start(list, condition);
    char *text = text_of(condition, list);
    va_end(list);
    if (!holds(browser, text))
        fail_at(browser, text);
    free(text);
}
