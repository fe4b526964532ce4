/* SPDX-License-Identifier: Apache-2.0 */
/* key_file.c - see key_file.h. */
#include "key_file.h"
#include "test.h"

#include "access/access_secret.h"
#include "answer.h"

#include <sys/stat.h>
#include <unistd.h>

const char *key_secret(const char *name)
{
    static char secret[128];
    snprintf(secret, sizeof secret, "%s-secret-0123456789abcdefghijklmnop", name);
    return secret;
}

void key_file_write(const char *path, const struct key_line *lines)
{
    char next[600];
    snprintf(next, sizeof next, "%s.new", path);
    FILE *file = fopen(next, "w");
    assert_non_null(file);
    fprintf(file, "# name  sha256  scopes  limits\n\n");
    for (; lines->name; lines++) {
        unsigned char hash[ACCESS_HASH_BYTES];
        const char *secret = key_secret(lines->name);
        assert_true(access_secret_hash(secret, strlen(secret), hash));
        fprintf(file, "%s  ", lines->name);
        for (int i = 0; i < ACCESS_HASH_BYTES && lines->scopes[0] != '-'; i++)
            fprintf(file, "%02x", hash[i]);
        fprintf(file, "  %s\n", lines->scopes);
    }
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(next, path), 0);
}

struct http_response key_send(struct http_client *client, const char *name,
                              const struct http_request *request, const char *header)
{
    char key[200];
    const char *headers[8];
    int count = 0;
    if (name) {
        snprintf(key, sizeof key, "Authorization: Bearer %s", key_secret(name));
        headers[count++] = key;
    }
    if (header)
        headers[count++] = header;
    for (int i = 0; request->headers && request->headers[i] && count < 7; i++)
        headers[count++] = request->headers[i];
    if (!request->headers)
        headers[count++] = "Content-Type: application/json";
    headers[count] = NULL;
    struct http_request with = *request;
    with.headers = headers;
    return http_client_send(client, &with);
}

void key_expect_refused(struct http_client *client, const char *name,
                        const struct http_request *request, long status, const char *code,
                        const char *says)
{
    char value[128];
    struct http_response response = key_send(client, name, request, NULL);
    answer_expect_fault(&response, status, code, NULL);
    if (says && !strstr(response.body, says))
        fail_msg("%s: no \"%s\" in %s", request->path, says, response.body);
    if (status == 401
        && (!http_response_header(&response, "WWW-Authenticate", value, sizeof value)
            || strncmp(value, "Bearer realm=\"attnd\"", 20) != 0))
        fail_msg("%s: %s", request->path, response.headers);
    http_response_free(&response);
}

struct http_response key_expect(struct http_client *client, const char *name,
                                const struct http_request *request, long status)
{
    struct http_response response = key_send(client, name, request, NULL);
    if (response.status != status)
        fail_msg("%s with the key %s: %ld, expected %ld: %s", request->path, name ? name : "(none)",
                 response.status, status, response.body);
    return response;
}

void key_expect_not_logged(const struct daemon *server, const char *name)
{
    char field[128];
    char *log = daemon_log(server);
    snprintf(field, sizeof field, JSON("key":"%s"), name);
    assert_non_null(strstr(log, field));
    if (strstr(log, "-secret-"))
        fail_msg("%.400s", strstr(log, "-secret-") - 200);
    free(log);
}
