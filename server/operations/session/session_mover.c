/* SPDX-License-Identifier: Apache-2.0 */
/* session_mover.c - a few threads take sessions from one list; each has its own connections. */
#include "operations/session/session_mover.h"

#include "access/access_keys.h"
#include "base/clock.h"
#include "operations/session/session_file.h"
#include "operations/session/session_turn.h"
#include "telemetry/log.h"
#include "json/json.h"
#include "json/text.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, TRIES = 4, ANSWER_BYTES_MAX = 65536, KEY_BYTES_MAX = 512, PROBE_MS = 2000 };
enum { OWN_PORTS_MAX = 64 };
enum { HEAD_BYTES_MAX = 16 << 20 }; /* of a session's file */

/* -------------------------------------------------------------------- targets -- */

struct target {
    struct remote_address address;
    struct fault_place place;
    char replica[128];   /* set when it first answers, and kept */
    _Atomic bool is_out; /* it takes no more in this move */
    bool is_self;
};

struct session_mover {
    struct target targets[SESSION_MOVE_TARGETS_MAX];
    int target_count;
    struct remote_trust *trust; /* NULL: no target has TLS */
    char key[KEY_BYTES_MAX];    /* "": none */
    const char *own_replica;
    int own_ports[OWN_PORTS_MAX]; /* that this daemon listens on */
    int own_port_count;
    struct remote_stop stop;
    pthread_mutex_t one_at_a_time;
};

static bool read_addresses(struct session_mover *mover, const struct config *config,
                           struct fault *fault)
{
    for (int i = 0; i < config->move_to.count; i++) {
        struct target *target = &mover->targets[mover->target_count++];
        if (!remote_address_read(&target->address, "--move-to", config->move_to.items[i], fault))
            return false;
        target->place = (struct fault_place){ target->address.url, target->replica };
    }
    return true;
}

/* The first line of the file: visible characters, for it becomes a header. */
static bool read_key(struct session_mover *mover, const char *path, struct fault *fault)
{
    char *text;
    size_t size;
    if (!path)
        return true;
    if (!access_file_read(path, &text, &size, fault))
        return fault_name_file(fault, "--move-key");
    size_t length = 0;
    while (length < size && text[length] > ' ' && text[length] <= '~')
        length++;
    const bool has_end = length == size || text[length] == '\n' || text[length] == '\r';
    const bool good = has_end && length > 0 && length < sizeof mover->key;
    if (good) {
        memcpy(mover->key, text, length);
        mover->key[length] = '\0';
    }
    explicit_bzero(text, size);
    free(text);
    return good
           || fault_set(fault, FAULT_OPTION,
                        "--move-key: %.200s: expected a file whose first line is the secret of a "
                        "key, as attnd key new prints it",
                        path);
}

static bool fill(struct session_mover *mover, const struct config *config, struct fault *fault)
{
    bool has_tls = false;
    if (!read_addresses(mover, config, fault))
        return false;
    for (int i = 0; i < mover->target_count; i++)
        has_tls |= mover->targets[i].address.is_tls;
    mover->own_replica = config->replica_name;
    if (has_tls)
        mover->trust = remote_trust_create(config->move_ca, fault);
    if (has_tls && !mover->trust)
        return fault_name_file(fault, config->move_ca ? "--move-ca" : "--move-to");
    return read_key(mover, config->move_key, fault) && remote_stop_init(&mover->stop, fault);
}

bool session_mover_create(struct session_mover **mover, const struct config *config,
                          struct fault *fault)
{
    *mover = NULL;
    if (config->move_to.count == 0)
        return (!config->move_key && !config->move_ca)
               || fault_set(fault, FAULT_OPTION, "%s is of no use without --move-to",
                            config->move_key ? "--move-key" : "--move-ca");
    *mover = calloc(1, sizeof **mover);
    if (!*mover)
        return fault_no_memory(fault);
    (*mover)->stop.wake = -1;
    pthread_mutex_init(&(*mover)->one_at_a_time, NULL);
    if (fill(*mover, config, fault))
        return true;
    session_mover_free(*mover);
    *mover = NULL;
    return false;
}

