/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_access.c - no view has what axe-core calls a violation of WCAG 2.1, levels A and AA, in
 * light and dark, wide and on a phone. AXE_CORE names axe-core's axe.min.js. */
#include "explorer.h"
#include "skip.h"
#include "test.h"

static char *axe; /* the script */

static void read_axe(void)
{
    FILE *file = fopen(getenv("AXE_CORE"), "re");
    size_t size = 0;
    assert_non_null(file);
    if (getdelim(&axe, &size, '\0', file) <= 0)
        fail_msg("%s is empty", getenv("AXE_CORE"));
    fclose(file);
}

static void expect_no_violation(const char *name)
{
    browser_do(&browser, "%s", axe);
    char *found = browser_text(
        &browser,
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']}).then((result)"
        " => result.violations.map((rule) => rule.id + ': ' + rule.help + '\\n' + rule.nodes.map("
        "(node) => '  ' + node.html + '\\n    ' + node.failureSummary).join('\\n')).join('\\n'))");
    if (*found)
        fail_msg("in the view %s: %s", name, found);
    free(found);
}

TEST(axe)
{
    skip_without("axe-core", "test -r \"$AXE_CORE\"");
    explorer_begin();
    read_axe();
    for (int form = 0; form < 4; form++) {
        browser_resize(&browser, form & 1 ? 390 : 1280, form & 1 ? 844 : 800);
        browser_prefer(&browser, "prefers-color-scheme", form & 2 ? "dark" : "light");
        explorer_open("%s", "");
        expect_no_violation("without an input");
        for (int i = 0; i < EXPLORER_VIEWS; i++) {
            explorer_open("%s", explorer_views[i].fragment);
            expect_no_violation(explorer_views[i].name);
        }
        explorer_open("%s", EXPLORER_TEXT "&sort=probe_previous");
        expect_no_violation("overview, with names of heads");
        explorer_open("%s&form=text", explorer_views[2].fragment);
        expect_no_violation("running text");
        explorer_open("tour=6&present=1&step=7");
        expect_no_violation("the tour, in class mode");
    }
    free(axe);
}

ALL_TESTS(NULL, explorer_stop);
