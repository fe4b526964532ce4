/* SPDX-License-Identifier: Apache-2.0 */
/* test_batch_jobs.c - the job array of Slurm and the Indexed Job of Kubernetes, as their schedulers
 * would start them, write together what one process writes. No scheduler is run here. */
#include "manifest.h"
#include "shell.h"
#include "test.h"

#define JOB        "deploy/kubernetes/batch/job.yaml"
#define CONTAINER  "spec.template.spec.containers.0."
#define EQUAL      "cd $D && for f in whole/*; do cmp $f $OUT/${f#whole/}; done && ls $OUT | wc -l"
#define TWENTY_ONE "21\n" /* 20 chunks and batch.json */

static char folder[] = "/tmp/attnd-jobs-XXXXXX";

/* The files set no --chunk: there are enough lines for 20 chunks, and the last line is a fault. */
static int set_up(void **state)
{
    shell_folder(folder);
    shell("mkdir $D/models && awk 'BEGIN { for (i = 0; i < 20000; i++) printf "
          "\"{\\\"custom_id\\\":\\\"r%d\\\",\\\"method\\\":\\\"POST\\\",\\\"url\\\":"
          "\\\"/v1/softmax\\\",\\\"body\\\":{\\\"input\\\":[%d%s]}}\\n\", i, i % 7, "
          "i < 19999 ? \",1\" : \",true\" }' >$D/requests.jsonl");
    shell("$ATTND batch --out $D/whole $D/requests.jsonl >$D/said; test $? = 3");
    return 0;
}

TEST(slurm_tasks_write_the_whole)
{
    setenv("OUT", "slurm", 1);
    shell(
        "export MODELS=$D/models SLURM_CPUS_PER_TASK=1 SLURM_ARRAY_TASK_MIN=1\n"
        "export SLURM_ARRAY_TASK_COUNT=3\n"
        "for i in 1 2 3; do\n"
        "    SLURM_ARRAY_TASK_ID=$i deploy/slurm/attnd-batch.sbatch $D/requests.jsonl $D/slurm \\\n"
        "        >>$D/said || test $? = 3\n"
        "done");
    assert_string_equal(shell(EQUAL), TWENTY_ONE);
    assert_string_equal(shell("grep -c '^#SBATCH --requeue$' deploy/slurm/attnd-batch.sbatch"),
                        "1\n");
}

/* The arguments of the container, as Kubernetes expands them; the claim is $D. */
TEST(pods_of_the_job_write_the_whole)
{
    struct manifest job;
    char script[2048], path[64];
    manifest_read(&job, JOB);
    const char *parts = manifest_get(&job, CONTAINER "env.1.value");
    assert_string_equal(manifest_get(&job, CONTAINER "env.1.name"), "PARTS");
    assert_string_equal(manifest_get(&job, "spec.completions"), parts);
    assert_string_equal(manifest_get(&job, CONTAINER "env.0.name"), "PART");
    assert_string_equal(manifest_get(&job, CONTAINER "env.0.valueFrom.fieldRef.fieldPath"),
                        "metadata.annotations['batch.kubernetes.io/job-completion-index']");
    assert_string_equal(manifest_get(&job, "spec.podFailurePolicy.rules.0.action"), "FailIndex");
    assert_string_equal(manifest_get(&job, "spec.podFailurePolicy.rules.0.onExitCodes.values.0"),
                        "3");
    int used = snprintf(script, sizeof script, "for i in $(seq 0 $((%s - 1))); do $ATTND", parts);
    for (int i = 0;; i++) {
        snprintf(path, sizeof path, CONTAINER "args.%d", i);
        const char *argument = manifest_find(&job, path);
        if (!argument)
            break;
        used += snprintf(script + used, sizeof script - (size_t)used, " '%s'", argument);
    }
    assert_true(used < (int)sizeof script - 64);
    snprintf(script + used, sizeof script - (size_t)used, " >>$D/said || test $? = 3; done");
    setenv("LOOP", script, 1);
    setenv("PARTS", parts, 1);
    setenv("OUT", "answers", 1);
    shell("bash -c \"$(printf '%s' \"$LOOP\" | sed \"s|/data/|$D/|g; s|\\$(PART)|'\\$i'|; "
          "s|\\$(PARTS)|$PARTS|\")\"");
    assert_string_equal(shell(EQUAL), TWENTY_ONE);
    manifest_free(&job);
}

ALL_TESTS(set_up, shell_folder_remove);