void session_mover_free(struct session_mover *mover)
{
    if (!mover)
        return;
    remote_trust_free(mover->trust);
    remote_stop_free(&mover->stop);
    pthread_mutex_destroy(&mover->one_at_a_time);
    explicit_bzero(mover->key, sizeof mover->key);
    free(mover);
}

int session_mover_addresses(const struct session_mover *mover, const struct remote_address **out,
                            int count)
{
    int found = 0;
    for (; mover && found < mover->target_count && found < count; found++)
        out[found] = &mover->targets[found].address;
    return found;
}

void session_mover_add_own_port(struct session_mover *mover, int port)
{
    if (mover->own_port_count < OWN_PORTS_MAX)
        mover->own_ports[mover->own_port_count++] = port;
}

void session_mover_end_by(struct session_mover *mover, int64_t ends_ns)
{
    remote_stop_set(&mover->stop, ends_ns);
}

/* ------------------------------------------------------------- a move of all -- */

struct move {
    struct session_mover *mover;
    struct session_store *sessions;
    int order[SESSION_MOVE_TARGETS_MAX]; /* of targets */
    int order_count;
    struct session **all; /* held */
    int64_t count;
    _Atomic int64_t next;
    int64_t deadline_ns;
    pthread_mutex_t mutex; /* guards the result */
    struct session_moved *result;
};

/* One of its threads. */
struct hand {
    struct move *move;
    struct remote *remotes[SESSION_MOVE_TARGETS_MAX]; /* of targets; NULL: not yet */
};

static struct remote *remote_of(struct hand *hand, int number)
{
    struct session_mover *mover = hand->move->mover;
    if (!hand->remotes[number])
        hand->remotes[number] = remote_create(&mover->targets[number].address, mover->trust,
                                              mover->key[0] ? mover->key : NULL, &mover->stop);
    return hand->remotes[number];
}

static bool is_over(const struct move *move)
{
    const int64_t ends_ns = atomic_load(&move->mover->stop.ends_ns), now_ns = clock_now_ns();
    return now_ns >= move->deadline_ns || (ends_ns != 0 && now_ns >= ends_ns);
}

/* The target takes no more: it is down, or refuses whatever comes from here. */
static void leave_out(struct move *move, int number, const char *reason)
{
    struct target *target = &move->mover->targets[number];
    const bool was_out = atomic_exchange(&target->is_out, true);
    if (was_out)
        return;
    log_line(LOG_WARNING, "sessions not moved there", LOG_STRING("to", target->address.url),
             LOG_STRING("reason", reason));
    pthread_mutex_lock(&move->mutex);
    text_copy(move->result->targets[number].reason, REMOTE_REASON_MAX, reason);
    pthread_mutex_unlock(&move->mutex);
}

/* ------------------------------------------------------------------ one answer -- */

struct refusal {
    char code[32];
    char reason[REMOTE_REASON_MAX]; /* "429 quota: 'a' has 9 sessions, ..." */
};

static void read_refusal(const struct remote_answer *answer, struct refusal *refusal)
{
    static const struct json_options OPTIONS = { .values_max = 256 };
    struct json_document document;
    struct fault fault;
    *refusal = (struct refusal){ .code = "" };
    const char *said = "";
    const bool is_json = json_read(&document, answer->body, answer->size, &OPTIONS, &fault);
    if (is_json) {
        const cJSON *code = cJSON_GetObjectItemCaseSensitive(document.root, "code");
        const cJSON *error = cJSON_GetObjectItemCaseSensitive(document.root, "error");
        if (cJSON_IsString(code))
            text_copy(refusal->code, sizeof refusal->code, code->valuestring);
        if (cJSON_IsString(error))
            said = error->valuestring;
    }
    if (answer->status < 300)
        said = "this is not what attnd answers";
    snprintf(refusal->reason, sizeof refusal->reason, "%d %s: %.200s", answer->status,
             refusal->code, said);
    if (is_json)
        json_free(&document);
}

