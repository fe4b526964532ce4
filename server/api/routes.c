/* routes.c - see routes.h. */
#include "api/routes.h"

#include "api/health.h"
#include "api/infer_handlers.h"
#include "api/models.h"
#include "api/oip_handlers.h"
#include "api/openapi.h"
#include "api/prometheus.h"
#include "api/softmax_handler.h"
#include "infer/call.h"
#include "watch/metrics.h"

/* Two rows: an endpoint of a model, and of one version of it. END is what the paths end with. */
#define OF_MODEL(METHOD, END, ...)                                                                 \
    { METHOD, "/v2/models/{model}" END, __VA_ARGS__ },                                             \
    {                                                                                              \
        METHOD, "/v2/models/{model}/versions/{version}" END, __VA_ARGS__                           \
    }

/* Under /v2 every answer is plain except those of inferences: tritonclient.http.aio asks for gzip
 * with every request, but unpacks the answers of inferences alone. */
struct route *routes_table(int *count)
{
    static struct route routes[] = {
        { "GET", "/livez", .handle = health_live, .health = true },
        { "GET", "/readyz", .handle = health_ready, .health = true },
        { "GET", "/metrics", .handle = prometheus_get, .health = true },
        { "GET", "/openapi.json", .handle = openapi_get },
        { "POST", "/v1/attention", .handle = infer_handle_attention,
          .takes_body = call_takes_body },
        { "POST", "/v1/attention/batch", .handle = infer_handle_batch,
          .takes_body = call_takes_body },
        { "POST", "/v1/softmax", .handle = softmax_handle, .takes_body = call_takes_body },
        { "POST", "/v1/attention/merge", .handle = infer_handle_merge,
          .takes_body = call_takes_body },
        { "POST", "/v1/attention/gradients", .handle = infer_handle_gradients,
          .takes_body = call_takes_body },
        OF_MODEL("POST", "/infer", .handle = infer_handle_oip, .takes_body = call_takes_body),
        { "GET", "/v1/models", .handle = models_list },
        { "GET", "/v1/models/{model}", .handle = models_get },
        { "PUT", "/v1/models/{model}", .handle = models_put },
        { "DELETE", "/v1/models/{model}", .handle = models_delete },
        { "GET", "/v2/health/live", .handle = health_live, .health = true, .plain = true },
        { "GET", "/v2/health/ready", .handle = health_ready, .health = true, .plain = true },
        { "GET", "/v2", .handle = oip_server_metadata, .plain = true },
        { "GET", "/v2/", .handle = oip_server_metadata, .plain = true },
        { "GET", "/v2/models", .handle = oip_server_models, .plain = true },
        { "GET", "/v2/models/stats", .handle = oip_statistics_all, .plain = true },
        OF_MODEL("GET", "", .handle = oip_model_metadata, .plain = true),
        OF_MODEL("GET", "/ready", .handle = oip_model_ready, .health = true, .plain = true),
        OF_MODEL("GET", "/config", .handle = oip_model_config, .plain = true),
        OF_MODEL("GET", "/stats", .handle = oip_statistics_one, .plain = true),
        { "POST", "/v2/repository/index", .handle = oip_repository_index, .plain = true },
        { "POST", "/v2/repository/models/{model}/load", .handle = oip_repository_load,
          .plain = true },
        { "POST", "/v2/repository/models/{model}/unload", .handle = oip_repository_unload,
          .plain = true },
        { "POST", "/v2/repository/{repository}/index", .handle = oip_repository_named,
          .plain = true },
        { "POST", "/v2/repository/{repository}/models/{model}/load", .handle = oip_repository_named,
          .plain = true },
        { "POST", "/v2/repository/{repository}/models/{model}/unload",
          .handle = oip_repository_named, .plain = true },
        { "GET", "/v2/logging", .handle = oip_logging_get, .plain = true },
        { "POST", "/v2/logging", .handle = oip_logging_set, .plain = true },
    };
    *count = sizeof routes / sizeof routes[0];
    for (int i = 0; i < *count; i++)
        routes[i].metrics_index = metrics_route(routes[i].method, routes[i].pattern);
    return routes;
}

int routes_unknown(void)
{
    return metrics_route("", "unknown");
}
