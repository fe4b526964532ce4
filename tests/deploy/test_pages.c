/* SPDX-License-Identifier: Apache-2.0 */
/* test_pages.c - the commands on the pages beside README.md, the examples and the contract: those
 * of lib/ and deploy/ are pasted, and no page has a command that nobody tests.
 *
 * A block ```sh is pasted by a test. A block ```console is for root, a cluster or names of one's
 * own: its syntax, flags, targets of make and files are looked at. */
#include "pasted.h"
#include "shell.h"
#include "skip.h"
#include "test.h"

#include <glob.h>

/* The library is built already; what makes it anew would take a minute. */
static const char functions[] =
    "make() { command make -s -o library LIBRARY=\"$LIBRARY\" \"$@\"; }\n";

static glob_t pages; /* all of the tree */

static int start(void **state)
{
    static const char *const patterns[] = { "*.md", "*/*.md", "*/*/*.md", "*/*/*/*.md" };
    setenv("LIBRARY", shell_library(), 1);
    pasted_start(state);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        assert_int_equal(glob(patterns[i], i > 0 ? GLOB_APPEND : 0, NULL, &pages), 0);
    return 0;
}

static int stop(void **state)
{
    globfree(&pages);
    return pasted_stop(state);
}

static int paste(const char *file)
{
    struct pasted_page page;
    pasted_read(&page, file);
    const int commands = pasted_all(&page);
    pasted_free(&page);
    return commands;
}

TEST(library)
{
    char environment[4096];
    daemon_directory_write("build", "functions.sh", functions, strlen(functions));
    assert_non_null(realpath("build/functions.sh", environment));
    setenv("BASH_ENV", environment, 1);
    const int commands = paste("lib/README.md") + paste("lib/PERFORMANCE.md");
    unsetenv("BASH_ENV");
    assert_true(commands > 0);
}

TEST(operating)
{
    skip_without("curl", "command -v curl");
    assert_true(paste("deploy/OPERATIONS.md") > 0);
    paste("deploy/README.md");
    paste("deploy/MEASURED.md");
    paste("deploy/kubernetes/README.md");
}

/* ------------------------------------------------------------------------------ no page is left --
 */

/* Who pastes a page: this program, test_readme.c, test_api_pages.c, or python/page.py. */
static bool is_pasted(const char *file)
{
    static const char *const beginnings[] = { "README.md",      "examples/",   "server/API",
                                              "lib/README.md",  "lib/python/", "deploy/",
                                              "lib/PERFORMANCE" };
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(file, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static void each_block(const char *language,
                       void (*visit)(const char *file, const struct pasted_block *block))
{
    int count = 0;
    for (size_t i = 0; i < pages.gl_pathc; i++) {
        struct pasted_page page;
        if (strncmp(pages.gl_pathv[i], "build/", 6) == 0)
            continue;
        pasted_read(&page, pages.gl_pathv[i]);
        for (int k = 0; k < page.block_count; k++)
            if (strcmp(page.blocks[k].language, language) == 0) {
                visit(page.file, &page.blocks[k]);
                count++;
            }
        pasted_free(&page);
    }
    assert_true(count > 0);
}

static void expect_pasted(const char *file, const struct pasted_block *block)
{
    if (!is_pasted(file))
        fail_msg("%s is pasted by no test and has\n%s", file, block->text);
}

TEST(no_page_is_left_out)
{
    each_block("sh", expect_pasted);
}

/* ---------------------------------------------------------------------------- for root alone -- */

/* Flags of attnd, targets of make, and files of this tree that a script names have to be there. */
static const char look[] =
    "set -e\n"
    "bash -n build/console.sh\n"
    "known=$(build/attnd --help; for c in health key 'model new'; do build/attnd $c --help; done)\n"
    "missing() { echo \"$1: there is no $2\"; exit 1; }\n"
    "{ grep -E '(^|[ (])(build/)?attnd ' build/console.sh || true; } |\n"
    "    { grep -oE -- '--[a-z][a-z-]*' || true; } | while read -r flag; do\n"
    "    grep -qE -- \"$flag( |=|$)\" <<<\"$known\" || missing flag $flag\n"
    "done\n"
    "sed -nE 's/^(sudo )?make ([a-z-]+)( .*)?$/\\2/p' build/console.sh | while read -r target; do\n"
    "    grep -qE \"^$target:\" Makefile || missing target $target\n"
    "done\n"
    "{ grep -oE '(^|[ =])(deploy|examples|tests)/[A-Za-z0-9_./-]+' build/console.sh || true; } |\n"
    "    tr -d ' =' | while read -r path; do\n"
    "    [ -e \"$path\" ] || missing file $path\n"
    "done\n"
    "{ grep -oE 'build/cc/tests/[a-z_/0-9]+' build/console.sh || true; } | sort -u |\n"
    "    while read -r program; do\n"
    "    [ -e \"${program#build/cc/}.c\" ] || missing program $program\n"
    "done\n";

static void expect_sound(const char *file, const struct pasted_block *block)
{
    daemon_directory_write("build", "console.sh", block->text, strlen(block->text));
    daemon_directory_write("build", "look.sh", look, strlen(look));
    FILE *stream = popen("bash build/look.sh 2>&1", "r");
    assert_non_null(stream);
    char said[1024];
    said[fread(said, 1, sizeof said - 1, stream)] = '\0';
    if (pclose(stream) != 0)
        fail_msg("%s has\n%s\n%s", file, block->text, said);
}

TEST(what_is_not_pasted)
{
    each_block("console", expect_sound);
}

TEST(nothing_changes_outside_build)
{
    char *files = pasted_files();
    assert_string_equal(files, pasted_files_before());
    free(files);
}

ALL_TESTS(start, stop);
