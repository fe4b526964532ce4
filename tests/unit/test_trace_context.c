/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_context.c - traceparent and tracestate as W3C Trace Context has them, and the sampler.
 */
#include "telemetry/trace_context.h"
#include "test.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"
#define GOOD   "00-" TRACE "-" PARENT "-01"

static const struct trace_sampler ALL = { true, UINT64_C(1) << TRACE_RATIO_BITS };
static const struct trace_sampler NONE = { true, 0 };

static void expect_hex(const uint8_t *bytes, size_t size, const char *want)
{
    char hex[2 * TRACE_ID_BYTES + 1];
    *trace_hex(hex, bytes, size) = '\0';
    assert_string_equal(hex, want);
}

static bool is_sampled(const char *traceparent, struct trace_sampler sampler)
{
    struct trace_context context;
    trace_context_begin(&context, traceparent, &sampler);
    return context.flags & TRACE_FLAG_SAMPLED;
}

TEST(good)
{
    static const char *const TEXTS[] = { GOOD, "42-" TRACE "-" PARENT "-01",
                                         "fe-" TRACE "-" PARENT "-01-what-comes-later",
                                         GOOD " \t " };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        struct trace_context context = { .has_parent = false };
        if (!trace_context_read(&context, TEXTS[i]))
            fail_msg("%s", TEXTS[i]);
        expect_hex(context.trace_id, TRACE_ID_BYTES, TRACE);
        expect_hex(context.parent_id, SPAN_ID_BYTES, PARENT);
        assert_int_equal(context.flags, 1);
        assert_true(context.has_parent);
    }
}

/* A bad one changes nothing. */
TEST(bad)
{
    static const char *const TEXTS[] = {
        "",
        "00",
        "00-" TRACE "-" PARENT "-0",
        GOOD "-more",
        GOOD " more",
        GOOD " -",
        GOOD "0",
        "42-" TRACE "-" PARENT "-01x",
        "ff-" TRACE "-" PARENT "-01",
        "0x-" TRACE "-" PARENT "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01",
        "00-" TRACE "-B7AD6B7169203331-01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" TRACE "-" PARENT "_01",
        "00-" TRACE "-" PARENT "-0g",
        "00-" TRACE "-" PARENT "- 1",
        " " GOOD,
    };
    const struct trace_context before = { .flags = 7, .trace_id = { 1 } };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        struct trace_context context = before;
        if (trace_context_read(&context, TEXTS[i]))
            fail_msg("'%s' is taken", TEXTS[i]);
        assert_memory_equal(&context, &before, sizeof before);
    }
    struct trace_context context = before;
    assert_false(trace_context_read(&context, NULL));
}

TEST(begins)
{
    static const uint8_t ZEROS[TRACE_ID_BYTES];
    struct trace_context one, other;
    trace_context_begin(&one, GOOD, &ALL);
    expect_hex(one.trace_id, TRACE_ID_BYTES, TRACE);
    expect_hex(one.parent_id, SPAN_ID_BYTES, PARENT);
    trace_context_begin(&other, GOOD, &ALL);
    assert_memory_not_equal(one.span_id, other.span_id, SPAN_ID_BYTES);
    assert_memory_not_equal(one.span_id, one.parent_id, SPAN_ID_BYTES);
    trace_context_begin(&one, "nonsense", &ALL);
    trace_context_begin(&other, NULL, &ALL);
    assert_false(one.has_parent || other.has_parent);
    assert_memory_not_equal(one.trace_id, other.trace_id, TRACE_ID_BYTES);
    assert_memory_not_equal(one.trace_id, ZEROS, TRACE_ID_BYTES);
    assert_memory_equal(one.parent_id, ZEROS, SPAN_ID_BYTES);
}

TEST(sampler)
{
    static const char REFUSED[] = "00-" TRACE "-" PARENT "-00";
    assert_true(is_sampled(GOOD, ALL) && is_sampled(GOOD, NONE) && is_sampled(NULL, ALL));
    assert_false(is_sampled(REFUSED, ALL) || is_sampled(REFUSED, NONE) || is_sampled(NULL, NONE));
    const struct trace_sampler always = { false, ALL.bound }, never = { false, 0 };
    assert_true(is_sampled(REFUSED, always) && is_sampled(GOOD, always));
    assert_false(is_sampled(GOOD, never));
    struct trace_context context;
    trace_context_begin(&context, "00-" TRACE "-" PARENT "-02", &always);
    assert_int_equal(context.flags, 3); /* the other flags are the client's */
}

/* A quarter of all ids: those whose last 63 bits are in the lowest quarter. */
TEST(ratio)
{
    static const struct trace_sampler QUARTER = { false, UINT64_C(1) << (TRACE_RATIO_BITS - 2) };
    int count = 0;
    assert_true(is_sampled("00-ffffffffffffffff3fffffffffffffff-" PARENT "-00", QUARTER));
    assert_false(is_sampled("00-ffffffffffffffff4000000000000000-" PARENT "-00", QUARTER));
    for (int i = 0; i < 4000; i++)
        count += is_sampled(NULL, QUARTER);
    assert_in_range(count, 700, 1300); /* 11 standard deviations */
}

TEST(state)
{
    char out[TRACE_STATE_MAX + 1], text[TRACE_STATE_MAX + 64];
    assert_int_equal(trace_state_copy(out, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"), 39);
    assert_string_equal(out, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");
    assert_int_equal(trace_state_copy(out, "a=1 ,\tb=\"2\""), 11);
    assert_int_equal(trace_state_copy(out, NULL), 0);
    assert_string_equal(out, "");
    assert_int_equal(trace_state_copy(out, "a=1\nb"), 0);
    assert_int_equal(trace_state_copy(out, "a=\xC3\xA9"), 0);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(trace_state_copy(out, text), 0);
    text[TRACE_STATE_MAX] = '\0';
    assert_int_equal(trace_state_copy(out, text), TRACE_STATE_MAX);
    text[TRACE_STATE_MAX] = ',';
    assert_int_equal(trace_state_copy(out, text), TRACE_STATE_MAX);
    text[TRACE_STATE_MAX] = 'x';
    text[TRACE_STATE_MAX + 1] = ',';
    text[3] = ',';
    assert_int_equal(trace_state_copy(out, text), 3);
    assert_string_equal(out, "xxx");
}
