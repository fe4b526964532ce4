/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_converted.c - parameters of double precision: they are converted when a layer is held,
 * given back to make room for others, and never exceed the bound. The numbers are the same every
 * time. Parameters of half precision are not converted.
 *
 * Number i of matrix m is a function of i and m that any dtype holds exactly. So the test works
 * out the expected numbers without the daemon's conversion. */
#include "api/prometheus.h"
#include "models/model/model.h"
#include "models/model/model_converted.h"
#include "models/store/model_open.h"
#include "number.h"
#include "published.h"
#include "test.h"

#include <pthread.h>

enum {
    LAYERS = 4,
    WIDTH = 320, /* a matrix is large enough for a copy */
    NUMBERS = WIDTH * WIDTH,
    COPY_BYTES = NUMBERS * 4,
    LAYER_BYTES = 3 * COPY_BYTES, /* q_proj, k_proj and v_proj */
};

static float number(int matrix, int i)
{
    return (float)(1 + (matrix * 37 + i * 7) % 127);
}

/* The config and the tensors, those of a layer one after the other. */
static unsigned char *make_file(enum attn_dtype dtype, size_t *size)
{
    const int number_size = (int)attn_dtype_size(dtype);
    static const char *const NAMES[] = { "q_proj", "k_proj", "v_proj" };
    char header[4096];
    int used = snprintf(header, sizeof header,
                        "{\"__metadata__\":{\"attnd\":\"{\\\"attention\\\":\\\"dot\\\","
                        "\\\"layers\\\":%d}\"}",
                        LAYERS);
    for (int i = 0; i < LAYERS * 3; i++)
        used += snprintf(header + used, sizeof header - (size_t)used,
                         ",\"layers.%d.%s.weight\":{\"dtype\":\"%s\",\"shape\":[%d,%d],"
                         "\"data_offsets\":[%d,%d]}",
                         i / 3, NAMES[i % 3], dtype == ATTN_BF16 ? "BF16" : "F64", WIDTH, WIDTH,
                         i * NUMBERS * number_size, (i + 1) * NUMBERS * number_size);
    header[used++] = '}';
    while (used % 8 != 0)
        header[used++] = ' ';
    *size = 8 + (size_t)used + (size_t)LAYERS * 3 * NUMBERS * (size_t)number_size;
    unsigned char *file = calloc(1, *size);
    assert_non_null(file);
    file[0] = (unsigned char)used;
    file[1] = (unsigned char)(used >> 8);
    memcpy(file + 8, header, (size_t)used);
    for (int m = 0; m < LAYERS * 3; m++)
        for (int i = 0; i < NUMBERS; i++)
            number_set(file + 8 + used, dtype, m * NUMBERS + i, (double)number(m, i));
    return file;
}

static struct model *make_model(enum attn_dtype dtype)
{
    struct model *model;
    struct fault fault;
    size_t size;
    unsigned char *file = make_file(dtype, &size);
    if (!model_create(&model, "m", "", file, size, NULL, free, file, &fault))
        fail_msg("%s", fault.message);
    return model;
}

static int count_wrong(const struct model *model, int layer)
{
    const struct attn_layer *l = &model->layers[layer].layer;
    const float *const matrices[] = { l->q_proj.weight, l->k_proj.weight, l->v_proj.weight };
    int wrong = 0;
    for (int m = 0; m < 3; m++)
        for (int i = 0; i < NUMBERS; i++)
            wrong += matrices[m][i] != number(layer * 3 + m, i);
    return wrong;
}

static void hold(struct model *model, int layer)
{
    struct fault fault;
    if (!model_hold_layer(model, layer, &fault))
        fail_msg("layer %d: %s", layer, fault.message);
    assert_int_equal(count_wrong(model, layer), 0);
}

/* How many bytes are filled; the daemon and its page of metrics must agree. */
static void expect_filled(size_t bytes)
{
    static const char NAME[] = "\nattnd_converted_parameter_bytes ";
    struct text page;
    assert_int_equal(model_converted_bytes(), bytes);
    text_init(&page, 1 << 20);
    prometheus_write(&page);
    text_bytes(&page, "", 1);
    assert_int_equal(page.failed, FAULT_NONE);
    const char *line = strstr(page.data, NAME);
    assert_non_null(line);
    assert_int_equal(strtoull(line + strlen(NAME), NULL, 10), bytes);
    text_free(&page);
}

/* Nothing is converted before it is needed, and only what is needed is converted. */
TEST(when_needed)
{
    struct model *model = make_model(ATTN_F64);
    expect_filled(0);
    hold(model, 2);
    expect_filled(LAYER_BYTES);
    model_drop_layer(model, 2);
    hold(model, 2);
    hold(model, 2);
    hold(model, 0);
    expect_filled(2 * LAYER_BYTES);
    model_drop_layer(model, 2);
    model_drop_layer(model, 2);
    model_drop_layer(model, 0);
    expect_filled(2 * LAYER_BYTES); /* there is no bound */
    model_release(model);
    expect_filled(0);
}

