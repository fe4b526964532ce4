/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_page.c - server/explorer/pack-page, which makes one module and one style sheet of those
 * of the explorer: what it makes of each form of import and export, and what it refuses. */
#include "daemon.h"
#include "shell.h"
#include "test.h"

/* A small page in a folder of its own. Modules are arguments of printf: PATH TEXT... */
static const char PACK[] =
    "script=$PWD/server/explorer/pack-page && folder=$(mktemp -d) && cd $folder && "
    "mkdir -p server/explorer/app server/explorer/draw server/explorer/style && "
    "cd server/explorer && printf '%%s\\n' '<link rel=\"stylesheet\" "
    "href=\"explorer/style/page_a.css\">' >index.html && printf '/* a */\\na { }\\n' "
    ">style/page_a.css && "
    "printf '/* axis */\\nexport const axis = 1;\\n' >draw/axis.js && "
    "printf 'import { axis } from \"../draw/axis.js\";\\n' >app/main.js && "
    "%s && cd ../.. && "
    "{ $script made server/explorer/index.html server/explorer/*/* >said 2>&1 && echo packed || "
    "cat said; } && { cat made/app/main.js made/%s 2>&1 || true; } && rm -r $folder";

static const char *pack(const char *change, const char *show)
{
    char script[3000];
    assert_true(snprintf(script, sizeof script, PACK, change, show) < (int)sizeof script);
    return shell(script);
}

static void expect(const char *change, const char *show, const char *words)
{
    const char *said = pack(change, show);
    if (!strstr(said, words))
        fail_msg("%s\nsays\n%s\nexpected\n%s", change, said, words);
}

TEST(forms)
{
    expect("true", "style/page.css", "packed\nconst modules = {};\n");
    expect("true", "style/page.css", "\nexport { modules };\na { }\n");
    expect("true", "draw/axis.js",
           "import { modules } from '../app/main.js';\n"
           "export const { axis } = modules['draw/axis.js'];\n");
    expect("true", "draw/axis.js",
           "modules['draw/axis.js'] = (() => {\nconst axis = 1;\n"
           "return { axis };})();\n"
           "modules['app/main.js'] = (() => {"
           "const { axis } = modules['draw/axis.js'];\n");
    expect(
        "printf 'import {\\n    axis as first,\\n    axis,\\n} from\\n    \"./axis.js\";\\nexport "
        "function line() {}\\nexport async function late() {}\\nexport class Plot {}\\n' "
        ">draw/line.js",
        "draw/line.js",
        "(() => {const { axis: first, axis } = modules['draw/axis.js'];\n\n\n\n\n"
        "function line() {}\nasync function late() {}\nclass Plot {}\n"
        "return { line, late, Plot };})();\n");
    expect("printf 'export { axis as other } from \"./axis.js\";\\n' >draw/line.js", "draw/line.js",
           "return { other: modules['draw/axis.js'].axis };})();\n");
    expect("printf 'const a = 1;\\nexport { a, a as b };\\n' >draw/line.js", "draw/line.js",
           "return { a, b: a };})();\n");
    expect("mkdir vendor && printf '/* MIT */\\nvar a=1;export default function(b){return a+b}\\n' "
           ">vendor/one.js && printf 'import f from \"../vendor/one.js\";\\n' >draw/line.js",
           "vendor/one.js", "export default modules['vendor/one.js'].default;\n");
    expect("mkdir vendor && printf '/* MIT */\\nimport{b as n}from\"./two.js\";var a=n;export{a as "
           "c};\\n' >vendor/one.js && printf 'export const b = 1;\\n' >vendor/two.js",
           "vendor/one.js",
           "(() => {/* MIT */\nconst { b: n } = modules['vendor/two.js'];var a=n;\n\n"
           "return { c: a };})();\n");
}

/* A build ends with these words, and no page comes of it. */
TEST(refused)
{
    static const struct {
        const char *change, *says;
    } CASES[] = {
        { "printf 'export let a = 1;\\n' >draw/line.js",
          "draw/line.js: no form of import or export that is known here: export let a = 1;" },
        { "printf 'export default 1;\\n' >draw/line.js", "no form of import or export" },
        { "printf 'export const { a } = { a: 1 };\\n' >draw/line.js", "no form of import" },
        { "printf 'export * from \"./axis.js\";\\n' >draw/line.js", "no form of import" },
        { "printf 'import * as all from \"./axis.js\";\\n' >draw/line.js", "no form of import" },
        { "printf 'import \"./axis.js\";\\n' >draw/line.js", "no form of import or export" },
        { "printf 'const a = import(\"./axis.js\");\\n' >draw/line.js", "an import within code" },
        { "printf 'const a = import.meta.url;\\n' >draw/line.js", "an import within code" },
        { "printf 'import { a } from \"./none.js\";\\n' >draw/line.js",
          "draw/line.js imports from draw/none.js, which is not there" },
        { "printf 'import { a } from \"./axis.js\";\\n' >draw/line.js",
          "draw/line.js imports a from draw/axis.js, which exports no such name" },
        { "printf 'import { a } from \"https://a.example/a.js\";\\n' >draw/line.js",
          "draw/line.js imports from https://a.example/a.js" },
        { "printf 'export const a = 1;\\nexport const a = 2;\\n' >draw/line.js",
          "draw/line.js exports a twice" },
        { "printf 'import { a } from \"./dot.js\";\\nexport const b = 1;\\n' >draw/line.js && "
          "printf 'import { b } from \"./line.js\";\\nexport const a = 1;\\n' >draw/dot.js",
          "a circle of imports: draw/dot.js draw/line.js draw/dot.js" },
        { "printf '/* a\\n */ const a = 1;\\n' >draw/line.js", "code behind a comment" },
        { "printf 'b { }\\n' >style/page_b.css",
          "no line of index.html names server/explorer/style/page_b.css" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const char *said = pack(CASES[i].change, "app/main.js");
        if (strstr(said, "packed\n") || !strstr(said, CASES[i].says))
            fail_msg("%s\nsays\n%s", CASES[i].change, said);
    }
}

/* The page of the tree, packed twice. */
TEST(equal_bytes)
{
    shell("folder=$(mktemp -d) && files=$(ls server/explorer/index.html server/explorer/*/*.js "
          "server/explorer/*/*.css server/explorer/*/*.svg) && "
          "for name in one two; do server/explorer/pack-page $folder/$name $files || exit 1; done; "
          "diff -r $folder/one $folder/two && test -s $folder/one/app/main.js && rm -r $folder");
}

ALL_TESTS(NULL, NULL);
