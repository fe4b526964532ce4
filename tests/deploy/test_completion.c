/* SPDX-License-Identifier: Apache-2.0 */
/* test_completion.c - bash completes the command line of attnd as server/make-completion says.
 *
 * An interactive bash reads a line with a tab behind it, as one types it, and runs it: a function
 * in attnd's place writes the words that it got. */
#include "daemon.h"
#include "shell.h"
#include "test.h"

/* In scripts $D is this folder, where bash runs. */
static char folder[] = "/tmp/attnd-completion-XXXXXX";

static int set_up(void **state)
{
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

TEST(flags)
{
    assert_completed("attnd --body-m", "<--body-max>");
    assert_completed("attnd --sandbox --check", "<--sandbox><--check-config>");
    assert_completed("attnd --no-such", "<--no-such>");
}

TEST(values)
{
    assert_completed("attnd --log-level d", "<--log-level><debug>");
    assert_completed("attnd --log-level=w", "<--log-level=warning>");
    assert_completed("attnd --models m", "<--models><models/>");
    assert_completed("attnd --keys k", "<--keys><keys.txt>");
    assert_completed("attnd --timeout 1", "<--timeout><1>");
}

TEST(commands)
{
    assert_completed("attnd mo", "<model>");
    assert_completed("attnd model s", "<model><show>");
    assert_completed("attnd key ch", "<key><check>");
    assert_completed("attnd --sandbox mo", "<--sandbox><mo>");
}

TEST(flags_of_commands)
{
    assert_completed("attnd model new --d-m", "<model><new><--d-model>");
    assert_completed("attnd model show k", "<model><show><keys.txt>");
    assert_completed("attnd key new web --app", "<key><new><web><--append>");
    assert_completed("attnd key hash --app", "<key><hash><--app>");
    assert_completed("attnd batch --ou", "<batch><--out>");
    assert_completed("attnd batch --out m", "<batch><--out><models/>");
    assert_completed("attnd batch --format s", "<batch><--format><safetensors>");
    assert_completed("attnd batch --kern", "<batch><--kernels>");
    assert_completed("attnd batch k", "<batch><keys.txt>");
    assert_completed("attnd health --ins", "<health><--insecure>");
}

/* Every flag of --help is in the script, which nobody writes by hand. */
TEST(every_flag)
{
    shell("$DAEMON --help | sed -nE 's/^  (--[a-z-]+).*/\\1/p' >$D/flags && "
          "[ $(wc -l <$D/flags) -gt 40 ] && while read -r flag; do "
          "grep -qE -- \"[ ']$flag[ ='|]\" $D/attnd || { echo \"no $flag\"; exit 1; }; "
          "done <$D/flags");
}

ALL_TESTS(set_up, tear_down);
