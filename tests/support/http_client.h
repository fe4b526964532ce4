/* SPDX-License-Identifier: Apache-2.0 */
/* http_client.h - three ways to talk to the daemon, from polite to rude.
 *
 * The ways are one libcurl handle that keeps its connection; a crowd of handles that send at the
 * same moment; and a bare socket for bytes that libcurl would never send. */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct http_request {
    const char *method; /* NULL: POST where there is a body, else GET */
    const char *path;
    const char *body; /* NULL: none */
    size_t body_size; /* 0: strlen(body) */
    const char *const
        *headers; /* "Name: value", ended by NULL; NULL: Content-Type: application/json */
    bool chunked; /* the body without a Content-Length */
    const char *accept_encoding; /* libcurl sends it and unpacks the answer; NULL: not sent */
    double timeout_seconds;      /* 0: 30, scaled by daemon_slowness() */
};

struct http_response {
    long status;   /* 0: no answer came */
    char *headers; /* with the status line, ended by NUL */
    char *body;    /* ended by NUL */
    size_t body_size;
    double seconds; /* from start to end */
    bool on_new_connection;
};

void http_response_free(struct http_response *response);

/* Copies the value of a header into value, without the white space around it. Returns NULL if
 * there is no such header. */
const char *http_response_header(const struct http_response *response, const char *name,
                                 char *value, size_t size);

/* ------------------------------------------------------------ one connection -- */

/* Files in PEM. */
struct http_client_tls {
    const char *ca;                /* whom the client believes */
    const char *certificate, *key; /* what the client shows; NULL: nothing */
};

struct http_client {
    void *curl;
    int port;
    const struct http_client_tls *tls; /* NULL: plain HTTP */
};

void http_client_init(struct http_client *client, int port);
void http_client_free(struct http_client *client);
struct http_response http_client_send(struct http_client *client,
                                      const struct http_request *request);
struct http_response http_client_get(struct http_client *client, const char *path);
struct http_response http_client_post(struct http_client *client, const char *path,
                                      const char *body);

/* A request that another thread sends over a connection of its own. The memory that request
 * points at must stay valid until the join. */
struct http_background {
    void *thread;
    int port;
    struct http_request request;
    struct http_response response;
};
void http_background_start(struct http_background *background, int port,
                           const struct http_request *request);
struct http_response http_background_join(struct http_background *background);

/* ---------------------------------------------------------- many connections -- */

struct http_crowd {
    void *multi;
    struct http_client *clients;
    int count;
};

void http_crowd_init(struct http_crowd *crowd, int port, int count);
void http_crowd_free(struct http_crowd *crowd);

/* Sends requests[i] over connection i, all at once. The caller frees responses[i]. */
void http_crowd_send(struct http_crowd *crowd, const struct http_request *requests,
                     struct http_response *responses);

/* ------------------------------------------------------------- a bare socket -- */

struct http_raw {
    int socket;
    char *buffer; /* received and not yet part of an answer */
    size_t used;
    bool closed; /* by the other side */
};

void http_raw_connect(struct http_raw *raw, int port);
void http_raw_close(struct http_raw *raw);

/* Sends all bytes. Returns false if the other side has closed. */
bool http_raw_send(struct http_raw *raw, const void *bytes, size_t size);
bool http_raw_send_text(struct http_raw *raw, const char *text);

/* The next answer; its body is as long as its Content-Length says. status is 0 if none came
 * within seconds (not scaled). Answers of 100 to 199 have no body. */
struct http_response http_raw_receive(struct http_raw *raw, double seconds);

/* Whether the other side closes within seconds. Bytes that it sends before are dropped. */
bool http_raw_is_closed(struct http_raw *raw, double seconds);

#endif
