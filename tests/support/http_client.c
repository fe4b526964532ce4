/* SPDX-License-Identifier: Apache-2.0 */
/* http_client.c - libcurl and sockets, as the HTTP tests need them.
 *
 * Nothing here judges an answer. A test fails here only if there can be no answer at all (no
 * handle, no socket, no memory). */
#include "http_client.h"
#include "test.h"

#include "daemon.h"
#include "twin.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

/* ------------------------------------------------------------------- answers -- */

void http_response_free(struct http_response *response)
{
    free(response->headers);
    free(response->body);
    *response = (struct http_response){ 0 };
}

const char *http_response_header(const struct http_response *response, const char *name,
                                 char *value, size_t size)
{
    size_t name_size = strlen(name);
    for (const char *line = response->headers; line && *line;) {
        const char *end = strstr(line, "\r\n");
        if (!end)
            break;
        if (strncasecmp(line, name, name_size) == 0 && line[name_size] == ':') {
            line += name_size + 1;
            line += strspn(line, " \t");
            while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
            snprintf(value, size, "%.*s", (int)(end - line), line);
            return value;
        }
        line = end + 2;
    }
    return NULL;
}

static void append(char **text, size_t *used, const void *bytes, size_t size)
{
    *text = realloc(*text, *used + size + 1);
    assert_non_null(*text);
    memcpy(*text + *used, bytes, size);
    *used += size;
    (*text)[*used] = '\0';
}

/* ------------------------------------------------------------ one connection -- */

/* What one transfer holds beside its handle. */
struct transfer {
    struct http_response *response;
    struct curl_slist *headers;
    const char *body; /* of a chunked request: what is left to send */
    size_t body_left;
};

static size_t take_body(char *bytes, size_t one, size_t size, void *context)
{
    struct http_response *response = ((struct transfer *)context)->response;
    (void)one;
    append(&response->body, &response->body_size, bytes, size);
    return size;
}

static size_t take_header(char *bytes, size_t one, size_t size, void *context)
{
    struct http_response *response = ((struct transfer *)context)->response;
    (void)one;
    /* A 100 Continue comes before the real answer's headers. */
    size_t used = response->headers ? strlen(response->headers) : 0;
    if (size > 5 && memcmp(bytes, "HTTP/", 5) == 0)
        used = 0;
    append(&response->headers, &used, bytes, size);
    return size;
}

static size_t give_body(char *bytes, size_t one, size_t room, void *context)
{
    struct transfer *transfer = context;
    size_t size = room * one < transfer->body_left ? room * one : transfer->body_left;
    memcpy(bytes, transfer->body, size);
    transfer->body += size;
    transfer->body_left -= size;
    return size;
}

/* Before the first client. The memory of one answer serves the next: to give it back to the kernel
 * and to take it again costs a test a quarter of its time where answers are long. */
static void begin_clients(void)
{
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

void http_client_init(struct http_client *client, int port)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_clients);
    *client = (struct http_client){ .curl = curl_easy_init(), .port = port };
    assert_non_null(client->curl);
}

void http_client_free(struct http_client *client)
{
    curl_easy_cleanup(client->curl);
    client->curl = NULL;
}

static void set_body(CURL *curl, const struct http_request *request, struct transfer *transfer)
{
    size_t size = request->body_size ? request->body_size : strlen(request->body);
    if (request->chunked) {
        transfer->body = request->body;
        transfer->body_left = size;
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_body);
        curl_easy_setopt(curl, CURLOPT_READDATA, transfer);
        transfer->headers = curl_slist_append(transfer->headers, "Transfer-Encoding: chunked");
    } else {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
    }
}

static void set_tls(CURL *curl, const struct http_client_tls *tls)
{
    curl_easy_setopt(curl, CURLOPT_CAINFO, tls->ca);
    if (tls->certificate) {
        curl_easy_setopt(curl, CURLOPT_SSLCERT, tls->certificate);
        curl_easy_setopt(curl, CURLOPT_SSLKEY, tls->key);
    }
}

