/* SPDX-License-Identifier: Apache-2.0 */
/* test_python.c - lib/python by the scripts in tests/deploy/python, as the package, as the one file
 * that is made of it and as pip installs it: its structs are those of the headers, and its numbers
 * those of the formulas, of torch and of the daemon. */
#include "shell.h"
#include "skip.h"
#include "test.h"

#include "key_file.h"
#include "layer_gradient.h"
#include "softmax.h"
#include "tls_daemon.h"

#include <limits.h>
#include <unistd.h>

enum { OUTPUT_BYTES = 1 << 16 };

static char output[OUTPUT_BYTES];

/* In scripts $D is this folder, with the one file. */
static char folder_of_file[] = "/tmp/attnd-python-XXXXXX";

static int set_up(void **state)
{
    assert_non_null(mkdtemp(folder_of_file));
    setenv("D", folder_of_file, 1);
    setenv("ATTN_LIBRARY", shell_library(), 1);
    setenv("PYTHONPATH", "lib/python", 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    if (system("test -x /usr/bin/python3") == 0)
        shell("/usr/bin/python3 lib/python/build_package.py >$D/attnd.py");
    return 0;
}

static int tear_down(void **state)
{
    shell("rm -rf $D");
    return 0;
}

/* A script must end with a line "ok" and the status 0. */
static void run_once(const char *command)
{
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    const size_t used = fread(output, 1, sizeof output - 1, stream);
    output[used] = '\0';
    const int status = pclose(stream);
    if (status != 0 || used < 3 || strcmp(output + used - 3, "ok\n") != 0)
        fail_msg("%s\nstatus %d, wrote\n%s", command, status, output);
}

/* The same of the package and of the one file. */
static void run(const char *command)
{
    run_once(command);
    setenv("PYTHONPATH", folder_of_file, 1);
    run_once(command);
    setenv("PYTHONPATH", "lib/python", 1);
}

static void skip_without_numpy(void)
{
    skip_without("python3-numpy", "/usr/bin/python3 -c 'import numpy'");
}

static void skip_without_torch(void)
{
    skip_without("python3-torch", "/usr/bin/python3 -c 'import torch'");
}

/* -------------------------------------------------------------------------------- the structs --
 */

#define SIZE(type) fprintf(stream, #type " - 0 %zu\n", sizeof(struct type))
#define FIELD(type, field)                                                                         \
    fprintf(stream, #type " " #field " %zu %zu\n", offsetof(struct type, field),                   \
            sizeof(((struct type *)NULL)->field))

static void write_attention(FILE *stream)
{
    SIZE(attn_tensor);
    FIELD(attn_tensor, data);
    FIELD(attn_tensor, dtype);
    FIELD(attn_tensor, shape);
    FIELD(attn_tensor, stride);
    FIELD(attn_tensor, pages);
    SIZE(attn_options);
    FIELD(attn_options, scale);
    FIELD(attn_options, softcap);
    FIELD(attn_options, causal);
    FIELD(attn_options, window_left);
    FIELD(attn_options, window_right);
    FIELD(attn_options, chunk);
    FIELD(attn_options, dropout);
    FIELD(attn_options, seed);
    FIELD(attn_options, normalizer);
    FIELD(attn_options, softmax_precision);
    FIELD(attn_options, precision);
    FIELD(attn_options, is_prefix_stable);
    SIZE(attn_plan);
    FIELD(attn_plan, task_count);
    FIELD(attn_plan, workspace_bytes);
    FIELD(attn_plan, part_count);
    FIELD(attn_plan, join_count);
    FIELD(attn_plan, shared_bytes);
    FIELD(attn_plan, part_workspace_bytes);
    FIELD(attn_plan, own);
}

static void write_problem(FILE *stream)
{
    SIZE(attn_problem);
    FIELD(attn_problem, options);
    FIELD(attn_problem, query);
    FIELD(attn_problem, key);
    FIELD(attn_problem, value);
    FIELD(attn_problem, additive_weight);
    FIELD(attn_problem, past_len);
#define X(type, name) FIELD(attn_problem, name);
    ATTN_MASKING_MAP(X)
#undef X
#define X(NAME, name, may_be_none) FIELD(attn_problem, name);
    ATTN_PER_HEAD_MAP(X)
#undef X
#define X(NAME, name, columns, step) FIELD(attn_problem, name);
    ATTN_OUTPUT_MAP(X)
#undef X
    FIELD(attn_problem, kernels);
}

static void write_gradient(FILE *stream)
{
    SIZE(attn_gradient_problem);
    FIELD(attn_gradient_problem, attention);
    FIELD(attn_gradient_problem, has_forward);
    FIELD(attn_gradient_problem, largest_weights);
    FIELD(attn_gradient_problem, context_gradient);
    FIELD(attn_gradient_problem, query_gradient);
    FIELD(attn_gradient_problem, key_gradient);
    FIELD(attn_gradient_problem, value_gradient);
    FIELD(attn_gradient_problem, mask_gradient);
    FIELD(attn_gradient_problem, additive_weight_gradient);
#define X(NAME, name, may_be_none) FIELD(attn_gradient_problem, name##_gradient);
    ATTN_PER_HEAD_MAP(X)
#undef X
    SIZE(attn_gradient_plan);
    FIELD(attn_gradient_plan, task_count);
    FIELD(attn_gradient_plan, scratch_bytes);
    FIELD(attn_gradient_plan, workspace_bytes);
    FIELD(attn_gradient_plan, own);
    SIZE(attn_softmax);
    FIELD(attn_softmax, input);
    FIELD(attn_softmax, output);
    FIELD(attn_softmax, outer);
    FIELD(attn_softmax, length);
    FIELD(attn_softmax, inner);
    FIELD(attn_softmax, visible);
    FIELD(attn_softmax, rows_per_visible);
    FIELD(attn_softmax, is_log);
    FIELD(attn_softmax, dtype);
}

TEST(structs)
{
    skip_without_numpy();
    FILE *stream = popen("/usr/bin/python3 tests/deploy/python/layout.py", "w");
    assert_non_null(stream);
    write_attention(stream);
    write_problem(stream);
    write_gradient(stream);
    assert_int_equal(pclose(stream), 0);
}

/* -------------------------------------------------------------------------------- the scripts --
 */

/* Equal names, arguments and words in both forms, and the daemon's version. */
TEST(one_file)
{
    skip_without_numpy();
    shell("for form in lib/python $D; do\n"
          "  PYTHONPATH=$form /usr/bin/python3 tests/deploy/python/names.py >$D/names && "
          "grep -qF Client.trace $D/names && { test ! -e $D/first || cmp $D/first $D/names; } && "
          "mv $D/names $D/first || exit 1\n"
          "done");
    shell(
        "version=$(sed -n 's/^#define ATTND_VERSION \"\\(.*\\)\"$/\\1/p' server/base/version.h) && "
        "grep -qx \"__version__ = \\\"$version\\\"\" $D/attnd.py && "
        "test \"$(env -u MAKEFLAGS make -s python BUILD=$D/build)\" = $D/build/attnd.py && "
        "cmp $D/build/attnd.py $D/attnd.py");
}

/* Without a network, with pip's own folder for builds and without it; nothing is left in lib/. */
TEST(pip)
{
    skip_without_numpy();
    skip_without("python3-pip", "/usr/bin/python3 -m pip --version");
    shell("ls -A lib/python lib/python/attnd >$D/before\n"
          "for flag in --no-build-isolation --no-index; do\n"
          "  /usr/bin/python3 -m pip install -q --no-index --no-deps --no-cache-dir "
          "--root-user-action=ignore "
          "$flag --no-compile --target $D/pip$flag ./lib/python 2>&1 && "
          "diff -r --exclude=__pycache__ lib/python/attnd $D/pip$flag/attnd && (cd $D && "
          "PYTHONPATH=$D/pip$flag "
          "/usr/bin/python3 -c 'import attnd, importlib.metadata as m; "
          "assert m.version(\"attnd\") == attnd.__version__') || exit 1\n"
          "done\n"
          "ls -A lib/python lib/python/attnd | diff $D/before -");
    /* Sources that pip builds again, and the same bytes each time. */
    shell("cd lib/python && mkdir $D/made && python='/usr/bin/python3 -c' && for i in 1 2; do\n"
          "  mkdir -p $D/made/$i && $python 'import sys, build_package; "
          "build_package.build_sdist(sys.argv[1]); build_package.build_wheel(sys.argv[1])' "
          "$D/made/$i || "
          "exit 1\n"
          "done\n"
          "cmp $D/made/1/*.whl $D/made/2/*.whl && "
          "/usr/bin/python3 -m pip install -q --no-index --no-deps --no-cache-dir "
          "--root-user-action=ignore "
          "--no-compile --target $D/sources $D/made/1/*.tar.gz 2>&1 && "
          "diff -r --exclude=__pycache__ attnd $D/sources/attnd");
}

TEST(local)
{
    skip_without_numpy();
    run("/usr/bin/python3 tests/deploy/python/local.py 2>&1");
}

TEST(torch)
{
    skip_without_numpy();
    skip_without_torch();
    run("/usr/bin/python3 tests/deploy/python/torch_tensors.py 2>&1");
}

/* A folder that has what pages name: the tree's examples, and in build/models what the daemon
 * serves, which a page may add to. */
static char *make_folder(void)
{
    char *folder = daemon_directory_create(), command[600];
    snprintf(command, sizeof command,
             "cd %s && ln -s $OLDPWD/lib $OLDPWD/tests $OLDPWD/examples . && mkdir build && "
             "cp -r examples/models build && cd build/models && cp -r stories260K untokenized && "
             "rm untokenized/tokenizer.json",
             folder);
    assert_int_equal(system(command), 0);
    return folder;
}

/* Runs what the page for users and those of examples show. One of them speaks of a model that its
 * commands for the shell have made. */
static void run_pages(const char *folder, int port)
{
    char command[1000];
    snprintf(command, sizeof command,
             "cd %s && cp -r examples/models/stories260K build/models/sentences && "
             "mkdir build/models/sentences/1_Pooling && "
             "echo '{\"word_embedding_dimension\":64,\"pooling_mode_mean_tokens\":true}' "
             ">build/models/sentences/1_Pooling/config.json && /usr/bin/python3 -c 'import "
             "urllib.request as r; "
             "r.urlopen(\"http://127.0.0.1:%d/v2/repository/models/sentences/load\", b\"{}\")'",
             folder, port);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command,
             "cd %s && /usr/bin/python3 tests/deploy/python/page.py http://127.0.0.1:%d "
             "lib/python/README.md $(grep -l '^```python$' examples/*.md examples/*/*.md) 2>&1",
             folder, port);
    run_once(command); /* pages speak of the package */
}

