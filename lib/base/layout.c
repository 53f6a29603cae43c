#include "base/layout.h"

#include <string.h>

int mf_obs_rank(const struct mf_obs *o)
{
    int rank = 0;
    while (rank < MF_OBS_RANK && o->dim[rank])
        rank++;
    return rank;
}

int mf_obs_size(const struct mf_obs *o)
{
    int size = 1;
    for (int i = 0; i < mf_obs_rank(o); i++)
        size *= o->dim[i];
    return size;
}

bool mf_layout_add(struct mf_layout *l, const struct mf_obs *o)
{
    if (l->n == MF_OBS_KEYS)
        return false;
    l->key[l->n++] = *o;
    l->dim += mf_obs_size(o);
    return true;
}

int mf_layout_column(const struct mf_layout *l, const char *name)
{
    for (int i = 0, at = 0; i < l->n; at += mf_obs_size(&l->key[i++]))
        if (!strcmp(l->key[i].name, name))
            return at;
    return -1;
}

bool mf_obs_is_cloud(const struct mf_obs *o)
{
    return mf_obs_rank(o) == 2 && !o->u8;
}

void mf_layout_points(struct mf_layout *l, int n)
{
    for (int i = 0; i < l->n; i++)
        if (mf_obs_is_cloud(&l->key[i])) {
            l->dim += (n - l->key[i].dim[0]) * l->key[i].dim[1];
            l->key[i].dim[0] = n;
        }
}
