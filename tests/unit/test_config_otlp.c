/* SPDX-License-Identifier: Apache-2.0 */
/* test_config_otlp.c - where spans go and which: the flag, the variables of OpenTelemetry, what is
 * refused, and what describes the daemon. */
#include "base/version.h"
#include "host/config_otlp.h"
#include "test.h"

#include "capture.h"

#include <cjson/cJSON.h>

static struct fault fault;

static int clear(void **state)
{
    static const char *const NAMES[] = {
        "OTEL_SDK_DISABLED",           "OTEL_TRACES_EXPORTER",
        "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TIMEOUT",  "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_TRACES_SAMPLER",         "OTEL_TRACES_SAMPLER_ARG",
        "OTEL_BSP_MAX_QUEUE_SIZE",     "OTEL_BSP_SCHEDULE_DELAY",
        "OTEL_SERVICE_NAME",           "OTEL_RESOURCE_ATTRIBUTES",
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        unsetenv(NAMES[i]);
    return 0;
}

static struct config settled(const char *endpoint)
{
    struct config config = { .otlp_endpoint = endpoint, .replica_name = "here" };
    if (!config_otlp_settle(&config, &fault))
        fail_msg("%s", fault.message);
    return config;
}

static void expect_refused(const char *endpoint, const char *message)
{
    struct config config = { .otlp_endpoint = endpoint };
    assert_false(config_otlp_settle(&config, &fault));
    if (!strstr(fault.message, message))
        fail_msg("'%s', and not '%s'", fault.message, message);
}

/* --------------------------------------------------------------- endpoint -- */

TEST(endpoints)
{
    static const struct {
        const char *url, *host;
        int port;
        bool is_name;
        const char *as_base, *as_it_is;
    } GOOD[] = {
        { "http://127.0.0.1:4318", "127.0.0.1", 4318, false, "/v1/traces", "/" },
        { "HTTP://collector:1/", "collector", 1, true, "/v1/traces", "/" },
        { "http://[::1]:65535/a", "::1", 65535, false, "/a/v1/traces", "/a" },
        { "http://otel.example", "otel.example", 80, true, "/v1/traces", "/" },
        { "http://[fe80::1]/a/b/", "fe80::1", 80, false, "/a/b/v1/traces", "/a/b/" },
        { "http://c:9/v1/traces", "c", 9, true, "/v1/traces", "/v1/traces" },
        { "http://c:9/x/v1/traces", "c", 9, true, "/x/v1/traces", "/x/v1/traces" },
    };
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++)
        for (int is_base = 0; is_base < 2; is_base++) {
            struct span_options options = { .is_on = false };
            if (!config_otlp_endpoint_read(&options, "--x", GOOD[i].url, is_base, &fault))
                fail_msg("%s: %s", GOOD[i].url, fault.message);
            assert_true(options.is_on);
            assert_string_equal(options.host, GOOD[i].host);
            assert_int_equal(options.port, GOOD[i].port);
            assert_int_equal(options.host_is_name, GOOD[i].is_name);
            assert_string_equal(options.target, is_base ? GOOD[i].as_base : GOOD[i].as_it_is);
        }
}

TEST(refused_endpoints)
{
    static const char *const BAD[] = {
        "collector:4318",    "http://",
        "http://:4318",      "grpc://c:4317",
        "http://c:0",        "http://c:65536",
        "http://c:x",        "http://c:",
        "http://u:p@c:4318", "http://u@c",
        "http://[::1",       "http://[x]:1",
        "http://c:4318/a b", "http://c\r\nx",
        "http://c:4318/#x",  "http://c/?a=b",
        "http://::1:4318",   "http://c:4318?x=/y",
        "http://[::1]x:80",  "unix:/run/otel.sock",
    };
    char long_url[2000] = "http://c/";
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        expect_refused(BAD[i], "as in http://127.0.0.1:4318");
    memset(long_url + 9, 'a', sizeof long_url - 10);
    expect_refused(long_url, "as in http://127.0.0.1:4318");
    memset(long_url + 7, 'a', sizeof long_url - 8);
    expect_refused(long_url, "as in http://127.0.0.1:4318");
    expect_refused("http://u:p@c:4318", "--otlp-endpoint: '...@...' came; expected");
    expect_refused("https://u:p@c:4318", "--otlp-endpoint: '...@...' came; spans are");
    expect_refused("https://c:4318", "--otlp-endpoint: 'https://c:4318' came; spans are sent over "
                                     "plain http:// alone");
}

