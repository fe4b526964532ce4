/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_answer.c - the view Answer: what a predicted token rests on. Every number is beside the
 * API's, which the test asks with requests of its own; parts, tokens and heads are chosen as a
 * person does it. */
#include "answer.h"
#include "browser_input.h"
#include "browser_log.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"

#define CAKE "One day, a girl named Sue saw a cake. Sue asked her mom: Can I eat the"
#define VIEW "model=stories260K&view=answer&text=" CAKE

#define STATE       "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"
#define PART(range) "document.querySelector('tr[data-part=\"" range "\"] .without')?.dataset.effect"

/* Defines ask(fields, path) in the page: an answer of the API to the text with these fields. */
static void give_ask(void)
{
    browser_do(&browser,
               "window.ask = async (fields, path = 'effects') => (await fetch(`v1/${path}`,"
               "  {method: 'POST', headers: {'Content-Type': 'application/json'},"
               "  body: JSON.stringify({model: 'stories260K', text: '%s', ...fields})})).json()",
               CAKE);
}

static void open_with(const char *more)
{
    explorer_begin();
    explorer_open(VIEW "%s", more);
    give_ask();
}

/* The shown values, of elements with these data- members, must be those of the API to the last
 * digit; a promise of the list of those wanted, in the same order. */
static void expect_same(const char *shown, const char *wanted)
{
    char *wrong = browser_text(
        &browser,
        "(%s).then((want) => { const shown = (%s).map(Number);"
        "  return shown.length > 0 && JSON.stringify(shown) === JSON.stringify(want) ? ''"
        "    : `${shown}\\nnot\\n${want}`; })",
        wanted, shown);
    if (*wrong)
        fail_msg("%s\n%s", shown, wrong);
    free(wrong);
}

#define EFFECTS(selector)                                                                          \
    "[...document.querySelectorAll('" selector "')].map((one) => one.dataset.effect)"

/* The numbers of all sections, by hiding and by leaving out, of one token and of two. */
TEST(numbers)
{
    static const char *const METRICS[][2] = {
        { "", "{token: 280}" }, { "&target=282&against=423", "{token: 282, against: 423}" }
    };
    for (int i = 0; i < 2; i++) {
        char more[160], wanted[256];
        snprintf(more, sizeof more, "&parts=1:12,12:17,3:20%s&by=%s", METRICS[i][0],
                 i ? "leave_out" : "hide");
        open_with(more);
        snprintf(wanted, sizeof wanted,
                 "ask({metric: %s, by: '%s', each: {spans: [[1,12],[12,17],"
                 "[3,20]]}}).then(({effects}) => effects)",
                 METRICS[i][1], i ? "leave_out" : "hide");
        expect_same(EFFECTS("tr[data-part] .without"), wanted);
        snprintf(wanted, sizeof wanted,
                 "ask({metric: %s, each: 'heads'}).then(({effects}) =>"
                 " effects.flat())",
                 METRICS[i][1]);
        expect_same(EFFECTS("button.effect"), wanted);
        expect_same(EFFECTS(".effect-table td"), wanted);
        snprintf(wanted, sizeof wanted,
                 "ask({metric: %s, each: 'layers'}).then(({effects}) =>"
                 " effects)",
                 METRICS[i][1]);
        expect_same(EFFECTS("td[data-each=layers]"), wanted);
        snprintf(wanted, sizeof wanted,
                 "ask({metric: %s, each: 'feed_forwards'})"
                 ".then(({effects}) => effects)",
                 METRICS[i][1]);
        expect_same(EFFECTS("td[data-each=feed_forwards]"), wanted);
        snprintf(wanted, sizeof wanted,
                 "ask({metric: %s, each: 'layers'}).then(({base}) =>"
                 " [base.value])",
                 METRICS[i][1]);
        expect_same("[document.querySelector('.answer-value').dataset.value]", wanted);
    }
    explorer_expect_quiet(NULL);
}

/* What the row looks at: the mean over all heads of their sums. */
TEST(looked_at)
{
    open_with("&parts=1:12,12:17");
    browser_expect(
        &browser,
        "ask({layers: [0,1,2,3,4], spans: [[1,12],[12,17]], rows: [33]}, 'trace').then(({layers})"
        " => [0, 1].every((part) => { const all = layers.flatMap(({spans}) => spans.map(([row]) =>"
        "    row[part])); const mean = all.reduce((sum, one) => sum + one) / all.length;"
        "  return Math.abs(document.querySelectorAll('.looked')[part].dataset.share - mean)"
        "    < 1e-12; }))");
    browser_expect(
        &browser,
        "document.querySelectorAll('.looked canvas').length === 2 && " EXPLORER_HAS_PICTURE);
    explorer_expect_quiet(NULL);
}

