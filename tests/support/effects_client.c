/* SPDX-License-Identifier: Apache-2.0 */
/* effects_client.c - see effects_client.h. */
#include "effects_client.h"

#include "answer.h"
#include "request_text.h"
#include "test.h"

static bool is_beside; /* layers of the case have no feed-forward of their own */

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* The value of the metric in a trace with these edits. */
static float traced_value(const struct effects_case *of, const char *edits)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",%s", of->model, of->input);
    request_text_add(&body, ",\"layers\":[],\"outputs\":[\"predictions\"],\"targets\":[{%s}]",
                     of->metric);
    request_text_add(&body, ",\"edits\":[%s%s%s]}", of->edits, *of->edits && *edits ? "," : "",
                     edits);
    cJSON *answer = answer_post(of->client, "/v1/trace", body.data);
    const cJSON *target = cJSON_GetArrayItem(member(answer, "targets"), 0);
    const cJSON *difference = member(target, "logit_difference");
    const float value =
        (float)cJSON_GetNumberValue(difference ? difference : member(target, "logprob"));
    cJSON_Delete(answer);
    free(body.data);
    return value;
}

static cJSON *ask(const struct effects_case *of, const char *each, const char *by)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",%s", of->model, of->input);
    request_text_add(&body, ",\"metric\":{%s},\"each\":%s,\"by\":\"%s\"", of->metric, each, by);
    request_text_add(&body, ",\"edits\":[%s]", of->edits);
    if (of->kind)
        request_text_add(&body, ",\"kind\":\"%s\"", of->kind);
    if (strcmp(by, "from") == 0)
        request_text_add(&body, ",\"other\":{%s}", of->other);
    request_text_add(&body, "}");
    cJSON *answer = answer_post(of->client, "/v1/effects", body.data);
    free(body.data);
    return answer;
}

/* The id of a kept trace of the other input. */
static void keep_other(const struct effects_case *of, char id[80])
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",%s,\"outputs\":[],\"keep\":\"1m\",\"states\":true}",
                     of->model, of->other);
    cJSON *answer = answer_post(of->client, "/v1/trace", body.data);
    snprintf(id, 80, "%s", cJSON_GetStringValue(member(answer, "trace")));
    cJSON_Delete(answer);
    free(body.data);
}

/* Returns whether there is an effect. */
static bool expect_effect(const struct effects_case *of, const cJSON *effect, float base,
                          const char *edits)
{
    const float got = (float)cJSON_GetNumberValue(effect);
    const float want = traced_value(of, edits) - base;
    if (memcmp(&got, &want, sizeof got) != 0)
        fail_msg("%s: %s: the effect is %.9g, and traces differ by %.9g", of->model, edits,
                 (double)got, (double)want);
    return got != 0;
}

/* An edit at a place of a layer. */
static void add_edit(struct request_text *edits, const struct effects_case *of, int layer,
                     const char *at, const char *members, const char *action)
{
    request_text_add(edits, "%s{\"layers\":[%d],\"at\":\"%s\"%s,%s", edits->data ? "," : "", layer,
                     at, members, action);
    if (of->kind)
        request_text_add(edits, ",\"kind\":\"%s\"", of->kind);
    request_text_add(edits, "}");
}

/* Edits of the variant of that number in a layer. */
static void make_edits(struct request_text *edits, const struct effects_case *of, const char *each,
                       int layer, int number, const char *action)
{
    char members[40] = "";
    if (strcmp(each, "\"heads\"") == 0) {
        snprintf(members, sizeof members, ",\"heads\":[%d]", number);
        add_edit(edits, of, layer, "head", members, action);
    } else if (strcmp(each, "\"layers\"") == 0) {
        add_edit(edits, of, layer, "attention_output", members, action);
        if (!is_beside && (!of->kind || strcmp(of->kind, "cross") != 0))
            add_edit(edits, of, layer, "feed_forward", members, action);
    } else if (strcmp(each, "\"feed_forwards\"") == 0) {
        add_edit(edits, of, layer, "feed_forward", members, action);
    } else {
        snprintf(members, sizeof members, ",\"rows\":[%d]", number);
        add_edit(edits, of, layer, "hidden_states", members, action);
    }
}

