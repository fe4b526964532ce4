/* SPDX-License-Identifier: Apache-2.0 */
/* forward_edits.c - see forward_edits.h. */
#include "forward_edits.h"
#include "test.h"

#include "forward_parts.h"
#include "forward_reference.h"
#include "request_text.h"

#include <cjson/cJSON.h>

static struct {
    cJSON *list; /* NULL: no edits */
    const char *kind;
    int layer;
    int64_t head_dim, head_dims[FORWARD_LAYERS_MAX]; /* of the last attention; of each layer's */
    int layers;
    int64_t q_len;
} now;

void forward_edits_set(const char *edits)
{
    cJSON_Delete(now.list);
    now.list = NULL;
    if (!edits)
        return;
    now.list = cJSON_Parse(edits);
    if (!cJSON_IsArray(now.list))
        fail_msg("no list of edits: %s", edits);
}

/* -------------------------------------------------------------- one edit -- */

static const cJSON *member(const cJSON *edit, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(edit, name);
}

/* Whether a list of numbers and of ranges [first, end) has the number; negative numbers count from
 * length. Absent and "all": all. */
static bool has(const cJSON *list, int64_t number, int64_t length)
{
    const cJSON *item;
    if (!list || cJSON_IsString(list))
        return true;
    cJSON_ArrayForEach(item, list) {
        if (cJSON_IsArray(item) && number >= (int64_t)cJSON_GetArrayItem(item, 0)->valuedouble
            && number < (int64_t)cJSON_GetArrayItem(item, 1)->valuedouble)
            return true;
        const int64_t one = cJSON_IsNumber(item) ? (int64_t)item->valuedouble : length;
        if (number == (one < 0 ? one + length : one))
            return true;
    }
    return false;
}

static bool is_at(const cJSON *edit, const char *place, const char *kind, int layer)
{
    const cJSON *at = member(edit, "at"), *own = member(edit, "kind");
    return strcmp(at ? at->valuestring : "head", place) == 0
           && (!own || strcmp(own->valuestring, kind) == 0)
           && has(member(edit, "layers"), layer, layer + 1);
}

/* How many of the rows before this one the edit has. */
static int place_of(const cJSON *edit, int64_t row, int64_t length)
{
    int place = 0;
    for (int64_t i = 0; i < row; i++)
        place += has(member(edit, "rows"), i, length);
    return place;
}

static double number_at(const cJSON *list, int64_t i)
{
    const cJSON *item = cJSON_GetArrayItem(list, (int)i);
    assert_non_null(item);
    return item->valuedouble;
}

/* Columns [first, first + count) of one row. */
static void change(const cJSON *edit, struct rows x, const double *mean, int64_t row, int64_t first,
                   int64_t count)
{
    const cJSON *scale = member(edit, "scale"), *add = member(edit, "add");
    const cJSON *set = member(edit, "set"), *times = member(edit, "times");
    const bool is_mean = member(edit, "mean");
    if (set)
        set = cJSON_GetArrayItem(set, place_of(edit, row, x.count));
    for (int64_t c = 0; c < count; c++) {
        double *number = x.data + row * x.columns + first + c;
        if (scale)
            *number *= scale->valuedouble;
        if (add)
            *number += (times ? times->valuedouble : 1) * number_at(add, c);
        if (set)
            *number = number_at(set, c);
        if (is_mean)
            *number = mean[c];
    }
}

static void apply(const cJSON *edit, struct rows x, int64_t first, int64_t count)
{
    const struct rows mean = published_rows(1, count);
    for (int64_t row = 0; row < x.count; row++)
        for (int64_t c = 0; c < count; c++)
            mean.data[c] += x.data[row * x.columns + first + c] / (double)x.count;
    for (int64_t row = 0; row < x.count; row++)
        if (has(member(edit, "rows"), row, x.count))
            change(edit, x, mean.data, row, first, count);
}

static struct rows edited(const char *place, const char *kind, int layer, struct rows x)
{
    const cJSON *edit;
    if (!now.list)
        return x;
    x = forward_slice(x, 0, x.count);
    cJSON_ArrayForEach(edit, now.list) {
        if (is_at(edit, place, kind, layer))
            apply(edit, x, 0, x.columns);
    }
    return x;
}

/* ------------------------------------------------------------------ rows -- */

struct rows forward_edits_enter(const char *kind, int block, int layer, struct rows x)
{
    struct rows entering = block == 0 ? edited("embeddings", kind, layer, x) : x;
    entering = edited("hidden_states", kind, layer, entering);
    return forward_parts_entering(kind, block, layer, x, entering);
}

struct rows forward_edits_embedded(const char *kind, struct rows x)
{
    return edited("embeddings", kind, 0, x);
}

struct rows forward_edits_fed(const char *kind, int layer, struct rows x)
{
    return forward_parts_fed(layer, edited("feed_forward", kind, layer, x));
}

struct rows forward_edits_output(struct rows x)
{
    return forward_parts_output(now.layer, x, edited("attention_output", now.kind, now.layer, x));
}

/* ----------------------------------------------------------------- heads -- */

void forward_edits_layer(const char *kind, int layer)
{
    now.kind = kind;
    now.layer = layer;
}

/* Whether the edit is of this row of this head of the layer. */
static bool is_of(const cJSON *edit, const char *action, int64_t head, int64_t row)
{
    return member(edit, action) && is_at(edit, "head", now.kind, now.layer)
           && has(member(edit, "heads"), head, head + 1)
           && has(member(edit, "rows"), row, now.q_len);
}

