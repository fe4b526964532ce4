/* SPDX-License-Identifier: Apache-2.0 */
/* test_blas_core.c - no CPU is served by kernels older than what it can run.
 *
 * The program starts itself as a child, with other arguments, to see the new start from outside.
 * In the child, this file's openblas_get_corename() replaces the library's. TEST_BLAS_CORE names
 * the core that OpenBLAS has seemingly chosen by itself, so any machine can play one that
 * OpenBLAS does not know. If TEST_BLAS_CORE is not set, the real function answers. The test
 * reads the features of the CPU from /proc/cpuinfo, not from the source that process_start.c uses.
 */
#include "host/process_start.h"
#include "test.h"

#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

static const char CHILD[] = "a child, with spaces";

char *openblas_get_corename(void)
{
    char *pretended = getenv("TEST_BLAS_CORE");
    char *told = getenv("OPENBLAS_CORETYPE");
    if (pretended)
        return told ? told : pretended;
    char *(*real)(void);
    void *symbol = dlsym(RTLD_NEXT, "openblas_get_corename");
    memcpy(&real, &symbol, sizeof real);
    return real();
}

/* Tells the parent what runs and how it was started. */
static int run_child(int argc, char **argv)
{
    static char name[64];
    const char *starts = getenv("TEST_STARTS");
    snprintf(name, sizeof name, "%d", starts ? atoi(starts) + 1 : 1);
    setenv("TEST_STARTS", name, 1);
    const int threads = openblas_get_num_threads();
    blas_core_select(argv);
    FILE *comm = fopen("/proc/self/comm", "r");
    if (!comm || !fgets(name, sizeof name, comm))
        return 1;
    fclose(comm);
    name[strcspn(name, "\n")] = '\0';
    printf("core=%s starts=%s threads=%d,%d arguments=%d,%s name=%s\n", blas_core_name(),
           getenv("TEST_STARTS"), threads, openblas_get_num_threads(), argc, argv[argc - 1], name);
    return 0;
}

struct child {
    char core[64];
    int starts;
    int threads_at_start, threads;
    char line[256];
};

static void set_or_unset(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* What a child says. Each variable may be NULL: it is not set. */
static struct child child_run(const char *pretended, const char *core_type, const char *threads)
{
    struct child child = { .starts = 0 };
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        set_or_unset("TEST_BLAS_CORE", pretended);
        set_or_unset("OPENBLAS_CORETYPE", core_type);
        set_or_unset("OPENBLAS_NUM_THREADS", threads);
        unsetenv("TEST_STARTS");
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_blas_core", CHILD, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *output = fdopen(ends[0], "r");
    assert_non_null(output);
    const bool said = fgets(child.line, sizeof child.line, output) != NULL;
    fclose(output);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(said);
    assert_int_equal(sscanf(child.line, "core=%63s starts=%d threads=%d,%d", child.core,
                            &child.starts, &child.threads_at_start, &child.threads),
                     4);
    return child;
}

/* Whether /proc/cpuinfo has all the words among its flags. */
static bool cpu_has(const char *words)
{
    static char line[16384];
    char list[128];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, "flags", 5) == 0;
    if (file)
        fclose(file);
    if (!found)
        return false;
    line[strcspn(line, "\n")] = ' ';
    strcpy(list, words);
    char *rest = list;
    for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " ")) {
        char wanted[40];
        snprintf(wanted, sizeof wanted, " %s ", word);
        if (!strstr(line, wanted))
            return false;
    }
    return true;
}

/* 3: AVX-512; 2: AVX2 and FMA; 1: AVX; 0: none of them, or not x86. */
static int cpu_generation(void)
{
    return cpu_has("avx512f avx512dq avx512bw avx512vl avx512cd") ? 3
           : cpu_has("avx2 fma")                                  ? 2
           : cpu_has("avx")                                       ? 1
                                                                  : 0;
}

static const char *const WANTED[] = { NULL, "Sandybridge", "Haswell", "SkylakeX" };

static const struct {
    const char *name;
    int generation;
} CORES[] = {
    { "Prescott", 0 },       { "Core2", 0 },       { "Nehalem", 0 },   { "Barcelona", 0 },
    { "Unknown", 0 },        { "Sandybridge", 1 }, { "Bulldozer", 1 }, { "Steamroller", 1 },
    { "Haswell", 2 },        { "Zen", 2 },         { "SkylakeX", 3 },  { "Cooperlake", 3 },
    { "Sapphirerapids", 3 },
};

TEST(the_core_of_this_cpu)
{
    const char *expected = WANTED[cpu_generation()];
    if (expected)
        assert_string_equal(blas_core_wanted(), expected);
    else
        assert_null(blas_core_wanted());
}

/* Whatever OpenBLAS chose by itself, the core that runs in the end is not older than the CPU. */
TEST(an_older_core_is_replaced)
{
    const int generation = cpu_generation();
    for (size_t i = 0; i < sizeof CORES / sizeof CORES[0]; i++) {
        const bool older = CORES[i].generation < generation;
        const struct child child = child_run(CORES[i].name, NULL, "1");
        assert_string_equal(child.core, older ? WANTED[generation] : CORES[i].name);
        assert_int_equal(child.starts, older ? 2 : 1);
        assert_int_equal(child.threads, 1);
    }
}

TEST(the_users_choice_stands)
{
    const struct child child = child_run("Prescott", "Nehalem", "1");
    assert_string_equal(child.core, "Nehalem");
    assert_int_equal(child.starts, 1);
}

/* The same without pretending: the OpenBLAS of this machine on this machine. */
TEST(the_real_library)
{
    const int generation = cpu_generation();
    const struct child child = child_run(NULL, NULL, NULL);
    int running = 0;
    for (size_t i = 0; i < sizeof CORES / sizeof CORES[0]; i++)
        if (strcasecmp(CORES[i].name, child.core) == 0)
            running = CORES[i].generation;
    if (running < generation)
        fail_msg("this CPU is of generation %d, OpenBLAS runs %s", generation, child.core);
    assert_true(child.starts <= 2);
}

TEST(one_thread)
{
    static const char *const THREADS[] = { NULL, "1", "2", "16", "nonsense" };
    for (size_t i = 0; i < sizeof THREADS / sizeof THREADS[0]; i++) {
        const struct child child = child_run(NULL, NULL, THREADS[i]);
        assert_int_equal(child.threads_at_start, 1);
        assert_int_equal(child.threads, 1);
        assert_true(child.starts <= 2);
    }
}

/* The second start has the same arguments, and the name that ps shows. */
TEST(the_second_start_is_the_same_program)
{
    char path[PATH_MAX], comm[16], expected[64];
    if (cpu_generation() == 0)
        skip();
    const struct child child = child_run("Prescott", NULL, "1");
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(length > 0);
    path[length] = '\0';
    snprintf(comm, sizeof comm, "%.15s", strrchr(path, '/') + 1);
    snprintf(expected, sizeof expected, " arguments=2,%s name=%s\n", CHILD, comm);
    assert_int_equal(child.starts, 2);
    assert_string_equal(strstr(child.line, " arguments="), expected);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], CHILD) == 0)
        return run_child(argc, argv);
    return test_run(NULL);
}
