/* openapi_calls.h - requests for each operation of the OpenAPI document, for test_openapi.c. */
#ifndef OPENAPI_CALLS_H
#define OPENAPI_CALLS_H

#include "openapi_document.h"

#define A        "/v1/attention"
#define E        "/explorer/{folder}/{file}"
#define M        "/v1/models/{model}"
#define T        "/v1/traces/{trace}"
#define T_IS     "/v1/traces/@"
#define O        "/v2/models/{model}"
#define V        O "/versions/{version}"
#define R        "/v2/repository/models/{model}/"
#define N        "/v2/repository/{repository}/"
#define S        "/v2/systemsharedmemory/"
#define C        "/v2/cudasharedmemory/"
#define AS_FILE  "Accept: application/x-safetensors"
#define QUERY    "\"query\":[[1,0,0],[0,1,0]]"
#define GRADIENT QUERY ",\"context_gradient\":[[1,0,0],[0,1,0]]}"
#define PARTS    "\"parts\":[{\"context\":[[[1,2,3]]],\"lse\":[[0]]}]}"
#define INFER                                                                                      \
    "{\"inputs\":[{\"name\":\"query\",\"shape\":[2,3],\"datatype\":\"FP32\","                      \
    "\"data\":[1,0,0,0,1,0]}]"
#define THE_CAT "\"model\":\"words\",\"text\":\"the cat sat\""
#define TYPED   "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"q_proj.weight\":[[1]]"

/* The calls run in this order. The first call of an operation is a good one if the operation has a
 * good answer. */
