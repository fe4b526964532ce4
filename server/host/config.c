/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - defaults, environment variables and flags are read in this order by the same few
 * functions, and each overrides what came before it. config_options.c lists what can be set. An
 * unknown variable is refused, as an unknown flag is: the daemon would otherwise run with other
 * settings than its owner believes. */
#include "host/config.h"

#include "base/memory_budget.h"
#include "base/names.h"
#include "base/version.h"
#include "host/config_options.h"
#include "host/config_value.h"
#include "host/listen_address.h"
#include "host/resources.h"
#include "host/web_origin.h"
#include "json/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LABEL_BYTES_MAX = 256, LIST_BYTES_MAX = 1024, LISTS_MAX = 8, NS_PER_MS = 1000000 };

#define ENVIRONMENT_PREFIX "ATTND_"

/* One setting as a user wrote it. */
struct setting {
    const struct config_option *option;
    const char *label; /* "--body-max" or "ATTND_BODY_MAX" */
    const char *text;
};

/* Prints "attnd: label: message" and returns false. */
__attribute__((format(printf, 2, 3))) static bool refuse(const char *label, const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fprintf(stderr, "attnd: %s: %s\n", label, message);
    return false;
}

/* ----------------------------------------------------------------- values -- */

static void *field_of(struct config *config, const struct config_option *option)
{
    return (char *)config + option->field_offset;
}

/* Stores a number, choice or switch in its field, of whatever width. */
static void store_number(struct config *config, const struct config_option *option, int64_t value)
{
    void *field = field_of(config, option);
    const bool as_bool = value != 0;
    const int as_int = (int)value;
    if (option->field_bytes == sizeof as_bool)
        memcpy(field, &as_bool, sizeof as_bool);
    else if (option->field_bytes == sizeof as_int)
        memcpy(field, &as_int, sizeof as_int);
    else
        memcpy(field, &value, sizeof value);
}

static bool is_within(const struct config_option *option, int64_t value)
{
    return value >= option->min && value <= option->max;
}

/* A bound as a user would type it. */
static const char *bound_text(const struct config_option *option, int64_t bound,
                              char text[CONFIG_VALUE_SHOWN])
{
    if (option->kind == CONFIG_SIZE)
        config_value_show_size(text, bound);
    else if (option->kind == CONFIG_TIME)
        config_value_show_time(text, bound);
    else
        snprintf(text, CONFIG_VALUE_SHOWN, "%lld", (long long)bound);
    return text;
}

static bool refuse_bounded(const struct setting *setting, const char *expected)
{
    char min[CONFIG_VALUE_SHOWN], max[CONFIG_VALUE_SHOWN];
    const struct config_option *option = setting->option;
    return refuse(setting->label, "'%s' came; expected %s, from %s to %s", setting->text, expected,
                  bound_text(option, option->min, min), bound_text(option, option->max, max));
}

static bool set_bounded(struct config *config, const struct setting *setting)
{
    const struct config_option *option = setting->option;
    int64_t value;
    if (option->kind == CONFIG_INTEGER) {
        if (!config_value_integer(setting->text, &value) || !is_within(option, value))
            return refuse_bounded(setting, "an integer");
    } else if (option->kind == CONFIG_SIZE) {
        if (!config_value_size(setting->text, &value) || !is_within(option, value))
            return refuse_bounded(setting, "bytes, or KiB, MiB or GiB as in 64MiB");
    } else {
        if (!config_value_time(setting->text, &value) || !is_within(option, value))
            return refuse_bounded(setting, "ms, s, m or h as in 500ms");
    }
    store_number(config, option, value);
    return true;
}

static bool set_choice(struct config *config, const struct setting *setting)
{
    const int place = config_value_choice(setting->text, setting->option->value);
    if (place < 0)
        return refuse(setting->label, "'%s' came; expected %s", setting->text,
                      setting->option->value);
    store_number(config, setting->option, place);
    return true;
}

/* A variable has one of these texts; the flag itself is "1". */
static bool set_switch(struct config *config, const struct setting *setting)
{
    const int place = config_value_choice(setting->text, "0|false|1|true");
    if (place < 0)
        return refuse(setting->label, "'%s' came; expected 1, 0, true or false", setting->text);
    store_number(config, setting->option, place >= 2);
    return true;
}

