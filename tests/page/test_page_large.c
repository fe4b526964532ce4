/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_large.c - a map of 4 096 tokens: the page asks for what the screen can show, ends what
 * goes out of view, keeps its memory small, and draws without a stutter. Times are printed. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"
#include "traced_model.h"

enum { TOKENS = 4096, CELLS_MAX = 1024 * 1024 };

static const double MEMORY_MAX = 300e6;

static void begin(void)
{
    browser_skip_without();
    if (server.pid == 0) {
        directory = daemon_directory_create();
        traced_model_save(directory);
        fixture_serve("--models", directory);
    }
    explorer_begin();
}

/* Opens the head view of the llama of traced_model.h on so many tokens, as ids. */
static void open_head(void)
{
    struct request_text text = { 0 };
    for (int i = 0; i < TOKENS; i++)
        request_text_add(&text, i > 0 ? ",%d" : "%d", i * 7 % TRACED_TOKENS);
    explorer_open("model=llama&view=head&layer=1&head=2&scale=sqrt&tokens=%s", text.data);
    free(text.data);
}

/* From here on the page notes when each frame begins. */
static void watch_frames(void)
{
    browser_do(&browser, "const times = window.frames_at = [];"
                         "requestAnimationFrame(function note(now) { times.push(now);"
                         " if (window.frames_at === times) requestAnimationFrame(note); })");
}

static void print_frames(const char *what)
{
    browser_do(&browser, "window.frames_seen = frames_at; window.frames_at = null");
    char *line = browser_text(
        &browser,
        "((times) => { times.sort((a, b) => a - b); const at = (part) =>"
        "  times[Math.floor(part * (times.length - 1))].toFixed(1);"
        "  return `${times.length} frames, median ${at(0.5)} ms, 90 %% within ${at(0.9)} ms,"
        " longest ${at(1)} ms`; })(frames_seen.slice(1).map((time, i) => time - frames_seen[i]))");
    print_message("%s: %s\n", what, line);
    free(line);
}

#define MAP "document.querySelector('.map-canvas').getBoundingClientRect()"

static void zoom_and_pan(void)
{
    const double x = browser_number(&browser, MAP ".x + " MAP ".width / 2");
    const double y = browser_number(&browser, MAP ".y + " MAP ".height / 2");
    watch_frames();
    for (int i = 0; i < 12; i++)
        browser_wheel(&browser, x, y, -120);
    print_frames("zoom in");
    browser_wait(&browser, "location.hash.includes('rows=')"); /* the wheel came to the map */
    watch_frames();
    for (int i = 0; i < 6; i++)
        browser_drag(&browser, x, y, x - 100 + 40 * i, y - 60);
    print_frames("pan");
    watch_frames();
    for (int i = 0; i < 12; i++)
        browser_wheel(&browser, x, y, 120);
    print_frames("zoom out");
    explorer_settle();
}

TEST(large_map)
{
    begin();
    open_head();
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    print_message("4 096 tokens: the first picture %.0f ms after the load began\n",
                  browser_number(&browser, "seen.drawn"));
    zoom_and_pan();
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    const double bytes = browser_number(&browser, "performance.memory.usedJSHeapSize");
    print_message("%.0f MB of JavaScript's heap, %.0f calls, %.0f ended by the page\n", bytes / 1e6,
                  browser_number(&browser, "seen.asked.length"),
                  browser_number(&browser, "seen.aborted"));
    assert_true(bytes < MEMORY_MAX);
    explorer_expect_quiet(NULL);
}

/* What is said of a colour that stands for several pairs: which they are, and the largest weight
 * among them, as the API has it. */
TEST(words_of_cell)
{
    begin();
    browser_move(&browser, browser_number(&browser, MAP ".x + " MAP ".width * 0.3"),
                 browser_number(&browser, MAP ".y + " MAP ".height * 0.7"));
    browser_wait(&browser, "document.querySelector('.cell-line [data-largest]') !== null");
    browser_wait(
        &browser,
        "(async () => {"
        "  const { rows, keys, largest } = document.querySelector('[data-largest]').dataset;"
        "  const trace = seen.asked.map((one) => /v1.traces.([0-9a-f]+)/.exec(one)?.[1]);"
        "  const answer = await fetch(`v1/traces/${trace.find(Boolean)}/weights?layer=1&head=2"
        "&rows=${rows}&keys=${keys}&cells=1x1`);"
        "  const [want] = new Float32Array(await answer.arrayBuffer());"
        "  const [row, end] = rows.split(':').map(Number);"
        "  return end - row > 1 && want > 0 && Math.abs(largest - want) < 1e-3 * want; })()");
    explorer_leave();
}

/* No call asks for more cells than a screen can show. */
TEST(calls_are_small)
{
    begin();
    browser_expect(&browser,
                   "seen.asked.filter((one) => one.includes('/weights?')).length > 0 &&"
                   "seen.asked.filter((one) => one.includes('/weights?')).every((one) => {"
                   "  const fields = new URLSearchParams(one.split('?')[1]);"
                   "  const [rows, keys] = (fields.get('cells') ?? '256x256').split('x');"
                   "  return rows * keys <= %d; })",
                   CELLS_MAX);
}

ALL_TESTS(NULL, explorer_stop);
