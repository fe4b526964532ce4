/* SPDX-License-Identifier: Apache-2.0 */
/* flags.c - each flag is a row. */
#include "mpi/flags.h"

#include "mpi/input.h"
#include "mpi/team.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct flag {
    const char *name, *value, *help; /* value NULL: it takes none */
    bool (*read)(struct job *job, const struct flag *flag, const char *text, struct fault *fault);
    int which; /* of inputs and outputs */
};

static bool read_input(struct job *job, const struct flag *flag, const char *text,
                       struct fault *fault)
{
    (void)fault;
    job->inputs[flag->which] = text;
    return true;
}

static bool read_output(struct job *job, const struct flag *flag, const char *text,
                        struct fault *fault)
{
    const size_t length = strlen(text);
    const bool is_known = (length > 4 && strcmp(text + length - 4, ".npy") == 0)
                          || (length > 12 && strcmp(text + length - 12, ".safetensors") == 0);

    if (!is_known || length > 4000)
        return fault_set(fault, FAULT_OPTION,
                         "%s is \"%.200s\", expected a name of at most 4000 bytes that ends in "
                         ".npy or .safetensors",
                         flag->name, text);
    job->outputs[flag->which] = text;
    return true;
}

/* An integer from least to most at *text, which then is behind it. */
static bool read_integer(const char **text, int64_t least, int64_t most, int64_t *value)
{
    char *end;

    errno = 0;
    const long long read = strtoll(*text, &end, 10);
    const char first = **text == '-' ? (*text)[1] : **text;
    if (first < '0' || first > '9' || errno != 0 || read < least || read > most)
        return false;
    *text = end;
    *value = read;
    return true;
}

static bool read_whole(const struct flag *flag, const char *text, int64_t least, int64_t most,
                       int64_t *value, struct fault *fault)
{
    const char *at = text;

    if (read_integer(&at, least, most, value) && *at == '\0')
        return true;
    return fault_set(fault, FAULT_OPTION, "%s is \"%.200s\", expected an integer from %lld to %lld",
                     flag->name, text, (long long)least, (long long)most);
}

static bool read_number(const struct flag *flag, const char *text, double *value,
                        struct fault *fault)
{
    char *end;

    *value = strtod(text, &end);
    if (end != text && *end == '\0')
        return true;
    return fault_set(fault, FAULT_OPTION, "%s is \"%.200s\", expected a number", flag->name, text);
}

static bool read_causal(struct job *job, const struct flag *flag, const char *text,
                        struct fault *fault)
{
    (void)flag, (void)text, (void)fault;
    job->options.causal = true;
    return true;
}

static bool read_help(struct job *job, const struct flag *flag, const char *text,
                      struct fault *fault)
{
    (void)flag, (void)text, (void)fault;
    job->wants_help = true;
    return true;
}

static bool read_past_len(struct job *job, const struct flag *flag, const char *text,
                          struct fault *fault)
{
    job->has_past_len = true;
    return read_whole(flag, text, -INT32_MAX, INT64_MAX / 4, &job->past_len, fault);
}

static bool read_window(struct job *job, const struct flag *flag, const char *text,
                        struct fault *fault)
{
    return read_whole(flag, text, 0, INT32_MAX, &job->options.window_left, fault);
}

static bool read_scale(struct job *job, const struct flag *flag, const char *text,
                       struct fault *fault)
{
    job->has_scale = true;
    return read_number(flag, text, &job->options.scale, fault);
}

static bool read_softcap(struct job *job, const struct flag *flag, const char *text,
                         struct fault *fault)
{
    return read_number(flag, text, &job->options.softcap, fault);
}

static bool read_exchange(struct job *job, const struct flag *flag, const char *text,
                          struct fault *fault)
{
    job->exchange = strcmp(text, "tree") == 0   ? EXCHANGE_TREE
                    : strcmp(text, "ring") == 0 ? EXCHANGE_RING
                                                : EXCHANGE_AUTO;
    return job->exchange != EXCHANGE_AUTO
           || fault_set(fault, FAULT_OPTION, "%s is \"%.200s\", expected tree or ring", flag->name,
                        text);
}

static bool read_ranks(struct job *job, const struct flag *flag, const char *text,
                       struct fault *fault)
{
    int64_t ranks = 0;

    return read_whole(flag, text, 1, INT32_MAX, &ranks, fault)
           && (ranks == job->ranks
               || fault_set(
                   fault, FAULT_OPTION,
                   "--ranks is %lld, and MPI has %d: the launcher and Open MPI do not know "
                   "each other; start the job by mpirun",
                   (long long)ranks, job->ranks));
}

static bool read_threads(struct job *job, const struct flag *flag, const char *text,
                         struct fault *fault)
{
    return read_whole(flag, text, 1, TEAM_THREADS_MAX, &job->threads, fault);
}

static bool read_repeat(struct job *job, const struct flag *flag, const char *text,
                        struct fault *fault)
{
    return read_whole(flag, text, 1, JOB_REPEAT_MAX, &job->repeat, fault);
}

/* 0,7,100-103 */
static bool read_rows(struct job *job, const struct flag *flag, const char *text,
                      struct fault *fault)
{
    const char *at = text;
    int64_t first, last;
    bool is_well = false;

