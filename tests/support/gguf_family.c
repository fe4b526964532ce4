/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_family.c - see gguf_family.h. */
#include "gguf_family.h"
#include "test.h"

#include "answer.h"
#include "fixture.h"
#include "published.h"

/* ------------------------------------------------------------------ comparing -- */

static int64_t compared;

/* Both are the same but for the model's name. */
static void expect_same(const cJSON *one, const cJSON *other, double tolerance, const char *where)
{
    if (cJSON_IsNumber(one) && cJSON_IsNumber(other)) {
        const double a = one->valuedouble, b = other->valuedouble;
        compared++;
        if (fabs(a - b) > tolerance * (1 + fabs(a)))
            fail_msg("%s: %s is %.9g, not %.9g", where, one->string ? one->string : "an item", b,
                     a);
        return;
    }
    if (one->type != other->type)
        fail_msg("%s: %s is of another type", where, one->string ? one->string : "an item");
    if (cJSON_IsString(one)) {
        if (!one->string || strcmp(one->string, "model") != 0)
            assert_string_equal(one->valuestring, other->valuestring);
        return;
    }
    const cJSON *a = one->child, *b = other->child;
    for (; a && b; a = a->next, b = b->next) {
        if (a->string && strcmp(a->string, b->string) != 0)
            fail_msg("%s: '%s' in place of '%s'", where, b->string, a->string);
        expect_same(a, b, tolerance, where);
    }
    assert_true(!a && !b);
}

static cJSON *trace(const char *model, const char *fields, bool has_no_head)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"model\":\"%s\",%s,\"outputs\":[\"weights\",\"lse\",\"inputs\",\"hidden_states\","
             "\"attention_output\"%s}",
             model, fields ? fields : "\"tokens\":[5,3,39,8,1,0,17,3]",
             has_no_head ? "]" : ",\"predictions\"],\"top_k_tokens\":5");
    return answer_post(&client, "/v1/trace", body);
}

void gguf_family_compare(const char *model, const char *twin, const char *fields, bool has_no_head,
                         double tolerance)
{
    cJSON *one = trace(model, fields, has_no_head), *other = trace(twin, fields, has_no_head);
    compared = 0;
    expect_same(one, other, tolerance, twin);
    assert_true(compared > 500);
    cJSON_Delete(one);
    cJSON_Delete(other);
}

/* Serves the checkpoint in both forms. */
void gguf_family_check(const struct gguf_family *family)
{
    char name[64], file[80];
    snprintf(name, sizeof name, "%s_gguf", family->name);
    snprintf(file, sizeof file, "%s.gguf", name);
    published_open(family->config, family->tensors, family->twin.layers, "F32");
    published_save(fixture_path(family->name), family->config);
    gguf_twin_write(&family->twin, fixture_path(file));
    published_close();
    fixture_serve("--models", directory);
    gguf_family_compare(family->name, name, family->fields, family->has_no_head, family->tolerance);
    fixture_stop(NULL);
}
