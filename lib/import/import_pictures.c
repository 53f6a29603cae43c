/* import_pictures.c - policies with pictures: which encoder a file has, its sizes, and the pictures of the observation.
 * Color comes before depth and depth before states, each in the order of policy.obs_keys or of the environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "flow/spec.h"
#include "import/import_families.h"
#include "nn/encoder.h"

/* ---- encoders ---- */

static const char plain_first[] = "visual_encoder.cnn.0.weight",
                  nature_first[] = "feature_net.extractors.rgb.0.0.weight";

static int plain_conv(const struct mf_import *im, struct mf_net_spec *net, struct mf_pictured *found)
{
    const int in = mf_import_dim(im, "visual_encoder.fc.0.weight", 1),
              last = mf_import_dim(im, "visual_encoder.cnn.12.weight", 0);
    net->encoder_dim = mf_import_dim(im, "visual_encoder.fc.0.weight", 0);
    net->pool_map = in == last;
    *found = (struct mf_pictured){.channels = mf_import_dim(im, plain_first, 1),
                                  .width = net->encoder_dim,
                                  .side = 128,
                                  .camera = {1, {"base_camera"}}};
    for (int i = 1; !net->pool_map && last && i <= in / last / i; i++) /* a square map, after four halvings */
        if (i * i * last == in)
            found->side = 16 * i;
    found->sure = !net->pool_map;
    return found->channels;
}

static int nature(const struct mf_import *im, struct mf_net_spec *net, struct mf_pictured *found)
{
    static const char *const name[] = {nature_first, "feature_net.extractors.rgb.0.2.weight",
                                       "feature_net.extractors.rgb.0.4.weight"};
    net->encoder_dim = mf_import_dim(im, "feature_net.extractors.rgb.1.0.weight", 0);
    net->state_dim = mf_import_dim(im, "feature_net.extractors.state.weight", 0);
    net->n_channels = 3;
    for (int i = 0; i < 3; i++)
        net->channels[i] = mf_import_dim(im, name[i], 0);
    *found = (struct mf_pictured){.channels = mf_import_dim(im, nature_first, 1),
                                  .width = net->encoder_dim,
                                  .side = 128,
                                  .camera = {1, {"base_camera"}}};
    return found->channels;
}

int mf_import_encoder(struct mf_import *im, struct mf_net_spec *net, const struct mf_import_world *w,
                      struct mf_pictured *found, struct mf_err *err)
{
    const bool plain = mf_import_dim(im, plain_first, 1) > 0;
    *found = (struct mf_pictured){0};
    if (mf_import_has_resnet(im))
        return mf_import_resnet(im, net, w, found, err);
    if (plain && plain_conv(im, net, found))
        return mf_encoder_find(&net->encoder, "plain_conv", err);
    if (!plain && nature(im, net, found))
        return mf_encoder_find(&net->encoder, "nature", err);
    return 0;
}

/* ---- observations ---- */

static bool is_depth(const char *name)
{
    return mf_ends(name, "_depth");
}

static bool is_color(const char *name)
{
    return mf_ends(name, "_image") || mf_ends(name, "_rgb");
}

/* Color, then depth, then states. */
static void pictures_first(struct mf_layout *l)
{
    struct mf_layout to = {0};
    for (int part = 0; part < 3; part++)
        for (int i = 0; i < l->n; i++) {
            const struct mf_obs *o = &l->key[i];
            if (part == (!mf_obs_is_picture(o) ? 2 : o->dim[2] == 1))
                mf_layout_add(&to, o);
        }
    *l = to;
}

static int add_picture(const struct mf_import *im, struct mf_layout *l, const char *name, int side, bool depth,
                       struct mf_err *err)
{
    struct mf_obs o = {.dim = {side, side, depth ? 1 : 3}, .u8 = !depth};
    snprintf(o.name, sizeof o.name, "%.63s", name);
    return mf_import_add(im, l, &o, err);
}

/* Cameras of so many channels: three of color each, and one of depth where they do not divide by three. */
static int name_cameras(const struct mf_import *im, const struct mf_pictured *found, int side, struct mf_layout *l,
                        struct mf_err *err)
{
    static const char *const second[] = {"hand_camera", "third_camera", "fourth_camera"};
    const bool depth = found->channels % 3 != 0;
    const int n = found->channels / (depth ? 4 : 3);
    char name[64];
    for (int part = 0; part <= depth && n <= 4; part++)
        for (int i = 0; i < n; i++) {
            snprintf(name, sizeof name, "%.50s_%s", i ? second[i - 1] : found->camera.v[0], part ? "depth" : "image");
            if (add_picture(im, l, name, side, part, err))
                return err->code;
        }
    return 0;
}

static int wrong_channels(const struct mf_import *im, const struct mf_pictured *found, int channels, struct mf_err *err)
{
    return mf_err_set(
        err, MF_EUSAGE,
        "the encoder of %s reads pictures of %d channels in all, and the observation's have %d: give their "
        "names, such as policy.obs_keys=[base_camera_image,base_camera_depth,state]",
        im->file.zip.path, found->channels, channels);
}

