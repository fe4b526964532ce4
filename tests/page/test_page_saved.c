/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_saved.c - what people export: files that open elsewhere and show the same, numbers
 * that are the API's, and a line for curl that gives them again. */
#include "answer.h"
#include "browser_input.h"
#include "browser_log.h"
#include "explorer.h"
#include "fixture.h"
#include "skip.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <sys/stat.h>

#define STATE "model=stories260K&text=One+day,+Lily+found+a+ball.&layer=1&head=4&row=5&key=3"
#define BODY  "{\"model\":\"stories260K\",\"text\":\"One day, Lily found a ball.\",\"layers\":[1]}"

static char *read_file(const char *path, size_t *size)
{
    struct stat status;
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &status), 0);
    *size = (size_t)status.st_size;
    char *text = malloc(*size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *size, file), *size);
    text[*size] = '\0';
    fclose(file);
    return text;
}

/* Saves the view as a file with this name and returns its path; both are the caller's to free. */
static char *save(const char *name)
{
    if (!browser_is(&browser, "document.querySelector('[data-save]')"))
        browser_click(&browser, ".export > button");
    char selector[64];
    snprintf(selector, sizeof selector, "[data-save=%s]", strrchr(name, '.') + 1);
    browser_wait(&browser, "document.querySelector('%s:not([disabled])')", selector);
    browser_click(&browser, selector);
    return browser_download(&browser, name);
}

/* A file of the same name may come again. */
static void forget(char *path)
{
    remove(path);
    free(path);
}

/* Opens a file in a tab of its own, which must ask for nothing but itself and complain of nothing.
 */
static void open_elsewhere(const char *path)
{
    free(browser_complaint(&browser, "file:", NULL));
    browser_open_tab(&browser);
    browser_go(&browser, "file://%s", path);
    browser_expect_quiet(&browser, "file:", NULL);
}

/* The picture of an SVG file, drawn by the page that is open, is the PNG's, and has colours. */
static void expect_same_picture(const char *svg, const char *png_path)
{
    cJSON *text = cJSON_CreateString(svg);
    char *quoted = cJSON_PrintUnformatted(text);
    open_elsewhere(png_path);
    browser_expect(&browser, "document.images[0].naturalWidth > 200");
    browser_do(&browser,
               "const image = document.images[0];"
               "const copy = document.createElement('canvas');"
               "[copy.width, copy.height] = [image.naturalWidth, image.naturalHeight];"
               "const drawn = new Image(); drawn.src = 'data:image/svg+xml,' + "
               "encodeURIComponent(%s);"
               "return drawn.decode().then(() => { copy.getContext('2d').drawImage(drawn, 0, 0, "
               "copy.width,"
               "  copy.height); image.src = copy.toDataURL(); return image.decode(); });",
               quoted);
    char *redrawn = browser_picture(&browser);
    browser_go(&browser, "file://%s", png_path);
    char *saved = browser_picture(&browser);
    assert_int_equal(browser_differing_pixels(&browser, saved, redrawn, 24), 0);
    browser_close_tab(&browser);
    free(redrawn);
    free(saved);
    free(quoted);
    cJSON_Delete(text);
}

static void expect_files(const char *view, const char *stem)
{
    char name[128];
    explorer_open(STATE "&view=%s&other.model=stories260K&other.layer=2&other.head=3&difference=1",
                  view);
    snprintf(name, sizeof name, "%s.svg", stem);
    char *svg_path = save(name);
    snprintf(name, sizeof name, "%s.png", stem);
    char *png_path = save(name);
    snprintf(name, sizeof name, "%s.html", stem);
    char *html_path = save(name);
    size_t size;
    char *svg = read_file(svg_path, &size);
    open_elsewhere(svg_path);
    browser_expect(&browser, "document.documentElement.tagName === 'svg' &&"
                             "document.documentElement.childElementCount > 3");
    browser_close_tab(&browser);
    expect_same_picture(svg, png_path);
    open_elsewhere(html_path);
    browser_expect(&browser, "document.querySelector('svg').getBoundingClientRect().width > 200");
    browser_expect(&browser, "document.body.innerText.includes('curl -sS ')");
    browser_close_tab(&browser);
    free(svg);
    forget(svg_path);
    forget(png_path);
    forget(html_path);
}

