/* SPDX-License-Identifier: Apache-2.0 */
/* shared_region.c - see shared_region.h. */
#include "shared_region.h"
#include "test.h"

#include "answer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KEYS_MAX = 64 };
static char keys[KEYS_MAX][SHARED_KEY_BYTES]; /* of what is there; "": none */

static void remove_all(void)
{
    for (int i = 0; i < KEYS_MAX; i++)
        if (keys[i][0])
            shm_unlink(keys[i]);
}

/* The place of a key; of "" a free one. */
static char *place_of(const char *key)
{
    for (int i = 0; i < KEYS_MAX; i++)
        if (strcmp(keys[i], key) == 0)
            return keys[i];
    fail_msg("no place for '%s'", key);
    return NULL;
}

void shared_region_make_as(struct shared_region *region, const char *key, size_t size)
{
    static bool is_first = true;
    if (is_first)
        atexit(remove_all);
    is_first = false;
    snprintf(region->key, sizeof region->key, "%s", key);
    region->size = size;
    region->file = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (region->file < 0)
        fail_msg("shm_open(%s) failed", key);
    snprintf(place_of(""), SHARED_KEY_BYTES, "%s", key);
    assert_int_equal(ftruncate(region->file, (off_t)size), 0);
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, region->file, 0);
    assert_true(bytes != MAP_FAILED);
    region->bytes = bytes;
}

void shared_region_make(struct shared_region *region, const char *name, size_t size)
{
    char key[SHARED_KEY_BYTES];
    snprintf(key, sizeof key, SHARED_PREFIX "%d-%s", (int)getpid(), name);
    shared_region_make_as(region, key, size);
}

void shared_region_remove(struct shared_region *region)
{
    munmap(region->bytes, region->size);
    close(region->file);
    shm_unlink(region->key);
    place_of(region->key)[0] = '\0';
    region->bytes = NULL;
}

struct http_response shared_region_send(struct http_client *client, const char *name,
                                        const char *key, unsigned long long offset,
                                        unsigned long long size)
{
    char path[300], body[600];
    snprintf(path, sizeof path, "/v2/systemsharedmemory/region/%s/register", name);
    snprintf(body, sizeof body, "{\"key\": \"%s\", \"offset\": %llu, \"byte_size\": %llu}", key,
             offset, size);
    return http_client_post(client, path, body);
}

void shared_region_register(struct http_client *client, const char *name,
                            const struct shared_region *region)
{
    struct http_response response = shared_region_send(client, name, region->key, 0, region->size);
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
}

void shared_region_unregister(struct http_client *client, const char *name)
{
    char path[300] = "/v2/systemsharedmemory/unregister";
    if (name)
        snprintf(path, sizeof path, "/v2/systemsharedmemory/region/%s/unregister", name);
    cJSON_Delete(answer_post(client, path, ""));
}

int shared_region_count(struct http_client *client)
{
    struct http_response response = http_client_get(client, "/v2/systemsharedmemory/status");
    cJSON *list = cJSON_Parse(response.body);
    assert_int_equal(response.status, 200);
    assert_true(cJSON_IsArray(list));
    const int count = cJSON_GetArraySize(list);
    cJSON_Delete(list);
    http_response_free(&response);
    return count;
}

const char *shared_region_parameters(char *text, const char *name, unsigned long long offset,
                                     unsigned long long size)
{
    snprintf(text, 200,
             "\"shared_memory_region\":\"%s\",\"shared_memory_offset\":%llu,"
             "\"shared_memory_byte_size\":%llu",
             name, offset, size);
    return text;
}
