/* mf-ckpt: list, show, compare, verify, prune and convert checkpoints. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/plain.h"
#include "flow/checkpoint.h"
#include "run/safetensors_diff.h"
#include "import/export.h"
#include "import/torch_show.h"
#include "flow/catalog.h"
#include "flow/verify.h"
#include "import/import_in.h"
#include "stage/rundir.h"
#include "stage/stage.h"

struct ckpt {
    int64_t keep;
    int format; /* 0 text, 1 json */
    int weights;
    const char *normalizer, *prefix;
    bool keep_bf16;
    struct mf_env_opts env_opts;
    struct mf_names obs_keys;
    const struct mf_conf *conf;
};

static const struct mf_bind binds[] = {
    {"ckpt.keep", offsetof(struct ckpt, keep)},
    {"ckpt.format", offsetof(struct ckpt, format)},
    {"ckpt.normalizer", offsetof(struct ckpt, normalizer)},
    {"ckpt.prefix", offsetof(struct ckpt, prefix)},
    {"ckpt.keep_bf16", offsetof(struct ckpt, keep_bf16)},
    {"policy.weights", offsetof(struct ckpt, weights)},
    {"policy.obs_keys", offsetof(struct ckpt, obs_keys)},
    {0},
};
static const struct mf_bind_table tables[] = {
    {mf_policy_binds, 0}, {mf_env_binds, offsetof(struct ckpt, env_opts)}, {0}};

/* ---- many ---- */

static void warn(const char *why)
{
    mf_log(MF_LOG_WARN, "%s", why);
}

static void complain(const char *why)
{
    mf_log(MF_LOG_ERROR, "%s", why);
}

static void put_path(const char *before, const char *path, const char *after)
{
    fputs(before, stdout);
    mf_plain(path, 0, stdout);
    fputs(after, stdout);
}

static int list(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    struct mf_catalog l = {.broken = warn};
    (void)self;
    int rc = mf_catalog_all(&l, n, paths, err);
    if (!rc && !l.n && !l.n_broken)
        mf_log(MF_LOG_WARN, "no checkpoints in %s%s", paths[0], n > 1 ? " and the others" : "");
    else if (!rc)
        printf("%8s %8s  %-6s %11s %11s %8s  %s\n", "iter", "version", "kind", "params", "bytes", "rollout", "file");
    for (int i = 0; i < l.n && !rc; i++) {
        const struct mf_catalog_item *it = &l.items[i];
        char success[16] = "-";
        if (!isnan(it->success))
            snprintf(success, sizeof success, "%.3f", it->success);
        printf("%8" PRId64 " %8" PRId64 "  %-6s %11zu %11zu %8s", it->iter, it->version, it->kind, it->params, it->size,
               success);
        put_path("  ", it->path, "\n");
    }
    mf_catalog_release(&l);
    return rc;
}

static int remove_listed(char *file, struct mf_err *err)
{
    if (unlink(file) < 0)
        return mf_err_errno(err, "cannot remove %s", file);
    put_path("removed ", file, "\n");
    strcpy(file + strlen(file) - strlen(".safetensors"), ".json");
    if (unlink(file) == 0)
        put_path("removed ", file, "\n");
    return 0;
}

/* A clone in the same folder is their starting point, not an older version. */
static int prune(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    struct mf_catalog l = {.broken = warn};
    (void)n;
    int rc = mf_catalog_folder(&l, paths[0], err);
    int64_t left = self->keep;
    for (int i = l.n; i-- > 0 && !rc;)
        if (strcmp(l.items[i].kind, "clone") != 0 && left-- <= 0)
            rc = remove_listed(l.items[i].path, err);
    mf_catalog_release(&l);
    return rc;
}

/* ---- one file ---- */

static int open_file(struct mf_safetensors *f, const char *word, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    int rc = mf_runs_checkpoint(word, path, err);
    return rc ? rc : mf_safetensors_open(f, path, err);
}

