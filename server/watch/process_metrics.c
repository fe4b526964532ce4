/* process_metrics.c - see process_metrics.h.
 *
 * Names and meaning are those of the standard clients
 * (https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics);
 * the source is proc(5). Nothing is kept between two calls. */
#include "watch/process_metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The columns of /proc/self/stat that are used, by their numbers in proc(5). */
enum { STAT_UTIME = 14, STAT_STIME = 15, STAT_THREADS = 20, STAT_START = 22, STAT_VSIZE = 23 };
enum { STAT_RSS = 24, STAT_COLUMNS = 25, STAT_FIRST_AFTER_NAME = 3 };

static void write_one(struct text *text, const char *name, const char *type, const char *help,
                      double value)
{
    text_format(text, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name, type, name,
                value);
}

static ssize_t read_file(const char *path, char *bytes, size_t size)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    const ssize_t length = read(file, bytes, size - 1);
    close(file);
    bytes[length > 0 ? length : 0] = '\0';
    return length;
}

/* False where /proc does not have them. The program's name, column 2, may hold spaces and
 * parentheses, so columns are counted from the last parenthesis. */
static bool read_stat(double columns[STAT_COLUMNS])
{
    char bytes[1024];
    if (read_file("/proc/self/stat", bytes, sizeof bytes) <= 0)
        return false;
    char *rest = strrchr(bytes, ')');
    if (!rest)
        return false;
    rest += 2;
    int column = STAT_FIRST_AFTER_NAME;
    for (char *word = strsep(&rest, " "); word && column < STAT_COLUMNS; word = strsep(&rest, " "))
        columns[column++] = strtod(word, NULL);
    return column == STAT_COLUMNS;
}

/* When the system started, in seconds since 1970; 0 where /proc/stat does not say. It is read line
 * by line, because it has a line for each CPU and a long one of all interrupts. */
static double read_boot_time(void)
{
    FILE *file = fopen("/proc/stat", "re");
    char line[256];
    double boot_time = 0;
    while (file && boot_time == 0 && fgets(line, sizeof line, file))
        if (strncmp(line, "btime ", 6) == 0)
            boot_time = strtod(line + 6, NULL);
    if (file)
        fclose(file);
    return boot_time;
}

/* How many descriptors are open, without the one that counting them takes; -1 where the system does
 * not tell. */
static long count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return -1;
    long count = -1;
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void write_stat(struct text *text)
{
    double columns[STAT_COLUMNS];
    if (!read_stat(columns))
        return;
    const double ticks = (double)sysconf(_SC_CLK_TCK);
    const double boot_time = read_boot_time();
    write_one(text, "process_cpu_seconds_total", "counter", "User and system CPU time.",
              (columns[STAT_UTIME] + columns[STAT_STIME]) / ticks);
    write_one(text, "process_resident_memory_bytes", "gauge", "Resident memory.",
              columns[STAT_RSS] * (double)sysconf(_SC_PAGESIZE));
    write_one(text, "process_virtual_memory_bytes", "gauge", "Virtual memory.",
              columns[STAT_VSIZE]);
    write_one(text, "process_threads", "gauge", "Threads of the process.", columns[STAT_THREADS]);
    if (boot_time > 0)
        write_one(text, "process_start_time_seconds", "gauge",
                  "Start of the process, in seconds since 1970.",
                  boot_time + columns[STAT_START] / ticks);
}

void process_metrics_write(struct text *text)
{
    struct rlimit limit;
    const long descriptors = count_descriptors();
    write_stat(text);
    if (descriptors >= 0)
        write_one(text, "process_open_fds", "gauge", "Open file descriptors.", (double)descriptors);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        write_one(text, "process_max_fds", "gauge", "The most file descriptors there may be.",
                  (double)limit.rlim_cur);
}