static int side_of(struct mf_import *im, const struct mf_import_world *w, const struct mf_pictured *found)
{
    if (mf_conf_was_set(w->conf, "env.image_size"))
        return atoi(mf_conf_text(w->conf, "env.image_size"));
    if (!found->sure)
        mf_import_assume(im, "pictures of %d x %d pixels (env.image_size)", found->side, found->side);
    return found->side;
}

/* The pictures in the order of their networks. */
static int by_name(const struct mf_import *im, const struct mf_pictured *found, struct mf_layout *l, struct mf_err *err)
{
    struct mf_layout to = {0};
    for (int i = 0; i < found->camera.n; i++) {
        const int before = to.n;
        for (int k = 0; k < l->n; k++)
            if (mf_obs_is_picture(&l->key[k]) && !strcmp(l->key[k].name, found->camera.v[i]))
                mf_layout_add(&to, &l->key[k]);
        if (to.n == before)
            return mf_err_set(err, MF_EUSAGE,
                              "%s has an encoder of the picture %s, which the observation lacks: policy.obs_keys must "
                              "name it",
                              im->file.zip.path, found->camera.v[i]);
    }
    for (int k = 0; k < l->n; k++)
        if (mf_layout_column(&to, l->key[k].name) < 0)
            mf_layout_add(&to, &l->key[k]);
    *l = to;
    return 0;
}

static int channels_of(const struct mf_layout *l)
{
    int channels = 0;
    for (int i = 0; i < l->n; i++)
        channels += mf_obs_is_picture(&l->key[i]) ? l->key[i].dim[2] : 0;
    return channels;
}

/* Without an environment: of the file's cameras, of policy.obs_keys, or of published ones. */
static int name_pictures(struct mf_import *im, const struct mf_import_world *w, const struct mf_pictured *found,
                         struct mf_layout *l, struct mf_err *err)
{
    const int side = side_of(im, w, found);
    int rc = 0;
    for (int i = 0; i < found->camera.n && !rc && found->named; i++)
        rc = add_picture(im, l, found->camera.v[i], side, found->channels == found->camera.n, err);
    for (int i = 0; i < w->keys->n && !rc && !found->named; i++)
        if (is_color(w->keys->v[i]) || is_depth(w->keys->v[i]))
            rc = add_picture(im, l, w->keys->v[i], side, is_depth(w->keys->v[i]), err);
    return rc || l->n ? rc : name_cameras(im, found, side, l, err);
}

int mf_import_pictures(struct mf_import *im, const struct mf_import_world *w, const struct mf_pictured *found,
                       struct mf_layout *l, struct mf_err *err)
{
    *l = w->obs ? *w->obs : (struct mf_layout){0};
    if (!w->obs && name_pictures(im, w, found, l, err))
        return err->code;
    const int channels = channels_of(l);
    if (!mf_import_tensor(im, im->layout.weights, "picture.", "*.scale")) /* our own export has the order of the keys */
        pictures_first(l);
    if (found->named && by_name(im, found, l, err))
        return err->code;
    return channels == found->channels ? 0 : wrong_channels(im, found, channels, err);
}

/* ---- normalisers ---- */

/* The normaliser's part for a picture: one number or one a channel. 1; 0: none. */
static int own_part(struct mf_import *im, const char *key, size_t length, const char *part, float to[3],
                    struct mf_err *err)
{
    char name[100];
    snprintf(name, sizeof name, "%.*s.%s", (int)length, key, part);
    const struct mf_torch_tensor *t = mf_import_tensor(im, im->layout.weights, "normalizer.params_dict.", name);
    if (!t)
        return 0;
    if (t->count != 1 && t->count != 3)
        return mf_err_set(err, MF_EFORMAT, "%s has %zu numbers, and a picture 3 channels", t->name, t->count);
    const int rc = mf_torch_read(&im->file, t, 0, t->count, to, err);
    for (int c = 1; c < 3 && t->count == 1; c++)
        to[c] = to[0];
    return rc ? rc : 1;
}

int mf_import_pixels(struct mf_import *im, const char *what, const struct mf_param *p, float to[3], struct mf_err *err)
{
    const char *part = strrchr(what, '.');
    const size_t length = (size_t)(part - what);
    float scale[3] = {1, 1, 1}, offset[3] = {0};
    if (p->cols != 3)
        return 0;
    int rc = own_part(im, what, length, "scale", scale, err);
    if (rc > 0)
        rc = own_part(im, what, length, "offset", offset, err);
    if (rc < 0 || (rc == 0 && !im->pixels))
        return rc;
    for (int c = 0; c < 3; c++) {
        const double s = im->pixels ? im->pixels->scale[c] : 1, o = im->pixels ? im->pixels->offset[c] : 0;
        to[c] = (float)(strcmp(part, ".scale") ? s * (double)offset[c] + o : s * (double)scale[c] / 255);
    }
    return 1;
}
