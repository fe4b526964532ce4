/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_tour.c - the tour of seven stops: each is an address that shows its view, and the heads
 * and rows that it names do what its sentences say, by the numbers of the API. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"

enum { STOPS = 7 };

static const char *const VIEWS[STOPS] = {
    "tokens", "head", "head", "head", "head", "why", "answer"
};

#define AT "document.querySelector('.tour')?.dataset.stop === '%d'"

/* Number by number in the address alone, and by the buttons and keys. */
TEST(stops)
{
    explorer_begin();
    for (int i = 1; i <= STOPS; i++) {
        explorer_open("tour=%d&present=1", i);
        browser_wait(&browser, AT, i);
        browser_expect(&browser,
                       "document.querySelector('main').dataset.view === '%s' &&"
                       " /model=stories260K/.test(location.hash) && /present=1/.test(location.hash)"
                       " && document.documentElement.scrollWidth <= innerWidth"
                       " && !document.querySelector('.fault')",
                       VIEWS[i - 1]);
    }
    browser_keys(&browser, "<");
    browser_wait(&browser, AT " && document.querySelector('.steps')", STOPS - 1);
    browser_click(&browser, ".tour button.main");
    browser_wait(&browser, AT, STOPS);
    browser_click(&browser, ".tour button:last-of-type");
    explorer_expect_quiet(NULL);
}

/* The help begins it. */
TEST(begins)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT);
    browser_keys(&browser, "?");
    browser_wait(&browser, "document.querySelector('dialog[open]')");
    browser_click(&browser, "dialog button.main");
    browser_wait(&browser, AT " && !document.querySelector('dialog[open]')", 1);
    browser_do(&browser, "[...document.querySelectorAll('.tour button')].at(-1).click()");
    browser_wait(&browser, "!document.querySelector('.tour') && !/tour/.test(location.hash)");
    explorer_expect_quiet(NULL);
}

/* Runs a condition over `trace`, the answer of a trace of the stop's text, and ask(path) of what is
 * kept of it. */
static void expect_told(int stop, const char *condition)
{
    explorer_open("tour=%d", stop);
    browser_expect(
        &browser,
        "import('/explorer/app/tour.js').then(async ({stopState}) => {"
        "  const state = stopState(%d);"
        "  const trace = await fetch('v1/trace', {method: 'POST', headers: {'Content-Type': "
        "'application/json'}, body: JSON.stringify({model:"
        "    state.model, text: state.text, outputs: ['predictions'], top_k_tokens: 3, keep: "
        "'1m'})})"
        "    .then((answer) => answer.json());"
        "  const ask = (path) => fetch(`v1/traces/${trace.trace}/${path}`)"
        "    .then((answer) => answer.json());"
        "  const pairs = () => ask(`pairs?layer=${state.layer}&head=${state.head}&row=${state.row}"
        "&keys=${Array.from({length: state.row + 1}, (_, i) => i).join()}`)"
        "    .then((answer) => answer.keys);"
        "  const text = (at) => trace.tokens[at].text; return %s; })",
        stop, condition);
}

TEST(heads_do_what_is_said)
{
    explorer_begin();
    expect_told(1, "[...trace.tokens.keys()].some((i) => text(i).endsWith('g')"
                   " && text(i + 1) === 'ir' && text(i + 2) === 'l')");
    expect_told(3, "pairs().then((all) => text(6).endsWith('there') && text(5) === ','"
                   " && all[5].weight.toFixed(2) === '0.87' && Math.abs(all.reduce((sum, {weight})"
                   " => sum + weight, 0) - 1) < 1e-4)");
    expect_told(4, "ask('statistics').then(({layers}) => layers.find(({layer}) => layer === 1)"
                   ".previous[3] > 0.55)");
    expect_told(5, "pairs().then((all) => text(20).endsWith('to') && text(14).endsWith('play')"
                   " && text(13).endsWith('to') && all[14].weight > 0.45)");
    expect_told(6, "pairs().then((all) => all.every(({score}) => score <= all[14].score))");
    expect_told(7, "trace.predictions[0].tokens[0].text.endsWith('play')");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
