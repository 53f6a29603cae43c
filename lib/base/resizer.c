#include "base/resize.h"

#include <string.h>

bool mf_obs_is_resizable(const struct mf_obs *o)
{
    return mf_obs_is_picture(o) && o->u8 && o->dim[2] == 3;
}

void mf_layout_side(struct mf_layout *l, int side)
{
    struct mf_layout sized = {0};
    for (int i = 0; i < l->n; i++) {
        struct mf_obs o = l->key[i];
        if (side && mf_obs_is_resizable(&o))
            o.dim[0] = o.dim[1] = side;
        mf_layout_add(&sized, &o);
    }
    *l = sized;
}

int mf_resizer_init(struct mf_resizer *r, const struct mf_layout *from, const struct mf_layout *to, bool turn,
                    struct mf_err *err)
{
    int rc = 0;
    *r = (struct mf_resizer){.from = *from};
    for (int i = 0; i < to->n && !rc; i++) {
        const struct mf_obs *a = &from->key[i], *b = &to->key[i];
        const bool same = !memcmp(a->dim, b->dim, sizeof a->dim),
                   color = mf_obs_is_resizable(a) && mf_obs_is_resizable(b);
        char was[64], is[64];
        if (color && (turn || !same))
            rc = mf_resize_init(&r->key[i], a->dim[0], a->dim[1], b->dim[0], b->dim[1], turn, err);
        else if (!same)
            rc = mf_err_set(err, MF_EUSAGE,
                            "the observation '%s' is %s, and the policy reads %s: only color pictures are resized",
                            a->name, mf_obs_shape(a, was), mf_obs_shape(b, is));
        r->changes |= color && (turn || !same);
    }
    if (rc)
        mf_resizer_release(r);
    return rc;
}

void mf_resizer_release(struct mf_resizer *r)
{
    for (int i = 0; i < r->from.n; i++)
        mf_resize_release(&r->key[i]);
    *r = (struct mf_resizer){0};
}

void mf_resizer_pack(struct mf_resizer *r, int k, const struct mf_obs *as, const void *elements, float *flat)
{
    struct mf_resize *resize = &r->key[k];
    if (!resize->h) {
        mf_obs_pack(as, elements, flat);
        return;
    }
    flat[((size_t)resize->H * (size_t)resize->W * 3 - 1) / sizeof *flat] = 0; /* the bytes behind a packed picture */
    mf_resize_bytes(resize, elements, (uint8_t *)flat);
}