TEST(pictures)
{
    explorer_begin();
    expect_files("overview", "stories260K-overview");
    expect_files("head", "stories260K-head-layer1-head4");
    expect_files("tokens", "stories260K-tokens-layer1");
    expect_files("why", "stories260K-why-layer1-head4");
    expect_files("compare", "stories260K-compare-layer1-head4");
}

/* The saved page names the cell under the pointer. */
TEST(html_names_cells)
{
    explorer_begin();
    explorer_open("%s", STATE "&view=head");
    char *path = save("stories260K-head-layer1-head4.html");
    cJSON *answer = answer_post(&client, "/v1/trace", BODY);
    open_elsewhere(path);
    browser_do(&browser, "window.api = {}");
    const cJSON *map = cJSON_GetArrayItem(
        cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "layers"), 0),
                            "weights"),
        4);
    const double weight = cJSON_GetArrayItem(cJSON_GetArrayItem(map, 5), 3)->valuedouble;
    const int tokens = cJSON_GetArraySize(map);
    browser_do(
        &browser,
        "const {maps: [{place}], width} = JSON.parse(document.getElementById('data').textContent);"
        "const box = document.querySelector('svg').getBoundingClientRect();"
        "const zoom = box.width / width;"
        "window.at = [box.x + zoom * (place.x + place.width * 3.5 / %d),"
        "  box.y + zoom * (place.y + place.height * 5.5 / %d)];",
        tokens, tokens);
    browser_move(&browser, browser_number(&browser, "at[0]"), browser_number(&browser, "at[1]"));
    browser_wait(&browser, "/\\(5\\).*\\(3\\)/.test(document.getElementById('cell').textContent)");
    const double shown = browser_number(
        &browser, "Number(document.getElementById('cell').textContent.split(': ').pop())");
    assert_true(shown > weight * (1 - 2e-5) && shown < weight * (1 + 2e-5));
    browser_close_tab(&browser);
    cJSON_Delete(answer);
    forget(path);
}

static void expect_map(const cJSON *saved, const cJSON *wanted)
{
    const int rows = cJSON_GetArraySize(wanted);
    assert_int_equal(cJSON_GetArraySize(saved), rows);
    for (int row = 0; row < rows; row++)
        for (int key = 0; key < rows; key++) {
            const double one = cJSON_GetArrayItem(cJSON_GetArrayItem(saved, row), key)->valuedouble;
            const double other =
                cJSON_GetArrayItem(cJSON_GetArrayItem(wanted, row), key)->valuedouble;
            if (one > other * (1 + 2e-5) || one < other * (1 - 2e-5) - (double)FLT_MIN)
                fail_msg("row %d, key %d: %.9g, not %.9g", row, key, one, other);
        }
}

static const cJSON *weights_of(const cJSON *answer, int head)
{
    const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "layers"), 0);
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(layer, "weights"), head);
}

TEST(numbers)
{
    explorer_begin();
    size_t size;
    explorer_open("%s", STATE "&view=head");
    char *path = save("stories260K-head-layer1-head4.json"), *text = read_file(path, &size);
    cJSON *saved = cJSON_Parse(text), *answer = answer_post(&client, "/v1/trace", BODY);
    const cJSON *map = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(saved, "maps"), 0);
    expect_map(cJSON_GetObjectItemCaseSensitive(map, "weights"), weights_of(answer, 4));
    cJSON_Delete(saved);
    free(text);
    forget(path);
    path = save("stories260K-head-layer1-head4.safetensors");
    text = read_file(path, &size);
    uint64_t header;
    memcpy(&header, text, sizeof header);
    assert_true(header < size - 8);
    const float *values = (const float *)(const void *)(text + 8 + header);
    const cJSON *wanted = weights_of(answer, 4);
    const int rows = cJSON_GetArraySize(wanted);
    assert_int_equal(size - 8 - header, 4 * rows * rows);
    for (int i = 0; i < rows * rows; i++) {
        const double other =
            cJSON_GetArrayItem(cJSON_GetArrayItem(wanted, i / rows), i % rows)->valuedouble;
        float value;
        memcpy(&value, &values[i], sizeof value);
        if (i % rows > i / rows) /* a row does not see the tokens after it */
            assert_true(isnan(value));
        else
            assert_true((double)value <= other * (1 + 2e-5) && (double)value >= other * (1 - 2e-5));
    }
    cJSON_Delete(answer);
    free(text);
    forget(path);
}

