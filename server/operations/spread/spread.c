/* SPDX-License-Identifier: Apache-2.0 */
/* spread.c - see spread.h. */
#include "operations/spread/spread.h"

#include "access/access_keys.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- home -- */

#define SHORT_NS (INT64_C(10) * 1000000000) /* of a request that nobody waits for */

struct spread_home {
    struct spread_peers peers;
    struct spread_lines *lines;
    int64_t ttl_ns, renew_ns; /* renew_ns: when next */
    pthread_mutex_t mutex;
    LIST_OF(struct spread) spreads;
};

struct spread_home *spread_home_create(const char *path, int64_t ttl_ns, struct fault *fault)
{
    char *text = NULL;
    size_t size = 0;
    struct spread_home *home = calloc(1, sizeof *home);
    if (!home) {
        fault_no_memory(fault);
        return NULL;
    }
    home->ttl_ns = ttl_ns;
    pthread_mutex_init(&home->mutex, NULL);
    if (access_file_read(path, &text, &size, fault)) {
        if (spread_peers_read(&home->peers, text, size, fault))
            home->lines = spread_lines_create(&home->peers, fault);
        else
            fault_name_file(fault, path);
    }
    free(text);
    if (home->lines)
        return home;
    spread_home_free(home);
    return NULL;
}

void spread_home_free(struct spread_home *home)
{
    if (!home)
        return;
    spread_lines_free(home->lines);
    spread_peers_free(&home->peers);
    pthread_mutex_destroy(&home->mutex);
    free(home);
}

struct spread_lines *spread_home_lines(const struct spread_home *home)
{
    return home->lines;
}

int64_t spread_home_ttl_ns(const struct spread_home *home)
{
    return home->ttl_ns;
}

/* Nobody waits for the answer: a session that is not reached ends by its time. */
static void post(struct spread_home *home, const struct spread_range *range, const char *method,
                 const char *body)
{
    struct spread_request *request =
        spread_request_create(range->peer, method, clock_now_ns() + SHORT_NS);
    if (!request)
        return;
    snprintf(request->target, sizeof request->target, "/v1/sessions/%s", range->id);
    request->body = body ? strdup(body) : NULL;
    request->body_size = request->body ? strlen(request->body) : 0;
    if (body && !request->body)
        spread_request_free(request);
    else
        spread_lines_send(home->lines, request, NULL);
}

/* Those of a peer that does not answer would wait in vain. */
static void renew(struct spread_home *home, struct spread *spread, const char *body)
{
    enum { QUEUE_MOST = 4096 };
    pthread_mutex_lock(&spread->mutex);
    for (int64_t i = 0; i < spread->count; i++)
        if (spread_lines_queue(home->lines, spread->ranges[i].peer) < QUEUE_MOST)
            post(home, &spread->ranges[i], "PATCH", body);
    pthread_mutex_unlock(&spread->mutex);
}

void spread_home_sweep(struct spread_home *home, int64_t now_ns)
{
    char body[64];
    if (!home || now_ns < home->renew_ns)
        return;
    home->renew_ns = now_ns + home->ttl_ns / 4;
    snprintf(body, sizeof body, "{\"ttl\":\"%" PRId64 "ms\"}", home->ttl_ns / 1000000);
    pthread_mutex_lock(&home->mutex);
    for (struct spread *spread = home->spreads.first; spread; spread = spread->in_home.next)
        renew(home, spread, body);
    pthread_mutex_unlock(&home->mutex);
}

/* --------------------------------------------------------------------- cut -- */

static void free_elsewhere(struct session_elsewhere *elsewhere)
{
    spread_free((struct spread *)elsewhere);
}

struct spread *spread_of(const struct session *session)
{
    return (struct spread *)session->elsewhere;
}

struct spread *spread_create(struct spread_home *home, int64_t rows_min)
{
    struct spread *spread = calloc(1, sizeof *spread);
    if (!spread)
        return NULL;
    spread->elsewhere.free = free_elsewhere;
    spread->home = home;
    spread->rows_min = rows_min > 0 ? rows_min : SPREAD_ROWS_DEFAULT;
    pthread_mutex_init(&spread->mutex, NULL);
    pthread_mutex_lock(&home->mutex);
    LIST_APPEND(&home->spreads, spread, in_home);
    pthread_mutex_unlock(&home->mutex);
    return spread;
}

void spread_free(struct spread *spread)
{
    struct spread_home *home = spread->home;
    pthread_mutex_lock(&home->mutex);
    LIST_TAKE_OUT(&home->spreads, spread, in_home);
    pthread_mutex_unlock(&home->mutex);
    for (int64_t i = 0; i < spread->count; i++)
        post(home, &spread->ranges[i], "DELETE", NULL);
    pthread_mutex_destroy(&spread->mutex);
    free(spread->ranges);
    free(spread);
}

