/* SPDX-License-Identifier: Apache-2.0 */
/* test_reference.c - the pages of the reference, which the daemon serves at /docs, hold what the
 * daemon says of itself: every route, every flag with its default. */
#include "api/routes.h"
#include "daemon.h"
#include "manifest.h"
#include "shell.h"
#include "test.h"

#include <ctype.h>

static int set_up(void **state)
{
    setenv("LC_ALL", "C", 1);
    setenv("REFERENCE", shell_built("server/cli/reference/make_reference"), 1);
    setenv("DAEMON", daemon_program(), 1);
    return 0;
}

/* The page as the program writes it, which the caller frees. */
static char *page_of(const char *name)
{
    char script[64];
    snprintf(script, sizeof script, "$REFERENCE %s", name);
    return strdup(shell(script));
}

/* Lines of prose that no reader of Markdown would break. */
TEST(lines_are_short)
{
    shell("for page in calls types flags; do $REFERENCE $page | awk '/^```/ { code = !code } "
          "!code && !/^[|#]/ && length > 120 { print; bad = 1 } END { exit bad }' || exit 1; done");
}

/* A path that the contract does not explain is refused, and so is an unknown page. */
TEST(refusals)
{
    shell("folder=$(mktemp -d) && mkdir $folder/server && cp server/openapi.json $folder/server && "
          "grep -v '/v1/softmax' server/API.md >$folder/server/API.md && cd $folder && "
          "! $REFERENCE calls >/dev/null 2>said && "
          "grep -qx 'make_reference: API.md has no endpoint /v1/softmax' said && "
          "! $REFERENCE nothing 2>said && grep -q 'expected calls, types or flags' said && "
          "rm -r $folder");
}

TEST(every_route)
{
    int count;
    const struct route *routes = routes_table(&count);
    char *page = page_of("calls");
    assert_true(count > 50);
    for (int i = 0; i < count; i++) {
        char heading[256];
        snprintf(heading, sizeof heading, "\n### %s %s\n", routes[i].method, routes[i].pattern);
        if (!strstr(page, heading))
            fail_msg("/docs/calls has no %s %s", routes[i].method, routes[i].pattern);
    }
    free(page);
}

/* A line of --help: "  --flag VALUE    words [default]". */
static void assert_has_flag(const char *page, char *line)
{
    char row[128], variable[64], shown[96] = "";
    const size_t length = strcspn(line, " ");
    size_t i = 0;
    for (; i < length - 2; i++)
        variable[i] = line[i + 2] == '-' ? '_' : (char)toupper((unsigned char)line[i + 2]);
    variable[i] = '\0';
    const bool prints = strcmp(variable, "HELP") == 0 || strcmp(variable, "VERSION") == 0;
    snprintf(row, sizeof row, "| `%.*s` | %s%s%s |", (int)length, line, prints ? "" : "`ATTND_",
             prints ? "" : variable, prints ? "" : "`");
    const char *found = strstr(page, row);
    if (!found)
        fail_msg("/docs/flags has no %s", row);
    char *initial = strrchr(line, '[');
    if (initial && line[strlen(line) - 1] == ']') {
        snprintf(shown, sizeof shown, "| `%.*s` |", (int)strlen(initial) - 2, initial + 1);
        const char *at = strstr(found, shown);
        if (!at || at > strchr(found, '\n'))
            fail_msg("/docs/flags has not the default of %s", line);
    }
}

/* The list of the contract that explains flags names it. */
static void assert_is_explained(const char *list, const char *line)
{
    char flag[64];
    snprintf(flag, sizeof flag, "%.*s", (int)strcspn(line, " "), line);
    const size_t length = strlen(flag);
    for (const char *c = list; (c = strstr(c, flag)); c += length)
        if (c[length] == ' ' || c[length] == ',' || c[length] == '\n')
            return;
    fail_msg("API_OPERATING.md does not explain %s", flag);
}

TEST(every_flag)
{
    char *page = page_of("flags");
    char *operating = manifest_file_text("server/API_OPERATING.md");
    const char *list = strstr(operating, "\n## Command line\n");
    assert_non_null(list);
    char *help = strdup(shell("$DAEMON --help")), *rest = help;
    int count = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "  --", 4) != 0)
            continue;
        assert_has_flag(page, line + 2);
        assert_is_explained(list, line + 2);
        count++;
    }
    assert_true(count > 40);
    free(help);
    free(operating);
    free(page);
}

/* --help, the reference and attnd(1) have flags in the same groups, and first the five that
 * everybody sets. No group is long. */
TEST(groups_of_flags)
{
    static const char first[] = "\n\nSet these first:\n  --listen ";
    char *page = page_of("flags");
    char *manual = strdup(shell("server/make-man $DAEMON"));
    char *help = strdup(shell("$DAEMON --help")), *rest = help;
    int group_count = 0, in_group = 0;
    assert_non_null(strstr(help, first));
    /* A value that is longer than its column stays whole. */
    assert_non_null(strstr(manual, "avx512_bf16|amx\\fR\nwhat computes attention"));
    for (char *line; (line = strsep(&rest, "\n"));) {
        char title[2][128];
        const size_t length = strlen(line);
        if (strncmp(line, "  --", 4) == 0)
            assert_in_range(++in_group, 1, group_count == 1 ? 5 : 12);
        if (length == 0 || line[0] == ' ' || line[length - 1] != ':')
            continue;
        assert_true(group_count == 0 || in_group >= 3);
        snprintf(title[0], sizeof title[0], "\n### %.*s\n", (int)length - 1, line);
        snprintf(title[1], sizeof title[1], "\n.SS %.*s\n", (int)length - 1, line);
        if (!strstr(page, title[0]) || !strstr(manual, title[1]))
            fail_msg("%s is not in /docs/flags and attnd(1)", line);
        in_group = 0;
        group_count++;
    }
    assert_true(group_count > 6);
    free(page), free(manual), free(help);
}

ALL_TESTS(set_up, NULL);
