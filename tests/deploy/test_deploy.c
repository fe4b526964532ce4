/* SPDX-License-Identifier: Apache-2.0 */
/* test_deploy.c - what the Dockerfile and the files in deploy/ say about the daemon is true.
 *
 * The variables and flags in them are among those of --help, and the daemon accepts them with the
 * values given. The probes ask for paths that the running daemon answers. Ports, names, users and
 * versions agree among the files. Every program that ends the daemon waits as long as the daemon
 * may take. */
#include "daemon.h"
#include "http_client.h"
#include "manifest.h"
#include "test.h"

#include <ctype.h>

#define COMPOSE        "deploy/compose.yaml"
#define COMPOSE_KEYS   "deploy/compose.keys.yaml"
#define DEPLOYMENT     "deploy/kubernetes/base/deployment.yaml"
#define SERVICE        "deploy/kubernetes/base/service.yaml"
#define SERVINGRUNTIME "deploy/kserve/servingruntime.yaml"
#define UNIT           "deploy/systemd/attnd.service"

#define POD       "spec.template.spec."
#define CONTAINER POD "containers.0."

enum { TEXT_BYTES = 512, LIST_MAX = 16 };

static const char KEYS[] =
    "somebody "
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 admin\n";

static char *help; /* what the daemon prints for --help */

static int read_help(void **state)
{
    struct daemon_result result = daemon_command((const char *const[]){ "--help", NULL }, NULL);
    assert_int_equal(result.exit_code, 0);
    help = strdup(result.output);
    daemon_result_free(&result);
    return 0;
}

static int free_help(void **state)
{
    free(help);
    return 0;
}

/* ---------------------------------------------------------------------------------- helpers -- */

static const char *format(char text[TEXT_BYTES], const char *form, ...)
    __attribute__((format(printf, 2, 3)));
static const char *format(char text[TEXT_BYTES], const char *form, ...)
{
    va_list list;
    va_start(list, form);
    assert_true(vsnprintf(text, TEXT_BYTES, form, list) < TEXT_BYTES);
    va_end(list);
    return text;
}

/* The text that follows before, up to white space: "EXPOSE " gives "8080". */
static const char *word_after(char word[TEXT_BYTES], const char *text, const char *before)
{
    const char *found = strstr(text, before);
    if (!found)
        fail_msg("there is no '%s'", before);
    found += strlen(before);
    return format(word, "%.*s", (int)strcspn(found, " \t\n\""), found);
}

static void assert_is_flag(const char *name, size_t length, const char *file)
{
    char wanted[TEXT_BYTES];
    format(wanted, "  --%.*s ", (int)length, name);
    if (!strstr(help, wanted))
        fail_msg("%s names --%.*s, which the daemon does not have", file, (int)length, name);
}

/* 5 of "5s". */
static double seconds(const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    assert_true(end > text && (strcmp(end, "s") == 0 || *end == '\0'));
    return value;
}

/* The default of a flag that takes a time; --help gives it in brackets. */
static double default_seconds(const char *flag)
{
    const char *line = strstr(help, flag);
    assert_non_null(line);
    return seconds(strtok(strdupa(strchr(line, '[') + 1), "]"));
}

/* A file of keys in folder, as a Secret is mounted; path is where it is. */
static const char *write_keys(const char *folder, char path[TEXT_BYTES])
{
    daemon_directory_write(folder, "keys", KEYS, sizeof KEYS - 1);
    return format(path, "%s/keys", folder);
}

/* Whether the line of text that at is in is a comment. */
static bool is_in_comment(const char *text, const char *at)
{
    while (at > text && at[-1] != '\n')
        at--;
    return *at == '#';
}

/* Every "ATTND_NAME=value" of the Dockerfile's ENV or the unit's Environment=, with folder in place
 * of the models' directory. The caller frees the list. */
static void variables_of(const char *file, const char *folder, char *list[LIST_MAX])
{
    char *text = manifest_file_text(file), word[TEXT_BYTES];
    int count = 0;
    for (const char *c = text; (c = strstr(c, "ATTND_")); c += strlen(word)) {
        format(word, "%.*s", (int)strcspn(c, " \n"), c);
        assert_true(count < LIST_MAX - 1);
        if (is_in_comment(text, c))
            continue;
        if (strncmp(word, "ATTND_MODELS=", 13) == 0)
            assert_true(asprintf(&list[count++], "ATTND_MODELS=%s", folder) > 0);
        else if (strchr(word, '='))
            list[count++] = strdup(word);
    }
    list[count] = NULL;
    free(text);
}

