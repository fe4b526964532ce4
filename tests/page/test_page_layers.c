/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_layers.c - what the view Answer reads of the pass: what each layer would answer, and
 * what each part wrote. Every number is beside the API's, which the test asks itself. */
#include "browser_input.h"
#include "browser_log.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"

#define TEXT "Can I eat the"
#define VIEW "model=stories260K&view=answer&parts=&text=" TEXT

static void open_with(const char *more)
{
    explorer_begin();
    explorer_open(VIEW "%s", more);
    browser_do(&browser,
               "window.ask = async (fields) => (await fetch('v1/trace',"
               "  {method: 'POST', headers: {'Content-Type': 'application/json'},"
               "  body: JSON.stringify({model: 'stories260K', text: '%s', ...fields})})).json()",
               TEXT);
}

/* The numbers of the page, a list, must be those that a promise gives, to the last digit. */
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

#define DATA(selector, name)                                                                       \
    "[...document.querySelectorAll('" selector "')].map(({dataset}) => dataset." name ")"
#define LENS(asked, edits)                                                                         \
    "ask({outputs: ['lens'], positions: [7], top_k_tokens: 4, targets: " asked edits "})"          \
    ".then(({layers}) => layers.flatMap(({lens}) => lens))"

/* By layer the tokens with their log-probs, and those of what is asked about with their ranks. */
TEST(lens)
{
    open_with("&target=280");
    expect_same(DATA(".lens-table .token[data-token]", "token"),
                LENS("[{token: 280}]",
                     "") ".then((lens) => lens.flatMap(({tokens}) => tokens.map(({id}) => id)))");
    expect_same(
        DATA(".lens-table .token[data-token]", "logprob"),
        LENS("[{token: 280}]",
             "") ".then((lens) => lens.flatMap(({tokens}) => tokens.map(({logprob}) => logprob)))");
    expect_same(
        DATA("td[data-lens=target]", "logprob"),
        LENS("[{token: 280}]", "") ".then((lens) => lens.map(({targets}) => targets[0].logprob))");
    expect_same(
        DATA(".lens-table [data-rank]", "rank"),
        LENS("[{token: 280}]", "") ".then((lens) => lens.map(({targets}) => targets[0].rank))");
    browser_expect(&browser, "document.querySelectorAll('.lens-line circle').length === 5");
    open_with("&target=280&against=423&off=4.4,1.2");
    expect_same(DATA("td[data-lens=against]", "logprob"),
                LENS("[{token: 280}, {token: 423}]",
                     ", edits: [{layers: [4], heads: [4], scale: 0}, {layers: [1], heads: [2], "
                     "scale: 0}]") ".then((lens) => lens.map(({targets}) => targets[1].logprob))");
    browser_expect(&browser, "document.querySelectorAll('.lens-line circle').length === 10");
    explorer_expect_quiet(NULL);
}

#define WROTE(target, edits)                                                                       \
    "ask({layers: [], outputs: ['contributions'], targets: [" target "]" edits "})"                \
    ".then(({contributions: [one]}) => one)"

static void expect_parts(const char *target, const char *edits)
{
    static const char *const NAMES[][2] = { { "head", "heads" },
                                            { "feed_forward", "feed_forward" } };
    char wanted[512], shown[256];
    for (int i = 0; i < 2; i++) {
        snprintf(wanted, sizeof wanted,
                 "ask({layers: [], outputs: ['contributions'], targets: [%s]%s}).then("
                 "({contributions: [one]}) => one.layers.flatMap((layer) => layer.%s))",
                 target, edits, NAMES[i][1]);
        snprintf(shown, sizeof shown,
                 "[...document.querySelectorAll('.wrote[data-name=%s]')].map(({dataset}) =>"
                 " dataset.wrote)",
                 NAMES[i][0]);
        expect_same(shown, wanted);
    }
    snprintf(wanted, sizeof wanted,
             "ask({layers: [], outputs: ['contributions'], targets: [%s]%s}).then("
             "({contributions: [one]}) => [one.logit])",
             target, edits);
    expect_same(DATA(".sum-words", "logit"), wanted);
}

/* The parts of a token, of a token against another, and of a pass without heads: they sum to the
 * logit, and all of them are in the list, the largest first. */
