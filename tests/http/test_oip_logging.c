/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_logging.c - the logging extension: a client reads and changes, while the daemon runs,
 * which lines the daemon writes. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

static const char PATH[] = "/v2/logging";

static void expect_settings(cJSON *settings, const char *info, const char *verbose_level,
                            const char *format)
{
    answer_expect_members(settings,
                          "log_file,log_info,log_warning,log_error,log_verbose_level,log_format");
    answer_expect(settings, "log_file", "\"\"", 0);
    answer_expect(settings, "log_info", info, 0);
    answer_expect(settings, "log_warning", "true", 0);
    answer_expect(settings, "log_error", "true", 0);
    answer_expect(settings, "log_verbose_level", verbose_level, 0);
    answer_expect(settings, "log_format", format, 0);
    cJSON_Delete(settings);
}

/* Asks for path and says whether the log has a line of it. */
static bool is_logged(const char *path)
{
    struct http_response response = http_client_get(&client, path);
    http_response_free(&response);
    daemon_pause(0.05 * daemon_slowness()); /* the line may follow the answer */
    char *log = daemon_log(&server);
    const bool logged = strstr(log, path) != NULL;
    free(log);
    return logged;
}

TEST(levels)
{
    expect_settings(answer_get(&client, PATH), "true", "0", "\"default\"");
    assert_true(is_logged("/info-1"));
    assert_false(is_logged("/livez?debug-1"));
    expect_settings(answer_post(&client, PATH, "{\"log_info\":false}"), "false", "0",
                    "\"default\"");
    assert_false(is_logged("/info-2"));
    expect_settings(answer_get(&client, PATH), "false", "0", "\"default\"");
    expect_settings(answer_post(&client, PATH, "{\"log_info\":true,\"log_verbose_level\":3}"),
                    "true", "3", "\"default\"");
    assert_true(is_logged("/info-3"));
    assert_true(is_logged("/livez"));
    expect_settings(answer_post(&client, PATH, "{\"log_verbose_level\":0}"), "true", "0",
                    "\"default\"");
    expect_settings(answer_post(&client, PATH, ""), "true", "0", "\"default\"");
    expect_settings(answer_post(&client, PATH, "{}"), "true", "0", "\"default\"");
    cJSON *settings = answer_post(&client, PATH, JSON({"log_warning":false,"log_error":false}));
    answer_expect(settings, "log_warning", "false", 0);
    answer_expect(settings, "log_error", "false", 0);
    cJSON_Delete(settings);
    expect_settings(answer_post(&client, PATH, "{\"log_warning\":true,\"log_error\":true}"), "true",
                    "0", "\"default\"");
}

TEST(format)
{
    expect_settings(answer_post(&client, PATH, "{\"log_format\":\"ISO8601\"}"), "true", "0",
                    "\"ISO8601\"");
    expect_settings(answer_get(&client, PATH), "true", "0", "\"ISO8601\"");
    expect_settings(answer_post(&client, PATH, "{\"log_format\":\"default\"}"), "true", "0",
                    "\"default\"");
}

/* A bad request changes nothing, even by its good part. */
TEST(refused)
{
    static const struct {
        const char *body, *code, *pointer;
    } cases[] = {
        { "{\"log_info\":false,\"log_error\":1}", "type", "/log_error" },
        { "{\"log_info\":false,\"log_file\":\"/dev/null\"}", "option", "/log_file" },
        { "{\"log_info\":false,\"log_format\":\"fancy\"}", "option", "/log_format" },
        { "{\"log_info\":false,\"log_format\":8601}", "type", "/log_format" },
        { "{\"log_info\":false,\"log_verbose_level\":-1}", "option", "/log_verbose_level" },
        { "{\"log_info\":false,\"log_verbose_level\":0.5}", "option", "/log_verbose_level" },
        { "{\"log_info\":false,\"log_verbose_level\":1e300}", "option", "/log_verbose_level" },
        { "{\"log_info\":false,\"log_verbose_level\":true}", "type", "/log_verbose_level" },
        { "{\"log_info\":null}", "type", "/log_info" },
        { "{\"log_info\":false,\"log_infos\":true}", "field", "" },
        { "{\"log_info\":false", "json", NULL },
        { "[false]", "type", "" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        answer_refused(&client, PATH, cases[i].body, 400, cases[i].code, cases[i].pointer);
    expect_settings(answer_get(&client, PATH), "true", "0", "\"default\"");
}

/* The same permission as for models: a client that may not change models may not switch the log off
 * either. */
TEST(not_allowed)
{
    struct daemon other;
    struct http_client own;
    daemon_start(&other, NULL);
    http_client_init(&own, other.port);
    answer_refused(&own, PATH, JSON({"log_info":false,"log_error":false}), 403, "forbidden", "");
    answer_refused(&own, PATH, "{}", 403, "forbidden", "");
    expect_settings(answer_get(&own, PATH), "true", "0", "\"default\"");
    http_client_free(&own);
    daemon_stop(&other);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_directory, fixture_clear);
