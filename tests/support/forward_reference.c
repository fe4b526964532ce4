/* SPDX-License-Identifier: Apache-2.0 */
/* forward_reference.c - see forward_reference.h. */
#include "forward_reference.h"
#include "forward_edits.h"
#include "test.h"

struct forward_layer *forward_layer_at(struct forward *forward, int place)
{
    assert_true(place < FORWARD_LAYERS_MAX);
    if (forward->layer_count <= place)
        forward->layer_count = place + 1;
    return &forward->layers[place];
}

struct forward_layer *forward_add_layer(struct forward *forward, struct forward_layer layer)
{
    struct forward_layer *to = forward_layer_at(forward, forward->layer_count);
    *to = layer;
    return to;
}

/* -------------------------------------------------------------------- rows -- */

struct rows forward_slice(struct rows x, int64_t first, int64_t count)
{
    const struct rows y = published_rows(count, x.columns);
    assert_true(first >= 0 && first + count <= x.count);
    memcpy(y.data, x.data + first * x.columns, (size_t)(count * x.columns) * sizeof *y.data);
    return y;
}

struct rows forward_add(struct rows x, struct rows y)
{
    const struct rows sum = forward_slice(x, 0, x.count);
    assert_true(x.count == y.count && x.columns == y.columns);
    for (int64_t i = 0; i < x.count * x.columns; i++)
        sum.data[i] += y.data[i];
    return sum;
}

struct rows forward_add_row(struct rows x, struct rows y)
{
    const struct rows sum = forward_slice(x, 0, x.count);
    assert_true(y.count == 1 && x.columns == y.columns);
    for (int64_t i = 0; i < x.count * x.columns; i++)
        sum.data[i] += y.data[i % x.columns];
    return sum;
}

struct rows forward_multiply(struct rows x, struct rows y)
{
    const struct rows product = forward_slice(x, 0, x.count);
    assert_true(x.count == y.count && x.columns == y.columns);
    for (int64_t i = 0; i < x.count * x.columns; i++)
        product.data[i] *= y.data[i];
    return product;
}

struct rows forward_scale(struct rows x, double factor)
{
    const struct rows product = forward_slice(x, 0, x.count);
    for (int64_t i = 0; i < x.count * x.columns; i++)
        product.data[i] *= factor;
    return product;
}

struct rows forward_join(struct rows x, struct rows y)
{
    const struct rows both = published_rows(x.count + y.count, x.columns);
    assert_true(x.columns == y.columns);
    memcpy(both.data, x.data, (size_t)(x.count * x.columns) * sizeof *both.data);
    memcpy(both.data + x.count * x.columns, y.data,
           (size_t)(y.count * y.columns) * sizeof *both.data);
    return both;
}

struct rows forward_embed(struct rows table, const int *ids, int64_t count)
{
    const struct rows y = published_rows(count, table.columns);
    for (int64_t i = 0; i < count; i++) {
        assert_true(ids[i] >= 0 && ids[i] < table.count);
        memcpy(y.data + i * y.columns, table.data + ids[i] * table.columns,
               (size_t)y.columns * sizeof *y.data);
    }
    return y;
}

struct rows forward_view(struct rows x, int64_t columns)
{
    assert_int_equal(x.count * x.columns % columns, 0);
    return (struct rows){ x.count * x.columns / columns, columns, x.data };
}

struct rows forward_product(struct rows x, struct rows w)
{
    const struct rows y = published_rows(x.count, w.count);
    assert_int_equal(x.columns, w.columns);
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t o = 0; o < w.count; o++)
            for (int64_t c = 0; c < x.columns; c++)
                y.data[i * w.count + o] += x.data[i * x.columns + c] * w.data[o * w.columns + c];
    return y;
}

/* --------------------------------------------------------------- functions -- */

/* name.first, or name.second where only that exists, as old checkpoints have it; without data if
 * neither exists. */
static struct rows either(const char *name, const char *first, const char *second, int layer)
{
    char whole[160];
    snprintf(whole, sizeof whole, "%s.%s", name, first);
    if (!published_has(whole, layer))
        snprintf(whole, sizeof whole, "%s.%s", name, second);
    return published_has(whole, layer) ? published_tensor(whole, layer)
                                       : (struct rows){ 0, 0, NULL };
}

