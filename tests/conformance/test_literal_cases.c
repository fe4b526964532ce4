/* SPDX-License-Identifier: Apache-2.0 */
/* test_literal_cases.c - numbers that other people wrote down by hand.
 *
 * From literal_cases.json, by the name of the score:
 *
 *   dot        attention with the case's scale. Keras' query mask sets rows of the
 *              context to 0 afterwards and is no part of attention: the test does not
 *              compare the context of such rows, but it compares their weights
 *   given      scores are given: they become queries against unit keys, with scale 1
 *   mask       a rule for which keys a row sees: weights are above 0 where it says so
 *   additive   the sum of tanh of Keras' AdditiveAttention and of its score_mode concat:
 *              score_scale . tanh(q + k). An inner_scale is a factor of the sum: query
 *              and key are multiplied by it beforehand
 *   projected  a layer of x @ W + b; the columns of W are those of q, k and v
 *
 * The file's "properties" are laws, in tests/laws. */
#include "attention_case.h"
#include "tensor_file.h"
#include "test.h"

#include <cblas.h>

enum { CASES_COVERED = 30, CASES_ADDITIVE = 8, NUMBERS_MAX = 512 };

/* ------------------------------------------------------------ JSON arrays -- */

/* A nested array, flattened; shape[depth] are its sizes. */
struct numbers {
    float data[NUMBERS_MAX];
    int64_t shape[4];
    int depth;
    int64_t count;
};

static void flatten(const cJSON *item, struct numbers *out, int depth)
{
    if (!cJSON_IsArray(item)) {
        assert_in_range(out->count, 0, NUMBERS_MAX - 1);
        out->data[out->count++] =
            cJSON_IsBool(item) ? (float)cJSON_IsTrue(item) : (float)item->valuedouble;
        return;
    }
    assert_in_range(depth, 0, 3);
    out->shape[depth] = cJSON_GetArraySize(item);
    if (out->depth <= depth)
        out->depth = depth + 1;
    for (const cJSON *child = item->child; child != NULL; child = child->next)
        flatten(child, out, depth + 1);
}

static bool read_numbers(const cJSON *object, const char *name, struct numbers *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    memset(out, 0, sizeof *out);
    if (item != NULL)
        flatten(item, out, 0);
    return item != NULL;
}

static double read_number(const cJSON *object, const char *name, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return item != NULL ? item->valuedouble : otherwise;
}

/* Compares with expect[name] where the case has it. Returns how many numbers were compared. */
static int64_t expect(const cJSON *c, const char *name, const float *got, const bool *row_ignored)
{
    struct numbers want;
    const char *case_name = cJSON_GetObjectItemCaseSensitive(c, "name")->valuestring;
    if (!read_numbers(cJSON_GetObjectItemCaseSensitive(c, "expect"), name, &want))
        return 0;
    const int64_t columns = want.shape[want.depth - 1];
    for (int64_t i = 0; i < want.count; i++) {
        if (row_ignored != NULL && row_ignored[i / columns])
            continue;
        const double x = (double)got[i], y = (double)want.data[i];
        if (!(fabs(x - y) <= read_number(c, "atol", 0)))
            fail_msg("%s: %s[%d] = %.9g, want %.9g", case_name, name, (int)i, x, y);
    }
    return want.count;
}

/* -------------------------------------------------- cases without layers -- */

/* The key mask [batch, keys] or attention mask [batch, queries, keys] as a bool mask. */
static void set_mask(const cJSON *c, struct attn_problem *problem, unsigned char *bytes)
{
    struct numbers mask;
    const bool by_key = read_numbers(c, "key_mask", &mask);
    if (!by_key && !read_numbers(c, "attn_mask", &mask))
        return;
    for (int64_t i = 0; i < mask.count; i++)
        bytes[i] = mask.data[i] != 0.0f;
    problem->mask = attn_tensor_dense(bytes, ATTN_BOOL, mask.shape[0], 1,
                                      by_key ? 1 : mask.shape[1], mask.shape[by_key ? 1 : 2]);
}

