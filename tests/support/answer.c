/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - checks on answers. Each check shows the answer when it fails. */
#include "answer.h"
#include "test.h"

#include "daemon.h"

enum { SHOWN_BYTES = 600 };

static void show(const struct http_response *response)
{
    fprintf(stderr, "status %ld, headers:\n%sbody: %.*s\n", response->status, response->headers,
            SHOWN_BYTES, response->body);
}

/* Whether the list "a|b|c" has word. */
static bool listed(const char *list, const char *word, char separator)
{
    size_t size = strlen(word);
    for (const char *item = list; item;
         item = strchr(item, separator), item = item ? item + 1 : item)
        if (strncmp(item, word, size) == 0 && (item[size] == separator || item[size] == '\0'))
            return true;
    return false;
}

cJSON *answer_json(const struct http_response *response, long status)
{
    char type[128];
    cJSON *root = cJSON_ParseWithOpts(response->body ? response->body : "", NULL, true);
    if (response->status != status || !cJSON_IsObject(root)
        || !http_response_header(response, "Content-Type", type, sizeof(type))
        || strncmp(type, "application/json", 16) != 0
        || strlen(response->body) != response->body_size) {
        show(response);
        fail_msg("expected a JSON object with status %ld", status);
    }
    return root;
}

static const char *string_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

static bool pointer_fits(const cJSON *fault, const char *pointer)
{
    const char *given = string_of(fault, "pointer");
    if (!pointer)
        return true;
    size_t size = strlen(pointer);
    if (size > 0 && pointer[size - 1] == '*')
        return strncmp(given, pointer, size - 1) == 0;
    return strcmp(given, pointer) == 0;
}

static bool fault_fits(const cJSON *fault, const char *code, const char *pointer)
{
    const char *message = string_of(fault, "error");
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(fault, "pointer");
    return *message && strlen(message) < 1024 && listed(code, string_of(fault, "code"), '|')
           && pointer_fits(fault, pointer) && (!given || *string_of(fault, "pointer") == '/');
}

void answer_expect_fault(const struct http_response *response, long status, const char *code,
                         const char *pointer)
{
    char id[256] = "", value[32];
    const bool is_for_later = status == 429 || status == 503 || status == 504;
    cJSON *fault = answer_json(response, status);
    http_response_header(response, "X-Request-Id", id, sizeof(id));
    int members = cJSON_HasObjectItem(fault, "pointer") ? 4 : 3;
    if (!fault_fits(fault, code, pointer) || !*id || strcmp(string_of(fault, "request_id"), id) != 0
        || cJSON_GetArraySize(fault) != members) {
        show(response);
        fail_msg("expected a fault %s at %s", code, pointer ? pointer : "anywhere");
    }
    cJSON_Delete(fault);
    if (is_for_later
        != (http_response_header(response, "Retry-After", value, sizeof value) != NULL))
        fail_msg("status %ld: Retry-After belongs to 429, 503 and 504", status);
}

static void show_item(const cJSON *item)
{
    char *text = cJSON_PrintUnformatted(item);
    fprintf(stderr, "answer: %.*s\n", SHOWN_BYTES, text ? text : "none");
    cJSON_free(text);
}

void answer_expect_item_fault(const cJSON *item, const char *code, const char *pointer)
{
    int members = cJSON_HasObjectItem(item, "pointer") ? 3 : 2;
    if (!fault_fits(item, code, pointer) || cJSON_GetArraySize(item) != members) {
        show_item(item);
        fail_msg("expected a fault %s at %s in a batch", code, pointer ? pointer : "anywhere");
    }
}

static bool near(const cJSON *got, const cJSON *want, double tolerance)
{
    if ((got->type & 0xff) != (want->type & 0xff))
        return false;
    if (cJSON_IsNumber(want))
        return fabs(got->valuedouble - want->valuedouble)
               <= tolerance * (1 + fabs(want->valuedouble));
    if (cJSON_IsString(want))
        return strcmp(got->valuestring, want->valuestring) == 0;
    got = got->child;
    for (want = want->child; want && got; want = want->next, got = got->next)
        if (!near(got, want, tolerance))
            return false;
    return !want && !got;
}

void answer_expect(const cJSON *answer, const char *name, const char *want, double tolerance)
{
    cJSON *wanted = cJSON_ParseWithOpts(want, NULL, true);
    const cJSON *got = cJSON_GetObjectItemCaseSensitive(answer, name);
    assert_non_null(wanted);
    if (!got || !near(got, wanted, tolerance)) {
        show_item(answer);
        fail_msg("expected %s to be %s", name, want);
    }
    cJSON_Delete(wanted);
}

