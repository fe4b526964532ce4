/* SPDX-License-Identifier: Apache-2.0 */
/* reading_client.c - see reading_client.h. */
#include "reading_client.h"
#include "test.h"

#include "answer.h"
#include "fixture.h"
#include "forward_edits.h"
#include "forward_parts.h"
#include "request_text.h"
#include "trace_client.h"

static const double TOLERANCE = 1e-5;

static cJSON *trace(struct http_client *to, const char *model, const char *fields, const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",", model);
    request_text_add(&body, "%s,", fields);
    request_text_add(&body, "%s}", more);
    cJSON *answer = answer_post(to, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

static void expect_numbers(const cJSON *answer, const char *where, const char *name, int rank,
                           const int64_t *shape, const double *want, double tolerance)
{
    int64_t count = 1;
    double *got = answer_numbers(answer, name, rank, shape);
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("%s: %s[%d] is %.9g, not %.9g", where, name, (int)i, got[i], want[i]);
    free(got);
}

/* Layers of one kind, which are neighbours. */
struct kind_of_layers {
    const char *kind;
    const struct forward_layer *layers;
    int first, count; /* the model's numbers */
    int64_t rows, keys;
};

static struct kind_of_layers kind_at(const struct forward *want, int place)
{
    const struct forward_layer *layers = &want->layers[place];
    struct kind_of_layers of = { .kind = layers->kind,
                                 .layers = layers,
                                 .first = want->first_layer + place,
                                 .rows = layers->inputs.count };
    of.keys = layers->key_inputs.data ? layers->key_inputs.count : of.rows;
    while (place + of.count < want->layer_count && strcmp(layers[of.count].kind, of.kind) == 0)
        of.count++;
    return of;
}

static const cJSON *layer_of(const cJSON *answer, int place)
{
    const cJSON *layer =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "layers"), place);
    assert_non_null(layer);
    return layer;
}

/* ------------------------------------------------------------------------ spans -- */

/* Of the first rows alone, and of the others: some twice. */
static const int ROW_SPANS[][2] = { { 0, 1 }, { 1, 5 }, { 3, 4 }, { 2, 2 } };
static const int SPANS[][2] = { { 0, 2 }, { 1, 4 }, { 3, 3 } };
enum { ROW_SPAN_COUNT = 4, SPAN_COUNT = 3 };
#define SPAN_FIELDS                                                                                \
    "\"spans\":[[0,2],[1,4],[3,3]],\"row_spans\":[[0,1],[1,5],[3,4],[2,2]],\"kinds\":[\"%s\"]"

static void sum_spans(const struct kind_of_layers *of, int place, int64_t head, double *sums)
{
    const double *weights = of->layers[place].maps.weights + head * of->rows * of->keys;
    for (int r = 0; r < ROW_SPAN_COUNT; r++)
        for (int s = 0; s < SPAN_COUNT; s++) {
            double *sum = &sums[r * SPAN_COUNT + s];
            *sum = 0;
            for (int64_t i = ROW_SPANS[r][0]; i < ROW_SPANS[r][1]; i++)
                for (int64_t j = SPANS[s][0]; j < SPANS[s][1]; j++)
                    *sum += weights[i * of->keys + j];
        }
}

static double head_weight(int place, int64_t head)
{
    return (double)((place * 7 + (int)head * 3) % 5 - 2) / 4;
}

static void expect_spans(struct http_client *to, const char *model, const char *fields,
                         const struct kind_of_layers *of, double tolerance)
{
    char more[300];
    const int64_t heads = of->layers[0].heads;
    const int64_t shape[] = { heads, ROW_SPAN_COUNT, SPAN_COUNT };
    double sums[64 * ROW_SPAN_COUNT * SPAN_COUNT];
    assert_true(heads <= 64);
    snprintf(more, sizeof more, SPAN_FIELDS, of->kind);
    cJSON *answer = trace(to, model, fields, more);
    for (int i = 0; i < of->count; i++) {
        for (int64_t h = 0; h < heads; h++)
            sum_spans(of, i, h, sums + h * ROW_SPAN_COUNT * SPAN_COUNT);
        expect_numbers(layer_of(answer, i), model, "spans", 3, shape, sums, 4 * tolerance);
    }
    cJSON_Delete(answer);
}

