/* SPDX-License-Identifier: Apache-2.0 */
/* test_access_quota.c - what the requests of one name may use: bounds, refusals in words, counters;
 * and a budget that many threads use at once. */
#include "access/access_account.h"
#include "telemetry/key_metrics.h"
#include "test.h"

#include <pthread.h>

static const int64_t MS = 1000000, SECOND = 1000000000, START = 987654321;

static struct access_quota *made(struct access_quota *quota, const struct access_limits *limits)
{
    access_quota_init(quota, "ci");
    access_quota_limit(quota, limits, START);
    return quota;
}

TEST(no_quota)
{
    struct fault fault = { .code = FAULT_MEMORY };
    const struct memory_share share = { .owner_refused = true };
    int64_t reserved_ns = 0;
    assert_true(access_quota_enter(NULL, &fault));
    assert_true(access_quota_has_time(NULL, START, &fault));
    assert_true(access_quota_reserve(NULL, &reserved_ns, SECOND, START, &fault));
    assert_int_equal(reserved_ns, 0);
    access_quota_charge(NULL, 0, SECOND);
    access_quota_explain(NULL, &share, &fault);
    assert_int_equal(fault.code, FAULT_MEMORY);
    access_quota_leave(NULL, FAULT_NONE);
}

TEST(no_bounds)
{
    struct access_quota quota;
    struct access_limits limits;
    struct fault fault;
    int64_t reserved_ns = 0;
    access_limits_init(&limits);
    made(&quota, &limits);
    for (int i = 0; i < 1000; i++) {
        assert_true(access_quota_enter(&quota, &fault));
        assert_true(access_quota_reserve(&quota, &reserved_ns, 3600 * SECOND, START, &fault));
    }
    access_quota_free(&quota);
}

TEST(in_flight)
{
    struct access_quota quota;
    struct fault fault = { .code = FAULT_NONE };
    made(&quota, &(struct access_limits){ .in_flight = 2 });
    assert_true(access_quota_enter(&quota, &fault));
    assert_true(access_quota_enter(&quota, &fault));
    assert_false(access_quota_enter(&quota, &fault));
    assert_int_equal(fault.code, FAULT_QUOTA);
    assert_int_equal(fault.retry_after_s, 1);
    assert_string_equal(fault.message,
                        "the key 'ci' has 2 requests in flight, as many as it may (in-flight)");
    access_quota_leave(&quota, FAULT_QUOTA); /* the refused one counts until it has its answer */
    access_quota_leave(&quota, FAULT_NONE);
    assert_true(access_quota_enter(&quota, &fault));
    access_quota_limit(&quota, &(struct access_limits){ .in_flight = 5 }, START);
    assert_true(access_quota_enter(&quota, &fault));
    assert_int_equal(quota.in_flight, 3);
    access_quota_free(&quota);
}

TEST(cpu_time)
{
    struct access_quota quota;
    struct fault fault = { .code = FAULT_NONE };
    int64_t reserved_ns = 0, other_ns = 0;
    made(&quota, &(struct access_limits){ .cpu = 0.5, .burst_ns = SECOND });
    assert_true(access_quota_reserve(&quota, &reserved_ns, 10 * MS, START, &fault));
    assert_true(access_quota_reserve(&quota, &reserved_ns, 700 * MS, START, &fault));
    assert_int_equal(reserved_ns, 700 * MS);
    assert_false(access_quota_reserve(&quota, &other_ns, 1, START, &fault));
    assert_int_equal(other_ns, 0);
    assert_int_equal(fault.code, FAULT_QUOTA);
    assert_int_equal(fault.retry_after_s, 2);
    assert_string_equal(fault.message,
                        "the key 'ci' has used up its CPU time (cpu); try again in 1400 ms");
    access_quota_charge(&quota, reserved_ns, 250 * MS);
    assert_false(access_quota_has_time(&quota, START, &fault));
    assert_int_equal(fault.retry_after_s, 1);
    access_quota_limit(&quota, &(struct access_limits){ .cpu = 0.25, .burst_ns = SECOND }, START);
    assert_false(access_quota_has_time(&quota, START + 1, &fault));
    assert_string_equal(fault.message,
                        "the key 'ci' has used up its CPU time (cpu); try again in 1000 ms");
    assert_true(access_quota_has_time(&quota, START + 1 * SECOND, &fault));
    access_quota_free(&quota);
}

TEST(memory)
{
    struct access_quota quota;
    struct fault fault = { .code = FAULT_NONE };
    made(&quota, &(struct access_limits){ .memory_bytes = 1000 });
    struct memory_share share = { .owner = &quota.memory };
    assert_true(memory_reserve(&share, 1000));
    assert_false(memory_reserve(&share, 1));
    fault_set(&fault, FAULT_TYPE, "something else");
    access_quota_explain(&quota, &share, &fault);
    assert_int_equal(fault.code, FAULT_TYPE);
    fault_no_memory(&fault);
    access_quota_explain(&quota, &share, &fault);
    assert_int_equal(fault.code, FAULT_QUOTA);
    assert_int_equal(fault.retry_after_s, 1);
    assert_non_null(strstr(fault.message, "1000 bytes"));
    memory_return_all(&share);
    assert_true(memory_reserve(&share, 1));
    fault_no_memory(&fault); /* not the quota's doing */
    access_quota_explain(&quota, &share, &fault);
    assert_int_equal(fault.code, FAULT_MEMORY);
    memory_return_all(&share);
    access_quota_free(&quota);
}

