/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster_schemas.c - the manifests against the types of their projects, and the folders that
 * kustomize reads.
 *
 * schemas/kubernetes.json has the types, and schemas/definitions.json those of projects that
 * publish them nowhere but in their repositories. */
#include "manifest.h"
#include "schema_check.h"
#include "skip.h"
#include "test.h"

#include <glob.h>

#define SCHEMAS     "tests/deploy/schemas/kubernetes.json"
#define DEFINITIONS "tests/deploy/schemas/definitions.json"

enum { TEXT_BYTES = 512, OUTPUT_BYTES = 1 << 16, KINDS_BYTES = 1024 };

static const char *const FOLDERS[] = {
    "deploy/kubernetes/base",
    "deploy/kubernetes/queue-cost",
    "deploy/kubernetes/keda",
    "deploy/kubernetes/sessions",
    "deploy/kubernetes/inference-pool",
    "deploy/kserve",
    "deploy/prometheus",
    "deploy/kubernetes/batch",
    "deploy/kubernetes/sessions-moving",
};
enum { FOLDER_COUNT = sizeof FOLDERS / sizeof FOLDERS[0] };

static cJSON *schemas;

static cJSON *read_json(const char *file)
{
    char *text = manifest_file_text(file);
    cJSON *json = cJSON_Parse(text);
    free(text);
    assert_non_null(json);
    return json;
}

static int read_schemas(void **state)
{
    schemas = read_json(SCHEMAS);
    cJSON *definitions = read_json(DEFINITIONS);
    cJSON *kinds = cJSON_GetObjectItemCaseSensitive(schemas, "kinds");
    cJSON *more = cJSON_GetObjectItemCaseSensitive(definitions, "kinds");
    while (more->child) {
        cJSON *kind = cJSON_DetachItemViaPointer(more, more->child);
        assert_true(cJSON_AddItemToObject(kinds, kind->string, kind));
    }
    cJSON_Delete(definitions);
    return 0;
}

static int free_schemas(void **state)
{
    cJSON_Delete(schemas);
    return 0;
}

/* ---------------------------------------------------------------------------------- helpers -- */

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

static const cJSON *schema_of(const cJSON *manifest, const char *what)
{
    char kind[TEXT_BYTES];
    snprintf(kind, sizeof kind, "%s/%s", text_of(manifest, "apiVersion"),
             text_of(manifest, "kind"));
    const cJSON *kinds = cJSON_GetObjectItemCaseSensitive(schemas, "kinds");
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(kinds, kind);
    if (!schema)
        fail_msg("%s: no schema has %s; schemas/README.md says who writes them", what, kind);
    return schema;
}

/* Whether folder/kustomization.yaml has name in the list, or in the member's field of that name. */
static bool lists(const cJSON *kustomization, const char *list, const char *field, const char *name)
{
    const cJSON *member;
    cJSON_ArrayForEach(member, cJSON_GetObjectItemCaseSensitive(kustomization, list)) {
        const cJSON *value = field ? cJSON_GetObjectItemCaseSensitive(member, field) : member;
        const cJSON *first = cJSON_IsArray(value) ? value->child : value;
        if (strcmp(cJSON_GetStringValue(first), name) == 0)
            return true;
    }
    return false;
}

static void read_kustomization(struct manifest *kustomization, const char *folder)
{
    char file[TEXT_BYTES];
    snprintf(file, sizeof file, "%s/kustomization.yaml", folder);
    manifest_read(kustomization, file);
}

/* ------------------------------------------------------------------------------------ tests -- */

static void expect_resource(const char *folder, const char *name)
{
    char file[TEXT_BYTES];
    struct manifest manifest;
    snprintf(file, sizeof file, "%s/%s", folder, name);
    manifest_read(&manifest, file);
    schema_expect(schemas, schema_of(manifest.tree, file), manifest.tree, file);
    manifest_free(&manifest);
}

TEST(resources_have_the_types_of_their_projects)
{
    int checked = 0;
    for (int i = 0; i < FOLDER_COUNT; i++) {
        struct manifest kustomization;
        read_kustomization(&kustomization, FOLDERS[i]);
        const cJSON *name;
        cJSON_ArrayForEach(name,
                           cJSON_GetObjectItemCaseSensitive(kustomization.tree, "resources")) {
            if (strncmp(name->valuestring, "..", 2) == 0)
                continue;
            expect_resource(FOLDERS[i], name->valuestring);
            checked++;
        }
        manifest_free(&kustomization);
    }
    assert_true(checked >= 19);
}

