/* SPDX-License-Identifier: Apache-2.0 */
/* edited_laws.c - see edited_laws.h. */
#include "edited_laws.h"
#include "test.h"

#include "answer.h"
#include "request_text.h"
#include "trace_client.h"

enum { KINDS_MAX = 4 };

#define ALL_OUTPUTS                                                                                \
    "\"outputs\":[\"weights\",\"lse\",\"scores\",\"masked\",\"inputs\",\"hidden_states\","         \
    "\"attention_output\"]"

/* The model that is looked at. */
struct subject {
    struct http_client *client;
    const char *model, *fields;
    cJSON *plain; /* the pass without edits */
    const char *kinds[KINDS_MAX];
    int kind_count;
};

static cJSON *trace(const struct subject *subject, const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",", subject->model);
    request_text_add(&body, "%s,", subject->fields);
    request_text_add(&body, "%s}", more);
    cJSON *answer = answer_post(subject->client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

static cJSON *trace_edited(const struct subject *subject, const char *edits)
{
    struct request_text more = { .data = NULL };
    request_text_add(&more, ALL_OUTPUTS ",\"edits\":%s", edits);
    cJSON *answer = trace(subject, more.data);
    free(more.data);
    return answer;
}

static const cJSON *layers_of(const cJSON *answer)
{
    return cJSON_GetObjectItemCaseSensitive(answer, "layers");
}

static const char *kind_of(const cJSON *layer)
{
    return cJSON_GetObjectItemCaseSensitive(layer, "kind")->valuestring;
}

static int number_of(const cJSON *layer)
{
    return cJSON_GetObjectItemCaseSensitive(layer, "layer")->valueint;
}

static void find_kinds(struct subject *subject)
{
    const cJSON *layer;
    cJSON_ArrayForEach(layer, layers_of(subject->plain)) {
        int i = 0;
        while (i < subject->kind_count && strcmp(subject->kinds[i], kind_of(layer)) != 0)
            i++;
        assert_true(i < KINDS_MAX);
        subject->kinds[i] = kind_of(layer);
        subject->kind_count = i == subject->kind_count ? i + 1 : subject->kind_count;
    }
}

/* ------------------------------------------------------------ what changes nothing -- */

static void expect_nothing(const struct subject *subject, const char *edits)
{
    cJSON *edited = trace_edited(subject, edits);
    if (!cJSON_Compare(edited, subject->plain, true))
        fail_msg("%s: these edits change something: %s", subject->model, edits);
    cJSON_Delete(edited);
}

static const char *const PLACES[] = { "head", "attention_output", "feed_forward", "hidden_states",
                                      "embeddings" };
enum { PLACE_COUNT = sizeof PLACES / sizeof PLACES[0], CROSS_PLACE_COUNT = 2 };

/* The columns of a row that enters a layer of the kind. */
static int width_of(const struct subject *subject, const char *kind)
{
    const cJSON *layer;
    cJSON_ArrayForEach(layer, layers_of(subject->plain)) {
        const cJSON *rows = cJSON_GetObjectItemCaseSensitive(layer, "attention_output");
        if (strcmp(kind_of(layer), kind) == 0)
            return cJSON_GetArraySize(cJSON_GetArrayItem(rows, 0));
    }
    return 0;
}

static void add_zeros(struct request_text *text, int count)
{
    for (int i = 0; i < count; i++)
        request_text_add(text, i > 0 ? ",0" : "[0");
    request_text_add(text, "]");
}

static void expect_kind_unchanged(const struct subject *subject, const char *kind, const char *kept)
{
    const int places = strcmp(kind, "cross") == 0 ? CROSS_PLACE_COUNT : PLACE_COUNT;
    struct request_text edits = { .data = NULL }, from = { .data = NULL };
    request_text_add(&edits, "[{\"kind\":\"%s\",\"hide\":[]}", kind);
    request_text_add(&edits, ",{\"kind\":\"%s\",\"layers\":[],\"weights\":\"uniform\"}", kind);
    for (int i = 0; i < places; i++) {
        request_text_add(&edits, ",{\"kind\":\"%s\",\"at\":\"%s\",\"scale\":1}", kind, PLACES[i]);
        request_text_add(&edits, ",{\"kind\":\"%s\",\"at\":\"%s\",\"rows\":[],\"scale\":0}", kind,
                         PLACES[i]);
        request_text_add(&from, "%c{\"kind\":\"%s\",\"at\":\"%s\",", i > 0 ? ',' : '[', kind,
                         PLACES[i]);
        request_text_add(&from, "\"from\":{\"trace\":\"%s\"}}", kept);
        if (i == 0)
            continue;
        request_text_add(&edits, ",{\"kind\":\"%s\",\"at\":\"%s\",\"add\":", kind, PLACES[i]);
        add_zeros(&edits, width_of(subject, kind));
        request_text_add(&edits, "}");
    }
    request_text_add(&edits, "]");
    request_text_add(&from, "]");
    expect_nothing(subject, edits.data);
    expect_nothing(subject, from.data);
    free(edits.data);
    free(from.data);
}

/* -------------------------------------------------------------------- what stays -- */

/* The block of a layer within its kind. */
static int block_of(const struct subject *subject, const cJSON *wanted)
{
    const cJSON *layer;
    int block = 0;
    cJSON_ArrayForEach(layer, layers_of(subject->plain))
        block +=
            strcmp(kind_of(layer), kind_of(wanted)) == 0 && number_of(layer) < number_of(wanted);
    return block;
}

/* Whether what comes into and out of the weights of a layer cannot depend on another's. */
static bool is_before(const struct subject *subject, const cJSON *layer, const cJSON *edited)
{
    const bool is_same = strcmp(kind_of(layer), kind_of(edited)) == 0;
    const bool is_encoder = strcmp(kind_of(layer), "encoder") == 0;
    const int block = block_of(subject, layer), end = block_of(subject, edited);
    if (is_same || strcmp(kind_of(edited), "self") == 0)
        return block < end;
    if (is_encoder)
        return true; /* of an edit of the decoder or of cross attention */
    if (strcmp(kind_of(edited), "encoder") == 0)
        return strcmp(kind_of(layer), "decoder") == 0 && block == 0;
    if (strcmp(kind_of(edited), "cross") == 0)
        return block <= end;
    return strcmp(kind_of(edited), "decoder") != 0 || block < end;
}

static void expect_below(const struct subject *subject, const cJSON *at)
{
    char edits[160];
    const cJSON *layer;
    int i = 0, changed = 0;
    snprintf(edits, sizeof edits, "[{\"kind\":\"%s\",\"layers\":[%d],\"scale\":0}]", kind_of(at),
             number_of(at));
    cJSON *edited = trace_edited(subject, edits);
    cJSON_ArrayForEach(layer, layers_of(subject->plain)) {
        const bool is_equal =
            cJSON_Compare(cJSON_GetArrayItem(layers_of(edited), i++), layer, true);
        if (is_before(subject, layer, at) && !is_equal)
            fail_msg("%s: layer %d changes with %s", subject->model, number_of(layer), edits);
        changed += !is_equal;
    }
    if (changed == 0)
        fail_msg("%s: nothing changes with %s", subject->model, edits);
    cJSON_Delete(edited);
}

void edited_laws_expect(struct http_client *client, const char *model, const char *fields)
{
    struct subject subject = { .client = client, .model = model, .fields = fields };
    const cJSON *layer;
    subject.plain = trace(&subject, ALL_OUTPUTS);
    cJSON *kept = trace(&subject, "\"outputs\":[],\"keep\":\"1m\",\"states\":true");
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, "trace"));
    find_kinds(&subject);
    expect_nothing(&subject, "[]");
    expect_nothing(&subject, "null");
    for (int i = 0; i < subject.kind_count; i++)
        expect_kind_unchanged(&subject, subject.kinds[i], id);
    cJSON_ArrayForEach(layer, layers_of(subject.plain))
        expect_below(&subject, layer);
    cJSON_Delete(kept);
    cJSON_Delete(subject.plain);
}

