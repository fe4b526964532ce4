/* SPDX-License-Identifier: Apache-2.0 */
/* reference_flags.c - the page of flags, variables and commands. */
#include "cli/reference/reference.h"

#include "cli/commands.h"
#include "host/config_options.h"
#include "host/config_value.h"

#include <ctype.h>
#include <stdio.h>

static void print_bytes(int64_t bytes)
{
    char text[CONFIG_VALUE_SHOWN];
    config_value_show_size(text, bytes);
    fputs(text, stdout);
}

static void print_time(int64_t ns)
{
    char text[CONFIG_VALUE_SHOWN];
    config_value_show_time(text, ns);
    fputs(text, stdout);
}

static void print_range(const struct config_option *option, void (*print)(int64_t value))
{
    fputs(", ", stdout);
    print(option->min);
    fputs(" to ", stdout);
    print(option->max);
}

static void print_integer(int64_t value)
{
    printf("%lld", (long long)value);
}

static void print_value(const struct config_option *option)
{
    if (*option->value) {
        putchar('`');
        for (const char *c = option->value; *c; c++)
            fputs(*c == '|' ? "`, `" : (char[]){ *c, '\0' }, stdout);
        putchar('`');
    }
    switch (option->kind) {
    case CONFIG_INTEGER:
        print_range(option, print_integer);
        break;
    case CONFIG_SIZE:
        print_range(option, print_bytes);
        break;
    case CONFIG_TIME:
        print_range(option, print_time);
        break;
    case CONFIG_SWITCH:
        fputs("switch", stdout);
        break;
    default:
        break;
    }
}

static void print_variable(const struct config_option *option)
{
    if (option->kind == CONFIG_PRINTS)
        return;
    fputs("`ATTND_", stdout);
    for (const char *c = option->name; *c; c++)
        putchar(*c == '-' ? '_' : toupper((unsigned char)*c));
    putchar('`');
}

static void print_flags(void)
{
    for (int i = 0; i < CONFIG_OPTION_COUNT; i++) {
        const struct config_option *option = &CONFIG_OPTIONS[i];
        if (option->kind == CONFIG_GROUP)
            printf("\n### %s\n\n| flag | variable | value | default | |\n|---|---|---|---|---|\n",
                   option->help);
        if (!config_option_is_shown(option))
            continue;
        printf("| `--%s` | ", option->name);
        print_variable(option);
        fputs(" | ", stdout);
        print_value(option);
        fputs(" | ", stdout);
        if (option->initial)
            printf("`%s`", option->initial);
        else if (option->kind == CONFIG_SWITCH)
            fputs("off", stdout);
        fputs(" | ", stdout);
        reference_print_cell(option->help);
        puts(" |");
    }
}

/* What a command says to --help, as it says it. */
static void print_command(const char *title, int (*command)(int argc, char **argv), char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    printf("\n## %s\n\n```text\n", title);
    if (command(argc, argv) != 0)
        reference_give_up("%s has no --help", title);
    puts("```");
}

void reference_flags(void)
{
    puts("# Reference: flags, variables and commands\n");
    reference_paragraph_begin();
    fputs("Made from the table that `attnd --help` prints. In the sources, "
          "`server/API_OPERATING.md` says more of flags, of signals and of systemd, and "
          "`deploy/OPERATIONS.md` what to set in production.",
          reference_out());
    reference_paragraph_end();
    puts("- A flag is `--body-max 1GiB` or `--body-max=1GiB`; a flag wins over its variable.\n"
         "- `SIZE` takes `KiB`, `MiB`, `GiB` or nothing, which is bytes; `TIME` takes `ms`, `s`, "
         "`m` or `h`.\n"
         "- A switch is given without a value; its variable is 1 or 0.\n"
         "- What may be repeated (\"several\") is a list with commas in its variable.\n\n"
         "## attnd");
    print_flags();
    print_command("attnd health", health_command, (char *[]){ "attnd", "health", "--help", NULL });
    print_command("attnd model", model_command, (char *[]){ "attnd", "model", "--help", NULL });
    print_command("attnd model new", model_command,
                  (char *[]){ "attnd", "model", "new", "--help", NULL });
    print_command("attnd key", key_command, (char *[]){ "attnd", "key", "--help", NULL });
}
