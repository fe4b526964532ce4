/* SPDX-License-Identifier: Apache-2.0 */
/* browser_input.c - see browser_input.h. Keys and the mouse are WebDriver's actions. */
#include "browser_input.h"
#include "test.h"

#include "request_text.h"

/* ------------------------------------------------------------------------- actions -- */

/* Sends the actions of one device, JSON objects between commas. */
static void perform(struct browser *browser, const char *device, const char *actions)
{
    struct request_text text = { 0 };
    request_text_add(&text, JSON({"actions":[{%s,"id":"one","actions":[%s]}]}), device, actions);
    cJSON *body = cJSON_Parse(text.data);
    if (!body)
        fail_msg("no JSON: %s", text.data);
    cJSON_Delete(browser_call(browser, "/actions", body));
    free(text.data);
}

static int bytes_of(const char *character)
{
    int count = 1;
    while (((unsigned char)character[count] & 0xc0) == 0x80)
        count++;
    return count;
}

static void add_key(struct request_text *actions, const char *type, const char *key)
{
    char one[8];
    snprintf(one, sizeof one, "%.*s", bytes_of(key), key);
    cJSON *value = cJSON_CreateString(one);
    char *text = cJSON_PrintUnformatted(value);
    request_text_add(actions, "%s{\"type\":\"%s\",\"value\":%s}", actions->used > 0 ? "," : "",
                     type, text);
    free(text);
    cJSON_Delete(value);
}

void browser_keys_with(struct browser *browser, const char *held, const char *keys)
{
    struct request_text actions = { 0 };
    if (held)
        add_key(&actions, "keyDown", held);
    for (; *keys; keys += bytes_of(keys)) {
        add_key(&actions, "keyDown", keys);
        add_key(&actions, "keyUp", keys);
    }
    if (held)
        add_key(&actions, "keyUp", held);
    perform(browser, JSON("type":"key"), actions.data);
    free(actions.data);
}

void browser_keys(struct browser *browser, const char *keys)
{
    browser_keys_with(browser, NULL, keys);
}

/* ----------------------------------------------------------------------- elements -- */

/* The path of a command to the element, "/element/ID/click"; valid until the next call. */
static const char *element_path(struct browser *browser, const char *selector, const char *command)
{
    static char path[256];
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "using", "css selector");
    cJSON_AddStringToObject(body, "value", selector);
    cJSON *value = browser_call(browser, "/element", body);
    assert_non_null(value->child);
    snprintf(path, sizeof path, "/element/%s/%s", value->child->valuestring, command);
    cJSON_Delete(value);
    return path;
}

void browser_click(struct browser *browser, const char *selector)
{
    const char *path = element_path(browser, selector, "click");
    cJSON_Delete(browser_call(browser, path, cJSON_CreateObject()));
}

static void send_text(struct browser *browser, const char *selector, const char *text)
{
    const char *path = element_path(browser, selector, "value");
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "text", text);
    cJSON_Delete(browser_call(browser, path, body));
}

void browser_type(struct browser *browser, const char *selector, const char *text)
{
    const char *path = element_path(browser, selector, "clear");
    cJSON_Delete(browser_call(browser, path, cJSON_CreateObject()));
    send_text(browser, selector, text);
}

void browser_give_file(struct browser *browser, const char *selector, const char *path)
{
    send_text(browser, selector, path);
}

/* -------------------------------------------------------------------------- mouse -- */

#define MOUSE "\"type\":\"pointer\",\"parameters\":{\"pointerType\":\"mouse\"}"
#define MOVE  "{\"type\":\"pointerMove\",\"duration\":%d,\"x\":%.0f,\"y\":%.0f}"
#define DOWN  "{\"type\":\"pointerDown\",\"button\":0}"
#define UP    "{\"type\":\"pointerUp\",\"button\":0}"

void browser_move(struct browser *browser, double x, double y)
{
    char actions[256];
    snprintf(actions, sizeof actions, MOVE, 0, x, y);
    perform(browser, MOUSE, actions);
}

void browser_press(struct browser *browser, double x, double y)
{
    char actions[512];
    snprintf(actions, sizeof actions, MOVE "," DOWN "," UP, 0, x, y);
    perform(browser, MOUSE, actions);
}

void browser_drag(struct browser *browser, double x, double y, double to_x, double to_y)
{
    char actions[512];
    snprintf(actions, sizeof actions, MOVE "," DOWN "," MOVE "," UP, 0, x, y, 200, to_x, to_y);
    perform(browser, MOUSE, actions);
}

void browser_wheel(struct browser *browser, double x, double y, double pixels)
{
    char actions[256];
    snprintf(
        actions, sizeof actions,
        "{\"type\":\"scroll\",\"duration\":0,\"x\":%.0f,\"y\":%.0f,\"deltaX\":0,\"deltaY\":%.0f}",
        x, y, pixels);
    perform(browser, JSON("type":"wheel"), actions);
}
