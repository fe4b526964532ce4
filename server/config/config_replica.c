/* config_replica.c - see config_replica.h.
 *
 * A name has no dot: the ids of sessions are "NAME.", and what nobody can guess, so a balancer
 * knows by the beginning of an id where a session lives. */
#include "config/config_replica.h"

#include "text/text.h"

#include <string.h>
#include <unistd.h>

static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void take_host_name(char name[CONFIG_REPLICA_MAX + 1])
{
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    host[strcspn(host, ".")] = '\0';
    for (char *at = host + strspn(host, LETTERS); *at; at += strspn(at, LETTERS))
        *at = '-';
    text_copy(name, CONFIG_REPLICA_MAX + 1, host[0] ? host : "attnd");
}

bool config_replica_settle(struct config *config, struct fault *fault)
{
    const char *name = config->replica;
    if (!name) {
        take_host_name(config->replica_name);
        return true;
    }
    const size_t length = strlen(name);
    if (length == 0 || length > CONFIG_REPLICA_MAX || strspn(name, LETTERS) != length)
        return fault_set(fault, FAULT_OPTION,
                         "--replica: '%.80s' came; expected 1 to %d of A-Z a-z 0-9 _ -, as in "
                         "attnd-0",
                         name, CONFIG_REPLICA_MAX);
    text_copy(config->replica_name, sizeof config->replica_name, name);
    return true;
}
