/* SPDX-License-Identifier: Apache-2.0 */
/* balancer.c - see balancer.h. */
#include "balancer.h"
#include "test.h"

#include "daemon.h"
#include "manifest.h"
#include "request_text.h"
#include "skip.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* How the shipped files name what is replaced. */
static const struct shipped {
    const char *file, *package, *program, *listen, *listen_form;
} shipped[] = {
    [BALANCER_NGINX] = { "deploy/nginx/attnd.conf", "nginx-light", "/usr/sbin/nginx", "listen 80;",
                         "listen 127.0.0.1:%d;" },
    [BALANCER_HAPROXY] = { "deploy/haproxy/attnd.cfg", "haproxy", "/usr/sbin/haproxy", "bind :80\n",
                           "bind 127.0.0.1:%d\n" },
};

/* Each is there among all replicas, and once more for its sessions. */
static const char *const REPLICAS[BALANCER_REPLICAS] = { "192.0.2.1:8080", "192.0.2.2:8080" };

enum { PATH_BYTES = 512 };

const char *balancer_file(enum balancer_kind kind)
{
    return shipped[kind].file;
}

void balancer_need(enum balancer_kind kind)
{
    char command[PATH_BYTES];
    snprintf(command, sizeof(command), "test -x %s", shipped[kind].program);
    skip_without(shipped[kind].package, command);
}

/* Replaces old by form. old must stand in the file so many times: otherwise the file has changed
 * since this test was written. */
static void replace(char **text, const char *old, int times, const char *form, int port)
{
    char new[64];
    struct request_text result = { 0 };
    int found = 0;
    const char *rest = *text;
    snprintf(new, sizeof(new), form, port);
    for (const char *at; (at = strstr(rest, old)) != NULL; rest = at + strlen(old), found++)
        request_text_add(&result, "%.*s%s", (int)(at - rest), rest, new);
    request_text_add(&result, "%s", rest);
    if (found != times)
        fail_msg("'%s' is there %d times, not %d", old, found, times);
    free(*text);
    *text = result.data;
}

/* Writes the part that Debian's nginx.conf would have around our file. nginx then leaves no
 * files outside the directory. */
static void write_nginx_main(const char *directory)
{
    struct request_text text = { 0 };
    if (geteuid() == 0)
        request_text_add(&text, "user root;\n");
    request_text_add(&text,
                     "daemon off;\nworker_processes 2;\npid %s/pid;\nerror_log stderr;\n"
                     "events {}\nhttp {\n    access_log off;\n",
                     directory);
    static const char *const kinds[] = { "client_body", "proxy", "fastcgi", "uwsgi", "scgi" };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        request_text_add(&text, "    %s_temp_path %s/%s;\n", kinds[i], directory, kinds[i]);
    request_text_add(&text, "    include %s/attnd;\n}\n", directory);
    daemon_directory_write(directory, "nginx.conf", text.data, text.used);
    free(text.data);
}

void balancer_prepare(struct balancer *balancer, enum balancer_kind kind,
                      const int ports[BALANCER_REPLICAS])
{
    *balancer =
        (struct balancer){ .port = daemon_free_port(), .directory = daemon_directory_create() };
    char *text = manifest_file_text(shipped[kind].file);
    replace(&text, shipped[kind].listen, 1, shipped[kind].listen_form, balancer->port);
    for (int i = 0; i < BALANCER_REPLICAS; i++)
        replace(&text, REPLICAS[i], 2, "127.0.0.1:%d", ports[i]);
    daemon_directory_write(balancer->directory, "attnd", text, strlen(text));
    free(text);
    if (kind == BALANCER_NGINX)
        write_nginx_main(balancer->directory);
}

void balancer_prepare_text(struct balancer *balancer, enum balancer_kind kind, int port,
                           const char *text)
{
    *balancer = (struct balancer){ .port = port, .directory = daemon_directory_create() };
    daemon_directory_write(balancer->directory, "attnd", text, strlen(text));
    if (kind == BALANCER_NGINX)
        write_nginx_main(balancer->directory);
}

static void command_of(char command[PATH_BYTES], const struct balancer *balancer,
                       enum balancer_kind kind, bool checks)
{
    const char *directory = balancer->directory;
    if (kind == BALANCER_NGINX)
        snprintf(command, PATH_BYTES, "exec %s -e stderr -p %s -c nginx.conf%s",
                 shipped[kind].program, directory, checks ? " -t" : "");
    else
        snprintf(command, PATH_BYTES, "exec %s -%s -f %s/attnd", shipped[kind].program,
                 checks ? "c" : "db", directory);
}

int balancer_check(const struct balancer *balancer, enum balancer_kind kind, char **text)
{
    char command[PATH_BYTES], with_errors[PATH_BYTES + 8];
    struct request_text said = { 0 };
    command_of(command, balancer, kind, true);
    snprintf(with_errors, sizeof(with_errors), "%s 2>&1", command);
    FILE *output = popen(with_errors, "r");
    assert_non_null(output);
    request_text_add(&said, "%s", "");
    for (char line[256]; fgets(line, sizeof(line), output);)
        request_text_add(&said, "%s", line);
    const int status = pclose(output);
    *text = said.data;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void balancer_start(struct balancer *balancer, enum balancer_kind kind)
{
    char command[PATH_BYTES], output[PATH_BYTES];
    command_of(command, balancer, kind, false);
    snprintf(output, sizeof(output), "%s/" BALANCER_OUTPUT, balancer->directory);
    balancer->pid = fork();
    assert_true(balancer->pid >= 0);
    if (balancer->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen(output, "a", stdout) && freopen("/dev/null", "w", stderr))
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
}

char *balancer_output(const struct balancer *balancer)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/" BALANCER_OUTPUT, balancer->directory);
    return manifest_file_text(path);
}

/* Sends SIGTERM: nginx's first process then ends the others. */
void balancer_stop(struct balancer *balancer)
{
    if (balancer->pid > 0) {
        kill(balancer->pid, SIGTERM);
        waitpid(balancer->pid, NULL, 0);
    }
    daemon_directory_remove(balancer->directory);
    *balancer = (struct balancer){ 0 };
}