/* [batch, length, columns] as a view of one head. */
static struct attn_tensor one_head(struct numbers *numbers)
{
    return attn_tensor_dense(numbers->data, ATTN_F32, numbers->shape[0], 1, numbers->shape[1],
                             numbers->shape[2]);
}

/* Keys for scores that are given: the unit vectors, one batch item for all. */
static struct attn_tensor unit_keys(float *memory, const struct attn_tensor *query)
{
    const int64_t n = query->shape[3];
    memset(memory, 0, (size_t)(n * n) * sizeof *memory);
    for (int64_t j = 0; j < n; j++)
        memory[j * n + j] = 1.0f;
    struct attn_tensor keys = attn_tensor_dense(memory, ATTN_F32, query->shape[0], 1, n, n);
    keys.stride[0] = 0;
    return keys;
}

/* Makes the scores of an additive case additive. */
static void set_additive(const cJSON *c, struct attn_problem *problem, struct numbers *query,
                         struct numbers *key, struct numbers *score_scale)
{
    if (strcmp(cJSON_GetObjectItemCaseSensitive(c, "score")->valuestring, "additive") != 0)
        return;
    assert_true(read_numbers(c, "score_scale", score_scale));
    assert_int_equal(score_scale->count, problem->query.shape[3]);
    const float factor = (float)read_number(c, "inner_scale", 1.0);
    for (int64_t i = 0; i < query->count; i++)
        query->data[i] *= factor;
    for (int64_t i = 0; i < key->count; i++)
        key->data[i] *= factor;
    problem->additive_weight = score_scale->data;
}

static void run_pairs(const cJSON *c)
{
    static struct numbers query, key, value, query_mask, score_scale;
    float units[64], context[NUMBERS_MAX], scores[NUMBERS_MAX], weights[NUMBERS_MAX];
    unsigned char mask[NUMBERS_MAX];
    bool ignored[NUMBERS_MAX] = { false };
    struct attn_problem problem = { 0 };
    const bool given = read_numbers(c, "scores", &query);
    if (!given)
        read_numbers(c, "Q", &query);
    problem.query = one_head(&query);
    problem.options = attn_options_default(problem.query.shape[3]);
    problem.options.scale = (float)read_number(c, "scale", 1.0);
    if (!given)
        read_numbers(c, "K", &key);
    problem.key = given ? unit_keys(units, &problem.query) : one_head(&key);
    problem.value = read_numbers(c, "V", &value) ? one_head(&value) : problem.key;
    set_mask(c, &problem, mask);
    set_additive(c, &problem, &query, &key, &score_scale);
    if (read_numbers(c, "query_mask", &query_mask))
        for (int64_t i = 0; i < query_mask.count; i++)
            ignored[i] = query_mask.data[i] == 0.0f;
    const int64_t *q = problem.query.shape;
    problem.context = attn_tensor_dense(context, ATTN_F32, q[0], 1, q[2], problem.value.shape[3]);
    problem.scores = attn_tensor_dense(scores, ATTN_F32, q[0], 1, q[2], problem.key.shape[2]);
    problem.weights = attn_tensor_dense(weights, ATTN_F32, q[0], 1, q[2], problem.key.shape[2]);
    attention_run(&problem);
    assert_true(expect(c, "Y", context, ignored) + expect(c, "weights", weights, NULL)
                    + expect(c, "scores", scores, NULL)
                > 0);
}

