/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_foreign.c - text from outside is text: tokens, vocabularies, texts and addresses that
 * hold tags and scripts run nothing and load nothing. */
#include "explorer.h"
#include "fixture.h"
#include "test.h"
#include "word_model.h"

#define SCRIPT  "<script>window.ran=1</script>"
#define PICTURE "<img src=x onerror=window.ran=2>"

/* As members of an address. */
#define SCRIPT_SENT  "%%3Cscript%%3Ewindow.ran%%3D1%%3C/script%%3E"
#define PICTURE_SENT "%%3Cimg+src%%3Dx+onerror%%3Dwindow.ran%%3D2%%3E"
#define TEXT_SENT    "text=the+" SCRIPT_SENT "+cat+" PICTURE_SENT "+sat"

/* The tokenizer of word_model.h, with two more tokens in place of [SEP] and mat. */
static char *tokenizer(void)
{
    static const char *const REPLACED[][2] = { { "[SEP]", SCRIPT },
                                               { "\"mat\"", "\"" PICTURE "\"" } };
    char *text = strdup(word_model_tokenizer);
    for (int i = 0; i < 2; i++)
        for (char *found; (found = strstr(text, REPLACED[i][0]));) {
            char *next = NULL;
            assert_true(asprintf(&next, "%.*s%s%s", (int)(found - text), text, REPLACED[i][1],
                                 found + strlen(REPLACED[i][0]))
                        > 0);
            free(text);
            text = next;
        }
    return text;
}

static void begin(void)
{
    browser_skip_without();
    if (server.pid == 0) {
        char *text = tokenizer();
        directory = daemon_directory_create();
        word_model_make(fixture_path("words"), text);
        free(text);
        fixture_serve("--models", directory);
    }
    explorer_begin();
}

static void expect_harmless(void)
{
    browser_expect(&browser, "window.ran === undefined");
    browser_expect(&browser, "document.querySelectorAll('#app script, img[src=x]').length === 0");
}

TEST(tokens)
{
    begin();
    for (int i = 0; i < EXPLORER_VIEWS; i++) {
        explorer_open("model=words&" TEXT_SENT "&view=%s&layer=1&head=1&row=2&key=1"
                      "&other.layer=0&other.head=1",
                      explorer_views[i].name);
        expect_harmless();
        if (i > 0)
            browser_expect(&browser, "document.body.innerText.includes('" SCRIPT "')");
    }
    explorer_open("model=words&" TEXT_SENT "&view=tokens&form=text");
    expect_harmless();
    browser_expect(&browser, "document.querySelector('.running-text').textContent.includes('" SCRIPT
                             "') && document.querySelector('.running-text')"
                             ".textContent.includes('" PICTURE "')");
    explorer_expect_quiet(NULL);
}

TEST(address)
{
    static const char *const expected[] = { "404", "400", NULL };
    begin();
    explorer_open("model=" SCRIPT_SENT "&" TEXT_SENT);
    browser_expect(&browser,
                   "document.querySelector('[role=alert]').innerText.includes('" SCRIPT "')");
    expect_harmless();
    explorer_open("view=" SCRIPT_SENT "&model=words&" TEXT_SENT "&layer=" SCRIPT_SENT
                  "&sort=" PICTURE_SENT "&filter=" PICTURE_SENT
                  "&palette=__proto__&scale=constructor");
    expect_harmless();
    explorer_open("model=words&" TEXT_SENT "&view=head&layer=999&head=999&row=999999&key=999999"
                  "&rows=5:999999&keys=7:999999");
    expect_harmless();
    explorer_expect_quiet(expected);
}

ALL_TESTS(NULL, explorer_stop);
