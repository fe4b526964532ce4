/* SPDX-License-Identifier: Apache-2.0 */
/* browser_log.c - see browser_log.h. Chromedriver keeps two logs, and hands out each entry once. */
#include "browser_log.h"
#include "test.h"

#include "request_text.h"

static cJSON *entries_of(struct browser *browser, const char *type)
{
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "type", type);
    return browser_call(browser, "/se/log", body);
}

static const char *text_at(const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(member) ? member->valuestring : "";
}

char *browser_requests(struct browser *browser)
{
    struct request_text text = { 0 };
    cJSON *entries = entries_of(browser, "performance");
    const cJSON *entry;
    request_text_add(&text, "%s", "");
    cJSON_ArrayForEach(entry, entries) {
        cJSON *event = cJSON_Parse(text_at(entry, "message"));
        const cJSON *message = cJSON_GetObjectItemCaseSensitive(event, "message");
        const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(message, "params");
        const cJSON *request = cJSON_GetObjectItemCaseSensitive(parameters, "request");
        if (strcmp(text_at(message, "method"), "Network.requestWillBeSent") == 0)
            request_text_add(&text, "%s %s\n", text_at(request, "method"), text_at(request, "url"));
        cJSON_Delete(event);
    }
    cJSON_Delete(entries);
    return text.data;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Whether an address leads to nothing outside the browser. */
static bool is_inner(const char *address)
{
    return begins(address, "blob:") || begins(address, "data:") || begins(address, "chrome:");
}

static void add_foreign_requests(struct browser *browser, const char *origin,
                                 struct request_text *complaint)
{
    char *requests = browser_requests(browser);
    for (char *line = requests, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        const char *address = strchr(line, ' ') + 1;
        if (!begins(address, origin) && !is_inner(address))
            request_text_add(complaint, "a request to another place than %s: %s\n", origin, line);
    }
    free(requests);
}

static bool is_expected(const char *message, const char *const *expected)
{
    for (; expected && *expected; expected++)
        if (strstr(message, *expected))
            return true;
    return false;
}

char *browser_complaint(struct browser *browser, const char *origin, const char *const *expected)
{
    struct request_text complaint = { 0 };
    cJSON *entries = entries_of(browser, "browser");
    const cJSON *entry;
    cJSON_ArrayForEach(entry, entries) {
        const char *level = text_at(entry, "level"), *message = text_at(entry, "message");
        if ((strcmp(level, "SEVERE") == 0 || strcmp(level, "WARNING") == 0)
            && !is_expected(message, expected))
            request_text_add(&complaint, "the console: %s %s\n", level, message);
    }
    cJSON_Delete(entries);
    add_foreign_requests(browser, origin, &complaint);
    return complaint.data;
}

void browser_expect_quiet(struct browser *browser, const char *origin, const char *const *expected)
{
    char *complaint = browser_complaint(browser, origin, expected);
    if (complaint)
        fail_msg("%s", complaint);
}
