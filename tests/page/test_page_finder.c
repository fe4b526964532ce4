/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_finder.c - the head finder of the overview: what the probe says about heads, beside the
 * API's numbers, which the test asks itself; what the heads are then called. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"

#define PROBE                                                                                      \
    "(async () => { const post = await fetch('v1/trace', {method: 'POST', headers:"                \
    " {'Content-Type': 'application/json'}, body: JSON.stringify({model: 'stories260K',"           \
    "  probe: 'repeat', outputs: [], keep: '1m'})}); const {trace} = await post.json();"           \
    "  const {layers} = await (await fetch(`v1/traces/${trace}/statistics`)).json();"              \
    "  await fetch(`v1/traces/${trace}`, {method: 'DELETE'}); return layers; })()"

static void find(const char *more)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT "%s", more);
    browser_click(&browser, "button[data-find]");
    browser_wait(&browser, "document.querySelector('.head-finder')");
    explorer_settle();
    browser_do(&browser, "window.probe = " PROBE);
}

/* The table has the API's scores to the last digit, and names the heads that have 0.4 or more. */
TEST(scores)
{
    static const char *const SCORES[][3] = { { "induction", "induction", "induction" },
                                             { "duplicate", "duplicate", "duplicate token" },
                                             { "probe_previous", "previous", "previous token" },
                                             { "probe_first", "first", "first token" } };
    find("");
    browser_do(&browser, "document.querySelector('input[value=table]').click()");
    explorer_settle();
    for (int i = 0; i < 4; i++) {
        browser_expect(&browser,
                       "probe.then((layers) => JSON.stringify(layers.flatMap((layer) =>"
                       " layer['%s'])) === JSON.stringify([...document.querySelectorAll("
                       "'td[data-statistic=%s]')].map(({dataset}) => Number(dataset.value))))",
                       SCORES[i][1], SCORES[i][0]);
        browser_expect(&browser,
                       "probe.then((layers) => { const values = layers.flatMap((layer) =>"
                       " layer['%s']); const button = document.querySelector("
                       "'.head-finder [data-score=%s]'); const named = values.filter((value) =>"
                       " value >= 0.4); return Number(button.dataset.count) === named.length"
                       " && Number(button.dataset.most) === Math.max(...values)"
                       " && button.title.includes(' et al. 20') && JSON.stringify(named) ==="
                       " JSON.stringify([...document.querySelectorAll('.words [data-score=%s]')]"
                       ".map((name) => name.innerText === `%s ${Number(name.dataset.value)"
                       ".toFixed(2)}` && Number(name.dataset.value))); })",
                       SCORES[i][1], SCORES[i][0], SCORES[i][0], SCORES[i][2]);
    }
    browser_expect(&browser, "document.querySelectorAll('.words [data-score=probe_previous]')"
                             ".length > 2");
    explorer_expect_quiet(NULL);
}

/* A name stands at the head's map, on its button and in its line, and sorts by its score. */
TEST(named)
{
    find("");
    browser_expect(&browser, "document.querySelector('button.map[data-layer=\"3\"]"
                             "[data-head=\"6\"] .name-sign').innerText === 'P'");
    browser_expect(&browser, "!document.querySelector('button.map[data-layer=\"0\"] .name-sign')");
    browser_do(&browser, "document.querySelector('button.map[data-layer=\"3\"]"
                         "[data-head=\"6\"]').focus()");
    browser_expect(&browser, "/, previous token 0\\.\\d\\d$/.test(document.activeElement"
                             ".getAttribute('aria-label'))");
    browser_expect(&browser, "document.querySelector('.head-detail .head-name').innerText ==="
                             " document.activeElement.getAttribute('aria-label')"
                             ".split(', ').at(-1)");
    browser_expect(&browser, "document.querySelectorAll('.head-detail [data-statistic]').length "
                             "=== 10");
    browser_do(&browser, "document.querySelector('[data-score=probe_previous]').focus()");
    browser_expect(&browser, "/token before.* et al/.test(document.querySelector('.score-words')"
                             ".innerText)");
    browser_keys(&browser, KEY_ENTER);
    browser_wait(&browser, "location.hash.includes('sort=probe_previous')");
    explorer_settle();
    browser_expect(&browser,
                   "probe.then((layers) => { const score = ({dataset}) => layers[dataset.layer]"
                   ".previous[dataset.head]; return [...document.querySelectorAll('.map-flow "
                   "button')].every((button, i, all) => i === 0 || score(all[i - 1]) >="
                   "  score(button)); })");
    explorer_expect_quiet(NULL);
}

