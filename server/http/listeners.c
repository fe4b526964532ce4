/* listeners.c - see listeners.h. */
#include "http/listeners.h"

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

bool listeners_open(struct listeners *listeners, const struct config *config, struct fault *fault)
{
    listeners->count = 0;
    return open_list(listeners, &config->listen, false, config, fault)
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
