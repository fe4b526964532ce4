/* SPDX-License-Identifier: Apache-2.0 */
/* spread_daemons.c - see spread_daemons.h. */
#include "spread_daemons.h"

#include "answer.h"
#include "test.h"

struct daemon peers[SPREAD_PEERS];
struct http_client peer_clients[SPREAD_PEERS];

void spread_start_peers(const char *const *a, const char *const *b)
{
    const char *const *const arguments[SPREAD_PEERS] = { a, b };
    for (int i = 0; i < SPREAD_PEERS; i++) {
        daemon_start(&peers[i], &(struct daemon_options){ .arguments = arguments[i] });
        http_client_init(&peer_clients[i], peers[i].port);
    }
}

const char *spread_write_peers(const char *a_key, const char *b_key)
{
    const char *const keys[SPREAD_PEERS] = { a_key, b_key };
    char text[1024];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"peers\":[");
    for (int i = 0; i < SPREAD_PEERS; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"name\":\"%c\",\"url\":\"http://127.0.0.1:%d\"",
                                 i > 0 ? "," : "", 'a' + i, peers[i].port);
        if (keys[i])
            used += (size_t)snprintf(text + used, sizeof text - used, ",\"key\":\"%s\"", keys[i]);
        used += (size_t)snprintf(text + used, sizeof text - used, "}");
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "]}");
    daemon_directory_write(directory, "peers", text, used);
    return fixture_path("peers");
}

void spread_start_front(const char *const *arguments)
{
    enum { MOST = 16 };
    const char *all[MOST + 1] = { "--peers", fixture_path("peers") };
    for (int i = 0; arguments && arguments[i] && i + 2 < MOST; i++)
        all[i + 2] = arguments[i];
    daemon_start(&server, &(struct daemon_options){ .arguments = all });
    http_client_init(&client, server.port);
}

int spread_start(void **state)
{
    (void)state;
    directory = daemon_directory_create();
    spread_start_peers(NULL, NULL);
    spread_write_peers(NULL, NULL);
    spread_start_front(NULL);
    return 0;
}

int spread_stop(void **state)
{
    (void)state;
    if (server.pid) {
        http_client_free(&client);
        daemon_stop(&server);
    }
    for (int i = 0; i < SPREAD_PEERS; i++)
        if (peers[i].pid) {
            http_client_free(&peer_clients[i]);
            daemon_stop(&peers[i]);
        }
    daemon_directory_remove(directory);
    directory = NULL;
    return 0;
}

int spread_count(int peer)
{
    cJSON *list = answer_get(&peer_clients[peer], "/v1/sessions?limit=1");
    const int count = cJSON_GetObjectItem(list, "total")->valueint;
    cJSON_Delete(list);
    return count;
}

void spread_wait_until_empty(void)
{
    const double until = daemon_now() + 20 * daemon_slowness();
    for (int i = 0; i < SPREAD_PEERS; i++)
        while (peers[i].pid && spread_count(i) > 0) {
            if (daemon_now() > until)
                fail_msg("peer %d still has sessions", i);
            daemon_pause(0.02);
        }
}

void spread_expect_lost(const struct http_response *response, const char *words)
{
    answer_expect_fault(response, 503, "peer", "");
    if (!strstr(response->body, words))
        fail_msg("no '%s' in %s", words, response->body);
}
