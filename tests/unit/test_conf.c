#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/item.h"
#include "tap.h"

struct some {
    bool force;
    int64_t batch;
    double rate;
    const char *dir;
    int objective;
    struct mf_ints hidden;
};

static const struct mf_bind binds[] = {
    {"run.force", offsetof(struct some, force)},
    {"training.batch_size", offsetof(struct some, batch)},
    {"training.learning_rate", offsetof(struct some, rate)},
    {"run.dir", offsetof(struct some, dir)},
    {"policy.objective", offsetof(struct some, objective)},
    {"policy.hidden", offsetof(struct some, hidden)},
    {0},
};

static int load_word(struct mf_conf *c, const char *word, struct mf_err *err)
{
    return mf_conf_load(c, &(struct mf_sources){.n_words = 1, .word = &word}, err);
}

/* The text that a word gives its key, or the sentence that refuses it. */
static void word(const char *text, const char *key, const char *want)
{
    struct mf_conf *c = mf_conf_new();
    struct mf_err err = {0};
    const char *got = load_word(c, text, &err) ? err.text : mf_conf_text(c, key);
    if (!ok(got && want ? strstr(got, want) != NULL : got == want, "%s gives %s", text, want ? want : "null"))
        printf("#   got %s\n", got ? got : "null");
    mf_conf_free(c);
}

static void temp(char *path, const char *text)
{
    strcpy(path, "/tmp/mf-conf-XXXXXX");
    FILE *f = fdopen(mkstemp(path), "w");
    fputs(text, f);
    fclose(f);
}

static int load_file(struct mf_conf *c, const char *path, struct mf_err *err)
{
    return mf_conf_load(c, &(struct mf_sources){.n_files = 1, .file = &path}, err);
}

static void file(const char *text, const char *key, const char *want)
{
    char path[32];
    temp(path, text);
    struct mf_conf *c = mf_conf_new();
    struct mf_err err = {0};
    const char *got = load_file(c, path, &err) ? err.text : mf_conf_text(c, key);
    if (!ok(got && want ? strstr(got, want) != NULL : got == want, "a file gives %s %s", key, want ? want : "null"))
        printf("#   got %s\n", got ? got : "null");
    mf_conf_free(c);
    unlink(path);
}

static void scalar(enum mf_grammar g, const char *text, enum mf_class is, double f)
{
    struct mf_item *s = mf_item_scalar(text, false, g);
    bool same = s->is == is && (is != MF_IS_INT || (double)s->i == f) && (is != MF_IS_BOOL || s->b == (f != 0)) &&
                (is != MF_IS_FLOAT || s->f == f || (isnan(f) && isnan(s->f)));
    if (!ok(same, "%s: '%s' is a %s", g == MF_YAML ? "YAML" : "Hydra", text,
            (const char *[]){"null", "bool", "int", "float", "text"}[is]))
        printf("#   got class %d, %g\n", s->is, s->f);
    mf_item_free(s);
}