/* Whether the answer describes this session with all that it has: a server of something else may
 * answer 200, too. What was made of this file before, which 200 says, may have grown there. */
static bool is_taken(const struct remote_answer *answer, const struct session *session)
{
    static const struct json_options OPTIONS = { .values_max = 65536 };
    struct json_document document;
    struct fault fault;
    if ((answer->status != 200 && answer->status != 201)
        || !json_read(&document, answer->body, answer->size, &OPTIONS, &fault))
        return false;
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(document.root, "session");
    const cJSON *kv_len = cJSON_GetObjectItemCaseSensitive(document.root, "kv_len");
    const double here = (double)session_kv_len(session);
    const double there = cJSON_IsNumber(kv_len) ? kv_len->valuedouble : -1;
    const bool is_this = cJSON_IsString(id) && strcmp(id->valuestring, session->id) == 0;
    json_free(&document);
    return is_this && (there == here || (answer->status == 200 && there > here));
}

/* What concerns all sessions, and not this one alone. */
static bool is_about_all(int status, const char *code)
{
    return status == 401 || status < 300 || strcmp(code, "draining") == 0
           || strcmp(code, "loading") == 0;
}

/* It may take the session a little later. */
static bool is_for_later(int status, const char *code)
{
    return status == 408 || strcmp(code, "overloaded") == 0
           || (code[0] == '\0' && (status == 429 || status == 503));
}

/* --------------------------------------------------------------------- one file -- */

/* Other characters than those of an id are escaped. */
static void add_escaped(struct text *text, const char *name)
{
    for (; *name; name++)
        if (isalnum((unsigned char)*name) || strchr("._-", *name))
            text_bytes(text, name, 1);
        else
            text_format(text, "%%%02X", (unsigned char)*name);
}

static bool write_target(char target[1024], const struct session *session)
{
    struct text text = text_in(target, 1023);
    struct fault fault;
    text_raw(&text, "/v1/sessions/");
    add_escaped(&text, session->id);
    if (session->account) {
        text_raw(&text, "?owner=");
        add_escaped(&text, session->account->name);
    }
    if (!text_finish(&text, &fault))
        return false;
    target[text.used] = '\0';
    return true;
}

static enum remote_end send_file(struct hand *hand, int number, const struct session *session,
                                 const struct session_file *file, struct remote_answer *answer,
                                 char reason[REMOTE_REASON_MAX])
{
    char target[1024];
    struct remote *remote = remote_of(hand, number);
    snprintf(reason, REMOTE_REASON_MAX, "no memory");
    if (!remote || !write_target(target, session))
        return REMOTE_NOT_SENT;
    const struct remote_request request = {
        .method = "PUT",
        .target = target,
        .headers = "Content-Type: application/x-safetensors\r\n",
        .parts = file->parts,
        .part_count = file->part_count,
        .deadline_ns = hand->move->deadline_ns,
        .answer_bytes_max = ANSWER_BYTES_MAX,
        .may_repeat = true, /* the other daemon knows the file by its digest */
    };
    return remote_ask(remote, &request, answer, reason);
}

static bool pause_before(const struct move *move, int try, int retry_after_s)
{
    const int64_t pause_ns =
        retry_after_s > 0 ? retry_after_s * INT64_C(1000000000) : (INT64_C(50000000) << try);
    const int64_t until_ns = clock_now_ns() + pause_ns;
    return until_ns < move->deadline_ns && remote_stop_wait(&move->mover->stop, until_ns);
}

/* Whether the target has the session now. A file that got no answer is sent again: what is there
 * then is said by the answer. */
