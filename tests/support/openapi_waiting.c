/* SPDX-License-Identifier: Apache-2.0 */
/* openapi_waiting.c - see openapi_waiting.h. */
#include "openapi_waiting.h"
#include "daemon.h"
#include "test.h"

struct http_raw *openapi_waiting_open(struct openapi_waiting *waiting,
                                      const struct openapi_call *call, int port)
{
    assert_true(waiting->count < OPENAPI_WAITING_MAX);
    waiting->calls[waiting->count] = call;
    http_raw_connect(&waiting->sockets[waiting->count], port);
    return &waiting->sockets[waiting->count++];
}

void openapi_waiting_send(struct http_raw *raw, const struct openapi_call *call, size_t length,
                          const char *body, int sent_bytes)
{
    char text[2000];
    snprintf(text, sizeof(text),
             "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             call->method, openapi_path(call), length, body);
    assert_true(http_raw_send_text(raw, text + sent_bytes));
}

void openapi_waiting_receive(struct openapi_waiting *waiting, long status)
{
    for (int i = 0; i < waiting->count; i++) {
        struct http_response response =
            http_raw_receive(&waiting->sockets[i], 10 * daemon_slowness());
        if (response.status != status)
            fail_msg("%s %s: expected %ld, not %ld: %s", waiting->calls[i]->method,
                     openapi_path(waiting->calls[i]), status, response.status, response.body);
        openapi_expect_described(waiting->calls[i], &response);
        http_raw_close(&waiting->sockets[i]);
    }
}
