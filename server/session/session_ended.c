/* session_ended.c - see session_ended.h. */
#include "session/session_ended.h"

#include "text/text.h"

#include <string.h>

/* FNV-1a. */
static uint32_t hash_of(const char *id)
{
    uint32_t hash = 2166136261u;
    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return hash;
}

void session_ended_add(struct session_ended *ended, const struct session *session,
                       enum session_end why)
{
    const int64_t number = ended->count++ % SESSION_ENDED_MAX;
    ended->hashes[number] = hash_of(session->id);
    text_copy(ended->all[number].id, sizeof ended->all[number].id, session->id);
    text_copy(ended->all[number].account, sizeof ended->all[number].account,
              session->account ? session->account->name : "");
    ended->all[number].why = why;
}

enum session_end session_ended_why(const struct session_ended *ended, const char *id,
                                   const char *account)
{
    const uint32_t hash = hash_of(id);
    const int64_t oldest = ended->count > SESSION_ENDED_MAX ? ended->count - SESSION_ENDED_MAX : 0;
    for (int64_t i = ended->count - 1; i >= oldest; i--) {
        const int64_t number = i % SESSION_ENDED_MAX;
        if (ended->hashes[number] == hash && strcmp(ended->all[number].id, id) == 0
            && strcmp(ended->all[number].account, account) == 0)
            return ended->all[number].why;
    }
    return SESSION_LIVES;
}

const char *session_ended_next(const struct session_ended *ended, const char *id, int64_t *next)
{
    const uint32_t hash = hash_of(id);
    const int64_t end = ended->count < SESSION_ENDED_MAX ? ended->count : SESSION_ENDED_MAX;
    while (*next < end) {
        const int64_t number = (*next)++;
        if (ended->hashes[number] == hash && strcmp(ended->all[number].id, id) == 0)
            return ended->all[number].account;
    }
    return NULL;
}

bool session_ended_fault(const char *id, enum session_end why, struct fault *fault)
{
    static const char *const WORDS[] = {
        [SESSION_LIVES] = "has ended",
        [SESSION_DELETED] = "was deleted",
        [SESSION_EXPIRED] = "has expired: nobody used it for its ttl",
        [SESSION_EVICTED] = "was evicted: memory was short, and it was made evictable",
    };
    return fault_set(fault, FAULT_GONE, "session '%.64s' %s; make a new one", id, WORDS[why]);
}