/* ---------------------------------------------------------------- metrics -- */

static const char *page(const struct key_holding holdings[KEY_METRICS_PLACES])
{
    static char buffer[1 << 18];
    struct text text = text_in(buffer, sizeof buffer - 1);
    key_metrics_write(&text, holdings);
    assert_int_equal(text.failed, FAULT_NONE);
    buffer[text.used] = '\0';
    return buffer;
}

static void assert_on_page(const char *written, const char *line)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted, "\n%s\n", line);
    if (!strstr(written, wanted))
        fail_msg("no line '%s' in\n%s", line, written);
}

TEST(counters)
{
    struct access_quota quota;
    struct fault fault;
    static struct key_holding holdings[KEY_METRICS_PLACES];
    access_quota_init(&quota, "counted-1");
    static const enum fault_code ends[] = { FAULT_NONE,  FAULT_NONE,  FAULT_JSON,      FAULT_LEFT,
                                            FAULT_QUOTA, FAULT_SCOPE, FAULT_OVERLOADED };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        assert_true(access_quota_enter(&quota, &fault));
        access_quota_leave(&quota, ends[i]);
    }
    access_quota_charge(&quota, 0, 1250 * MS);
    holdings[access_quota_place(&quota)] = (struct key_holding){ 3, 4096, 2, 8192 };
    key_metrics_unknown();
    const char *written = page(holdings);
    assert_on_page(written, "attnd_key_requests_total{key=\"counted-1\",outcome=\"ok\"} 2");
    assert_on_page(written, "attnd_key_requests_total{key=\"counted-1\",outcome=\"failed\"} 1");
    assert_on_page(written, "attnd_key_requests_total{key=\"counted-1\",outcome=\"cancelled\"} 1");
    assert_on_page(written, "attnd_key_requests_total{key=\"counted-1\",outcome=\"refused\"} 3");
    assert_on_page(written, "attnd_key_refused_total{key=\"counted-1\",reason=\"quota\"} 1");
    assert_on_page(written, "attnd_key_refused_total{key=\"counted-1\",reason=\"scope\"} 1");
    assert_on_page(written, "attnd_key_refused_total{key=\"counted-1\",reason=\"overloaded\"} 1");
    assert_on_page(written, "attnd_key_cpu_seconds_total{key=\"counted-1\"} 1.250000000");
    assert_on_page(written, "attnd_key_requests_active{key=\"counted-1\"} 3");
    assert_on_page(written, "attnd_key_memory_bytes{key=\"counted-1\"} 4096");
    assert_on_page(written, "attnd_key_sessions{key=\"counted-1\"} 2");
    assert_on_page(written, "attnd_key_session_bytes{key=\"counted-1\"} 8192");
    assert_on_page(written, "attnd_keys_unknown_total 1");
    access_quota_free(&quota);
}

/* Names beyond the places count together; a name that is gone leaves its place to another. */
TEST(places)
{
    static struct access_quota quotas[KEY_METRICS_NAMES_MAX + 2];
    static char names[KEY_METRICS_NAMES_MAX + 2][16];
    static struct key_holding holdings[KEY_METRICS_PLACES];
    for (int i = 0; i < KEY_METRICS_NAMES_MAX + 2; i++) {
        snprintf(names[i], sizeof names[i], "many-%d", i);
        access_quota_init(&quotas[i], names[i]);
        access_quota_leave(&quotas[i], FAULT_NONE);
        access_quota_charge(&quotas[i], 0, SECOND);
    }
    const char *written = page(holdings);
    assert_on_page(written, "attnd_key_cpu_seconds_total{key=\"many-0\"} 1.000000000");
    assert_on_page(written, "attnd_key_cpu_seconds_total{key=\"(other)\"} 2.000000000");
    access_quota_free(&quotas[7]);
    access_quota_init(&quotas[7], "late");
    access_quota_leave(&quotas[7], FAULT_NONE);
    written = page(holdings);
    assert_on_page(written, "attnd_key_requests_total{key=\"late\",outcome=\"ok\"} 1");
    assert_null(strstr(written, "many-7\""));
    for (int i = 0; i < KEY_METRICS_NAMES_MAX + 2; i++)
        access_quota_free(&quotas[i]);
}

/* ---------------------------------------------------------------- threads -- */

enum { THREADS = 4, ROUNDS = 20000 };

static void *use(void *argument)
{
    struct access_quota *quota = argument;
    struct fault fault;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t reserved_ns = 0;
        access_quota_enter(quota, &fault);
        assert_true(access_quota_reserve(quota, &reserved_ns, 3000, START + i, &fault));
        access_quota_charge(quota, reserved_ns, 2000);
        access_quota_leave(quota, FAULT_NONE);
    }
    return NULL;
}

/* No charge is lost, and what was reserved has come back. */
TEST(threads)
{
    struct access_quota quota;
    pthread_t threads[THREADS];
    const int64_t used_ns = (int64_t)THREADS * ROUNDS * 2000;
    made(&quota, &(struct access_limits){ .cpu = 0.001, .burst_ns = SECOND });
    access_budget_correct(&quota.budget, SECOND, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &quota), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(quota.in_flight, 0);
    const double left_ns = quota.budget.level_ns - (double)(SECOND - used_ns);
    assert_true(left_ns >= 0 && left_ns < 100); /* the budget of ROUNDS ns is 20 */
    access_quota_free(&quota);
}