static void assert_accepted(const char *file, const char *const *arguments, char **environment)
{
    const char *all[LIST_MAX] = { "--check-config" };
    for (int i = 0; arguments && arguments[i]; i++)
        all[i + 1] = arguments[i];
    struct daemon_result result = daemon_command(all, (const char *const *)environment);
    if (result.exit_code != 0)
        fail_msg("%s: --check-config ends with %d: %s%s", file, result.exit_code, result.output,
                 result.errors);
    daemon_result_free(&result);
}

/* Without keys and without --open the daemon does not start where other machines reach it. */
static void assert_needs_keys(const char *file, const char *const *arguments, char **environment)
{
    const char *all[LIST_MAX] = { "--check-config" };
    for (int i = 0; arguments && arguments[i]; i++)
        all[i + 1] = arguments[i];
    struct daemon_result result = daemon_command(all, (const char *const *)environment);
    if (result.exit_code != 1 || !strstr(result.errors, "--keys FILE")
        || !strstr(result.errors, "--open"))
        fail_msg("%s: --check-config ends with %d: %s", file, result.exit_code, result.errors);
    daemon_result_free(&result);
}

/* ------------------------------------------------------------------------------------ tests -- */

TEST(variables_are_flags)
{
    static const char *const files[] = { "Dockerfile", COMPOSE, COMPOSE_KEYS, DEPLOYMENT, UNIT };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *text = manifest_file_text(files[i]), name[TEXT_BYTES];
        int found = 0;
        for (const char *c = text; (c = strstr(c, "ATTND_")); found++) {
            c += strlen("ATTND_");
            size_t length = 0;
            for (; isupper((unsigned char)c[length]) || c[length] == '_'; length++)
                name[length] = c[length] == '_' ? '-' : (char)tolower((unsigned char)c[length]);
            assert_is_flag(name, length, files[i]);
        }
        assert_true(found > 0);
        free(text);
    }
}

TEST(variables_are_accepted)
{
    static const char *const files[] = { "Dockerfile", UNIT };
    char *folder = daemon_directory_create(), *environment[LIST_MAX];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        variables_of(files[i], folder, environment);
        assert_non_null(environment[0]);
        assert_accepted(files[i], i == 0 ? (const char *const[]){ "--open", NULL } : NULL,
                        environment);
        if (i == 0)
            assert_needs_keys(files[i], NULL, environment);
        for (int j = 0; environment[j]; j++)
            free(environment[j]);
    }
    daemon_directory_remove(folder);
}

/* Where the image listens, as the pods inherit it. */
static const char *image_listens(char variable[TEXT_BYTES])
{
    char *dockerfile = manifest_file_text("Dockerfile"), address[TEXT_BYTES];
    format(variable, "ATTND_LISTEN=%s", word_after(address, dockerfile, "ATTND_LISTEN="));
    free(dockerfile);
    return variable;
}

/* The path of the keys in the pod is that of a mounted Secret; here it is a file of the test. */
TEST(pod_variables_are_accepted)
{
    struct manifest deployment;
    manifest_read(&deployment, DEPLOYMENT);
    char *folder = daemon_directory_create();
    char variables[LIST_MAX][TEXT_BYTES], path[TEXT_BYTES], keys[TEXT_BYTES];
    char *environment[LIST_MAX] = { (char *)(uintptr_t)image_listens(variables[0]) };
    int count = 1;
    bool has_keys = false;
    write_keys(folder, keys);
    for (const char *name; count < LIST_MAX - 2; count++) {
        name = manifest_find(&deployment, format(path, CONTAINER "env.%d.name", count - 1));
        if (!name)
            break;
        const char *value =
            manifest_get(&deployment, format(path, CONTAINER "env.%d.value", count - 1));
        const bool is_keys = strcmp(name, "ATTND_KEYS") == 0;
        if (is_keys)
            assert_string_equal(value, "/etc/attnd/keys");
        format(variables[count], "%s=%s", name, is_keys ? keys : value);
        environment[count] = variables[count];
        has_keys = has_keys || is_keys;
    }
    assert_true(count > 1 && has_keys);
    assert_accepted(DEPLOYMENT, NULL, environment);
    assert_string_equal(manifest_get(&deployment, CONTAINER "volumeMounts.1.mountPath"),
                        "/etc/attnd");
    manifest_free(&deployment);
    daemon_directory_remove(folder);
}

/* compose.yaml serves this machine alone and is open; compose.keys.yaml, read after it, takes the
 * keys of a secret instead. */