/* The example of API_CAUSES.md: without parts that anyone chose there are the sentences; the words
 * that name the cake are dragged over, and the answer is without them what the API says. */
TEST(example)
{
    open_with("");
    browser_expect(&browser, "[...document.querySelectorAll('tr[data-part]')].map((row) =>"
                             " row.dataset.part).join() === '1:18,18:34'");
    cJSON *place = browser_run(&browser, "return [12, 16].flatMap((at) => { const {left, top, "
                                         "width, height} = document.querySelector(`.piece[data-"
                                         "place=\"${at}\"]`).getBoundingClientRect(); return ["
                                         "left + width / 2, top + height / 2]; })");
    double at[4];
    for (int i = 0; i < 4; i++)
        at[i] = cJSON_GetArrayItem(place, i)->valuedouble;
    cJSON_Delete(place);
    browser_drag(&browser, at[0], at[1], at[2], at[3]);
    browser_wait(&browser, STATE ".parts === '1:18,12:17,18:34'");
    explorer_settle();
    expect_same("[" PART("12:17") "]", "ask({metric: {token: '▁c'}, each: {span_texts: ['saw a "
                                       "cake']}}).then(({effects}) => effects)");
    browser_expect(&browser, "Math.abs(Number(" PART("12:17") ") + 2.528551) < 1e-5");
    browser_expect(&browser, "/^6\\.09 %%$/.test(document.querySelector('tr[data-part=\"12:17\"] "
                             ".leaves').innerText.trim())");
    browser_click(&browser, "tr[data-part='1:18'] .remove");
    browser_wait(&browser, STATE ".parts === '12:17,18:34'");
    explorer_expect_quiet(NULL);
}

/* The menu gives the line for curl and the link, and no picture of a map that is not there. */
TEST(exported)
{
    open_with("&against=423");
    browser_click(&browser, ".export > button");
    browser_wait(&browser, "document.querySelector('[name=curl]')");
    expect_same(EFFECTS("button.effect"),
                "fetch('/v1/effects', {method: 'POST', headers: {'Content-Type': "
                "'application/json'}, body: document.querySelector('[name=curl]').value"
                ".match(/--data-raw '(.*)'/)[1]}).then((answer) => answer.json())"
                ".then(({effects}) => effects.flat())");
    explorer_expect_quiet(NULL);
}

/* A file has the numbers of the view as the API gives them, and a picture draws the same. */
TEST(saved)
{
    open_with("&parts=1:12,12:17");
    browser_do(&browser,
               "const make = URL.createObjectURL.bind(URL);"
               "URL.createObjectURL = (blob) => { window.blob = blob; return make(blob); };"
               "window.save = async (ending) => { window.blob = null;"
               "  document.querySelector(`[data-save=${ending}]`).click();"
               "  while (window.blob === null) await new Promise((done) => setTimeout(done, 20));"
               "  return window.blob.text(); }");
    browser_click(&browser, ".export > button");
    browser_wait(&browser, "document.querySelector('[data-save=json]')");
    browser_do(&browser, "return save('json').then((text) => {"
                         "  window.saved = JSON.parse(text).answer; })");
    expect_same("saved.parts.map(({effect}) => effect)",
                "ask({metric: {token: 280}, each: {spans: [[1, 12], [12, 17]]}})"
                ".then(({effects}) => effects)");
    expect_same("saved.layers.flatMap(({heads}) => heads)",
                "ask({metric: {token: 280}, each: 'heads'}).then(({effects}) => effects.flat())");
    expect_same("saved.layers.map(({feed_forward}) => feed_forward)",
                "ask({metric: {token: 280}, each: 'feed_forwards'}).then(({effects}) => effects)");
    expect_same("saved.parts.flatMap(({spans}) => spans.flatMap(({weights}) => weights))",
                "ask({spans: [[1, 12], [12, 17]], rows: [33]}, 'trace').then(({layers}) =>"
                "  [0, 1].flatMap((part) => layers.flatMap(({spans}) =>"
                "    spans.map(([row]) => row[part]))))");
    browser_do(&browser, "return save('svg').then((text) => { window.drawn = new DOMParser()"
                         ".parseFromString(text, 'image/svg+xml').documentElement; })");
    browser_expect(&browser, "drawn.querySelectorAll('[data-head]').length === 40"
                             " && [...drawn.querySelectorAll('[data-head]')].every(({dataset}) =>"
                             "  Number(dataset.effect) === saved.layers[dataset.layer]"
                             ".heads[dataset.head])");
    browser_expect(&browser, "drawn.textContent.includes('saw a cake')"
                             " && drawn.querySelectorAll('[data-share]').length === 2");
    explorer_expect_quiet(NULL);
}