int effects_client_expect_one(const struct effects_case *of, const char *each, const char *by)
{
    char id[80], action[140];
    snprintf(action, sizeof action, strcmp(by, "mean") == 0 ? "\"mean\":true" : "\"scale\":0");
    if (strcmp(by, "from") == 0) {
        keep_other(of, id);
        snprintf(action, sizeof action, "\"from\":{\"trace\":\"%s\"}", id);
    }
    cJSON *answer = ask(of, each, by);
    const cJSON *layers = member(answer, "layers"), *effects = member(answer, "effects");
    const float base = traced_value(of, "");
    assert_true(base == (float)cJSON_GetNumberValue(member(member(answer, "base"), "value")));
    assert_int_equal(cJSON_GetArraySize(effects), cJSON_GetArraySize(layers));
    assert_true(cJSON_GetArraySize(layers) > 0);
    int changed = 0;
    for (int i = 0; i < cJSON_GetArraySize(layers); i++) {
        const cJSON *of_layer = cJSON_GetArrayItem(effects, i);
        const int count = cJSON_IsArray(of_layer) ? cJSON_GetArraySize(of_layer) : 1;
        for (int k = 0; k < count; k++) {
            struct request_text edits = { .data = NULL };
            make_edits(&edits, of, each, cJSON_GetArrayItem(layers, i)->valueint, k, action);
            changed += expect_effect(
                of, cJSON_IsArray(of_layer) ? cJSON_GetArrayItem(of_layer, k) : of_layer, base,
                edits.data);
            free(edits.data);
        }
    }
    cJSON_Delete(answer);
    return changed;
}

void effects_client_expect(const struct effects_case *of)
{
    static const char *const EACH[] = { "\"heads\"", "\"layers\"", "\"feed_forwards\"",
                                        "{\"rows_of_layers\":true}" };
    static const char *const BY[] = { "scale", "mean", "from" };
    const bool is_cross = of->kind && strcmp(of->kind, "cross") == 0;
    for (int i = 0; i < (is_cross ? 2 : 4); i++)
        for (int k = 0; k < (of->other ? 3 : 2); k++)
            assert_true(effects_client_expect_one(of, EACH[i], BY[k]) > 0);
}

void effects_client_expect_beside(const struct effects_case *of)
{
    static const char *const BY[] = { "scale", "mean", "from" };
    is_beside = true;
    for (int i = 0; i < 3; i++)
        assert_true(effects_client_expect_one(of, "\"layers\"", BY[i]) > 0);
    is_beside = false;
}

void effects_client_expect_hidden(const struct effects_case *of, const int (*spans)[2], int count,
                                  const char *const *kinds)
{
    struct request_text each = { .data = NULL };
    request_text_add(&each, "{\"spans\":[");
    for (int i = 0; i < count; i++)
        request_text_add(&each, "%s[%d,%d]", i > 0 ? "," : "", spans[i][0], spans[i][1]);
    request_text_add(&each, "]}");
    cJSON *answer = ask(of, each.data, "hide");
    const float base = traced_value(of, "");
    assert_int_equal(cJSON_GetArraySize(member(answer, "effects")), count);
    for (int i = 0; i < count; i++) {
        struct request_text edits = { .data = NULL };
        for (int k = 0; kinds[k]; k++)
            request_text_add(&edits, "%s{\"kind\":\"%s\",\"hide\":[[%d,%d]]}", k > 0 ? "," : "",
                             kinds[k], spans[i][0], spans[i][1]);
        expect_effect(of, cJSON_GetArrayItem(member(answer, "effects"), i), base, edits.data);
        free(edits.data);
    }
    free(each.data);
    cJSON_Delete(answer);
}

void effects_client_expect_kinds(struct http_client *client, const char *model, const char *input,
                                 int position)
{
    char metric[80];
    cJSON *description, *layer;
    const char *before = "";
    snprintf(metric, sizeof metric, "\"position\":%d,\"token\":1,\"against\":2", position);
    struct request_text path = { .data = NULL };
    request_text_add(&path, "/v1/models/%s", model);
    description = answer_get(client, path.data);
    cJSON_ArrayForEach(layer, cJSON_GetObjectItemCaseSensitive(description, "layers")) {
        const char *kind = cJSON_GetStringValue(member(layer, "kind"));
        const bool is_cross = strcmp(kind, "cross") == 0;
        const struct effects_case of = { client, model, input, NULL, kind, "", metric };
        if (strcmp(kind, before) == 0)
            continue;
        before = kind;
        effects_client_expect_one(&of, "\"heads\"", "scale");
        effects_client_expect_one(&of, "\"layers\"", "mean");
        if (is_cross)
            continue;
        effects_client_expect_one(&of, "\"feed_forwards\"", "scale");
        effects_client_expect_one(&of, "{\"rows_of_layers\":true}", "scale");
    }
    cJSON_Delete(description);
    free(path.data);
}