static int path(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    char file[MF_PATH_MAX];
    (void)self, (void)n;
    int rc = mf_runs_checkpoint(paths[0], file, err);
    if (!rc)
        put_path("", file, "\n");
    return rc;
}

static int show_torch(const struct ckpt *self, const char *path, struct mf_err *err)
{
    struct mf_torch f;
    int rc = mf_torch_open(&f, path, err);
    if (rc)
        return rc;
    mf_torch_show(&f, self->format, stdout);
    mf_torch_close(&f);
    return 0;
}

/* Trained parameters, of a file that holds a policy. */
static void show_counts(const char *word)
{
    char path[MF_PATH_MAX];
    struct mf_loaded *l;
    struct mf_policy p;
    struct mf_err none;
    if (mf_runs_checkpoint(word, path, &none) || mf_checkpoint_open(&l, path, &none))
        return;
    if (mf_policy_outline(&p, mf_loaded_spec(l), &none) == 0) {
        printf("%-24s policy %zu", "parameters",
               mf_params_count(&p.params, MF_GROUP_POLICY) + mf_params_count(&p.params, MF_GROUP_ENCODER));
        if (p.spec.learned_noise)
            printf(", noise network %zu", mf_params_count(&p.params, MF_GROUP_NOISE));
        if (p.spec.steer)
            printf(", latent actor %zu", mf_params_count(&p.params, MF_GROUP_STEER));
        if (p.spec.n_critic)
            printf(", critic %zu", mf_params_count(&p.params, MF_GROUP_CRITIC));
        putchar('\n');
        if (mf_params_count(&p.params, MF_GROUP_ENCODER))
            printf("%-24s %zu parameters\n", "encoder", mf_params_count(&p.params, MF_GROUP_ENCODER));
        mf_policy_release(&p);
    }
    mf_checkpoint_close(l);
}

static int show(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    struct mf_safetensors f;
    (void)n;
    if (mf_torch_is(paths[0]))
        return show_torch(self, paths[0], err);
    int rc = open_file(&f, paths[0], err);
    if (rc)
        return rc;
    if (self->format)
        printf("%.*s\n", (int)f.header_size, f.header);
    for (int i = 0; i < f.n_meta && !self->format; i++) {
        mf_plain(f.meta[i].key, 24, stdout);
        putchar(' ');
        mf_plain(f.meta[i].value, 0, stdout);
        putchar('\n');
    }
    if (!self->format)
        show_counts(paths[0]);
    for (int i = 0; i < f.n && !self->format; i++) {
        const struct mf_array *a = &f.tensors[i];
        mf_plain(a->name, 64, stdout);
        printf(" %s (", mf_dtype_name(a->dtype));
        for (int d = 0; d < a->rank; d++)
            printf(d ? ", %zu" : "%zu", a->dim[d]);
        puts(")");
    }
    mf_safetensors_close(&f);
    return 0;
}

static int diff(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    struct mf_safetensors a, b;
    (void)self, (void)n;
    int rc = open_file(&a, paths[0], err);
    if (rc)
        return rc;
    if (!(rc = open_file(&b, paths[1], err)) && mf_safetensors_diff(&a, &b, stdout) == 0)
        puts("the same");
    mf_safetensors_close(&a);
    if (!rc)
        mf_safetensors_close(&b);
    return rc;
}

/* ---- verify ---- */

static bool verified(const char *path)
{
    struct mf_err why;
    int rc = mf_checkpoint_verify(path, &why);
    if (rc == 0)
        put_path("", path, ": ok\n");
    else
        complain(why.text);
    return rc == 0;
}

