/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c - starting, watching and ending the daemon under test.
 *
 * What the daemon writes goes to a memory file and not to a pipe: the daemon goes on even if
 * nothing reads the file, and the whole text is there when a test fails. The port is read from
 * the "listening" log line, as a user would. */
#include "daemon.h"
#include "test.h"

#include "http_client.h"
#include "twin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIST_MAX = 64, LOG_SHOWN_BYTES = 3000 };

double daemon_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int daemon_free_port(void)
{
    enum { PORT_MIN = 10000, PORT_COUNT = 22000, TRIES = 1000 };
    for (int tries = 0; tries < TRIES; tries++) {
        unsigned number = 0;
        assert_int_equal(getrandom(&number, sizeof number, 0), sizeof number);
        const int port = PORT_MIN + (int)(number % PORT_COUNT);
        const struct sockaddr_in address = { .sin_family = AF_INET,
                                             .sin_port = htons((uint16_t)port),
                                             .sin_addr = { htonl(INADDR_LOOPBACK) } };
        const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const bool is_free =
            bind(descriptor, (const struct sockaddr *)&address, sizeof address) == 0;
        close(descriptor);
        if (is_free)
            return port;
    }
    fail_msg("no port is free");
    return 0;
}

void daemon_pause(double seconds)
{
    struct timespec time = { .tv_sec = (time_t)seconds };
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

double daemon_slowness(void)
{
    const char *text = getenv("ATTND_TEST_SLOW");
    double factor = text ? strtod(text, NULL) : 1;
    return factor > 1 ? factor : 1;
}

const char *daemon_program(void)
{
    const char *path = getenv("ATTND");
    return path && *path ? path : "build/attnd";
}

static char *file_text(int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        status.st_size = 0;
    char *text = calloc(1, (size_t)status.st_size + 1);
    assert_non_null(text);
    ssize_t size = pread(descriptor, text, (size_t)status.st_size, 0);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

/* The environment of this process without ATTND_ variables, then the given variables. With
 * ATTND_TEST_SANDBOX all daemons are in the sandbox. "Host: x" is what raw requests of tests say.
 */
static char **environment_for(const char *const *more)
{
    size_t count = 0, more_count = 0, kept = 0;
    while (environ[count])
        count++;
    while (more && more[more_count])
        more_count++;
    char **list = calloc(count + more_count + 3, sizeof(*list));
    assert_non_null(list);
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "ATTND", 5) != 0)
            list[kept++] = environ[i];
    list[kept++] = (char *)(uintptr_t) "ATTND_HOST=x";
    if (getenv("ATTND_TEST_SANDBOX"))
        list[kept++] = (char *)(uintptr_t) "ATTND_SANDBOX=1";
    for (size_t i = 0; i < more_count; i++)
        list[kept++] = (char *)(uintptr_t)more[i];
    return list;
}

static pid_t spawn(char *const *arguments, const char *const *environment, int output, int errors)
{
    char **variables = environment_for(environment);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_DFL);
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, 0);
        dup2(output, 1);
        dup2(errors, 2);
        close_range(3, ~0u, 0);
        execve(daemon_program(), arguments, variables);
        fprintf(stderr, "cannot start %s: %s\n", daemon_program(), strerror(errno));
        _exit(127);
    }
    free(variables);
    return pid;
}

/* The file is opened for appending. In a plain memfd, one of two writes at the same time may
 * overwrite the other. */
static int memory_file(void)
{
    int descriptor = memfd_create("attnd-output", MFD_CLOEXEC);
    assert_true(descriptor >= 0);
    assert_int_equal(fcntl(descriptor, F_SETFL, O_APPEND), 0);
    return descriptor;
}

static void show_log(const struct daemon *server)
{
    char *text = daemon_log(server);
    size_t size = strlen(text);
    const char *tail = size > LOG_SHOWN_BYTES ? text + size - LOG_SHOWN_BYTES : text;
    fprintf(stderr, "---- the daemon wrote%s:\n%s----\n", tail == text ? "" : " (its end)", tail);
    free(text);
}

/* Reads the ports of the "listening" lines. Returns how many there are. */
static int read_ports(struct daemon *server)
{
    char *text = daemon_log(server);
    int count = 0;
    for (char *line = text, *end; count < DAEMON_PORTS_MAX && (end = strchr(line, '\n'));
         line = end + 1) {
        *end = '\0';
        char *address = strstr(line, "listening") ? strstr(line, "address") : NULL;
        char *port = address ? strrchr(address, ':') : NULL;
        if (port)
            server->ports[count++] = atoi(port + 1);
    }
    free(text);
    return count;
}

static bool is_ready(const struct daemon *server)
{
    struct http_client client;
    http_client_init(&client, server->port);
    struct http_response response = http_client_get(&client, "/readyz");
    bool ready = response.status == 200;
    http_response_free(&response);
    http_client_free(&client);
    return ready;
}

void daemon_start(struct daemon *server, const struct daemon_options *options)
{
    static const struct daemon_options nothing = { 0 };
    if (!options)
        options = &nothing;
    char *arguments[LIST_MAX] = { (char *)(uintptr_t)daemon_program() };
    int count = 1, listen_count = options->listen_count;
    if (listen_count == 0) {
        arguments[count++] = (char *)(uintptr_t) "--listen";
        arguments[count++] = (char *)(uintptr_t) "127.0.0.1:0";
        listen_count = 1;
    }
    for (int i = 0; options->arguments && options->arguments[i]; i++) {
        assert_true(count < LIST_MAX - 1);
        arguments[count++] = (char *)(uintptr_t)options->arguments[i];
    }
    *server = (struct daemon){ .log = memory_file(), .port = options->port };
    const int output = options->output ? options->output : server->log;
    server->pid = spawn(arguments, options->environment, output, output);

    double until = daemon_now() + 20 * daemon_slowness();
    for (bool up = false; !up; daemon_pause(0.003)) {
        if (!server->port && read_ports(server) >= listen_count)
            server->port = server->ports[0];
        up = server->port && (options->may_not_be_ready || is_ready(server));
        if (!up && (daemon_now() > until || daemon_wait(server, 0) != -1)) {
            show_log(server);
            daemon_kill(server);
            fail_msg("%s does not get ready", daemon_program());
        }
    }
    twin_start(server->port, arguments, options->environment);
}

