/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c - see routes.h. */
#include "api/routes.h"

#include "api/health.h"
#include "api/models.h"
#include "api/oip_handlers.h"
#include "api/openapi.h"
#include "api/prometheus.h"
#include "api/requests.h"
#include "api/sessions.h"
#include "api/traces.h"
#include "call/call.h"
#include "call/disk_job.h"
#include "explorer/page.h"
#include "operations/oip.h"
#include "operations/operations.h"
#include "operations/sessions.h"
#include "telemetry/metrics.h"
#include "telemetry/metrics_inference.h"

/* A row of the table. A row without a scope, the name of an enum access_scope without its prefix,
 * does not compile. */
#define ROUTE(METHOD, PATTERN, SCOPE, ...)                                                         \
    {                                                                                              \
        .method = METHOD, .pattern = PATTERN, .scope = ACCESS_##SCOPE, __VA_ARGS__                 \
    }

/* Two rows: an endpoint of a model, and of one version of it. END is what the paths end with. */
#define OF_MODEL(METHOD, END, SCOPE, ...)                                                          \
    ROUTE(METHOD, "/v2/models/{model}" END, SCOPE, __VA_ARGS__),                                   \
        ROUTE(METHOD, "/v2/models/{model}/versions/{version}" END, SCOPE, __VA_ARGS__)

