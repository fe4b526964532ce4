/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_first.c - the first visit: from the address to a picture of a typed sentence in three
 * actions at most, with a clean console. `make test` runs this program too. */
#include "browser_input.h"
#include "explorer.h"
#include "test.h"

TEST(first_picture)
{
    explorer_begin();
    explorer_open("%s", "");
    print_message("the first visit's own picture after %.0f ms\n",
                  browser_number(&browser, "seen.drawn ?? -1"));
    browser_type(&browser, "textarea", "The cat sat on the mat.");
    browser_do(&browser, "seen.drawn = null; seen.pressed = performance.now()");
    browser_click(&browser, "form button.main");
    explorer_settle();
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    browser_expect(&browser, "new URLSearchParams(location.hash.slice(1)).get('text') === "
                             "'The cat sat on the mat.'");
    print_message("a picture %.0f ms after two actions\n",
                  browser_number(&browser, "seen.drawn - seen.pressed"));
    browser_expect(&browser, "document.querySelector('form').innerText.includes("
                             "'260 thousand parameters, 61 thousand of attention')");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
