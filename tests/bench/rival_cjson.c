/* SPDX-License-Identifier: Apache-2.0 */
/* rival_cjson.c - the attention service as a programmer would write it in C: libmicrohttpd with
 * a pool of threads, cJSON for bodies and answers, OpenBLAS for the two products. It takes the
 * JSON of POST /v1/attention, sdpa alone, and serves the socket that is its descriptor 3. */
#include <cblas.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <microhttpd.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LISTEN_SOCKET = 3 };

struct body {
    char *bytes;
    size_t size;
};

struct matrix {
    float *numbers;
    int rows, columns;
};

static struct matrix read_matrix(const cJSON *call, const char *name)
{
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(call, name), *row, *number;
    struct matrix matrix = { NULL, cJSON_GetArraySize(rows), 0 };
    int used = 0;
    if (matrix.rows > 0)
        matrix.columns = cJSON_GetArraySize(rows->child);
    matrix.numbers = malloc(((size_t)matrix.rows * (size_t)matrix.columns + 1) * sizeof(float));
    cJSON_ArrayForEach(row, rows)
        cJSON_ArrayForEach(number, row)
            if (matrix.numbers && used < matrix.rows * matrix.columns)
                matrix.numbers[used++] = (float)number->valuedouble;
    return matrix;
}

static void softmax(float *row, int count)
{
    float max = row[0], sum = 0;
    for (int i = 1; i < count; i++)
        max = fmaxf(max, row[i]);
    for (int i = 0; i < count; i++)
        sum += row[i] = expf(row[i] - max);
    for (int i = 0; i < count; i++)
        row[i] /= sum;
}

/* Writes the answer over the query. */
static void attend(struct matrix *query, const struct matrix *key, const struct matrix *value)
{
    const int m = query->rows, n = key->rows, d = query->columns;
    float *scores = malloc((size_t)m * (size_t)n * sizeof *scores);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, d, 1 / sqrtf((float)d),
                query->numbers, d, key->numbers, d, 0, scores, n);
    for (int i = 0; i < m; i++)
        softmax(scores + (size_t)i * (size_t)n, n);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, d, n, 1, scores, n, value->numbers, d,
                0, query->numbers, d);
    free(scores);
}

static char *answer_of(const struct matrix *context)
{
    cJSON *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(answer, "model", "sdpa");
    cJSON *rows = cJSON_AddArrayToObject(answer, "context");
    for (int i = 0; i < context->rows; i++)
        cJSON_AddItemToArray(
            rows, cJSON_CreateFloatArray(context->numbers + (size_t)i * (size_t)context->columns,
                                         context->columns));
    char *text = cJSON_PrintUnformatted(answer);
    cJSON_Delete(answer);
    return text;
}

static char *handle(const struct body *body)
{
    cJSON *call = cJSON_ParseWithLength(body->bytes, body->size);
    struct matrix query = read_matrix(call, "query");
    struct matrix key = read_matrix(call, "key");
    struct matrix value = read_matrix(call, "value");
    char *text = NULL;
    if (query.rows > 0 && key.rows > 0 && key.rows == value.rows && query.columns == key.columns
        && value.columns == query.columns) {
        attend(&query, &key, &value);
        text = answer_of(&query);
    }
    free(query.numbers);
    free(key.numbers);
    free(value.numbers);
    cJSON_Delete(call);
    return text;
}

static enum MHD_Result reply(struct MHD_Connection *connection, char *text)
{
    if (!text)
        return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    MHD_add_response_header(response, "Content-Type", "application/json");
    const enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **state)
{
    struct body *body = *state;
    (void)context, (void)url, (void)version;
    if (!body) {
        *state = calloc(1, sizeof *body);
        return *state ? MHD_YES : MHD_NO;
    }
    if (*data_size > 0) {
        char *more = realloc(body->bytes, body->size + *data_size);
        if (!more)
            return MHD_NO;
        memcpy(more + body->size, data, *data_size);
        body->bytes = more;
        body->size += *data_size;
        *data_size = 0;
        return MHD_YES;
    }
    return reply(connection, strcmp(method, "GET") == 0 ? strdup("{\"live\":true}") : handle(body));
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct body *body = *state;
    (void)context, (void)connection, (void)code;
    if (body)
        free(body->bytes);
    free(body);
}

int main(void)
{
    cpu_set_t cpus;
    sigset_t signals;
    int signal_number;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    const int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, NULL,
                         MHD_OPTION_LISTEN_SOCKET, LISTEN_SOCKET, MHD_OPTION_THREAD_POOL_SIZE,
                         (unsigned)(count > 1 ? count : 0), MHD_OPTION_CONNECTION_LIMIT, 10000U,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
    if (!daemon)
        return 1;
    sigwait(&signals, &signal_number);
    MHD_stop_daemon(daemon);
    return 0;
}
