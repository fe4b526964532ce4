/* SPDX-License-Identifier: Apache-2.0 */
/* story-teller.c [--ids] [URL [BEGINNING]] - a language model tells a story, and the daemon does
 * all of the model's work.
 *
 *     make run         # in one terminal
 *     make story       # in another: compiles this file and runs it
 *
 * POST /v1/tokenize makes the first tokens of the beginning; of no text it is <s> alone. Then
 * POST /v1/trace with the tokens so far predicts the next token, and POST /v1/detokenize makes
 * text of all of them. The most probable token is always taken, so the story is the same each
 * time. With --ids the program prints the numbers of the tokens in place of their text.
 *
 * Each step computes all tokens again: a trace answers what a model looks at and expects, it is no
 * text generator. For 257 tokens of a model this small the steps take a second or so together. */
#include <cjson/cJSON.h>
#include <curl/curl.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 257, BOS = 1, EOS = 2 };

struct client {
    CURL *curl; /* one connection for all requests */
    const char *url;
};

struct bytes {
    char *data;
    size_t size;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "story-teller: %s: %s\n", what, why);
    exit(1);
}

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

/* The answer to a request, which is freed. */
static cJSON *post(const struct client *client, const char *path, cJSON *request)
{
    char *body = cJSON_PrintUnformatted(request), address[512];
    long status = 0;
    struct bytes answer = { NULL, 0 };
    snprintf(address, sizeof address, "%s%s", client->url, path);
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    curl_easy_setopt(client->curl, CURLOPT_URL, address);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, &answer);
    const CURLcode code = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    cJSON *json = answer.data ? cJSON_Parse(answer.data) : NULL;
    if (code != CURLE_OK || status != 200 || !json)
        fail(address, code != CURLE_OK ? curl_easy_strerror(code) : answer.data);
    curl_slist_free_all(headers);
    cJSON_Delete(request);
    free(answer.data);
    free(body);
    return json;
}

static cJSON *new_request(void)
{
    cJSON *request = cJSON_CreateObject();
    cJSON_AddStringToObject(request, "model", "stories260K");
    return request;
}

static int id_of(const cJSON *token)
{
    return cJSON_GetObjectItem(token, "id")->valueint;
}

/* Writes the tokens of the beginning into tokens. */
static int first_tokens(const struct client *client, const char *beginning, int tokens[LENGTH])
{
    int count = 0;
    cJSON *request = new_request();
    cJSON_AddStringToObject(request, "text", beginning);
    cJSON *answer = post(client, "/v1/tokenize", request);
    const cJSON *token;
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(answer, "tokens"))
    {
        if (count == LENGTH)
            fail(beginning, "is too long for a beginning");
        tokens[count++] = id_of(token);
    }
    cJSON_Delete(answer);
    return count;
}

/* The most probable token after the last one. */
static int next_token(const struct client *client, const int *tokens, int count)
{
    static const char *const OUTPUTS[] = { "predictions" };
    cJSON *request = new_request();
    cJSON_AddItemToObject(request, "tokens", cJSON_CreateIntArray(tokens, count));
    cJSON_AddItemToObject(request, "layers", cJSON_CreateArray());
    cJSON_AddItemToObject(request, "outputs", cJSON_CreateStringArray(OUTPUTS, 1));
    cJSON_AddNumberToObject(request, "top_k_tokens", 1);
    cJSON *answer = post(client, "/v1/trace", request);
    const cJSON *last = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "predictions"), 0);
    const int token = id_of(cJSON_GetArrayItem(cJSON_GetObjectItem(last, "tokens"), 0));
    cJSON_Delete(answer);
    return token;
}

/* Prints the text of the tokens from the byte printed on, and counts what it prints. A character
 * that lacks some of its bytes is U+FFFD at the text's end: it is printed with its last token. */
static void print_text(const struct client *client, const int *tokens, int count, size_t *printed)
{
    cJSON *request = new_request();
    cJSON_AddItemToObject(request, "tokens", cJSON_CreateIntArray(tokens, count));
    cJSON *answer = post(client, "/v1/detokenize", request);
    const char *text = cJSON_GetObjectItem(answer, "text")->valuestring;
    const size_t size = strlen(text);
    if (size > *printed && (size < 3 || strcmp(text + size - 3, "\xEF\xBF\xBD") != 0)) {
        fputs(text + *printed, stdout);
        fflush(stdout);
        *printed = size;
    }
    cJSON_Delete(answer);
}

int main(int argc, char **argv)
{
    const bool ids = argc > 1 && strcmp(argv[1], "--ids") == 0;
    const char *const *arguments = (const char *const *)argv + 1 + ids;
    const char *url = arguments[0] ? arguments[0] : "http://127.0.0.1:8080";
    const char *beginning = arguments[0] && arguments[1] ? arguments[1] : "";
    int tokens[LENGTH];
    size_t printed = 0;

    curl_global_init(CURL_GLOBAL_DEFAULT);
    const struct client client = { curl_easy_init(), url };
    int count = first_tokens(&client, beginning, tokens);
    while (true) {
        if (!ids)
            print_text(&client, tokens, count, &printed);
        if (count == LENGTH)
            break;
        const int token = next_token(&client, tokens, count);
        if (token == BOS || token == EOS)
            break;
        tokens[count++] = token;
    }
    for (int i = 0; ids && i < count; i++)
        printf("%d\n", tokens[i]);
    putchar('\n');
    curl_easy_cleanup(client.curl);
    curl_global_cleanup();
    return 0;
}