/* ---------------------------------------------------------------- variables -- */

TEST(off)
{
    assert_false(settled(NULL).spans.is_on);
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "", 1);
    assert_false(settled(NULL).spans.is_on);
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://never.read", 1);
    setenv("OTEL_SDK_DISABLED", "True", 1);
    assert_false(settled(NULL).spans.is_on);
    unsetenv("OTEL_SDK_DISABLED");
    setenv("OTEL_TRACES_EXPORTER", "none", 1);
    assert_false(settled(NULL).spans.is_on);
}

/* The flag goes before the variables, and the variable of traces before that of all signals. */
TEST(which_endpoint)
{
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:1/p", 1);
    struct config config = settled(NULL);
    assert_string_equal(config.spans.host, "all");
    assert_string_equal(config.spans.target, "/p/v1/traces");
    setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:2/p", 1);
    config = settled(NULL);
    assert_string_equal(config.spans.host, "traces");
    assert_string_equal(config.spans.target, "/p");
    setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", 1);
    assert_true(settled(NULL).spans.is_on);
    setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", 1);
    expect_refused(NULL, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc' came");
    setenv("OTEL_SDK_DISABLED", "true", 1);
    config = settled("http://flag:3");
    assert_string_equal(config.spans.host, "flag");
    unsetenv("OTEL_SDK_DISABLED");
    unsetenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
    setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces", 1);
    expect_refused(NULL, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://traces' came");
}

TEST(defaults)
{
    const struct span_options options = settled("http://c:4318").spans;
    assert_int_equal(options.queue_max, 2048);
    assert_int_equal(options.delay_ns, 1000000000);
    assert_int_equal(options.timeout_ns, 10000000000);
    assert_true(options.sampler.by_parent && options.sampler.bound == UINT64_C(1) << 63);
}

TEST(numbers)
{
    setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64", 1);
    setenv("OTEL_BSP_SCHEDULE_DELAY", "250", 1);
    setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3000", 1);
    struct span_options options = settled("http://c:4318").spans;
    assert_int_equal(options.queue_max, 64);
    assert_int_equal(options.delay_ns, 250000000);
    assert_int_equal(options.timeout_ns, 3000000000);
    setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "40", 1);
    assert_int_equal(settled("http://c:4318").spans.timeout_ns, 40000000);
}

/* What cannot be used is warned of, and the default counts. */
TEST(warnings)
{
    static const char *const WORDS[] = { "variable not used name=OTEL_BSP_MAX_QUEUE_SIZE value=-1",
                                         "name=OTEL_TRACES_SAMPLER value=jaeger_remote",
                                         "name=OTEL_RESOURCE_ATTRIBUTES value=novalue" };
    struct capture capture;
    setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1", 1);
    setenv("OTEL_TRACES_SAMPLER", "jaeger_remote", 1);
    setenv("OTEL_RESOURCE_ATTRIBUTES", "novalue", 1);
    setenv("OTEL_SERVICE_NAME", "named", 1);
    capture_begin(&capture, 2);
    struct config config = { .otlp_endpoint = "http://c:4318", .replica_name = "here" };
    const bool done = config_otlp_settle(&config, &fault);
    char *said = capture_end(&capture, NULL);
    assert_true(done);
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (!strstr(said, WORDS[i]))
            fail_msg("no '%s' in %s", WORDS[i], said);
    free(said);
    assert_int_equal(config.spans.queue_max, 2048);
    assert_true(config.spans.sampler.by_parent);
    assert_non_null(strstr(config.spans.resource, "\"named\""));
}

/* A name that is too long leaves the attributes as they are. */
TEST(long_name)
{
    char name[SPAN_RESOURCE_MAX + 1];
    struct capture capture;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    setenv("OTEL_SERVICE_NAME", name, 1);
    setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=given,a=b", 1);
    capture_begin(&capture, 2);
    struct config config = { .otlp_endpoint = "http://c:4318", .replica_name = "here" };
    const bool done = config_otlp_settle(&config, &fault);
    char *said = capture_end(&capture, NULL);
    assert_true(done);
    assert_non_null(strstr(said, "name=OTEL_SERVICE_NAME value=\"n"));
    assert_null(strstr(said, "OTEL_RESOURCE_ATTRIBUTES"));
    free(said);
    assert_non_null(strstr(config.spans.resource, "\"given\""));
    assert_non_null(strstr(config.spans.resource, JSON({"key":"a","value":{"stringValue":"b"}})));
}

TEST(samplers)
{
    static const struct {
        const char *name, *argument;
        bool by_parent;
        double share;
    } SAMPLERS[] = {
        { "always_on", "0.5", false, 1 },
        { "always_off", "", false, 0 },
        { "traceidratio", "0.25", false, 0.25 },
        { "traceidratio", "", false, 1 },
        { "parentbased_always_on", "", true, 1 },
        { "parentbased_always_off", "", true, 0 },
        { "parentbased_traceidratio", "0", true, 0 },
    };
    for (size_t i = 0; i < sizeof SAMPLERS / sizeof SAMPLERS[0]; i++) {
        setenv("OTEL_TRACES_SAMPLER", SAMPLERS[i].name, 1);
        setenv("OTEL_TRACES_SAMPLER_ARG", SAMPLERS[i].argument, 1);
        const struct trace_sampler sampler = settled("http://c:4318").spans.sampler;
        assert_int_equal(sampler.by_parent, SAMPLERS[i].by_parent);
        assert_true((double)sampler.bound == SAMPLERS[i].share * 9223372036854775808.0);
    }
}

/* ----------------------------------------------------------------- resource -- */

static void expect_resource(const char *name, const char *attributes, const char *want)
{
    char out[SPAN_RESOURCE_MAX];
    assert_true(config_otlp_resource_write(out, sizeof out, name, attributes, "here"));
    cJSON *array = cJSON_Parse(out), *wanted = cJSON_Parse(want);
    const cJSON *attribute;
    assert_true(array && wanted);
    assert_int_equal(cJSON_GetArraySize(array), cJSON_GetArraySize(wanted));
    cJSON_ArrayForEach(attribute, array) {
        const char *key = cJSON_GetStringValue(cJSON_GetObjectItem(attribute, "key"));
        const cJSON *value =
            cJSON_GetObjectItem(cJSON_GetObjectItem(attribute, "value"), "stringValue");
        if (!cJSON_Compare(value, cJSON_GetObjectItemCaseSensitive(wanted, key), true))
            fail_msg("%s in %s", key, out);
    }
    cJSON_Delete(array);
    cJSON_Delete(wanted);
}

TEST_WITH(resource, NULL, NULL)
{
    char many[2000] = "";
    expect_resource(NULL, NULL,
                    "{\"service.name\":\"attnd\",\"service.version\":\"" ATTND_VERSION "\","
                    "\"service.instance.id\":\"here\"}");
    expect_resource(NULL,
                    "service.name=ours, service.instance.id = 7 ,k8s.pod.name=a%2Cb%3d%22,"
                    ",k8s.pod.name=second,empty=",
                    "{\"service.name\":\"ours\",\"service.version\":\"" ATTND_VERSION "\","
                    "\"service.instance.id\":\"7\",\"k8s.pod.name\":\"a,b=\\\"\",\"empty\":\"\"}");
    expect_resource("named", "service.name=ours,service.version=9",
                    "{\"service.name\":\"named\",\"service.version\":\"" ATTND_VERSION "\","
                    "\"service.instance.id\":\"here\"}");
    static const char *const BAD[] = { "a", "=b", "a=%", "a=%2", "a=%zz", "a=%00", "a=1,b" };
    char out[SPAN_RESOURCE_MAX];
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        if (config_otlp_resource_write(out, sizeof out, NULL, BAD[i], "here"))
            fail_msg("%s", BAD[i]);
    for (int i = 0; i < 33; i++)
        sprintf(many + strlen(many), "k%d=v,", i);
    assert_false(config_otlp_resource_write(out, sizeof out, NULL, many, "here"));
    assert_false(config_otlp_resource_write(out, 40, NULL, NULL, "here"));
}

EACH_TEST(clear, NULL);