/* The copy that was used longest ago goes first. When it is needed again, all of it comes back. */
TEST(bound)
{
    struct model *model = make_model(ATTN_F64);
    model_converted_limit(2 * LAYER_BYTES + COPY_BYTES);
    for (int round = 0; round < 3; round++)
        for (int layer = 0; layer < LAYERS; layer++) {
            hold(model, layer);
            model_drop_layer(model, layer);
            assert_true(model_converted_bytes() <= 2 * LAYER_BYTES + COPY_BYTES);
        }
    hold(model, 1);
    hold(model, 0);
    struct fault fault = { .code = FAULT_NONE };
    for (int layer = 2; layer < LAYERS; layer++) {
        assert_false(model_hold_layer(model, layer, &fault));
        assert_int_equal(fault.code, FAULT_MEMORY);
        assert_non_null(strstr(fault.message, "--model-memory-max"));
    }
    assert_int_equal(count_wrong(model, 1), 0);
    assert_int_equal(count_wrong(model, 0), 0);
    model_drop_layer(model, 1);
    hold(model, 3);
    model_drop_layer(model, 3);
    model_drop_layer(model, 0);
    model_converted_limit(1);
    expect_filled(0);
    assert_false(model_hold_layer(model, 0, &fault));
    model_converted_limit(0);
    hold(model, 0);
    model_drop_layer(model, 0);
    model_release(model);
}

/* Matrices of BF16 are used where they lie. */
TEST(halves)
{
    struct model *model = make_model(ATTN_BF16);
    struct fault fault;
    model_converted_limit(1);
    for (int layer = 0; layer < LAYERS; layer++) {
        const struct attn_linear *k_proj = &model->layers[layer].layer.k_proj;
        int wrong = 0;
        assert_true(model_hold_layer(model, layer, &fault));
        assert_int_equal(k_proj->dtype, ATTN_BF16);
        for (int i = 0; i < NUMBERS; i++)
            wrong += number_get(k_proj->weight, ATTN_BF16, i) != (double)number(layer * 3 + 1, i);
        assert_int_equal(wrong, 0);
        expect_filled(0);
        model_drop_layer(model, layer);
    }
    model_converted_limit(0);
    model_release(model);
}

/* ---------------------------------------------------------------- fused parts -- */

enum { GATED_HEADS = 68, GATED_DIM = 64, GATED_NUMBERS = GATED_HEADS * GATED_DIM * 16 };

#define GATED_CONFIG                                                                               \
    "{\"model_type\":\"qwen3_5_text\",\"hidden_size\":16,\"num_attention_heads\":68,"              \
    "\"num_key_value_heads\":2,\"head_dim\":64,\"vocab_size\":40,\"num_hidden_layers\":1,"         \
    "\"layer_types\":[\"full_attention\"],\"intermediate_size\":24,\"tie_word_embeddings\":true}"
#define GATED_TENSORS                                                                              \
    "model.embed_tokens.weight 40x16, model.norm.weight 16, "                                      \
    "model.layers.0.input_layernorm.weight 16, "                                                   \
    "model.layers.0.post_attention_layernorm.weight 16, "                                          \
    "model.layers.0.self_attn.q_proj.weight 8704x16, "                                             \
    "model.layers.0.self_attn.k_proj.weight 128x16, "                                              \
    "model.layers.0.self_attn.v_proj.weight 128x16, "                                              \
    "model.layers.0.self_attn.o_proj.weight 16x4352, "                                             \
    "model.layers.0.self_attn.q_norm.weight 64, model.layers.0.self_attn.k_norm.weight 64, "       \
    "model.layers.0.mlp.gate_proj.weight 24x16, model.layers.0.mlp.up_proj.weight 24x16, "         \
    "model.layers.0.mlp.down_proj.weight 16x24"

/* Of a tensor with a query and a gate for each head in turn, both become copies of a layer. */
TEST(gate_beside_queries)
{
    struct fault fault;
    published_open(GATED_CONFIG, GATED_TENSORS, 1, "F32");
    const struct attn_layer *layer = &published_model()->layers[0].layer;
    const struct rows whole = published_tensor("model.layers.0.self_attn.q_proj.weight", 0);
    assert_true(model_hold_layer(published_model(), 0, &fault));
    expect_filled((size_t)2 * GATED_NUMBERS * sizeof(float));
    const float *q = layer->q_proj.weight, *gate = layer->gate_proj.weight;
    int wrong = 0;
    for (int head = 0; head < GATED_HEADS; head++)
        for (int i = 0; i < GATED_DIM * 16; i++, q++, gate++) {
            const double *both = whole.data + (int64_t)2 * head * GATED_DIM * 16 + i;
            wrong += *q != (float)both[0] || *gate != (float)both[(int64_t)GATED_DIM * 16];
        }
    assert_int_equal(wrong, 0);
    model_drop_layer(published_model(), 0);
    published_close();
    expect_filled(0);
}

/* ------------------------------------------------------------ many at once -- */

enum { THREADS = 4, ROUNDS = 30 };

struct user {
    struct model *model;
    int first;
    int wrong, refused;
};

static void *use(void *context)
{
    struct user *user = context;
    for (int i = 0; i < ROUNDS; i++) {
        struct fault fault;
        const int layer = (user->first + i) % LAYERS;
        if (!model_hold_layer(user->model, layer, &fault)) {
            user->refused++;
            continue;
        }
        user->wrong += count_wrong(user->model, layer);
        model_drop_layer(user->model, layer);
    }
    return NULL;
}

/* There is room for two layers of four. Several threads see the right numbers or are refused. */
TEST(many_at_once)
{
    struct model *model = make_model(ATTN_F64);
    pthread_t threads[THREADS];
    struct user users[THREADS];
    int refused = 0;
    model_converted_limit(2 * LAYER_BYTES);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (struct user){ .model = model, .first = i };
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(users[i].wrong, 0);
        refused += users[i].refused;
    }
    assert_true(refused < THREADS * ROUNDS);
    assert_true(model_converted_bytes() <= 2 * LAYER_BYTES);
    model_converted_limit(0);
    model_release(model);
    expect_filled(0);
}