    job->chosen_count = 0;
    do {
        at += *at == ',' && at > text;
        is_well = false;
        if (!read_integer(&at, 0, INT32_MAX, &first))
            break;
        last = first;
        if (*at == '-' && (at++, !read_integer(&at, first, INT32_MAX, &last)))
            break;
        if (last - first >= JOB_ROWS_MAX - job->chosen_count)
            return fault_set(fault, FAULT_OPTION, "%s names more than %d rows", flag->name,
                             JOB_ROWS_MAX);
        while (first <= last)
            job->chosen[job->chosen_count++] = first++;
        is_well = true;
    } while (*at == ',');
    return (is_well && *at == '\0')
           || fault_set(fault, FAULT_OPTION,
                        "%s is \"%.200s\", expected numbers of rows from 0 on, such as 0,7,100-103",
                        flag->name, text);
}

static const struct flag FLAGS[] = {
    { "--query", "FILE", "[heads, rows, head_dim]; a batch may stand before it in all files",
      read_input, JOB_QUERY },
    { "--key", "FILE", "[kv_heads, keys, head_dim]", read_input, JOB_KEY },
    { "--value", "FILE", "[kv_heads, keys, v_head_dim]", read_input, JOB_VALUE },
    { "--context", "FILE", "write the answer, F32", read_output, JOB_CONTEXT },
    { "--lse", "FILE", "write the log-sum-exp of each row", read_output, JOB_LSE },
    { "--weights", "FILE", "write the weights of the rows that --rows names", read_output,
      JOB_WEIGHTS },
    { "--rows", "LIST", "such as 0,7,100-103; at most 4096", read_rows, 0 },
    { "--causal", NULL, "a row sees the keys at its position and before", read_causal, 0 },
    { "--past-len", "N", "position of the first row; by default the rows are the last of the keys",
      read_past_len, 0 },
    { "--window-left", "N", "a row sees no more than N keys before its position", read_window, 0 },
    { "--scale", "X", "of the scores; 1/sqrt(head_dim) by default", read_scale, 0 },
    { "--softcap", "X", "softcap of the scores; 0: none", read_softcap, 0 },
    { "--exchange", "HOW", "tree or ring; by default what moves fewer bytes", read_exchange, 0 },
    { "--threads", "N", "threads of a rank; 1 by default", read_threads, 0 },
    { "--ranks", "N", "end the job if it has another number of ranks", read_ranks, 0 },
    { "--repeat", "N", "compute N times and print the median times", read_repeat, 0 },
    { "--help", NULL, "print this", read_help, 0 },
};

void flags_print_help(void)
{
    printf(
        "usage: mpirun -n RANKS attn-mpi --query FILE --key FILE --value FILE [FLAG...]\n\n"
        "softmax(scale * query . key^T + mask) . value, the keys cut over the ranks.\n"
        "Files are .npy, .safetensors or .safetensors:TENSOR; %%r in the name of a key or value\n"
        "is the rank, whose keys the file has. lib/mpi/README.md says more.\n\n");
    for (size_t i = 0; i < sizeof FLAGS / sizeof FLAGS[0]; i++) {
        char left[32];
        snprintf(left, sizeof left, "%s %s", FLAGS[i].name, FLAGS[i].value ? FLAGS[i].value : "");
        printf("  %-18s %s\n", left, FLAGS[i].help);
    }
}

static bool read_flag(struct job *job, char **argv, int *at, struct fault *fault)
{
    const char *name = argv[*at];

    for (size_t i = 0; i < sizeof FLAGS / sizeof FLAGS[0]; i++) {
        const struct flag *flag = &FLAGS[i];
        if (strcmp(flag->name, name) != 0)
            continue;
        if (flag->value && !argv[*at + 1])
            return fault_set(fault, FAULT_OPTION, "%s needs %s behind it", name, flag->value);
        return flag->read(job, flag, flag->value ? argv[++*at] : NULL, fault);
    }
    return fault_set(fault, FAULT_OPTION, "\"%.200s\" is no flag: see --help", name);
}

bool flags_read(struct job *job, int argc, char **argv, struct fault *fault)
{
    job->options = attn_options_default(1);
    job->threads = job->repeat = 1;
    for (int at = 1; at < argc; at++)
        if (!read_flag(job, argv, &at, fault))
            return false;
    for (int i = 0; i < JOB_INPUTS && !job->wants_help; i++)
        if (!job->inputs[i])
            return fault_set(fault, FAULT_OPTION, "--%s is missing: see --help",
                             job_input_names[i]);
    if (!job->wants_help && input_is_per_rank(job->inputs[JOB_QUERY]))
        return fault_set(fault, FAULT_OPTION, "--query has %%r: all ranks have the same rows");
    if (!job->wants_help
        && input_is_per_rank(job->inputs[JOB_KEY]) != input_is_per_rank(job->inputs[JOB_VALUE]))
        return fault_set(fault, FAULT_OPTION, "%%r is in --key or --value alone: both need it");
    if (!job->outputs[JOB_WEIGHTS] != (job->chosen_count == 0))
        return fault_set(fault, FAULT_OPTION, "--weights and --rows need each other");
    for (int i = 0; i < JOB_OUTPUTS; i++)
        for (int j = 0; j < i; j++)
            if (job->outputs[i] && job->outputs[j] && strcmp(job->outputs[i], job->outputs[j]) == 0)
                return fault_set(fault, FAULT_OPTION, "--%s and --%s name one file, %.200s",
                                 job_output_names[j], job_output_names[i], job->outputs[i]);
    return true;
}
