/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster_try.c - deploy/kubernetes/try.sh against cluster_stub.sh, which stands for kubectl
 * and curl: what it asks of a cluster, what it counts, and that it always cleans up. No cluster is
 * asked. */
#include "shell.h"
#include "skip.h"
#include "test.h"

static char folder[] = "/tmp/attnd-try-XXXXXX";

static int set_up(void **state)
{
    shell_folder(folder);
    shell("mkdir $D/bin $D/tmp && for name in kubectl curl; do\n"
          "    ln -s $PWD/tests/deploy/cluster_stub.sh $D/bin/$name\n"
          "done");
    return 0;
}

/* What the script prints, with its exit status as the last line. The cluster has the fault. */
static const char *try_with(const char *fault)
{
    setenv("FAULT", fault, 1);
    return shell(
        "rm -f $D/calls $D/session $D/forwards $D/*.file\n"
        "export KUBECTL=$(command -v kubectl) TMPDIR=$D/tmp\n"
        "PATH=$D/bin:$PATH timeout 100 deploy/kubernetes/try.sh registry:5000/attnd:9 2>&1\n"
        "echo $?");
}

static void assert_ends(const char *text, const char *end)
{
    const size_t length = strlen(text), wanted = strlen(end);
    if (length < wanted || strcmp(text + length - wanted, end) != 0)
        fail_msg("it does not end with %s:\n%s", end, text);
}

/* The namespace is its own and is deleted, no process and no file stays, and all calls are of the
 * namespace. */
static void assert_left_nothing(void)
{
    assert_string_equal(shell("grep -c '^kubectl delete namespace attnd-try-' $D/calls"), "1\n");
    assert_string_equal(shell("ls -A $D/tmp"), "");
    assert_string_equal(
        shell("for process in $(cat $D/forwards 2>/dev/null); do\n"
              "    tr '\\0' ' ' 2>/dev/null </proc/$process/cmdline | grep 'sleep 100'\n"
              "done; true"),
        "");
    assert_string_equal(shell("grep '^kubectl' $D/calls | grep -v -e '^kubectl -n attnd-try-' -e "
                              "' namespace attnd-try-' -e current-context || true"),
                        "");
}

TEST(all_is_well)
{
    assert_ends(try_with(""), "\n19 passed, 0 failed\n0\n");
    assert_left_nothing();
    /* In this order; what lies between is left out. */
    assert_string_equal(
        shell(
            "grep -oE 'create namespace|secret|apply|restart|replicas=.|eviction -f|delete names' "
            "$D/calls | tr '\\n' ','"),
        "create namespace,secret,apply,restart,replicas=1,replicas=2,eviction -f,delete names,");
    /* No key is on a command line. */
    assert_string_equal(shell("grep -c 'Bearer' $D/calls || true"), "0\n");
}

TEST(the_daemon_takes_the_keys)
{
    try_with("");
    assert_string_equal(shell("$ATTND key check $D/keys.file"),
                        "mover: infer,sessions:all\nclient: infer,sessions\n");
    assert_string_equal(
        shell("grep -c \"^mover $(head -c 64 $D/move.file | sha256sum | cut -c -64) "
              "\" $D/keys.file"),
        "1\n");
}

TEST(what_is_applied)
{
    skip_without("kubernetes-client", "kubectl kustomize deploy/kubernetes/sessions");
    try_with("");
    assert_string_equal(shell("grep -c 'image: registry:5000/attnd:9$' $D/applied"), "1\n");
    assert_string_equal(shell("grep -c 'name: ATTND_MOVE_TO' $D/applied"), "1\n");
    shell("test $(grep -c '^  namespace: attnd-try-' $D/applied) = $(grep -c ^kind: $D/applied)");
}

/* A session that is lost is a failure, and the steps behind it are tried all the same. */
TEST(a_session_is_lost)
{
    const char *said = try_with("lost");
    assert_non_null(strstr(said, "\nFAILED  the session after a rolling restart\n"));
    assert_non_null(strstr(said, "not_found"));
    assert_ends(said, "\n16 passed, 3 failed\n1\n");
    assert_left_nothing();
}

TEST(pods_are_never_ready)
{
    assert_ends(try_with("pending"), "\n4 passed, 1 failed\n1\n");
    assert_left_nothing();
}

TEST(it_is_interrupted)
{
    setenv("FAULT", "", 1);
    shell("rm -f $D/calls $D/session $D/forwards $D/*.file; touch $D/calls; export TMPDIR=$D/tmp\n"
          "PATH=$D/bin:$PATH timeout 100 deploy/kubernetes/try.sh attnd:9 >$D/said 2>&1 & pid=$!\n"
          "until grep -q restart $D/calls; do sleep 0.02; done\n"
          "kill $pid; wait $pid; grep -q passed $D/said && exit 1 || exit 0");
    assert_left_nothing();
}

/* A namespace that was there before is not deleted. */
TEST(the_namespace_is_not_its_own)
{
    assert_ends(try_with("namespace"), "\n0 passed, 1 failed\n1\n");
    assert_string_equal(shell("grep -c 'delete' $D/calls || true"), "0\n");
}

TEST(an_image_is_needed)
{
    assert_string_equal(shell("for image in '' attnd registry:5000/attnd; do\n"
                              "    deploy/kubernetes/try.sh \"$image\" >/dev/null 2>&1; echo $?\n"
                              "done"),
                        "2\n2\n2\n");
}

ALL_TESTS(set_up, shell_folder_remove);