static void begin(const struct http_client *client, const struct http_request *request,
                  struct transfer *transfer)
{
    static const char *const json[] = { "Content-Type: application/json", NULL };
    CURL *curl = client->curl;
    char url[1024];
    snprintf(url, sizeof(url), "%s://127.0.0.1:%d%s", client->tls ? "https" : "http", client->port,
             request->path);
    double timeout = request->timeout_seconds > 0 ? request->timeout_seconds : 30;
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    if (client->tls)
        set_tls(curl, client->tls);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(timeout * daemon_slowness() * 1000));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, transfer);
    const char *const *headers = request->headers ? request->headers : json;
    for (int i = 0; headers[i]; i++)
        transfer->headers = curl_slist_append(transfer->headers, headers[i]);
    /* libcurl would wait for 100 Continue before a large body. A test that wants this sets the
     * header itself. */
    transfer->headers = curl_slist_append(transfer->headers, "Expect:");
    if (request->body)
        set_body(curl, request, transfer);
    if (request->method && strcmp(request->method, "HEAD") == 0)
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    else if (request->method)
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, transfer->headers);
    if (request->accept_encoding)
        curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, request->accept_encoding);
}

static void end(const struct http_client *client, struct transfer *transfer, CURLcode result)
{
    struct http_response *response = transfer->response;
    long connections = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &response->status);
    curl_easy_getinfo(client->curl, CURLINFO_NUM_CONNECTS, &connections);
    curl_easy_getinfo(client->curl, CURLINFO_TOTAL_TIME, &response->seconds);
    response->on_new_connection = connections > 0;
    if (result != CURLE_OK)
        response->status = 0;
    if (!response->body)
        response->body = calloc(1, 1);
    if (!response->headers)
        response->headers = calloc(1, 1);
    curl_slist_free_all(transfer->headers);
}

struct http_response http_client_send(struct http_client *client,
                                      const struct http_request *request)
{
    struct http_response response = { 0 };
    struct transfer transfer = { .response = &response };
    begin(client, request, &transfer);
    end(client, &transfer, curl_easy_perform(client->curl));
    twin_compare(client, request, &response);
    return response;
}

struct http_response http_client_get(struct http_client *client, const char *path)
{
    return http_client_send(client, &(struct http_request){ .path = path });
}

struct http_response http_client_post(struct http_client *client, const char *path,
                                      const char *body)
{
    return http_client_send(client, &(struct http_request){ .path = path, .body = body });
}

static void *send_in_background(void *context)
{
    struct http_background *background = context;
    struct http_client client;
    http_client_init(&client, background->port);
    background->response = http_client_send(&client, &background->request);
    http_client_free(&client);
    return NULL;
}

void http_background_start(struct http_background *background, int port,
                           const struct http_request *request)
{
    *background = (struct http_background){ .port = port, .request = *request };
    pthread_t *thread = malloc(sizeof(*thread));
    assert_non_null(thread);
    background->thread = thread;
    assert_int_equal(pthread_create(thread, NULL, send_in_background, background), 0);
}

struct http_response http_background_join(struct http_background *background)
{
    pthread_t *thread = background->thread;
    pthread_join(*thread, NULL);
    free(thread);
    background->thread = NULL;
    return background->response;
}

/* ---------------------------------------------------------- many connections -- */

void http_crowd_init(struct http_crowd *crowd, int port, int count)
{
    *crowd = (struct http_crowd){ .multi = curl_multi_init(), .count = count };
    crowd->clients = calloc((size_t)count, sizeof(*crowd->clients));
    assert_non_null(crowd->multi);
    assert_non_null(crowd->clients);
    curl_multi_setopt(crowd->multi, CURLMOPT_MAXCONNECTS, (long)count);
    for (int i = 0; i < count; i++)
        http_client_init(&crowd->clients[i], port);
}

void http_crowd_free(struct http_crowd *crowd)
{
    for (int i = 0; i < crowd->count; i++)
        http_client_free(&crowd->clients[i]);
    curl_multi_cleanup(crowd->multi);
    free(crowd->clients);
    *crowd = (struct http_crowd){ 0 };
}

