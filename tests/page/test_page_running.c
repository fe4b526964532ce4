/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_running.c - tokens as running text: its words are the text, its colours the weights of
 * the API, and what is chosen of two texts. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"
#include "word_model.h"

#define TEXT "Once upon a time, Lily found a ball.\nShe was happy."
#define VIEW                                                                                       \
    "model=stories260K&text=Once+upon+a+time,+Lily+found+a+ball.%%0AShe+was+happy."                \
    "&view=tokens&form=text&layer=2"

/* A layer's weights of the text that the page shows: then(weights[head][row][key]). */
#define ASK                                                                                        \
    "fetch('v1/trace', {method: 'POST', headers: {'Content-Type': 'application/json'}, body:"      \
    "  JSON.stringify({...Object.fromEntries(['model', 'text', 'pair'].map((name) => [name, new"   \
    "  URLSearchParams(location.hash.slice(1)).get(name) ?? undefined])), layers: [%d]})})"        \
    ".then((answer) => answer.json()).then(({layers: [{weights}]}) => "

/* The weight of each word is that of the expression, of `at`. */
static void expect_weights(int layer, const char *weight)
{
    browser_expect(&browser,
                   ASK
                   "{ const mean = (all) => all.reduce((sum, one) => sum + one, 0) / all.length;"
                   "  const words = [...document.querySelectorAll('.word')];"
                   "  return words.length === weights[0].length && words.every((word, at) =>"
                   "    Number(word.dataset.place) === at && (word.dataset.weight === 'NaN'"
                   "      ? !(%s > 0) : Math.abs(word.dataset.weight - %s) < 2e-6)); })",
                   layer, weight, weight);
}

/* It reads as the text, and a click or Enter fixes a word, as the row or as the key. */
TEST(words)
{
    explorer_begin();
    explorer_open(VIEW);
    char *text = browser_text(&browser, "document.querySelector('.running-text').textContent");
    assert_string_equal(text, "<s>Once upon a time, Lily found a ball.⏎\nShe was happy.");
    free(text);
    expect_weights(2, "mean(weights.map((head) => head.at(-1)[at]))");
    browser_click(&browser, ".word[data-place='6']");
    browser_wait(&browser, "/&row=6(&|$)/.test(location.hash)");
    explorer_settle();
    expect_weights(2, "mean(weights.map((head) => head[6][at]))");
    browser_click(&browser, "[data-side=key]");
    browser_wait(&browser, "/&key=6(&|$)/.test(location.hash) && !/row/.test(location.hash)");
    explorer_settle();
    expect_weights(2, "mean(weights.map((head) => head[at][6]))");
    browser_do(&browser, "document.querySelector('.word[data-place=\"6\"]').focus()");
    browser_keys(&browser, KEY_LEFT KEY_LEFT KEY_ENTER);
    browser_wait(&browser, "/&key=4(&|$)/.test(location.hash)");
    browser_expect(&browser, "document.querySelector('.word[aria-pressed=true]').dataset.place"
                             " === '4' && document.querySelectorAll('[aria-pressed=true].word')"
                             ".length === 1");
    browser_keys(&browser, KEY_ESCAPE);
    browser_wait(&browser, "!/key=/.test(location.hash)");
    explorer_expect_quiet(NULL);
}

/* Colours of the heads chosen; the number of the word pointed at, and its bar. */
TEST(numbers)
{
    explorer_begin();
    explorer_open(VIEW "&row=12&over=largest&heads=1,4");
    expect_weights(2, "Math.max(weights[1][12][at], weights[4][12][at])");
    browser_do(&browser, "document.querySelector('.over').focus()");
    browser_keys(&browser, "m");
    browser_wait(&browser, "!/over=/.test(location.hash)");
    explorer_settle();
    expect_weights(2, "(weights[1][12][at] + weights[4][12][at]) / 2");
    explorer_open(VIEW "&row=12&heads=4");
    expect_weights(2, "weights[4][12][at]");
    browser_do(&browser, "document.querySelector('.word[data-place=\"3\"]').focus()");
    browser_wait(&browser, "document.querySelector('.text-number [data-at=\"3\"]')?.dataset.weight"
                           " === document.querySelector('.word[data-place=\"3\"]').dataset.weight");
    browser_expect(
        &browser,
        "(() => { const weights = [...document.querySelectorAll('.word')].map((word) =>"
        "    Number(word.dataset.weight)), full = Math.max(...weights.filter(Boolean));"
        "  return Number(document.querySelector('.heat').dataset.full) === full && weights.every("
        "    (weight, at) => Math.abs(document.querySelectorAll('.word')[at].style"
        "      .getPropertyValue('--strength') - (weight || 0) / full) < 1e-4)"
        "    && [...document.querySelectorAll('.bars tr[data-weight]')].every(({dataset}) =>"
        "      Number(dataset.weight) === weights[dataset.key]); })()");
    explorer_expect_quiet(NULL);
}

