/* SPDX-License-Identifier: Apache-2.0 */
/* request_text.c - bodies made by program: matrices, and requests of a chosen duration. */
#include "request_text.h"
#include "test.h"

#include "fill.h"

enum { SLOW_HEADS = 64, SLOW_QUERIES_MAX = 4096, SLOW_KEYS = 32768 };

static void reserve(struct request_text *text, size_t size)
{
    if (text->capacity - text->used > size)
        return;
    text->capacity = 2 * (text->used + size) + 64;
    text->data = realloc(text->data, text->capacity);
    assert_non_null(text->data);
}

void request_text_add(struct request_text *text, const char *format, ...)
{
    va_list list, again;
    reserve(text, 256);
    va_start(list, format);
    va_copy(again, list);
    const size_t room = text->capacity - text->used;
    const int size = vsnprintf(text->data + text->used, room, format, list);
    assert_true(size >= 0);
    if ((size_t)size >= room) {
        reserve(text, (size_t)size + 1);
        vsnprintf(text->data + text->used, (size_t)size + 1, format, again);
    }
    text->used += (size_t)size;
    va_end(again);
    va_end(list);
}

/* Writes digits as decimals behind the point and what is before it, without zeros at the end.
 * Returns the end. */
static char *write_decimal(char *to, uint64_t digits, int decimals)
{
    char reversed[24];
    int count = 0;
    for (; decimals > 0 && digits % 10 == 0; decimals--)
        digits /= 10;
    for (; count <= decimals || digits > 0; digits /= 10)
        reversed[count++] = (char)('0' + digits % 10);
    while (count > 0) {
        if (count-- == decimals)
            *to++ = '.';
        *to++ = reversed[count];
    }
    return to;
}

/* Nine digits of a number, which tell it from every other float, or all where that are fewer.
 * printf() does the same for every number in many times the time. */
static void add_number(struct request_text *text, float number)
{
    static const double POWERS[] = { 1e8, 1e9, 1e10, 1e11, 1e12 };
    const double magnitude = fabs((double)number);
    int power = 0;
    if (!(magnitude >= 1e-4 && magnitude < 10)) {
        request_text_add(text, "%.9g", (double)number);
        return;
    }
    while (magnitude * POWERS[power] < 1e8)
        power++;
    reserve(text, 32);
    char *to = text->data + text->used;
    if (number < 0)
        *to++ = '-';
    to = write_decimal(to, (uint64_t)rint(magnitude * POWERS[power]), 8 + power);
    *to = '\0';
    text->used = (size_t)(to - text->data);
}

void request_text_matrix(struct request_text *text, const float *values, int64_t rows,
                         int64_t columns)
{
    request_text_add(text, "[");
    for (int64_t i = 0; i < rows; i++) {
        request_text_add(text, i ? ",[" : "[");
        for (int64_t j = 0; j < columns; j++) {
            if (j > 0) {
                reserve(text, 1);
                text->data[text->used++] = ',';
            }
            add_number(text, values[i * columns + j]);
        }
        request_text_add(text, "]");
    }
    request_text_add(text, "]");
}

void request_text_random(struct request_text *text, uint64_t seed, int64_t rows, int64_t columns)
{
    struct fill fill = { seed };
    float *values = malloc((size_t)(rows * columns) * sizeof(*values));
    assert_non_null(values);
    fill_floats(&fill, values, rows * columns, -1, 1);
    request_text_matrix(text, values, rows, columns);
    free(values);
}

void request_text_digits(struct request_text *text, int64_t rows, int64_t columns)
{
    request_text_add(text, "[");
    for (int64_t i = 0; i < rows; i++) {
        request_text_add(text, i ? ",[" : "[");
        for (int64_t j = 0; j < columns; j++)
            request_text_add(text, j ? ",%d" : "%d", (int)((i * 7 + j * 3) % 5));
        request_text_add(text, "]");
    }
    request_text_add(text, "]");
}

static char *slow_body(int64_t queries, int64_t keys, const char *more)
{
    struct request_text text = { 0 };
    request_text_add(&text,
                     "{\"model\":\"sdpa\",\"q_heads\":%d,\"kv_heads\":1,\"outputs\":[\"lse\"]",
                     SLOW_HEADS);
    request_text_add(&text, ",\"query\":");
    request_text_digits(&text, queries, SLOW_HEADS);
    request_text_add(&text, ",\"key\":");
    request_text_digits(&text, keys, 1);
    request_text_add(&text, "%s}", more);
    return text.data;
}

/* How long the daemon takes for such a body. */
static double slow_body_seconds(struct http_client *client, int64_t queries)
{
    char *body = slow_body(queries, SLOW_KEYS, "");
    struct http_response response = http_client_post(client, "/v1/attention", body);
    assert_int_equal(response.status, 200);
    const double seconds = response.seconds;
    http_response_free(&response);
    free(body);
    return seconds;
}

char *request_text_slow(struct http_client *client, double seconds, const char *more)
{
    /* Long enough for a measurement, and as short as that: the whole costs four times as much. */
    const double enough = fmin(seconds / 8, 0.03);
    int64_t queries = 2;
    double measured = slow_body_seconds(client, queries);
    while (measured < enough && queries < SLOW_QUERIES_MAX) {
        queries *= 2;
        measured = slow_body_seconds(client, queries);
    }
    /* A delay in the measurement would make the request shorter than wanted. */
    for (int i = 0; i < 2; i++) {
        const double again = slow_body_seconds(client, queries);
        measured = again < measured ? again : measured;
    }
    const double wanted = (double)queries * seconds / measured;
    return slow_body(wanted < SLOW_QUERIES_MAX ? (int64_t)wanted + 1 : SLOW_QUERIES_MAX, SLOW_KEYS,
                     more);
}

char *request_text_large_answer(void)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"outputs\":[\"weights\"],\"query\":");
    request_text_random(&text, 5, 1500, 2);
    request_text_add(&text, "}");
    return text.data;
}