/* "j <= i + (keys - queries)" is causal, with (keys - queries) keys before the first query. */
static void run_mask_rule(const cJSON *c)
{
    struct numbers shape;
    float zeros[64] = { 0 }, weights[64];
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(c, "mask_rule")->valuestring,
                        "j <= i + (keys - queries)");
    read_numbers(c, "shape", &shape);
    const int64_t queries = (int64_t)shape.data[0], keys = (int64_t)shape.data[1];
    const int64_t past_len = keys - queries;
    struct attn_problem problem = { .options = attn_options_default(1), .past_len = &past_len };
    problem.options.causal = true;
    problem.query = attn_tensor_dense(zeros, ATTN_F32, 1, 1, queries, 1);
    problem.key = attn_tensor_dense(zeros, ATTN_F32, 1, 1, keys, 1);
    problem.value = problem.key;
    problem.weights = attn_tensor_dense(weights, ATTN_F32, 1, 1, queries, keys);
    attention_run(&problem);
    for (int64_t i = 0; i < queries * keys; i++)
        weights[i] = weights[i] > 0.0f;
    assert_int_equal(expect(c, "mask", weights, NULL), queries * keys);
}

/* ------------------------------------------------------ cases with layers -- */

/* The columns of one projection, cut out of W [in, 3 * out] and b. */
struct cut {
    float weight[NUMBERS_MAX], bias[64];
    struct attn_linear linear;
};

static void cut_projection(const struct numbers *w, const struct numbers *b, int64_t from,
                           int64_t out, struct cut *cut)
{
    const int64_t in = w->shape[0], all = w->shape[1];
    for (int64_t i = 0; i < in; i++)
        memcpy(cut->weight + i * out, w->data + i * all + from, (size_t)out * sizeof(float));
    memcpy(cut->bias, b->data + from, (size_t)out * sizeof(float));
    cut->linear = (struct attn_linear){
        .weight = cut->weight, .bias = cut->bias, .out = out, .in = in, .in_out = true
    };
}

/* present[batch b] = past, then the projected rows of x, as [heads, length, dim]. The projection
 * is done in double: what is under test here is the attention over it. */
static struct attn_tensor present(const cJSON *c, const char *name,
                                  const struct attn_linear *linear, const struct numbers *x,
                                  int64_t b, int64_t heads, float *memory)
{
    static struct numbers past;
    double rows[NUMBERS_MAX], y[NUMBERS_MAX];
    const int64_t length = x->shape[1], dim = linear->out / heads;
    for (int64_t i = 0; i < length * linear->in; i++)
        rows[i] = (double)x->data[b * length * linear->in + i];
    reference_linear(linear, rows, length, linear->in, y);
    const int64_t before = read_numbers(c, name, &past) ? past.shape[2] : 0;
    float *to = memory;
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t i = 0; i < before * dim; i++)
            *to++ = past.data[(b * heads + h) * before * dim + i];
        for (int64_t l = 0; l < length; l++)
            for (int64_t d = 0; d < dim; d++)
                *to++ = (float)y[l * linear->out + h * dim + d];
    }
    return attn_tensor_dense(memory, ATTN_F32, 1, heads, before + length, dim);
}

static void set_layer_masks(const cJSON *c, struct attn_layer_problem *problem, int64_t b,
                            unsigned char *bytes, struct numbers *bias)
{
    struct numbers mask;
    if (read_numbers(c, "key_mask", &mask)) {
        for (int64_t j = 0; j < mask.shape[1]; j++)
            bytes[j] = mask.data[b * mask.shape[1] + j] != 0.0f;
        problem->mask = attn_tensor_dense(bytes, ATTN_BOOL, 1, 1, 1, mask.shape[1]);
    }
    if (read_numbers(c, "bias", bias)) {
        assert_int_equal(bias->shape[0], 1);
        problem->mask = attn_tensor_dense(bias->data, ATTN_F32, 1, bias->shape[1], bias->shape[2],
                                          bias->shape[3]);
    }
    problem->options.causal = read_number(c, "is_causal", 0) != 0;
}

