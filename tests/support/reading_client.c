/* reading_client.c - see reading_client.h. */
#include "reading_client.h"
#include "test.h"

#include "answer.h"
#include "fixture.h"
#include "request_text.h"

static const double TOLERANCE = 1e-5;

static cJSON *trace(const char *model, const char *fields, const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",", model);
    request_text_add(&body, "%s,", fields);
    request_text_add(&body, "%s}", more);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

/* -------------------------------------------------------------- statistics -- */

/* Over the rows whose token stood before: the mean of the weights of the keys that come ahead keys
 * behind each of them. */
static double repeated(const double *weights, const int *tokens, int64_t count, int ahead)
{
    double sum = 0;
    int64_t rows = 0;
    for (int64_t i = 0; i < count; i++) {
        bool is_repeated = false;
        for (int64_t j = 0; j < i; j++) {
            if (tokens[j] != tokens[i])
                continue;
            is_repeated = true;
            sum += weights[i * count + j + ahead];
        }
        rows += is_repeated;
    }
    return rows > 0 ? sum / (double)rows : NAN;
}

static void expect_heads(const cJSON *layer, const char *name, int ahead, const int *tokens,
                         int64_t count, const struct forward_layer *want)
{
    const cJSON *heads = cJSON_GetObjectItemCaseSensitive(layer, name);
    assert_int_equal(cJSON_GetArraySize(heads), want->heads);
    for (int64_t h = 0; h < want->heads; h++) {
        const cJSON *got = cJSON_GetArrayItem(heads, (int)h);
        const double number =
            repeated(want->maps.weights + h * count * count, tokens, count, ahead);
        if (isnan(number))
            assert_true(cJSON_IsNull(got));
        else if (!cJSON_IsNumber(got) || !(fabs(got->valuedouble - number) <= TOLERANCE))
            fail_msg("%s of head %d is %.9g, not %.9g", name, (int)h, got->valuedouble, number);
    }
}

void reading_client_expect_repeats(const char *model, const char *fields, const int *tokens,
                                   int64_t count, const struct forward *want)
{
    char path[160];
    cJSON *kept = trace(model, fields, "\"outputs\":[],\"keep\":\"1m\"");
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, "trace"));
    assert_non_null(id);
    snprintf(path, sizeof path, "/v1/traces/%s/statistics", id);
    cJSON *answer = answer_get(&client, path);
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(answer, "layers");
    assert_int_equal(cJSON_GetArraySize(layers), want->layer_count);
    for (int i = 0; i < want->layer_count; i++) {
        const cJSON *layer = cJSON_GetArrayItem(layers, i);
        expect_heads(layer, "duplicate", 0, tokens, count, &want->layers[i]);
        expect_heads(layer, "induction", 1, tokens, count, &want->layers[i]);
    }
    cJSON_Delete(answer);
    cJSON_Delete(kept);
}