/* A file, or all checkpoints of a run. */
static int verify_word(const char *word, int *good, int *all, struct mf_err *err)
{
    struct mf_catalog l = {.broken = complain};
    struct mf_at at;
    int rc = mf_runs_at(&at, word, err);
    if (!rc && at.kind == MF_AT_FILE) {
        *good += verified(word);
        ++*all;
        return 0;
    }
    if (rc || (rc = mf_catalog_folder(&l, word, err)))
        return rc;
    for (int i = 0; i < l.n; i++)
        *good += verified(l.items[i].path);
    *all += l.n + l.n_broken;
    if (!l.n && !l.n_broken)
        rc = mf_err_set(err, MF_EUSAGE, "the run %s has no checkpoint yet", at.path);
    mf_catalog_release(&l);
    return rc;
}

static int verify(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    int good = 0, all = 0, rc = 0;
    (void)self;
    for (int i = 0; i < n && !rc; i++)
        rc = verify_word(paths[i], &good, &all, err);
    if (rc)
        return rc;
    return good < all ? mf_err_set(err, MF_EFORMAT, "%d of %d files are not complete checkpoints", all - good, all) : 0;
}

/* ---- out of a checkpoint ---- */

static int ema(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    char file[MF_PATH_MAX];
    (void)self, (void)n;
    int rc = mf_runs_checkpoint(paths[0], file, err);
    rc = rc ? rc : mf_file_apart(file, paths[1], err);
    return rc ? rc : mf_export_average(file, paths[1], err);
}

static int export(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    char file[MF_PATH_MAX];
    (void)n;
    int rc = mf_runs_checkpoint(paths[0], file, err);
    rc = rc ? rc : mf_file_apart(file, paths[1], err);
    return rc ? rc : mf_export(file, (enum mf_weights)self->weights, self->prefix, paths[1], err);
}

/* ---- into one ---- */

static void say_imported(const struct mf_import *im, const struct mf_policy_spec *s)
{
    static const char *const second[] = {"the step (policy.target_time=step)", "0 (policy.target_time=zero)"};
    char seen[400] = "";
    for (int i = 0; i < s->obs.n; i++) {
        const struct mf_obs *o = &s->obs.key[i];
        const size_t used = strlen(seen);
        if (mf_obs_is_picture(o))
            snprintf(seen + used, sizeof seen - used, "%s%dx%dx%d %.63s", i ? ", " : "", o->dim[0], o->dim[1],
                     o->dim[2], o->name);
        else
            snprintf(seen + used, sizeof seen - used, "%s%d %.63s", i ? ", " : "", mf_obs_size(o), o->name);
    }
    mf_log(MF_LOG_INFO, "%s, %s: %d observation step(s) of %s; horizon %d, %d actions executed, %d denoising steps",
           im->family->name, im->layout.name, s->n_obs_steps, seen, s->horizon, s->n_action_steps, s->K);
    mf_log(MF_LOG_INFO, "pure noise is at t = %d (policy.convention=noise%d)%s%s", s->convention, s->convention,
           s->net.net->step_size ? "; the second time embedding gets " : "",
           s->net.net->step_size ? second[s->target_time] : "");
    if (im->encoder_alone)
        mf_log(MF_LOG_INFO, "the file has an encoder and no policy: the network is a fresh one, to be trained");
    if (*im->assumed)
        mf_log(MF_LOG_INFO, "%s", im->assumed);
    if (*im->without)
        mf_log(MF_LOG_INFO, "the prefix %s of tensor names is removed", im->without);
    if (im->layout.average)
        mf_log(MF_LOG_INFO, "importing the averaged weights, '%s'; policy.weights=raw imports '%s'", im->layout.average,
               im->layout.weights);
    if (im->n_left)
        mf_log(MF_LOG_INFO, "%d tensors are not imported, such as %s*: %s", im->n_left, im->left->prefix,
               im->left->why);
}

static int import(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    const struct mf_import_in in = {.env = mf_conf_was_set(self->conf, "env.name") ? &self->env_opts : NULL,
                                    .keys = &self->obs_keys,
                                    .conf = self->conf,
                                    .normalizer = self->normalizer,
                                    .keep_bf16 = self->keep_bf16};
    struct mf_policy_spec spec;
    struct mf_import im;
    (void)n;
    int rc = mf_file_apart(paths[0], paths[1], err);
    if (rc || (rc = mf_import_open(&im, paths[0], err)))
        return rc;
    if (!(rc = mf_import_in(&im, &in, paths[1], &spec, err)))
        say_imported(&im, &spec);
    mf_import_close(&im);
    return rc;
}