static bool put(struct hand *hand, int number, const struct session *session,
                const struct session_file *file, char reason[REMOTE_REASON_MAX])
{
    struct move *move = hand->move;
    bool is_known = true;
    for (int try = 0; try < TRIES; try++) {
        struct remote_answer answer;
        struct refusal refusal;
        const enum remote_end end = send_file(hand, number, session, file, &answer, reason);
        if (end != REMOTE_ANSWERED) {
            is_known &= end == REMOTE_NOT_SENT;
            if (end == REMOTE_NOT_SENT || try + 1 == TRIES || is_over(move))
                break;
            continue;
        }
        if (is_taken(&answer, session))
            return true;
        read_refusal(&answer, &refusal);
        text_copy(reason, REMOTE_REASON_MAX, refusal.reason);
        if (is_about_all(answer.status, refusal.code))
            leave_out(move, number, reason);
        if (!is_for_later(answer.status, refusal.code)
            || !pause_before(move, try, answer.retry_after_s))
            return false;
    }
    if (!is_known)
        log_line(LOG_WARNING, "session perhaps there too", LOG_STRING("session", session->id),
                 LOG_STRING("owner", session->account ? session->account->name : ""),
                 LOG_STRING("to", move->mover->targets[number].address.url));
    leave_out(move, number, reason);
    return false;
}

/* ------------------------------------------------------------------ one session -- */

static void count_stay(struct move *move, struct session *session, const char *reason)
{
    struct session_moved *result = move->result;
    const char *owner = session->account ? session->account->name : "";
    atomic_store(&session->stays, true);
    pthread_mutex_lock(&move->mutex);
    result->stay++;
    const bool is_said = result->fault_count < SESSION_MOVE_FAULTS_MAX;
    if (is_said) {
        text_copy(result->faults[result->fault_count].id, SESSION_NAME_MAX + 1, session->id);
        text_copy(result->faults[result->fault_count].owner, ACCESS_NAME_MAX + 1, owner);
        text_copy(result->faults[result->fault_count++].reason, REMOTE_REASON_MAX, reason);
    }
    pthread_mutex_unlock(&move->mutex);
    if (is_said)
        log_line(LOG_WARNING, "session stays", LOG_STRING("session", session->id),
                 LOG_STRING("owner", owner), LOG_STRING("reason", reason));
}

static void count_moved(struct move *move, int number, size_t bytes)
{
    pthread_mutex_lock(&move->mutex);
    move->result->moved++;
    move->result->targets[number].moved++;
    move->result->bytes += bytes;
    pthread_mutex_unlock(&move->mutex);
}

static size_t bytes_of(const struct session_file *file)
{
    size_t bytes = 0;
    for (int i = 0; i < file->part_count; i++)
        bytes += file->parts[i].size;
    return bytes;
}

/* To the first target that takes it. False, with the reason. */
static bool move_file(struct hand *hand, struct session *session, const struct session_file *file,
                      char reason[REMOTE_REASON_MAX])
{
    struct move *move = hand->move;
    struct fault fault;
    snprintf(reason, REMOTE_REASON_MAX, "no target takes sessions");
    for (int i = 0; i < move->order_count && !is_over(move); i++) {
        struct target *target = &move->mover->targets[move->order[i]];
        char why[REMOTE_REASON_MAX];
        if (atomic_load(&target->is_out))
            continue;
        if (!put(hand, move->order[i], session, file, why)) {
            snprintf(reason, REMOTE_REASON_MAX, "%.80s: %.170s", target->address.url, why);
            continue;
        }
        if (session_store_move(move->sessions, session, &target->place, &fault)) {
            count_moved(move, move->order[i], bytes_of(file));
            return true;
        }
        snprintf(reason, REMOTE_REASON_MAX, "%.60s has a copy; here: %.150s", target->address.url,
                 fault.message);
        return false;
    }
    if (is_over(move))
        snprintf(reason, REMOTE_REASON_MAX, "the time for moving has passed");
    return false;
}