TEST(compose_variables_are_accepted)
{
    struct manifest compose, with_keys;
    manifest_read(&compose, COMPOSE);
    manifest_read(&with_keys, COMPOSE_KEYS);
    char *folder = daemon_directory_create();
    char format_is[TEXT_BYTES], listen[TEXT_BYTES], open[TEXT_BYTES], keys[TEXT_BYTES],
        keys_are[TEXT_BYTES];
    static const char OF_ATTND[] = "services.attnd.environment.";
    char name[TEXT_BYTES];
    image_listens(listen);
    format(format_is, "ATTND_LOG_FORMAT=%s",
           manifest_get(&compose, format(name, "%sATTND_LOG_FORMAT", OF_ATTND)));
    format(open, "ATTND_OPEN=%s", manifest_get(&compose, format(name, "%sATTND_OPEN", OF_ATTND)));
    assert_accepted(COMPOSE, NULL, (char *[]){ listen, format_is, open, NULL });
    assert_int_equal(strncmp(manifest_get(&compose, "services.attnd.ports.0"), "127.0.0.1:", 10),
                     0);

    format(open, "ATTND_OPEN=%s", manifest_get(&with_keys, format(name, "%sATTND_OPEN", OF_ATTND)));
    assert_needs_keys(COMPOSE_KEYS, NULL, (char *[]){ listen, format_is, open, NULL });
    format(keys_are, "ATTND_KEYS=%s", write_keys(folder, keys));
    assert_accepted(COMPOSE_KEYS, NULL, (char *[]){ listen, format_is, open, keys_are, NULL });
    format(name, "/run/secrets/%s", manifest_get(&with_keys, "services.attnd.secrets.0"));
    assert_string_equal(manifest_get(&with_keys, "services.attnd.environment.ATTND_KEYS"), name);
    manifest_free(&compose);
    manifest_free(&with_keys);
    daemon_directory_remove(folder);
}

/* Does as KServe does: puts the name of the service for {{.Name}}, and the downloaded model at
 * /mnt/models. */
TEST(serving_runtime_arguments)
{
    struct manifest runtime;
    manifest_read(&runtime, SERVINGRUNTIME);
    char given[LIST_MAX][TEXT_BYTES], path[TEXT_BYTES], keys[TEXT_BYTES];
    char *keys_folder = daemon_directory_create();
    const char *arguments[LIST_MAX] = { 0 };
    int count = 0;
    write_keys(keys_folder, keys);
    for (const char *text; count < LIST_MAX - 2; count++) {
        text = manifest_find(&runtime, format(path, "spec.containers.0.args.%d", count));
        if (!text)
            break;
        assert_int_equal(strncmp(text, "--", 2), 0);
        assert_is_flag(text + 2, strcspn(text + 2, "="), SERVINGRUNTIME);
        const char *name = strstr(text, "{{.Name}}"), *folder = strstr(text, "/mnt/models");
        if (name)
            format(given[count], "%.*sstories260k", (int)(name - text), text);
        else if (strcmp(text, "--keys=/etc/attnd/keys") == 0)
            format(given[count], "--keys=%s", keys);
        else if (folder)
            format(given[count], "%.*sexamples/models/stories260K", (int)(folder - text), text);
        else
            format(given[count], "%s", text);
        arguments[count] = given[count];
    }
    assert_true(count > 0);
    assert_accepted(SERVINGRUNTIME, arguments, NULL);
    assert_string_equal(manifest_get(&runtime, "spec.containers.0.volumeMounts.0.mountPath"),
                        "/etc/attnd");
    manifest_free(&runtime);
    daemon_directory_remove(keys_folder);
}

static void assert_answers(struct http_client *client, const char *path)
{
    struct http_response response = http_client_get(client, path);
    if (response.status != 200)
        fail_msg("GET %s answers %ld", path, response.status);
    http_response_free(&response);
}

TEST(probes_are_answered)
{
    struct manifest deployment, runtime;
    manifest_read(&deployment, DEPLOYMENT);
    manifest_read(&runtime, SERVINGRUNTIME);
    struct daemon server;
    struct http_client client;
    daemon_start(&server, NULL);
    http_client_init(&client, server.port);
    assert_answers(&client, manifest_get(&deployment, CONTAINER "livenessProbe.httpGet.path"));
    assert_answers(&client, manifest_get(&deployment, CONTAINER "readinessProbe.httpGet.path"));
    assert_answers(&client, manifest_get(&runtime, "spec.containers.0.livenessProbe.httpGet.path"));
    assert_answers(&client,
                   manifest_get(&runtime, "spec.containers.0.readinessProbe.httpGet.path"));
    assert_answers(&client, manifest_get(&runtime, "spec.annotations.prometheus.kserve.io/path"));
    http_client_free(&client);
    daemon_stop(&server);
    manifest_free(&deployment);
    manifest_free(&runtime);
}

