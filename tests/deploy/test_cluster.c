/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster.c - the files for Kubernetes, KServe and the Prometheus operator fit together.
 *
 * Every selector of pods or of the Service names labels that they have. Every reference to a port
 * uses the port's name. Pods satisfy the Pod Security Standard `restricted`. All files name one
 * image. The time to end is longer than the daemon may take. The autoscaler alone sets the number
 * of pods. */
#include "daemon.h"
#include "http_client.h"
#include "manifest.h"
#include "test.h"

#include <ctype.h>

#define LABEL     "app.kubernetes.io/name"
#define POD       "spec.template.spec."
#define CONTAINER POD "containers.0."
#define RUNTIME   "spec.containers.0."

enum { TEXT_BYTES = 512 };

static struct manifest deployment, service, autoscaler, budget, policy, monitor, runtime, inference;

static const struct {
    struct manifest *manifest;
    const char *file;
} FILES[] = {
    { &deployment, "deploy/kubernetes/base/deployment.yaml" },
    { &service, "deploy/kubernetes/base/service.yaml" },
    { &autoscaler, "deploy/kubernetes/base/hpa.yaml" },
    { &budget, "deploy/kubernetes/base/pdb.yaml" },
    { &policy, "deploy/kubernetes/base/networkpolicy.yaml" },
    { &monitor, "deploy/prometheus/servicemonitor.yaml" },
    { &runtime, "deploy/kserve/servingruntime.yaml" },
    { &inference, "deploy/kserve/inferenceservice.yaml" },
};
enum { FILE_COUNT = sizeof FILES / sizeof FILES[0] };

static int read_files(void **state)
{
    for (int i = 0; i < FILE_COUNT; i++)
        manifest_read(FILES[i].manifest, FILES[i].file);
    return 0;
}

static int free_files(void **state)
{
    for (int i = 0; i < FILE_COUNT; i++)
        manifest_free(FILES[i].manifest);
    return 0;
}

/* ---------------------------------------------------------------------------------- helpers -- */

static void assert_value(const struct manifest *manifest, const char *path, const char *value)
{
    const char *found = manifest_get(manifest, path);
    if (strcmp(found, value) != 0)
        fail_msg("%s is %s and not %s", path, found, value);
}

static int number_of(const struct manifest *manifest, const char *path)
{
    const char *text = manifest_get(manifest, path);
    char *end;
    const long value = strtol(text, &end, 10);
    assert_true(end > text && *end == '\0');
    return (int)value;
}

/* The seconds behind a word of a text, such as "--drain-max TIME [60s]". */
static int seconds_after(const char *text, const char *word, const char *unit)
{
    const char *found = strstr(text, word);
    if (!found)
        fail_msg("there is no %s", word);
    char *end;
    found = strpbrk(found + strlen(word), "0123456789");
    assert_non_null(found);
    const long value = strtol(found, &end, 10);
    assert_int_equal(strncmp(end, unit, strlen(unit)), 0);
    return (int)value;
}

static int drain_max(void)
{
    struct daemon_result result = daemon_command((const char *const[]){ "--help", NULL }, NULL);
    char *line = strstr(result.output, "--drain-max");
    assert_non_null(line);
    const int seconds = seconds_after(strchr(line, '['), "[", "s]");
    daemon_result_free(&result);
    return seconds;
}

/* ------------------------------------------------------------------------------------ tests -- */

/* Every selector has exactly one label, which the pods have. */
TEST(selectors_select_the_pods)
{
    const char *label = manifest_get(&deployment, "spec.template.metadata.labels." LABEL);
    assert_value(&deployment, "spec.selector.matchLabels." LABEL, label);
    assert_value(&deployment, POD "topologySpreadConstraints.0.labelSelector.matchLabels." LABEL,
                 label);
    assert_value(&deployment, POD "topologySpreadConstraints.1.labelSelector.matchLabels." LABEL,
                 label);
    assert_value(&service, "spec.selector." LABEL, label);
    assert_value(&budget, "spec.selector.matchLabels." LABEL, label);
    assert_value(&policy, "spec.podSelector.matchLabels." LABEL, label);
    static const char *const wider[] = { "spec.selector.", "spec.podSelector." };
    for (int i = 0; i < FILE_COUNT; i++)
        for (int j = 0; j < FILES[i].manifest->count; j++)
            for (int k = 0; k < 2; k++) {
                const char *path = FILES[i].manifest->entries[j].path;
                if (strncmp(path, wider[k], strlen(wider[k])) == 0 && !strstr(path, "." LABEL))
                    fail_msg("%s: %s: no other label is on the pods", FILES[i].file, path);
            }
}

TEST(ports_are_named)
{
    const char *port = manifest_get(&deployment, CONTAINER "ports.0.name");
    assert_value(&service, "spec.ports.0.targetPort", port);
    assert_value(&policy, "spec.ingress.0.ports.0.port", port);
    assert_value(&policy, "spec.policyTypes.0", "Ingress");
    assert_value(&policy, "spec.policyTypes.1", "Egress");
    assert_null(manifest_find(&policy, "spec.egress.0.to.0.podSelector"));
}

