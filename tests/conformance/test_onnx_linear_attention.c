/* SPDX-License-Identifier: Apache-2.0 */
/* test_onnx_linear_attention.c - the node tests of the ONNX operator LinearAttention, opset 27.
 *
 * Each item of a batch is a problem of its own. The heads of queries, q_num_heads, read the
 * state of kv_num_heads; a beta of one column is that of all heads. All cases run on every table.
 */
#include "linear_attention.h"
#include "tensor_file.h"
#include "test.h"

#include <glob.h>

enum { CASES = 14 };

struct linear_case {
    struct tensor_file file;
    cJSON *attributes;
    float *query, *key, *value, *decay, *beta, *state, *context; /* of all items */
    int64_t batch, length, heads, q_heads, k_dim, v_dim, decay_columns;
};

static double attribute(const struct linear_case *c, const char *name, double otherwise)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(c->attributes, name);
    return value != NULL ? value->valuedouble : otherwise;
}

/* The numbers of an input, or NULL; columns is that of its rows. */
static float *read_input(const struct linear_case *c, const char *name, int64_t *columns)
{
    struct tensor tensor;
    *columns = 0;
    if (!tensor_file_find(&c->file, name, &tensor))
        return NULL;
    *columns = tensor.shape[tensor.rank - 1];
    return tensor_floats(&tensor);
}

/* beta of every head, where the case has one for all. */
static float *spread(float *beta, int64_t rows, int64_t columns, int64_t heads)
{
    float *all = malloc((size_t)(rows * heads) * sizeof *all);
    assert_non_null(all);
    for (int64_t i = 0; i < rows * heads; i++)
        all[i] = beta[columns == 1 ? i / heads : i];
    free(beta);
    return all;
}

static void open_case(struct linear_case *c, const char *path)
{
    int64_t q_columns, k_columns, v_columns, columns;
    *c = (struct linear_case){ 0 };
    tensor_file_open(&c->file, path);
    assert_string_equal(tensor_file_metadata(&c->file, "op"), "LinearAttention");
    c->attributes = cJSON_Parse(tensor_file_metadata(&c->file, "attributes"));
    assert_non_null(c->attributes);
    c->q_heads = (int64_t)attribute(c, "q_num_heads", 0);
    c->heads = (int64_t)attribute(c, "kv_num_heads", 0);
    const struct tensor query = tensor_file_get(&c->file, "in.query");
    assert_int_equal(query.rank, 3);
    c->batch = query.shape[0];
    c->length = query.shape[1];
    c->query = read_input(c, "in.query", &q_columns);
    c->key = read_input(c, "in.key", &k_columns);
    c->value = read_input(c, "in.value", &v_columns);
    c->k_dim = k_columns / c->heads;
    c->v_dim = v_columns / c->heads;
    assert_int_equal(q_columns, c->q_heads * c->k_dim);
    c->decay = read_input(c, "in.decay", &c->decay_columns);
    c->beta = read_input(c, "in.beta", &columns);
    if (c->beta != NULL)
        c->beta = spread(c->beta, c->batch * c->length, columns, c->heads);
    const size_t states = (size_t)(c->batch * c->heads * c->k_dim * c->v_dim);
    c->state = read_input(c, "in.past_state", &columns);
    if (c->state == NULL)
        c->state = calloc(states, sizeof *c->state);
    c->context = malloc((size_t)(c->batch * c->length * c->q_heads * c->v_dim) * sizeof(float));
    assert_non_null(c->state);
    assert_non_null(c->context);
}

static void close_case(struct linear_case *c)
{
    float *const all[] = { c->query, c->key, c->value, c->decay, c->beta, c->state, c->context };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    cJSON_Delete(c->attributes);
    tensor_file_close(&c->file);
}

static struct attn_linear_attention attention_of(const struct linear_case *c)
{
    const double scale = attribute(c, "scale", 0);
    return (struct attn_linear_attention){
        .q_heads = c->q_heads,
        .k_heads = c->heads,
        .v_heads = c->heads,
        .k_head_dim = c->k_dim,
        .v_head_dim = c->v_dim,
        .has_decay = c->decay != NULL,
        .has_beta = c->beta != NULL,
        .decay_has_columns = c->decay_columns == c->heads * c->k_dim,
        .scale = scale > 0 ? scale : 1 / sqrt((double)c->k_dim),
    };
}

static void run_item(const struct linear_case *c, const struct attn_linear_attention *attention,
                     int64_t item, const struct attn_kernels *kernels)
{
    const int64_t row = item * c->length, q = c->q_heads * c->k_dim;
    const int64_t k = c->heads * c->k_dim, v = c->heads * c->v_dim;
    float *state = c->state + item * attn_linear_attention_state(attention);
    const struct attn_linear_attention_problem problem = {
        .attention = attention,
        .query = c->query + row * q,
        .query_stride = q,
        .key = c->key + row * k,
        .key_stride = k,
        .value = c->value + row * v,
        .value_stride = v,
        .decay = c->decay != NULL ? c->decay + row * c->decay_columns : NULL,
        .decay_stride = c->decay_columns,
        .beta = c->beta != NULL ? c->beta + row * c->heads : NULL,
        .beta_stride = c->heads,
        .y = c->context + row * c->q_heads * c->v_dim,
        .y_stride = c->q_heads * c->v_dim,
        .before = state,
        .after = state,
        .row_count = c->length,
        .kernels = kernels,
    };
    void *workspace = aligned_alloc(64, attn_linear_attention_workspace_bytes(attention));
    assert_non_null(workspace);
    for (int64_t task = 0; task < attn_linear_attention_tasks(&problem); task++)
        attn_linear_attention_run(&problem, task, workspace);
    free(workspace);
}

static int count_wrong(const struct linear_case *c, const char *name, const float *got)
{
    const struct tensor tensor = tensor_file_get(&c->file, name);
    const double near = tensor.type == TENSOR_F16 ? 1e-3 : 2e-6;
    float *want = tensor_floats(&tensor);
    int wrong = 0;
    for (int64_t i = 0; i < tensor.count; i++)
        wrong += !(fabs((double)got[i] - (double)want[i]) <= near * fmax(1, fabs((double)want[i])));
    free(want);
    if (wrong > 0)
        print_error("%s of %s: %d numbers differ\n", name, tensor_file_metadata(&c->file, "case"),
                    wrong);
    return wrong;
}

static int run_case(const char *path, const struct attn_kernels *kernels)
{
    struct linear_case c;
    open_case(&c, path);
    const struct attn_linear_attention attention = attention_of(&c);
    const char *where = "";
    if (attn_linear_attention_check(&attention, &where) != ATTN_OK)
        fail_msg("%s: %s", path, where);
    for (int64_t item = 0; item < c.batch; item++)
        run_item(&c, &attention, item, kernels);
    const int wrong =
        count_wrong(&c, "out.output", c.context) + count_wrong(&c, "out.present_state", c.state);
    close_case(&c);
    return wrong;
}

TEST(cases)
{
    glob_t found;
    int wrong = 0;
    assert_int_equal(glob("tests/conformance/onnx/linear_attention/*.safetensors", 0, NULL, &found),
                     0);
    assert_int_equal(found.gl_pathc, CASES);
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (size_t i = 0; i < found.gl_pathc; i++)
            wrong += run_case(found.gl_pathv[i], *k);
    globfree(&found);
    assert_int_equal(wrong, 0);
}
