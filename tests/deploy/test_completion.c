/* test_completion.c - bash completes the command line of attnd as server/make-completion says.
 *
 * An interactive bash reads a line with a tab behind it, as one types it, and runs it: a function
 * in attnd's place writes the words that it got. */
#include "daemon.h"
#include "shell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In scripts $D is this folder, where bash runs. */
static char folder[] = "/tmp/attnd-completion-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("D", folder, 1);
    setenv("DAEMON", daemon_program(), 1);
    setenv("INPUTRC", "/dev/null", 1);
    setenv("TERM", "dumb", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    shell("server/make-completion $DAEMON >$D/attnd && mkdir $D/models && touch $D/keys.txt");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    shell("rm -r $D");
    return 0;
}

static void assert_completed(const char *typed, const char *words)
{
    char script[512];
    snprintf(script, sizeof script,
             "cd $D && printf '%%s\\n' 'source ./attnd' "
             "'attnd() { printf \"<%%s>\" \"$@\" >words; }' '%s\t' | "
             "bash --norc --noprofile -i >said 2>&1 && cat words",
             typed);
    const char *got = shell(script);
    if (strcmp(got, words) != 0)
        fail_msg("'%s' and a tab are %s, not %s", typed, got, words);
}

static void test_flags(void **state)
{
    (void)state;
    assert_completed("attnd --body-m", "<--body-max>");
    assert_completed("attnd --sandbox --check", "<--sandbox><--check-config>");
    assert_completed("attnd --no-such", "<--no-such>");
}

static void test_values(void **state)
{
    (void)state;
    assert_completed("attnd --log-level d", "<--log-level><debug>");
    assert_completed("attnd --log-level=w", "<--log-level=warning>");
    assert_completed("attnd --models m", "<--models><models/>");
    assert_completed("attnd --keys k", "<--keys><keys.txt>");
    assert_completed("attnd --timeout 1", "<--timeout><1>");
}

static void test_commands(void **state)
{
    (void)state;
    assert_completed("attnd mo", "<model>");
    assert_completed("attnd model s", "<model><show>");
    assert_completed("attnd key ch", "<key><check>");
    assert_completed("attnd --sandbox mo", "<--sandbox><mo>");
}

static void test_flags_of_commands(void **state)
{
    (void)state;
    assert_completed("attnd model new --d-m", "<model><new><--d-model>");
    assert_completed("attnd model show k", "<model><show><keys.txt>");
    assert_completed("attnd key new web --app", "<key><new><web><--append>");
    assert_completed("attnd key hash --app", "<key><hash><--app>");
    assert_completed("attnd health --ins", "<health><--insecure>");
}

/* Every flag of --help is in the script, which nobody writes by hand. */
static void test_every_flag(void **state)
{
    (void)state;
    shell("$DAEMON --help | sed -nE 's/^  (--[a-z-]+).*/\\1/p' >$D/flags && "
          "[ $(wc -l <$D/flags) -gt 40 ] && while read -r flag; do "
          "grep -qE -- \"[ ']$flag[ ='|]\" $D/attnd || { echo \"no $flag\"; exit 1; }; "
          "done <$D/flags");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),      cmocka_unit_test(test_values),
        cmocka_unit_test(test_commands),   cmocka_unit_test(test_flags_of_commands),
        cmocka_unit_test(test_every_flag),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
