/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_models.c - the field Model: one that is chosen is shown at once, so that the field and
 * the map never speak of two; each that is served stands in it, and of one that cannot be used the
 * page says why. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "shell.h"
#include "test.h"
#include "traced_families.h"

#include <stdio.h>
#include <sys/stat.h>

static void copy_story(const char *name)
{
    char script[512];
    snprintf(script, sizeof script, "cp -r examples/models/stories260K '%s'", fixture_path(name));
    shell(script);
}

/* Two models that take text, models that take none, and a folder without parameters. */
static void begin(void)
{
    browser_skip_without();
    if (server.pid == 0) {
        directory = daemon_directory_create();
        traced_families_save(directory);
        copy_story("bart-6+6");
        copy_story("stories");
        assert_int_equal(mkdir(fixture_path("half"), 0700), 0);
        daemon_directory_write(fixture_path("half"), "config.json", "{}", 2);
        fixture_serve("--models", directory);
    }
    explorer_begin();
}

/* As a person does by the keyboard: what begins with this name. */
static void choose(const char *name)
{
    browser_do(&browser,
               "const field = document.querySelector('select[name=model]');"
               "field.value = '%s';"
               "field.dispatchEvent(new Event('change', {bubbles: true}))",
               name);
    explorer_settle();
}

#define IN_ADDRESS(NAME) "new URLSearchParams(location.hash.slice(1)).get('" NAME "')"

/* The text that stands there goes with it, and Back leads to the model of before. */
TEST(chosen)
{
    begin();
    explorer_open("model=stories&text=Once+upon+a+time");
    browser_type(&browser, "textarea", "Once upon a time there");
    choose("bart-6+6");
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    browser_expect(&browser, IN_ADDRESS("model") " === 'bart-6+6' && " IN_ADDRESS(
                                 "text") " === 'Once upon a time there'");
    browser_expect(&browser, "document.title.includes('bart-6+6: Once upon a time there')");
    browser_expect(&browser, "document.querySelector('.status').innerText.startsWith('5 layers')");
    browser_do(&browser, "history.back()");
    explorer_settle();
    browser_wait(&browser, "document.title.includes('stories: Once') && " EXPLORER_HAS_PICTURE);
    explorer_expect_quiet(NULL);
}

/* What was shown goes with its model, and what was typed is there for the next that takes it. */
TEST(without_text)
{
    begin();
    explorer_open("model=stories&text=Once+upon+a+time");
    choose("vit");
    browser_expect(&browser, "!document.querySelector('main canvas')"
                             " && document.querySelector('main').innerText.includes('picture')"
                             " && document.querySelector('.status').innerText === ''");
    choose("stories");
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    browser_expect(&browser, IN_ADDRESS("text") " === 'Once upon a time'");
    explorer_expect_quiet(NULL);
}

TEST(all_of_them)
{
    begin();
    explorer_open("%s", "");
    browser_expect(&browser, "fetch('v1/models').then((answer) => answer.json()).then(({models}) =>"
                             "  models.length > 6 && models.every(({name}) => [...document"
                             "  .querySelectorAll('select[name=model] option')]"
                             "  .some((one) => one.value === name && one.textContent === name)))");
    browser_expect(&browser, "document.querySelector('optgroup[label=\"Not available\"]')"
                             ".textContent.trim() === 'half'");
    choose("half");
    browser_expect(&browser, "[document.querySelector('main'), document.querySelector('.note')]"
                             ".every((one) => one.innerText.includes('not available: ')"
                             "  && one.innerText.includes('model.safetensors'))");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