/* Shift with the arrow keys marks, Enter adds, Esc unmarks; a part that is there stays one. */
TEST(keyboard)
{
    open_with("&parts=");
    browser_expect(&browser, "document.querySelectorAll('tr[data-part]').length === 0");
    browser_do(&browser, "document.querySelector('.piece').focus()");
    for (int i = 0; i < 12; i++)
        browser_keys(&browser, KEY_RIGHT);
    browser_keys_with(&browser, KEY_SHIFT, KEY_RIGHT KEY_RIGHT KEY_RIGHT KEY_RIGHT);
    browser_wait(&browser, "document.querySelectorAll('.piece[aria-selected=true]').length === 5");
    browser_expect(&browser, "document.querySelector('.marked-words').innerText.includes("
                             "'saw a cake')");
    browser_keys(&browser, KEY_ENTER);
    browser_wait(&browser, STATE ".parts === '12:17'");
    browser_keys_with(&browser, KEY_SHIFT, KEY_LEFT);
    browser_keys(&browser, KEY_ESCAPE);
    browser_wait(&browser, "!document.querySelector('.piece[aria-selected=true]')");
    explorer_settle();
    browser_expect(&browser, "Math.abs(Number(" PART("12:17") ") + 2.528551) < 1e-5");
    explorer_expect_quiet(NULL);
}

/* A click on a head switches it off: the address says so, what is shown is of the edited pass, and
 * the head has the focus still. Enter switches it on again, and so does the key u. */
TEST(head_off)
{
    open_with("");
    browser_click(&browser, "button.effect[data-layer='4'][data-head='4']");
    browser_wait(&browser, STATE ".off === '4.4'");
    explorer_settle();
    give_ask();
    browser_expect(&browser, "document.querySelector('.switched-off').dataset.off === '4.4'");
    browser_expect(&browser, "document.activeElement.matches('button.effect[data-layer=\"4\"]"
                             "[data-head=\"4\"][aria-pressed=true]')");
    expect_same(EFFECTS("button.effect"),
                "ask({metric: {token: 280}, each: 'heads', edits: "
                "[{layers: [4], heads: [4], scale: 0}]}).then(({effects}) => effects.flat())");
    expect_same("[document.querySelector('.answer-value').dataset.value]",
                "ask({outputs: [], layers: [], targets: [{token: 280}], edits: [{layers: [4],"
                "  heads: [4], scale: 0}]}, 'trace').then(({targets}) => [targets[0].logprob])");
    browser_keys(&browser, KEY_ENTER);
    browser_wait(&browser, STATE ".off === undefined");
    explorer_settle();
    browser_expect(&browser, "document.querySelector('.answer-value').dataset.value > -0.3");
    browser_click(&browser, "button.effect[data-layer='3'][data-head='1']");
    browser_wait(&browser, STATE ".off === '3.1'");
    explorer_settle();
    browser_keys(&browser, "u");
    browser_wait(&browser, STATE ".off === undefined");
    explorer_expect_quiet(NULL);
}

/* A predicted token by a click, another one by its string or id, and one against it; what no
 * vocabulary has is said in the daemon's words. */
TEST(token)
{
    static const char *const FAULTS[] = { "Failed to load resource", NULL };
    open_with("");
    browser_click(&browser, ".predicted button[data-token='423']");
    browser_wait(&browser, STATE ".target === '423'");
    browser_do(&browser, "document.querySelector('select[name=against]').value = '280';"
                         "document.querySelector('select[name=against]').dispatchEvent("
                         "new Event('change', {bubbles: true}))");
    browser_wait(&browser, STATE ".against === '280'");
    explorer_settle();
    browser_expect(&browser, "document.querySelector('.answer-value').dataset.value < -2");
    browser_type(&browser, ".token-field input", " mom");
    browser_keys(&browser, KEY_ENTER);
    browser_wait(&browser, STATE ".target === '357'");
    browser_type(&browser, ".token-field input", "400");
    browser_keys(&browser, KEY_ENTER);
    browser_wait(&browser, STATE ".target === '400'");
    browser_type(&browser, ".token-field input", "zebra");
    browser_keys(&browser, KEY_ENTER);
    browser_wait(&browser, "document.querySelector('.field-fault')?.innerText.includes('zebra')");
    explorer_expect_quiet(FAULTS);
}

/* A link with a place that the text does not have shows the answer at its end. */
TEST(place)
{
    open_with("&position=34");
    browser_expect(&browser, "document.querySelector('.answer-value').dataset.position === '33'"
                             " && !document.querySelector('.fault')");
    explorer_expect_quiet(NULL);
}