static void expect_scores(struct http_client *to, const char *model, const char *fields,
                          const struct kind_of_layers *of, double tolerance)
{
    struct request_text more = { .data = NULL };
    const int64_t heads = of->layers[0].heads, shape[] = { ROW_SPAN_COUNT, SPAN_COUNT };
    double sums[ROW_SPAN_COUNT * SPAN_COUNT], scores[ROW_SPAN_COUNT * SPAN_COUNT] = { 0 };
    double most = 0;
    request_text_add(&more, SPAN_FIELDS ",\"head_weights\":[", of->kind);
    for (int i = 0; i < of->count; i++)
        for (int64_t h = 0; h < heads; h++) {
            const double weight = head_weight(i, h);
            request_text_add(&more, "%s%g%s",
                             h > 0   ? ","
                             : i > 0 ? ",["
                                     : "[",
                             weight, h + 1 == heads ? "]" : "");
            sum_spans(of, i, h, sums);
            most += fabs(weight);
            for (int k = 0; k < ROW_SPAN_COUNT * SPAN_COUNT; k++)
                scores[k] += weight * sums[k];
        }
    request_text_add(&more, "]");
    cJSON *answer = trace(to, model, fields, more.data);
    for (int i = 0; i < of->count; i++)
        assert_null(cJSON_GetObjectItemCaseSensitive(layer_of(answer, i), "spans"));
    expect_numbers(answer, model, "span_scores", 2, shape, scores, 4 * (1 + most) * tolerance);
    cJSON_Delete(answer);
    free(more.data);
}

/* --------------------------------------------------------------------- rollouts -- */

/* (mean over heads + identity) / 2, rows divided by their sum, times the rollout before it. */
static void roll(const struct kind_of_layers *of, int place, const double *before, double *after)
{
    const int64_t n = of->rows, heads = of->layers[place].heads;
    double *step = calloc((size_t)(n * n), sizeof *step);
    assert_non_null(step);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            double *at = &step[i * n + j];
            for (int64_t h = 0; h < heads; h++)
                *at += of->layers[place].maps.weights[(h * n + i) * n + j] / (double)heads / 2;
            *at += i == j ? 0.5 : 0;
            sum += *at;
        }
        for (int64_t j = 0; j < n; j++)
            step[i * n + j] /= sum;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            after[i * n + j] = before ? 0 : step[i * n + j];
            for (int64_t k = 0; before && k < n; k++)
                after[i * n + j] += step[i * n + k] * before[k * n + j];
        }
    free(step);
}

static void expect_rollout(struct http_client *to, const char *model, const char *fields,
                           const struct kind_of_layers *of, int64_t shortest, double tolerance)
{
    char more[200];
    const int64_t n = of->rows, shape[] = { n, n }, some[] = { 2, n };
    double *tables = calloc((size_t)(3 * n * n), sizeof *tables);
    assert_non_null(tables);
    snprintf(more, sizeof more, "\"outputs\":[\"rollout\"],\"kinds\":[\"%s\"]", of->kind);
    cJSON *answer = trace(to, model, fields, more);
    for (int i = 0; i < of->count; i++) {
        double *before = tables + i % 2 * n * n, *after = tables + (i + 1) % 2 * n * n;
        roll(of, i, i > 0 ? before : NULL, after);
        answer_expect_members(layer_of(answer, i), "layer,kind,rollout");
        expect_numbers(layer_of(answer, i), model, "rollout", 2, shape, after, 2 * tolerance);
        if (i + 1 < of->count || shortest < 4)
            continue;
        memcpy(tables + 2 * n * n, after, (size_t)n * sizeof *after);
        memcpy(tables + 2 * n * n + n, after + 3 * n, (size_t)n * sizeof *after);
        snprintf(more, sizeof more, "\"outputs\":[\"rollout\"],\"rows\":[0,3],\"layers\":[%d]",
                 of->first + i);
        cJSON *rows = trace(to, model, fields, more);
        expect_numbers(layer_of(rows, 0), model, "rollout", 2, some, tables + 2 * n * n,
                       2 * tolerance);
        cJSON_Delete(rows);
    }
    cJSON_Delete(answer);
    free(tables);
}