/* The probe runs once for a model: in other views and texts its names are there still, and a link
 * that sorts by a score runs it by itself. Nothing is kept in the daemon for it. */
TEST(once)
{
    find("");
    browser_do(&browser, "window.asked = 0; const fetched = window.fetch; window.fetch = (path,"
                         " options) => { asked += /probe/.test(options?.body); return"
                         " fetched(path, options); }");
    browser_click(&browser, "nav.tabs a[data-view=tokens]");
    explorer_settle();
    browser_expect(&browser, "!document.querySelector('.head-finder')");
    browser_do(&browser, "location.hash = '#model=stories260K&text=Once'");
    explorer_settle();
    browser_expect(&browser, "document.querySelector('.head-finder') && asked === 0");
    explorer_open(EXPLORER_TEXT "&sort=probe_first");
    browser_wait(&browser, "document.querySelector('.head-finder [aria-pressed=true]')"
                           "?.dataset.score === 'probe_first'");
    explorer_settle();
    browser_expect(&browser, "fetch('v1/traces').then((answer) => answer.json()).then(({traces}) =>"
                             " traces.length === 1)");
    explorer_expect_quiet(NULL);
}

/* What takes no tokens has no probe, which the page says; a refusal is said in the daemon's words,
 * and the button is there again. */
TEST(without)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT "&view=head");
    browser_do(&browser, "window.fetched = window.fetch; window.fetch = (path, options) =>"
                         " /probe/.test(options?.body) ? Promise.resolve(new Response("
                         " JSON.stringify({error: 'Not today.', code: 'option', pointer:"
                         " '/probe'}), {status: 400})) : fetched(path, options)");
    browser_do(&browser, "location.hash = '#" EXPLORER_TEXT "&sort=induction'");
    browser_wait(&browser, "/Not today/.test(document.querySelector('.overview-tools "
                           "[role=alert]')?.innerText)");
    browser_wait(&browser, "!document.querySelector('main [aria-busy=true]')");
    browser_click(&browser, "button[data-find]");
    explorer_settle();
    browser_do(&browser, "window.fetch = fetched");
    browser_click(&browser, "button[data-find]");
    browser_wait(&browser, "document.querySelector('.head-finder')");
    explorer_expect_quiet(NULL);
    const char numbers[] = "{\"query\":[[1,2],[3,4],[5,6]]}";
    char path[512];
    daemon_directory_write(browser.directory, "rows.json", numbers, sizeof numbers - 1);
    snprintf(path, sizeof path, "%s/rows.json", browser.directory);
    explorer_open("model=sdpa");
    browser_give_file(&browser, "input[type=file]", path);
    explorer_settle();
    browser_expect(&browser, "document.querySelector('button[data-find]').disabled && "
                             "/a tokenizer/.test(document.querySelector('.overview-tools')"
                             ".innerText)");
    explorer_expect_quiet(NULL);
}

/* A picture is in the order of the scores, and its notes say the names. */
TEST(exported)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_expect(
        &browser,
        "Promise.all(['data/open', 'data/find_heads', 'save/sheet', 'data/state'].map((name) =>"
        "  import(`/explorer/${name}.js`))).then(async ([{openSource}, {findHeads},"
        "  {gatherSheet}, {INITIAL}]) => {"
        "  const {models} = await (await fetch('v1/models')).json();"
        "  const state = {...INITIAL, model: 'stories260K', text: 'Once upon a time'};"
        "  const source = await openSource({state, models});"
        "  const plain = await gatherSheet(state, source, null);"
        "  const scores = await findHeads('stories260K');"
        "  const sheet = await gatherSheet({...state, sort: 'probe_previous'}, source, null);"
        "  source.close();"
        "  return !/Named/.test(plain.notes) && sheet.panels[0].short === 'L3 H6'"
        "    && sheet.notes.some((note) => note.includes('by Previous, probe'))"
        "    && sheet.notes.some((note) => note.startsWith('Named by the probe: ')"
        "      && note.includes(`L3 H6 previous token ${"
        "        scores.get(3).probe_previous[6].toFixed(2)}`)); })");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