/* A text of stories260K so long, of lines of 22 tokens. */
static char *long_text(int lines, const char *blank)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    for (int i = 0; i < lines; i++) {
        static const char *const WORDS[] = { "One", "day",  "Lily", "found", "a",   "big",
                                             "red", "ball", "and",  "she",   "was", "happy." };
        for (size_t word = 0; word < sizeof WORDS / sizeof *WORDS; word++)
            fprintf(stream, "%s%s", i + (int)word ? blank : "", WORDS[word]);
    }
    fclose(stream);
    return text;
}

/* The maps of all layers that the daemon answers for that text. */
static cJSON *trace_of(int lines, const char *more)
{
    char *text = long_text(lines, " "), *body = NULL;
    assert_true(asprintf(&body, "{\"model\":\"stories260K\",\"text\":\"%s\"%s}", text, more) > 0);
    cJSON *answer = answer_post(&client, "/v1/trace", body);
    free(body);
    free(text);
    return answer;
}

/* The JSON file that the page saves of a view of that text. */
static cJSON *saved_of(int lines, const char *view, const char *name)
{
    char *text = long_text(lines, "+");
    size_t size;
    explorer_open("model=stories260K&text=%s&%s", text, view);
    char *path = save(name), *saved = read_file(path, &size);
    cJSON *numbers = cJSON_Parse(saved);
    assert_non_null(numbers);
    free(text);
    free(saved);
    forget(path);
    return numbers;
}

/* The overview draws 64 cells a side; its numbers are all that there are. */
TEST(numbers_of_more_tokens_than_a_picture_shows)
{
    explorer_begin();
    cJSON *saved = saved_of(4, "view=overview", "stories260K-overview.json");
    cJSON *answer = trace_of(4, "");
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(answer, "layers"), *map;
    int count = 0;
    cJSON_ArrayForEach(map, cJSON_GetObjectItemCaseSensitive(saved, "maps")) {
        const cJSON *layer = cJSON_GetArrayItem(layers, count / 8);
        const cJSON *weights = cJSON_GetObjectItemCaseSensitive(layer, "weights");
        assert_true(cJSON_GetArraySize(cJSON_GetArrayItem(weights, 0)) > 64);
        expect_map(cJSON_GetObjectItemCaseSensitive(map, "weights"),
                   cJSON_GetArrayItem(weights, count % 8));
        assert_null(cJSON_GetObjectItemCaseSensitive(map, "reduction"));
        count++;
    }
    assert_int_equal(count, 40);
    cJSON_Delete(saved);
    cJSON_Delete(answer);
}

TEST(numbers_of_one_head_and_of_columns)
{
    explorer_begin();
    cJSON *answer = trace_of(22, ",\"layers\":[1]");
    const cJSON *wanted = weights_of(answer, 5);
    assert_true(cJSON_GetArraySize(wanted) > 256);
    cJSON *saved = saved_of(22, "view=head&layer=1&head=5", "stories260K-head-layer1-head5.json");
    const cJSON *map = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(saved, "maps"), 0);
    expect_map(cJSON_GetObjectItemCaseSensitive(map, "weights"), wanted);
    cJSON_Delete(saved);
    saved = saved_of(22, "view=tokens&layer=1&heads=5", "stories260K-tokens-layer1.json");
    map = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(saved, "maps"), 0);
    const cJSON *seen = cJSON_GetObjectItemCaseSensitive(map, "weights");
    assert_int_equal(cJSON_GetArraySize(seen), 200); /* a column's tokens */
    for (int row = 0; row < 200; row++) {
        const cJSON *line = cJSON_GetArrayItem(wanted, row);
        assert_int_equal(cJSON_GetArraySize(cJSON_GetArrayItem(seen, row)), 200);
        const cJSON *last = cJSON_GetArrayItem(cJSON_GetArrayItem(seen, row), row);
        assert_true(fabs(last->valuedouble - cJSON_GetArrayItem(line, row)->valuedouble) < 2e-5);
    }
    cJSON_Delete(saved);
    cJSON_Delete(answer);
}