/* The monitor finds the Service, and its job has the name that the rules use. */
TEST(service_monitor)
{
    const char *label = manifest_get(&service, "metadata.labels." LABEL);
    assert_value(&monitor, "spec.selector.matchLabels." LABEL, label);
    assert_value(&monitor, "spec.endpoints.0.port", manifest_get(&service, "spec.ports.0.name"));
    assert_value(&monitor, "spec.jobLabel", LABEL);
    assert_value(&monitor, "spec.endpoints.0.authorization.credentials.name", "attnd-metrics");
    char job[TEXT_BYTES], *rules = manifest_file_text("deploy/prometheus/attnd.rules.yaml");
    snprintf(job, sizeof job, "{job=\"%s\"}", label);
    assert_non_null(strstr(rules, job));
    free(rules);

    struct daemon server;
    struct http_client client;
    daemon_start(&server, NULL);
    http_client_init(&client, server.port);
    const char *const paths[] = { manifest_get(&monitor, "spec.endpoints.0.path"),
                                  "/v2/health/ready" };
    for (int i = 0; i < 2; i++) {
        struct http_response response = http_client_get(&client, paths[i]);
        assert_int_equal(response.status, 200);
        http_response_free(&response);
    }
    http_client_free(&client);
    daemon_stop(&server);
}

/* Kubernetes' Pod Security Standards ask for these values. The runtime's pod gets no security
 * context of its own. */
static void assert_restricted(const struct manifest *manifest, const char *pod,
                              const char *container)
{
    const struct {
        const char *holder, *name, *value;
    } wanted[] = {
        { pod, "runAsNonRoot", "true" },
        { pod, "seccompProfile.type", "RuntimeDefault" },
        { container, "allowPrivilegeEscalation", "false" },
        { container, "capabilities.drop.0", "ALL" },
        { container, "readOnlyRootFilesystem", "true" },
    };
    char path[TEXT_BYTES];
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        snprintf(path, sizeof path, "%ssecurityContext.%s", wanted[i].holder, wanted[i].name);
        assert_value(manifest, path, wanted[i].value);
    }
    snprintf(path, sizeof path, "%ssecurityContext.capabilities.add.0", container);
    assert_null(manifest_find(manifest, path));
}

TEST(pods_are_restricted)
{
    assert_restricted(&deployment, POD, CONTAINER);
    assert_restricted(&runtime, RUNTIME, RUNTIME);
    assert_value(&deployment, POD "automountServiceAccountToken", "false");
}

/* The CPU request equals the limit, so a share of one is a share of the other. The disruption
 * budget takes fewer pods away than the autoscaler keeps at least. */
TEST(autoscaler)
{
    assert_null(manifest_find(&deployment, "spec.replicas"));
    assert_value(&autoscaler, "spec.scaleTargetRef.name",
                 manifest_get(&deployment, "metadata.name"));
    assert_value(&autoscaler, "spec.scaleTargetRef.kind", manifest_get(&deployment, "kind"));
    assert_value(&autoscaler, "spec.scaleTargetRef.apiVersion",
                 manifest_get(&deployment, "apiVersion"));
    assert_value(&autoscaler, "spec.metrics.0.resource.name", "cpu");
    assert_value(&autoscaler, "spec.metrics.0.resource.target.type", "Utilization");
    assert_value(&deployment, CONTAINER "resources.requests.cpu",
                 manifest_get(&deployment, CONTAINER "resources.limits.cpu"));
    const int least = number_of(&autoscaler, "spec.minReplicas");
    assert_true(least > number_of(&budget, "spec.maxUnavailable"));
    assert_true(number_of(&autoscaler, "spec.maxReplicas") > least);
}

TEST(kserve)
{
    assert_value(&runtime, "spec.protocolVersions.0", "v2");
    assert_value(&inference, "spec.predictor.model.protocolVersion", "v2");
    assert_value(&runtime, "spec.supportedModelFormats.0.autoSelect", "true");
    assert_value(&inference, "spec.predictor.model.modelFormat.name",
                 manifest_get(&runtime, "spec.supportedModelFormats.0.name"));
    char *dockerfile = manifest_file_text("Dockerfile");
    const int delay = seconds_after(dockerfile, "ATTND_DRAIN_DELAY=", "s");
    assert_true(number_of(&inference, "spec.predictor.terminationGracePeriodSeconds")
                > delay + drain_max());
    free(dockerfile);
}

/* Every "attnd:TAG" in these files is the image that is built, whose tag no version changes. */
TEST(one_image)
{
    static const char *const files[] = { "Dockerfile",
                                         "README.md",
                                         "deploy/README.md",
                                         "deploy/compose.yaml",
                                         "deploy/kubernetes/base/deployment.yaml",
                                         "deploy/kubernetes/batch/job.yaml",
                                         "deploy/kubernetes/sessions/statefulset.yaml",
                                         "deploy/kserve/servingruntime.yaml" };
    static const char image[] = "attnd:local";
    int seen = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *text = manifest_file_text(files[i]);
        for (const char *c = text; (c = strstr(c, "docker build -t ")); c++)
            assert_memory_equal(c + strlen("docker build -t "), image, strlen(image));
        for (const char *c = text; (c = strstr(c, "attnd:")); c++)
            if (isalnum((unsigned char)c[6])) {
                assert_memory_equal(c, image, strlen(image));
                seen++;
            }
        free(text);
    }
    assert_true(seen >= 8);
}

ALL_TESTS(read_files, free_files);
