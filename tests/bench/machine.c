/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - see machine.h. */
#include "machine.h"

#include <gnu/libc-version.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* ------------------------------------------------------------------------------- CPU -- */

/* Those that kernels of this project or of a peer are chosen by. Linux calls them so on x86 and on
 * 64-bit ARM. */
static const char *const FLAGS[] = { "avx2",        "fma",      "f16c",     "avx_vnni",
                                     "avx512f",     "avx512bw", "avx512vl", "avx512_vnni",
                                     "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16",
                                     "asimd",       "asimdhp",  "asimddp",  "bf16",
                                     "i8mm",        "sve",      "sme" };

/* The value behind the name of a line "name : value"; NULL: it is another line. */
static char *value_of(char *line, const char *name)
{
    char *colon = strchr(line, ':');
    if (strncmp(line, name, strlen(name)) != 0 || !colon
        || strspn(line + strlen(name), " \t") != (size_t)(colon - line) - strlen(name))
        return NULL;
    line[strcspn(line, "\n")] = '\0';
    return colon + 1 + strspn(colon + 1, " ");
}

static bool has_word(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static void choose_flags(char *flags, const char *all)
{
    size_t used = 0;
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++)
        if (has_word(all, FLAGS[i]) && used < MACHINE_TEXT_MAX)
            used += (size_t)snprintf(flags + used, MACHINE_TEXT_MAX - used, "%s%s",
                                     used > 0 ? " " : "", FLAGS[i]);
}

void machine_read_cpu(FILE *cpuinfo, struct machine_cpu *cpu)
{
    char *line = NULL;
    size_t size = 0;
    *cpu = (struct machine_cpu){ .model = "unknown" };
    while (getline(&line, &size, cpuinfo) > 0 && (cpu->flags[0] == '\0')) {
        const char *model = value_of(line, "model name");
        if (model)
            snprintf(cpu->model, sizeof cpu->model, "%s", model);
        const char *flags = value_of(line, "flags");
        if (!flags)
            flags = value_of(line, "Features");
        if (flags)
            choose_flags(cpu->flags, flags);
    }
    free(line);
}

/* ------------------------------------------------------------------------------ head -- */

/* The first line of a file, or of what a command says; fallback: there is none. */
static void first_line(FILE *file, char *text, const char *fallback)
{
    snprintf(text, MACHINE_TEXT_MAX, "%s", fallback);
    if (file && fgets(text, MACHINE_TEXT_MAX, file))
        text[strcspn(text, "\n")] = '\0';
}

static void read_line(const char *path, char *text, const char *fallback)
{
    FILE *file = fopen(path, "re");
    first_line(file, text, fallback);
    if (file)
        fclose(file);
}

void machine_ask(const char *command, char text[MACHINE_TEXT_MAX], const char *fallback)
{
    FILE *pipe = popen(command, "re");
    first_line(pipe, text, fallback);
    if (pipe)
        pclose(pipe);
}

/* "L1 48K, L2 1024K, L3 32768K, " of data. */
static void print_caches(void)
{
    char level[MACHINE_TEXT_MAX], type[MACHINE_TEXT_MAX], bytes[MACHINE_TEXT_MAX], path[96];
    for (int i = 0; i < 8; i++) {
        static const char PLACE[] = "/sys/devices/system/cpu/cpu0/cache/index%d/%s";
        snprintf(path, sizeof path, PLACE, i, "level");
        read_line(path, level, "");
        snprintf(path, sizeof path, PLACE, i, "type");
        read_line(path, type, "Instruction");
        snprintf(path, sizeof path, PLACE, i, "size");
        read_line(path, bytes, "not known");
        if (strcmp(type, "Instruction") != 0)
            printf("L%s %s, ", level, bytes);
    }
}

static void print_cpu(void)
{
    struct machine_cpu cpu = { .model = "unknown" };
    char governor[MACHINE_TEXT_MAX], smt[MACHINE_TEXT_MAX];
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file) {
        machine_read_cpu(file, &cpu);
        fclose(file);
    }
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, "not known");
    read_line("/sys/devices/system/cpu/smt/active", smt, "0");
    printf("CPU: %s, %ld CPUs%s; %s\n", cpu.model, sysconf(_SC_NPROCESSORS_ONLN),
           strcmp(smt, "1") == 0 ? ", two or more of a core" : "", cpu.flags);
    print_caches();
    printf("memory %.1f GiB; governor: %s\n",
           (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 0x1p30, governor);
}

void machine_print(void)
{
    const char *head = getenv("BENCH_HEAD");
    char load[MACHINE_TEXT_MAX], commit[MACHINE_TEXT_MAX], changed[MACHINE_TEXT_MAX];
    struct utsname system;
    if (head && strcmp(head, "no") == 0)
        return;
    print_cpu();
    read_line("/proc/loadavg", load, "not known");
    uname(&system);
    printf("load before: %s; %s %s, glibc %s\n", load, system.sysname, system.release,
           gnu_get_libc_version());
    machine_ask("git log -1 --format='%h %cs' 2>/dev/null", commit, "not known");
    machine_ask("git status --porcelain -uno 2>/dev/null | wc -l", changed, "0");
    printf("commit: %s", commit);
    if (strcmp(changed, "0") != 0)
        printf(", %s files changed", changed);
    printf("; compiler: %s\n", COMPILER);
    fflush(stdout);
}

/* ------------------------------------------------------------------------------ CPUs -- */

double machine_busy_s(void)
{
    double ticks[8] = { 0 }, busy = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (!file)
        return 0;
    if (fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[0], &ticks[1], &ticks[2],
               &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7])
        == 8)
        busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
    fclose(file);
    return busy / (double)sysconf(_SC_CLK_TCK);
}

/* Whether it is the first CPU of its core. */
static bool is_first_of_core(int cpu)
{
    char path[96], first[MACHINE_TEXT_MAX];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    read_line(path, first, "");
    return first[0] == '\0' || atoi(first) == cpu;
}

void machine_confine(int cpu_count)
{
    static cpu_set_t all;
    static bool is_known;
    cpu_set_t some;
    if (!is_known)
        is_known = sched_getaffinity(0, sizeof all, &all) == 0;
    CPU_ZERO(&some);
    for (int round = 0; round < 2; round++)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &all) && is_first_of_core(cpu) == (round == 0)
                && CPU_COUNT(&some) < cpu_count)
                CPU_SET(cpu, &some);
    sched_setaffinity(0, sizeof some, &some);
}