/* More numbers than a file takes are the largest of each cell, and the file says so, with the rows
 * and keys of each. */
TEST(numbers_that_are_too_many)
{
    explorer_begin();
    explorer_open("%s", STATE);
    browser_expect(
        &browser,
        "Promise.all(['sheet', 'numbers'].map((name) => import(`/explorer/save/${name}.js`))).then("
        "async ([{gatherSheet}, {jsonOf}]) => {"
        "  const n = 2500, tokens = Array.from({length: n}, (_, i) => ({label: String(i)}));"
        "  const weight = (row, key) => (row * 7919 + key * 104729) %% 10007 / 10007;"
        "  const maps = async (layer, {rows, keys, cells: [r, c]}) => {"
        "    const values = new Float32Array(r * c), long = [rows[1] - rows[0], keys[1] - keys[0]];"
        "    for (let i = 0; i < long[0]; i++) for (let j = 0; j < long[1]; j++) {"
        "      const at = Math.floor(i * r / long[0]) * c + Math.floor(j * c / long[1]);"
        "      values[at] = Math.max(values[at], weight(rows[0] + i, keys[0] + j)); }"
        "    return {heads: 1, rows: r, keys: c, values}; };"
        "  const source = {model: 'm', title: 't', maps, layers: [{layer: 0, heads: 1, rows: n, "
        "keys: n,"
        "    rowTokens: tokens, keyTokens: tokens}]};"
        "  const sheet = await gatherSheet({view: 'head', layer: 0, head: 0, row: null, key: null,"
        "    rows: null, keys: null}, source, null, true);"
        "  const {maps: [map]} = JSON.parse(jsonOf(sheet, []));"
        "  const {row_ranges: rows, key_ranges: keys, weights} = map;"
        "  const joins = (ranges) => ranges[0][0] === 0 && ranges.at(-1)[1] === n"
        "    && ranges.every(([begin], i) => i === 0 || begin === ranges[i - 1][1]);"
        "  const largest = (i, j) => { let most = 0; for (let row = rows[i][0]; row < rows[i][1]; "
        "row++)"
        "    for (let key = keys[j][0]; key < keys[j][1]; key++) most = Math.max(most, "
        "weight(row, key));"
        "    return Math.fround(most); };"
        "  return map.reduction === 'max' && weights.length === 2048 && joins(rows) && joins(keys)"
        "    && [[0, 0], [5, 2047], [2047, 3], [1000, 1001]].every(([i, j]) =>"
        "      Math.abs(weights[i][j] - largest(i, j)) < 1e-7)"
        "    && sheet.notes.some((note) => note.includes('2500 x 2500 weights in 2048 x 2048')); "
        "})");
}

/* The picture has what is fixed and chosen. */
TEST(pictures_are_what_is_seen)
{
    explorer_begin();
    static const struct {
        const char *view, *name, *holds;
    } SEEN[] = {
        { "view=head", "stories260K-head-layer1-head4.svg",
          "svg.querySelectorAll('rect.fixed').length === 2 && says('Fixed: row ')" },
        { "view=tokens&threshold=0.3", "stories260K-tokens-layer1.svg",
          "says('Weights from 0.30 on.') && says('Fixed: row ') && lines.length > 0"
          " && Math.max(...lines.map((line) => line.getAttribute('y1')))"
          "   - Math.min(...lines.map((line) => line.getAttribute('y1'))) < 18"
          " && lines.length === document.querySelectorAll('.token-numbers li').length" },
        { "view=tokens", "stories260K-tokens-layer1.svg",
          "says('The 3 largest weights of a row in each head.') && lines.length === 8 * 3" },
        { "filter=entropy:0:1", "stories260K-overview.svg",
          "svg.querySelectorAll('g[opacity]').length > 0 && says('Heads with Entropy')"
          " && svg.querySelectorAll('g[opacity]').length === "
          "document.querySelectorAll('.map.out').length" },
        { "filter=entropy:0:1&sort=distance", "stories260K-overview.svg",
          "[...document.querySelectorAll('.map-flow span')].map((one) => one.textContent).join() "
          "=== [...svg.querySelectorAll('text')].map((one) => one.textContent).filter((text) =>"
          " /^L\\d+ H\\d+$/.test(text)).join() && says('Heads by Distance')" },
    };
    for (size_t i = 0; i < sizeof SEEN / sizeof *SEEN; i++) {
        size_t size;
        explorer_open(STATE "&%s", SEEN[i].view);
        char *path = save(SEEN[i].name), *svg = read_file(path, &size);
        cJSON *text = cJSON_CreateString(svg);
        char *quoted = cJSON_PrintUnformatted(text);
        explorer_settle();
        browser_expect(&browser,
                       "((svg, says, lines) => %s)(...((svg) => [svg, (words) =>"
                       " svg.textContent.includes(words), [...svg.querySelectorAll('line')]])("
                       "new DOMParser().parseFromString(%s, 'image/svg+xml').documentElement))",
                       SEEN[i].holds, quoted);
        free(quoted);
        cJSON_Delete(text);
        free(svg);
        forget(path);
    }
}

