/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_strip.c - what stands above every view: the predicted tokens, which go on with the
 * text, and the heads that are switched off. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"

#define ASKED(FIELDS)                                                                              \
    "fetch('/v1/trace', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: "    \
    "JSON.stringify({model: 'stories260K', text: "                                                 \
    "'Once upon a time there was', layers: [], outputs: ['predictions'], top_k_tokens: 6"          \
    "" FIELDS "})}).then((response) => response.json())"
#define SHOWN                                                                                      \
    "[...document.querySelectorAll('.answer-strip button')].map(({dataset}) => [dataset.id, "      \
    "dataset.logprob])"
#define SAME(FIELDS)                                                                               \
    ASKED(FIELDS)                                                                                  \
    ".then(({predictions}) => JSON.stringify(predictions[0].tokens.map(({id, logprob}) => "        \
    "[String(id), String(logprob)])) === JSON.stringify(" SHOWN "))"

/* Every view has the tokens that the API answers, to the last digit. */
TEST(predictions)
{
    explorer_begin();
    for (int i = 0; i < EXPLORER_VIEWS; i++) {
        explorer_open(EXPLORER_TEXT "&view=%s", explorer_views[i].name);
        browser_expect(&browser, SAME(""));
    }
    explorer_expect_quiet(NULL);
}

/* A click goes on with the text; Back takes it away. */
TEST(goes_on)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_click(&browser, ".answer-strip li:first-child button");
    browser_wait(&browser, "new URLSearchParams(location.hash.slice(1)).get('text') === "
                           "'Once upon a time there was a'");
    explorer_settle();
    browser_expect(&browser, "document.querySelector('.before').textContent.includes('was a')");
    browser_do(&browser, "history.back()");
    browser_wait(&browser, "new URLSearchParams(location.hash.slice(1)).get('text') === "
                           "'Once upon a time there was'");
    explorer_settle();
    browser_expect(&browser, SAME(""));
    explorer_expect_quiet(NULL);
}

/* Of two texts the second one goes on: the next token is behind it. */
TEST(pair)
{
    explorer_begin();
    explorer_open("%s", "model=stories260K&text=One+day&pair=Once+upon+a+time+there+was");
    browser_click(&browser, ".answer-strip li:first-child button");
    browser_wait(&browser, "new URLSearchParams(location.hash.slice(1)).get('pair')"
                           ".startsWith('Once upon a time there was ')");
    browser_expect(&browser, "new URLSearchParams(location.hash.slice(1)).get('text') === "
                             "'One day'");
    explorer_settle();
    explorer_expect_quiet(NULL);
}

/* Heads that are off live in the address: the numbers are those of the edited pass, the page says
 * so, and one key switches the last one on. */
TEST(switched_off)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT "&view=head&layer=4&off=0.3,4.2");
    browser_expect(&browser, "document.querySelector('.switched-off').dataset.off === '0.3,4.2'");
    browser_expect(&browser, SAME(", edits: [{layers: [0], heads: [3], scale: 0}, {layers: [4], "
                                  "heads: [2], scale: 0}]"));
    browser_expect(&browser,
                   "/was .* %%/.test(document.querySelector('.answer-strip').textContent)");
    explorer_leave();
    browser_keys(&browser, "u");
    browser_wait(&browser, "/off=0\\.3(&|$)/.test(location.hash)");
    explorer_settle();
    browser_expect(&browser, SAME(", edits: [{layers: [0], heads: [3], scale: 0}]"));
    browser_click(&browser, ".switched-off button");
    browser_wait(&browser, "!location.hash.includes('off=')");
    explorer_settle();
    browser_expect(&browser, SAME(""));
    explorer_expect_quiet(NULL);
}

/* Gives the page a file with two rows for llama. */
static void give_rows(void)
{
    static const char ROWS[] = "{\"model\":\"llama\",\"embeddings\":["
                               "[1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8],"
                               "[8,7,6,5,4,3,2,1,8,7,6,5,4,3,2,1]]}";
    char path[512];
    daemon_directory_write(browser.directory, "rows.json", ROWS, strlen(ROWS));
    snprintf(path, sizeof path, "%s/rows.json", browser.directory);
    browser_give_file(&browser, "input[type=file]", path);
    explorer_settle();
}

/* Ids go on with an id; those of an encoder-decoder do not: they are the encoder's, and what is
 * predicted is the decoder's. Ids stand apart, as the parts of the prompt do. */
TEST(ids)
{
    browser_skip_without();
    explorer_stop(NULL);
    directory = daemon_directory_create();
    traced_model_save(directory);
    traced_families_save(directory);
    fixture_serve("--models", directory);
    explorer_begin();
    explorer_open("%s", "model=t5&tokens=3,17,9,22,31,8&view=answer");
    browser_expect(&browser,
                   "[...document.querySelectorAll('.piece')].map((piece) => piece.textContent)"
                   ".join('') === '3 17 9 22 31 8' && document.querySelectorAll('tr[data-part]')"
                   ".length === 6");
    browser_expect(&browser, "document.querySelectorAll('.answer-strip button').length > 0"
                             " && [...document.querySelectorAll('.answer-strip button')].every("
                             "    (button) => button.disabled)");
    explorer_open("%s", "model=llama&tokens=3,17,9");
    browser_expect(&browser,
                   "/ 3 17 9 *$/.test(` ${document.querySelector('.before').innerText}`)");
    browser_click(&browser, ".answer-strip li:first-child button");
    browser_wait(&browser, "/^3,17,9,[0-9]+$/.test(new URLSearchParams(location.hash.slice(1))"
                           ".get('tokens'))");
    explorer_settle();
    give_rows();
    browser_expect(&browser,
                   "document.querySelector('.before').innerText.trim() === 'row 0 row 1'");
    explorer_expect_quiet(NULL);
    explorer_stop(NULL);
}

/* The overview says which of its maps are of heads that are off. */
TEST(maps_of_heads_off)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT "&view=overview&off=0.3,4.2");
    browser_expect(&browser, "[...document.querySelectorAll('button.map')].filter((map) =>"
                             "  map.classList.contains('off')"
                             "  && map.getAttribute('aria-label').endsWith(', switched off'))"
                             ".map(({ dataset }) => `${dataset.layer}.${dataset.head}`).join()"
                             " === '0.3,4.2'");
    explorer_expect_quiet(NULL);
}

/* A kept trace that is looked at is renewed; the page asks for minutes, not for half an hour. */
TEST(renewed)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_expect(&browser,
                   "fetch('/v1/traces').then((response) => response.json()).then(({traces}) =>"
                   "  traces.length > 0 && traces.every((one) => one.expires_in_ms <= 300000))");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