/* ----------------------------------------------------------------------- norms -- */

static double norm_at(const struct kind_of_layers *of, int place, int64_t head, int64_t i,
                      int64_t j)
{
    const struct published_answer *maps = &of->layers[place].maps;
    return maps->weights[(head * of->rows + i) * of->keys + j]
           * maps->value_norms[head * of->keys + j];
}

static void expect_norms(struct http_client *to, const char *model, const char *fields,
                         const struct kind_of_layers *of, double tolerance)
{
    char more[200];
    const int64_t heads = of->layers[0].heads, shape[] = { heads, of->rows, of->keys };
    double *norms = calloc((size_t)(heads * of->rows * of->keys), sizeof *norms);
    assert_non_null(norms);
    snprintf(more, sizeof more, "\"outputs\":[\"norms\"],\"kinds\":[\"%s\"]", of->kind);
    cJSON *answer = trace(to, model, fields, more);
    for (int p = 0; p < of->count; p++) {
        double most = 0;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t j = 0; j < of->keys; j++)
                most = fmax(most, of->layers[p].maps.value_norms[h * of->keys + j]);
        for (int64_t at = 0; at < heads * of->rows * of->keys; at++)
            norms[at] =
                norm_at(of, p, at / of->keys / of->rows, at / of->keys % of->rows, at % of->keys);
        expect_numbers(layer_of(answer, p), model, "norms", 3, shape, norms,
                       4 * (1 + most) * tolerance);
    }
    cJSON_Delete(answer);
    free(norms);
}