static const struct command {
    const char *name;
    int least, most; /* operands */
    int (*run)(struct ckpt *self, int n, const char *const *paths, struct mf_err *err);
} commands[] = {
    {"ls", 1, INT32_MAX, list}, {"path", 1, 1, path},     {"show", 1, 1, show},
    {"diff", 2, 2, diff},       {"prune", 1, 1, prune},   {"verify", 1, INT32_MAX, verify},
    {"ema", 2, 2, ema},         {"import", 2, 2, import}, {"export", 2, 2, export},
};

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct ckpt *ckpt = self;
    int n;
    const char *const *words = mf_run_operands(run, &n);
    ckpt->conf = mf_run_conf(run);
    for (size_t i = 0; i < sizeof commands / sizeof *commands && n; i++)
        if (!strcmp(words[0], commands[i].name) && n - 1 >= commands[i].least && n - 1 <= commands[i].most)
            return commands[i].run(ckpt, n - 1, words + 1, err);
    return mf_err_set(err, MF_EUSAGE,
                      "give one of: ls RUN|FILE..., path RUN|FILE, show RUN|FILE, diff RUN|FILE RUN|FILE, "
                      "verify RUN|FILE..., prune RUN, ema RUN|FILE OUT, import FILE.pt OUT, "
                      "export RUN|FILE OUT.pt|OUT.safetensors");
}

static const struct mf_stage stage = {
    .name = "ckpt",
    .summary =
        "List, show, compare, verify, prune and convert checkpoints.\n\n"
        "RUN is a run's folder: its newest checkpoint, or the clone of a cloning run. A folder of runs\n"
        "(outputs/NAME) means the run that its link 'latest' names.\n\n"
        "  ls RUN|FILE...   a row per checkpoint, by iteration; rollout: success rate of the round before it\n"
        "  path RUN|FILE    the checkpoint's file\n"
        "  show RUN|FILE    metadata and tensors; also of a PyTorch file (.pt, .pth, .ckpt)\n"
        "  diff RUN|FILE RUN|FILE\n"
        "                   the differences\n"
        "  verify RUN|FILE...\n"
        "                   check that each is complete, finite, and a policy\n"
        "  prune RUN        remove all but the newest ones (ckpt.keep) and a clone\n"
        "  ema RUN|FILE OUT a copy with the averaged weights in the place of the raw ones\n"
        "  import FILE OUT  a checkpoint from a PyTorch file of ReinFlow's or DPPO's MLPs, of ReinFlow's image\n"
        "                   policies, of ManiFlow's transformer (also of its RL fork), of a 1-D U-Net, or of an\n"
        "                   encoder of pictures alone. What the file lacks is given by policy.network=,\n"
        "                   policy.activation=, policy.convention=, env= or policy.obs_keys=, normalizer=\n"
        "  export RUN|FILE OUT.pt|OUT.safetensors\n"
        "                   the policy alone, with the tensor names of the original code, for use without maniflow",
    .operands = "COMMAND FILE...",
    .examples = "  mf-ckpt ls outputs/lift/latest\n"
                "  mf-ckpt show clone.safetensors ckpt.format=json | jq .__metadata__\n"
                "  mf-ckpt import state_3000.pt hopper.safetensors policy.activation=relu policy.horizon=4 "
                "normalizer=normalization.npz\n"
                "  mf-ckpt export outputs/lift/latest lift.pt\n"
                "  mf-ckpt prune outputs/lift/latest ckpt.keep=3\n",
    .role = MF_TOOL,
    .text_out = true,
    .binds = binds,
    .tables = tables,
    .size = sizeof(struct ckpt),
    .work = work,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