TEST(client)
{
    skip_without_numpy();
    char listen[64], command[256], models[200];
    snprintf(listen, sizeof listen, "unix:@attnd-python-%d", (int)getpid());
    struct daemon daemon;
    char *folder = make_folder();
    snprintf(models, sizeof models, "%s/build/models", folder);
    daemon_start_with(&daemon, "--models", models, "--model-control", "explicit", "--listen",
                      listen, NULL);
    snprintf(command, sizeof command,
             "/usr/bin/python3 tests/deploy/python/client.py http://127.0.0.1:%d %s 2>&1",
             daemon.port, listen);
    run(command);
    snprintf(command, sizeof command,
             "/usr/bin/python3 tests/deploy/python/causes.py http://127.0.0.1:%d 2>&1",
             daemon.port);
    run(command);
    snprintf(command, sizeof command,
             "/usr/bin/python3 tests/deploy/python/show.py http://127.0.0.1:%d 2>&1", daemon.port);
    run(command);
    run_pages(folder, daemon.port);
    daemon_stop(&daemon);
    daemon_directory_remove(folder);
}

/* HTTPS, keys and their limits: tls_daemon.h is a daemon with a certificate of its own. By address:
 * Python asks the resolver for localhost, and a root without /etc/hosts does not know it. */
TEST(access)
{
    static const struct key_line KEYS[] = {
        { "python", "infer,sessions sessions=1" },
        { "narrow", "infer:demo in-flight=1" },
        { NULL, NULL },
    };
    char path[256], command[512];
    skip_without_numpy();
    tls_files_need();
    assert_true(tls_daemon_prepare());
    snprintf(path, sizeof path, "%s/keys", directory);
    key_file_write(path, KEYS);
    tls_daemon_start("--keys", path, "--session-memory-max", "1MiB", "--body-max", "4MiB", NULL);
    char *python = strdup(key_secret("python"));
    snprintf(command, sizeof command,
             "/usr/bin/python3 tests/deploy/python/access.py https://127.0.0.1:%d %s/server.pem %s "
             "%s 2>&1",
             server.port, directory, python, key_secret("narrow"));
    run(command);
    free(python);
    tls_daemon_stop();
}

TEST(client_torch)
{
    char command[256];
    struct daemon daemon;
    skip_without_numpy();
    skip_without_torch();
    daemon_start_with(&daemon, "--models", "examples/models", NULL);
    snprintf(command, sizeof command,
             "/usr/bin/python3 tests/deploy/python/torch_client.py http://127.0.0.1:%d 2>&1",
             daemon.port);
    run(command);
    daemon_stop(&daemon);
}

ALL_TESTS(set_up, tear_down);
