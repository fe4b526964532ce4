/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_quoted.c - a text that breaks what is not quoted is a text in all files that people
 * export, and a key is in none. */
#include "browser_input.h"
#include "browser_log.h"
#include "explorer.h"
#include "test.h"

/* It ends a script, opens a comment, and has what shells, XML and JSON read otherwise. */
#define TEXT                                                                                       \
    "it's \"so\" $(id) `id` \\n ${HOME} & </script><script>window.ran=1</script><!-- ]]> é "      \
    "🙂\n2"
#define HEAD "&view=head&layer=1&head=4&row=3&key=1"

static void open_menu(const char *members)
{
    explorer_begin();
    cJSON *text = cJSON_CreateString(TEXT);
    char *quoted = cJSON_PrintUnformatted(text);
    cJSON *sent = browser_run(&browser, "return encodeURIComponent(%s)", quoted);
    explorer_open("model=stories260K&text=%s%s", sent->valuestring, members);
    cJSON_Delete(sent);
    cJSON_Delete(text);
    free(quoted);
    browser_click(&browser, ".export button");
    browser_wait(&browser, "document.querySelector('textarea[name=curl]')");
}

/* The path of the file that a button of the menu saves. */
static char *saved(const char *ending, const char *end)
{
    browser_wait(&browser, "!document.querySelector('[data-save=%s]').disabled", ending);
    browser_do(&browser, "document.querySelector('[data-save=%s]').click()", ending);
    return browser_download(&browser, end);
}

/* A saved file is what it must be, asks nobody for anything, and runs nothing of the text. */
static void expect_file(const char *path, const char *condition)
{
    browser_go(&browser, "file://%s", path);
    browser_wait(&browser, "%s", condition);
    browser_expect(&browser, "window.ran === undefined");
    browser_expect_quiet(&browser, "file://", NULL);
}

static void expect_opens(const char *view)
{
    static const char *const FILES[][2] = {
        { "svg", "document.documentElement.nodeName === 'svg' && "
                 "document.documentElement.textContent.includes(\"it's \")" },
        { "png", "document.images[0].naturalWidth > 400" },
        { "html", "document.querySelector('svg') && document.title.includes('</script><script>')" },
    };
    char *paths[3], end[128];
    for (int i = 0; i < 3; i++) {
        snprintf(end, sizeof end, "%s.%s", view, FILES[i][0]);
        paths[i] = saved(FILES[i][0], end);
    }
    explorer_expect_quiet(NULL);
    for (int i = 0; i < 3; i++) {
        expect_file(paths[i], FILES[i][1]);
        free(paths[i]);
    }
}

/* Vocabularies may have whole tags as tokens: they end no script of the saved HTML. */
TEST(labels)
{
    explorer_begin();
    explorer_open("model=stories260K");
    cJSON *holds = browser_run(
        &browser,
        "return (async () => {"
        "const of = (file) => import(new URL(`explorer/save/${file}`, document.baseURI));"
        "const { htmlOf } = await of('html.js'), { svgOf } = await of('svg.js');"
        "const label = '<' + '/script><script>window.ran=1<' + '/script><!-- & ]]>';"
        "const panel = { name: label, layer: 0, head: 0, rows: [0, 1], keys: [0, 1], shape: [1, 1],"
        "  values: new Float32Array([0.5]), rowTokens: [label], keyTokens: [label] };"
        "const sheet = { view: 'head', model: label, title: label, pair: null, panels: [panel],"
        "  notes: [label] };"
        "const svg = svgOf(sheet, { scale: 'linear', palette: 'viridis' });"
        "const text = htmlOf(sheet, svg, [label], label).replace(/<style>[^<]*<.style>/, '');"
        "const page = new DOMParser().parseFromString(text, 'text/html');"
        "const data = JSON.parse(page.getElementById('data').textContent);"
        "return [page.scripts.length, data.lists[0][0] === label, page.title === label,"
        "  page.querySelector('pre').textContent === label,"
        "  page.querySelector('a').getAttribute('href') === label].join();"
        "})()");
    assert_string_equal(holds->valuestring, "2,true,true,true,true");
    cJSON_Delete(holds);
}

/* With a key in use the line reads it from a variable: it is nowhere in the page. */
TEST(curl_with_key)
{
    open_menu(HEAD);
    browser_run(&browser, "return import(new URL('explorer/data/api.js', document.baseURI))"
                          ".then((api) => { api.setKey('top-secret'); return 0; })");
    browser_click(&browser, ".export button");
    browser_click(&browser, ".export button");
    browser_expect(&browser, "document.querySelector('textarea[name=curl]').value.includes("
                             "' -H \"Authorization: Bearer $KEY\" ')");
    browser_expect(&browser, "![document.documentElement.outerHTML, location.href,"
                             "...[...document.querySelectorAll('textarea')].map((e) => e.value)]"
                             ".some((text) => text.includes('top-secret'))");
}

TEST(each_view_opens)
{
    static const struct {
        const char *members, *name;
    } VIEWS[] = {
        { "", "stories260K-overview" },
        { HEAD, "stories260K-head-layer1-head4" },
        { "&view=tokens&layer=1", "stories260K-tokens-layer1" },
        { "&view=why&layer=1&head=4&row=3&key=1", "stories260K-why-layer1-head4" },
        { "&view=compare&layer=1&head=4&other.layer=3&other.head=2&difference=1",
          "stories260K-compare-layer1-head4" },
    };
    for (size_t i = 0; i < sizeof VIEWS / sizeof *VIEWS; i++) {
        open_menu(VIEWS[i].members);
        expect_opens(VIEWS[i].name);
    }
}

ALL_TESTS(NULL, explorer_stop);