/* Runs one batch item at a time, since a call of a layer has one. */
static void run_projected(const cJSON *c)
{
    static struct numbers x, w, bias, sizes, o, attention_bias;
    static struct cut q, k, v;
    static float keys[NUMBERS_MAX], values[NUMBERS_MAX], context[NUMBERS_MAX];
    static float present_keys[NUMBERS_MAX], present_values[NUMBERS_MAX];
    unsigned char mask[64];
    read_numbers(c, "X", &x);
    read_numbers(c, "W", &w);
    read_numbers(c, "b", &bias);
    const bool sized = read_numbers(c, "qkv_sizes", &sizes);
    const int64_t out = sized ? (int64_t)sizes.data[0] : w.shape[1] / 3;
    const int64_t v_out = sized ? (int64_t)sizes.data[2] : out;
    const int64_t heads = (int64_t)read_number(c, "heads", 0), length = x.shape[1];
    cut_projection(&w, &bias, 0, out, &q);
    cut_projection(&w, &bias, out, out, &k);
    cut_projection(&w, &bias, 2 * out, v_out, &v);
    struct attn_layer layer = { heads, heads, out / heads, v_out / heads, .q_proj = q.linear };
    const bool has_past = cJSON_HasObjectItem(c, "past_key");
    if (!has_past) {
        layer.k_proj = k.linear;
        layer.v_proj = v.linear;
    }
    if (read_numbers(c, "Wo", &o))
        layer.o_proj = (struct attn_linear){
            .weight = o.data, .out = o.shape[1], .in = o.shape[0], .in_out = true
        };
    const int64_t d_out = attn_layer_d_out(&layer);
    int64_t key_numbers = 0, value_numbers = 0;
    for (int64_t b = 0; b < x.shape[0]; b++) {
        struct attn_layer_problem problem = { .layer = &layer };
        problem.options = attn_options_default(layer.head_dim);
        problem.query =
            attn_tensor_dense(x.data + b * length * w.shape[0], ATTN_F32, 1, 1, length, w.shape[0]);
        const struct attn_tensor all_keys = present(c, "past_key", &k.linear, &x, b, heads, keys);
        const struct attn_tensor all_values =
            present(c, "past_value", &v.linear, &x, b, heads, values);
        problem.key = has_past ? all_keys : problem.query;
        problem.value = has_past ? all_values : problem.query;
        problem.past_len = all_keys.shape[2] - length;
        problem.context = context + b * length * d_out;
        set_layer_masks(c, &problem, b, mask, &attention_bias);
        attention_run_layer(&problem);
        const int64_t n = heads * all_keys.shape[2];
        memcpy(present_keys + key_numbers, keys, (size_t)(n * layer.head_dim) * sizeof(float));
        memcpy(present_values + value_numbers, values,
               (size_t)(n * layer.v_head_dim) * sizeof(float));
        key_numbers += n * layer.head_dim;
        value_numbers += n * layer.v_head_dim;
    }
    assert_true(expect(c, "Y", context, NULL) > 0);
    expect(c, "present_key", present_keys, NULL);
    expect(c, "present_value", present_values, NULL);
}

TEST(literal_cases)
{
    unsigned char *text = tensor_read_bytes("tests/conformance/literal_cases.json", NULL);
    cJSON *root = cJSON_Parse((const char *)text);
    assert_non_null(root);
    int covered = 0, additive = 0;
    const cJSON *c;
    cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(root, "cases")) {
        const char *score = cJSON_GetObjectItemCaseSensitive(c, "score")->valuestring;
        const bool is_additive = strcmp(score, "additive") == 0;
        additive += is_additive;
        if (is_additive || strcmp(score, "dot") == 0 || strcmp(score, "given") == 0)
            run_pairs(c);
        else if (strcmp(score, "mask") == 0)
            run_mask_rule(c);
        else if (strcmp(score, "projected") == 0)
            run_projected(c);
        else
            fail_msg("nobody knows the score %s", score);
        covered++;
    }
    print_message("%d cases run, %d of them of additive scores\n", covered, additive);
    cJSON_Delete(root);
    free(text);
    assert_int_equal(covered, CASES_COVERED);
    assert_int_equal(additive, CASES_ADDITIVE);
}

int main(void)
{
    openblas_set_num_threads(1);
    return test_run(NULL);
}
