/* SPDX-License-Identifier: Apache-2.0 */
/* listeners.c - see listeners.h. */
#include "http/listeners.h"

#include "host/listen_address.h"

#include <string.h>
#include <sys/socket.h>

static struct listener_options options_of(const struct config *config)
{
    return (struct listener_options){ .unix_mode = config->unix_mode,
                                      .unix_owner = config->unix_owner };
}

static bool open_list(struct listeners *listeners, const struct config_list *list,
                      bool is_operators, const struct config *config, struct fault *fault)
{
    const struct listener_options options = options_of(config);
    for (int i = 0, opened; i < list->count; i++) {
        struct listener *first = &listeners->all[listeners->count];
        if (!listener_open(first, &opened, list->items[i], &options, fault))
            return false;
        for (int j = 0; j < opened; j++)
            first[j].is_operators = is_operators;
        listeners->count += opened;
    }
    return true;
}

/* Whether a passed socket may be listened on, as the same address in --listen might. */
static bool check_reach(const struct listener *listener, const struct config *config,
                        struct fault *fault)
{
    struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
    socklen_t size = sizeof address;
    getsockname(listener->socket, (struct sockaddr *)&address, &size);
    return listen_reach_is_local((const struct sockaddr *)&address)
           || listen_reach_is_allowed(config)
           || listen_reach_refuse(config, listener->address, fault);
}

/* Takes all passed sockets, good or not, so that the caller closes them all. */
static bool adopt_passed(struct listeners *listeners, const struct config *config,
                         struct fault *fault)
{
    struct passed_socket passed[PASSED_SOCKETS_MAX];
    int count;
    bool good = passed_sockets_take(passed, &count, fault);
    for (int i = 0; i < count; i++) {
        struct fault other;
        struct listener *listener = &listeners->all[listeners->count++];
        good = listener_adopt(listener, passed[i].descriptor, passed[i].name, good ? fault : &other)
               && good;
        good = good && check_reach(listener, config, fault);
        listener->is_operators = strcmp(passed[i].name, "admin") == 0;
    }
    return good;
}

static bool has_public(const struct listeners *listeners)
{
    for (int i = 0; i < listeners->count; i++)
        if (!listeners->all[i].is_operators)
            return true;
    return false;
}

bool listeners_open(struct listeners *listeners, const struct config *config, struct fault *fault)
{
    listeners->count = 0;
    if (!adopt_passed(listeners, config, fault))
        return false;
    const bool is_replaced = has_public(listeners) && !config->listen.is_set;
    return (is_replaced || open_list(listeners, &config->listen, false, config, fault))
           && open_list(listeners, &config->admin_listen, true, config, fault);
}

void listeners_close(struct listeners *listeners)
{
    for (int i = 0; i < listeners->count; i++)
        listener_close(&listeners->all[i]);
    listeners->count = 0;
}

bool listeners_have_operators(const struct listeners *listeners)
{
    for (int i = 0; i < listeners->count; i++)
        if (listeners->all[i].is_operators)
            return true;
    return false;
}

static bool try_list(const struct config_list *list, const struct config *config,
                     struct fault *fault)
{
    const struct listener_options options = options_of(config);
    for (int i = 0; i < list->count; i++)
        if (!listener_try(list->items[i], &options, fault))
            return false;
    return true;
}

bool listeners_try(const struct config *config, struct fault *fault)
{
    return try_list(&config->listen, config, fault)
           && try_list(&config->admin_listen, config, fault);
}