/* A field under another name, a word for a number and a field that is left out are found. */
TEST(types_can_refuse)
{
    static const struct {
        const char *file, *from, *to;
    } cases[] = {
        { "deploy/kubernetes/base/deployment.yaml", "maxSkew", "maxSkews" },
        { "deploy/kubernetes/base/deployment.yaml", "containerPort: 8080", "containerPort: http" },
        { "deploy/kubernetes/base/hpa.yaml", "maxReplicas: 8", "# maxReplicas: 8" },
        { "deploy/kubernetes/base/pdb.yaml", "policy/v1", "policy/v1beta1" },
        { "deploy/kubernetes/keda/scaledobject.yaml", "pollingInterval", "pollInterval" },
        { "deploy/kubernetes/keda/scaledobject.yaml", "\"0.5\"", "0.5" },
        { "deploy/kubernetes/inference-pool/httproute.yaml", "method: GET", "method: Get" },
        { "deploy/kubernetes/inference-pool/inferencepool.yaml", "FailOpen", "Open" },
        { "deploy/kserve/servingruntime.yaml", "protocolVersions:", "protocols:" },
        { "deploy/kserve/servingruntime.yaml", "multiModel: false", "multiModel: \"no\"" },
        { "deploy/kserve/inferenceservice.yaml", "minReplicas: 1", "minReplicas: one" },
        { "deploy/kubernetes/batch/job.yaml", "completionMode: Indexed", "completionMode: Index" },
        { "deploy/kubernetes/batch/job.yaml", "backoffLimitPerIndex", "backoffPerIndex" },
        { "deploy/prometheus/servicemonitor.yaml", "endpoints:", "endpoint:" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct manifest whole, changed;
        manifest_read(&whole, cases[i].file);
        const cJSON *schema = schema_of(whole.tree, cases[i].file);
        char *text = manifest_file_text(cases[i].file), *edited = NULL;
        char *found = strstr(text, cases[i].from);
        assert_non_null(found);
        assert_true(asprintf(&edited, "%.*s%s%s", (int)(found - text), text, cases[i].to,
                             found + strlen(cases[i].from))
                    > 0);
        manifest_read_text(&changed, cases[i].file, edited);
        assert_true(schema_fits(schemas, schema, whole.tree));
        if (schema_fits(schemas, schema, changed.tree))
            fail_msg("%s passes with %s", cases[i].file, cases[i].to);
        manifest_free(&whole);
        manifest_free(&changed);
        free(text);
        free(edited);
    }
}

/* What a folder holds is named in its kustomization.yaml, or is another program's file. */
TEST(nothing_lies_beside_a_kustomization)
{
    static const char *const others[] = { "kustomization.yaml", "prometheus-adapter.yaml",
                                          "prometheus.yaml", "attnd.rules.yaml" };
    for (int i = 0; i < FOLDER_COUNT; i++) {
        struct manifest kustomization;
        char pattern[TEXT_BYTES];
        glob_t files;
        read_kustomization(&kustomization, FOLDERS[i]);
        snprintf(pattern, sizeof pattern, "%s/*.yaml", FOLDERS[i]);
        assert_int_equal(glob(pattern, 0, NULL, &files), 0);
        for (size_t j = 0; j < files.gl_pathc; j++) {
            const char *name = strrchr(files.gl_pathv[j], '/') + 1;
            bool named = lists(kustomization.tree, "resources", NULL, name)
                         || lists(kustomization.tree, "patches", "path", name)
                         || lists(kustomization.tree, "configMapGenerator", "files", name);
            for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
                named |= strcmp(name, others[k]) == 0;
            if (!named)
                fail_msg("%s is in no list of its kustomization.yaml", files.gl_pathv[j]);
        }
        globfree(&files);
        manifest_free(&kustomization);
    }
}

/* ------------------------------------------------------------------- what kustomize makes of them
 */

static char *kustomize(const char *folder)
{
    char command[TEXT_BYTES], *text = calloc(1, OUTPUT_BYTES);
    assert_non_null(text);
    snprintf(command, sizeof command, "kubectl kustomize %s", folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    const size_t size = fread(text, 1, OUTPUT_BYTES - 1, pipe);
    assert_int_equal(pclose(pipe), 0);
    assert_true(size > 0 && size < OUTPUT_BYTES - 1);
    return text;
}

/* Checks every manifest of a folder as it would be applied. kinds becomes "Kind Kind ... ". */
static void expect_made(const char *folder, char kinds[KINDS_BYTES])
{
    char *text = kustomize(folder), *rest = text;
    size_t used = 0;
    for (char *next; rest; rest = next) {
        struct manifest manifest;
        next = strstr(rest, "\n---\n");
        if (next) {
            *next = '\0';
            next += strlen("\n---\n");
        }
        manifest_read_text(&manifest, folder, rest);
        schema_expect(schemas, schema_of(manifest.tree, folder), manifest.tree, folder);
        used += (size_t)snprintf(kinds + used, KINDS_BYTES - used, "%s ",
                                 text_of(manifest.tree, "kind"));
        assert_true(used < KINDS_BYTES);
        manifest_free(&manifest);
    }
    free(text);
}

TEST(folders_as_they_are_applied)
{
    static const struct {
        const char *folder, *has, *lacks;
    } cases[] = {
        { "deploy/kubernetes/base", "Deployment", "ServiceMonitor" },
        { "deploy/kubernetes/queue-cost", "ServiceMonitor", "ScaledObject" },
        { "deploy/kubernetes/keda", "ScaledObject", "HorizontalPodAutoscaler" },
        { "deploy/kubernetes/sessions", "StatefulSet", "Deployment" },
        { "deploy/kubernetes/sessions", "NetworkPolicy", "HorizontalPodAutoscaler" },
        { "deploy/kubernetes/sessions-moving", "StatefulSet", "HorizontalPodAutoscaler" },
        { "deploy/kubernetes/inference-pool", "InferencePool", "Secret" },
        { "deploy/kserve", "ServingRuntime", "Deployment" },
        { "deploy/kubernetes/batch", "Job", "Deployment" },
    };
    skip_without("kubernetes-client", "kubectl kustomize deploy/kubernetes/inference-pool");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char kinds[KINDS_BYTES] = "";
        expect_made(cases[i].folder, kinds);
        assert_non_null(strstr(kinds, cases[i].has));
        assert_null(strstr(kinds, cases[i].lacks));
    }
}

/* The pods of the pool take no keys, as the picker has none, and mount none. */
TEST(pods_of_the_pool)
{
    skip_without("kubernetes-client", "kubectl kustomize deploy/kubernetes/inference-pool");
    char *text = kustomize("deploy/kubernetes/inference-pool");
    assert_non_null(strstr(text, "name: ATTND_OPEN"));
    assert_null(strstr(text, "ATTND_KEYS"));
    assert_null(strstr(text, "attnd-keys"));
    assert_non_null(strstr(text, "gateway.networking.k8s.io/gateway-name: inference"));
    assert_null(strstr(text, "podSelector: {}"));
    free(text);
}

/* With sessions that move no pod has a volume for them, and pods may reach each other. */
TEST(pods_that_move_their_sessions)
{
    skip_without("kubernetes-client", "kubectl kustomize deploy/kubernetes/sessions");
    char *text = kustomize("deploy/kubernetes/sessions"),
         *moving = kustomize("deploy/kubernetes/sessions-moving");
    static const char *const of_volume[] = { "volumeClaimTemplates", "ATTND_SESSION_SAVE",
                                             "/var/lib/attnd/sessions" };
    for (size_t i = 0; i < sizeof of_volume / sizeof of_volume[0]; i++) {
        assert_non_null(strstr(text, of_volume[i]));
        assert_null(strstr(moving, of_volume[i]));
    }
    assert_null(strstr(text, "egress:"));
    assert_non_null(strstr(moving, "egress:"));
    assert_non_null(strstr(moving, "name: ATTND_MOVE_TO"));
    free(text);
    free(moving);
}

ALL_TESTS(read_schemas, free_schemas);