static void grammars(void)
{
    static const struct {
        const char *text;
        enum mf_class hydra;
        double h;
        enum mf_class yaml;
        double y;
    } row[] = {
        {"null", MF_IS_NULL, 0, MF_IS_NULL, 0},
        {"nUll", MF_IS_NULL, 0, MF_IS_TEXT, 0},
        {"~", MF_IS_TEXT, 0, MF_IS_NULL, 0},
        {"", MF_IS_TEXT, 0, MF_IS_NULL, 0},
        {"true", MF_IS_BOOL, 1, MF_IS_BOOL, 1},
        {"FALSE", MF_IS_BOOL, 0, MF_IS_BOOL, 0},
        {"yes", MF_IS_TEXT, 0, MF_IS_BOOL, 1},
        {"Off", MF_IS_TEXT, 0, MF_IS_BOOL, 0},
        {"10", MF_IS_INT, 10, MF_IS_INT, 10},
        {"1_000_000", MF_IS_INT, 1e6, MF_IS_INT, 1e6},
        {"1__0", MF_IS_TEXT, 0, MF_IS_INT, 10},
        {"-7", MF_IS_INT, -7, MF_IS_INT, -7},
        {"010", MF_IS_TEXT, 0, MF_IS_INT, 8},
        {"08", MF_IS_TEXT, 0, MF_IS_TEXT, 0},
        {"0x1F", MF_IS_TEXT, 0, MF_IS_INT, 31},
        {"0b101", MF_IS_TEXT, 0, MF_IS_INT, 5},
        {"1:30", MF_IS_TEXT, 0, MF_IS_INT, 90},
        {"1e-4", MF_IS_FLOAT, 1e-4, MF_IS_FLOAT, 1e-4},
        {"1e6", MF_IS_FLOAT, 1e6, MF_IS_FLOAT, 1e6},
        {".5", MF_IS_FLOAT, .5, MF_IS_FLOAT, .5},
        {"5.", MF_IS_FLOAT, 5, MF_IS_FLOAT, 5},
        {"+3.25", MF_IS_FLOAT, 3.25, MF_IS_FLOAT, 3.25},
        {"inf", MF_IS_FLOAT, INFINITY, MF_IS_TEXT, 0},
        {".inf", MF_IS_TEXT, 0, MF_IS_FLOAT, INFINITY},
        {"-inf", MF_IS_FLOAT, -INFINITY, MF_IS_TEXT, 0},
        {"NaN", MF_IS_FLOAT, NAN, MF_IS_TEXT, 0},
        {".NaN", MF_IS_TEXT, 0, MF_IS_FLOAT, NAN},
        {"-.NaN", MF_IS_TEXT, 0, MF_IS_TEXT, 0},
        {"200_000", MF_IS_INT, 2e5, MF_IS_INT, 2e5},
        {"0_", MF_IS_TEXT, 0, MF_IS_INT, 0},
        {"1_0.2_5", MF_IS_FLOAT, 10.25, MF_IS_FLOAT, 10.25},
        {"1__0.5", MF_IS_TEXT, 0, MF_IS_FLOAT, 10.5},
        {"1e1_0", MF_IS_FLOAT, 1e10, MF_IS_TEXT, 0},
        {".1e3", MF_IS_FLOAT, 100, MF_IS_TEXT, 0},
        {".1e-3", MF_IS_FLOAT, 1e-4, MF_IS_FLOAT, 1e-4},
        {"-.5", MF_IS_FLOAT, -.5, MF_IS_TEXT, 0},
        {"1.2.3", MF_IS_TEXT, 0, MF_IS_TEXT, 0},
        {"e5", MF_IS_TEXT, 0, MF_IS_TEXT, 0},
        {".", MF_IS_TEXT, 0, MF_IS_TEXT, 0},
        {"1e", MF_IS_TEXT, 0, MF_IS_TEXT, 0},
        {"99999999999999999999", MF_IS_FLOAT, 1e20, MF_IS_FLOAT, 1e20},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        scalar(MF_HYDRA, row[i].text, row[i].hydra, row[i].h);
        scalar(MF_YAML, row[i].text, row[i].yaml, row[i].y);
    }
}

