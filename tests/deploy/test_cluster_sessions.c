/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster_sessions.c - the files for sessions in Kubernetes: pods as those of the Deployment,
 * with a name that stays, in Attnd-Replica too, and a volume for what they save, or other pods that
 * their sessions move to. */
#include "daemon.h"
#include "manifest.h"
#include "test.h"

#define FOLDER    "deploy/kubernetes/"
#define POD       "spec.template.spec."
#define CONTAINER POD "containers.0."

static struct manifest deployment, stateful, service, replicas, moving, egress;

static int read_files(void **state)
{
    manifest_read(&deployment, FOLDER "base/deployment.yaml");
    manifest_read(&stateful, FOLDER "sessions/statefulset.yaml");
    manifest_read(&service, FOLDER "base/service.yaml");
    manifest_read(&replicas, FOLDER "sessions/service.yaml");
    manifest_read(&moving, FOLDER "sessions-moving/move.yaml");
    manifest_read(&egress, FOLDER "sessions-moving/egress.yaml");
    return 0;
}

static int free_files(void **state)
{
    manifest_free(&deployment);
    manifest_free(&stateful);
    manifest_free(&service);
    manifest_free(&replicas);
    manifest_free(&moving);
    manifest_free(&egress);
    return 0;
}

static void assert_value(const struct manifest *manifest, const char *path, const char *value)
{
    const char *found = manifest_get(manifest, path);
    if (strcmp(found, value) != 0)
        fail_msg("%s is %s and not %s", path, found, value);
}

/* All that test_cluster.c and test_deploy.c know of the pods of the Deployment is true of these. */
TEST(pods_are_those_of_the_deployment)
{
    int same = 0;
    for (int i = 0; i < deployment.count; i++) {
        const char *path = deployment.entries[i].path;
        if (strncmp(path, "spec.template.", 14) != 0 || strstr(path, ".matchLabelKeys.")
            || strcmp(path, POD "terminationGracePeriodSeconds") == 0)
            continue;
        assert_value(&stateful, path, deployment.entries[i].value);
        same++;
    }
    assert_true(same > 40);
    assert_true(atoi(manifest_get(&stateful, POD "terminationGracePeriodSeconds"))
                > atoi(manifest_get(&deployment, POD "terminationGracePeriodSeconds")));
}

/* The Service of all pods, the policy and the budget select these pods too. */
TEST(names)
{
    static const char LABEL[] = "spec.selector.app.kubernetes.io/name";
    assert_value(&stateful, "kind", "StatefulSet");
    assert_value(&stateful, "spec.selector.matchLabels.app.kubernetes.io/name",
                 manifest_get(&service, LABEL));
    assert_value(&replicas, LABEL, manifest_get(&service, LABEL));
    assert_value(&replicas, "spec.clusterIP", "None");
    assert_value(&stateful, "spec.serviceName", manifest_get(&replicas, "metadata.name"));
    assert_true(
        strcmp(manifest_get(&replicas, "metadata.name"), manifest_get(&service, "metadata.name"))
        != 0);
    assert_value(&replicas, "spec.ports.0.targetPort",
                 manifest_get(&stateful, CONTAINER "ports.0.name"));
    assert_value(&replicas, "spec.ports.0.port",
                 manifest_get(&stateful, CONTAINER "ports.0.containerPort"));
    assert_value(&stateful, CONTAINER "env.3.name", "ATTND_REPLICA");
    assert_value(&stateful, CONTAINER "env.3.valueFrom.fieldRef.fieldPath", "metadata.name");
}

TEST(volume)
{
    assert_value(&stateful, CONTAINER "env.4.name", "ATTND_SESSION_SAVE");
    assert_value(&stateful, CONTAINER "volumeMounts.2.mountPath",
                 manifest_get(&stateful, CONTAINER "env.4.value"));
    assert_value(&stateful, CONTAINER "volumeMounts.2.name",
                 manifest_get(&stateful, "spec.volumeClaimTemplates.0.metadata.name"));
    assert_null(manifest_find(&stateful, CONTAINER "volumeMounts.2.readOnly"));
}

/* The daemon takes the variables, with a folder of the test in place of the volume. */
TEST(variables_are_accepted)
{
    char *folder = daemon_directory_create(), save[512];
    snprintf(save, sizeof save, "ATTND_SESSION_SAVE=%s", folder);
    const char *const environment[] = { "ATTND_REPLICA=attnd-0", save, NULL };
    struct daemon_result result =
        daemon_command((const char *const[]){ "--check-config", NULL }, environment);
    if (result.exit_code != 0)
        fail_msg("--check-config ends with %d: %s", result.exit_code, result.errors);
    daemon_result_free(&result);
    daemon_directory_remove(folder);
}

