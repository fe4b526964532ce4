/* SPDX-License-Identifier: Apache-2.0 */
/* test_span_answer.c - what a collector's answer says of the spans. */
#include "telemetry/span_answer.h"
#include "test.h"

static void expect_rejected(const char *body, uint64_t count, const char *want)
{
    char message[SPAN_ANSWER_MESSAGE_MAX];
    assert_int_equal(span_answer_rejected(body, strlen(body), message), count);
    assert_string_equal(message, want);
}

TEST(partial_success)
{
    expect_rejected("{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"late\"}}", 3,
                    "late");
    expect_rejected(JSON({"partialSuccess":{"rejectedSpans":12}}), 12, "");
    expect_rejected(JSON({"partialSuccess":{"errorMessage":"a warning"}}), 0, "a warning");
    expect_rejected(JSON({"partialSuccess":{}}), 0, "");
    expect_rejected(JSON({"partialSuccess":null}), 0, "");
    expect_rejected(JSON({"partialSuccess":{"rejectedSpans":-1}}), 0, "");
    expect_rejected(JSON({"partialSuccess":{"rejectedSpans":"x","errorMessage":1}}), 0, "");
    expect_rejected(JSON({"partialSuccess":[3]}), 0, "");
    expect_rejected("{}", 0, "");
    expect_rejected("[]", 0, "");
    expect_rejected("3", 0, "");
    expect_rejected("", 0, "");
    expect_rejected("{\"partialSuccess\":{\"rejectedSpans\":\"3\"}", 0, "");
    expect_rejected("\n\x08\x01", 0, ""); /* protobuf */
}

TEST(statuses)
{
    for (int status = 200; status < 600; status++) {
        const bool again = status == 429 || status == 502 || status == 503 || status == 504;
        assert_int_equal(span_answer_is_again(status), again);
        assert_int_equal(span_answer_is_taken(status), status < 300);
    }
}
