/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_paper.c - pictures for a paper: their size in millimetres, type in points, what stands
 * on the axes, and the caption that says what is seen and how to make it again. */
#include "browser_input.h"
#include "explorer.h"
#include "test.h"

#define STATE "model=stories260K&text=One+day,+Lily+found+a+ball.&layer=1&head=4&row=5&key=3"

static void open_paper(const char *members)
{
    explorer_begin();
    explorer_open(STATE "&other.model=stories260K&other.layer=2&other.head=3&difference=1&%s",
                  members);
    browser_do(&browser,
               "const make = URL.createObjectURL.bind(URL);"
               "URL.createObjectURL = (blob) => { window.blob = blob; return make(blob); }");
    browser_click(&browser, ".export > button");
    browser_click(&browser, ".paper summary");
    browser_wait(&browser, "document.querySelector('.preview')?.complete");
}

static void choose(const char *name, const char *value)
{
    browser_do(&browser, "document.querySelector('input[name=%s][value=\"%s\"]').click()", name,
               value);
    explorer_settle();
}

/* The preview is the file: window.svg becomes its root. */
static void read_preview(void)
{
    browser_do(&browser, "return blob.text().then((text) => { window.svg = new DOMParser()"
                         ".parseFromString(text, 'image/svg+xml').documentElement; })");
}

static const struct {
    const char *fragment, *titles;
} VIEWS[] = {
    { "view=overview", "layer,head,weight" },
    { "view=overview&sort=entropy", "weight" },
    { "view=overview&filter=first:0.2:1", "layer,head,weight" },
    { "view=head", "query,key,weight" },
    { "view=tokens", "query,key" },
    { "view=why", "dimension" },
    { "view=compare", "query,key,weight,difference of weights" },
};

/* Type that can be read, no title, axes that are named, and nothing beyond an edge. */
static void expect_picture(int millimetres, const char *titles)
{
    browser_expect(&browser,
                   "svg.getAttribute('width') === '%dmm' &&"
                   "Math.abs(svg.viewBox.baseVal.width - %d / 25.4 * 72) < 0.01",
                   millimetres, millimetres);
    browser_expect(&browser, "[...svg.querySelectorAll('text')].every((text) =>"
                             " [7, 8].includes(Number(text.getAttribute('font-size'))))");
    browser_expect(&browser, "![...svg.querySelectorAll('text')].some((text) =>"
                             " text.textContent.includes('stories260K'))");
    browser_expect(&browser,
                   "'%s'.split(',').every((title) => [...svg.querySelectorAll('text')]"
                   ".some((text) => text.textContent === title))",
                   titles);
    browser_expect(
        &browser,
        "(document.querySelector('.preview').after(svg), [...svg.querySelectorAll('text')]"
        ".every((text) => { const box = text.getBoundingClientRect(), all ="
        " svg.getBoundingClientRect(); return box.left >= all.left - 1 && box.top >= "
        "all.top - 1 && box.right <= all.right + 1 && box.bottom <= all.bottom + 1; }))");
    browser_do(&browser, "svg.remove()");
}

TEST(pictures)
{
    for (size_t i = 0; i < sizeof VIEWS / sizeof *VIEWS; i++) {
        open_paper(VIEWS[i].fragment);
        read_preview();
        expect_picture(85, VIEWS[i].titles);
        choose("paper-width", "170");
        read_preview();
        expect_picture(170, VIEWS[i].titles);
    }
}

/* Greys are greys, whatever the palette and the system's scheme. */
TEST(greys)
{
    explorer_begin();
    browser_prefer(&browser, "prefers-color-scheme", "dark");
    for (size_t i = 0; i < sizeof VIEWS / sizeof *VIEWS; i++) {
        open_paper(VIEWS[i].fragment);
        choose("paper-colours", "true");
        read_preview();
        browser_expect(
            &browser,
            "(({colours}) => colours.length > 2 && colours.every((colour) => {"
            "  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2),"
            "    16)); return Math.max(red, green, blue) - Math.min(red, green, blue) < 24; }))({"
            "colours: [...svg.querySelectorAll('[fill], [stroke]')].flatMap((one) => ['fill', "
            "'stroke'].map((name) => one.getAttribute(name))).filter((colour) => colour?.[0] === "
            "'#')})");
        browser_expect(&browser, "svg.querySelector('rect').getAttribute('fill') === '#ffffff'");
    }
    browser_prefer(&browser, "prefers-color-scheme", "light");
}