TEST(contributions)
{
    open_with("&target=280");
    expect_parts("{token: 280}", "");
    browser_expect(&browser, "(({sum, logit}) => Math.abs(sum - logit) < 1e-4 * Math.abs(logit))"
                             "(document.querySelector('.sum-words').dataset)");
    browser_expect(&browser, "document.querySelectorAll('td[data-part-value]').length === 12");
    browser_click(&browser, "button[data-whole]");
    browser_wait(&browser, "document.querySelectorAll('td[data-part-value]').length === 57");
    expect_same(DATA("td[data-part-value]", "partValue"),
                WROTE("{token: 280}", "") ".then(({embedding, bias, layers}) => ["
                                          "embedding, bias, ...layers.flatMap((layer) => ["
                                          "...layer.heads, layer.attention_bias,"
                                          "  layer.feed_forward, layer.edits])].sort((a, b) =>"
                                          "  Math.abs(b) - Math.abs(a)))");
    browser_expect(&browser,
                   "!/softcap/.test(document.querySelector('.answer-contributions').textContent)");
    open_with("&target=280&against=423");
    expect_parts("{token: 280, against: 423}", "");
    open_with("&target=280&off=4.4");
    expect_parts("{token: 280}", ", edits: [{layers: [4], heads: [4], scale: 0}]");
    explorer_expect_quiet(NULL);
}

/* By keys from part to part, with its number in words; Enter on a head opens it. */
TEST(keyboard)
{
    open_with("&target=280");
    browser_do(&browser, "document.querySelector('.wrote[data-of=\"4\"][data-head=\"1\"]')"
                         ".focus()");
    browser_keys(&browser, KEY_RIGHT);
    browser_expect(&browser, "/^layer 4, head 2: .0\\.\\d+; opens/.test(document.activeElement"
                             ".getAttribute('aria-label'))");
    browser_expect(&browser, "/layer 4, head 2 wrote/.test(document.querySelector("
                             "'.answer-contributions .effect-words').innerText)");
    browser_keys(&browser, KEY_ENTER);
    browser_wait(&browser, "/view=head&layer=4&head=2/.test(location.hash)");
    explorer_settle();
    explorer_expect_quiet(NULL);
}

/* A logit that a softcap follows: the difference of two is not that of their log-probs. */
TEST(softcap)
{
    open_with("&target=280");
    browser_do(&browser, "const fetched = window.fetch; window.fetch = async (path, options) => {"
                         "  const answer = await fetched(path, options);"
                         "  if (!/contributions/.test(options?.body)) return answer;"
                         "  const said = await answer.json();"
                         "  said.targets.at(-1).logit_difference *= 0.9;"
                         "  return new Response(JSON.stringify(said)); }");
    browser_click(&browser, ".predicted button[data-token='282']");
    browser_wait(&browser, "/before a softcap/.test(document.querySelector('.sum-words')"
                           "?.textContent)");
    explorer_expect_quiet(NULL);
}

/* A request that is refused is a fault of its section, and is asked for again. */
TEST(refused)
{
    open_with("&target=280");
    browser_do(&browser,
               "window.fetched = window.fetch; window.fetch = (path, options) =>"
               " /\"lens\"/.test(options?.body) ? Promise.resolve(new Response("
               " JSON.stringify({error: 'Not today.', code: 'option', pointer: '/positions'}),"
               " {status: 400})) : fetched(path, options)");
    browser_click(&browser, ".predicted button[data-token='282']");
    explorer_settle();
    browser_expect(&browser, "document.querySelector('.answer-lens .fault').innerText.includes("
                             "'Not today.')");
    browser_expect(&browser, "document.querySelector('.sum-words')");
    browser_do(&browser, "window.fetch = fetched");
    browser_click(&browser, ".answer-lens .fault button");
    browser_wait(&browser, "document.querySelector('.lens-table')");
    explorer_expect_quiet(NULL);
}

/* A head with a layer of its own has a lens and no contributions, which is said in words; an
 * encoder-decoder has the parts of its decoder. */
TEST(other_models)
{
    static const char *const FAULTS[] = { "Failed to load resource", NULL };
    browser_skip_without();
    explorer_change_daemon();
    directory = daemon_directory_create();
    traced_model_save(directory);
    traced_families_save(directory);
    fixture_serve("--models", directory);
    explorer_begin();
    explorer_open("%s", "model=bert&tokens=3,17,9,22,31,8&view=answer&position=2&parts=0:2");
    browser_expect(&browser, "document.querySelectorAll('tr[data-lens-layer]').length === 3");
    browser_expect(&browser, "/layer of its own/.test(document.querySelector('[data-refused]')"
                             ".textContent) && !document.querySelector('main .fault')");
    explorer_open("%s", "model=t5&tokens=3,17,9,22,31,8&view=answer&parts=0:2");
    browser_expect(&browser, "document.querySelectorAll('tr[data-lens-layer]').length === 2");
    browser_expect(&browser, "document.querySelectorAll('.wrote[data-name=head]').length === 8");
    browser_expect(&browser, "document.querySelectorAll('.wrote[data-name=feed_forward]').length "
                             "=== 2");
    explorer_expect_quiet(FAULTS);
    daemon_kill(&server);
}

ALL_TESTS(NULL, explorer_stop);
