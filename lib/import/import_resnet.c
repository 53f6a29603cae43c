/* import_resnet.c - ResNet-18 of diffusion policy's workspaces, one for each picture, which it names; and batch norms,
 * which become part of the convolution before them: W' = W k, b' = b - mean k, k = w/sqrt(var + 1e-5). Export writes b'
 * as the bias of a norm with weight 1, mean 0, and variance 1 - 1e-5.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "import/conv2d.h"
#include "import/import_families.h"
#include "nn/encoder.h"

static const char spatial[] = "obs_encoder.obs_nets.", mean[] = "obs_encoder.key_model_map.";
static const struct mf_pixels imagenet = {{1 / .229, 1 / .224, 1 / .225}, {-.485 / .229, -.456 / .224, -.406 / .225}};
static const struct mf_pixels plain = {{1, 1, 1}, {0, 0, 0}};
enum { MOST_CHANNELS = 65536 };

/* ---- recognised ---- */

/* The key of a tensor BEFOREkeyAFTER; false: its name is another. */
static bool key_between(const char *name, const char *before, const char *after, char key[64])
{
    const size_t n = strlen(name), around = strlen(before) + strlen(after);
    if (!mf_starts(name, before) || n <= around || n - around >= 64 || strcmp(name + n - strlen(after), after) != 0)
        return false;
    snprintf(key, 64, "%.*s", (int)(n - around), name + strlen(before));
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The pictures that have a network, in the order of the file. */
static void find_cameras(const struct mf_import *im, const char *before, const char *after, struct mf_names *to)
{
    to->n = 0;
    for (int i = 0; i < im->file.n && to->n < MF_OBS_KEYS; i++)
        if (mf_import_within(im, &im->file.tensor[i], im->layout.weights) &&
            key_between(im->key[i], before, after, to->v[to->n]))
            to->n++;
}

bool mf_import_has_resnet(const struct mf_import *im)
{
    struct mf_names found[2];
    find_cameras(im, spatial, ".nets.0.nets.0.weight", &found[0]);
    find_cameras(im, mean, ".layer1.0.conv1.weight", &found[1]);
    return found[0].n + found[1].n > 0;
}

static int dim(const struct mf_import *im, const char *at, const char *rest, int d)
{
    char name[192];
    snprintf(name, sizeof name, "%.120s%.60s", at, rest);
    return mf_import_dim(im, name, d);
}

/* [76, 76] of the configuration: the first. 0: none. */
static int first_number(const char *text, int n)
{
    for (; text && n > 0 && (text = strchr(text, ',')); n--)
        text++;
    return text ? atoi(text + (*text == '[' || *text == ' ')) : 0;
}

static bool says(const struct mf_import *im, const char *name, const char *text)
{
    char below[100];
    snprintf(below, sizeof below, "policy.obs_encoder.%s", name);
    const char *value = mf_torch_value(&im->file, "cfg", below);
    return value && !strcmp(value, text);
}

/* The window of pictures. Diffusion policy's image encoder takes none where it normalises and does not crop at random.
 */
static int read_crop(struct mf_import *im, struct mf_net_spec *net, struct mf_err *err)
{
    static const char *const name[] = {"policy.crop_shape", "policy.obs_encoder.crop_shape"};
    for (int i = 0; i < 2; i++) {
        const char *text = mf_torch_value(&im->file, "cfg", name[i]);
        const int h = first_number(text, 0), w = first_number(text, 1);
        if (h < 1 || (i && says(im, "random_crop", "false") && !says(im, "imagenet_norm", "false")))
            continue;
        if (h != w)
            return mf_err_set(err, MF_EFORMAT, "%s crops pictures to %d x %d pixels, and policy.crop is a square",
                              im->file.zip.path, h, w);
        net->crop = h;
    }
    return 0;
}

static int read_config(struct mf_import *im, const struct mf_import_world *w, struct mf_net_spec *net,
                       struct mf_pictured *found, struct mf_err *err)
{
    char name[160];
    const char *resize = mf_torch_value(&im->file, "cfg", "policy.obs_encoder.resize_shape");
    if (resize && strcmp(resize, "null") != 0)
        return mf_err_set(err, MF_EFORMAT,
                          "%s resizes pictures to %.40s before it encodes them, which is not supported",
                          im->file.zip.path, resize);
    if (!mf_conf_was_set(w->conf, "policy.crop") && read_crop(im, net, err))
        return err->code;
    snprintf(name, sizeof name, "shape_meta.obs.%.63s.shape", found->camera.v[0]);
    const char *shape = mf_torch_value(&im->file, "cfg", name);
    const int side = first_number(shape, 1);
    if (side > 0)
        found->side = side, found->sure = true;
    if (!w->obs && side != first_number(shape, 2))
        return mf_err_set(err, MF_EUSAGE,
                          "the pictures of %s are no squares, (3, %d, %d): give env=NAME or demonstrations, which have "
                          "their shapes",
                          im->file.zip.path, side, first_number(shape, 2));
    return 0;
}

/* The softmax of our network has the temperature 1. */
static int warm(struct mf_import *im, const struct mf_pictured *found, struct mf_err *err)
{
    char name[128];
    float one = 1;
    for (int i = 0; i < found->camera.n; i++) {
        snprintf(name, sizeof name, "%s%s.nets.1.temperature", spatial, found->camera.v[i]);
        const struct mf_torch_tensor *t = mf_import_find(im, im->layout.weights, name);
        if (t && t->count == 1 && mf_torch_read(&im->file, t, 0, 1, &one, err))
            return err->code;
        if (one < 1 || one > 1)
            return mf_err_set(err, MF_EFORMAT, "%s of %s is %g: only a softmax of the temperature 1 is supported", name,
                              im->file.zip.path, (double)one);
    }
    return 0;
}

int mf_import_resnet(struct mf_import *im, struct mf_net_spec *net, const struct mf_import_world *w,
                     struct mf_pictured *found, struct mf_err *err)
{
    char at[128], rest[64];
    find_cameras(im, spatial, ".nets.0.nets.0.weight", &found->camera);
    const bool places = found->camera.n > 0;
    if (!places) {
        find_cameras(im, mean, ".layer1.0.conv1.weight", &found->camera);
        qsort(found->camera.v, (size_t)found->camera.n, sizeof *found->camera.v, by_name);
        im->pixels = says(im, "imagenet_norm", "false") ? &plain : &imagenet;
    }
    snprintf(at, sizeof at, places ? "%s%s.nets." : "%s%s.", places ? spatial : mean, found->camera.v[0]);
    net->resnet_head = places ? MF_RESNET_SPATIAL : MF_RESNET_MEAN;
    net->n_resnet = 4;
    for (int i = 0; i < 4; i++) {
        snprintf(rest, sizeof rest, places ? "0.nets.%d.0.conv1.weight" : "layer%d.0.conv1.weight",
                 i + (places ? 4 : 1));
        net->resnet[i] = dim(im, at, rest, 0);
    }
    if (dim(im, at, places ? "0.nets.1.running_var" : "bn1.running_var", 0))
        net->encoder_group = 0;
    if (places) {
        net->keypoints = dim(im, at, "1.nets.weight", 0);
        net->encoder_dim = dim(im, at, "3.weight", 0);
    }
    *found =
        (struct mf_pictured){.camera = found->camera,
                             .named = true,
                             .channels = found->camera.n * dim(im, at, places ? "0.nets.0.weight" : "conv1.weight", 1),
                             .width = found->camera.n * (places ? net->encoder_dim : net->resnet[3]),
                             .side = 84};
    if (read_config(im, w, net, found, err))
        return err->code;
    if (places && warm(im, found, err))
        return err->code;
    return mf_encoder_find(&net->encoder, "resnet18", err);
}

/* ---- batch norms ---- */

/* The norm after a convolution's weight or bias: its name before ".weight"; false: another parameter. */
static bool norm_of(const char *ours, char norm[160])
{
    static const char *const pair[][2] = {
        {"conv1", "bn1"}, {"conv2", "bn2"}, {"downsample.0", "downsample.1"}, {"0.nets.0", "0.nets.1"}};
    const size_t n = strlen(ours), tail = mf_ends(ours, ".weight") ? 7 : mf_ends(ours, ".bias") ? 5 : 0;
    for (size_t i = 0; i < 4 && tail; i++) {
        const size_t own = strlen(pair[i][0]);
        if (n > tail + own && !strncmp(ours + n - tail - own, pair[i][0], own)) {
            snprintf(norm, 160, "%.*s%s", (int)(n - tail - own), ours, pair[i][1]);
            return true;
        }
    }
    return false;
}

static const char *const parts[] = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"};

static const struct mf_torch_tensor *part_of(const struct mf_import *im, const char *dictionary, const char *norm,
                                             int part)
{
    char name[192];
    snprintf(name, sizeof name, "%.150s.%s", norm, parts[part]);
    return mf_import_find(im, dictionary, name);
}

bool mf_import_folds(const struct mf_import *im, const char *dictionary, const char *ours)
{
    char norm[160];
    return mf_starts(ours, "obs_encoder.") && norm_of(ours, norm) && part_of(im, dictionary, norm, 3);
}

bool mf_import_norm_used(const struct mf_import *im, const char *dictionary, const struct mf_param *p, bool *used)
{
    char norm[160];
    bool whole = norm_of(p->name, norm);
    for (int i = 0; i < 5 && whole; i++) {
        const struct mf_torch_tensor *t = part_of(im, dictionary, norm, i);
        if (t)
            used[t - im->file.tensor] = true;
        whole = i == 4 || (t && t->rank == 1 && t->count == (size_t)p->cols && t->dtype->number);
    }
    return whole;
}

int mf_import_fold(struct mf_import *im, const char *dictionary, const struct mf_param *p, size_t first, size_t n,
                   float *to, struct mf_err *err)
{
    char norm[160];
    const bool bias = mf_ends(p->name, ".bias");
    const size_t out = (size_t)(bias ? p->cols : p->rows), row = bias ? 1 : (size_t)p->cols;
    float *v = out <= MOST_CHANNELS ? calloc(4 * out, sizeof *v) : NULL;
    if (!v || !norm_of(p->name, norm))
        return free(v), mf_err_set(err, MF_ENOMEM, "cannot allocate the batch norm of %s", p->name);
    int rc = 0;
    for (int i = 0; i < 4 && !rc; i++)
        rc = mf_torch_read(&im->file, part_of(im, dictionary, norm, i), 0, out, v + (size_t)i * out, err);
    for (size_t i = 0; i < n && !rc; i++) {
        const size_t c = (first + i) / row;
        const double k = (double)v[c] / sqrt((double)v[3 * out + c] + 1e-5);
        to[i] = (float)(bias ? (double)v[out + c] - (double)v[2 * out + c] * k : (double)to[i] * k);
    }
    free(v);
    return rc;
}

/* ---- export ---- */

/* Appends before.part with n numbers, of which `number` are in memory. */
static void add_part(struct mf_array *t, int *n, const char *norm, int part, size_t count, void *numbers)
{
    struct mf_array *a = &t[(*n)++];
    *a = (struct mf_array){.dtype = part == 4 ? MF_I64 : MF_F32, .rank = part < 4, .dim = {count}, .data = numbers};
    a->count = part == 4 ? 1 : count;
    a->bytes = a->count * mf_dtype_size(a->dtype);
    snprintf(a->name, sizeof a->name, "%.100s.%s", norm, parts[part]);
}

/* robomimic's modules have these tensors under two names. */
static void add_twin(struct mf_array *t, int *n, int i)
{
    static const char *const pair[][2] = {{".nets.0.", ".backbone."}, {".nets.1.", ".pool."}};
    for (int k = 0; k < 2; k++) {
        const char *at = mf_starts(t[i].name, spatial) ? strstr(t[i].name, pair[k][0]) : NULL;
        if (!at || strchr(t[i].name + strlen(spatial), '.') != at)
            continue;
        t[*n] = t[i];
        snprintf(t[(*n)++].name, sizeof t->name, "%.*s%s%.80s", (int)(at - t[i].name), t[i].name, pair[k][1],
                 at + strlen(pair[k][0]));
    }
}

struct mf_array *mf_resnet_export(struct mf_array *t, int *n, float **room)
{
    const int had = *n;
    bool dummy = false;
    size_t most = 2;
    char norm[160];
    for (int i = 0; i < had; i++) {
        most = t[i].rank == 1 && t[i].count > most ? t[i].count : most;
        dummy |= mf_starts(t[i].name, mean);
    }
    t = mf_xrealloc(t, 10 * (size_t)had + 1, sizeof *t);
    float *constant = *room = mf_xcalloc(3 * most, sizeof **room); /* zeros, ones, variances */
    for (size_t i = 0; i < most; i++)
        constant[most + i] = 1, constant[2 * most + i] = (float)(1 - 1e-5);
    for (int i = 0; i < had; i++) {
        const size_t count = t[i].count;
        if (!mf_starts(t[i].name, "obs_encoder.") || !mf_ends(t[i].name, ".bias") || !norm_of(t[i].name, norm))
            continue;
        snprintf(t[i].name, sizeof t[i].name, "%.100s.bias", norm);
        add_part(t, n, norm, 0, count, constant + most);
        add_part(t, n, norm, 2, count, constant);
        add_part(t, n, norm, 3, count, constant + 2 * most);
        add_part(t, n, norm, 4, 1, constant);
    }
    for (int i = 0, all = *n; i < all; i++)
        add_twin(t, n, i);
    if (dummy) { /* an empty tensor of diffusion policy's modules */
        add_part(t, n, "obs_encoder", 0, 0, constant);
        snprintf(t[*n - 1].name, sizeof t->name, "obs_encoder._dummy_variable");
    }
    return t;
}
