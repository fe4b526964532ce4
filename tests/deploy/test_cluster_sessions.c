/* test_cluster_sessions.c - the files for sessions in Kubernetes: pods as those of the Deployment,
 * with a name that stays, in Attnd-Replica too, and a volume for what they save. */
#include "daemon.h"
#include "manifest.h"
#include "test.h"

#define FOLDER    "deploy/kubernetes/"
#define POD       "spec.template.spec."
#define CONTAINER POD "containers.0."

static struct manifest deployment, stateful, service, replicas;

static int read_files(void **state)
{
    manifest_read(&deployment, FOLDER "base/deployment.yaml");
    manifest_read(&stateful, FOLDER "sessions/statefulset.yaml");
    manifest_read(&service, FOLDER "base/service.yaml");
    manifest_read(&replicas, FOLDER "sessions/service.yaml");
    return 0;
}

static int free_files(void **state)
{
    manifest_free(&deployment);
    manifest_free(&stateful);
    manifest_free(&service);
    manifest_free(&replicas);
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

ALL_TESTS(read_files, free_files);
