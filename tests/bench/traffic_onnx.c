/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_onnx.c - see traffic_onnx.h.
 *
 * Source: onnx.proto3 of https://github.com/onnx/onnx has the numbers of fields;
 * ContribOperators.md of https://github.com/microsoft/onnxruntime the operators of com.microsoft.
 */
#include "traffic_onnx.h"

#include "models/model/model_tensors.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 96, VARINT = 0, BYTES = 2, FIXED_32 = 5 };
enum { TYPE_FLOAT = 1, TYPE_INT32 = 6, ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_INTS = 7 };

/* ------------------------------------------------------------------------- protobuf -- */

/* A message that is written into memory. */
struct message {
    FILE *stream;
    char *bytes;
    size_t size;
};

static void begin(struct message *message)
{
    message->stream = open_memstream(&message->bytes, &message->size);
    if (!message->stream)
        abort();
}

static void put_varint(FILE *to, uint64_t number)
{
    for (; number > 127; number /= 128)
        fputc((int)(number % 128) | 128, to);
    fputc((int)number, to);
}

static void put_number(FILE *to, int field, uint64_t number)
{
    put_varint(to, (uint64_t)field * 8 + VARINT);
    put_varint(to, number);
}

static void put_bytes(FILE *to, int field, const void *bytes, size_t size)
{
    put_varint(to, (uint64_t)field * 8 + BYTES);
    put_varint(to, size);
    fwrite(bytes, 1, size, to);
}

static void put_text(FILE *to, int field, const char *text)
{
    put_bytes(to, field, text, strlen(text));
}

/* Ends the message as a field of another. */
static void end_in(struct message *message, FILE *to, int field)
{
    if (fclose(message->stream) != 0)
        abort();
    put_bytes(to, field, message->bytes, message->size);
    free(message->bytes);
}

/* ----------------------------------------------------------------------------- graph -- */

struct graph {
    FILE *to;
    const struct traffic_checkpoint *shape;
    const struct model_tensors *tensors;
};

static void put_attribute(FILE *node, const char *name, int64_t number)
{
    struct message attribute;
    begin(&attribute);
    put_text(attribute.stream, 1, name);
    put_number(attribute.stream, 3, (uint64_t)number);
    put_number(attribute.stream, 20, ATTRIBUTE_INT);
    end_in(&attribute, node, 5);
}

static void put_epsilon(FILE *node)
{
    const float epsilon = 1e-12f;
    struct message attribute;
    begin(&attribute);
    put_text(attribute.stream, 1, "epsilon");
    put_varint(attribute.stream, 2 * 8 + FIXED_32);
    fwrite(&epsilon, sizeof epsilon, 1, attribute.stream);
    put_number(attribute.stream, 20, ATTRIBUTE_FLOAT);
    end_in(&attribute, node, 5);
}

static void put_axis(FILE *node, int64_t axis)
{
    struct message attribute;
    begin(&attribute);
    put_text(attribute.stream, 1, "axes");
    put_number(attribute.stream, 8, (uint64_t)axis);
    put_number(attribute.stream, 20, ATTRIBUTE_INTS);
    end_in(&attribute, node, 5);
}

/* A name in which # is the layer; "-" is no name. */
static void put_name(FILE *node, int field, const char *pattern, int layer)
{
    char name[NAME_BYTES];
    const char *mark = strchr(pattern, '#');
    snprintf(name, sizeof name, mark ? "%.*s%d%s" : "%.*s", (int)strcspn(pattern, "#"), pattern,
             layer, mark ? mark + 1 : "");
    put_text(node, field, strcmp(pattern, "-") == 0 ? "" : name);
}

/* Begins a node; inputs is a list of names with spaces. */
static void begin_node(struct message *node, const char *type, const char *inputs,
                       const char *output, int layer)
{
    char list[4 * NAME_BYTES], *rest = list;
    begin(node);
    snprintf(list, sizeof list, "%s", inputs);
    for (const char *input; (input = strsep(&rest, " "));)
        put_name(node->stream, 1, input, layer);
    put_name(node->stream, 2, output, layer);
    put_text(node->stream, 4, type);
}

static void end_node(struct graph *graph, struct message *node, bool is_contributed)
{
    if (is_contributed)
        put_text(node->stream, 7, "com.microsoft");
    end_in(node, graph->to, 1);
}

static void put_plain(struct graph *graph, const char *type, const char *inputs, const char *output,
                      int layer)
{
    struct message node;
    begin_node(&node, type, inputs, output, layer);
    end_node(graph, &node, strcmp(type, "BiasGelu") == 0);
}

/* A sum with the residual and its norm. */
static void put_sum(struct graph *graph, const char *inputs, const char *output, int layer)
{
    struct message node;
    begin_node(&node, "SkipLayerNormalization", inputs, output, layer);
    put_epsilon(node.stream);
    end_node(graph, &node, true);
}

