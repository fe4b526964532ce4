/* routes.c - see routes.h. */
#include "routes.h"

#include "health.h"
#include "infer_handlers.h"
#include "metrics.h"
#include "models.h"
#include "oip_handlers.h"
#include "openapi.h"
#include "softmax_handler.h"

/* Under /v2 all but inferences is plain: tritonclient.http.aio asks for gzip with everything that
 * it sends, and unpacks nothing else. */
struct route *routes_table(int *count)
{
    static struct route routes[] = {
        { "GET", "/livez", health_live, true, 0, NULL, false },
        { "GET", "/readyz", health_ready, true, 0, NULL, false },
        { "GET", "/metrics", health_metrics, true, 0, NULL, false },
        { "GET", "/openapi.json", openapi_get, false, 0, NULL, false },
        { "POST", "/v1/attention", infer_handle_attention, false, 0, infer_takes_body, false },
        { "POST", "/v1/attention/batch", infer_handle_batch, false, 0, infer_takes_body, false },
        { "POST", "/v1/softmax", softmax_handle, false, 0, infer_takes_body, false },
        { "POST", "/v1/attention/merge", infer_handle_merge, false, 0, infer_takes_body, false },
        { "POST", "/v1/attention/gradients", infer_handle_gradients, false, 0, infer_takes_body,
          false },
        { "POST", "/v2/models/{model}/infer", infer_handle_oip, false, 0, infer_takes_body, false },
        { "POST", "/v2/models/{model}/versions/{version}/infer", infer_handle_oip, false, 0,
          infer_takes_body, false },
        { "GET", "/v1/models", models_list, false, 0, NULL, false },
        { "GET", "/v1/models/{model}", models_get, false, 0, NULL, false },
        { "PUT", "/v1/models/{model}", models_put, false, 0, NULL, false },
        { "DELETE", "/v1/models/{model}", models_delete, false, 0, NULL, false },
        { "GET", "/v2/health/live", health_live, true, 0, NULL, true },
        { "GET", "/v2/health/ready", health_ready, true, 0, NULL, true },
        { "GET", "/v2", oip_server_metadata, false, 0, NULL, true },
        { "GET", "/v2/", oip_server_metadata, false, 0, NULL, true },
        { "GET", "/v2/models", oip_server_models, false, 0, NULL, true },
        { "GET", "/v2/models/stats", oip_statistics_all, false, 0, NULL, true },
        { "GET", "/v2/models/{model}", oip_model_metadata, false, 0, NULL, true },
        { "GET", "/v2/models/{model}/versions/{version}", oip_model_metadata, false, 0, NULL,
          true },
        { "GET", "/v2/models/{model}/ready", oip_model_ready, true, 0, NULL, true },
        { "GET", "/v2/models/{model}/versions/{version}/ready", oip_model_ready, true, 0, NULL,
          true },
        { "GET", "/v2/models/{model}/config", oip_model_config, false, 0, NULL, true },
        { "GET", "/v2/models/{model}/versions/{version}/config", oip_model_config, false, 0, NULL,
          true },
        { "GET", "/v2/models/{model}/stats", oip_statistics_one, false, 0, NULL, true },
        { "GET", "/v2/models/{model}/versions/{version}/stats", oip_statistics_one, false, 0, NULL,
          true },
        { "POST", "/v2/repository/index", oip_repository_index, false, 0, NULL, true },
        { "POST", "/v2/repository/models/{model}/load", oip_repository_load, false, 0, NULL, true },
        { "POST", "/v2/repository/models/{model}/unload", oip_repository_unload, false, 0, NULL,
          true },
        { "POST", "/v2/repository/{repository}/index", oip_repository_named, false, 0, NULL, true },
        { "POST", "/v2/repository/{repository}/models/{model}/load", oip_repository_named, false, 0,
          NULL, true },
        { "POST", "/v2/repository/{repository}/models/{model}/unload", oip_repository_named, false,
          0, NULL, true },
        { "GET", "/v2/logging", oip_logging_get, false, 0, NULL, true },
        { "POST", "/v2/logging", oip_logging_set, false, 0, NULL, true },
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