/* Where heads are switched off, each file is of that pass and says so. */
TEST(passes_without_heads)
{
    explorer_begin();
    size_t size;
    explorer_open("%s", STATE "&view=head&layer=3&head=1&off=1.4,2.0");
    char *path = save("stories260K-head-layer3-head1.html"), *text = read_file(path, &size);
    assert_non_null(strstr(text, "<strong>Switched off: layer 1 head 4, layer 2 head 0;"));
    open_elsewhere(path);
    browser_expect(&browser, "document.querySelector('svg').textContent.includes('Switched off: ')"
                             " && document.querySelector('pre').textContent.includes('edits')");
    browser_close_tab(&browser);
    free(text);
    forget(path);
    path = save("stories260K-head-layer3-head1.json");
    text = read_file(path, &size);
    cJSON *saved = cJSON_Parse(text);
    cJSON *answer = answer_post(
        &client, "/v1/trace",
        "{\"model\":\"stories260K\",\"text\":\"One day, Lily found a ball.\",\"layers\":[3],"
        "\"edits\":[{\"layers\":[1],\"heads\":[4],\"scale\":0},"
        "{\"layers\":[2],\"heads\":[0],\"scale\":0}]}");
    const cJSON *map = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(saved, "maps"), 0);
    expect_map(cJSON_GetObjectItemCaseSensitive(map, "weights"), weights_of(answer, 1));
    cJSON_Delete(answer);
    cJSON_Delete(saved);
    free(text);
    forget(path);
}

/* The line for curl, pasted into a shell, gives the map; whatever the text has in it. */
TEST(curl_line)
{
    skip_without("curl", "command -v curl");
    explorer_begin();
    explorer_open("model=stories260K&text=It%%27s+%%22$HOME%%22+%%60id%%60+%%5C+%%0Aa+%%24%%28id%%"
                  "29+%%F0%%9F%%90%%88"
                  "&view=head&layer=1&head=4");
    browser_click(&browser, ".export > button");
    browser_wait(&browser, "document.querySelector('textarea[name=curl]')");
    char *line = browser_text(&browser, "document.querySelector('textarea[name=curl]').value");
    FILE *shell = popen(line, "re");
    assert_non_null(shell);
    char *output = NULL;
    size_t capacity = 0;
    assert_true(getdelim(&output, &capacity, EOF, shell) > 0);
    assert_int_equal(pclose(shell), 0);
    cJSON *answer = cJSON_Parse(output);
    if (!answer || !cJSON_GetObjectItemCaseSensitive(answer, "layers"))
        fail_msg("%s\n%s", line, output);
    cJSON *other = answer_post(&client, "/v1/trace",
                               "{\"model\":\"stories260K\",\"text\":\"It's \\\"$HOME\\\" `id` \\\\ "
                               "\\na $(id) \\uD83D\\uDC08\","
                               "\"layers\":[1]}");
    expect_map(weights_of(answer, 0), weights_of(other, 4));
    cJSON_Delete(answer);
    cJSON_Delete(other);
    free(output);
    free(line);
}

ALL_TESTS(NULL, explorer_stop);