static void put_layer(struct graph *graph, int layer)
{
    char rows[NAME_BYTES], next[NAME_BYTES], inputs[4 * NAME_BYTES];
    snprintf(rows, sizeof rows, "rows%d", layer);
    snprintf(next, sizeof next, "rows%d", layer + 1);
    snprintf(inputs, sizeof inputs, "%s qkv# qkv_bias#", rows);
    struct message node;
    begin_node(&node, "Attention", inputs, "context#", layer);
    put_attribute(node.stream, "num_heads", graph->shape->heads);
    end_node(graph, &node, true);
    snprintf(inputs, sizeof inputs, "output# %s norm_weight# norm_bias# out_bias#", rows);
    put_plain(graph, "MatMul", "context# out#", "output#", layer);
    put_sum(graph, inputs, "inner#", layer);
    put_plain(graph, "MatMul", "inner# up#", "raised#", layer);
    put_plain(graph, "BiasGelu", "raised# up_bias#", "active#", layer);
    put_plain(graph, "MatMul", "active# down#", "lowered#", layer);
    put_sum(graph, "lowered# inner# last_weight# last_bias# down_bias#", next, layer);
}

/* ------------------------------------------------------------------------ parameters -- */

static const float *numbers_of(const struct graph *graph, const char *pattern, int layer)
{
    char name[NAME_BYTES];
    const char *mark = strchr(pattern, '#');
    snprintf(name, sizeof name, mark ? "bert.%.*s%d%s" : "bert.%.*s", (int)strcspn(pattern, "#"),
             pattern, layer, mark ? mark + 1 : "");
    const struct model_entry *entry = model_tensors_find(graph->tensors, name);
    if (!entry || strcmp(entry->dtype, "F32") != 0) {
        fprintf(stderr, "no tensor %s\n", name);
        exit(1);
    }
    return entry->data;
}

static void put_tensor(struct graph *graph, const char *name, int layer, const float *numbers,
                       int64_t rows, int64_t columns)
{
    char whole[NAME_BYTES];
    struct message tensor;
    begin(&tensor);
    snprintf(whole, sizeof whole, layer < 0 ? "%s" : "%s%d", name, layer);
    if (rows > 0)
        put_number(tensor.stream, 1, (uint64_t)rows);
    put_number(tensor.stream, 1, (uint64_t)columns);
    put_number(tensor.stream, 2, TYPE_FLOAT);
    put_text(tensor.stream, 8, whole);
    put_bytes(tensor.stream, 9, numbers,
              (size_t)((rows > 0 ? rows : 1) * columns) * sizeof *numbers);
    end_in(&tensor, graph->to, 5);
}

static void put_vector(struct graph *graph, const char *name, int layer, const char *from,
                       int64_t count)
{
    put_tensor(graph, name, layer, numbers_of(graph, from, layer), 0, count);
}

/* Some matrices [out, in] side by side, as one [in, outs]. */
static void put_matrices(struct graph *graph, const char *name, int layer, const char *const *names,
                         int count, int64_t out, int64_t in)
{
    float *turned = malloc((size_t)(count * out * in) * sizeof *turned);
    if (!turned)
        abort();
    for (int m = 0; m < count; m++) {
        const float *numbers = numbers_of(graph, names[m], layer);
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < in; i++)
                turned[i * count * out + m * out + o] = numbers[o * in + i];
    }
    put_tensor(graph, name, layer, turned, in, count * out);
    free(turned);
}

#define LAYER "encoder.layer.#."

static void put_parameters(struct graph *graph, int layer)
{
    static const char *const QKV[] = { LAYER "attention.self.query.weight",
                                       LAYER "attention.self.key.weight",
                                       LAYER "attention.self.value.weight" };
    static const char *const BIASES[] = { LAYER "attention.self.query.bias",
                                          LAYER "attention.self.key.bias",
                                          LAYER "attention.self.value.bias" };
    static const char *const OTHERS[] = { LAYER "attention.output.dense.weight",
                                          LAYER "intermediate.dense.weight",
                                          LAYER "output.dense.weight" };
    const int64_t width = graph->shape->width, inner = graph->shape->inner;
    float *bias = malloc((size_t)(3 * width) * sizeof *bias);
    if (!bias)
        abort();
    for (int i = 0; i < 3; i++)
        memcpy(bias + i * width, numbers_of(graph, BIASES[i], layer), (size_t)width * sizeof *bias);
    put_matrices(graph, "qkv", layer, QKV, 3, width, width);
    put_tensor(graph, "qkv_bias", layer, bias, 0, 3 * width);
    free(bias);
    put_matrices(graph, "out", layer, &OTHERS[0], 1, width, width);
    put_matrices(graph, "up", layer, &OTHERS[1], 1, inner, width);
    put_matrices(graph, "down", layer, &OTHERS[2], 1, width, inner);
    put_vector(graph, "out_bias", layer, LAYER "attention.output.dense.bias", width);
    put_vector(graph, "up_bias", layer, LAYER "intermediate.dense.bias", inner);
    put_vector(graph, "down_bias", layer, LAYER "output.dense.bias", width);
    put_vector(graph, "norm_weight", layer, LAYER "attention.output.LayerNorm.weight", width);
    put_vector(graph, "norm_bias", layer, LAYER "attention.output.LayerNorm.bias", width);
    put_vector(graph, "last_weight", layer, LAYER "output.LayerNorm.weight", width);
    put_vector(graph, "last_bias", layer, LAYER "output.LayerNorm.bias", width);
}

