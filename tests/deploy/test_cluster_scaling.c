/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster_scaling.c - autoscalers on the daemon's own metrics, and the pool of the Gateway
 * API, against a running daemon: the metrics are on its page, the paths are answered, names and
 * ports lead somewhere. */
#include "daemon.h"
#include "http_client.h"
#include "manifest.h"
#include "metrics_page.h"
#include "test.h"

#define FOLDER    "deploy/kubernetes/"
#define CONTAINER "spec.template.spec.containers.0."
#define COST      "attnd_queue_cost_seconds"
#define KEDA      "spec.advanced.horizontalPodAutoscalerConfig."

enum { TEXT_BYTES = 512, MATCHES_MAX = 16 };

static struct manifest base, autoscaler, adapter, scaled, pool, route, picker, picker_service,
    picker_pods, deployment;

static const struct {
    struct manifest *manifest;
    const char *file;
} FILES[] = {
    { &base, FOLDER "base/hpa.yaml" },
    { &deployment, FOLDER "base/deployment.yaml" },
    { &autoscaler, FOLDER "queue-cost/hpa.yaml" },
    { &adapter, FOLDER "queue-cost/prometheus-adapter.yaml" },
    { &scaled, FOLDER "keda/scaledobject.yaml" },
    { &pool, FOLDER "inference-pool/inferencepool.yaml" },
    { &route, FOLDER "inference-pool/httproute.yaml" },
    { &picker, FOLDER "inference-pool/picker.yaml" },
    { &picker_service, FOLDER "inference-pool/picker-service.yaml" },
    { &picker_pods, FOLDER "inference-pool/picker-deployment.yaml" },
};
enum { FILE_COUNT = sizeof FILES / sizeof FILES[0] };

static struct daemon server;
static struct http_client client;

static int set_up(void **state)
{
    for (int i = 0; i < FILE_COUNT; i++)
        manifest_read(FILES[i].manifest, FILES[i].file);
    daemon_start(&server, NULL);
    http_client_init(&client, server.port);
    return 0;
}

static int tear_down(void **state)
{
    http_client_free(&client);
    daemon_stop(&server);
    for (int i = 0; i < FILE_COUNT; i++)
        manifest_free(FILES[i].manifest);
    return 0;
}

static void assert_value(const struct manifest *manifest, const char *path, const char *value)
{
    const char *found = manifest_get(manifest, path);
    if (strcmp(found, value) != 0)
        fail_msg("%s is %s and not %s", path, found, value);
}

/* A gauge without labels, so that there is one number for each pod. */
static void assert_one_gauge(const char *name)
{
    struct metrics_page page = { 0 };
    struct http_response response = http_client_get(&client, "/metrics");
    assert_int_equal(response.status, 200);
    metrics_page_read(&page, response.body);
    if (!metrics_page_has(&page, name))
        fail_msg("/metrics has no %s without labels", name);
    assert_string_equal(metrics_page_type(&page, name), "gauge");
    metrics_page_free(&page);
    http_response_free(&response);
}

/* ------------------------------------------------------------------------------------ tests -- */

/* The adapter gives the metric the name that the autoscaler asks for: the series' own. */
TEST(the_queue_is_asked_for)
{
    assert_one_gauge(COST);
    assert_value(&autoscaler, "spec.metrics.0.resource.name", "cpu");
    assert_value(&autoscaler, "spec.metrics.0.resource.target.averageUtilization",
                 manifest_get(&base, "spec.metrics.0.resource.target.averageUtilization"));
    assert_value(&autoscaler, "spec.metrics.1.pods.metric.name", COST);
    assert_value(&autoscaler, "spec.metrics.1.pods.target.type", "AverageValue");
    const char *series = manifest_get(&adapter, "rules.custom.0.seriesQuery");
    assert_memory_equal(series, COST "{", sizeof COST);
    assert_null(manifest_find(&adapter, "rules.custom.0.name.as"));
    assert_value(&adapter, "rules.custom.0.resources.overrides.pod.resource", "pod");
    assert_value(&adapter, "rules.custom.0.resources.overrides.namespace.resource", "namespace");
}