/* 3 000 tokens are asked for in one piece a row, and the fixed one is seen. */
TEST(long_text)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT "&view=tokens&form=text");
    browser_do(&browser,
               "location.hash += `&row=2000&text=${'One day Lily found a ball. '.repeat(310)}`"
               ".replaceAll(' ', '+')");
    browser_wait(&browser, "document.querySelectorAll('.word').length > 3000");
    explorer_settle();
    browser_expect(&browser, "(() => { const box = document.querySelector('.text-scroller')"
                             "    .getBoundingClientRect(), word = document.querySelector("
                             "    '.word[aria-pressed=true]').getBoundingClientRect();"
                             "  return word.top >= box.top && word.bottom <= box.bottom; })()");
    const double asked = browser_number(&browser, "seen.asked.length");
    browser_do(&browser, "document.querySelector('.word[data-place=\"1990\"]').click()");
    browser_wait(&browser, "/&row=1990(&|$)/.test(location.hash)");
    explorer_settle();
    assert_int_equal(browser_number(&browser, "seen.asked.length"), asked + 1);
    browser_expect(&browser, "document.querySelector('.word[data-place=\"2500\"]').dataset.weight"
                             " <= 0 || document.querySelector('.word.unseen[data-place=\"2500\"]')"
                             " !== null");
    explorer_expect_quiet(NULL);
}

static void begin_words(void)
{
    browser_skip_without();
    explorer_stop(NULL);
    directory = daemon_directory_create();
    word_model_make(fixture_path("words"), word_model_tokenizer);
    fixture_serve("--models", directory);
    explorer_begin();
}

/* Of two texts: the rows and keys of the columns, their lines and list, and the colours of the text
 * are of those chosen, which stand in the address. */
TEST(two_texts)
{
    begin_words();
    explorer_open("model=words&text=the+cat+sat&pair=on+the+mat&view=tokens&layer=1&row=6");
    browser_expect(&browser, "document.querySelectorAll('.rows .token').length === 9");
    browser_do(&browser, "document.querySelector('.between').focus()");
    browser_keys(&browser, "B");
    browser_wait(&browser, "/between=B-A(&|$)/.test(location.hash)");
    explorer_settle();
    browser_expect(
        &browser, "['rows', 'keys'].map((side) => [...document.querySelectorAll(`.${side} .token`)]"
                  ".map((token) => token.textContent).join(' ')).join() ==="
                  " 'on ␣the ␣mat [SEP],[CLS] the ␣cat ␣sat [SEP]'.replaceAll('␣', '')");
    browser_expect(&browser, "document.querySelectorAll('.token-numbers li').length > 0"
                             " && [...document.querySelectorAll('.token-numbers li')].every("
                             "({dataset}) => dataset.row === '6' && Number(dataset.key) < 5)");
    browser_click(&browser, "[data-form=text]");
    browser_wait(&browser, "/form=text/.test(location.hash)");
    explorer_settle();
    expect_weights(1, "(at < 5 ? mean(weights.map((head) => head[6][at])) : 0)");
    browser_expect(&browser, "document.querySelectorAll('.bars tr[data-weight]').length === 5"
                             " && !document.querySelector('.bars [data-hidden]')");
    explorer_open("model=words&text=the+cat+sat&view=tokens&between=B-B");
    browser_expect(&browser, "!document.querySelector('.between')"
                             " && document.querySelectorAll('.rows .token').length === 5");
    explorer_expect_quiet(NULL);
}

/* Layers whose rows are of another text than their keys have a choice of the keys alone. */
TEST(choices)
{
    explorer_begin();
    browser_expect(
        &browser,
        "import('/explorer/views/token_window.js').then(({betweenChoices, partsOf}) => {"
        "  const one = [null, 0, 0].map((sequence) => ({sequence}));"
        "  const two = [null, 0, null, 1, null].map((sequence) => ({sequence}));"
        "  const said = (rowTokens, keyTokens, between) => JSON.stringify([betweenChoices("
        "    {rowTokens, keyTokens}, between), partsOf({rowTokens, keyTokens}, between)]);"
        "  return said(one, one, 'A-B') === '[{\"value\":\"A-A\",\"choices\":[]},{\"rows\":[0,3],"
        "\"keys\":[0,3]}]' && said(one, two, 'B-B') === '[{\"value\":\"A-B\",\"choices\":[[\"A-A\","
        "\"all → A\"],[\"A-B\",\"all → B\"]]},{\"rows\":[0,3],\"keys\":[3,5]}]'"
        "    && said(two, two, null).startsWith('[{\"value\":\"\",\"choices\":[[\"A-A\",\"A → A\"],"
        "[\"A-B\",\"A → B\"],[\"B-A\",\"B → A\"],[\"B-B\",\"B → B\"]]}'); })");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
