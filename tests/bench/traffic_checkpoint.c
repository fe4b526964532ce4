/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_checkpoint.c - see traffic_checkpoint.h.
 *
 * A checkpoint is a table of tensors. The file is written in two passes over the table: the header
 * with the places of all tensors, then their numbers. */
#include "traffic_checkpoint.h"

#include "fill.h"
#include "gguf_models.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE = 65536, HEADER_ALIGNMENT = 8 };

/* Uniform numbers of the standard deviation with which BERT and Llama begin, 0.02. */
static const float MOST = 0.0346f;

enum size { NONE, WIDTH, INNER, VOCABULARY, POSITIONS, TYPES };
enum numbers { RANDOM, ONES };

struct tensor {
    const char *name; /* # stands for the number of a layer, and the tensor is of each */
    enum size rows, columns;
    enum numbers numbers; /* of a vector */
};

/* A matrix and its bias; a norm. */
#define LINEAR(name, rows, columns)                                                                \
    { name ".weight", rows, columns, RANDOM },                                                     \
    {                                                                                              \
        name ".bias", rows, NONE, RANDOM                                                           \
    }
#define NORM(name)                                                                                 \
    { name ".weight", WIDTH, NONE, ONES },                                                         \
    {                                                                                              \
        name ".bias", WIDTH, NONE, RANDOM                                                          \
    }
#define MATRIX(name, rows, columns)                                                                \
    {                                                                                              \
        name ".weight", rows, columns, RANDOM                                                      \
    }
#define RMS_NORM(name)                                                                             \
    {                                                                                              \
        name ".weight", WIDTH, NONE, ONES                                                          \
    }
#define LAYER "bert.encoder.layer.#."

static const struct tensor ENCODER[] = {
    MATRIX("bert.embeddings.word_embeddings", VOCABULARY, WIDTH),
    MATRIX("bert.embeddings.position_embeddings", POSITIONS, WIDTH),
    MATRIX("bert.embeddings.token_type_embeddings", TYPES, WIDTH),
    NORM("bert.embeddings.LayerNorm"),
    LINEAR(LAYER "attention.self.query", WIDTH, WIDTH),
    LINEAR(LAYER "attention.self.key", WIDTH, WIDTH),
    LINEAR(LAYER "attention.self.value", WIDTH, WIDTH),
    LINEAR(LAYER "attention.output.dense", WIDTH, WIDTH),
    NORM(LAYER "attention.output.LayerNorm"),
    LINEAR(LAYER "intermediate.dense", INNER, WIDTH),
    LINEAR(LAYER "output.dense", WIDTH, INNER),
    NORM(LAYER "output.LayerNorm"),
    LINEAR("cls.predictions.transform.dense", WIDTH, WIDTH),
    NORM("cls.predictions.transform.LayerNorm"),
    { "cls.predictions.bias", VOCABULARY, NONE, RANDOM },
};

static const struct tensor DECODER[] = {
    MATRIX("model.embed_tokens", VOCABULARY, WIDTH),
    RMS_NORM("model.layers.#.input_layernorm"),
    MATRIX("model.layers.#.self_attn.q_proj", WIDTH, WIDTH),
    MATRIX("model.layers.#.self_attn.k_proj", WIDTH, WIDTH),
    MATRIX("model.layers.#.self_attn.v_proj", WIDTH, WIDTH),
    MATRIX("model.layers.#.self_attn.o_proj", WIDTH, WIDTH),
    RMS_NORM("model.layers.#.post_attention_layernorm"),
    MATRIX("model.layers.#.mlp.gate_proj", INNER, WIDTH),
    MATRIX("model.layers.#.mlp.up_proj", INNER, WIDTH),
    MATRIX("model.layers.#.mlp.down_proj", WIDTH, INNER),
    RMS_NORM("model.norm"),
};

/* A file on its way. */
struct writer {
    const struct traffic_checkpoint *shape;
    FILE *file;
    int64_t offset;
    struct fill fill;
    char *separator;
};