/* The list has each pod by the name that the headless Service gives it. */
TEST(sessions_move_to_every_pod)
{
    char list[512] = "";
    size_t used = 0;
    const int count = atoi(manifest_get(&stateful, "spec.replicas"));
    assert_in_range(count, 2, 8);
    for (int i = 0; i < count; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%shttp://%s-%d.%s:%s",
                                 i > 0 ? "," : "", manifest_get(&stateful, "metadata.name"), i,
                                 manifest_get(&stateful, "spec.serviceName"),
                                 manifest_get(&replicas, "spec.ports.0.port"));
        assert_true(used < sizeof list);
    }
    assert_value(&moving, "metadata.name", manifest_get(&stateful, "metadata.name"));
    assert_value(&moving, CONTAINER "name", manifest_get(&stateful, CONTAINER "name"));
    assert_value(&moving, CONTAINER "env.0.name", "ATTND_MOVE_TO");
    assert_value(&moving, CONTAINER "env.0.value", list);
    assert_value(&replicas, "spec.publishNotReadyAddresses", "true"); /* while a pod ends, too */
}

/* The policy lets pods reach each other and look up names; the base lets nothing out. */
TEST(pods_may_reach_each_other)
{
    assert_value(&egress, "spec.egress.0.to.0.podSelector.matchLabels.app.kubernetes.io/name",
                 manifest_get(&service, "spec.selector.app.kubernetes.io/name"));
    assert_value(&egress, "spec.egress.0.ports.0.port",
                 manifest_get(&stateful, CONTAINER "ports.0.name"));
    assert_value(&egress, "spec.egress.1.ports.0.port", "53");
    assert_value(&egress, "spec.egress.1.ports.0.protocol", "UDP");
}

/* preStop, the delay and --drain-max, and 10 s more, are over before the pod is
 * killed; nothing of the volume is left. */
TEST(moving_needs_no_volume_and_ends_in_time)
{
    struct daemon_result help = daemon_command((const char *const[]){ "--help", NULL }, NULL);
    const char *line = strstr(help.output, "--drain-max");
    assert_non_null(line);
    const int longest = atoi(strchr(line, '[') + 1);
    daemon_result_free(&help);
    assert_value(&moving, CONTAINER "env.2.name", "ATTND_DRAIN_DELAY");
    const int delay = atoi(manifest_get(&moving, CONTAINER "env.2.value"));
    assert_true(delay >= 10 && longest > 0);
    assert_true(atoi(manifest_get(&stateful, CONTAINER "lifecycle.preStop.sleep.seconds")) + delay
                    + longest + 10
                < atoi(manifest_get(&stateful, POD "terminationGracePeriodSeconds")));
    assert_value(&moving, CONTAINER "env.3.name", manifest_get(&stateful, CONTAINER "env.4.name"));
    assert_value(&moving, CONTAINER "env.3.$patch", "delete");
    assert_value(&moving, CONTAINER "volumeMounts.0.mountPath",
                 manifest_get(&stateful, CONTAINER "volumeMounts.2.mountPath"));
    assert_value(&moving, CONTAINER "volumeMounts.0.$patch", "delete");
    assert_value(&moving, "spec.volumeClaimTemplates", "null");
}

/* The daemon takes them too, with files of the test in place of the Secret's. */
TEST(variables_of_moving_are_accepted)
{
    char *folder = daemon_directory_create(), text[3][512];
    const char *const environment[] = { text[0], text[1], text[2], "ATTND_REPLICA=attnd-0", NULL };
    for (int i = 0; i < 3; i++) {
        char name[64], value[64];
        snprintf(name, sizeof name, CONTAINER "env.%d.name", i);
        snprintf(value, sizeof value, CONTAINER "env.%d.value", i);
        snprintf(text[i], sizeof text[i], "%s=%s", manifest_get(&moving, name),
                 manifest_get(&moving, value));
    }
    assert_string_equal(text[1], "ATTND_MOVE_KEY=/etc/attnd/move");
    assert_value(&stateful, CONTAINER "volumeMounts.1.mountPath", "/etc/attnd");
    snprintf(text[1], sizeof text[1], "ATTND_MOVE_KEY=%s/move", folder);
    daemon_directory_write(folder, "move", "secret\n", 7);
    struct daemon_result result =
        daemon_command((const char *const[]){ "--check-config", NULL }, environment);
    if (result.exit_code != 0)
        fail_msg("--check-config ends with %d: %s", result.exit_code, result.errors);
    daemon_result_free(&result);
    daemon_directory_remove(folder);
}

ALL_TESTS(read_files, free_files);