/* Five rows: the regions of one kind of shared memory. */
#define OF_REGIONS(PATH, NAME, UNREGISTER_ONE)                                                     \
    ROUTE("GET", PATH "/status", REGIONS, .handle = NAME##_status, .plain = true),                 \
        ROUTE("GET", PATH "/region/{region}/status", REGIONS, .handle = NAME##_status_one,         \
              .plain = true),                                                                      \
        ROUTE("POST", PATH "/region/{region}/register", REGIONS, .handle = NAME##_register,        \
              .plain = true),                                                                      \
        ROUTE("POST", PATH "/region/{region}/unregister", REGIONS, .handle = (UNREGISTER_ONE),     \
              .plain = true),                                                                      \
        ROUTE("POST", PATH "/unregister", REGIONS, .handle = NAME##_unregister, .plain = true)

/* The handler of an operation, and its row. */
#define HANDLER(METHOD, PATTERN, SCOPE, OPERATION)                                                 \
    static void handle_##OPERATION(struct exchange *exchange)                                      \
    {                                                                                              \
        operation_handle(exchange, &(OPERATION));                                                  \
    }
#define COMPUTED(METHOD, PATTERN, SCOPE, OPERATION)                                                \
    ROUTE(METHOD, PATTERN, SCOPE, .handle = handle_##OPERATION, .takes_body = call_takes_body),

OPERATION_MAP(HANDLER)
HANDLER("POST", "/infer", INFER, oip_infer)

/* Each route whose calls are counted has a place: those of operations, two of the Open Inference
 * Protocol, and six of sessions. */
#define COUNTED(METHOD, PATTERN, SCOPE, OPERATION) COUNTED_##OPERATION,
enum { OPERATION_MAP(COUNTED) COUNTED_OPERATIONS };
_Static_assert(COUNTED_OPERATIONS + 2 + 6 <= METRICS_ENDPOINTS_MAX, "METRICS_ENDPOINTS_MAX");

/* Under /v2 every answer is plain except those of inferences: tritonclient.http.aio asks for gzip
 * with every request, but unpacks the answers of inferences alone. */
static struct route routes[] = {
    ROUTE("GET", "/livez", OPEN, .handle = health_live, .health = true),
    ROUTE("GET", "/readyz", OPEN, .handle = health_ready, .health = true),
    ROUTE("GET", "/metrics", METRICS, .handle = prometheus_get, .health = true),
    ROUTE("GET", "/", OPEN, .handle = page_get, .framed = true),
    ROUTE("GET", "/explorer/{folder}/{file}", OPEN, .handle = page_file_get),
    ROUTE("GET", "/docs/{page}", OPEN, .handle = page_docs_get),
    ROUTE("GET", "/openapi.json", ANY, .handle = openapi_get),
    /* clang-format off */
    OPERATION_MAP(COMPUTED)
    /* clang-format on */
    ROUTE("GET", "/v1/requests/{request}", INFER, .handle = requests_get),
    ROUTE("GET", "/v1/traces", INFER, .handle = traces_list),
    ROUTE("GET", "/v1/traces/{trace}", INFER, .handle = traces_get),
    ROUTE("PATCH", "/v1/traces/{trace}", INFER, .handle = traces_renew),
    ROUTE("DELETE", "/v1/traces/{trace}", INFER, .handle = traces_delete),
    ROUTE("GET", "/v1/traces/{trace}/weights", INFER, .handle = traces_weights),
    ROUTE("GET", "/v1/traces/{trace}/statistics", INFER, .handle = traces_statistics),
    ROUTE("GET", "/v1/traces/{trace}/rollout", INFER, .handle = traces_rollout),
    ROUTE("GET", "/v1/traces/{trace}/pair", INFER, .handle = traces_pair),
    ROUTE("GET", "/v1/traces/{trace}/pairs", INFER, .handle = traces_pairs),
    ROUTE("POST", "/v1/sessions", SESSIONS, .handle = sessions_create,
          .takes_body = call_takes_body, .audited = true),
    ROUTE("GET", "/v1/sessions", SESSIONS, .handle = sessions_list),
    ROUTE("POST", "/v1/sessions:drain", ADMIN, .handle = sessions_drain,
          .takes_body = disk_job_takes_body, .audited = true),
    ROUTE("GET", "/v1/sessions/{session}", SESSIONS, .handle = sessions_get, .plain = true),
    ROUTE("PUT", "/v1/sessions/{session}", SESSIONS, .handle = sessions_put,
          .takes_body = call_takes_body, .audited = true),
    ROUTE("PATCH", "/v1/sessions/{session}", SESSIONS, .handle = sessions_change,
          .takes_body = call_takes_body, .audited = true),
    ROUTE("DELETE", "/v1/sessions/{session}", SESSIONS, .handle = sessions_delete,
          .takes_body = call_takes_body, .audited = true),
    ROUTE("POST", "/v1/sessions/{session}/fork", SESSIONS, .handle = sessions_fork,
          .takes_body = call_takes_body, .audited = true),
    ROUTE("POST", "/v1/sessions/{session}/truncate", SESSIONS, .handle = sessions_truncate,
          .takes_body = call_takes_body),
    OF_MODEL("POST", "/infer", INFER, .handle = handle_oip_infer, .takes_body = call_takes_body),
    ROUTE("GET", "/v1/models", INFER, .handle = models_list),
    ROUTE("GET", "/v1/models/{model}", INFER, .handle = models_get),
    ROUTE("PUT", "/v1/models/{model}", MODELS, .handle = models_put,
          .takes_body = disk_job_takes_body),
    ROUTE("DELETE", "/v1/models/{model}", MODELS, .handle = models_delete,
          .takes_body = disk_job_takes_body),
    ROUTE("GET", "/v2/health/live", OPEN, .handle = health_live, .health = true, .plain = true),
    ROUTE("GET", "/v2/health/ready", OPEN, .handle = health_ready, .health = true, .plain = true),
    ROUTE("GET", "/v2", ANY, .handle = oip_server_metadata, .plain = true),
    ROUTE("GET", "/v2/", ANY, .handle = oip_server_metadata, .plain = true),
    ROUTE("GET", "/v2/models", INFER, .handle = oip_server_models, .plain = true),
    ROUTE("GET", "/v2/models/stats", METRICS, .handle = oip_statistics_all, .plain = true),
    OF_MODEL("GET", "", INFER, .handle = oip_model_metadata, .plain = true),
    OF_MODEL("GET", "/ready", INFER, .handle = oip_model_ready, .health = true, .plain = true),
    OF_MODEL("GET", "/config", INFER, .handle = oip_model_config, .plain = true),
    OF_MODEL("GET", "/stats", METRICS, .handle = oip_statistics_one, .plain = true),
    ROUTE("POST", "/v2/repository/index", INFER, .handle = oip_repository_index, .plain = true),
    ROUTE("POST", "/v2/repository/models/{model}/load", MODELS, .handle = oip_repository_load,
          .takes_body = disk_job_takes_body, .plain = true),
    ROUTE("POST", "/v2/repository/models/{model}/unload", MODELS, .handle = oip_repository_unload,
          .takes_body = disk_job_takes_body, .plain = true),
    ROUTE("POST", "/v2/repository/{repository}/index", INFER, .handle = oip_repository_named,
          .plain = true),
    ROUTE("POST", "/v2/repository/{repository}/models/{model}/load", MODELS,
          .handle = oip_repository_named, .plain = true),
    ROUTE("POST", "/v2/repository/{repository}/models/{model}/unload", MODELS,
          .handle = oip_repository_named, .plain = true),
    OF_REGIONS("/v2/systemsharedmemory", oip_shared_memory, oip_shared_memory_unregister_one),
    OF_REGIONS("/v2/cudasharedmemory", oip_cuda_memory, oip_cuda_memory_unregister),
    ROUTE("GET", "/v2/logging", ADMIN, .handle = oip_logging_get, .plain = true),
    ROUTE("POST", "/v2/logging", ADMIN, .handle = oip_logging_set, .plain = true),
};

struct route *routes_table(int *count)
{
    *count = sizeof routes / sizeof routes[0];
    for (int i = 0; i < *count; i++)
        routes[i].metrics_index = metrics_route(routes[i].method, routes[i].pattern);
    return routes;
}

int routes_unknown(void)
{
    return metrics_route("", "unknown");
}
