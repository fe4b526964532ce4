/* SPDX-License-Identifier: Apache-2.0 */
/* published_client.c - see published_client.h. */
#include "published_client.h"
#include "test.h"

void published_add_rows(struct request_text *text, const char *name, struct rows rows)
{
    float *numbers = malloc((size_t)(rows.count * rows.columns) * sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < rows.count * rows.columns; i++)
        numbers[i] = (float)rows.data[i];
    request_text_add(text, ",\"%s\":", name);
    request_text_matrix(text, numbers, rows.count, rows.columns);
    free(numbers);
}

void published_expect_near(const cJSON *answer, const char *name, int rank, const int64_t *shape,
                           const double *want)
{
    int64_t count = 1;
    double *got = answer_numbers(answer, name, rank, shape);
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-5 * (1 + fabs(want[i]))))
            fail_msg("%s[%d] is %.9g, not %.9g", name, (int)i, got[i], want[i]);
    free(got);
}

void published_expect_answer(struct http_client *client, const char *model, int layer,
                             struct rows query, struct rows key, const char *more,
                             const struct published_answer *want, int64_t heads)
{
    struct request_text body = { .data = NULL };
    const int64_t context[] = { query.count, want->context.columns };
    const int64_t weights[] = { heads, query.count, key.count };
    request_text_add(&body, "{\"model\":\"%s\",\"layer\":%d", model, layer);
    published_add_rows(&body, "query", query);
    published_add_rows(&body, "key", key);
    request_text_add(&body, "%s}", more);
    cJSON *answer = answer_post(client, "/v1/attention", body.data);
    published_expect_near(answer, "context", 2, context, want->context.data);
    published_expect_near(answer, "weights", 3, weights, want->weights);
    cJSON_Delete(answer);
    free(body.data);
}