static int64_t size_of(const struct traffic_checkpoint *shape, enum size size)
{
    switch (size) {
    case WIDTH:
        return shape->width;
    case INNER:
        return shape->inner;
    case VOCABULARY:
        return shape->vocabulary;
    case POSITIONS:
        return shape->positions;
    case TYPES:
        return 2;
    case NONE:
        break;
    }
    return 1;
}

static void write_entry(struct writer *writer, const struct tensor *tensor, int layer)
{
    const struct traffic_checkpoint *shape = writer->shape;
    const int64_t rows = size_of(shape, tensor->rows), columns = size_of(shape, tensor->columns);
    const char *mark = strchr(tensor->name, '#');
    const int64_t first = writer->offset;
    writer->offset += rows * columns * (shape->is_f16 ? 2 : 4);
    fprintf(writer->file, "%s\"", writer->separator);
    if (mark)
        fprintf(writer->file, "%.*s%d%s", (int)(mark - tensor->name), tensor->name, layer,
                mark + 1);
    else
        fputs(tensor->name, writer->file);
    fprintf(writer->file, "\":{\"dtype\":\"%s\",\"shape\":[%" PRId64, shape->is_f16 ? "F16" : "F32",
            rows);
    if (tensor->columns != NONE)
        fprintf(writer->file, ",%" PRId64, columns);
    fprintf(writer->file, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", first, writer->offset);
    writer->separator = ",";
}

static void write_numbers(struct writer *writer, const struct tensor *tensor, int layer)
{
    static float floats[PIECE];
    static uint16_t halves[PIECE];
    const struct attn_kernels *kernels = attn_kernels_available()[0];
    int64_t left = size_of(writer->shape, tensor->rows) * size_of(writer->shape, tensor->columns);
    (void)layer;
    for (int64_t count; left > 0; left -= count) {
        count = left < PIECE ? left : PIECE;
        for (int64_t i = 0; i < count; i++)
            floats[i] = tensor->numbers == ONES ? 1 : fill_float(&writer->fill, -MOST, MOST);
        if (!writer->shape->is_f16) {
            fwrite(floats, sizeof *floats, (size_t)count, writer->file);
            continue;
        }
        kernels->narrow_f16(halves, floats, count);
        fwrite(halves, sizeof *halves, (size_t)count, writer->file);
    }
}

static void for_each(struct writer *writer, const struct tensor *tensors, int count,
                     void (*write)(struct writer *, const struct tensor *, int layer))
{
    for (int i = 0; i < count; i++)
        for (int layer = 0; layer < (strchr(tensors[i].name, '#') ? writer->shape->layers : 1);
             layer++)
            write(writer, &tensors[i], layer);
}

static FILE *open_in(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    if (!file) {
        perror(path);
        exit(1);
    }
    return file;
}

static void close_written(FILE *file)
{
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        perror("a checkpoint");
        exit(1);
    }
}

static void write_tensors(const char *folder, const struct traffic_checkpoint *shape,
                          const struct tensor *tensors, int count)
{
    struct writer writer = { .shape = shape, .fill = { 1 }, .separator = "" };
    char *header;
    size_t size;
    writer.file = open_memstream(&header, &size);
    if (!writer.file)
        abort();
    fputc('{', writer.file);
    for_each(&writer, tensors, count, write_entry);
    fputc('}', writer.file);
    fflush(writer.file);
    while (size % HEADER_ALIGNMENT != 0) {
        fputc(' ', writer.file);
        fflush(writer.file);
    }
    fclose(writer.file);
    const uint64_t header_size = size;
    writer.file = open_in(folder, "model.safetensors");
    fwrite(&header_size, sizeof header_size, 1, writer.file);
    fwrite(header, 1, size, writer.file);
    free(header);
    for_each(&writer, tensors, count, write_numbers);
    close_written(writer.file);
}