/* For who has its turn. */
static bool move_in_turn(struct hand *hand, struct session *session, char reason[REMOTE_REASON_MAX])
{
    struct session_file file = { .session = NULL };
    struct text head;
    struct fault fault = { .code = FAULT_NONE };
    bool moved = false;
    if (!session_check_here(session, "moving it", &fault)
        || !session_file_begin(&file, session, NULL, &fault)) {
        text_copy(reason, REMOTE_REASON_MAX, fault.message);
        return false;
    }
    for (int64_t i = 0; i < file.tensor_count; i++)
        session_file_sum(&file, i);
    text_init(&head, HEAD_BYTES_MAX);
    if (session_file_write_head(&file, &head, &fault)) {
        file.parts[0] = (struct byte_slice){ head.data, head.used };
        moved = move_file(hand, session, &file, reason);
    } else {
        text_copy(reason, REMOTE_REASON_MAX, fault.message);
    }
    text_free(&head);
    session_file_free(&file);
    return moved;
}

static void move_session(struct hand *hand, struct session *session)
{
    struct move *move = hand->move;
    struct session_ticket ticket = { .session = session };
    struct session_turn turn = { .tickets = &ticket, .count = 1 };
    struct fault fault;
    char reason[REMOTE_REASON_MAX] = "a call of it has not ended";
    session_turn_take(&turn);
    const bool has_turn = session_turn_wait(&turn, move->deadline_ns);
    if (!has_turn || session_store_check(session, &fault)) /* else it has ended */
        if (!has_turn || !move_in_turn(hand, session, reason))
            count_stay(move, session, reason);
    session_turn_leave(&turn);
}

static bool has_target(const struct move *move)
{
    for (int i = 0; i < move->order_count; i++)
        if (!atomic_load(&move->mover->targets[move->order[i]].is_out))
            return true;
    return false;
}

static void *run_hand(void *argument)
{
    struct hand *hand = argument;
    struct move *move = hand->move;
    for (;;) {
        const int64_t number = atomic_fetch_add(&move->next, 1);
        if (number >= move->count)
            break;
        if (is_over(move) || !has_target(move))
            count_stay(move, move->all[number],
                       has_target(move) ? "the time for moving has passed"
                                        : "no target takes sessions");
        else
            move_session(hand, move->all[number]);
    }
    for (int i = 0; i < SESSION_MOVE_TARGETS_MAX; i++)
        remote_free(hand->remotes[i]);
    return NULL;
}

/* ------------------------------------------------------------------------- probe -- */

/* Daemons of one machine have one name unless --replica says another, but not one port. */
static bool is_self(const struct session_mover *mover, const struct target *target,
                    const char *replica)
{
    bool is_own = false;
    for (int i = 0; i < mover->own_port_count; i++)
        is_own |= mover->own_ports[i] == target->address.port;
    return is_own && strcmp(replica, mover->own_replica) == 0;
}

/* Asks each target whether it is ready, and who it is: this daemon may be among them. */
static void probe(struct move *move, int number)
{
    struct target *target = &move->mover->targets[number];
    struct hand hand = { .move = move };
    struct remote_answer answer;
    char reason[REMOTE_REASON_MAX] = "no memory";
    struct remote *remote = remote_of(&hand, number);
    const int64_t until_ns = clock_now_ns() + PROBE_MS * INT64_C(1000000);
    const struct remote_request request = {
        .method = "GET",
        .target = "/readyz",
        .deadline_ns = until_ns < move->deadline_ns ? until_ns : move->deadline_ns,
        .answer_bytes_max = ANSWER_BYTES_MAX,
        .may_repeat = true,
    };
    const enum remote_end end =
        remote ? remote_ask(remote, &request, &answer, reason) : REMOTE_NOT_SENT;
    atomic_store(&target->is_out, false);
    target->is_self = end == REMOTE_ANSWERED && is_self(move->mover, target, answer.replica);
    if (end == REMOTE_ANSWERED && !target->replica[0])
        text_copy(target->replica, sizeof target->replica, answer.replica);
    if (end == REMOTE_ANSWERED && answer.status != 200)
        snprintf(reason, sizeof reason, "/readyz answered %d", answer.status);
    if (target->is_self)
        atomic_store(&target->is_out, true);
    else if (end != REMOTE_ANSWERED || answer.status != 200)
        leave_out(move, number, reason);
    remote_free(remote);
}

