/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_pictures.c - leaves pictures of every view, wide and on a phone, light and dark, in
 * build/page/. With ATTND_TEST_PICTURES=FOLDER those that the pages of the project show go there.
 */
#include "explorer.h"
#include "test.h"

static const char *const SCHEMES[] = { "light", "dark" };

static void save(const char *name, const char *form, const char *scheme)
{
    char path[256];
    snprintf(path, sizeof path, "build/page/%s-%s-%s.png", name, form, scheme);
    explorer_leave();
    browser_save_picture(&browser, path);
}

TEST(pictures)
{
    explorer_begin();
    for (int i = 0; i < EXPLORER_VIEWS; i++)
        for (int s = 0; s < 2; s++) {
            browser_prefer(&browser, "prefers-color-scheme", SCHEMES[s]);
            browser_resize(&browser, 1280, 800);
            explorer_open("%s", explorer_views[i].fragment);
            save(explorer_views[i].name, "wide", SCHEMES[s]);
            browser_resize(&browser, 390, 844);
            explorer_open("%s", explorer_views[i].fragment);
            save(explorer_views[i].name, "phone", SCHEMES[s]);
        }
    explorer_expect_quiet(NULL);
}

/* The pictures of server/explorer/README.md, each small enough to stand in a repository. */
TEST(pictures_of_the_project)
{
    const char *folder = getenv("ATTND_TEST_PICTURES");
    char path[512];
    if (!folder)
        skip();
    explorer_begin();
    browser_prefer(&browser, "prefers-color-scheme", "light");
    for (int i = 0; i <= EXPLORER_VIEWS; i++) {
        const bool is_phone = i == EXPLORER_VIEWS;
        const struct explorer_view *view = &explorer_views[is_phone ? 2 : i];
        browser_resize(&browser, is_phone ? 390 : 1120, is_phone ? 780 : 700);
        explorer_open("%s", view->fragment);
        explorer_leave();
        snprintf(path, sizeof path, "%s/%s.png", folder, is_phone ? "phone" : view->name);
        browser_save_picture(&browser, path);
    }
}

ALL_TESTS(NULL, explorer_stop);
