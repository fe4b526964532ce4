/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_faults.c - faults: the page says what the daemon said, and what a person can do. A
 * trace that has ended is made again without a word. */
#include "answer.h"
#include "browser_input.h"
#include "browser_log.h"
#include "explorer.h"
#include "fixture.h"
#include "key_file.h"
#include "test.h"

/* What Chromium itself writes to the console where an answer is a fault, or none comes. */
static const char *const FAULTS[] = { "Failed to load resource", NULL };

#define FAULT "document.querySelector('.fault[role=alert]')"

/* The page must show this text, which came from the daemon. */
static void expect_words(const char *words)
{
    cJSON *text = cJSON_CreateString(words);
    char *quoted = cJSON_PrintUnformatted(text);
    browser_expect(&browser, FAULT "?.innerText.includes(%s)", quoted);
    free(quoted);
    cJSON_Delete(text);
}

/* A text longer than the model takes: status, words and place are the daemon's. */
TEST(own_words)
{
    explorer_begin();
    struct http_response response =
        http_client_post(&client, "/v1/trace", "{\"model\":\"nobody\",\"text\":\"a\"}");
    cJSON *answer = answer_json(&response, 404);
    explorer_open("model=nobody&text=a");
    expect_words(cJSON_GetObjectItemCaseSensitive(answer, "error")->valuestring);
    browser_expect(&browser, FAULT ".dataset.status === '404' && " FAULT ".dataset.code === '%s'",
                   cJSON_GetObjectItemCaseSensitive(answer, "code")->valuestring);
    cJSON_Delete(answer);
    http_response_free(&response);
    explorer_expect_quiet(FAULTS);
}

/* The same with the pointer to the field that is wrong. */
TEST(pointer)
{
    explorer_begin();
    struct http_response response = http_client_post(
        &client, "/v1/trace", "{\"model\":\"stories260K\",\"tokens\":[1,99999],\"keep\":\"1m\"}");
    cJSON *answer = answer_json(&response, 400);
    explorer_open("model=stories260K&tokens=1,99999");
    expect_words(cJSON_GetObjectItemCaseSensitive(answer, "error")->valuestring);
    expect_words(cJSON_GetObjectItemCaseSensitive(answer, "pointer")->valuestring);
    cJSON_Delete(answer);
    http_response_free(&response);
    explorer_expect_quiet(FAULTS);
}

/* What is seen stays where a person can read it, and the next input takes the fault away. */
TEST(next_input)
{
    explorer_begin();
    explorer_open("model=nobody&text=a");
    browser_expect(&browser, FAULT);
    browser_do(&browser, "location.hash = '%s'", EXPLORER_TEXT);
    explorer_settle();
    browser_wait(&browser, "!" FAULT " && " EXPLORER_HAS_PICTURE);
    explorer_expect_quiet(FAULTS);
}

/* Ends every kept trace behind the page's back. */
static void end_traces(void)
{
    char *requests = browser_requests(&browser);
    for (char *at = requests; (at = strstr(at, "/v1/traces/")); at += 11) {
        char path[64];
        snprintf(path, sizeof path, "/v1/traces/%.32s", at + 11);
        struct http_response response =
            http_client_send(&client, &(struct http_request){ .method = "DELETE", .path = path });
        http_response_free(&response);
    }
    free(requests);
}

TEST(trace_that_ended)
{
    explorer_begin();
    free(browser_requests(&browser));
    explorer_open(EXPLORER_TEXT);
    end_traces();
    browser_command(&browser, "Network.setCacheDisabled", JSON({"cacheDisabled":true}));
    browser_click(&browser, "nav.tabs a[data-view=head]");
    explorer_settle();
    browser_wait(&browser, "!" FAULT " && " EXPLORER_HAS_PICTURE);
    browser_expect(&browser, "seen.asked.filter((one) => one === 'POST v1/trace').length === 2");
    explorer_expect_quiet(FAULTS);
}

TEST(daemon_gone)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    fixture_stop(NULL);
    browser_type(&browser, "textarea", "Nobody hears this.");
    browser_keys(&browser, KEY_ENTER);
    explorer_settle();
    expect_words("daemon");
    browser_expect(&browser, "[...document.querySelectorAll('.fault button')].length > 0");
    explorer_expect_quiet(FAULTS);
    daemon_kill(&server);
}

static const struct key_line KEYS[] = { { "ann", "infer" }, { "bob", "metrics" }, { NULL, NULL } };

static void give_key(const char *name, const char *status)
{
    browser_expect(&browser, FAULT ".dataset.status === '%s'", status);
    browser_expect(&browser, "document.querySelector('input[type=password]')");
    browser_type(&browser, "input[type=password]", key_secret(name));
    browser_keys(&browser, KEY_ENTER);
    explorer_settle();
}

/* Without a key the page asks for one, and for another where that one may not look; with it the
 * picture comes. The key is in no address, no storage and no cookie. */
TEST(key)
{
    browser_skip_without();
    directory = daemon_directory_create();
    key_file_write(fixture_path("keys"), KEYS);
    fixture_serve("--models", "examples/models", "--keys", fixture_path("keys"));
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    give_key("bob", "401");
    give_key("ann", "403");
    browser_wait(&browser, "!" FAULT " && " EXPLORER_HAS_PICTURE);
    browser_expect(&browser,
                   "![location.href, document.cookie, JSON.stringify(localStorage),"
                   " JSON.stringify(sessionStorage), document.documentElement.outerHTML]"
                   ".some((place) => place.includes('%s'))",
                   key_secret("ann"));
    explorer_expect_quiet(FAULTS);
}

ALL_TESTS(NULL, explorer_stop);
