/* test_page_saved.c - what people take away: files that open elsewhere and show the same, numbers
 * that are the API's, and a line for curl that gives them again. */
#include "answer.h"
#include "browser_input.h"
#include "browser_log.h"
#include "explorer.h"
#include "fixture.h"
#include "skip.h"
#include "test.h"

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
        browser_click(&browser, ".take > button");
    char selector[64];
    snprintf(selector, sizeof selector, "[data-save=%s]", strrchr(name, '.') + 1);
    browser_wait(&browser, "document.querySelector('%s:not([disabled])')", selector);
    browser_click(&browser, selector);
    return browser_download(&browser, name);
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
    free(svg_path);
    free(png_path);
    free(html_path);
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
    free(path);
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
            assert_true(one <= other * (1 + 2e-5) && one >= other * (1 - 2e-5));
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
    free(path);
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
        assert_true((double)value <= other * (1 + 2e-5) && (double)value >= other * (1 - 2e-5));
    }
    cJSON_Delete(answer);
    free(text);
    free(path);
}

/* The line for curl, pasted into a shell, gives the map; whatever the text has in it. */
TEST(curl_line)
{
    skip_without("curl", "command -v curl");
    explorer_begin();
    explorer_open("model=stories260K&text=It%%27s+%%22$HOME%%22+%%60id%%60+%%5C+%%0Aa+%%24%%28id%%"
                  "29+%%F0%%9F%%90%%88"
                  "&view=head&layer=1&head=4");
    browser_click(&browser, ".take > button");
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