/* --------------------------------------------------------------------- a prefix -- */

static const cJSON *rows_of(const cJSON *answer, const char *name)
{
    const cJSON *first = cJSON_GetArrayItem(layers_of(answer), 0);
    return cJSON_GetObjectItemCaseSensitive(name ? answer : first, name ? name : "hidden_states");
}

/* Whether row i of the one is row i + first of the other, each number within tolerance. */
static bool are_rows(const cJSON *rows, const cJSON *whole, int first, double tolerance)
{
    for (int i = 0; i < cJSON_GetArraySize(rows); i++) {
        const cJSON *row = cJSON_GetArrayItem(rows, i), *number;
        const cJSON *other = cJSON_GetArrayItem(cJSON_GetArrayItem(whole, first + i), 0);
        double sum = 0;
        cJSON_ArrayForEach(number, row)
            sum += fabs(number->valuedouble);
        cJSON_ArrayForEach(number, row) {
            if (!(fabs(number->valuedouble - other->valuedouble) <= tolerance * (1 + sum)))
                return false;
            other = other->next;
        }
    }
    return true;
}

/* Whether the first layer's scores depend on the positions of query and key themselves. */
static bool scores_positions(struct http_client *client, const char *model)
{
    char path[256];
    snprintf(path, sizeof path, "/v1/models/%s", model);
    cJSON *answer = answer_get(client, path);
    const cJSON *layer = cJSON_GetArrayItem(layers_of(answer), 0);
    const cJSON *options = cJSON_GetObjectItemCaseSensitive(layer, "options");
    const cJSON *norm = cJSON_GetObjectItemCaseSensitive(options, "q_norm");
    const cJSON *rope = cJSON_GetObjectItemCaseSensitive(options, "rope");
    const bool scores = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(norm, "after_rope"))
                        || cJSON_GetObjectItemCaseSensitive(rope, "query_growth") != NULL;
    cJSON_Delete(answer);
    return scores;
}

void edited_laws_expect_prefix(struct http_client *client, const char *model, const int *ids,
                               int64_t count)
{
    enum { PREFIX = 2 };
    char list[1024], whole_fields[1100], fields[1100], edits[200];
    const struct subject subject = { .client = client, .model = model, .fields = whole_fields };
    const struct subject behind = { .client = client, .model = model, .fields = fields };
    if (scores_positions(client, model))
        return;
    snprintf(whole_fields, sizeof whole_fields, "\"tokens\":%s",
             trace_client_list(list, sizeof list, ids, count));
    snprintf(fields, sizeof fields, "\"tokens\":%s",
             trace_client_list(list, sizeof list, ids + PREFIX, count - PREFIX));
    snprintf(edits, sizeof edits, "[{\"hide\":[[0,%d]],\"rows\":[[%d,%d]]}]", PREFIX, PREFIX,
             (int)count);
    cJSON *alone = trace_edited(&behind, "[]"), *whole = trace_edited(&subject, edits);
    if (are_rows(rows_of(alone, NULL), rows_of(whole, NULL), PREFIX, 0)) {
        print_message("%s: a hidden prefix\n", model);
        if (!are_rows(rows_of(alone, "final_hidden_states"), rows_of(whole, "final_hidden_states"),
                      PREFIX, 1e-5))
            fail_msg("%s: a hidden prefix is seen", model);
    }
    cJSON_Delete(alone);
    cJSON_Delete(whole);
}