/* Holds requests for effects in the page until they are aborted. */
static void hold_effects(void)
{
    browser_do(&browser, "window.released = window.fetch; window.held = 0; window.fetch = (path,"
                         " options) => String(path).includes('effects') ? new Promise((_, fail) =>"
                         " { held++; options.signal.addEventListener('abort', () => { held--;"
                         "   fail(options.signal.reason); }); }) : released(path, options)");
}

/* Stop ends what is asked for, and what is there stays; so does another view. */
TEST(stop)
{
    open_with("");
    hold_effects();
    browser_click(&browser, ".predicted button[data-token='423']");
    browser_wait(&browser, "held === 1");
    browser_click(&browser, "[data-stop]");
    browser_wait(&browser, "held === 0 && document.querySelector('[data-again]')");
    browser_expect(&browser, "document.querySelectorAll('.looked[data-share]').length === 2");
    browser_click(&browser, "[data-again]");
    browser_wait(&browser, "held === 1");
    browser_click(&browser, ".predicted button[data-token='282']");
    browser_wait(&browser, "held === 1 && !document.querySelector('[data-again]')");
    browser_click(&browser, "nav.tabs a[data-view=overview]");
    browser_wait(&browser, "held === 0");
    browser_do(&browser, "window.fetch = window.released");
    browser_click(&browser, "nav.tabs a[data-view=answer]");
    explorer_settle();
    browser_expect(&browser, "document.querySelectorAll('button.effect[data-effect]').length "
                             "=== 40");
    explorer_expect_quiet(NULL);
}

/* A request that is refused is a fault of its section; the others are there. */
TEST(refused)
{
    open_with("");
    browser_do(&browser, "const fetched = window.fetch; window.fetch = (path, options) =>"
                         " /\"each\":\"heads\"/.test(options?.body) ? Promise.resolve(new Response("
                         " JSON.stringify({error: 'Not today.', code: 'option', pointer: '/each'}),"
                         " {status: 400})) : fetched(path, options)");
    browser_click(&browser, ".predicted button[data-token='423']");
    explorer_settle();
    browser_expect(&browser, "document.querySelector('.answer-heads .fault[role=alert]').innerText"
                             ".includes('Not today.')");
    browser_expect(&browser, "document.querySelectorAll('main .fault').length === 1");
    browser_expect(&browser, "document.querySelectorAll('td[data-each=layers][data-effect]').length"
                             " === 5");
    explorer_expect_quiet(NULL);
}

TEST(daemon_gone)
{
    static const char *const FAULTS[] = { "Failed to load resource", NULL };
    open_with("");
    fixture_stop(NULL);
    browser_click(&browser, ".predicted button[data-token='423']");
    explorer_settle();
    browser_expect(&browser, "document.querySelector('main > .fault[role=alert]').innerText"
                             ".includes('daemon')");
    browser_expect(&browser, "!document.querySelector('.answer[aria-busy=true]')");
    explorer_expect_quiet(FAULTS);
    daemon_kill(&server);
}

/* An encoder-decoder: parts of the encoder's tokens, heads by kind. A model without a head says
 * what the view needs; a masked one without a mask lets the place be chosen. */
TEST(other_models)
{
    browser_skip_without();
    directory = daemon_directory_create();
    traced_model_save(directory);
    traced_families_save(directory);
    fixture_serve("--models", directory);
    explorer_begin();
    explorer_open("%s", "model=t5&tokens=3,17,9,22,31,8&view=answer&parts=0:2,2:5");
    browser_expect(&browser, "document.querySelectorAll('tr[data-part] [data-effect]').length "
                             "=== 2 && document.querySelectorAll('.looked[data-share]').length "
                             "=== 2");
    browser_expect(&browser, "document.querySelectorAll('button.effect[data-effect]').length "
                             "=== 4");
    browser_do(&browser, "const kind = document.querySelector('.answer-kind select'); kind.value ="
                         " 'encoder'; kind.dispatchEvent(new Event('change', {bubbles: true}))");
    explorer_settle();
    browser_expect(&browser, "document.querySelectorAll('button.effect[data-effect]').length "
                             "=== 4 && document.querySelector('.effect-grid').innerText.includes("
                             "'encoder')");
    explorer_open("%s", "model=bert&tokens=3,17,9,22,31,8&view=answer&position=2&parts=0:2,2:5");
    browser_expect(&browser, "document.querySelectorAll('tr[data-part] [data-effect]').length "
                             "=== 2 && document.querySelector('.answer-value').dataset.position "
                             "=== '2'");
    explorer_open("%s", "model=clip&tokens=3,17,9&view=answer");
    browser_expect(&browser, "document.querySelector('.answer-needs') || "
                             "document.querySelector('.fault')");
    daemon_kill(&server);
}

ALL_TESTS(NULL, explorer_stop);
