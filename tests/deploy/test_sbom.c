/* SPDX-License-Identifier: Apache-2.0 */
/* test_sbom.c - the bill of materials names every package that the daemon is linked with.
 *
 * What the file must have is from the specification of SPDX 2.3; the libraries are those that ldd
 * names. */
#include "daemon.h"
#include "skip.h"
#include "test.h"

#include <cjson/cJSON.h>

enum { OUTPUT_BYTES = 1 << 20 };

/* What a command with the daemon's path in it writes; the caller frees it. */
static char *output_of(const char *format)
{
    char command[4096];
    const int length = snprintf(command, sizeof command, format, daemon_program());
    assert_true(length > 0 && length < (int)sizeof command);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    char *text = calloc(1, OUTPUT_BYTES);
    assert_non_null(text);
    assert_true(fread(text, 1, OUTPUT_BYTES - 1, stream) > 0);
    assert_int_equal(pclose(stream), 0);
    return text;
}

static void skip_without_dpkg(void)
{
    skip_without("dpkg", "command -v dpkg-query && dpkg-query -S /usr/lib/os-release");
}

static const char *text_of(const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsString(member) || !member->valuestring[0])
        fail_msg("there is no text '%s'", name);
    return member->valuestring;
}

static const cJSON *package_called(const cJSON *root, const char *name)
{
    const cJSON *package;
    cJSON_ArrayForEach(package, cJSON_GetObjectItemCaseSensitive(root, "packages")) {
        if (strcmp(text_of(package, "name"), name) == 0)
            return package;
    }
    fail_msg("no package is called %s", name);
    return NULL;
}

static bool is_related(const cJSON *root, const char *kind, const char *identifier)
{
    const cJSON *relationship;
    cJSON_ArrayForEach(relationship, cJSON_GetObjectItemCaseSensitive(root, "relationships")) {
        if (strcmp(text_of(relationship, "relationshipType"), kind) == 0
            && strcmp(text_of(relationship, "relatedSpdxElement"), identifier) == 0)
            return true;
    }
    return false;
}

TEST(names_all_that_is_linked)
{
    skip_without_dpkg();
    char *text = output_of("deploy/make-sbom.sh '%s' libopenblas-pthread-dev");
    char *linked = output_of("deploy/linked-packages.sh '%s'");
    cJSON *root = cJSON_Parse(text);
    assert_non_null(root);
    assert_string_equal(text_of(root, "spdxVersion"), "SPDX-2.3");
    assert_string_equal(text_of(root, "dataLicense"), "CC0-1.0");
    assert_string_equal(text_of(package_called(root, "attnd"), "licenseDeclared"), "Apache-2.0");
    int count = 0;
    for (char *rest = linked, *line; (line = strsep(&rest, "\n")) && line[0]; count++) {
        const cJSON *package = package_called(root, strchr(line, ' ') + 1);
        const cJSON *references = cJSON_GetObjectItemCaseSensitive(package, "externalRefs");
        const char *url = text_of(cJSON_GetArrayItem(references, 0), "referenceLocator");
        assert_memory_equal(url, "pkg:deb/debian/", strlen("pkg:deb/debian/"));
        assert_true(text_of(package, "versionInfo")[0] >= '0');
        assert_true(is_related(root, "DYNAMIC_LINK", text_of(package, "SPDXID")));
    }
    assert_true(count > 5);
    assert_true(is_related(root, "STATIC_LINK", "SPDXRef-libopenblas-pthread-dev"));
    cJSON_Delete(root);
    free(linked);
    free(text);
}

TEST(is_the_same_twice)
{
    skip_without_dpkg();
    char *one = output_of("SOURCE_DATE_EPOCH=1700000000 deploy/make-sbom.sh '%s'");
    char *two = output_of("SOURCE_DATE_EPOCH=1700000000 deploy/make-sbom.sh '%s'");
    assert_string_equal(one, two);
    assert_non_null(strstr(one, JSON("created": "2023-11-14T22:13:20Z")));
    free(two);
    free(one);
}
