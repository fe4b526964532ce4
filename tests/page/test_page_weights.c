/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_weights.c - files of weights that were computed elsewhere: drawn as weights in each
 * view, with the file's own numbers, and saved so; what is no such file is said. */
#include "answer.h"
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "manifest.h"
#include "test.h"

#include <stdlib.h>

/* Gives the page a file with this name. */
static void give(const char *name, const void *bytes, size_t size)
{
    char path[512];
    daemon_directory_write(browser.directory, name, bytes, size);
    snprintf(path, sizeof path, "%s/%s", browser.directory, name);
    browser_give_file(&browser, "input[type=file]", path);
    explorer_settle();
}

static void give_text(const char *name, const char *text)
{
    give(name, text, strlen(text));
}

/* The weight of a causal map whose rows sum to 1; PART is the same in the page, before it is
 * divided by the row's sum. */
#define PART "((h, r, k) => k > r ? 0 : 1 + (h * 7 + r * 3 + k * 5) %% 11)"

static int part(int head, int row, int key)
{
    return key > row ? 0 : 1 + (head * 7 + row * 3 + key * 5) % 11;
}

/* A safetensors file with such maps, [layers][heads][n][n] under this name. */
static void give_maps(const char *tensor, int layers, int heads, int n)
{
    const size_t count = (size_t)layers * (size_t)heads * (size_t)n * (size_t)n;
    char header[256] = "";
    int length = snprintf(header, sizeof header,
                          "{\"%s\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d,%d],"
                          "\"data_offsets\":[0,%zu]}}",
                          tensor, layers, heads, n, n, 4 * count);
    length = (length + 7) / 8 * 8;
    for (int i = (int)strlen(header); i < length; i++)
        header[i] = ' ';
    unsigned char *file = malloc(8 + (size_t)length + 4 * count);
    assert_non_null(file);
    memset(file, 0, 8);
    file[0] = (unsigned char)length;
    memcpy(file + 8, header, (size_t)length);
    float *weights = malloc(4 * count), *weight = weights;
    assert_non_null(weights);
    for (int map = 0; map < layers * heads; map++)
        for (int row = 0; row < n; row++) {
            int sum = 0;
            for (int key = 0; key < n; key++)
                sum += part(map, row, key);
            for (int key = 0; key < n; key++)
                *weight++ = (float)part(map, row, key) / (float)sum;
        }
    memcpy(file + 8 + length, weights, 4 * count);
    give("maps.safetensors", file, 8 + (size_t)length + 4 * count);
    free(weights);
    free(file);
}

/* Goes to a view of the file that is looked at. */
static void look(const char *fragment)
{
    browser_do(&browser, "location.hash = '#model=stories260K&%s'", fragment);
    explorer_settle();
}

/* That the numbers of the page are those of give_maps() of this map, wherever they stand. */
static void expect_row(int map, int row, int n)
{
    browser_expect(&browser,
                   "((part, shown) => shown.length > 0 && shown.every(({row, key, weight}) => {"
                   "  let sum = 0; for (let k = 0; k < %d; k++) sum += part(%d, +row, k);"
                   "  return Math.abs(weight - part(%d, +row, +key) / sum) < 1e-7; })"
                   "  && shown.some(({row}) => +row === %d))(" PART ","
                   "  [...document.querySelectorAll('tr[data-weight]')].map((one) => one.dataset))",
                   n, map, map, row);
}

/* Said as weights of a file, with the page's own model beside it in no words. */
static void expect_weights(void)
{
    browser_expect(&browser, "document.querySelector('.status').innerText.startsWith('weights')");
    browser_expect(&browser, "!document.querySelector('.status').innerText.includes('stories')");
    browser_expect(&browser, "document.querySelector('select[name=model]').disabled && "
                             "document.querySelector('select[name=model]').value === ''");
    browser_expect(&browser, "!document.title.includes('stories')");
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
}

/* Names that say so are enough: as query and key these numbers are another map. */
TEST(weights_by_their_name)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    give_text("weights.json", "{\"weights\":[[[1,0],[0.25,0.75]]],\"tokens\":[\"a\",\"<b>\"]}");
    expect_weights();
    look("view=head&row=1&key=1");
    browser_expect(&browser,
                   "((shown) => shown.length === 4 && shown.every(({row, key, weight}) => "
                   "  +weight === [[1, 0], [0.25, 0.75]][row][key]))"
                   "([...document.querySelectorAll('tr[data-weight]')].map((one) => one.dataset))");
    browser_expect(&browser, "document.querySelector('.sides').innerText.includes('<b>')");
    give_maps("attentions", 2, 3, 5);
    expect_weights();
    look("view=head&layer=1&head=2&row=3&key=1");
    expect_row(5, 3, 5);
    explorer_expect_quiet(NULL);
}