static void crowd_perform(struct http_crowd *crowd)
{
    for (int running = crowd->count; running > 0;) {
        assert_int_equal(curl_multi_perform(crowd->multi, &running), CURLM_OK);
        int left;
        for (CURLMsg *message; (message = curl_multi_info_read(crowd->multi, &left));) {
            if (message->msg != CURLMSG_DONE)
                continue;
            struct transfer *transfer;
            CURLcode result = message->data.result;
            struct http_client client = { .curl = message->easy_handle };
            curl_easy_getinfo(client.curl, CURLINFO_PRIVATE, (char **)&transfer);
            end(&client, transfer, result);
            curl_multi_remove_handle(crowd->multi, client.curl);
        }
        if (running > 0)
            curl_multi_poll(crowd->multi, NULL, 0, 1000, NULL);
    }
}

void http_crowd_send(struct http_crowd *crowd, const struct http_request *requests,
                     struct http_response *responses)
{
    struct transfer *transfers = calloc((size_t)crowd->count, sizeof(*transfers));
    assert_non_null(transfers);
    for (int i = 0; i < crowd->count; i++) {
        responses[i] = (struct http_response){ 0 };
        transfers[i].response = &responses[i];
        begin(&crowd->clients[i], &requests[i], &transfers[i]);
        assert_int_equal(curl_multi_add_handle(crowd->multi, crowd->clients[i].curl), CURLM_OK);
    }
    crowd_perform(crowd);
    free(transfers);
}

/* ------------------------------------------------------------- a bare socket -- */

void http_raw_connect(struct http_raw *raw, int port)
{
    *raw = (struct http_raw){ .socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    assert_true(raw->socket >= 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(raw->socket, (struct sockaddr *)&address, sizeof(address)), 0);
    setsockopt(raw->socket, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}

void http_raw_close(struct http_raw *raw)
{
    if (raw->socket > 0)
        close(raw->socket);
    free(raw->buffer);
    *raw = (struct http_raw){ 0 };
}

bool http_raw_send(struct http_raw *raw, const void *bytes, size_t size)
{
    for (const char *left = bytes; size > 0;) {
        ssize_t sent = send(raw->socket, left, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        left += sent;
        size -= (size_t)sent;
    }
    return true;
}

bool http_raw_send_text(struct http_raw *raw, const char *text)
{
    return http_raw_send(raw, text, strlen(text));
}

/* Takes what has come. Returns false when the time or the connection is over. */
static bool receive_more(struct http_raw *raw, double until)
{
    double left = until - daemon_now();
    struct pollfd wait = { .fd = raw->socket, .events = POLLIN };
    if (raw->closed || poll(&wait, 1, left > 0 ? (int)(left * 1000) + 1 : 0) <= 0)
        return false;
    char bytes[65536];
    ssize_t size = recv(raw->socket, bytes, sizeof(bytes), 0);
    raw->closed = size <= 0;
    if (size > 0)
        append(&raw->buffer, &raw->used, bytes, (size_t)size);
    return size > 0;
}

struct http_response http_raw_receive(struct http_raw *raw, double seconds)
{
    struct http_response response = { 0 };
    double start = daemon_now(), until = start + seconds;
    char *blank = NULL, value[32];
    while (!(blank = raw->buffer ? strstr(raw->buffer, "\r\n\r\n") : NULL))
        if (!receive_more(raw, until))
            return response;
    size_t head = (size_t)(blank - raw->buffer) + 4, used = 0;
    append(&response.headers, &used, raw->buffer, head);
    long status = strtol(raw->buffer + strcspn(raw->buffer, " \r"), NULL, 10);
    size_t size = 0;
    if (status >= 200 && http_response_header(&response, "Content-Length", value, sizeof(value)))
        size = strtoul(value, NULL, 10);
    while (raw->used < head + size)
        if (!receive_more(raw, until))
            return response;
    append(&response.body, &response.body_size, raw->buffer + head, size);
    raw->used -= head + size;
    memmove(raw->buffer, raw->buffer + head + size, raw->used + 1);
    response.status = status;
    response.seconds = daemon_now() - start;
    return response;
}

bool http_raw_is_closed(struct http_raw *raw, double seconds)
{
    for (double until = daemon_now() + seconds; receive_more(raw, until);)
        raw->used = 0;
    return raw->closed;
}
