/* SPDX-License-Identifier: Apache-2.0 */
/* spread_peers.c - see spread_peers.h. */
#include "operations/spread/spread_peers.h"

#include "formats/format.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { PEERS_BYTES_MAX = 1 << 20 };

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

struct peer_asked {
    const char *name, *url, *key, *ca;
};

#define TEXT_OF(NAME, FLAGS)                                                                       \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_STRING, .flags = (FLAGS),                                     \
        .offset = offsetof(struct peer_asked, NAME)                                                \
    }

static const struct field PEER_ROWS[] = {
    TEXT_OF(name, FIELD_REQUIRED),
    TEXT_OF(url, FIELD_REQUIRED),
    TEXT_OF(key, 0),
    TEXT_OF(ca, 0),
};
static const struct field_table PEER_TABLE = { .rows = PEER_ROWS,
                                               .count = COUNT_OF(PEER_ROWS),
                                               .policy = FIELDS_LISTED,
                                               .bytes = sizeof(struct peer_asked) };

struct file_asked {
    struct peer_asked *peers;
    int64_t count;
};

static const struct field FILE_ROWS[] = {
    { .name = "peers",
      .kind = FIELD_LIST,
      .offset = offsetof(struct file_asked, peers),
      .count = offsetof(struct file_asked, count),
      .inner = &PEER_TABLE,
      .expected = "an object of name and url" },
};
static const struct field_table FILE_TABLE = { .rows = FILE_ROWS,
                                               .count = COUNT_OF(FILE_ROWS),
                                               .policy = FIELDS_LISTED,
                                               .bytes = sizeof(struct file_asked) };

static bool is_text(const char *text, const char *letters, size_t most)
{
    const size_t length = strlen(text);
    return length >= 1 && length <= most && (!letters || strspn(text, letters) == length);
}

static bool check_name(const struct file_asked *asked, int64_t index, const char *pointer,
                       struct fault *fault)
{
    const char *name = asked->peers[index].name;
    if (!is_text(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-",
                 SPREAD_NAME_MAX))
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "name is '%.40s'; expected 1 to %d of A-Z a-z 0-9 . _ -", name,
                            SPREAD_NAME_MAX);
    for (int64_t i = 0; i < index; i++)
        if (strcmp(asked->peers[i].name, name) == 0)
            return fault_set_at(fault, pointer, FAULT_DUPLICATE, "two peers have the name '%s'",
                                name);
    return true;
}

/* A secret is a part of a header. */
static bool check_key(const char *key, const char *pointer, struct fault *fault)
{
    size_t length = 0;
    while (key && key[length] > ' ' && key[length] < 127)
        length++;
    return !key || (length >= 1 && length <= SPREAD_SECRET_MAX && !key[length])
           || fault_set_at(fault, pointer, FAULT_OPTION,
                           "key is not 1 to %d visible characters of ASCII", SPREAD_SECRET_MAX);
}

static bool take_text(struct arena *arena, const char *text, const char **into, struct fault *fault)
{
    *into = text ? arena_strdup(arena, text) : NULL;
    return !text || *into || fault_no_memory(fault);
}

static bool take_peer(struct spread_peers *peers, const struct file_asked *asked, int64_t index,
                      struct fault *fault)
{
    const struct peer_asked *from = &asked->peers[index];
    struct spread_peer *peer = &peers->peers[index];
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/peers/%" PRId64, index);
    if (!check_name(asked, index, pointer, fault) || !check_key(from->key, pointer, fault))
        return false;
    if (!remote_address_read(&peer->address, "url", from->url, fault)) {
        fault_prefix_pointer(fault, pointer);
        return false;
    }
    if (from->ca && !peer->address.is_tls)
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "ca came with '%.80s', which is not https://", from->url);
    return take_text(&peers->arena, from->name, &peer->name, fault)
           && take_text(&peers->arena, from->key, &peer->key, fault)
           && take_text(&peers->arena, from->ca, &peer->ca, fault);
}

static bool take_peers(struct spread_peers *peers, const struct file_asked *asked,
                       struct fault *fault)
{
    if (asked->count < 1 || asked->count > SPREAD_PEERS_MAX)
        return fault_set_at(fault, "/peers", FAULT_OPTION,
                            "there are %" PRId64 " peers; expected 1 to %d", asked->count,
                            SPREAD_PEERS_MAX);
    peers->peers = arena_calloc(&peers->arena, (size_t)asked->count, sizeof *peers->peers);
    if (!peers->peers)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < asked->count; i++)
        if (!take_peer(peers, asked, i, fault))
            return false;
    peers->count = asked->count;
    return true;
}

bool spread_peers_read(struct spread_peers *peers, const char *text, size_t size,
                       struct fault *fault)
{
    struct arena reading;
    struct message message = { .count = 0 };
    struct file_asked asked = { .count = 0 };
    arena_init(&reading, 64 * (size_t)PEERS_BYTES_MAX);
    *peers = (struct spread_peers){ .count = 0 };
    arena_init(&peers->arena, 16 * (size_t)PEERS_BYTES_MAX);
    struct format_body body = { .format = &format_json,
                                .bytes = { text, size },
                                .arena = &reading };
    const struct field_reader reader = { .arena = &reading, .fault = fault };
    const bool good =
        (size <= PEERS_BYTES_MAX
         || fault_set(fault, FAULT_OPTION, "has more than %d bytes", PEERS_BYTES_MAX))
        && format_json.read(&body, &FILE_TABLE, &message, fault)
        && fields_read(&reader, &message, (struct field_target){ &FILE_TABLE, &asked },
                       (struct field_target){ .table = NULL })
        && take_peers(peers, &asked, fault);
    format_body_free(&body);
    arena_free(&reading);
    if (!good)
        spread_peers_free(peers);
    return good;
}

void spread_peers_free(struct spread_peers *peers)
{
    arena_free(&peers->arena);
    peers->peers = NULL;
    peers->count = 0;
}
