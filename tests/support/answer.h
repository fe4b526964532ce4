/* SPDX-License-Identifier: Apache-2.0 */
/* answer.h - what the HTTP tests expect of an answer's body.
 *
 * Expected numbers are written as JSON text, so that a test reads like the request and the
 * answer it is about. A check that fails prints the answer and fails the test. */
#ifndef ANSWER_H
#define ANSWER_H

#include "http_client.h"
#include "metrics_page.h"

#include <cjson/cJSON.h>

#include <stdint.h>

/* The JSON object of an answer that must have this status and be application/json. */
cJSON *answer_json(const struct http_response *response, long status);

/* The answer must be a fault: this status, and a JSON object of error, code, request_id and at
 * most a pointer. request_id must equal the X-Request-Id header. code may name several codes,
 * "json|nonfinite". A pointer of NULL is not checked, "" means that there is none, and "/query*"
 * means any pointer that begins with /query. */
void answer_expect_fault(const struct http_response *response, long status, const char *code,
                         const char *pointer);

/* The same for an item's fault in a batch, which has no request_id. */
void answer_expect_item_fault(const cJSON *item, const char *code, const char *pointer);

/* The member called name must have the structure of want (JSON text). Its numbers must be within
 * tolerance * (1 + |wanted|). null, true, false and strings must be equal. */
void answer_expect(const cJSON *answer, const char *name, const char *want, double tolerance);

/* Both members must be the same to the last digit. */
void answer_expect_equal(const cJSON *one, const cJSON *other, const char *name);

/* The members of the object, in any order, must be these: "model,layer,context". */
void answer_expect_members(const cJSON *answer, const char *names);

/* The numbers of a member in row-major order; the member must have this shape (rank sizes). null
 * becomes -INFINITY. The caller frees the result. */
double *answer_numbers(const cJSON *answer, const char *name, int rank, const int64_t *shape);

/* Posts the body to path and returns the answer, which must be 200. The caller frees it with
 * cJSON_Delete(). */
cJSON *answer_post(struct http_client *client, const char *path, const char *body);

/* Gets path; the answer must be 200. The caller frees it with cJSON_Delete(). */
cJSON *answer_get(struct http_client *client, const char *path);

/* Sends a request that the daemon must refuse with this fault. */
void answer_send_refused(struct http_client *client, const struct http_request *request,
                         long status, const char *code, const char *pointer);

/* Posts a body that the daemon must refuse with this fault. */
void answer_refused(struct http_client *client, const char *path, const char *body, long status,
                    const char *code, const char *pointer);

/* The value of a series of GET /metrics, "attnd_connections" or "name{label=\"value\"}". The
 * series must exist. */
double answer_metric(struct http_client *client, const char *series);

/* Waits until the value of the series is from least to most. Fails the test if that takes more
 * than 10 s (scaled). */
void answer_wait_for_metric(struct http_client *client, const char *series, double least,
                            double most);

/* Reads the page of /metrics. The caller frees it with metrics_page_free(). */
void answer_metrics(struct http_client *client, struct metrics_page *page);

/* Waits until the daemon serves count requests beside the one that asks (the gauge
 * attnd_requests_active). Fails the test if that takes more than 10 s (scaled). */
void answer_wait_for_active(struct http_client *client, int count);

#endif