void answer_expect_equal(const cJSON *one, const cJSON *other, const char *name)
{
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(one, name);
    const cJSON *b = cJSON_GetObjectItemCaseSensitive(other, name);
    if (!a || !b || !near(a, b, 0)) {
        show_item(one);
        show_item(other);
        fail_msg("expected the same %s in both", name);
    }
}

void answer_expect_members(const cJSON *answer, const char *names)
{
    int count = 1;
    for (const char *c = names; *c; c++)
        count += *c == ',';
    bool fits = cJSON_GetArraySize(answer) == count;
    for (const cJSON *member = answer->child; member; member = member->next)
        fits = fits && listed(names, member->string, ',');
    if (!fits) {
        show_item(answer);
        fail_msg("expected the members %s", names);
    }
}

static bool collect(const cJSON *node, int rank, const int64_t *shape, double **next)
{
    if (rank == 0) {
        *(*next)++ = cJSON_IsNull(node) ? -(double)INFINITY : node->valuedouble;
        return cJSON_IsNumber(node) || cJSON_IsNull(node);
    }
    if (!cJSON_IsArray(node) || cJSON_GetArraySize(node) != shape[0])
        return false;
    for (const cJSON *row = node->child; row; row = row->next)
        if (!collect(row, rank - 1, shape + 1, next))
            return false;
    return true;
}

double *answer_numbers(const cJSON *answer, const char *name, int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    double *numbers = calloc((size_t)count + 1, sizeof(*numbers)), *next = numbers;
    assert_non_null(numbers);
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(answer, name);
    if (!member || !collect(member, rank, shape, &next)) {
        show_item(answer);
        fail_msg("%s does not have the expected shape of rank %d", name, rank);
    }
    return numbers;
}

cJSON *answer_post(struct http_client *client, const char *path, const char *body)
{
    struct http_response response = http_client_post(client, path, body);
    if (response.status != 200)
        fprintf(stderr, "request: %.*s\n", SHOWN_BYTES, body);
    cJSON *answer = answer_json(&response, 200);
    http_response_free(&response);
    return answer;
}

cJSON *answer_get(struct http_client *client, const char *path)
{
    struct http_response response = http_client_get(client, path);
    cJSON *answer = answer_json(&response, 200);
    http_response_free(&response);
    return answer;
}

void answer_send_refused(struct http_client *client, const struct http_request *request,
                         long status, const char *code, const char *pointer)
{
    struct http_response response = http_client_send(client, request);
    answer_expect_fault(&response, status, code, pointer);
    http_response_free(&response);
}

void answer_refused(struct http_client *client, const char *path, const char *body, long status,
                    const char *code, const char *pointer)
{
    struct http_response response = http_client_post(client, path, body);
    cJSON *fault = cJSON_Parse(response.body);
    if (response.status != status || !fault_fits(fault, code, pointer))
        fprintf(stderr, "request: %.*s\n", SHOWN_BYTES, body);
    cJSON_Delete(fault);
    answer_expect_fault(&response, status, code, pointer);
    http_response_free(&response);
}

void answer_metrics(struct http_client *client, struct metrics_page *page)
{
    char type[128];
    struct http_response response = http_client_get(client, "/metrics");
    assert_int_equal(response.status, 200);
    assert_non_null(http_response_header(&response, "Content-Type", type, sizeof type));
    assert_string_equal(type, "text/plain; version=0.0.4; charset=utf-8");
    metrics_page_read(page, response.body);
    http_response_free(&response);
}

double answer_metric(struct http_client *client, const char *series)
{
    struct metrics_page page = { 0 };
    answer_metrics(client, &page);
    if (!metrics_page_has(&page, series))
        fail_msg("/metrics has no %s", series);
    double value = metrics_page_value(&page, series);
    metrics_page_free(&page);
    return value;
}

void answer_wait_for_metric(struct http_client *client, const char *series, double least,
                            double most)
{
    for (double until = daemon_now() + 10 * daemon_slowness();; daemon_pause(0.005)) {
        double value = answer_metric(client, series);
        if (value >= least && value <= most)
            return;
        if (daemon_now() > until)
            fail_msg("%s is %g, not %g to %g", series, value, least, most);
    }
}

void answer_wait_for_active(struct http_client *client, int count)
{
    answer_wait_for_metric(client, "attnd_requests_active", count + 1, INFINITY);
}