/* The rows of all types are those of type 0, which is added to the positions. */
static void put_tables(struct graph *graph)
{
    const int64_t width = graph->shape->width, positions = graph->shape->positions;
    const float *from = numbers_of(graph, "embeddings.position_embeddings.weight", 0);
    const float *types = numbers_of(graph, "embeddings.token_type_embeddings.weight", 0);
    float *sums = malloc((size_t)(positions * width) * sizeof *sums);
    if (!sums)
        abort();
    for (int64_t i = 0; i < positions * width; i++)
        sums[i] = from[i] + types[i % width];
    put_tensor(graph, "words", -1, numbers_of(graph, "embeddings.word_embeddings.weight", 0),
               graph->shape->vocabulary, width);
    put_tensor(graph, "positions", -1, sums, positions, width);
    put_tensor(graph, "first_weight", -1, numbers_of(graph, "embeddings.LayerNorm.weight", 0), 0,
               width);
    put_tensor(graph, "first_bias", -1, numbers_of(graph, "embeddings.LayerNorm.bias", 0), 0,
               width);
    free(sums);
}

/* --------------------------------------------------------------------------- a model -- */

/* A tensor of two dimensions, which have names or a size. */
static void put_value(struct graph *graph, int field, const char *name, int type,
                      const char *const *dimensions)
{
    struct message value, whole, tensor, sizes, size;
    begin(&value);
    put_text(value.stream, 1, name);
    begin(&whole);
    begin(&tensor);
    put_number(tensor.stream, 1, (uint64_t)type);
    begin(&sizes);
    for (int i = 0; i < 2; i++) {
        begin(&size);
        put_text(size.stream, 2, dimensions[i]);
        end_in(&size, sizes.stream, 1);
    }
    end_in(&sizes, tensor.stream, 2);
    end_in(&tensor, whole.stream, 1);
    end_in(&whole, value.stream, 2);
    end_in(&value, graph->to, field);
}

static void put_graph(struct graph *graph)
{
    static const char *const IDS[] = { "batch", "tokens" }, *const VECTORS[] = { "batch", "width" };
    const int layers = graph->shape->layers;
    char last[NAME_BYTES];
    struct message node;
    begin_node(&node, "EmbedLayerNormalization", "ids - words positions - first_weight first_bias",
               "rows0", 0);
    put_text(node.stream, 2, "mask");
    put_epsilon(node.stream);
    end_node(graph, &node, true);
    for (int layer = 0; layer < layers; layer++)
        put_layer(graph, layer);
    snprintf(last, sizeof last, "rows%d", layers);
    begin_node(&node, "ReduceMean", last, "mean", 0);
    put_axis(node.stream, 1);
    put_attribute(node.stream, "keepdims", 0);
    end_node(graph, &node, false);
    begin_node(&node, "LpNormalization", "mean", "vectors", 0);
    put_attribute(node.stream, "axis", 1);
    put_attribute(node.stream, "p", 2);
    end_node(graph, &node, false);
    put_text(graph->to, 2, "encoder");
    put_tables(graph);
    for (int layer = 0; layer < layers; layer++)
        put_parameters(graph, layer);
    put_value(graph, 11, "ids", TYPE_INT32, IDS);
    put_value(graph, 12, "vectors", TYPE_FLOAT, VECTORS);
}

static void put_opset(FILE *to, const char *domain, uint64_t version)
{
    struct message opset;
    begin(&opset);
    put_text(opset.stream, 1, domain);
    put_number(opset.stream, 2, version);
    end_in(&opset, to, 8);
}

void traffic_onnx_encoder(const char *folder, const struct traffic_checkpoint *shape)
{
    enum { IR_VERSION = 8, OPSET = 17 };
    char path[1024];
    struct model_tensors tensors;
    struct message whole;
    struct fault fault;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (!model_tensors_open(&tensors, path, NULL, &fault)) {
        fprintf(stderr, "%s\n", fault.message);
        exit(1);
    }
    begin(&whole);
    struct graph graph = { whole.stream, shape, &tensors };
    put_graph(&graph);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    FILE *file = fopen(path, "we");
    if (!file) {
        perror(path);
        exit(1);
    }
    put_number(file, 1, IR_VERSION);
    end_in(&whole, file, 7);
    put_opset(file, "", OPSET);
    put_opset(file, "com.microsoft", 1);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        abort();
    model_tensors_free(&tensors);
}

/* By the first two functions of onnxruntime_c_api.h. */
const char *traffic_onnx_version(const char *path)
{
    struct api_base {
        const void *(*get_api)(uint32_t version);
        const char *(*get_version)(void);
    };
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct api_base *(*get_base)(void) = NULL;
    if (library)
        get_base = (const struct api_base *(*)(void))(uintptr_t)dlsym(library, "OrtGetApiBase");
    return get_base ? get_base()->get_version() : "not known";
}
