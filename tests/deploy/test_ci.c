/* SPDX-License-Identifier: Apache-2.0 */
/* test_ci.c - the workflow runs what .ci/run runs, may read alone, and ends; the fuzzing service
 * gets all of what it builds. */
#include "manifest.h"
#include "shell.h"
#include "test.h"

#define WORKFLOW ".github/workflows/ci.yml"

static struct manifest workflow;

static int set_up(void **state)
{
    manifest_read(&workflow, WORKFLOW);
    return 0;
}

static int tear_down(void **state)
{
    manifest_free(&workflow);
    return 0;
}

static const cJSON *jobs(void)
{
    const cJSON *found = cJSON_GetObjectItem(workflow.tree, "jobs");
    assert_true(cJSON_GetArraySize(found) > 0);
    return found;
}

/* The one permission is to read the sources; no job asks for others, and nothing names a secret. */
TEST(permissions)
{
    const cJSON *permissions = cJSON_GetObjectItem(workflow.tree, "permissions"), *job;
    assert_int_equal(cJSON_GetArraySize(permissions), 1);
    assert_string_equal(manifest_get(&workflow, "permissions.contents"), "read");
    cJSON_ArrayForEach(job, jobs())
        assert_null(cJSON_GetObjectItem(job, "permissions"));
    shell("! grep -nE 'secrets\\.|github\\.token|GITHUB_TOKEN|pull_request_target' " WORKFLOW);
}

TEST(every_job_ends)
{
    const cJSON *job;
    cJSON_ArrayForEach(job, jobs()) {
        const cJSON *minutes = cJSON_GetObjectItem(job, "timeout-minutes");
        assert_true(cJSON_IsNumber(minutes) && minutes->valuedouble <= 360);
    }
}

/* An action of others is named by its whole commit: a tag may move. */
TEST(actions)
{
    shell("! grep -nE '\\buses:' " WORKFLOW " | grep -vE '@[0-9a-f]{40}( |$)'");
}

TEST(the_suite_runs)
{
    const cJSON *job, *step;
    int runs = 0;
    cJSON_ArrayForEach(job, jobs())
        cJSON_ArrayForEach(step, cJSON_GetObjectItem(job, "steps")) {
            const char *command = cJSON_GetStringValue(cJSON_GetObjectItem(step, "run"));
            runs += command && strcmp(command, "sudo .ci/run") == 0;
        }
    assert_int_equal(runs, 1);
    shell("test -x .ci/run");
}

/* What build.sh reads is in the context of the build, and each target has a corpus. */
TEST(fuzzing_service)
{
    shell("test -x .clusterfuzzlite/build.sh && bash -n .clusterfuzzlite/build.sh && "
          "for name in Makefile lib server deploy/install-packages.sh tests/fuzz tests/support "
          ".clusterfuzzlite; do grep -qxF \"!$name\" .dockerignore || exit 1; done");
    shell("for source in tests/fuzz/fuzz_*.c; do name=${source##*/fuzz_}\n"
          "  test -n \"$(ls tests/fuzz/corpus/${name%.c})\" || exit 1\n"
          "done");
}

ALL_TESTS(set_up, tear_down);