struct rows forward_layer_norm(struct rows x, const char *name, int layer, double eps)
{
    const struct rows y = forward_slice(x, 0, x.count);
    const struct rows weight = either(name, "weight", "gamma", layer);
    assert_int_equal(weight.columns, x.columns);
    published_layer_norm(y, 0, y.columns, weight.data, either(name, "bias", "beta", layer).data,
                         eps);
    return y;
}

struct rows forward_rms_norm(struct rows x, const char *name, int layer, double eps, double offset)
{
    char weight[160];
    const struct rows y = forward_slice(x, 0, x.count);
    snprintf(weight, sizeof weight, "%s.weight", name);
    published_rms_norm(y, 1, weight, layer, eps, offset);
    return y;
}

static double gelu(double x)
{
    return x * 0.5 * (1 + erf(x / sqrt(2)));
}

static double gelu_new(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double quick_gelu(double x)
{
    return x / (1 + exp(-1.702 * x));
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double relu2(double x)
{
    return x > 0 ? x * x : 0;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static const struct {
    const char *name;
    double (*apply)(double);
} ACTIVATIONS[] = {
    { "gelu", gelu },
    { "gelu_new", gelu_new },
    { "gelu_pytorch_tanh", gelu_new },
    { "quick_gelu", quick_gelu },
    { "relu", relu },
    { "relu2", relu2 },
    { "silu", silu },
    { "tanh", tanh },
};

struct rows forward_activation(struct rows x, const char *name)
{
    const struct rows y = forward_slice(x, 0, x.count);
    size_t a = 0;
    while (strcmp(ACTIVATIONS[a].name, name) != 0)
        assert_true(++a < sizeof ACTIVATIONS / sizeof ACTIVATIONS[0]);
    for (int64_t i = 0; i < y.count * y.columns; i++)
        y.data[i] = ACTIVATIONS[a].apply(y.data[i]);
    return y;
}

struct rows forward_log_softmax(struct rows x)
{
    const struct rows y = forward_slice(x, 0, x.count);
    for (int64_t i = 0; i < y.count; i++) {
        double *row = y.data + i * y.columns, most = row[0], sum = 0;
        for (int64_t c = 1; c < y.columns; c++)
            most = fmax(most, row[c]);
        for (int64_t c = 0; c < y.columns; c++)
            sum += exp(row[c] - most);
        for (int64_t c = 0; c < y.columns; c++)
            row[c] -= most + log(sum);
    }
    return y;
}

double *forward_value_norms(const struct published_attention *attention, struct rows v,
                            struct rows weight, bool in_out)
{
    const int64_t heads = attention->heads;
    const int64_t dim = (in_out ? weight.count : weight.columns) / heads;
    const int64_t out = in_out ? weight.columns : weight.count;
    const int64_t kv_heads = attention->kv_heads ? attention->kv_heads : heads;
    const struct rows norms = published_rows(heads, v.count);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t j = 0; j < v.count; j++) {
            double squares = 0;
            for (int64_t o = 0; o < out; o++) {
                double sum = 0;
                for (int64_t c = 0; c < dim; c++)
                    sum += v.data[j * v.columns + h / (heads / kv_heads) * dim + c]
                           * (in_out ? weight.data[(h * dim + c) * out + o]
                                     : weight.data[o * weight.columns + h * dim + c]);
                squares += sum * sum;
            }
            norms.data[h * v.count + j] = sqrt(squares);
        }
    return norms.data;
}

struct published_answer forward_attend(const struct published_attention *attention, struct rows q,
                                       struct rows k, struct rows v, const char *output, int layer)
{
    char name[160];
    struct published_answer answer = forward_edits_attend(attention, q, k, v);
    snprintf(name, sizeof name, "%s.weight", output);
    if (answer.weights)
        answer.value_norms =
            forward_value_norms(attention, v, published_tensor(name, layer), false);
    answer.context = forward_edits_output(published_linear(answer.context, output, layer));
    return answer;
}