void daemon_start_with(struct daemon *server, const char *argument, ...)
{
    const char *arguments[LIST_MAX] = { argument };
    int count = 1;
    va_list list;
    va_start(list, argument);
    while (count < LIST_MAX - 1 && (arguments[count] = va_arg(list, const char *)))
        count++;
    va_end(list);
    daemon_start(server, &(struct daemon_options){ .arguments = arguments });
}

static int exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void daemon_keep_little(void)
{
    char options[512];
    const char *given = getenv("ASAN_OPTIONS");
    snprintf(options, sizeof(options), "%s:quarantine_size_mb=1:thread_local_quarantine_size_kb=64",
             given ? given : "");
    setenv("ASAN_OPTIONS", options, 1);
}

int daemon_wait(struct daemon *server, double seconds)
{
    int status;
    for (double until = daemon_now() + seconds;; daemon_pause(0.003)) {
        if (server->pid <= 0)
            return 0;
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            server->pid = 0;
            return exit_code(status);
        }
        if (daemon_now() >= until)
            return -1;
    }
}

void daemon_stop(struct daemon *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGTERM);
    int code = daemon_wait(server, 30 * daemon_slowness());
    if (code != 0)
        show_log(server);
    daemon_kill(server);
    if (code == -1)
        fail_msg("the daemon did not end on SIGTERM");
    assert_int_equal(code, 0);
}

void daemon_freeze(struct daemon *server)
{
    int status = 0;
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(server->pid, &status, WUNTRACED), server->pid);
    assert_true(WIFSTOPPED(status));
}

void daemon_kill(struct daemon *server)
{
    twin_stop(server->port);
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    if (server->log > 0)
        close(server->log);
    server->pid = 0;
    server->log = 0;
}

char *daemon_log(const struct daemon *server)
{
    return file_text(server->log);
}

char *daemon_log_with(const struct daemon *server, const char *text)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    char *log = daemon_log(server);
    while (!strstr(log, text)) {
        if (daemon_now() > until)
            fail_msg("no %s in the log:\n%s", text, log);
        free(log);
        daemon_pause(0.005);
        log = daemon_log(server);
    }
    return log;
}

/* Bytes of a line of /proc/PID/status. */
static size_t status_bytes(const struct daemon *server, const char *name)
{
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)server->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t kibibytes = 0;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0)
            kibibytes = strtoul(line + strlen(name), NULL, 10);
    fclose(file);
    assert_true(kibibytes > 0);
    return kibibytes * 1024;
}

size_t daemon_memory_bytes(const struct daemon *server)
{
    return status_bytes(server, "VmRSS:");
}

size_t daemon_memory_peak_bytes(const struct daemon *server)
{
    return status_bytes(server, "VmHWM:");
}

int daemon_descriptor_count(const struct daemon *server)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)server->pid);
    return daemon_directory_count(path);
}

double daemon_cpu_seconds(const struct daemon *server)
{
    char path[64], line[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)server->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    /* Fields 14 and 15 of proc(5). The second field is a name in parentheses and may contain
     * blanks. */
    unsigned long user = 0, system = 0;
    const char *field = strrchr(line, ')');
    for (int i = 2; field && i < 14; i++)
        field = strchr(field + 1, ' ');
    assert_non_null(field);
    assert_int_equal(sscanf(field, "%lu %lu", &user, &system), 2);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* ------------------------------------------------------- its other commands -- */

struct daemon_result daemon_command(const char *const *arguments, const char *const *environment)
{
    char *list[LIST_MAX] = { (char *)(uintptr_t)daemon_program() };
    for (int i = 0; arguments[i]; i++) {
        assert_true(i < LIST_MAX - 2);
        list[i + 1] = (char *)(uintptr_t)arguments[i];
    }
    int output = memory_file(), errors = memory_file();
    struct daemon child = { .pid = spawn(list, environment, output, errors) };
    struct daemon_result result = { .exit_code = daemon_wait(&child, 20 * daemon_slowness()) };
    daemon_kill(&child);
    result.output = file_text(output);
    result.errors = file_text(errors);
    close(output);
    close(errors);
    return result;
}

void daemon_result_free(struct daemon_result *result)
{
    free(result->output);
    free(result->errors);
    *result = (struct daemon_result){ 0 };
}

/* ------------------------------------------------------------- directories -- */

char *daemon_directory_create(void)
{
    const char *parent = getenv("TMPDIR");
    char *path = NULL;
    assert_true(asprintf(&path, "%s/attnd-test-XXXXXX", parent && *parent ? parent : "/tmp") > 0);
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

void daemon_directory_remove(char *directory)
{
    if (directory)
        nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(directory);
}

void daemon_directory_write(const char *directory, const char *name, const void *bytes, size_t size)
{
    char path[1024];
    int used = snprintf(path, sizeof(path), "%s/", directory);
    for (const char *c = name; *c; c++) {
        if (*c == '/')
            assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
        assert_true(used < (int)sizeof(path) - 1);
        path[used++] = *c;
        path[used] = '\0';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

int daemon_directory_count(const char *directory)
{
    DIR *stream = opendir(directory);
    assert_non_null(stream);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(stream));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(stream);
    return count;
}
