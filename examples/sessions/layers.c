/* SPDX-License-Identifier: Apache-2.0 */
/* layers.c [--ids] [URL [BEGINNING]] - the same story by a program that has the model itself, and
 * leaves the attention to the daemon: the cache of keys and values need not be where the rest is
 * computed. Run it where examples/ lies: it reads examples/models/stories260K/model.safetensors.
 *
 *     cc -O2 examples/sessions/layers.c examples/sessions/text.c examples/sessions/daemon.c \
 *         $(pkg-config --cflags --libs libcurl libcjson) -lm -o build/layers
 *
 * Embedding, norms, feed-forward and logits are computed here. For each layer one request sends the
 * rows that enter it and gets the context back, so a token takes five of them on one connection. */
#include "text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 5, WIDTH = 64, HIDDEN = 172, VOCABULARY = 512 };

/* The model's tensors, from its file. */
struct decoder {
    char *bytes;
    const float *embedding, *norm;
    struct {
        const float *attention_norm, *feed_norm, *gate, *up, *down;
    } layers[LAYERS];
};

/* --------------------------------------------------------------------- the file -- */

static char *read_file(const char *file, size_t *size)
{
    FILE *stream = fopen(file, "rb");
    if (!stream || fseek(stream, 0, SEEK_END) != 0)
        fail(file, "cannot be read");
    const long end = ftell(stream);
    char *bytes = malloc((size_t)end);
    rewind(stream);
    if (!bytes || fread(bytes, 1, (size_t)end, stream) != (size_t)end)
        fail(file, "cannot be read");
    fclose(stream);
    *size = (size_t)end;
    return bytes;
}

/* A tensor of so many floats; the layer's number stands in place of %d. */
static const float *find(const cJSON *header, const char *data, size_t size, const char *form,
                         int layer, int floats)
{
    char name[64];
    snprintf(name, sizeof name, form, layer);
    const cJSON *offsets =
        cJSON_GetObjectItem(cJSON_GetObjectItemCaseSensitive(header, name), "data_offsets");
    const double from = cJSON_GetNumberValue(cJSON_GetArrayItem(offsets, 0));
    const double to = cJSON_GetNumberValue(cJSON_GetArrayItem(offsets, 1));
    if (!(to - from == floats * 4.0 && from >= 0 && to <= (double)size))
        fail(name, "is not there in the size of stories260K");
    return (const float *)(const void *)(data + (size_t)from);
}

/* A safetensors file: the size of a JSON header, the header, then the tensors. */
static void decoder_open(struct decoder *decoder, const char *file)
{
    size_t size;
    uint64_t header_size;
    decoder->bytes = read_file(file, &size);
    if (size < 8)
        fail(file, "is not a safetensors file");
    memcpy(&header_size, decoder->bytes, 8);
    if (header_size > size - 8)
        fail(file, "is not a safetensors file");
    cJSON *header = cJSON_ParseWithLength(decoder->bytes + 8, (size_t)header_size);
    const char *data = decoder->bytes + 8 + header_size;
    size -= 8 + (size_t)header_size;
    decoder->embedding = find(header, data, size, "tok_embeddings.weight", 0, VOCABULARY * WIDTH);
    decoder->norm = find(header, data, size, "norm.weight", 0, WIDTH);
    for (int i = 0; i < LAYERS; i++) {
        decoder->layers[i].attention_norm =
            find(header, data, size, "layers.%d.attention_norm.weight", i, WIDTH);
        decoder->layers[i].feed_norm =
            find(header, data, size, "layers.%d.ffn_norm.weight", i, WIDTH);
        decoder->layers[i].gate =
            find(header, data, size, "layers.%d.feed_forward.w1.weight", i, HIDDEN * WIDTH);
        decoder->layers[i].down =
            find(header, data, size, "layers.%d.feed_forward.w2.weight", i, HIDDEN * WIDTH);
        decoder->layers[i].up =
            find(header, data, size, "layers.%d.feed_forward.w3.weight", i, HIDDEN * WIDTH);
    }
    cJSON_Delete(header);
}

/* --------------------------------------------------------------------- the model -- */

/* y = weight x, weight[rows][columns]. */
static void multiply(float *y, const float *weight, const float *x, int rows, int columns)
{
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int j = 0; j < columns; j++)
            sum += (double)weight[i * columns + j] * x[j];
        y[i] = (float)sum;
    }
}

