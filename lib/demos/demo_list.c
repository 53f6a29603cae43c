#include "demos/demo_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct mf_demo *)a)->id, y = ((const struct mf_demo *)b)->id;
    return (x > y) - (x < y);
}

static bool parse_name(struct mf_demo *demo, const char *name)
{
    int end = 0;
    return strlen(name) < sizeof demo->name && sscanf(name, "demo_%" SCNd64 "%n", &demo->id, &end) == 1 && !name[end] &&
           strcpy(demo->name, name);
}

/* The file's content helps a user who mistook another layout for robomimic's. */
static int no_data(hid_t file, const char *path, struct mf_err *err)
{
    struct mf_h5_names list;
    char there[200] = "";
    if (mf_h5_list(file, "/", &list, err))
        return mf_err_at(err, "'%s'", path);
    mf_h5_join(&list, there, sizeof there);
    mf_h5_free_names(&list);
    return mf_err_set(err, MF_EFORMAT,
                      "'%s' has no /data, so it holds no demonstrations in robomimic's layout; at its top there is: %s",
                      path, *there ? there : "nothing");
}

/* The names of the demos: those of the filter, or all. */
static int names(hid_t file, const char *path, const char *filter, struct mf_h5_names *list, struct mf_err *err)
{
    int has = mf_h5_has(file, "data", err);
    if (has <= 0)
        return has < 0 ? mf_err_at(err, "'%s'", path) : no_data(file, path, err);
    if (!filter) {
        int rc = mf_h5_list(file, "data", list, err);
        return rc ? mf_err_at(err, "'%s'", path) : 0;
    }
    char mask[256], there[300] = "none";
    snprintf(mask, sizeof mask, "mask/%s", filter);
    if ((has = mf_h5_has(file, mask, err)) > 0)
        has = mf_h5_read_strings(file, mask, list, err) ? -1 : 1;
    if (has)
        return has < 0 ? mf_err_at(err, "'%s'", path) : 0;
    if (mf_h5_has(file, "mask", err) > 0 && mf_h5_list(file, "mask", list, err) == 0) {
        mf_h5_join(list, there, sizeof there);
        mf_h5_free_names(list);
    }
    return mf_err_set(err, MF_EUSAGE, "'%s' has no filter key '%s'; it has: %s", path, filter, there);
}

int mf_demo_list(hid_t file, const char *path, const char *filter, struct mf_demo **demo, size_t *n, struct mf_err *err)
{
    struct mf_h5_names list = {0};
    int rc = names(file, path, filter, &list, err);
    if (rc)
        return rc;
    *demo = mf_xcalloc(list.n + 1, sizeof **demo);
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        char at[64];
        if (!parse_name(&(*demo)[*n], list.name[i]))
            continue; /* /data may hold other groups */
        snprintf(at, sizeof at, "data/%s", list.name[i]);
        if ((rc = mf_h5_has(file, at, err)) < 0)
            mf_err_at(err, "'%s'", path);
        else
            rc = rc ? 0
                    : mf_err_set(err, MF_EFORMAT, "'%s': filter key '%s' names %s, which is not in /data", path, filter,
                                 list.name[i]);
        ++*n;
    }
    mf_h5_free_names(&list);
    if (rc == 0 && *n == 0)
        rc = mf_err_set(err, MF_EFORMAT, "'%s' holds no demo_<number>%s%s", path, filter ? " under filter key " : "",
                        filter ? filter : "");
    qsort(*demo, *n, sizeof **demo, by_id);
    return rc;
}

int mf_demo_has_obs(hid_t file, const char *path, const struct mf_demo *demo, struct mf_err *err)
{
    char at[160];
    snprintf(at, sizeof at, "data/%s/obs", demo->name);
    int has = mf_h5_has(file, at, err);
    if (has)
        return has < 0 ? mf_err_at(err, "'%s'", path) : 0;
    snprintf(at, sizeof at, "data/%s/states", demo->name);
    if (mf_h5_has(file, at, err) > 0)
        return mf_err_set(err, MF_EFORMAT,
                          "'%s' holds simulator states and no observations (a raw robosuite recording): convert "
                          "it with python -m robomimic.scripts.dataset_states_to_obs --dataset FILE --output_name "
                          "low_dim.hdf5 --done_mode 2",
                          path);
    return mf_err_set(err, MF_EFORMAT, "'%s': %s has no obs", path, demo->name);
}