/* Sums over spans and rows. */
static void expect_norm_spans(struct http_client *to, const char *model, const char *fields,
                              const struct kind_of_layers *of, double tolerance)
{
    char more[300];
    const int64_t heads = of->layers[0].heads, shape[] = { heads, ROW_SPAN_COUNT, SPAN_COUNT };
    double sums[64 * ROW_SPAN_COUNT * SPAN_COUNT];
    snprintf(more, sizeof more, SPAN_FIELDS ",\"outputs\":[\"norms\"]", of->kind);
    cJSON *answer = trace(to, model, fields, more);
    for (int p = 0; p < of->count; p++) {
        double most = 0;
        for (int64_t h = 0; h < heads; h++)
            for (int r = 0; r < ROW_SPAN_COUNT; r++)
                for (int s = 0; s < SPAN_COUNT; s++) {
                    double *sum = &sums[(h * ROW_SPAN_COUNT + r) * SPAN_COUNT + s];
                    *sum = 0;
                    for (int64_t i = ROW_SPANS[r][0]; i < ROW_SPANS[r][1]; i++)
                        for (int64_t j = SPANS[s][0]; j < SPANS[s][1]; j++) {
                            *sum += norm_at(of, p, h, i, j);
                            most = fmax(most, of->layers[p].maps.value_norms[h * of->keys + j]);
                        }
                }
        answer_expect_members(layer_of(answer, p), "layer,kind,spans,norm_spans");
        expect_numbers(layer_of(answer, p), model, "norm_spans", 3, shape, sums,
                       8 * (1 + most) * tolerance);
    }
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------------- all -- */

void reading_client_expect(struct http_client *to, const char *model, const char *fields,
                           const struct forward *want, double tolerance)
{
    int64_t shortest = INT64_MAX; /* stream: rows are of all */
    for (int i = 0; i < want->layer_count; i++)
        shortest =
            want->layers[i].inputs.count < shortest ? want->layers[i].inputs.count : shortest;
    for (int place = 0; place < want->layer_count;) {
        const struct kind_of_layers of = kind_at(want, place);
        const bool has_spans = strcmp(of.kind, "decoder") != 0 && of.rows >= 5 && of.keys >= 4;
        if (has_spans) {
            expect_spans(to, model, fields, &of, tolerance);
            expect_scores(to, model, fields, &of, tolerance);
        }
        if (of.layers[0].maps.value_norms)
            expect_norms(to, model, fields, &of, tolerance);
        if (of.layers[0].maps.value_norms && has_spans)
            expect_norm_spans(to, model, fields, &of, tolerance);
        if (strcmp(of.kind, "cross") != 0)
            expect_rollout(to, model, fields, &of, shortest, tolerance);
        place += of.count;
    }
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
    cJSON *kept = trace(&client, model, fields, "\"outputs\":[],\"keep\":\"1m\"");
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

/* ------------------------------------------------------------------------ lens -- */

/* The place of a layer among those of its kind. */
static int ordinal_of(const struct forward *want, int place)
{
    int ordinal = 0;
    for (int i = 0; i < place; i++)
        ordinal += strcmp(want->layers[i].kind, want->layers[place].kind) == 0;
    return ordinal;
}

/* Whether the layer is a second one of its block, which has no lens and no feed-forward. */
static bool is_second(const struct forward_layer *layer)
{
    return layer->is_beside || strcmp(layer->kind, "cross") == 0;
}

/* Whether layers are numbered by their blocks. */
static bool is_in_order(const struct forward *want)
{
    for (int i = 0; i < want->layer_count; i++)
        if (want->layers[i].is_beside)
            return false;
    return trace_client_is_hybrid(want);
}

/* Logits of the pass whose blocks behind that of the layer, of its kind, add nothing. */
static struct rows cut_logits(const struct forward *want, int place,
                              void (*pass)(struct forward *forward))
{
    static struct forward cut;
    struct request_text edits = { .data = NULL };
    request_text_add(&edits, "[");
    for (int i = 0; i < want->layer_count; i++) {
        const char *kind = want->layers[i].kind;
        const bool has_one = is_second(&want->layers[i]);
        if (is_in_order(want) ? i <= place
                              : (!has_one && strcmp(kind, want->layers[place].kind) != 0)
                                    || ordinal_of(want, i) <= ordinal_of(want, place))
            continue;
        for (int part = 0; part < (has_one ? 1 : 2); part++)
            request_text_add(
                &edits, "%s{\"kind\":\"%s\",\"at\":\"%s\",\"layers\":[%d],\"scale\":0}",
                edits.used > 1 ? "," : "", kind, part == 0 ? "attention_output" : "feed_forward",
                want->first_layer + i);
    }
    request_text_add(&edits, "]");
    memset(&cut, 0, sizeof cut);
    forward_edits_set(edits.data);
    forward_parts_cut(want->first_layer + place);
    pass(&cut);
    forward_parts_cut(-1);
    forward_edits_set(NULL);
    free(edits.data);
    return cut.logits;
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsNumber(number));
    return number->valuedouble;
}

/* One position of a lens: the most probable tokens, and the target. */
static void expect_position(const char *model, const cJSON *at, int64_t position, int target,
                            const double *want, int64_t columns)
{
    const double tolerance = 1e-4;
    const cJSON *token, *tokens = cJSON_GetObjectItemCaseSensitive(at, "tokens");
    const cJSON *targets = cJSON_GetObjectItemCaseSensitive(at, "targets");
    const cJSON *score = cJSON_GetArrayItem(targets, 0);
    double least = 0;
    assert_int_equal((int64_t)number_of(at, "position"), position);
    assert_int_equal(cJSON_GetArraySize(tokens), 3);
    cJSON_ArrayForEach(token, tokens) {
        const double got = number_of(token, "logprob");
        const double wanted = want[(int)number_of(token, "id")];
        if (!(fabs(got - wanted) <= tolerance))
            fail_msg("%s: the lens says %.9g, not %.9g", model, got, wanted);
        assert_true(got <= least);
        least = got;
    }
    int more_probable = 0, before = 1, at_most = 1;
    for (int64_t c = 0; c < columns; c++) {
        more_probable += want[c] > least + tolerance;
        before += want[c] > want[target] + tolerance;
        at_most += c != target && want[c] > want[target] - tolerance;
    }
    assert_true(more_probable < 3);
    assert_int_equal(cJSON_GetArraySize(targets), 1);
    assert_int_equal((int)number_of(score, "id"), target);
    assert_true(fabs(number_of(score, "logprob") - want[target]) <= tolerance);
    assert_true(number_of(score, "rank") >= before && number_of(score, "rank") <= at_most);
}

void reading_client_expect_lens_at(const char *model, const char *fields, int place,
                                   struct rows logits)
{
    const int last = (int)logits.count - 1, targets[] = { 7, 0 };
    const char *more = "\"outputs\":[\"lens\"],\"top_k_tokens\":3,\"positions\":[-1,0],"
                       "\"targets\":[{\"position\":-1,\"token\":7},{\"position\":0,\"token\":0}]";
    const struct rows want = forward_log_softmax(logits);
    cJSON *answer = trace(&client, model, fields, more);
    const cJSON *lens = cJSON_GetObjectItemCaseSensitive(layer_of(answer, place), "lens");
    assert_int_equal(cJSON_GetArraySize(lens), 2);
    for (int p = 0; p < 2; p++) {
        const int64_t position = p == 0 ? last : 0;
        expect_position(model, cJSON_GetArrayItem(lens, p), position, targets[p],
                        want.data + position * want.columns, want.columns);
    }
    cJSON_Delete(answer);
}

void reading_client_expect_lens(const char *model, const char *fields, const struct forward *want,
                                void (*pass)(struct forward *forward))
{
    const char *kind = want->encoder_hidden_states.data ? "decoder" : want->layers[0].kind;
    cJSON *answer = trace(&client, model, fields, "\"outputs\":[\"lens\"],\"positions\":[0]");
    for (int i = 0; i < want->layer_count; i++) {
        const bool has_lens =
            !want->layers[i].is_beside
            && (trace_client_is_hybrid(want) || strcmp(want->layers[i].kind, kind) == 0);
        answer_expect_members(layer_of(answer, i), has_lens ? "layer,kind,lens" : "layer,kind");
        if (has_lens)
            reading_client_expect_lens_at(model, fields, i, cut_logits(want, i, pass));
    }
    cJSON_Delete(answer);
}

/* --------------------------------------------------------------- contributions -- */

/* Targets of the request: positions -1 and 0, the second against a third token. */
enum { TARGET = 7, OTHER = 3, AGAINST = 11 };

/* Of both targets what the pass gives: logits, before a cap. */
struct both {
    double of[2];
};

static double uncapped(double logit, double softcap)
{
    return softcap > 0 ? softcap * atanh(logit / softcap) : logit;
}

static struct both logits_of(void (*pass)(struct forward *forward), double softcap)
{
    static struct forward forward;
    memset(&forward, 0, sizeof forward);
    pass(&forward);
    const struct rows logits = forward.logits;
    const double *last = logits.data + (logits.count - 1) * logits.columns;
    return (struct both){ { uncapped(last[TARGET], softcap),
                            uncapped(logits.data[OTHER], softcap)
                                - uncapped(logits.data[AGAINST], softcap) } };
}

/* The parts of an answer's contributions beside those of the pass. */
struct comparison {
    void (*pass)(struct forward *forward);
    const char *model, *kind;
    double softcap;
    struct both none; /* logits where no part puts in anything */
    double sum[2], absolute[2], worst[2];
};

static void compare_part(struct comparison *own, enum forward_part part, int layer, int64_t head,
                         const cJSON *const got[2])
{
    forward_parts_take(part, own->kind, layer, head);
    published_begin();
    const struct both wanted = logits_of(own->pass, own->softcap);
    published_end();
    for (int t = 0; t < 2; t++) {
        assert_true(cJSON_IsNumber(got[t]));
        const double number = wanted.of[t] - own->none.of[t];
        own->worst[t] = fmax(own->worst[t], fabs(got[t]->valuedouble - number));
        own->sum[t] += got[t]->valuedouble;
        own->absolute[t] += fabs(got[t]->valuedouble);
    }
}

static void compare_member(struct comparison *own, enum forward_part part, int layer,
                           const cJSON *const of[2], const char *name)
{
    const cJSON *const got[2] = { cJSON_GetObjectItemCaseSensitive(of[0], name),
                                  cJSON_GetObjectItemCaseSensitive(of[1], name) };
    compare_part(own, part, layer, 0, got);
}

static void compare_layer(struct comparison *own, int number, const struct forward_layer *layer,
                          const cJSON *const of[2])
{
    const bool has_one = is_second(layer);
    for (int t = 0; t < 2; t++) {
        assert_int_equal((int)number_of(of[t], "layer"), number);
        answer_expect_members(of[t], has_one
                                         ? "layer,kind,heads,attention_bias,edits"
                                         : "layer,kind,heads,attention_bias,feed_forward,edits");
    }
    const int64_t heads = layer->heads > 0 ? layer->heads : layer->maps.context.data != NULL;
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(of[0], "heads")), heads);
    for (int64_t h = 0; h < heads; h++) {
        const cJSON *const got[2] = {
            cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(of[0], "heads"), (int)h),
            cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(of[1], "heads"), (int)h)
        };
        compare_part(own, FORWARD_PART_HEAD, number, h, got);
    }
    compare_member(own, FORWARD_PART_ATTENTION_BIAS, number, of, "attention_bias");
    compare_member(own, FORWARD_PART_EDITS, number, of, "edits");
    if (!has_one)
        compare_member(own, FORWARD_PART_FEED_FORWARD, number, of, "feed_forward");
}