/* Those behind this daemon's own entry come first. */
static void put_in_order(struct move *move, int only)
{
    struct session_mover *mover = move->mover;
    int own = -1;
    for (int i = 0; i < mover->target_count; i++) {
        move->result->targets[i].url = mover->targets[i].address.url;
        move->result->targets[i].replica = mover->targets[i].replica;
        if (only >= 0 && i != only)
            continue;
        probe(move, i);
        own = mover->targets[i].is_self ? i : own;
    }
    move->result->target_count = mover->target_count;
    for (int i = 1; i <= mover->target_count; i++) {
        const int number = (own + i) % mover->target_count;
        if (number != own && (only < 0 || number == only))
            move->order[move->order_count++] = number;
    }
    if (only >= 0 && own == only)
        text_copy(move->result->targets[only].reason, REMOTE_REASON_MAX, "it is this daemon");
}

/* -------------------------------------------------------------------------- all -- */

/* Holds those that are to move. */
static bool list_sessions(struct move *move, bool only_new)
{
    int64_t total;
    session_store_sweep(move->sessions, clock_now_ns());
    session_store_list(move->sessions, NULL, 0, NULL, 0, &total);
    move->all = calloc((size_t)total + 1, sizeof(struct session *));
    if (!move->all)
        return false;
    const int64_t count = session_store_list(move->sessions, NULL, 0, move->all, total, &total);
    for (int64_t i = 0; i < count; i++)
        if (only_new && atomic_load(&move->all[i]->stays))
            session_release(move->all[i]);
        else
            move->all[move->count++] = move->all[i];
    return true;
}

static void run_all(struct move *move)
{
    pthread_t threads[THREADS];
    struct hand hands[THREADS] = { { .move = move } };
    int count = 0;
    for (int i = 1; i < THREADS && i < move->count; i++) {
        hands[count + 1] = (struct hand){ .move = move };
        if (pthread_create(&threads[count], NULL, run_hand, &hands[count + 1]) == 0)
            count++;
    }
    run_hand(&hands[0]);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* The number of the target of that URL; -1, with the fault. */
static int find_target(const struct session_mover *mover, const char *url, struct fault *fault)
{
    struct remote_address address;
    if (!remote_address_read(&address, "to", url, fault))
        return -1;
    for (int i = 0; i < mover->target_count; i++)
        if (strcmp(mover->targets[i].address.url, address.url) == 0)
            return i;
    fault_set_at(fault, "/to", FAULT_OPTION,
                 "to is '%.200s', which is not among --move-to: sessions move to none but those",
                 address.url);
    return -1;
}

static void move_all(struct move *move, int only, bool only_new)
{
    const int64_t start_ns = clock_now_ns();
    struct session_moved *result = move->result;
    if (!list_sessions(move, only_new)) {
        log_line(LOG_ERROR, "sessions stay", LOG_STRING("reason", "no memory"));
        return;
    }
    if (move->count > 0) {
        put_in_order(move, only);
        run_all(move);
        log_line(result->stay > 0 ? LOG_WARNING : LOG_INFO, "sessions moved",
                 LOG_NUMBER("count", result->moved), LOG_NUMBER("stay", result->stay),
                 LOG_NUMBER("bytes", result->bytes), LOG_MS("ms", clock_now_ns() - start_ns));
    }
    for (int64_t i = 0; i < move->count; i++)
        session_release(move->all[i]);
    free(move->all);
}

bool session_mover_run(struct session_mover *mover, struct session_store *sessions, const char *to,
                       bool only_new, int64_t deadline_ns, struct session_moved *result,
                       struct fault *fault)
{
    const int only = to ? find_target(mover, to, fault) : -1;
    struct move move = { .mover = mover,
                         .sessions = sessions,
                         .deadline_ns = deadline_ns,
                         .mutex = PTHREAD_MUTEX_INITIALIZER,
                         .result = result };
    *result = (struct session_moved){ .moved = 0 };
    if (to && only < 0)
        return false;
    pthread_mutex_lock(&mover->one_at_a_time);
    move_all(&move, only, only_new);
    pthread_mutex_unlock(&mover->one_at_a_time);
    return true;
}
