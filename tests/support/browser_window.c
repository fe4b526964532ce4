/* SPDX-License-Identifier: Apache-2.0 */
/* browser_window.c - what a browser shows: size, colour scheme, pictures, tabs, files that it
 * saves. See browser.h. */
#include "browser.h"
#include "test.h"

#include "daemon.h"

#include <dirent.h>
#include <sys/stat.h>

void browser_command(struct browser *browser, const char *command, const char *parameters)
{
    cJSON *body = cJSON_CreateObject(), *values = cJSON_Parse(parameters);
    assert_non_null(values);
    cJSON_AddStringToObject(body, "cmd", command);
    cJSON_AddItemToObject(body, "params", values);
    cJSON_Delete(browser_call(browser, "/goog/cdp/execute", body));
}

void browser_resize(struct browser *browser, int width, int height)
{
    char parameters[128];
    snprintf(parameters, sizeof parameters,
             "{\"width\":%d,\"height\":%d,\"deviceScaleFactor\":1,\"mobile\":false}", width,
             height);
    browser_command(browser, "Emulation.setDeviceMetricsOverride", parameters);
}

void browser_prefer(struct browser *browser, const char *feature, const char *value)
{
    char parameters[256];
    snprintf(parameters, sizeof parameters, "{\"features\":[{\"name\":\"%s\",\"value\":\"%s\"}]}",
             feature, value);
    browser_command(browser, "Emulation.setEmulatedMedia", parameters);
}

char *browser_picture(struct browser *browser)
{
    cJSON *value = browser_call(browser, "/screenshot", NULL);
    assert_true(cJSON_IsString(value));
    char *text = strdup(value->valuestring);
    cJSON_Delete(value);
    return text;
}

/* Draws two pictures and counts; %d is the tolerance, %s the two texts. */
static const char COUNT[] =
    "const pixels = async (text) => { const image = new Image();"
    "  image.src = 'data:image/png;base64,' + text; await image.decode();"
    "  const copy = new OffscreenCanvas(image.width, image.height).getContext('2d');"
    "  copy.drawImage(image, 0, 0);"
    "  return copy.getImageData(0, 0, image.width, image.height).data; };"
    "const count = async (tolerance, one, other) => {"
    "  const [a, b] = [await pixels(one), await pixels(other)]; let most = Math.abs(a.length - "
    "b.length) / 4;"
    "  for (let i = 0; i < Math.min(a.length, b.length); i += 4)"
    "    most += [0, 1, 2].some((c) => Math.abs(a[i + c] - b[i + c]) > tolerance);"
    "  return most; };"
    "return count(%d, '%s', '%s');";

int browser_differing_pixels(struct browser *browser, const char *one, const char *other,
                             int tolerance)
{
    if (strcmp(one, other) == 0)
        return 0;
    cJSON *count = browser_run(browser, COUNT, tolerance, one, other);
    assert_true(cJSON_IsNumber(count));
    const int pixels = count->valueint;
    cJSON_Delete(count);
    return pixels;
}

/* Returns how many bytes of text in base64 are written to bytes. */
static size_t unpack(const char *text, unsigned char *bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = 0;
    uint32_t bits = 0;
    int count = 0;
    for (; *text && *text != '='; text++) {
        const char *digit = strchr(digits, *text);
        assert_non_null(digit);
        bits = bits << 6 | (uint32_t)(digit - digits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes[size++] = (unsigned char)(bits >> count & 0xff);
        }
    }
    return size;
}

static void make_folders(const char *path)
{
    char folder[512];
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        if (*folder)
            mkdir(folder, 0755);
    }
}

void browser_write_picture(const char *picture, const char *path)
{
    unsigned char *bytes = malloc(strlen(picture));
    assert_non_null(bytes);
    const size_t size = unpack(picture, bytes);
    make_folders(path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}

void browser_save_picture(struct browser *browser, const char *path)
{
    char *picture = browser_picture(browser);
    browser_write_picture(picture, path);
    free(picture);
}

/* -------------------------------------------------------------------------- tabs -- */

static void switch_to(struct browser *browser, const char *handle)
{
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "handle", handle);
    cJSON_Delete(browser_call(browser, "/window", body));
}

void browser_open_tab(struct browser *browser)
{
    cJSON *value = browser_call(browser, "/window/new", cJSON_Parse(JSON({"type":"tab"})));
    switch_to(browser, cJSON_GetObjectItemCaseSensitive(value, "handle")->valuestring);
    cJSON_Delete(value);
    browser_resize(browser, 1280, 800);
}

void browser_close_tab(struct browser *browser)
{
    cJSON *handles = browser_call(browser, "/window/handles", NULL);
    assert_true(cJSON_GetArraySize(handles) > 1);
    browser_do(browser, "window.close();");
    switch_to(browser, cJSON_GetArrayItem(handles, 0)->valuestring);
    cJSON_Delete(handles);
}

/* --------------------------------------------------------------------- downloads -- */

void browser_keep_downloads(struct browser *browser)
{
    char parameters[512];
    snprintf(parameters, sizeof parameters,
             "{\"behavior\":\"allow\",\"downloadPath\":\"%s/downloads\"}", browser->directory);
    browser_command(browser, "Browser.setDownloadBehavior", parameters);
}

char *browser_download(struct browser *browser, const char *end)
{
    char folder[256], *path = NULL;
    snprintf(folder, sizeof folder, "%s/downloads", browser->directory);
    for (const double until = daemon_now() + 20 * daemon_slowness(); !path; daemon_pause(0.02)) {
        if (daemon_now() > until)
            fail_msg("no file *%s comes", end);
        DIR *stream = opendir(folder);
        for (struct dirent *entry; stream && !path && (entry = readdir(stream));) {
            const size_t size = strlen(entry->d_name), end_size = strlen(end);
            if (size >= end_size && strcmp(entry->d_name + size - end_size, end) == 0)
                assert_true(asprintf(&path, "%s/%s", folder, entry->d_name) > 0);
        }
        if (stream)
            closedir(stream);
    }
    return path;
}