/* The caption says what, of what, in which colours, and the request. */
TEST(caption)
{
    static const struct {
        const char *view, *says;
    } CAPTIONS[] = {
        { "view=head&scale=sqrt", "stories260K, layer 1, head 4; 12 queries down, 12 keys across|"
                                  "“One day, Lily found a ball.”|viridis, square root|"
                                  "Each cell is one weight.|Fixed: row|\"heads\":[4]" },
        { "view=head&rows=2:6&keys=0:5", "queries 2 to 5 of 12 down, keys 0 to 4 of 12 across" },
        { "view=overview", "40 heads of 5 layers (layers down, heads across)" },
        { "filter=entropy:0:1", "Heads with Entropy 0 to 1" },
        { "view=tokens&heads=0,1,2,5&threshold=0.3", "layer 1, heads 0 to 2, 5|from 0.30 on" },
        { "view=head&range=largest", "the largest weight" },
        { "view=why", "layer 1, head 4: query “|(5), key “|(3)" },
        { "view=compare", "(a) layer 1, head 4, (b) layer 2, head 3, (c) the first − the second|"
                          "of the difference −1 to 1" },
    };
    for (size_t i = 0; i < sizeof CAPTIONS / sizeof *CAPTIONS; i++) {
        open_paper(CAPTIONS[i].view);
        browser_expect(&browser,
                       "'%s'.split('|').every((words) => document.querySelector("
                       "'textarea[name=caption]').value.includes(words))",
                       CAPTIONS[i].says);
        browser_expect(&browser, "document.querySelector('textarea[name=caption]').value.includes("
                                 "document.querySelector('textarea[name=curl]').value)");
    }
}

/* What is printed is the picture alone, on one page of its size, and the page is as it was after
 * it. */
TEST(pdf)
{
    open_paper("view=head");
    read_preview();
    browser_do(&browser, "window.print = () => { window.prints = 1; }");
    browser_click(&browser, "[data-paper=pdf]");
    browser_wait(&browser, "window.prints === 1");
    cJSON *body = cJSON_Parse("{\"cmd\":\"Page.printToPDF\",\"params\":{\"preferCSSPageSize\":true,"
                              "\"printBackground\":true}}");
    cJSON *made = browser_call(&browser, "/goog/cdp/execute", body);
    const char *pdf = cJSON_GetObjectItem(made, "data")->valuestring;
    browser_expect(
        &browser,
        "((pdf) => { const box = /MediaBox \\[0 0 ([\\d.]+) ([\\d.]+)\\]/.exec(pdf);"
        " return /\\/Count 1\\b/.test(pdf) && Math.abs(box[1] - 85 / 25.4 * 72) < 1 &&"
        " Math.abs(box[2] - svg.viewBox.baseVal.height) < 1 && /FontFile|Type3/.test(pdf); })"
        "(atob('%s'))",
        pdf);
    cJSON_Delete(made);
    browser_wait(&browser, "!document.querySelector('.printed') && !document.documentElement"
                           ".classList.contains('printing') && !document.adoptedStyleSheets"
                           ".some((sheet) => sheet.cssRules.length)");
    explorer_expect_quiet(NULL);
}

/* 300 dots an inch of 85 mm, which the file says too. */
TEST(png)
{
    open_paper("view=head");
    browser_click(&browser, "[data-paper=png]");
    char *path = browser_download(&browser, "stories260K-head-layer1-head4-85mm.png");
    unsigned char head[62];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    assert_int_equal(head[18] * 256 + head[19], 1004);
    static const unsigned char SIZE[] = { 0,    0,    0, 9,    'p',  'H',  'Y',
                                          's',  0,    0, 0x2e, 0x23, 0,    0x00,
                                          0x2e, 0x23, 1, 0x78, 0xa5, 0x3f, 0x76 };
    assert_memory_equal(head + 33, SIZE, sizeof SIZE);
    browser_open_tab(&browser);
    browser_go(&browser, "file://%s", path);
    browser_expect(&browser, "document.images[0].naturalWidth === 1004");
    browser_close_tab(&browser);
    remove(path);
    free(path);
}

ALL_TESTS(NULL, explorer_stop);