TEST(ports_agree)
{
    struct manifest deployment, service, runtime, compose;
    manifest_read(&deployment, DEPLOYMENT);
    manifest_read(&service, SERVICE);
    manifest_read(&runtime, SERVINGRUNTIME);
    manifest_read(&compose, COMPOSE);
    char *dockerfile = manifest_file_text("Dockerfile");
    char port[TEXT_BYTES], text[TEXT_BYTES];
    word_after(port, dockerfile, "EXPOSE ");

    word_after(text, dockerfile, "ATTND_LISTEN=");
    assert_string_equal(strrchr(text, ':') + 1, port);
    assert_string_equal(manifest_get(&deployment, CONTAINER "ports.0.containerPort"), port);
    const char *name = manifest_get(&deployment, CONTAINER "ports.0.name");
    assert_string_equal(manifest_get(&service, "spec.ports.0.targetPort"), name);
    assert_string_equal(manifest_get(&deployment, CONTAINER "livenessProbe.httpGet.port"), name);
    assert_string_equal(manifest_get(&deployment, CONTAINER "readinessProbe.httpGet.port"), name);

    assert_string_equal(manifest_get(&runtime, "spec.containers.0.ports.0.containerPort"), port);
    assert_string_equal(manifest_get(&runtime, "spec.containers.0.livenessProbe.httpGet.port"),
                        port);
    assert_string_equal(manifest_get(&runtime, "spec.containers.0.readinessProbe.httpGet.port"),
                        port);
    assert_string_equal(manifest_get(&runtime, "spec.annotations.prometheus.kserve.io/port"), port);
    assert_string_equal(strrchr(manifest_get(&compose, "services.attnd.ports.0"), ':') + 1, port);
    free(dockerfile);
    manifest_free(&deployment);
    manifest_free(&service);
    manifest_free(&runtime);
    manifest_free(&compose);
}

TEST(names_agree)
{
    struct manifest deployment, runtime;
    manifest_read(&deployment, DEPLOYMENT);
    manifest_read(&runtime, SERVINGRUNTIME);
    assert_string_equal(manifest_get(&deployment, CONTAINER "volumeMounts.0.name"),
                        manifest_get(&deployment, POD "volumes.0.name"));
    assert_string_equal(manifest_get(&deployment, CONTAINER "volumeMounts.1.name"),
                        manifest_get(&deployment, POD "volumes.1.name"));
    assert_string_equal(manifest_get(&runtime, "spec.containers.0.volumeMounts.0.name"),
                        manifest_get(&runtime, "spec.volumes.0.name"));
    assert_string_equal(manifest_get(&runtime, "spec.volumes.0.secret.secretName"),
                        manifest_get(&deployment, POD "volumes.1.secret.secretName"));
    assert_string_equal(manifest_get(&runtime, "spec.containers.0.name"), "kserve-container");
    manifest_free(&deployment);
    manifest_free(&runtime);
}

/* Every program that sends SIGTERM waits for the delay and for --drain-max before it kills the
 * daemon. */
TEST(time_to_end)
{
    struct manifest deployment, compose;
    manifest_read(&deployment, DEPLOYMENT);
    manifest_read(&compose, COMPOSE);
    char *dockerfile = manifest_file_text("Dockerfile"), *unit = manifest_file_text(UNIT);
    char delay[TEXT_BYTES], stop[TEXT_BYTES];
    const double longest = default_seconds("--drain-max");
    word_after(delay, dockerfile, "ATTND_DRAIN_DELAY=");

    assert_string_equal(manifest_get(&deployment, CONTAINER "env.1.name"), "ATTND_DRAIN_DELAY");
    assert_true(seconds(manifest_get(&deployment, POD "terminationGracePeriodSeconds"))
                > seconds(manifest_get(&deployment, CONTAINER "lifecycle.preStop.sleep.seconds"))
                      + seconds(manifest_get(&deployment, CONTAINER "env.1.value")) + longest);
    assert_true(seconds(manifest_get(&compose, "services.attnd.stop_grace_period"))
                > seconds(delay) + longest);
    assert_true(seconds(word_after(stop, unit, "TimeoutStopSec="))
                > default_seconds("--drain-delay") + longest);
    free(dockerfile);
    free(unit);
    manifest_free(&deployment);
    manifest_free(&compose);
}

TEST(user)
{
    struct manifest deployment, runtime;
    manifest_read(&deployment, DEPLOYMENT);
    manifest_read(&runtime, SERVINGRUNTIME);
    char *dockerfile = manifest_file_text("Dockerfile");
    char user[TEXT_BYTES];
    word_after(user, dockerfile, "USER ");
    user[strcspn(user, ":")] = '\0';
    assert_string_equal(manifest_get(&deployment, POD "securityContext.runAsUser"), user);
    assert_string_equal(manifest_get(&runtime, "spec.containers.0.securityContext.runAsUser"),
                        user);
    free(dockerfile);
    manifest_free(&deployment);
    manifest_free(&runtime);
}

ALL_TESTS(read_help, free_help);
