/* story-teller.c [--ids] [URL] - a language model whose attention is somewhere else.
 *
 * This program holds the embedding, the norms and the feed-forward layers of stories260K and knows
 * nothing of heads, rotary embedding or softmax: for every layer of every token it sends its row
 * and the rows before it to the daemon and gets the row's context back. From the first token alone
 * the model writes a story; the same one every time, since the likeliest token is always taken.
 *
 *     make run         # in one terminal
 *     make story       # in another: compiles this file and runs it
 *
 * Run it where the model's files lie under examples/models/stories260K. Rows travel as bytes: the
 * Open Inference Protocol with its binary tensor extension. */
#include <cjson/cJSON.h>
#include <curl/curl.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 64, HIDDEN = 172, LAYERS = 5, TOKENS = 512, LENGTH = 257, BOS = 1, EOS = 2 };

#define FOLDER "examples/models/stories260K/"

struct bytes {
    char *data;
    size_t size;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "story-teller: %s: %s\n", what, why);
    exit(1);
}

/* ------------------------------------------------------------- the parameters -- */

static struct bytes read_file(const char *path)
{
    struct bytes file = { NULL, 0 };
    FILE *stream = fopen(path, "rb");
    if (!stream || fseek(stream, 0, SEEK_END) != 0)
        fail(path, "cannot be read; run this from the top of the project");
    file.size = (size_t)ftell(stream);
    file.data = calloc(file.size + 1, 1);
    rewind(stream);
    if (!file.data || fread(file.data, 1, file.size, stream) != file.size)
        fail(path, "cannot be read");
    fclose(stream);
    return file;
}

static struct bytes checkpoint;
static cJSON *header; /* of the checkpoint: where each tensor lies */

/* A tensor of a layer, or of none where its name has no %d. */
static const float *tensor(const char *name, int layer)
{
    char full[64];
    uint64_t header_size;
    snprintf(full, sizeof full, name, layer);
    const cJSON *entry = cJSON_GetObjectItem(header, full);
    if (!entry)
        fail(full, "is not in the checkpoint");
    const cJSON *begin = cJSON_GetArrayItem(cJSON_GetObjectItem(entry, "data_offsets"), 0);
    memcpy(&header_size, checkpoint.data, sizeof header_size);
    return (const float *)(checkpoint.data + 8 + header_size + (size_t)begin->valuedouble);
}

/* ----------------------------------------------- all but the attention of a layer -- */

static float dot(const float *a, const float *b, int count)
{
    float sum = 0;
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void rms_norm(float *out, const float *row, const float *weight)
{
    const float scale = 1 / sqrtf(dot(row, row, DIM) / DIM + 1e-5f);
    for (int i = 0; i < DIM; i++)
        out[i] = row[i] * scale * weight[i];
}

/* SwiGLU: row += w2 (silu(w1 x) * (w3 x)), x being the row's norm. */
static void feed_forward(float *row, int layer)
{
    const float *w1 = tensor("layers.%d.feed_forward.w1.weight", layer);
    const float *w2 = tensor("layers.%d.feed_forward.w2.weight", layer);
    const float *w3 = tensor("layers.%d.feed_forward.w3.weight", layer);
    float x[DIM], hidden[HIDDEN];
    rms_norm(x, row, tensor("layers.%d.ffn_norm.weight", layer));
    for (int i = 0; i < HIDDEN; i++) {
        const float gate = dot(w1 + i * DIM, x, DIM);
        hidden[i] = gate / (1 + expf(-gate)) * dot(w3 + i * DIM, x, DIM);
    }
    for (int i = 0; i < DIM; i++)
        row[i] += dot(w2 + i * HIDDEN, hidden, HIDDEN);
}

/* ---------------------------------------------------------------- the attention -- */

static size_t take(char *data, size_t size, size_t count, void *context)
{
    struct bytes *answer = context;
    char *grown = realloc(answer->data, answer->size + size * count + 1);
    if (!grown)
        return 0;
    memcpy(grown + answer->size, data, size * count);
    answer->data = grown;
    answer->size += size * count;
    grown[answer->size] = '\0';
    return size * count;
}

/* The context of the last of length rows. The daemon projects, turns and weighs; past_len tells it
 * where the row stands. The answer's last bytes are the context's. */
static void attention(CURL *curl, const char *url, int layer, const float *rows, int length,
                      float context[DIM])
{
    static char body[1024 + (LENGTH + 1) * DIM * sizeof(float)];
    const size_t row_bytes = DIM * sizeof(float), rows_bytes = (size_t)length * row_bytes;
    const int used = snprintf(
        body, 1024,
        "{\"parameters\":{\"layer\":%d,\"past_len\":%d,\"binary_data_output\":true},\"inputs\":["
        "{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,%d],"
        "\"parameters\":{\"binary_data_size\":%zu}},"
        "{\"name\":\"key\",\"datatype\":\"FP32\",\"shape\":[%d,%d],"
        "\"parameters\":{\"binary_data_size\":%zu}}],\"outputs\":[{\"name\":\"context\"}]}",
        layer, length - 1, DIM, row_bytes, length, DIM, rows_bytes);
    memcpy(body + used, rows + (length - 1) * DIM, row_bytes);
    memcpy(body + used + row_bytes, rows, rows_bytes);

    char header_length[64], address[512];
    long status = 0;
    struct bytes answer = { NULL, 0 };
    snprintf(header_length, sizeof header_length, "Inference-Header-Content-Length: %d", used);
    snprintf(address, sizeof address, "%s/v2/models/stories260K/infer", url);
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/octet-stream");
    headers = curl_slist_append(headers, header_length);
    curl_easy_setopt(curl, CURLOPT_URL, address);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)((size_t)used + row_bytes + rows_bytes));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 200 || answer.size < row_bytes)
        fail(address, code != CURLE_OK ? curl_easy_strerror(code) : answer.data);
    memcpy(context, answer.data + answer.size - row_bytes, row_bytes);
    free(answer.data);
    curl_slist_free_all(headers);
}

