/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_files.c - files in place of a text: a picture for a model that sees, rows of numbers in
 * .npy and .json, what is no such file, several at once, and a name that holds a tag. */
#include "answer.h"
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"
#include "traced_families.h"

static void begin(void)
{
    browser_skip_without();
    if (server.pid == 0) {
        directory = daemon_directory_create();
        traced_families_save(directory);
        fixture_serve("--models", directory);
    }
    explorer_begin();
}

/* Gives the page a file with this name. */
static void give(const char *name, const void *bytes, size_t size)
{
    char path[512];
    daemon_directory_write(browser.directory, name, bytes, size);
    snprintf(path, sizeof path, "%s/%s", browser.directory, name);
    browser_give_file(&browser, "input[type=file]", path);
    explorer_settle();
}

/* A picture of Chromium's own making. */
static void give_picture(const char *name)
{
    char path[512];
    browser_go(&browser,
               "data:text/html,<body style='background:linear-gradient(45deg,navy,gold)'>");
    snprintf(path, sizeof path, "%s/%s", browser.directory, name);
    browser_save_picture(&browser, path);
    explorer_open("model=vit&view=head");
    browser_give_file(&browser, "input[type=file]", path);
    explorer_settle();
}

TEST(picture)
{
    begin();
    give_picture("sky.png");
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    browser_expect(&browser, "document.querySelector('[data-file=\"sky.png\"]')");
    browser_expect(&browser, "document.querySelector('section.picture')");
    browser_expect(&browser, "!location.href.includes('sky')");
    explorer_expect_quiet(NULL);
}

/* Query, key and value of three rows, as POST /v1/attention takes them. */
TEST(numbers_in_json)
{
    static const char CALL[] = "{\"query\":[[1,0],[0,1],[1,1]],\"key\":[[1,0],[0,2],[1,1]],"
                               "\"value\":[[1,0],[0,1],[1,1]]}";
    begin();
    cJSON *answer = answer_post(&client, "/v1/attention",
                                "{\"model\":\"sdpa\",\"query\":[[1,0],[0,1],[1,1]],"
                                "\"key\":[[1,0],[0,2],[1,1]],\"value\":[[1,0],[0,1],[1,1]]}");
    char *wanted = cJSON_PrintUnformatted(
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "weights"), 0));
    explorer_open("model=sdpa&view=head");
    give("rows.json", CALL, sizeof CALL - 1);
    browser_do(&browser, "document.querySelector('.map-canvas').focus()");
    browser_keys(&browser, KEY_DOWN KEY_RIGHT KEY_ENTER);
    explorer_settle();
    browser_expect(&browser,
                   "((map, shown) => shown.length >= 6 && shown.every(({row, key, weight}) =>"
                   "  Math.abs(weight - map[row][key]) < 1e-5))(%s,"
                   "  [...document.querySelectorAll('tr[data-weight]')].map((one) => one.dataset))",
                   wanted);
    free(wanted);
    cJSON_Delete(answer);
    explorer_expect_quiet(NULL);
}

/* What cannot be read is said in words, and a file's name is text whatever it holds. */
TEST(what_is_no_file_of_numbers)
{
    static const char NAME[] = "<img src=x onerror=window.ran=1>.npy";
    begin();
    explorer_open("model=sdpa");
    give(NAME, "no array", 8);
    browser_expect(&browser, "document.querySelector('.fault').innerText.includes('.npy')");
    browser_expect(&browser, "document.querySelector('[data-file]').innerText.includes('%s')",
                   NAME);
    browser_expect(&browser, "window.ran === undefined && !document.querySelector('img[src=x]')");
    explorer_open("model=vit");
    give("rows.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    browser_expect(&browser, "document.querySelector('.fault').innerText.includes('safetensors')");
    explorer_expect_quiet(NULL);
}

/* Drops so many files of the same two rows at once. */
static void drop(int count)
{
    browser_do(&browser,
               "const given = new DataTransfer();"
               "for (let i = 0; i < %d; i++)"
               "  given.items.add(new File(['{\"query\":[[1,0],[0,1]]}'], `rows${i}.json`));"
               "document.body.dispatchEvent(new DragEvent('drop',"
               "  {dataTransfer: given, bubbles: true, cancelable: true}))",
               count);
    explorer_settle();
}

/* None of several files is taken without a word. */
TEST(dropped)
{
    begin();
    explorer_open("model=sdpa");
    drop(3);
    browser_expect(&browser, "document.querySelector('.fault').innerText.includes('3 files')");
    browser_expect(&browser, "!document.querySelector('[data-file]')");
    drop(1);
    browser_expect(&browser, "document.querySelector('[data-file=\"rows0.json\"]')");
    browser_expect(&browser, "!document.querySelector('.fault')");
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