static bool hides(int64_t head, int64_t row, int64_t key)
{
    const cJSON *edit;
    cJSON_ArrayForEach(edit, now.list) {
        if (is_of(edit, "hide", head, row) && member(edit, "hide")->child
            && has(member(edit, "hide"), key, key + 1))
            return true;
    }
    return false;
}

static double weight_of(const cJSON *edit, int64_t row, int64_t key, const bool *seen, int64_t keys)
{
    const cJSON *weights = member(edit, "weights");
    int64_t first = keys, count = 0;
    for (int64_t j = keys - 1; j >= 0; j--) {
        count += seen[j];
        first = seen[j] ? j : first;
    }
    if (!seen[key])
        return 0;
    if (cJSON_IsArray(weights))
        return number_at(cJSON_GetArrayItem(weights, place_of(edit, row, now.q_len)), key);
    if (strcmp(weights->valuestring, "uniform") == 0)
        return 1 / (double)count;
    if (strcmp(weights->valuestring, "first") == 0)
        return key == first;
    if (strcmp(weights->valuestring, "self") == 0)
        return key == row;
    assert_string_equal(weights->valuestring, "previous");
    return key == (row > 0 ? row - 1 : 0);
}

static void weigh(int64_t head, int64_t row, const bool *seen, int64_t keys, double *weights)
{
    const cJSON *edit;
    cJSON_ArrayForEach(edit, now.list) {
        for (int64_t j = 0; is_of(edit, "weights", head, row) && j < keys; j++)
            weights[j] = weight_of(edit, row, j, seen, keys);
    }
}

static bool has_any(const char *action)
{
    const cJSON *edit;
    cJSON_ArrayForEach(edit, now.list) {
        if (member(edit, action))
            return true;
    }
    return false;
}

/* Of parts of a pass, contexts are those of the recorded pass, so there is nothing to compute. */
static struct published_answer attend(const struct published_attention *attention, struct rows q,
                                      struct rows k, struct rows v)
{
    struct published_attention own = *attention;
    if (forward_parts_are_taken())
        return (struct published_answer){
            .context = published_rows(q.count, v.columns / (own.kv_heads ? own.kv_heads : own.heads)
                                                   * own.heads)
        };
    if (has_any("hide"))
        own.hides = hides;
    if (has_any("weights"))
        own.weigh = weigh;
    return published_attend(&own, q, k, v);
}

struct published_answer forward_edits_attend(const struct published_attention *attention,
                                             struct rows q, struct rows k, struct rows v)
{
    const int64_t heads = attention->heads;
    const cJSON *edit;
    now.q_len = q.count;
    struct published_answer answer = attend(attention, q, k, v);
    now.head_dim = answer.context.columns / heads;
    assert_true(now.layer < FORWARD_LAYERS_MAX);
    now.head_dims[now.layer] = now.head_dim;
    now.layers = now.layer == 0 || now.layer >= now.layers ? now.layer + 1 : now.layers;
    cJSON_ArrayForEach(edit, now.list) {
        for (int64_t h = 0; h < heads; h++)
            if (is_at(edit, "head", now.kind, now.layer) && has(member(edit, "heads"), h, h + 1))
                apply(edit, answer.context, h * now.head_dim, now.head_dim);
    }
    answer.context = forward_parts_context(now.layer, heads, answer.context);
    return answer;
}

int64_t forward_edits_head_dim(void)
{
    return now.head_dim;
}

/* ------------------------------------------------------------------ text -- */

/* Numbers that floats hold exactly. */
static void add_row(struct request_text *text, int64_t count, int64_t seed)
{
    for (int64_t c = 0; c < count; c++)
        request_text_add(text, "%c%.9g", c > 0 ? ',' : '[',
                         (double)((c * 7 + seed * 5) % 11 - 4) / 8);
    request_text_add(text, "]");
}

/* ,"layers":[...], of those with heads as the last attention has them; nothing where all are so. */
static void add_layers(struct request_text *text)
{
    const char *between = ",\"layers\":[";
    bool is_any_other = false;
    for (int i = 0; i < now.layers; i++)
        is_any_other = is_any_other || now.head_dims[i] != now.head_dim;
    for (int i = 0; is_any_other && i < now.layers; i++)
        if (now.head_dims[i] == now.head_dim) {
            request_text_add(text, "%s%d", between, i);
            between = ",";
        }
    request_text_add(text, is_any_other ? "]" : "");
}

char *forward_edits_text(const char *template, int64_t width, int64_t head_dim, int64_t keys)
{
    struct request_text text = { .data = NULL };
    for (const char *p = template; *p; p++) {
        if (*p != '$') {
            request_text_add(&text, "%c", *p);
            continue;
        }
        if (p[1] == 'L') {
            add_layers(&text);
            p++;
            continue;
        }
        const bool has_rows = *++p == '2';
        p += has_rows;
        const int64_t count = *p == 'W' ? width : *p == 'H' ? head_dim : keys;
        request_text_add(&text, has_rows ? "[" : "");
        add_row(&text, count, 1);
        if (has_rows) {
            request_text_add(&text, ",");
            add_row(&text, count, 2);
            request_text_add(&text, "]");
        }
    }
    return text.data;
}
