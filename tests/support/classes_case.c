/* SPDX-License-Identifier: Apache-2.0 */
/* classes_case.c - see classes_case.h. */
#include "classes_case.h"
#include "test.h"

#include "answer.h"
#include "fixture.h"
#include "request_text.h"

/* Of a row of logits, relative in the 2-norm; of a probability. */
static const double TOLERANCE = 1e-5, PROBABILITY_TOLERANCE = 1e-5;

const cJSON *classes_case_member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!found)
        fail_msg("there is no %s", name);
    return found;
}

static cJSON *trace(const char *model, const char *fields, const char *output)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, JSON({"model":"%s","layers":[],"outputs":["%s"],%s}), model, output,
                                  fields);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

struct rows classes_case_rows(const char *model, const char *fields)
{
    cJSON *answer = trace(model, fields, "hidden_states");
    const cJSON *list = classes_case_member(answer, "final_hidden_states");
    const int64_t shape[] = { cJSON_GetArraySize(list), cJSON_GetArraySize(list->child) };
    double *numbers = answer_numbers(answer, "final_hidden_states", 2, shape);
    const struct rows rows = published_rows(shape[0], shape[1]);
    memcpy(rows.data, numbers, (size_t)(shape[0] * shape[1]) * sizeof *numbers);
    free(numbers);
    cJSON_Delete(answer);
    return rows;
}

static double activated(const char *activation, const double *logits, int64_t count, int64_t i)
{
    double sum = 0;
    if (strcmp(activation, "sigmoid") == 0)
        return 1 / (1 + exp(-logits[i]));
    for (int64_t k = 0; k < count; k++)
        sum += exp(logits[k] - logits[i]);
    return 1 / sum;
}

static void expect_probabilities(const cJSON *answer, const char *activation, int rank,
                                 const int64_t *shape, const double *logits)
{
    const int64_t count = shape[rank - 1], inputs = rank == 2 ? shape[0] : 1;
    if (strcmp(activation, "none") == 0) {
        assert_null(cJSON_GetObjectItemCaseSensitive(answer, "probabilities"));
        return;
    }
    double *got = answer_numbers(answer, "probabilities", rank, shape);
    for (int64_t i = 0; i < inputs * count; i++) {
        const double want = activated(activation, logits + i / count * count, count, i % count);
        if (!(fabs(got[i] - want) <= PROBABILITY_TOLERANCE))
            fail_msg("probability %d is %.9g, not %.9g", (int)i, got[i], want);
    }
    free(got);
}

void classes_case_expect(const char *model, const char *fields, const struct classes_case *of,
                         struct rows want)
{
    cJSON *answer = trace(model, fields, "logits");
    const int64_t shapes[] = { want.count, want.columns };
    const int rank = of->is_of_rows ? 2 : 1;
    const int64_t *shape = shapes + 2 - rank;
    double *got = answer_numbers(answer, "logits", rank, shape), sum = 0, norm = 0;
    for (int64_t i = 0; i < want.count * want.columns; i++) {
        sum += (got[i] - want.data[i]) * (got[i] - want.data[i]);
        norm += want.data[i] * want.data[i];
    }
    print_message("%s: logits %.1e\n", model, sqrt(sum / norm));
    if (!(sum <= TOLERANCE * TOLERANCE * norm))
        fail_msg("%s: logits differ by %.3g of their norm", model, sqrt(sum / norm));
    char activation[32];
    snprintf(activation, sizeof activation, "\"%s\"", of->activation);
    answer_expect(answer, "labels", of->labels, 0);
    answer_expect(answer, "activation", activation, 0);
    expect_probabilities(answer, of->activation, rank, shape, want.data);
    free(got);
    cJSON_Delete(answer);
}

void classes_case_check(const char *name, const char *config, const char *tensors,
                        const char *fields, const struct classes_case *of,
                        struct rows (*head)(struct rows rows))
{
    published_open(config, tensors, 2, "F32");
    published_save(fixture_path(name), config);
    fixture_serve("--models", directory);
    classes_case_expect(name, fields, of, head(classes_case_rows(name, fields)));
    fixture_stop(NULL);
    published_close();
}
