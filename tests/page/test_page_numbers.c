/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_numbers.c - every number that the page shows is the API's: those in the text of the
 * page, those in its attributes, and those that are colours of a picture. The API is asked by
 * another client, and for whole maps, not for pieces of a kept trace. */
#include "answer.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"

#define SENTENCE "One day, a little girl named Lily found a big red ball in the park."
#define STORY    "model=stories260K&text=" SENTENCE
#define REQUEST  "{\"model\":\"stories260K\",\"text\":\"" SENTENCE "\""

/* Opens the page, which then has the API's answer to the body as window.api. */
static void open_with(const char *fragment, const char *path, const char *body)
{
    explorer_begin();
    explorer_open("%s", fragment);
    struct http_response response =
        body ? http_client_post(&client, path, body) : http_client_get(&client, path);
    if (response.status != 200)
        fail_msg("%s: %ld %s", path, response.status, response.body);
    browser_do(&browser, "window.api = %s;", response.body);
    browser_do(&browser,
               "window.weightOf = (layer, head, row, key) =>"
               "  api.layers.find((one) => one.layer === +layer).weights[+head][+row][+key];");
    http_response_free(&response);
}

/* An id of a trace of the sentence that this client keeps. */
static const char *keep(void)
{
    static char id[40];
    cJSON *answer = answer_post(&client, "/v1/trace", REQUEST ",\"outputs\":[],\"keep\":\"5m\"}");
    snprintf(id, sizeof id, "%s", cJSON_GetObjectItem(answer, "trace")->valuestring);
    cJSON_Delete(answer);
    return id;
}

/* The expression is a list of [where, shown, wanted]; it must have at least so many, and in each
 * the two numbers must be within tolerance of each other, relative to the wanted one. */
static void expect_pairs(const char *pairs, int least, double tolerance)
{
    char *wrong = browser_text(
        &browser,
        "((pairs) => pairs.length < %d ? `only ${pairs.length} numbers` : pairs.filter("
        "([, shown, want]) => !(Math.abs(shown - want) <= %g * Math.abs(want) + 1e-9))"
        ".slice(0, 8).map(([where, shown, want]) => `${where}: ${shown}, not ${want}`).join('\\n'))"
        "([...(%s)])",
        least, tolerance, pairs);
    if (*wrong)
        fail_msg("%s\n%s", pairs, wrong);
    free(wrong);
}

/* A number as the page writes it. */
#define READ "(element) => Number(element.textContent.trim().replace(/−/g, '-').replace(/ .*/, ''))"

TEST(overview_statistics)
{
    char path[80];
    explorer_begin();
    snprintf(path, sizeof path, "/v1/traces/%s/statistics", keep());
    open_with(STORY, path, NULL);
    browser_do(&browser, "document.querySelector('input[value=table]').click()");
    explorer_settle();
    expect_pairs(
        "[...document.querySelectorAll('tr[data-layer] td[data-statistic]')].map((cell) => {"
        "  const {layer, head} = cell.parentNode.dataset, name = cell.dataset.statistic;"
        "  return [`${name} ${layer} ${head}`, Number(cell.dataset.value),"
        "  api.layers.find((one) => one.layer === +layer)[name][+head]]; })",
        5 * 8 * 6, 1e-12);
    expect_pairs("[...document.querySelectorAll('tr[data-layer] td[data-statistic]')].map((cell) =>"
                 "  [cell.textContent, (" READ ")(cell), Number(cell.dataset.value)])",
                 5 * 8 * 6, 6e-3);
}

/* In greys a weight of 0 is white and one of 1 black, linear between them; a pair that may not be
 * seen has no colour. */
TEST(overview_pictures)
{
    open_with(STORY "&palette=greys", "/v1/trace", REQUEST "}");
    expect_pairs(
        "[...document.querySelectorAll('button.map[data-layer]')].flatMap((button) => {"
        "  const canvas = button.querySelector('canvas'), {layer, head} = button.dataset;"
        "  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');"
        "  copy.drawImage(canvas, 0, 0);"
        "  const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);"
        "  return Array.from({length: canvas.width * canvas.height}, (_, i) =>"
        "    [`layer ${layer} head ${head} cell ${i}`, 1000 + (data[4 * i + 3] ? data[4 * i]"
        "    : -1), 1000 + (i % canvas.width > Math.floor(i / canvas.width) ? -1 : 255 *"
        "    (1 - weightOf(layer, head, Math.floor(i / canvas.width), i % canvas.width)))]);"
        " })",
        40 * 26 * 26, 1.5e-3);
}

/* The bars beside the map in both directions, the pair that is fixed, and the row in the other
 * layers, whose data-line is LAYER/HEAD. */
TEST(head)
{
    open_with(STORY "&view=head&layer=1&head=4&row=9&key=5", "/v1/trace", REQUEST "}");
    expect_pairs("[...document.querySelectorAll('main [data-weight]')].map((bar) => {"
                 "  const {line = '1/4', row = 9, key, weight} = bar.dataset;"
                 "  return [`${line} ${row} ${key}`, Number(weight), weightOf(...line.split('/'), "
                 "row, key)]; })",
                 10 + 21 + 1 + 5, 2e-5);
    expect_pairs("[...document.querySelectorAll('main tr[data-weight] .number')].map((cell) =>"
                 "  [cell.textContent, (" READ ")(cell), Number(cell.parentNode.dataset.weight)])",
                 10 + 21, 1e-3);
}

/* All lines of the fixed token that reach the threshold, and no other. */
TEST(tokens)
{
    open_with(STORY "&view=tokens&layer=2&row=9&threshold=0.15", "/v1/trace", REQUEST "}");
    expect_pairs(
        "[...document.querySelectorAll('main [data-weight]')].map((line) => {"
        "  const {head, row, key, weight} = line.dataset;"
        "  return [`${head} ${row} ${key}`, Number(weight), weightOf(2, head, row, key)]; })",
        1, 2e-5);
    expect_pairs(
        "[['lines', document.querySelectorAll('main [data-weight]').length, api.layers[2].weights"
        "  .flatMap((head) => head[9]).filter((weight) => weight >= 0.15).length]]",
        1, 0);
}

TEST(why)
{
    char path[160];
    explorer_begin();
    snprintf(path, sizeof path, "/v1/traces/%s/pair?layer=1&head=4&row=9&key=5", keep());
    open_with(STORY "&view=why&layer=1&head=4&row=9&key=5", path, NULL);
    expect_pairs(
        "[...document.querySelectorAll('[data-stage]')].filter((one) => one.dataset.stage !== "
        "'sum')"
        "  .map((one) => [one.dataset.stage, Number(one.dataset.value), api[one.dataset.stage]])",
        6, 1e-12);
    expect_pairs("[...document.querySelectorAll('[data-stage]')].map((one) => [one.dataset.stage,"
                 "  (" READ ")(one.querySelector('b')), Number(one.dataset.value)])",
                 7, 1e-5);
    expect_pairs("[...document.querySelectorAll('td[data-vector]')].map((cell) => {"
                 "  const {vector, dimension, value} = cell.dataset;"
                 "  return [`${vector} ${dimension}`, Number(value), api[vector][dimension]]; })",
                 3 * 8, 1e-12);
}

/* A hidden key has no masked score: the page says so in words. */
TEST(hidden)
{
    explorer_begin();
    explorer_open("%s", STORY "&view=why&layer=1&head=4&row=5&key=9");
    browser_expect(&browser,
                   "document.querySelector('[data-stage=masked]').innerText.includes('hidden')");
    browser_expect(&browser, "document.querySelector('[data-stage=weight]').dataset.value === '0'");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
