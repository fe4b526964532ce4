/* answer.h - what the HTTP tests expect of an answer's body.
 *
 * Expected numbers are written as JSON text, so that a test reads like the
 * request and the answer it is about. Every check fails the test with the answer
 * printed. */
#ifndef ANSWER_H
#define ANSWER_H

#include "http_client.h"
#include "metrics_page.h"

#include <cjson/cJSON.h>

#include <stdint.h>

/* The JSON object of an answer that must have this status and be application/json. */
cJSON *answer_json(const struct http_response *response, long status);

/* A fault: the status, a JSON object of error, code, request_id and at the most a pointer, where
 * request_id is the X-Request-Id header. code may name several, "json|nonfinite"; pointer NULL is
 * not looked at, "" means none, "/query*" any that begins so. */
void answer_expect_fault(const struct http_response *response, long status, const char *code,
                         const char *pointer);

/* The same for an item's fault in a batch, which has no request_id. */
void answer_expect_item_fault(const cJSON *item, const char *code, const char *pointer);

/* The member called name must have the structure of want (JSON text), and its numbers within
 * tolerance * (1 + |wanted|); null, true, false and strings are equal to themselves alone. */
void answer_expect(const cJSON *answer, const char *name, const char *want, double tolerance);

/* Both members must be the same to the last digit. */
void answer_expect_equal(const cJSON *one, const cJSON *other, const char *name);

/* The members of the object, in any order, must be these: "model,layer,context". */
void answer_expect_members(const cJSON *answer, const char *names);

/* The numbers of a member in row-major order, which must have this shape (rank sizes); null is
 * -INFINITY. The caller's to free. */
double *answer_numbers(const cJSON *answer, const char *name, int rank, const int64_t *shape);

/* Posts the body to path and gives the answer, which must be 200. The caller's to cJSON_Delete().
 */
cJSON *answer_post(struct http_client *client, const char *path, const char *body);

/* Gets path, which must be 200. The caller's to cJSON_Delete(). */
cJSON *answer_get(struct http_client *client, const char *path);

/* Sends a request, which must be refused with this fault. */
void answer_send_refused(struct http_client *client, const struct http_request *request,
                         long status, const char *code, const char *pointer);

/* Posts the body, which must be refused with this fault. */
void answer_refused(struct http_client *client, const char *path, const char *body, long status,
                    const char *code, const char *pointer);

/* The value of a series of GET /metrics, "attnd_connections" or "name{label=\"value\"}", which must
 * be there. */
double answer_metric(struct http_client *client, const char *series);

/* Waits until that is from least to most. Fails the test where that does not come within 10 s
 * (scaled). */
void answer_wait_for_metric(struct http_client *client, const char *series, double least,
                            double most);

/* Reads the page of /metrics; metrics_page_free() it. */
void answer_metrics(struct http_client *client, struct metrics_page *page);

/* Waits until count requests, beside the one that asks, are being served: the gauge
 * attnd_requests_active. Fails the test where that does not come within 10 s (scaled). */
void answer_wait_for_active(struct http_client *client, int count);

#endif