/* What is left of both targets: the sum, which is the logit. */
static void compare_sums(struct comparison *own, const cJSON *const of[2], const struct both *whole,
                         double scores)
{
    for (int t = 0; t < 2; t++) {
        const double bias = number_of(of[t], "bias"), logit = number_of(of[t], "logit");
        const double most = own->absolute[t] + fabs(bias);
        own->worst[t] = fmax(own->worst[t], fabs(bias - own->none.of[t]));
        own->worst[t] = fmax(own->worst[t], fabs(logit - whole->of[t]));
        if (!(fabs(own->sum[t] + bias - logit) <= 1e-5 * most))
            fail_msg("%s: contributions sum to %.9g, not %.9g; of %.9g", own->model,
                     own->sum[t] + bias, logit, most);
        if (!(own->worst[t] <= 1e-5 * (1 + scores) * (1 + most)))
            fail_msg("%s: a contribution differs by %.3g, of %.9g", own->model, own->worst[t],
                     most);
    }
}

void reading_client_expect_contributions(const char *model, const char *fields, const char *edits,
                                         const struct forward *want, double softcap,
                                         void (*pass)(struct forward *forward))
{
    const char *kind = want->encoder_hidden_states.data ? "decoder" : want->layers[0].kind;
    struct comparison own = { .pass = pass, .model = model, .kind = kind, .softcap = softcap };
    double scores = 0;
    cJSON *answer =
        trace(&client, model, fields,
              "\"outputs\":[\"contributions\"],\"layers\":[],\"targets\":["
              "{\"position\":-1,\"token\":7},{\"position\":0,\"token\":3,\"against\":11}]");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(answer, "contributions");
    const cJSON *const of[2] = { cJSON_GetArrayItem(list, 0), cJSON_GetArrayItem(list, 1) };
    assert_int_equal(cJSON_GetArraySize(list), 2);
    forward_edits_set(edits);
    forward_parts_record();
    const struct both whole = logits_of(pass, softcap);
    forward_parts_take(FORWARD_PART_NONE, kind, -1, 0);
    own.none = logits_of(pass, softcap);
    compare_member(&own, FORWARD_PART_EMBEDDING, -1, of, "embedding");
    int place = 0;
    for (int i = 0; i < want->layer_count; i++) {
        scores = fmax(scores, want->layers[i].maps.largest_score);
        if (!trace_client_is_hybrid(want) && strcmp(want->layers[i].kind, kind) != 0
            && strcmp(want->layers[i].kind, "cross") != 0)
            continue;
        const cJSON *const layers[2] = {
            cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(of[0], "layers"), place),
            cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(of[1], "layers"), place)
        };
        place++;
        compare_layer(&own, want->first_layer + i, &want->layers[i], layers);
    }
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(of[0], "layers")), place);
    compare_sums(&own, of, &whole, scores);
    forward_parts_end();
    forward_edits_set(NULL);
    print_message("%s: contributions %.1e of %.1e\n", model, fmax(own.worst[0], own.worst[1]),
                  fmax(own.absolute[0], own.absolute[1]));
    cJSON_Delete(answer);
}