bool spread_look(struct spread *spread, struct spread_range **ranges, int64_t *count)
{
    pthread_mutex_lock(&spread->mutex);
    const size_t bytes = (size_t)spread->count * sizeof **ranges;
    *ranges = malloc(bytes + 1);
    *count = *ranges ? spread->count : 0;
    if (*count > 0)
        memcpy(*ranges, spread->ranges, bytes);
    pthread_mutex_unlock(&spread->mutex);
    return *ranges;
}

/* A half of a peer's share: the share of a peer is then even to about a half of it, and the number
 * of ranges grows with the logarithm of the length. */
int64_t spread_next_rows(int64_t rows_min, int64_t length, int64_t peer_count)
{
    const int64_t part = length / (2 * peer_count);
    return part > rows_min ? part : rows_min;
}

static bool make_room(struct spread *spread)
{
    if (spread->count < spread->capacity)
        return true;
    const int64_t capacity = spread->capacity > 0 ? 2 * spread->capacity : 8;
    struct spread_range *ranges =
        realloc(spread->ranges, (size_t)capacity * sizeof *spread->ranges);
    if (!ranges)
        return false;
    spread->ranges = ranges;
    spread->capacity = capacity;
    return true;
}

bool spread_add(struct spread *spread, int peer, const char *id, int64_t rows_max,
                struct fault *fault)
{
    if (spread->count == SPREAD_RANGES_MAX)
        return fault_set(fault, FAULT_FULL,
                         "the session has %d ranges, as many as there may be; make one with larger "
                         "spread_rows",
                         SPREAD_RANGES_MAX);
    pthread_mutex_lock(&spread->mutex);
    const bool has_room = make_room(spread);
    if (has_room) {
        struct spread_range *range = &spread->ranges[spread->count];
        int64_t first = 0;
        if (spread->count > 0)
            first = range[-1].first + range[-1].rows_max;
        *range = (struct spread_range){ .peer = peer, .first = first, .rows_max = rows_max };
        memcpy(range->id, id, strnlen(id, SESSION_ID_MAX));
        spread->count++;
    }
    pthread_mutex_unlock(&spread->mutex);
    return has_room || fault_no_memory(fault);
}

void spread_end_range(struct spread *spread, int64_t index)
{
    pthread_mutex_lock(&spread->mutex);
    struct spread_range *ranges = spread->ranges;
    ranges[index].rows_max = ranges[index].count;
    for (int64_t i = index + 1; i < spread->count; i++)
        ranges[i].first = ranges[i - 1].first + ranges[i - 1].rows_max;
    pthread_mutex_unlock(&spread->mutex);
}

void spread_set_unsure(struct spread *spread, int64_t index, bool is_unsure)
{
    pthread_mutex_lock(&spread->mutex);
    spread->ranges[index].is_unsure = is_unsure;
    pthread_mutex_unlock(&spread->mutex);
}

int64_t spread_lay(const struct spread *spread, int64_t first, int64_t count,
                   struct spread_piece *pieces, int64_t most, int64_t *left)
{
    int64_t used = 0;
    for (int64_t i = 0; i < spread->count && used < most; i++) {
        const struct spread_range *range = &spread->ranges[i];
        const int64_t inside = first - range->first, room = range->rows_max - inside;
        if (count == 0 || inside < 0 || room <= 0)
            continue;
        const int64_t taken = count < room ? count : room;
        pieces[used++] = (struct spread_piece){ i, first, taken };
        first += taken;
        count -= taken;
    }
    *left = count;
    return used;
}

void spread_has(struct spread *spread, int64_t length)
{
    if (length <= spread->length)
        return;
    pthread_mutex_lock(&spread->mutex);
    for (int64_t i = 0; i < spread->count; i++) {
        struct spread_range *range = &spread->ranges[i];
        const int64_t inside = length - range->first;
        range->count = inside < range->count      ? range->count
                       : inside < range->rows_max ? inside
                                                  : range->rows_max;
    }
    spread->length = length;
    pthread_mutex_unlock(&spread->mutex);
}

/* Rows from row on see keys from row - window_left to row + window_right. */
bool spread_sees(const struct spread_sight *sight, int64_t first, int64_t count)
{
    const int64_t last_row = sight->first_row + sight->row_count - 1;
    if (count == 0 || sight->row_count == 0)
        return false;
    if (sight->window_right >= 0 && last_row < first - sight->window_right)
        return false;
    return sight->window_left < 0 || first + count - 1 >= sight->first_row - sight->window_left;
}