static bool set_mode(struct config *config, const struct setting *setting)
{
    int64_t mode;
    if (!config_value_mode(setting->text, &mode))
        return refuse(setting->label, "'%s' came; expected octal digits as in 0660, up to 0777",
                      setting->text);
    store_number(config, setting->option, mode);
    return true;
}

static const char *items_name(const struct config_option *option)
{
    return option->kind == CONFIG_LISTEN ? "addresses" : "values";
}

static bool check_origin(const struct setting *setting, const char *item)
{
    char serialised[WEB_ORIGIN_BYTES];
    return strcmp(item, "*") == 0 || web_origin_read(serialised, item)
           || refuse(setting->label, "'%s' came; " WEB_ORIGIN_FORMS, item);
}

/* Whether one text has the form that the list takes. Whether this machine has an address, the
 * listener finds out. */
static bool check_item(const struct setting *setting, const char *item)
{
    struct listen_address parts;
    if (setting->option->kind == CONFIG_LIST)
        return item[0] || refuse(setting->label, "'' came; expected %s", setting->option->value);
    if (setting->option->kind == CONFIG_ORIGIN)
        return check_origin(setting, item);
    if (setting->option->kind == CONFIG_HOST)
        return web_host_is_valid(item)
               || refuse(setting->label, "'%s' came; " WEB_HOST_FORMS, item);
    if (!listen_address_read(&parts, item))
        return refuse(setting->label, "'%s' came; %s", item, listen_address_forms(item));
    return true;
}

static bool add_item(struct config *config, const struct setting *setting, const char *item)
{
    struct config_list *list = field_of(config, setting->option);
    if (!check_item(setting, item))
        return false;
    if (list->count == CONFIG_LIST_MAX)
        return refuse(setting->label, "more than %d %s", CONFIG_LIST_MAX,
                      items_name(setting->option));
    list->items[list->count++] = item;
    return true;
}

/* Reads "127.0.0.1:8080,[::1]:8080", the form of a variable. The copy is static because the items
 * are borrowed as long as the daemon lives, and the environment itself must stay whole. */
static bool set_list(struct config *config, const struct setting *setting)
{
    static char copies[LISTS_MAX * LIST_BYTES_MAX];
    static size_t used;
    struct config_list *list = field_of(config, setting->option);
    const size_t size = strlen(setting->text) + 1;
    if (used + size > sizeof copies)
        used = 0;
    if (size > LIST_BYTES_MAX)
        return refuse(setting->label, "more than %d bytes of %s", LIST_BYTES_MAX - 1,
                      items_name(setting->option));
    char *rest = memcpy(copies + used, setting->text, size);
    used += size;
    list->count = 0;
    list->is_set = true;
    for (char *item = strsep(&rest, ","); item; item = strsep(&rest, ","))
        if (!add_item(config, setting, item))
            return false;
    return true;
}

static bool is_list(const struct config_option *option)
{
    return option->kind == CONFIG_LISTEN || option->kind == CONFIG_LIST
           || option->kind == CONFIG_ORIGIN || option->kind == CONFIG_HOST;
}

/* Sets any option but a list, which has one form as a flag and another as a variable. */
static bool set_value(struct config *config, const struct setting *setting)
{
    switch (setting->option->kind) {
    case CONFIG_TEXT:
        memcpy(field_of(config, setting->option), &setting->text, sizeof setting->text);
        return true;
    case CONFIG_INTEGER:
    case CONFIG_SIZE:
    case CONFIG_TIME:
        return set_bounded(config, setting);
    case CONFIG_MODE:
        return set_mode(config, setting);
    case CONFIG_CHOICE:
        return set_choice(config, setting);
    case CONFIG_SWITCH:
        return set_switch(config, setting);
    case CONFIG_LISTEN:
    case CONFIG_LIST:
    case CONFIG_ORIGIN:
    case CONFIG_HOST:
    case CONFIG_PRINTS:
    case CONFIG_GROUP:
        break;
    }
    return false;
}

/* ------------------------------------------------------------------ names -- */

/* Copies a name in the spelling of a flag, "body-max", or of a variable, "BODY_MAX". ASCII alone,
 * whatever the locale. */