static void words(void)
{
    word("training.batch_size=1_024", "training.batch_size", "1024");
    word("training.batch_size=1e3", "training.batch_size", "1000");
    word("training.batch_size=1.5", "", "training.batch_size=1.5: must be an integer");
    word("training.batch_size=null", "", "must be an integer");
    word("policy.checkpoint=", "", "policy.checkpoint=: must not be empty: give a value, or null for none");
    word("clone.dataset=''", "", "clone.dataset=: must not be empty");
    word("device=", "", "device=: must not be empty: give a value, or leave it out");
    word("device=null", "", "device=null: must not be empty");
    word("training.batch_size=010", "", "must be an integer");
    word("training.clip_range=-1", "", "training.clip_range=-1: must be in (0,)");
    word("training.clip_range=nan", "", "must be in (0,)");
    word("training.target_kl=inf", "training.target_kl", ".inf");
    word("advantage.gamma=1.01", "", "must be in [0,1]");
    word("training.ema_decay=1", "", "must be in [0,1)");
    word("run.force=yes", "", "must be true or false");
    word("run.force=True", "run.force", "true");
    word("policy.objective=step", "policy.objective", "step");
    word("policy.objective=chain", "", "must be one of chain_mean|chain_sum|step|step_mean");
    word("policy.hidden=[512,512]", "policy.hidden", "[512, 512]");
    word("policy.hidden=[]", "policy.hidden", "[]");
    word("policy.hidden=512", "policy.hidden", "[512]");
    word("policy.hidden=512.5", "", "must be a list of integers");
    word("policy.hidden=0", "", "must be in");
    word("policy.hidden=wide", "", "must be a list of integers");
    word("policy.hidden=[512,0]", "", "must be in [1,65536]");
    word("policy.obs_keys=[object,point_cloud]", "policy.obs_keys", "[object, point_cloud]");
    word("policy.obs_keys=object", "", "must be a list of names");
    word("policy.obs_keys=[policy/joint_pos,observation.state]", "policy.obs_keys",
         "[policy/joint_pos, observation.state]");
    word("policy.obs_keys=['a,b','eef pos','位置']", "policy.obs_keys", "[\"a,b\", \"eef pos\", \"位置\"]");
    word("policy.obs_keys=['']", "", "one of them is empty");
    word("policy.obs_keys=[a//b]", "", "an empty part or a '.'");
    word("plot.series=[a/b]", "plot.series", "[a/b]");
    word("policy.hidden=[1,2", "", "lacks its closing ]");
    word("policy.hidden=[1,2]x", "", "has 'x' after its end");
    word("policy.hidden=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "", "at most 16 items");
    word("training.learning_rate=1e-4,3e-4", "", "several values make a sweep");
    word("run.dir=null", "run.dir", NULL);
    word("run.dir='null'", "run.dir", "null");
    word("run.dir='it\\'s [here], 5'", "run.dir", "it's [here], 5");
    word("run.dir=\"a\\\\\"", "run.dir", "a\\");
    word("run.dir='open", "", "lacks its closing '");
    word("run.dir=a\\,b", "run.dir", "a,b");
    word("run.dir=a=b", "run.dir", "a=b");
    word("run.dir=x(1)", "", "has a '(' that must be quoted");
    word("env.address=tcp://[::1]:5560", "env.address", "tcp://[::1]:5560");
    word("env.address=tcp://[::1", "", "has a '[' that must be quoted");
    word("run.dir=tcp:[a]", "", "has a '[' that must be quoted");
    word("run.dir=[a]", "", "must be one value, not a list");
    word("training.lerning_rate=1", "", "unknown key 'training.lerning_rate', nearest is 'training.learning_rate'");
    word("TRAINING.EMA_DECAY=1", "", "nearest is 'training.ema_decay'");
    word("learning_rate=1", "", "nearest is 'training.learning_rate'");
    word("gamma=1", "", "nearest is 'advantage.gamma'");
    word("batch_size=1", "", "nearest is 'training.batch_size' or 'sac.batch_size' or 'clone.batch_size'");
    word("training.gama=1", "", "nearest is 'advantage.gamma'");
    word("clone.gae_lambd=1", "", "nearest is 'advantage.gae_lambda'");
    word("env=lift", "env.name", "lift");
    word("task.dataset_path=/data/x.hdf5", "clone.dataset", "/data/x.hdf5");
    word("task.env_runner.max_steps=400", "env.max_steps", "400");
    word("task.env_runner.num_episodes=100", "eval.num_episodes", "100");
    word("task.env_runner.env_meta.env_name=lift", "env.name", "lift");
    word("use_wandb=false", "use_wandb", "false");
    word("nothing", "", "is not key=value");
    word("=1", "", "is not key=value");
}

static void files(void)
{
    file("training:\n  learning_rate: 1e-4\n  batch_size: 1_024\n", "training.learning_rate", "0.0001");
    file("training.batch_size: 64\n", "training.batch_size", "64");
    file("task:\n  env_runner:\n    env_meta:\n      env_name: \"Lift\"\n", "env.name", "Lift");
    file("env: lift\n", "env.name", "lift");
    file("env:\n  name: lift\n", "env.name", "lift");
    file("policy:\n  hidden: [8, 8]\n", "policy.hidden", "[8, 8]");
    file("policy:\n  obs_keys: [yes, image]\n", "policy.obs_keys", "[\"yes\", image]");
    file("policy:\n  hidden:\n    - 8\n    - 16\n", "policy.hidden", "[8, 16]");
    file("run:\n  force: yes\n", "run.force", "true");
    file("run:\n  force: 'yes'\n", "", ":2: run.force=yes: must be true or false");
    file("run:\n  dir: ~\n", "run.dir", NULL);
    file("run:\n  dir: 010\n", "run.dir", "010");
    file("training:\n", "training.batch_size", "512");
    file("", "training.batch_size", "512");
    file("# nothing\n", "training.batch_size", "512");
    file("training:\n  batch_size: 5\n  lerning_rate: 1\n", "",
         ":3: unknown key 'training.lerning_rate', nearest is 'training.learning_rate'");
    file("training:\n  clip_range: -1\n", "", ":2: training.clip_range=-1: must be in (0,)");
    file("run:\n  seed: 1\n  seed: 2\n", "", ":3: 'seed' was already set at /tmp/mf-conf-");
    file("env: lift\nenv.name: point\n", "", ":2: 'env.name' was already set at");
    file("a: *b\n", "", ":1: no anchor '&b' precedes it");
    file("run: &r {seed: 5}\nconf: {unknown: keep}\nx: *r\n", "run.seed", "5");
    file("base: &b {batch_size: 64, num_envs: 3}\ntraining:\n  <<: *b\n  num_envs: 4\nconf.unknown: keep\n",
         "training.batch_size", "64");
    file("run: {seed: !!int 5}\n", "", ":1: tags are not supported");
    file("- 1\n", "", "is not a map of keys");
    file("run: {seed: 5\n", "", ":2: ");
    file("? [a]\n: 5\n", "", "a key must be a name");
    file("{a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: "
         "{a: {a: "
         "{a: {a: {a: {a: {a: {a: {a: 1}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}",
         "", "nested more than 32");
    file("policy:\n  hidden: [[1]]\n", "", ":2: policy.hidden=[..]: must be a list of integers");
    struct mf_conf *c = mf_conf_new();
    struct mf_err err;
    ok(load_file(c, "/tmp/no/such", &err) == MF_EUSAGE && strstr(err.text, "cannot open"), "a file that is not there");
    ok(load_file(c, "/tmp", &err) == MF_EUSAGE && strstr(err.text, "is a folder, not a regular file"),
       "a folder is no file");
    mf_conf_free(c);
}

static void reads_back(void)
{
    static const char *const set[] = {"run.dir='a: \"b\"\\\\ #c'",
                                      "training.learning_rate=0.1",
                                      "policy.hidden=[1,2]",
                                      "training.target_kl=inf",
                                      "env=yes",
                                      "clone.filter_key='010'",
                                      "policy.checkpoint=/a/b.c",
                                      "wandb_project=\t x"};
    struct mf_conf *a = mf_conf_new(), *b = mf_conf_new();
    struct mf_err err = {0};
    ok(mf_conf_load(a, &(struct mf_sources){.n_words = sizeof set / sizeof *set, .word = set}, &err) == 0, "%s",
       err.text);
    char path[32];
    temp(path, "");
    FILE *f = fopen(path, "w");
    mf_conf_print(a, f);
    fclose(f);
    ok(load_file(b, path, &err) == 0, "the output of --cfg reads back %s", err.text);
    int same = 1;
    for (int i = 0; mf_keys[i].name; i++) {
        const char *x = mf_conf_text(a, mf_keys[i].name), *y = mf_conf_text(b, mf_keys[i].name);
        if (x != y && (!x || !y || strcmp(x, y)))
            same = 0, printf("#   %s: %s became %s\n", mf_keys[i].name, x ? x : "null", y ? y : "null");
    }
    ok(same, "every value comes back the same");
    unlink(path);
    mf_conf_free(a);
    mf_conf_free(b);
}

/* Keys of paths know ~, keys of names no path; a text without a default is one of these, or known to be neither. */
static void paths(void)
{
    static const char *const other[] = {"env.command",   "advantage.stage", "clone.filter_key",
                                        "wandb_project", "wandb_run_name",  "ckpt.prefix"};
    int wrong = 0, n = 0;
    setenv("HOME", "/home/x", 1);
    for (const struct mf_key *k = mf_keys; k->name; k++) {
        const char *is = k->words ? k->words : "";
        const bool path = !strcmp(is, "path"), address = !strcmp(is, "address"), name = !strcmp(is, "name");
        char word[128];
        struct mf_err err = {0};
        struct mf_conf *c = mf_conf_new();
        bool known = k->type != MF_STR || k->def || path || address || name;
        for (size_t i = 0; i < sizeof other / sizeof *other; i++)
            known |= !strcmp(k->name, other[i]);
        snprintf(word, sizeof word, "%s=%s~/a b", k->name, address ? "ipc://" : "");
        if (path || address || name)
            n++, load_word(c, word, &err);
        if ((path || address) && strcmp(mf_conf_text(c, k->name), path ? "/home/x/a b" : "ipc:///home/x/a b") != 0)
            known = false;
        known &= !name || (err.code == MF_EUSAGE && strstr(err.text, "must be a name, not a path: it contains '/'"));
        wrong += !known;
        if (!known)
            printf("#   %s: %s\n", k->name, err.text);
        mf_conf_free(c);
    }
    ok(wrong == 0 && n >= 15, "~ in %d keys of paths and names", n);
    struct mf_err err;
    struct mf_conf *c = mf_conf_new();
    ok(load_word(c, "run.dir=~bob/a", &err) == MF_EUSAGE && strstr(err.text, "run.dir=~bob/a: only ~ and ~/"), "%s",
       err.text);
    mf_conf_free(c);
    c = mf_conf_new();
    ok(load_word(c, "run.name=..", &err) == MF_EUSAGE && strstr(err.text, "folder above"), "%s", err.text);
    mf_conf_free(c);
    file("run:\n  dir: ~/runs\n", "run.dir", "/home/x/runs");
    file("run: {dir: ~}\n", "run.dir", NULL);
}

static void record(const char *run, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/configs", run);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/configs/mf-x.yaml", run);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

/* A recorded configuration is read literally: nothing of the reader's environment enters it. */
static void recorded(void)
{
    char run[] = "/tmp/mf-conf-XXXXXX", path[64], to[64];
    struct mf_conf *c = mf_conf_new();
    struct mf_err err = {0};
    struct some s;
    setenv("MF_TEST_SECRET", "hunter2", 1);
    record(mkdtemp(run),
           "env:\n  command: run ${oc.env:MF_TEST_SECRET} ${now:%Y} ${training.batch_size}\n"
           "run:\n  name: a \\${b}\npolicy:\n  checkpoint: ~/c\ntraining:\n  batch_size: ${oc.env:MF_TEST_SECRET}\n");
    ok(mf_conf_recorded(c, run, "mf-x", &err) == 0, "a record is read %s", err.text);
    ok(!strcmp(mf_conf_text(c, "env.command"), "run ${oc.env:MF_TEST_SECRET} ${now:%Y} ${training.batch_size}") &&
           !strcmp(mf_conf_text(c, "run.name"), "a ${b}") && !strcmp(mf_conf_text(c, "policy.checkpoint"), "~/c"),
       "a reference stays as written, and an escaped one is a text");
    ok(!strcmp(mf_conf_text(c, "training.batch_size"), "${oc.env:MF_TEST_SECRET}") &&
           mf_conf_bind(c, binds, &s, &err) == MF_EUSAGE && strstr(err.text, "training.batch_size is mandatory"),
       "also where it is no value of its key, which then has none");
    mf_conf_free(c);
    c = mf_conf_new();
    record(run, "");
    ok(mf_conf_recorded(c, run, "mf-x", &err) == MF_EFORMAT && strstr(err.text, "configs/mf-x.yaml is empty"), "%s",
       err.text);
    record(run, "defaults: [other]\n");
    ok(mf_conf_recorded(c, run, "mf-x", &err) == MF_EUSAGE && strstr(err.text, "defaults"), "no other file is read");
    mf_conf_free(c);
    c = mf_conf_new();
    snprintf(path, sizeof path, "%s/configs/mf-x.yaml", run);
    snprintf(to, sizeof to, "%s.else", run);
    ok(rename(path, to) == 0 && symlink(to, path) == 0 && mf_conf_recorded(c, run, "mf-x", &err) == MF_EFORMAT &&
           strstr(err.text, "is a link out of"),
       "nor one that a link names");
    unlink(to);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    rmdir(run);
    mf_conf_free(c);
}

/* A printed list of names reads back as that list, and prints the same again. */
static void names_read_back(void)
{
    static const char *const odd[] = {"${x}",
                                      "\\${x}",
                                      "\\\\${run.name}",
                                      "a${x}b${",
                                      "${${y}}",
                                      "a b",
                                      "a,b",
                                      "a: b",
                                      "#c",
                                      "- d",
                                      "\"q\"",
                                      "it's",
                                      "[e]",
                                      "{f: 1}",
                                      "null",
                                      "true",
                                      "1e3",
                                      "~",
                                      "a\\",
                                      "\\n",
                                      "\303\244",
                                      "${oc.env:HOME}",
                                      "$",
                                      "*a",
                                      "&a",
                                      "!t",
                                      "%",
                                      "@",
                                      "`"};
    enum { N = sizeof odd / sizeof *odd };
    for (int i = 0; i < N; i++) {
        struct mf_names names = {.n = 2};
        char *text[2], path[2][32];
        size_t size;
        struct mf_err err = {0};
        struct mf_conf *c = mf_conf_new(), *again = mf_conf_new(), *scalar = mf_conf_new();
        strcpy(names.v[0], odd[i]), strcpy(names.v[1], odd[(i + 1) % N]);
        mf_conf_assume_names(c, "policy.obs_keys", &names);
        mf_conf_assume(c, "run.name", odd[i]);
        for (int k = 0; k < 2; k++) {
            FILE *to = open_memstream(&text[k], &size);
            mf_conf_print(k ? again : c, to);
            fclose(to);
            temp(path[k], text[k]);
            load_file(k ? scalar : again, path[k], &err);
            unlink(path[k]);
        }
        const struct mf_bind bind[] = {{"policy.obs_keys", 0}, {0}};
        struct mf_names got = {.n = 0};
        if (!ok(!err.code && !strcmp(text[0], text[1]) && !strcmp(mf_conf_text(scalar, "run.name"), odd[i]) &&
                    mf_conf_bind(scalar, bind, &got, &err) == 0 && got.n == 2 && !strcmp(got.v[0], odd[i]) &&
                    !strcmp(got.v[1], odd[(i + 1) % N]),
                "%s in a list and alone is read as it was printed", odd[i]))
            printf("#   %s %s\n", err.text, mf_conf_text(again, "policy.obs_keys"));
        for (int k = 0; k < 2; k++)
            free(text[k]);
        mf_conf_free(c), mf_conf_free(again), mf_conf_free(scalar);
    }
    word("policy.obs_keys=['\\${x}',a]", "policy.obs_keys", "[\"\\\\${x}\", a]");
    word("policy.obs_keys=['${x}']", "policy.obs_keys", "${x}: no such key");
    word("policy.hidden=[${training.batch_size},8]", "policy.hidden", "[512, 8]");
    word("policy.hidden=[${oc.decode:'[1,2]'},8]", "policy.hidden", "must be a list of integers");
}

static void infinite(void)
{
    word("training.learning_rate=inf", "training.learning_rate", "must be in [0,)");
    word("clone.weight_decay=inf", "clone.weight_decay", "must be in [0,)");
    word("training.learning_rate=nan", "training.learning_rate", "must be in [0,)");
    word("training.max_grad_norm=inf", "training.max_grad_norm", ".inf");
    word("training.learning_rate=sort(3,1,2)", "training.learning_rate",
         "calls sort(..), which is not supported, like sort, shuffle and interval");
    word("run.seed=interval(1,2)", "run.seed", "calls interval(..)");
    word("run.seed=shuffle(1,2)", "run.seed", "calls shuffle(..)");
}

int main(void)
{
    struct some s = {0};
    struct mf_conf *c = mf_conf_new();
    struct mf_err err;
    ok(mf_conf_bind(c, binds, &s, &err) == 0 && !s.force && s.batch == 512 && s.rate > 0 && !s.dir &&
           s.objective == 0 && s.hidden.n == 3 && s.hidden.v[2] == 256,
       "defaults bind");
    ok(!mf_conf_was_set(c, "run.seed"), "a default was not set");
    load_word(c, "run.seed=0", &err);
    ok(mf_conf_was_set(c, "run.seed"), "a value equal to the default was");
    ok(!strcmp(mf_conf_assume(c, "env.name", "lift"), "lift") && !strcmp(mf_conf_text(c, "env.name"), "lift") &&
           !mf_conf_was_set(c, "env.name"),
       "a derived default does not count as set");
    mf_conf_free(c);
    grammars();
    words();
    files();
    reads_back();
    paths();
    recorded();
    names_read_back();
    infinite();
    return done();
}
