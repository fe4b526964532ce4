/* listeners.c - see listeners.h. */
#include "http/listeners.h"

static struct listener_options options_of(const struct config *config)
{
    return (struct listener_options){ .unix_mode = config->unix_mode,
                                      .unix_owner = config->unix_owner };
}

bool listeners_open(struct listeners *listeners, const struct config *config, struct fault *fault)
{
    const struct listener_options options = options_of(config);
    listeners->count = 0;
    for (int i = 0, opened; i < config->listen.count; i++) {
        if (!listener_open(&listeners->all[listeners->count], &opened, config->listen.items[i],
                           &options, fault))
            return false;
        listeners->count += opened;
    }
    return true;
}

void listeners_close(struct listeners *listeners)
{
    for (int i = 0; i < listeners->count; i++)
        listener_close(&listeners->all[i]);
    listeners->count = 0;
}

bool listeners_try(const struct config *config, struct fault *fault)
{
    const struct listener_options options = options_of(config);
    for (int i = 0; i < config->listen.count; i++)
        if (!listener_try(config->listen.items[i], &options, fault))
            return false;
    return true;
}