static void copy_mapped(char *out, size_t out_size, const char *name, size_t length, bool to_flag)
{
    size_t i = 0;
    for (; i < length && i < out_size - 1; i++) {
        const char byte = name[i];
        if (to_flag)
            out[i] = (char)(byte == '_' ? '-' : byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
        else
            out[i] = (char)(byte == '-' ? '_' : byte >= 'a' && byte <= 'z' ? byte - 32 : byte);
    }
    out[i] = '\0';
}

static bool refuse_flag(const char *label, const char *name)
{
    const struct config_option *near = config_option_nearest(name);
    return near ? refuse(label, "there is no such flag; the nearest is --%s", near->name)
                : refuse(label, "there is no such flag; --help lists them");
}

static bool refuse_variable(const char *label, const char *name)
{
    char near_variable[LABEL_BYTES_MAX];
    const struct config_option *near = config_option_nearest(name);
    if (!near || near->kind == CONFIG_PRINTS)
        return refuse(label, "there is no such variable; --help lists the flags");
    copy_mapped(near_variable, sizeof near_variable, near->name, strlen(near->name), false);
    return refuse(label, "there is no such variable; the nearest is " ENVIRONMENT_PREFIX "%s",
                  near_variable);
}

/* ------------------------------------------------------------ environment -- */

/* Whether Kubernetes and no user set the variable. It puts ATTND_SERVICE_HOST,
 * ATTND_PORT=tcp://..., ATTND_PORT_8080_TCP_ADDR and the like into every container of a namespace
 * that has a Service called attnd or attnd-something. ATTND_PORT=9000 is a user's mistake and not
 * one of those. */
static bool is_service_link(const char *label, const char *text)
{
    if (strstr(label, "_SERVICE_HOST") || strstr(label, "_SERVICE_PORT"))
        return true;
    for (const char *port = strstr(label, "_PORT"); port; port = strstr(port + 1, "_PORT"))
        if ((port[5] == '\0' && strstr(text, "://"))
            || (port[5] == '_' && port[6] >= '0' && port[6] <= '9'))
            return true;
    return false;
}

/* entry is "ATTND_NAME=text". An empty text counts as no variable: compose files write one that is
 * not set in this way. */
static bool read_variable(struct config *config, const char *entry)
{
    char label[LABEL_BYTES_MAX], flag[LABEL_BYTES_MAX];
    const char *equals = strchr(entry, '=');
    const char *name = entry + strlen(ENVIRONMENT_PREFIX);
    if (!equals || !equals[1])
        return true;
    snprintf(label, sizeof label, "%.*s", (int)(equals - entry), entry);
    copy_mapped(flag, sizeof flag, name, (size_t)(equals - name), true);
    const struct setting setting = {
        .option = config_option_find(flag, strlen(flag)),
        .label = label,
        .text = equals + 1,
    };
    if (!setting.option || setting.option->kind == CONFIG_PRINTS)
        return is_service_link(label, setting.text) || refuse_variable(label, flag);
    if (is_list(setting.option))
        return set_list(config, &setting);
    return set_value(config, &setting);
}

static bool read_environment(struct config *config)
{
    for (char **entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) == 0
            && !read_variable(config, *entry))
            return false;
    return true;
}

/* ------------------------------------------------------------------ flags -- */

/* Finds the value of a flag, "--name=value" or "--name value"; moves *argument past it. A value
 * that itself begins with two dashes needs the first form. */
static bool find_value(struct setting *setting, const char *equals, char **argv, int *argument)
{
    if (setting->option->kind == CONFIG_SWITCH) {
        if (equals)
            return refuse(setting->label, "takes no value, and '%s' came", equals + 1);
        setting->text = "1";
        return true;
    }
    const char *next = equals ? NULL : argv[*argument + 1];
    if (equals)
        setting->text = equals + 1;
    else if (next && strncmp(next, "--", 2) != 0)
        setting->text = argv[++*argument];
    if (setting->text[0])
        return true;
    return refuse(setting->label, "needs a value: %s", setting->option->value);
}

/* The first flag of a list replaces what the environment says; further ones are added. */
static bool add_by_flag(struct config *config, const struct setting *setting)
{
    struct config_list *list = field_of(config, setting->option);
    if (!list->is_given)
        list->count = 0;
    list->is_given = list->is_set = true;
    return add_item(config, setting, setting->text);
}