/* ------------------------------------------------------------------- the model -- */

/* The likeliest token after token, which stands at position. */
static int next_token(CURL *curl, const char *url, int token, int position)
{
    static float rows[LAYERS][LENGTH * DIM]; /* what each layer has seen: its inputs, normed */
    const float *embedding = tensor("tok_embeddings.weight", 0);
    float row[DIM], context[DIM];
    memcpy(row, embedding + token * DIM, sizeof row);
    for (int layer = 0; layer < LAYERS; layer++) {
        rms_norm(rows[layer] + position * DIM, row,
                 tensor("layers.%d.attention_norm.weight", layer));
        attention(curl, url, layer, rows[layer], position + 1, context);
        for (int i = 0; i < DIM; i++)
            row[i] += context[i];
        feed_forward(row, layer);
    }
    rms_norm(row, row, tensor("norm.weight", 0));
    int best = 0;
    for (int t = 1; t < TOKENS; t++)
        if (dot(row, embedding + t * DIM, DIM) > dot(row, embedding + best * DIM, DIM))
            best = t;
    return best;
}

static void print_token(const cJSON *tokens, int token, bool first)
{
    const cJSON *entry = cJSON_GetArrayItem(tokens, token);
    const char *text = cJSON_GetObjectItem(entry, "text")->valuestring;
    unsigned byte;
    text += first && *text == ' '; /* a word begins with a space, the story does not */
    if (sscanf(text, "<0x%02X>", &byte) == 1)
        putchar((int)byte);
    else
        fputs(text, stdout);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const bool ids = argc > 1 && strcmp(argv[1], "--ids") == 0;
    const char *url = argc > 1 + ids ? argv[1 + ids] : "http://127.0.0.1:8080";
    struct bytes vocabulary = read_file(FOLDER "tok512.json");
    cJSON *tokenizer = cJSON_Parse(vocabulary.data);
    const cJSON *tokens = cJSON_GetObjectItem(tokenizer, "tokens");
    checkpoint = read_file(FOLDER "model.safetensors");
    header = cJSON_Parse(checkpoint.data + 8);
    if (!tokens || !header)
        fail(FOLDER, "its files are not what they were");

    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURL *curl = curl_easy_init(); /* one connection for all */
    int token = BOS;
    for (int position = 0; position < LENGTH && token != EOS; position++) {
        if (ids)
            printf("%d\n", token);
        else if (token != BOS)
            print_token(tokens, token, position == 1);
        token = next_token(curl, url, token, position);
        if (token == BOS)
            break;
    }
    putchar('\n');
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    cJSON_Delete(header);
    cJSON_Delete(tokenizer);
    free(checkpoint.data);
    free(vocabulary.data);
    return 0;
}
