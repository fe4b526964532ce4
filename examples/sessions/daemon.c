/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c - see daemon.h. */
#include "daemon.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { TRIES = 100, PAUSE_US = 100000 };

struct bytes {
    char *data;
    size_t size;
};

_Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
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

/* Keeps the line of Attnd-Replica, as it is to be sent back. */
static size_t see_header(char *data, size_t size, size_t count, void *context)
{
    struct daemon *daemon = context;
    const size_t length = size * count;
    size_t end = length;
    while (end > 0 && (data[end - 1] == '\r' || data[end - 1] == '\n'))
        end--;
    if (end > 14 && end < sizeof daemon->replica && strncasecmp(data, "Attnd-Replica:", 14) == 0) {
        memcpy(daemon->replica, data, end);
        daemon->replica[end] = '\0';
    }
    return length;
}

void daemon_open(struct daemon *daemon, const char *url)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    *daemon = (struct daemon){ .curl = curl_easy_init(), .url = url };
    if (!daemon->curl)
        fail(url, "libcurl cannot begin");
    curl_easy_setopt(daemon->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(daemon->curl, CURLOPT_HEADERFUNCTION, see_header);
    curl_easy_setopt(daemon->curl, CURLOPT_HEADERDATA, daemon);
}

void daemon_close(struct daemon *daemon)
{
    curl_easy_cleanup(daemon->curl);
    curl_global_cleanup();
}

/* Sends once; the status, 0 where no answer came. */
static long send_once(struct daemon *daemon, const char *address, const char *method,
                      const char *body, struct bytes *answer)
{
    long status = 0;
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (daemon->replica[0])
        headers = curl_slist_append(headers, daemon->replica);
    curl_easy_setopt(daemon->curl, CURLOPT_URL, address);
    curl_easy_setopt(daemon->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(daemon->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(daemon->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(daemon->curl, CURLOPT_WRITEDATA, answer);
    if (curl_easy_perform(daemon->curl) == CURLE_OK)
        curl_easy_getinfo(daemon->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    return status;
}

/* What the daemon answers; NULL where that has no body. */
static cJSON *request(struct daemon *daemon, const char *method, const char *path, const char *body)
{
    char address[512];
    struct bytes answer = { NULL, 0 };
    long status = 0;
    snprintf(address, sizeof address, "%s%s", daemon->url, path);
    for (int i = 0; i < TRIES && (status == 0 || status == 503); i++) {
        if (i > 0)
            usleep(PAUSE_US);
        answer.size = 0;
        status = send_once(daemon, address, method, body, &answer);
    }
    if (status < 200 || status > 299)
        fail(address, status == 0 ? "no answer came" : answer.data ? answer.data : "no body");
    cJSON *json = answer.size > 0 ? cJSON_Parse(answer.data) : NULL;
    if (answer.size > 0 && !json)
        fail(address, "the answer is not JSON");
    free(answer.data);
    return json;
}

cJSON *daemon_post(struct daemon *daemon, const char *path, cJSON *object)
{
    char *body = cJSON_PrintUnformatted(object);
    cJSON *answer = request(daemon, "POST", path, body);
    cJSON_Delete(object);
    free(body);
    return answer;
}

static void take_id(cJSON *made, char id[DAEMON_ID_BYTES])
{
    snprintf(id, DAEMON_ID_BYTES, "%s", cJSON_GetObjectItem(made, "session")->valuestring);
    cJSON_Delete(made);
}

void daemon_make_session(struct daemon *daemon, const char *model, char id[DAEMON_ID_BYTES])
{
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "model", model);
    take_id(daemon_post(daemon, "/v1/sessions", body), id);
}

void daemon_fork(struct daemon *daemon, const char *session, char id[DAEMON_ID_BYTES])
{
    char path[128];
    snprintf(path, sizeof path, "/v1/sessions/%s/fork", session);
    take_id(daemon_post(daemon, path, cJSON_CreateObject()), id);
}

void daemon_truncate(struct daemon *daemon, const char *session, int kv_len)
{
    char path[128];
    cJSON *body = cJSON_CreateObject();
    cJSON_AddNumberToObject(body, "kv_len", kv_len);
    snprintf(path, sizeof path, "/v1/sessions/%s/truncate", session);
    cJSON_Delete(daemon_post(daemon, path, body));
}

void daemon_delete(struct daemon *daemon, const char *session)
{
    char path[128];
    snprintf(path, sizeof path, "/v1/sessions/%s", session);
    request(daemon, "DELETE", path, "");
}

cJSON *rows_to_json(const float *rows, int count, int columns)
{
    cJSON *json = cJSON_CreateArray();
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(json, cJSON_CreateFloatArray(rows + i * columns, columns));
    return json;
}

void rows_from_json(float *rows, int count, int columns, const cJSON *json)
{
    const cJSON *row, *number;
    int i = 0;
    cJSON_ArrayForEach(row, json) cJSON_ArrayForEach(number, row)
    {
        if (i < count * columns)
            rows[i] = (float)number->valuedouble;
        i++;
    }
    if (i != count * columns)
        fail("an answer", "has rows of another shape");
}