/* Refuses a word where a flag was expected. Commands are the first argument alone. */
static bool refuse_word(const char *given, bool is_first)
{
    static const char *const COMMANDS[] = { "batch", "health", "key", "model" };
    if (!is_first || given[0] == '-')
        return refuse(given, "is not a flag; flags begin with --, --help lists them");
    const char *command = nearest_name(given, COMMANDS, sizeof COMMANDS / sizeof COMMANDS[0]);
    const struct config_option *flag = command ? NULL : config_option_nearest(given);
    if (command || flag)
        return refuse(given,
                      "is neither a command (batch, health, key, model) nor a flag; did you mean "
                      "%s%s?",
                      command ? "" : "--", command ? command : flag->name);
    return refuse(given,
                  "is neither a command (batch, health, key, model) nor a flag; flags begin with "
                  "--, --help lists both");
}

/* Reads the flag at argv[*argument]. */
static bool read_flag(struct config *config, char **argv, int *argument)
{
    char label[LABEL_BYTES_MAX];
    const char *given = argv[*argument];
    if (strncmp(given, "--", 2) != 0)
        return refuse_word(given, *argument == 1);
    const char *equals = strchr(given, '=');
    const size_t length = equals ? (size_t)(equals - given) : strlen(given);
    snprintf(label, sizeof label, "%.*s", (int)length, given);
    struct setting setting = {
        .option = config_option_find(given + 2, length - 2),
        .label = label,
        .text = "",
    };
    if (!setting.option || setting.option->kind == CONFIG_PRINTS)
        return refuse_flag(label, label + 2);
    if (!find_value(&setting, equals, argv, argument))
        return false;
    return is_list(setting.option) ? add_by_flag(config, &setting) : set_value(config, &setting);
}

/* ------------------------------------------------------------------- read -- */

static void set_defaults(struct config *config)
{
    *config = (struct config){ 0 };
    for (int i = 0; i < CONFIG_OPTION_COUNT; i++) {
        const struct setting setting = { &CONFIG_OPTIONS[i], CONFIG_OPTIONS[i].name,
                                         CONFIG_OPTIONS[i].initial };
        if (!setting.text)
            continue;
        if (is_list(setting.option))
            add_item(config, &setting, setting.text);
        else
            set_value(config, &setting);
    }
}

/* A key that a page of any origin may use is worth stealing by each of them. */
static bool check_pages(const struct config *config)
{
    for (int i = 0; config->keys && i < config->allow_origin.count; i++)
        if (strcmp(config->allow_origin.items[i], "*") == 0)
            return refuse("--allow-origin",
                          "'*' came together with --keys; expected the origins whose pages may use "
                          "a key, as in https://app.example");
    return true;
}

static bool check_tls(const struct config *config)
{
    if (config->tls_cert && !config->tls_key)
        return refuse("--tls-cert", "there is no --tls-key; TLS takes both");
    if (config->tls_key && !config->tls_cert)
        return refuse("--tls-key", "there is no --tls-cert; TLS takes both");
    if (config->tls_client_ca && !config->tls_cert)
        return refuse("--tls-client-ca", "there is no --tls-cert and --tls-key; only a client that "
                                         "comes by TLS can show a certificate");
    if (config->tls_client_ca && !config->keys)
        return refuse("--tls-client-ca", "there are no --keys; a client's certificate names one of "
                                         "their lines");
    return true;
}

enum config_outcome config_read(struct config *config, int argc, char **argv)
{
    set_defaults(config);
    if (config_help_asked(argv)) {
        config_options_print();
        return CONFIG_EXIT_OK;
    }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--version") == 0) {
            printf("attnd " ATTND_VERSION "\n");
            return CONFIG_EXIT_OK;
        }
    if (!read_environment(config))
        return CONFIG_EXIT_ERROR;
    for (int i = 1; i < argc; i++)
        if (!read_flag(config, argv, &i))
            return CONFIG_EXIT_ERROR;
    return check_pages(config) && check_tls(config) ? CONFIG_RUN : CONFIG_EXIT_ERROR;
}

/* ---------------------------------------------------- left to the machine -- */

void config_memory_settle(struct config *config)
{
    const size_t granted = resources_memory_bytes();
    if (config->memory_bytes_max == 0)
        config->memory_bytes_max = granted / 2;
    if (config->trace_bytes_max == 0)
        config->trace_bytes_max = granted / 8;
    if (config->session_bytes_max == 0)
        config->session_bytes_max = granted / 4;
    memory_budget_limit(config->memory_bytes_max);
    if (config->body_bytes_max > memory_budget_body_bytes_max())
        config->body_bytes_max = memory_budget_body_bytes_max();
}

/* A name has no dot: the ids of sessions are "NAME.", and what nobody can guess, so a balancer
 * knows by the beginning of an id where a session lives. */
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