/* Divides by the root of the mean square. */
static void norm(float out[WIDTH], const float x[WIDTH], const float weight[WIDTH])
{
    double squares = 0;
    for (int i = 0; i < WIDTH; i++)
        squares += (double)x[i] * x[i];
    const double scale = 1 / sqrt(squares / WIDTH + 1e-5);
    for (int i = 0; i < WIDTH; i++)
        out[i] = (float)(x[i] * scale * weight[i]);
}

/* x += down (silu(gate n) * up n), where n is the norm of x. */
static void feed_forward(const struct decoder *decoder, int layer, float x[WIDTH])
{
    float rows[WIDTH], gate[HIDDEN], up[HIDDEN], down[WIDTH];
    norm(rows, x, decoder->layers[layer].feed_norm);
    multiply(gate, decoder->layers[layer].gate, rows, HIDDEN, WIDTH);
    multiply(up, decoder->layers[layer].up, rows, HIDDEN, WIDTH);
    for (int i = 0; i < HIDDEN; i++)
        gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
    multiply(down, decoder->layers[layer].down, gate, WIDTH, HIDDEN);
    for (int i = 0; i < WIDTH; i++)
        x[i] += down[i];
}

/* x += attention of the norm of x: the daemon has the layer's projections and the session. */
static void attend(const struct decoder *decoder, struct daemon *daemon, const char *session,
                   int layer, int at, float (*x)[WIDTH], int count)
{
    static const char *const OUTPUTS[] = { "context" };
    static float rows[TOKENS_MAX][WIDTH];
    char path[128];
    cJSON *body = cJSON_CreateObject();
    for (int i = 0; i < count; i++)
        norm(rows[i], x[i], decoder->layers[layer].attention_norm);
    cJSON_AddNumberToObject(body, "layer", layer);
    cJSON_AddNumberToObject(body, "at", at);
    cJSON_AddItemToObject(body, "input", rows_to_json(rows[0], count, WIDTH));
    cJSON_AddItemToObject(body, "outputs", cJSON_CreateStringArray(OUTPUTS, 1));
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", session);
    cJSON *answer = daemon_post(daemon, path, body);
    rows_from_json(rows[0], count, WIDTH, cJSON_GetObjectItem(answer, "context"));
    for (int i = 0; i < count; i++)
        for (int c = 0; c < WIDTH; c++)
            x[i][c] += rows[i][c];
    cJSON_Delete(answer);
}

/* The most probable token behind tokens that follow the `at` of the session. */
static int next_token(const struct decoder *decoder, struct daemon *daemon, const char *session,
                      const int *tokens, int count, int at)
{
    static float x[TOKENS_MAX][WIDTH];
    float last[WIDTH], logits[VOCABULARY];
    for (int i = 0; i < count; i++)
        memcpy(x[i], decoder->embedding + tokens[i] * WIDTH, sizeof x[i]);
    for (int layer = 0; layer < LAYERS; layer++) {
        attend(decoder, daemon, session, layer, at, x, count);
        for (int i = 0; i < count; i++)
            feed_forward(decoder, layer, x[i]);
    }
    norm(last, x[count - 1], decoder->norm);
    multiply(logits, decoder->embedding, last, VOCABULARY, WIDTH);
    int best = 0;
    for (int i = 1; i < VOCABULARY; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

int main(int argc, char **argv)
{
    const int ids = argc > 1 && strcmp(argv[1], "--ids") == 0;
    const char *const *arguments = (const char *const *)argv + 1 + ids;
    char session[DAEMON_ID_BYTES];
    int tokens[TOKENS_MAX], done = 0;
    struct daemon daemon;
    struct decoder decoder;

    daemon_open(&daemon, arguments[0] ? arguments[0] : "http://127.0.0.1:8080");
    decoder_open(&decoder, "examples/models/stories260K/model.safetensors");
    daemon_make_session(&daemon, MODEL, session);
    int count = text_tokens(&daemon, arguments[0] && arguments[1] ? arguments[1] : "", tokens);
    while (count < TOKENS_MAX) {
        /* At first all of the beginning, then one token. */
        const int token = next_token(&decoder, &daemon, session, tokens + done, count - done, done);
        if (token == BOS || token == EOS)
            break;
        done = count;
        tokens[count++] = token;
    }
    text_print(&daemon, tokens, count, ids);
    daemon_delete(&daemon, session);
    free(decoder.bytes);
    daemon_close(&daemon);
    return 0;
}
