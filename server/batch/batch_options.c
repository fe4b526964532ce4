/* SPDX-License-Identifier: Apache-2.0 */
/* batch_options.c - see batch_options.h. */
#include "batch/batch_options.h"

#include "host/config_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                      \
    "usage: attnd batch --out DIR [--format json|safetensors] [--part I/N] [--chunk N] [FLAG]... " \
    "FILE\n"

static const int64_t CHUNK_DEFAULT = 1000, CHUNK_MAX = 1000000, PARTS_MAX = 1000000;
static const int64_t DAY_NS = INT64_C(86400000000000);

static void print_help(void)
{
    printf(
        USAGE
        "\nAnswers the requests of a file, a line each, without HTTP, by the daemon's operations:\n"
        "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/attention\",\"body\":{...}}\n"
        "DIR gets a file of answers for each chunk of lines, with each answer's custom_id and\n"
        "status. Killed at any moment and started again, it goes on, and the files are the "
        "same.\n\n"
        "  --out DIR       the folder of answers; it is made\n"
        "  --format json|safetensors  tensors: in the lines, or in a file beside them [json]\n"
        "  --part I/N      this part of N, from 0: every Nth chunk from chunk I on [0/1]\n"
        "  --chunk N       lines of a chunk [1000]\n"
        "  --models DIR    the models' directory; none: the built-in ones alone\n"
        "  --memory-max SIZE  of all requests in flight; unset: half of what is granted\n");
    config_options_print_group("Models");
    config_options_print_group("Threads and kernels");
    config_options_print_group("Requests and answers");
    printf(
        "\nAll flags of the daemon are taken: attnd --help. Those of connections, keys and times\n"
        "change nothing here.\n"
        "Exit status: 0 all were answered, 3 some answers are faults, 1 it did not come to its\n"
        "end and can be started again, 2 the command line is wrong.\n");
}

bool batch_is_asked(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "batch") == 0;
}

static bool refuse(const char *flag, const char *value, const char *expected)
{
    fprintf(stderr, "attnd batch: %s: '%.80s' came; expected %s\n", flag, value, expected);
    return false;
}

static bool read_number(const char **text, int64_t most, int64_t *number)
{
    char *end;
    errno = 0;
    if (**text < '0' || **text > '9')
        return false;
    *number = strtoll(*text, &end, 10);
    *text = end;
    return errno == 0 && *number <= most;
}

static bool read_part(const char *value, struct batch_options *options)
{
    const char *at = value;
    return (read_number(&at, PARTS_MAX, &options->part) && *at == '/' && (at++, true)
            && read_number(&at, PARTS_MAX, &options->part_count) && !*at
            && options->part < options->part_count)
           || refuse("--part", value, "I/N as in 3/16, where I is from 0 to N - 1");
}

static bool read_chunk(const char *value, struct batch_options *options)
{
    const char *at = value;
    return (read_number(&at, CHUNK_MAX, &options->chunk_lines) && !*at && options->chunk_lines > 0)
           || refuse("--chunk", value, "a number of lines from 1 to 1000000");
}

static bool read_out(const char *value, struct batch_options *options)
{
    options->out = value;
    return true;
}

static bool read_format(const char *value, struct batch_options *options)
{
    options->has_tensors = strcmp(value, "safetensors") == 0;
    return options->has_tensors || strcmp(value, "json") == 0
           || refuse("--format", value, "json or safetensors");
}

static const struct own_flag {
    const char *name;
    bool (*read)(const char *value, struct batch_options *options);
} OWN[] = {
    { "--out", read_out },
    { "--format", read_format },
    { "--part", read_part },
    { "--chunk", read_chunk },
};

/* Takes argv[*at] where it is a flag of the batch's own. 0: it is not; -1: refused. */
static int take_own(struct batch_options *options, char **argv, int *at)
{
    enum { OWN_COUNT = sizeof OWN / sizeof OWN[0] };
    const char *behind = NULL;
    int which = 0;
    for (; which < OWN_COUNT; which++) {
        const size_t length = strlen(OWN[which].name);
        behind = argv[*at] + length;
        if (strncmp(argv[*at], OWN[which].name, length) == 0 && (!*behind || *behind == '='))
            break;
    }
    if (which == OWN_COUNT)
        return 0;
    const char *value = *behind ? behind + 1 : argv[*at + 1];
    if (!*behind)
        *at += value != NULL;
    if (!value || !value[0]) {
        fprintf(stderr, "attnd batch: %s needs a value\n", OWN[which].name);
        return -1;
    }
    return OWN[which].read(value, options) ? 1 : -1;
}

/* Whether the word behind a flag of the daemon's is its value. */
static bool has_value_behind(const char *flag)
{
    const struct config_option *option =
        strncmp(flag, "--", 2) == 0 ? config_option_find(flag + 2, strlen(flag + 2)) : NULL;
    return option && option->kind != CONFIG_SWITCH && option->kind != CONFIG_PRINTS;
}

/* Puts what is not the batch's own into flags, behind flags[0]; the first word that is no flag is
 * the file. Returns how many there are; -1: refused. */
static int sort_out(struct batch_options *options, int argc, char **argv, char **flags)
{
    int count = 1;
    for (int i = 2; i < argc; i++) {
        const bool is_flag = strncmp(argv[i], "--", 2) == 0;
        const int own = is_flag ? take_own(options, argv, &i) : 0;
        if (own < 0)
            return -1;
        if (own > 0)
            continue;
        if (!is_flag && !options->requests && !has_value_behind(flags[count - 1]))
            options->requests = argv[i];
        else
            flags[count++] = argv[i];
    }
    flags[count] = NULL;
    return count;
}

/* A batch has time, and its requests wait for their turn outside the queue. */
static void settle(struct config *config)
{
    config->timeout_ns = DAY_NS;
    config->queue_cost_ns_max = 0;
    config->log_level = config->log_level == LOG_INFO ? LOG_WARNING : config->log_level;
}

enum config_outcome batch_options_read(struct batch_options *options, struct config *config,
                                       int argc, char **argv)
{
    *options = (struct batch_options){ .part_count = 1, .chunk_lines = CHUNK_DEFAULT };
    if (config_help_asked(argv)) {
        print_help();
        return CONFIG_EXIT_OK;
    }
    char **flags = calloc((size_t)argc + 1, sizeof *flags);
    if (!flags)
        return CONFIG_EXIT_ERROR;
    flags[0] = argv[0];
    const int count = sort_out(options, argc, argv, flags);
    if (count > 0 && (!options->requests || !options->out))
        fprintf(stderr, USAGE);
    const bool good = count > 0 && options->requests && options->out;
    const enum config_outcome outcome =
        good ? config_read(config, count, flags) : CONFIG_EXIT_ERROR;
    free(flags);
    settle(config);
    return outcome;
}