/* KEDA asks the same questions, with the same bounds and the same way to move. */
TEST(keda_is_the_same_autoscaler)
{
    assert_value(&scaled, "spec.scaleTargetRef.name",
                 manifest_get(&base, "spec.scaleTargetRef.name"));
    assert_value(&scaled, "spec.minReplicaCount", manifest_get(&base, "spec.minReplicas"));
    assert_value(&scaled, "spec.maxReplicaCount", manifest_get(&base, "spec.maxReplicas"));
    assert_value(&scaled, "spec.triggers.0.type", "cpu");
    assert_value(&scaled, "spec.triggers.0.metadata.value",
                 manifest_get(&base, "spec.metrics.0.resource.target.averageUtilization"));
    assert_value(&scaled, "spec.triggers.1.metricType", "AverageValue");
    assert_non_null(strstr(manifest_get(&scaled, "spec.triggers.1.metadata.query"), COST));
    const char *milli = manifest_get(&autoscaler, "spec.metrics.1.pods.target.averageValue");
    assert_non_null(strchr(milli, 'm'));
    const double threshold = atof(manifest_get(&scaled, "spec.triggers.1.metadata.threshold"));
    assert_true(threshold * 1000 == atoi(milli));
    int same = 0;
    for (int i = 0; i < autoscaler.count; i++) {
        char path[TEXT_BYTES];
        if (strncmp(autoscaler.entries[i].path, "spec.behavior.", 14) != 0)
            continue;
        snprintf(path, sizeof path, KEDA "%s", autoscaler.entries[i].path + strlen("spec."));
        assert_value(&scaled, path, autoscaler.entries[i].value);
        same++;
    }
    assert_true(same > 6);
}

TEST(the_pool_finds_pods_and_picker)
{
    static const char LABEL[] = "app.kubernetes.io/name";
    char path[TEXT_BYTES];
    snprintf(path, sizeof path, "spec.selector.matchLabels.%s", LABEL);
    assert_value(&deployment, path, manifest_get(&pool, path));
    assert_value(&pool, "spec.targetPorts.0.number",
                 manifest_get(&deployment, CONTAINER "ports.0.containerPort"));
    assert_value(&pool, "spec.endpointPickerRef.name",
                 manifest_get(&picker_service, "metadata.name"));
    assert_value(&pool, "spec.endpointPickerRef.port.number",
                 manifest_get(&picker_service, "spec.ports.0.port"));
    assert_value(&picker_pods, CONTAINER "ports.0.name",
                 manifest_get(&picker_service, "spec.ports.0.targetPort"));
    snprintf(path, sizeof path, "spec.template.metadata.labels.%s", LABEL);
    const char *label = manifest_get(&picker_pods, path);
    snprintf(path, sizeof path, "spec.selector.%s", LABEL);
    assert_value(&picker_service, path, label);
    assert_value(&route, "spec.rules.0.backendRefs.0.kind", manifest_get(&pool, "kind"));
    assert_value(&route, "spec.rules.0.backendRefs.0.name", manifest_get(&pool, "metadata.name"));
    const char *group = manifest_get(&route, "spec.rules.0.backendRefs.0.group");
    assert_memory_equal(manifest_get(&pool, "apiVersion"), group, strlen(group));
}

/* The picker takes the last of several series, so there may be only one. */
TEST(the_picker_reads_metrics)
{
    static const char *const fields[] = { "queuedRequestsSpec", "runningRequestsSpec" };
    char path[TEXT_BYTES];
    assert_value(&picker, "plugins.1.parameters.defaultEngine",
                 manifest_get(&picker, "plugins.1.parameters.engineConfigs.0.name"));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "plugins.1.parameters.engineConfigs.0.%s", fields[i]);
        assert_one_gauge(manifest_get(&picker, path));
    }
    const char *metrics = manifest_get(&picker, "plugins.0.parameters.path");
    struct http_response response = http_client_get(&client, metrics);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
}

/* Each path that the route lets through is one of the daemon's; what changes a pod is none of them.
 */
TEST(the_route_leads_to_the_daemon)
{
    static const char *const closed[] = { "/v1/sessions", "/v2/repository", "/v2/logging",
                                          "/v2/systemsharedmemory", "/metrics" };
    int count = 0;
    for (; count < MATCHES_MAX; count++) {
        char path[TEXT_BYTES];
        snprintf(path, sizeof path, "spec.rules.0.matches.%d.path.value", count);
        const char *prefix = manifest_find(&route, path);
        if (!prefix)
            break;
        for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
            assert_int_not_equal(strncmp(closed[i], prefix, strlen(prefix)), 0);
        char url[TEXT_BYTES];
        snprintf(url, sizeof url, "%s%s", prefix,
                 strcmp(prefix, "/v2/health") == 0 ? "/ready" : "");
        struct http_response response = http_client_get(&client, url);
        if (response.status != 200 && response.status != 405)
            fail_msg("GET %s: %ld", url, response.status);
        http_response_free(&response);
        snprintf(path, sizeof path, "spec.rules.0.matches.%d.method", count);
        if (strcmp(prefix, "/v1/models") == 0)
            assert_value(&route, path, "GET");
    }
    assert_int_equal(count, 8);
}

ALL_TESTS(set_up, tear_down);