static const struct openapi_call calls[] = {
    { "GET", "/livez", NULL, 200, NULL, NULL },
    { "GET", "/readyz", NULL, 200, NULL, NULL },
    { "GET", "/v2/health/live", NULL, 200, NULL, NULL },
    { "GET", "/v2/health/ready", NULL, 200, NULL, NULL },
    { "GET", "/metrics", NULL, 200, NULL, NULL },
    { "GET", "/", NULL, 200, NULL, NULL },
    { "GET", "/", NULL, 304, NULL, "If-None-Match: *" },
    { "GET", E, "/explorer/app/main.js", 200, NULL, NULL },
    { "GET", E, "/explorer/style/layout.css", 200, NULL, NULL },
    { "GET", E, "/explorer/style/icon.svg", 200, NULL, NULL },
    { "GET", E, "/explorer/app/main.js", 304, NULL, "If-None-Match: *" },
    { "GET", E, "/explorer/app/nothing.js", 404, NULL, NULL },
    { "GET", "/openapi.json", NULL, 200, NULL, NULL },
    { "POST", A, NULL, 200, "{\"model\":\"demo\"," QUERY "}", NULL },
    { "POST", A, NULL, 200,
      "{\"model\":\"demo\"," QUERY ",\"mask\":[[true,false],[false,false]],\"outputs\":"
      "[\"context\",\"weights\",\"scores\",\"softcapped\",\"masked\",\"lse\"]}",
      NULL },
    { "POST", A, NULL, 200, "{\"model\":\"demo\"," QUERY ",\"weight_map\":{\"top_k\":1}}", NULL },
    { "POST", A, NULL, 200, "{\"model\":\"sdpa\"," QUERY ",\"partial\":true}", NULL },
    { "POST", A, NULL, 200, "{\"model\":\"demo\"," QUERY "}", AS_FILE },
    { "POST", A, NULL, 400, "{\"model\":\"demo\"}", NULL },
    { "POST", A, NULL, 404, "{\"model\":\"nobody\"," QUERY "}", NULL },
    { "POST", A "/batch", NULL, 200,
      "{\"model\":\"demo\",\"requests\":[{" QUERY "},{\"query\":[[1]]},{\"model\":\"no\"}]}",
      NULL },
    { "POST", A "/batch", NULL, 400, "{\"requests\":1}", NULL },
    { "POST", A "/gradients", NULL, 200, "{\"model\":\"demo\"," GRADIENT, NULL },
    { "POST", A "/gradients", NULL, 200,
      "{\"model\":\"sdpa\",\"mask\":[[1,2],[3,4]],\"key\":[[1,0,0],[0,1,0]]," GRADIENT, NULL },
    { "POST", A "/gradients", NULL, 200, "{\"model\":\"demo\"," GRADIENT, AS_FILE },
    { "POST", A "/gradients", NULL, 400, "{\"model\":\"demo\"," QUERY "}", NULL },
    { "POST", A "/gradients", NULL, 404, "{\"model\":\"nobody\"," GRADIENT, NULL },
    { "POST", A "/merge", NULL, 200, "{\"model\":\"demo\"," PARTS, NULL },
    { "POST", A "/merge", NULL, 200, "{\"model\":\"demo\"," PARTS, AS_FILE },
    { "POST", A "/merge", NULL, 400, "{\"model\":\"demo\",\"parts\":[]}", NULL },
    { "POST", A "/merge", NULL, 404, "{\"model\":\"nobody\"," PARTS, NULL },
    { "POST", "/v1/softmax", NULL, 200, "{\"input\":[[1,null],[3,4]],\"kv_len\":[1,2]}", NULL },
    { "POST", "/v1/softmax", NULL, 400, "{\"input\":[[1],[]]}", NULL },
    { "POST", "/v1/tokenize", NULL, 200, "{\"model\":\"words\",\"text\":\"the cats\"}", NULL },
    { "POST", "/v1/tokenize", NULL, 200,
      "{\"model\":\"words\",\"text\":\"the\",\"pair\":\"mat\",\"special\":true}", NULL },
    { "POST", "/v1/tokenize", NULL, 400, "{\"model\":\"demo\",\"text\":\"the\"}", NULL },
    { "POST", "/v1/tokenize", NULL, 404, "{\"model\":\"nobody\",\"text\":\"\"}", NULL },
    { "POST", "/v1/detokenize", NULL, 200, "{\"model\":\"words\",\"tokens\":[3,4,7]}", NULL },
    { "POST", "/v1/detokenize", NULL, 400, "{\"model\":\"words\",\"tokens\":[10]}", NULL },
    { "POST", "/v1/detokenize", NULL, 404, "{\"model\":\"nobody\",\"tokens\":[]}", NULL },
    { "POST", "/v1/trace", NULL, 200, "{" THE_CAT "}", NULL },
    { "POST", "/v1/trace", NULL, 200,
      "{" THE_CAT ",\"layers\":[1],\"outputs\":[\"weights\",\"lse\",\"scores\",\"masked\","
      "\"inputs\",\"hidden_states\",\"attention_output\",\"predictions\"],"
      "\"weight_map\":{\"top_k\":1},\"positions\":[-1]}",
      NULL },
    { "POST", "/v1/trace", NULL, 200,
      "{" THE_CAT ",\"spans\":[[0,1]],\"rows\":[-1],\"keep\":\"1s\"}", NULL },
    { "POST", "/v1/trace", NULL, 200, "{" THE_CAT "}", AS_FILE },
    { "POST", "/v1/trace", NULL, 400, "{\"model\":\"demo\",\"tokens\":[1]}", NULL },
    { "POST", "/v1/trace", NULL, 404, "{\"model\":\"nobody\",\"tokens\":[1]}", NULL },
    { "POST", "/v1/trace/batch", NULL, 200,
      "{\"requests\":[{" THE_CAT "},{" THE_CAT ",\"layers\":[9]},{\"model\":\"no\"}]}", NULL },
    { "POST", "/v1/trace/batch", NULL, 400, "{\"requests\":1}", NULL },
    { "GET", T, T_IS, 200, NULL, NULL },
    { "GET", T, "/v1/traces/nobody", 404, NULL, NULL },
    { "GET", T "/weights", T_IS "/weights?layer=1&head=0", 200, NULL, NULL },
    { "GET", T "/weights", T_IS "/weights?layer=1", 400, NULL, NULL },
    { "GET", T "/weights", "/v1/traces/nobody/weights?layer=1&head=0", 404, NULL, NULL },
    { "GET", T "/statistics", T_IS "/statistics", 200, NULL, NULL },
    { "GET", T "/statistics", T_IS "/statistics?layer=1", 400, NULL, NULL },
    { "GET", T "/statistics", "/v1/traces/nobody/statistics", 404, NULL, NULL },
    { "GET", T "/pair", T_IS "/pair?layer=1&head=0&row=1&key=0", 200, NULL, NULL },
    { "GET", T "/pair", T_IS "/pair?layer=1&head=0&row=1&key=2", 200, NULL, NULL },
    { "GET", T "/pair", T_IS "/pair?layer=1&head=0&row=1&key=99", 400, NULL, NULL },
    { "GET", T "/pair", "/v1/traces/nobody/pair?layer=1&head=0&row=1&key=0", 404, NULL, NULL },
    { "DELETE", T, T_IS, 204, NULL, NULL },
    { "DELETE", T, T_IS, 410, NULL, NULL },
    { "DELETE", T, "/v1/traces/nobody", 404, NULL, NULL },
    { "GET", T, T_IS, 410, NULL, NULL },
    { "GET", T "/weights", T_IS "/weights?layer=1&head=0", 410, NULL, NULL },
    { "GET", T "/statistics", T_IS "/statistics", 410, NULL, NULL },
    { "GET", T "/pair", T_IS "/pair?layer=1&head=0&row=1&key=0", 410, NULL, NULL },
    { "GET", "/v1/models", NULL, 200, NULL, NULL },
    { "GET", M, "/v1/models/kept", 200, NULL, NULL },
    { "GET", M, "/v1/models/broken", 200, NULL, NULL },
    { "GET", M, "/v1/models/nobody", 404, NULL, NULL },
    { "PUT", M, "/v1/models/new", 201, TYPED ",\"k_proj.weight\":[[2]]}}", NULL },
    { "PUT", M, "/v1/models/new", 200, TYPED ",\"k_proj.weight\":[[3]]}}", NULL },
    { "PUT", M, "/v1/models/new", 400, TYPED "}", NULL },
    { "PUT", M, "/v1/models/demo", 409, TYPED "}}", NULL },
    { "DELETE", M, "/v1/models/new", 204, NULL, NULL },
    { "DELETE", M, "/v1/models/new", 400, NULL, "X-Timeout-Ms: soon" },
    { "DELETE", M, "/v1/models/new", 404, NULL, NULL },
    { "DELETE", M, "/v1/models/demo", 409, NULL, NULL },
    { "GET", "/v2", NULL, 200, NULL, NULL },
    { "GET", "/v2/", NULL, 200, NULL, NULL },
    { "GET", "/v2/models", NULL, 200, NULL, NULL },
    { "GET", "/v2/models/stats", NULL, 200, NULL, NULL },
    { "GET", O, "/v2/models/demo", 200, NULL, NULL },
    { "GET", O, "/v2/models/sdpa", 200, NULL, NULL },
    { "GET", O, "/v2/models/nobody", 404, NULL, NULL },
    { "GET", V, "/v2/models/demo/versions/1", 200, NULL, NULL },
    { "GET", V, "/v2/models/demo/versions/2", 404, NULL, NULL },
    { "GET", O "/ready", "/v2/models/demo/ready", 200, NULL, NULL },
    { "GET", O "/ready", "/v2/models/broken/ready", 503, NULL, NULL },
    { "GET", O "/ready", "/v2/models/nobody/ready", 404, NULL, NULL },
    { "GET", V "/ready", "/v2/models/demo/versions/1/ready", 200, NULL, NULL },
    { "GET", V "/ready", "/v2/models/demo/versions/2/ready", 404, NULL, NULL },
    { "GET", O "/config", "/v2/models/demo/config", 200, NULL, NULL },
    { "GET", O "/config", "/v2/models/nobody/config", 404, NULL, NULL },
    { "GET", V "/config", "/v2/models/sdpa/versions/1/config", 200, NULL, NULL },
    { "GET", V "/config", "/v2/models/sdpa/versions/2/config", 404, NULL, NULL },
    { "GET", O "/stats", "/v2/models/demo/stats", 200, NULL, NULL },
    { "GET", O "/stats", "/v2/models/nobody/stats", 404, NULL, NULL },
    { "GET", V "/stats", "/v2/models/demo/versions/1/stats", 200, NULL, NULL },
    { "GET", V "/stats", "/v2/models/demo/versions/2/stats", 404, NULL, NULL },
    { "POST", O "/infer", "/v2/models/demo/infer", 200, INFER "}", NULL },
    { "POST", O "/infer", "/v2/models/demo/infer", 200,
      INFER ",\"id\":\"i\",\"parameters\":{\"binary_data_output\":true}}", NULL },
    { "POST", O "/infer", "/v2/models/demo/infer", 400, "{\"inputs\":[]}", NULL },
    { "POST", O "/infer", "/v2/models/nobody/infer", 404, INFER "}", NULL },
    { "POST", V "/infer", "/v2/models/demo/versions/1/infer", 200,
      INFER ",\"outputs\":[{\"name\":\"lse\",\"parameters\":{\"classification\":1}}]}", NULL },
    { "POST", V "/infer", "/v2/models/demo/versions/1/infer", 200,
      INFER ",\"parameters\":{\"binary_data_output\":true}}", NULL },
    { "POST", V "/infer", "/v2/models/demo/versions/1/infer", 400, "{}", NULL },
    { "POST", V "/infer", "/v2/models/demo/versions/2/infer", 404, INFER "}", NULL },
    { "POST", "/v2/repository/index", NULL, 200, "{\"ready\":false}", NULL },
    { "POST", "/v2/repository/index", NULL, 400, "{\"ready\":0}", NULL },
    { "POST", R "load", "/v2/repository/models/kept/load", 200, "{}", NULL },
    { "POST", R "load", "/v2/repository/models/broken/load", 400, "{}", NULL },
    { "POST", R "load", "/v2/repository/models/nobody/load", 404, "{}", NULL },
    { "POST", R "load", "/v2/repository/models/demo/load", 409, "{}", NULL },
    { "POST", R "unload", "/v2/repository/models/kept/unload", 200, "{}", NULL },
    { "POST", R "unload", "/v2/repository/models/kept/unload", 400, "[]", NULL },
    { "POST", R "unload", "/v2/repository/models/nobody/unload", 404, "{}", NULL },
    { "POST", R "unload", "/v2/repository/models/demo/unload", 409, "{}", NULL },
    { "POST", N "index", "/v2/repository/a/index", 404, "{}", NULL },
    { "POST", N "models/{model}/load", "/v2/repository/a/models/b/load", 404, "{}", NULL },
    { "POST", N "models/{model}/unload", "/v2/repository/a/models/b/unload", 404, "{}", NULL },
    { "POST", S "region/{region}/register", S "region/a/register", 200, openapi_region, NULL },
    { "POST", S "region/{region}/register", S "region/a/register", 409, openapi_region, NULL },
    { "POST", S "region/{region}/register", S "region/b/register", 400, "{}", NULL },
    { "POST", S "region/{region}/register", S "region/b/register", 404,
      "{\"key\":\"/attnd-test-nobody\",\"byte_size\":1}", NULL },
    { "GET", S "status", NULL, 200, NULL, NULL },
    { "GET", S "region/{region}/status", S "region/a/status", 200, NULL, NULL },
    { "GET", S "region/{region}/status", S "region/b/status", 404, NULL, NULL },
    { "POST", S "region/{region}/unregister", S "region/a/unregister", 200, "{}", NULL },
    { "POST", S "region/{region}/unregister", S "region/a/unregister", 400, "[]", NULL },
    { "POST", S "unregister", NULL, 200, "{}", NULL },
    { "POST", S "unregister", NULL, 400, "[]", NULL },
    { "GET", C "status", NULL, 200, NULL, NULL },
    { "GET", C "region/{region}/status", C "region/a/status", 404, NULL, NULL },
    { "POST", C "region/{region}/register", C "region/a/register", 400, "{}", NULL },
    { "POST", C "region/{region}/unregister", C "region/a/unregister", 200, "{}", NULL },
    { "POST", C "region/{region}/unregister", C "region/a/unregister", 400, "[]", NULL },
    { "POST", C "unregister", NULL, 200, "{}", NULL },
    { "POST", C "unregister", NULL, 400, "[]", NULL },
    { "GET", "/v2/logging", NULL, 200, NULL, NULL },
    { "POST", "/v2/logging", NULL, 200, "{\"log_verbose_level\":0}", NULL },
    { "POST", "/v2/logging", NULL, 400, "{\"log_file\":\"x\"}", NULL },
};

/* To a daemon with --explorer off. */
static const struct openapi_call explorer_off = { "GET", "/", NULL, 404, NULL, NULL };

enum { CALL_COUNT = sizeof(calls) / sizeof(calls[0]) };

#endif