/* Each view of 12 layers of 12 heads. */
TEST(views)
{
    explorer_begin();
    explorer_open("%s", "");
    give_maps("attentions", 12, 12, 67);
    expect_weights();
    browser_expect(&browser, "document.querySelectorAll('main [data-head]').length === 144");
    browser_do(&browser, "document.querySelector('main [data-head]')"
                         "  .focus()");
    explorer_settle();
    browser_expect(&browser, "((part, shown) => {"
                             "  let first = 0; for (let r = 0; r < 67; r++) { let sum = 0;"
                             "    for (let k = 0; k < 67; k++) sum += part(0, r, k);"
                             "    first += part(0, r, 0) / sum / 67; }"
                             "  return Math.abs(shown.dataset.value - first) < 1e-6; })(" PART ","
                             "  document.querySelector('[data-statistic=first]'))");
    look("view=head&layer=11&head=11&row=40&key=7");
    expect_row(143, 40, 67);
    look("view=tokens&layer=11&row=66");
    browser_expect(&browser, "document.querySelector('main').innerText.includes('row 66')");
    browser_expect(&browser, "!document.querySelector('.fault')");
    look("view=why&layer=11&head=11&row=66&key=7");
    browser_expect(&browser, "document.querySelector('.why').innerText.includes('no query')");
    browser_expect(&browser, "document.querySelectorAll('[data-stage]').length === 1");
    expect_row(143, 66, 67);
    look("view=compare&layer=11&head=11&other.layer=0&other.head=3");
    browser_wait(&browser, "document.querySelectorAll('.compare-panel canvas').length >= 2");
    browser_expect(&browser, "!document.querySelector('.fault')");
    explorer_expect_quiet(NULL);
}

/* One token, and a thousand. */
TEST(sizes)
{
    explorer_begin();
    explorer_open("%s", "");
    give_maps("layers.7.weights", 1, 1, 1);
    look("view=head&row=0&key=0");
    expect_row(0, 0, 1);
    browser_expect(&browser, "document.querySelector('main').innerText.includes('7')");
    give_maps("weights", 1, 4, 1000);
    expect_weights();
    look("view=head&head=3&row=999&key=500");
    expect_row(3, 999, 1000);
    explorer_expect_quiet(NULL);
}

/* An array without a name is what its numbers say, or a person. */
TEST(a_person_says_what_numbers_are)
{
    explorer_begin();
    explorer_open("model=sdpa&view=head");
    give_text("array.json", "[[1,0],[0.5,0.5]]");
    expect_weights();
    browser_expect(&browser, "document.querySelector('[name=numbers]').value === 'weights'");
    browser_expect(&browser, "!document.querySelector('[name=causal]')");
    browser_do(&browser, "const select = document.querySelector('[name=numbers]');"
                         "select.value = 'query'; select.dispatchEvent(new Event('change', "
                         "{bubbles: true}))");
    explorer_settle();
    browser_wait(&browser, "document.querySelector('[name=causal]')");
    browser_expect(&browser, "document.querySelector('[name=numbers]').value === 'query'");
    browser_expect(&browser, "!document.querySelector('select[name=model]').disabled");
    give_text("other.json", "[[[[1,2],[3,4]]],[[[1,2],[3,4]]]]");
    browser_expect(&browser, "document.querySelector('.fault').innerText.includes('batch of 2')");
    browser_do(&browser, "const select = document.querySelector('[name=numbers]');"
                         "select.value = 'weights'; select.dispatchEvent(new Event('change', "
                         "{bubbles: true}))");
    explorer_settle();
    expect_weights();
    browser_expect(&browser, "document.querySelector('.status').innerText.includes("
                             "'rows sum to between 3 and 7')");
    explorer_expect_quiet(NULL);
}

/* What is taken away has the file's numbers, and no line and no link that lead elsewhere. */
TEST(saved)
{
    char *path;
    explorer_begin();
    browser_keep_downloads(&browser);
    explorer_open("%s", "");
    give_text("weights.json", "{\"weights\":[[[1,0],[0.25,0.75]]],\"tokens\":[\"a\",\"b\"]}");
    browser_do(&browser, "document.querySelector('.export button').click()");
    explorer_settle();
    browser_expect(&browser, "!document.querySelector('[name=curl]') && "
                             "!document.querySelector('[name=link]')");
    browser_do(&browser, "document.querySelector('[data-save=json]').click()");
    path = browser_download(&browser, ".json");
    cJSON *sheet = cJSON_Parse(manifest_file_text(path));
    char *map = cJSON_PrintUnformatted(cJSON_GetArrayItem(cJSON_GetObjectItem(sheet, "maps"), 0));
    assert_non_null(strstr(map, "\"row_tokens\":[\"a\",\"b\"]"));
    assert_non_null(strstr(map, "\"weights\":[[1,0],[0.25,0.75]]"));
    free(map);
    cJSON_Delete(sheet);
    free(path);
    browser_do(&browser, "document.querySelector('[data-save=safetensors]').click()");
    path = browser_download(&browser, ".safetensors");
    browser_give_file(&browser, "input[type=file]", path);
    free(path);
    explorer_settle();
    look("view=head&row=1&key=0");
    browser_expect(&browser, "document.querySelector('tr[data-row=\"1\"][data-key=\"0\"]')"
                             ".dataset.weight === '0.25'");
    explorer_expect_quiet(NULL);
}

/* Files that are none are refused in words. */
TEST(refused)
{
    static const struct {
        const char *text, *words;
    } FILES[] = {
        { "{\"weights\":[[1,0],[1]]}", "unequal length" },
        { "{\"weights\":[[1e39]]}", "Layer 0, head 0, row 0, key 0" },
        { "{\"attentions\":[]}", "'attentions'" },
        { "{\"weights\":[[1]],\"tokens\":3}", "'tokens'" },
        { "{\"weights\":\"x\"}", "expected query" },
    };
    explorer_begin();
    explorer_open("%s", "");
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        give_text("none.json", FILES[i].text);
        browser_expect(&browser, "document.querySelector('.fault')?.innerText.includes(\"%s\")",
                       FILES[i].words);
        browser_expect(&browser, "!document.querySelector('main canvas')");
    }
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
