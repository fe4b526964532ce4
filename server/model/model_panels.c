/* model_panels.c - see model_panels.h.
 *
 * One lock for all, held for moments: a panel is filled without it, and who else
 * needs that panel waits. Memory is reserved with mmap() and given back with
 * madvise(), after which it reads as zero until it is filled again. */
#include "model/model_panels.h"

#include "watch/metrics.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum panel_state { EMPTY, FILLING, FILLED };

struct model_panel {
    float *values;
    size_t bytes;
    struct model_panel_source source;
    enum panel_state state;
    int64_t holders;
    struct model_panel *older, *newer; /* in the list of those that are filled and not held */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct model_panel *oldest, *newest;
static size_t bytes_filled, bytes_most;

/* ------------------------------------------------- making a model's panels -- */

void model_panel_read(float *values, const struct model_panel_source *source)
{
    const size_t size = attn_dtype_size(source->dtype);
    for (int64_t row = 0; row < source->rows; row++)
        dtype_read(values + row * source->together,
                   (const char *)source->bytes
                       + (size_t)(source->first + row * source->step) * size,
                   source->dtype, (size_t)source->together);
}

static bool reserve(struct model_panels *panels)
{
    if (panels->count < panels->capacity)
        return true;
    const int64_t capacity = panels->capacity ? 2 * panels->capacity : 16;
    struct model_panel **grown = realloc(panels->panels, (size_t)capacity * sizeof(void *));
    if (!grown)
        return false;
    panels->panels = grown;
    panels->capacity = capacity;
    return true;
}

/* MAP_NORESERVE: that all panels together are larger than the memory is what this is for. */
const float *model_panels_add(struct model_panels *panels, const struct model_panel_source *source)
{
    const size_t bytes = (size_t)(source->rows * source->together) * sizeof(float);
    struct model_panel *panel = reserve(panels) ? calloc(1, sizeof *panel) : NULL;
    void *values = panel ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                         : MAP_FAILED;
    if (values == MAP_FAILED) {
        free(panel);
        return NULL;
    }
    *panel = (struct model_panel){ .values = values, .bytes = bytes, .source = *source };
    panels->panels[panels->count++] = panel;
    return values;
}

static int compare(const void *left, const void *right)
{
    const uintptr_t a = (uintptr_t)(*(struct model_panel *const *)left)->values;
    const uintptr_t b = (uintptr_t)(*(struct model_panel *const *)right)->values;
    return (a > b) - (a < b);
}

void model_panels_sort(struct model_panels *panels)
{
    if (panels->count > 0)
        qsort(panels->panels, (size_t)panels->count, sizeof(struct model_panel *), compare);
}

/* The panel that an address is in; NULL where it is in none. */
static struct model_panel *find(const struct model_panels *panels, const void *address)
{
    int64_t low = 0, high = panels->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        struct model_panel *panel = panels->panels[middle];
        if ((uintptr_t)address < (uintptr_t)panel->values)
            high = middle;
        else if ((uintptr_t)address >= (uintptr_t)panel->values + panel->bytes)
            low = middle + 1;
        else
            return panel;
    }
    return NULL;
}

/* ---------------------------------------------------------- under the lock -- */

static void put_in_list(struct model_panel *panel)
{
    panel->older = newest;
    panel->newer = NULL;
    *(newest ? &newest->newer : &oldest) = panel;
    newest = panel;
}

static void take_from_list(struct model_panel *panel)
{
    *(panel->older ? &panel->older->newer : &oldest) = panel->newer;
    *(panel->newer ? &panel->newer->older : &newest) = panel->older;
}

static void set_filled(size_t bytes)
{
    bytes_filled = bytes;
    metrics_gauge_set(METRICS_CONVERTED_BYTES, (int64_t)bytes);
}

static void empty(struct model_panel *panel)
{
    take_from_list(panel);
    madvise(panel->values, panel->bytes, MADV_DONTNEED);
    panel->state = EMPTY;
    set_filled(bytes_filled - panel->bytes);
}

static bool make_room(size_t bytes)
{
    while (bytes_most > 0 && bytes_filled + bytes > bytes_most && oldest)
        empty(oldest);
    return bytes_most == 0 || bytes_filled + bytes <= bytes_most;
}

static bool hold(struct model_panel *panel, struct fault *fault)
{
    while (panel->state == FILLING)
        pthread_cond_wait(&filled, &lock);
    if (panel->state == EMPTY) {
        if (!make_room(panel->bytes))
            return fault_set(fault, FAULT_MEMORY,
                             "parameters that requests use take %zu bytes of --model-memory-max "
                             "%zu; %zu more are needed",
                             bytes_filled, bytes_most, panel->bytes);
        set_filled(bytes_filled + panel->bytes);
        panel->state = FILLING;
        pthread_mutex_unlock(&lock);
        model_panel_read(panel->values, &panel->source);
        pthread_mutex_lock(&lock);
        panel->state = FILLED;
        pthread_cond_broadcast(&filled);
    } else if (panel->holders == 0) {
        take_from_list(panel);
    }
    panel->holders++;
    return true;
}

static void drop(struct model_panel *panel)
{
    if (--panel->holders == 0)
        put_in_list(panel);
}

/* ------------------------------------------------------------ for requests -- */

bool model_panels_hold(const struct model_panels *panels, const void *const *addresses, int count,
                       struct fault *fault)
{
    if (panels->count == 0)
        return true;
    bool good = true;
    pthread_mutex_lock(&lock);
    for (int i = 0; good && i < count; i++) {
        struct model_panel *panel = find(panels, addresses[i]);
        good = !panel || hold(panel, fault);
        for (int j = 0; !good && j < i; j++)
            if ((panel = find(panels, addresses[j])))
                drop(panel);
    }
    pthread_mutex_unlock(&lock);
    return good;
}

void model_panels_drop(const struct model_panels *panels, const void *const *addresses, int count)
{
    if (panels->count == 0)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        struct model_panel *panel = find(panels, addresses[i]);
        if (panel)
            drop(panel);
    }
    pthread_mutex_unlock(&lock);
}

void model_panels_free(struct model_panels *panels)
{
    pthread_mutex_lock(&lock);
    for (int64_t i = 0; i < panels->count; i++)
        if (panels->panels[i]->state == FILLED)
            empty(panels->panels[i]);
    pthread_mutex_unlock(&lock);
    for (int64_t i = 0; i < panels->count; i++) {
        munmap(panels->panels[i]->values, panels->panels[i]->bytes);
        free(panels->panels[i]);
    }
    free(panels->panels);
    *panels = (struct model_panels){ .panels = NULL };
}

void model_panels_limit(size_t bytes_max)
{
    pthread_mutex_lock(&lock);
    bytes_most = bytes_max;
    make_room(0);
    pthread_mutex_unlock(&lock);
}

size_t model_panels_bytes(void)
{
    pthread_mutex_lock(&lock);
    const size_t bytes = bytes_filled;
    pthread_mutex_unlock(&lock);
    return bytes;
}
