/* SPDX-License-Identifier: Apache-2.0 */
/* test_envoy.c - deploy/envoy/attnd.yaml against the daemon and the other balancers. Envoy itself
 * is in no Debian package and is not run: its routes are walked here, first match first, for the
 * requests that test_sessions_sticky.c sends through nginx and haproxy. */
#include "daemon.h"
#include "http_client.h"
#include "manifest.h"
#include "test.h"

#define ENVOY   "deploy/envoy/attnd.yaml"
#define MANAGER "static_resources.listeners.0.filter_chains.0.filters.0.typed_config."
#define CLUSTER "static_resources.clusters.0."

enum { TEXT_BYTES = 512, CLUSTER_COUNT = 3 };

static struct manifest envoy;
static const cJSON *routes;

static const cJSON *at(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const cJSON *routes_of(const struct manifest *manifest)
{
    const cJSON *listener = at(at(manifest->tree, "static_resources"), "listeners")->child;
    const cJSON *filter = at(at(listener, "filter_chains")->child, "filters")->child;
    const cJSON *config = at(at(filter, "typed_config"), "route_config");
    return at(at(config, "virtual_hosts")->child, "routes");
}

static int read_file(void **state)
{
    manifest_read(&envoy, ENVOY);
    routes = routes_of(&envoy);
    assert_non_null(routes);
    return 0;
}

static int free_file(void **state)
{
    manifest_free(&envoy);
    return 0;
}

/* ------------------------------------------------------------------------ matching as Envoy -- */

/* A request, and its headers; NULL: it has none of that name. */
struct asked {
    const char *method, *path, *replica, *upstream;
};

static const char *header_of(const struct asked *asked, const char *name)
{
    if (strcmp(name, ":method") == 0)
        return asked->method;
    if (strcmp(name, ":path") == 0)
        return asked->path;
    if (strcmp(name, "Attnd-Replica") == 0)
        return asked->replica;
    assert_string_equal(name, "Attnd-Upstream");
    return asked->upstream;
}

/* Fails the test at a matcher that it does not know. A header that is not there matches no text,
 * inverted or not. */
static bool header_matches(const cJSON *matcher, const struct asked *asked)
{
    const char *value = header_of(asked, at(matcher, "name")->valuestring);
    const cJSON *text = at(matcher, "string_match"), *present = at(matcher, "present_match");
    if (present)
        return cJSON_IsTrue(present) == (value != NULL);
    assert_non_null(text);
    if (!value)
        return false;
    const cJSON *exact = at(text, "exact");
    const bool matches = exact ? strcmp(value, exact->valuestring) == 0
                               : strstr(value, at(text, "contains")->valuestring) != NULL;
    return matches != cJSON_IsTrue(at(matcher, "invert_match"));
}

static bool route_matches(const cJSON *route, const struct asked *asked)
{
    const cJSON *match = at(route, "match"), *prefix = at(match, "prefix"), *matcher;
    if (prefix ? strncmp(asked->path, prefix->valuestring, strlen(prefix->valuestring)) != 0
               : strcmp(asked->path, at(match, "path")->valuestring) != 0)
        return false;
    cJSON_ArrayForEach(matcher, at(match, "headers"))
        if (!header_matches(matcher, asked))
            return false;
    return true;
}

static const cJSON *route_of(const struct asked *asked)
{
    const cJSON *route;
    cJSON_ArrayForEach(route, routes)
        if (route_matches(route, asked))
            return route;
    fail_msg("%s has no route", asked->path);
    return NULL;
}

/* ------------------------------------------------------------------------------------ tests -- */

/* to is a cluster, or the status that Envoy itself answers; retry_on what is sent again. */
TEST(requests_get_where_the_other_balancers_send_them)
{
    static const char ANY[] = "connect-failure,reset,retriable-status-codes";
    static const char UNREACHED[] = "connect-failure";
    static const char UPSTREAM[] = "MTkyLjAuMi4xOjgwODA="; /* 192.0.2.1:8080 */
    static const struct {
        struct asked asked;
        const char *to, *retry_on;
    } cases[] = {
        { { "POST", "/v1/attention", NULL, NULL }, "attnd", ANY },
        { { "POST", "/v2/models/sdpa/infer", "replica2", NULL }, "replica2", UNREACHED },
        { { "GET", "/v1/models/sdpa", NULL, NULL }, "attnd", ANY },
        { { "GET", "/v1/models/sdpa", "replica1", NULL }, "replica1", UNREACHED },
        { { "DELETE", "/v1/models/sdpa", NULL, NULL }, "403", NULL },
        { { "PUT", "/v1/models/sdpa", "replica1", NULL }, "403", NULL },
        { { "GET", "/metrics", "replica1", NULL }, "403", NULL },
        { { "POST", "/v2/repository/models/sdpa/unload", NULL, NULL }, "403", NULL },
        { { "POST", "/v2/repository/any/models/sdpa/load", "replica1", NULL }, "403", NULL },
        { { "POST", "/v2/repository/any/index", NULL, NULL }, "attnd", ANY },
        { { "POST", "/v2/repository/index", NULL, NULL }, "attnd", ANY },
        { { "POST", "/v1/sessions", NULL, NULL }, "attnd", UNREACHED },
        { { "POST", "/v1/sessions", "replica1", NULL }, "replica1", UNREACHED },
        { { "GET", "/v1/sessions/same", "replica2", NULL }, "replica2", UNREACHED },
        { { "GET", "/v1/sessions/same", NULL, NULL }, "400", NULL },
        { { "PUT", "/v1/sessions/same", NULL, NULL }, "400", NULL },
        { { "POST", "/v1/sessions/attention", NULL, NULL }, "400", NULL },
        { { "GET", "/v1/sessions/same", "replica3", NULL }, "503", NULL },
        { { "GET", "/v1/sessions/replica1.none", NULL, NULL }, "replica1", UNREACHED },
        { { "GET", "/v1/sessions/replica10.none", NULL, NULL }, "400", NULL },
        { { "GET", "/v1/sessions/replica1.x", "replica2", NULL }, "replica2", UNREACHED },
        { { "GET", "/v1/sessions/same", NULL, UPSTREAM }, "attnd", UNREACHED },
        { { "POST", "/v1/sessions/same", "replica2", UPSTREAM }, "replica2", UNREACHED },
        { { "OPTIONS", "/v1/sessions/same", NULL, NULL }, "attnd", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char status[16] = "";
        const cJSON *route = route_of(&cases[i].asked), *action = at(route, "route");
        const cJSON *retry = at(at(action, "retry_policy"), "retry_on");
        if (!action)
            snprintf(status, sizeof status, "%d",
                     at(at(route, "direct_response"), "status")->valueint);
        const char *to = action ? at(action, "cluster")->valuestring : status;
        if (strcmp(to, cases[i].to) != 0)
            fail_msg("case %zu, %s, goes to %s", i, cases[i].asked.path, to);
        if (cases[i].retry_on)
            assert_string_equal(retry->valuestring, cases[i].retry_on);
        else
            assert_null(retry);
    }
}

/* A request that the routes have led to a replica is led by them alone. Where they do not, Envoy's
 * header leads, and to no other replica. */
TEST(the_filter_holds_where_no_route_names_a_replica)
{
    const cJSON *route;
    cJSON_ArrayForEach(route, routes) {
        const cJSON *cluster = at(at(route, "route"), "cluster");
        const cJSON *own =
            at(at(route, "typed_per_filter_config"), "envoy.filters.http.stateful_session");
        const bool named = cluster && strcmp(cluster->valuestring, "attnd") != 0;
        assert_int_equal(named, cJSON_IsTrue(at(own, "disabled")));
    }
    assert_string_equal(manifest_get(&envoy, MANAGER "http_filters.1.name"),
                        "envoy.filters.http.stateful_session");
    assert_string_equal(manifest_get(&envoy, MANAGER "http_filters.1.typed_config.strict"), "true");
    assert_string_equal(
        manifest_get(&envoy, MANAGER "http_filters.1.typed_config.session_state.typed_config.name"),
        "Attnd-Upstream");
}

/* "127.0.0.1:80" of the socket_address at path. */
static const char *address_at(char text[TEXT_BYTES], const char *path)
{
    char address[TEXT_BYTES], port[TEXT_BYTES];
    snprintf(address, sizeof address, "%s.address.socket_address.address", path);
    snprintf(port, sizeof port, "%s.address.socket_address.port_value", path);
    snprintf(text, TEXT_BYTES, "%s:%s", manifest_get(&envoy, address), manifest_get(&envoy, port));
    return text;
}

/* Each cluster has the replicas that haproxy's file has under the same name. */
TEST(replicas_are_those_of_the_other_balancers)
{
    char *haproxy = manifest_file_text("deploy/haproxy/attnd.cfg");
    char *dockerfile = manifest_file_text("Dockerfile");
    int endpoints = 0;
    for (int i = 0; i < CLUSTER_COUNT; i++) {
        char path[TEXT_BYTES], line[2 * TEXT_BYTES], address[TEXT_BYTES];
        snprintf(path, sizeof path, "static_resources.clusters.%d.name", i);
        const char *name = manifest_get(&envoy, path);
        snprintf(path, sizeof path, "static_resources.clusters.%d.load_assignment.cluster_name", i);
        assert_string_equal(manifest_get(&envoy, path), name);
        for (int k = 0; k < (i == 0 ? 2 : 1); k++, endpoints++) {
            snprintf(path, sizeof path,
                     "static_resources.clusters.%d.load_assignment.endpoints.0.lb_endpoints.%d."
                     "endpoint",
                     i, k);
            snprintf(line, sizeof line, "server replica%d %s", i > 0 ? i : k + 1,
                     address_at(address, path));
            assert_non_null(strstr(haproxy, line));
            snprintf(line, sizeof line, "EXPOSE %s\n", strrchr(address, ':') + 1);
            assert_non_null(strstr(dockerfile, line));
        }
    }
    assert_int_equal(endpoints, 4);
    assert_null(manifest_find(&envoy, "static_resources.clusters.3.name"));
    free(haproxy);
    free(dockerfile);
}

/* The default of a flag, which --help gives in brackets, as a number without its unit. */
static double flag_default(const char *help, const char *flag, const char *unit)
{
    const char *line = strstr(help, flag);
    assert_non_null(line);
    char *end;
    const double value = strtod(strchr(line, '[') + 1, &end);
    assert_int_equal(strncmp(end, unit, strlen(unit)), 0);
    return value;
}

static double seconds_at(const char *path)
{
    char *end;
    const double value = strtod(manifest_get(&envoy, path), &end);
    assert_string_equal(end, "s");
    return value;
}

TEST(times_and_sizes_are_those_of_the_daemon)
{
    struct daemon_result help = daemon_command((const char *const[]){ "--help", NULL }, NULL);
    const double longest = flag_default(help.output, "--timeout ", "s]");
    const cJSON *route;
    cJSON_ArrayForEach(route, routes)
        if (at(route, "route"))
            assert_true(strtod(at(at(route, "route"), "timeout")->valuestring, NULL) > longest);
    assert_true(seconds_at(MANAGER "stream_idle_timeout") > longest);
    for (int i = 0; i < CLUSTER_COUNT; i++) {
        char path[TEXT_BYTES];
        snprintf(path, sizeof path,
                 "static_resources.clusters.%d.typed_extension_protocol_options.envoy.extensions."
                 "upstreams.http.v3.HttpProtocolOptions.common_http_protocol_options.idle_timeout",
                 i);
        assert_true(seconds_at(path) < flag_default(help.output, "--idle-timeout ", "s]"));
    }
    const double bytes =
        strtod(manifest_get(&envoy, MANAGER "http_filters.0.typed_config.max_request_bytes"), NULL);
    assert_true(bytes == flag_default(help.output, "--body-max ", "MiB]") * 1048576);
    daemon_result_free(&help);
}

/* Readiness is asked for every half second, also before the first request, and is answered. */
TEST(readiness)
{
    struct daemon server;
    struct http_client client;
    daemon_start(&server, NULL);
    http_client_init(&client, server.port);
    struct http_response response = http_client_get(
        &client, manifest_get(&envoy, CLUSTER "health_checks.0.http_health_check.path"));
    assert_int_equal(response.status, 200);
    assert_non_null(strstr(response.body, "ready"));
    http_response_free(&response);
    http_client_free(&client);
    daemon_stop(&server);
    assert_true(seconds_at(CLUSTER "health_checks.0.no_traffic_interval")
                == seconds_at(CLUSTER "health_checks.0.interval"));
    /* Replicas that are not ready get nothing, however many they are. */
    assert_string_equal(
        manifest_get(&envoy, CLUSTER "common_lb_config.healthy_panic_threshold.value"), "0");
}

ALL_TESTS(read_file, free_file);
