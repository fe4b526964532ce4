/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c [URL] - one attention with libcurl and cJSON.
 *
 *     cc attention.c $(pkg-config --cflags --libs libcurl libcjson) -o attention */
#include <cjson/cJSON.h>
#include <curl/curl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct answer {
    char *text;
    size_t length;
};

static size_t take(char *bytes, size_t size, size_t count, void *context)
{
    struct answer *answer = context;
    char *text = realloc(answer->text, answer->length + size * count + 1);
    if (text == NULL)
        return 0;
    memcpy(text + answer->length, bytes, size * count);
    answer->text = text;
    answer->length += size * count;
    text[answer->length] = '\0';
    return size * count;
}

static void show(const char *name, const cJSON *rows)
{
    const cJSON *row, *number;
    puts(name);
    cJSON_ArrayForEach(row, rows)
    {
        cJSON_ArrayForEach(number, row)
            printf("%s%.4f", number == row->child ? "" : " ", number->valuedouble);
        puts("");
    }
}

int main(int argc, char **argv)
{
    static const char body[] = "{\"model\": \"demo\","
                               " \"query\": [[1,0,0], [0,1,0], [1,1,0], [0,0,1]],"
                               " \"outputs\": [\"context\", \"weights\"]}";
    struct answer answer = { NULL, 0 };
    char url[512];
    long status = 0;
    snprintf(url, sizeof url, "%s/v1/attention", argc > 1 ? argv[1] : "http://127.0.0.1:8080");

    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);

    cJSON *document =
        code == CURLE_OK && status == 200 && answer.text ? cJSON_Parse(answer.text) : NULL;
    if (code != CURLE_OK) {
        fprintf(stderr, "%s\n", curl_easy_strerror(code));
    } else if (document == NULL) {
        fprintf(stderr, "%ld: %.500s\n", status, answer.text ? answer.text : "");
    } else {
        show("context", cJSON_GetObjectItem(document, "context"));
        show("weights", cJSON_GetArrayItem(cJSON_GetObjectItem(document, "weights"), 0));
    }
    const int exit_status = document ? 0 : 1;
    cJSON_Delete(document);
    free(answer.text);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    return exit_status;
}