void traffic_checkpoint_encoder(const char *folder, const struct traffic_checkpoint *shape)
{
    mkdir(folder, 0755);
    FILE *file = open_in(folder, "config.json");
    fprintf(file,
            "{\"model_type\":\"bert\",\"architectures\":[\"BertForMaskedLM\"],\"hidden_size\":%d,"
            "\"num_attention_heads\":%d,\"num_hidden_layers\":%d,\"intermediate_size\":%d,"
            "\"vocab_size\":%d,\"hidden_act\":\"gelu\",\"max_position_embeddings\":%d,"
            "\"type_vocab_size\":2,\"layer_norm_eps\":1e-12}",
            shape->width, shape->heads, shape->layers, shape->inner, shape->vocabulary,
            shape->positions);
    close_written(file);
    write_tensors(folder, shape, ENCODER, sizeof ENCODER / sizeof ENCODER[0]);
}

void traffic_checkpoint_decoder(const char *folder, const struct traffic_checkpoint *shape)
{
    mkdir(folder, 0755);
    FILE *file = open_in(folder, "config.json");
    fprintf(file,
            "{\"model_type\":\"llama\",\"hidden_size\":%d,\"num_attention_heads\":%d,"
            "\"num_key_value_heads\":%d,\"num_hidden_layers\":%d,\"intermediate_size\":%d,"
            "\"vocab_size\":%d,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\","
            "\"tie_word_embeddings\":true}",
            shape->width, shape->heads, shape->heads, shape->layers, shape->inner,
            shape->vocabulary);
    close_written(file);
    write_tensors(folder, shape, DECODER, sizeof DECODER / sizeof DECODER[0]);
}

/* Puts sizes in the place of capital letters. */
static void put_sizes(const struct traffic_checkpoint *shape, const char *pattern, FILE *to)
{
    for (; *pattern; pattern++) {
        const int size = *pattern == 'W'   ? shape->width
                         : *pattern == 'I' ? shape->inner
                         : *pattern == 'V' ? shape->vocabulary
                         : *pattern == 'P' ? shape->positions
                                           : 0;
        if (size > 0)
            fprintf(to, "%d", size);
        else
            fputc(*pattern, to);
    }
}

static const char GGUF_TENSORS[] =
    "token_embd.weight VxW, token_types.weight 2xW, position_embd.weight PxW, "
    "token_embd_norm.weight W, token_embd_norm.bias W, "
    "blk.#.attn_q.weight WxW, blk.#.attn_q.bias W, blk.#.attn_k.weight WxW, blk.#.attn_k.bias W, "
    "blk.#.attn_v.weight WxW, blk.#.attn_v.bias W, "
    "blk.#.attn_output.weight WxW, blk.#.attn_output.bias W, "
    "blk.#.attn_output_norm.weight W, blk.#.attn_output_norm.bias W, "
    "blk.#.ffn_up.weight IxW, blk.#.ffn_up.bias I, "
    "blk.#.ffn_down.weight WxI, blk.#.ffn_down.bias W, "
    "blk.#.layer_output_norm.weight W, blk.#.layer_output_norm.bias W, ";

void traffic_checkpoint_gguf(const char *path, const struct traffic_checkpoint *shape)
{
    char pairs[600], *tensors;
    size_t size;
    FILE *to = open_memstream(&tensors, &size);
    if (!to)
        abort();
    put_sizes(shape, GGUF_TENSORS, to);
    fclose(to);
    snprintf(pairs, sizeof pairs,
             ".vocab_size I %d, .context_length I %d, .embedding_length I %d, "
             ".feed_forward_length I %d, .attention.head_count I %d, "
             ".attention.layer_norm_epsilon f 1e-12, .attention.causal ? 0, .pooling_type I 1, "
             "tokenizer.ggml.token_type_count I 2, ",
             shape->vocabulary, shape->positions, shape->width, shape->inner, shape->heads);
    gguf_model_write(&(struct gguf_model){ .name = "bert",
                                           .architecture = "bert",
                                           .pairs = pairs,
                                           .tensors = tensors,
                                           .kind = GGUF_ENCODER,
                                           .blocks = shape->layers },
                     (struct gguf_model_form){ .type = "F32" }, path);
    free(tensors);
}
