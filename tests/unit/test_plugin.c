/* Devices that are loaded when they are asked for: where their files lie, and files that are none. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "given_grads.h"
#include "tap.h"

static struct mf_err err;
static char root[] = "/tmp/mf_plugin.XXXXXX";

#define PLAIN "#include \"tests/unit/plain_device.h\"\n#include \"dev/plugin.h\"\n"

/* Compiles root/NAME.so; without a plugin's symbol where there is no text for it. */
static void build(const char *name, const char *plugin)
{
    char command[600];
    snprintf(command, sizeof command,
             "${CC:-cc} -shared -fPIC -D_GNU_SOURCE -DMF_VERSION='\"" MF_VERSION "\"' -I. -Ilib -w -x c -o %s/%s.so -",
             root, name);
    FILE *to = popen(command, "w");
    fprintf(to, "%s%s\n", PLAIN, plugin);
    if (pclose(to)) {
        printf("Bail out! %s\n", command);
        exit(1);
    }
}

static int open_device(const char *device)
{
    struct mf_engine *e;
    int rc = mf_engine_open(&e, device, 1, MF_FP32, &err);
    if (rc == 0)
        mf_engine_close(e);
    return rc;
}

/* MF_TOY=root/FILE, or none. */
static void name_file(const char *file)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", root, file ? file : "");
    if (file)
        setenv("MF_TOY", path, 1);
    else
        unsetenv("MF_TOY");
}

static void works(void)
{
    struct mf_engine *e;
    struct mf_params ps = {.n = 0};
    struct given given;
    const float grads[16] = {[3] = 2};
    name_file("good.so");
    if (!ok(mf_engine_open(&e, "toy:0", 1, MF_FP32, &err) == 0, "a plugin opens: %s", err.text))
        return;
    mf_param_add(&ps, "w", 1, 16, 1, MF_GROUP_POLICY, MF_INIT_UNIFORM, 1);
    given_open(&given, e, &ps, 1);
    ok(mf_plan_run(given.plan, given_run(&given, grads), &err) == 0 && mf_plan_grads(given.plan)[3] == 2,
       "and computes");
    given_close(&given);
    mf_engine_close(e);
    mf_params_release(&ps);
}

static void fails(const char *file, const char *device, const char *why)
{
    name_file(file);
    err.text[0] = '\0';
    ok(open_device(device) == MF_EUSAGE && strstr(err.text, why) && !strchr(err.text, '\n'), "%s", err.text);
}

/* This program as an installed one, root/bin/test: does it find a device? */
static bool finds(const char *device)
{
    char command[200];
    snprintf(command, sizeof command, "%s/bin/test %s", root, device);
    return system(command) == 0;
}

static void move(const char *from, const char *to)
{
    char old[100], new[100];
    snprintf(old, sizeof old, "%s/%s", root, from);
    snprintf(new, sizeof new, "%s/%s", root, to);
    if (rename(old, new))
        abort();
}

static void beside(void)
{
    char command[400];
    unsetenv("MF_TOY");
    snprintf(command, sizeof command,
             "cd %s && mkdir -p bin lib/maniflow build/lib && cp \"$(readlink /proc/%d/exe)\" bin/test && "
             "ln -s bin/test other",
             root, (int)getpid());
    if (system(command))
        abort();
    ok(!finds("toy"), "no plugin");
    move("good.so", "build/lib/mf_toy.so");
    ok(finds("toy") && !finds("to") && !finds("../lib/mf_toy"), "beside the folder of a build's programs");
    move("build/lib/mf_toy.so", "lib/maniflow/mf_toy.so");
    ok(finds("toy:1"), "beside the folder of installed programs");
    move("other.so", "build/lib/mf_toy.so");
    ok(finds("toy"), "which is searched first");
    name_file("garbage.so");
    ok(!finds("toy"), "but for the file that the environment names");
}

int main(int argc, char **argv)
{
    char path[100];
    if (argc > 1)
        return open_device(argv[1]) != 0;
    unsetenv("MF_CUDA");
    if (!mkdtemp(root))
        return 1;
    build("good", "const struct mf_plugin mf_plugin = {MF_VERSION, &plain_device, MF_PLUGIN_SIZES};");
    build("old", "const struct mf_plugin mf_plugin = {\"0.0.9\", &plain_device, MF_PLUGIN_SIZES};");
    build("other", "const struct mf_plugin mf_plugin = {MF_VERSION, &plain_device, {sizeof(struct mf_plugin), 7}};");
    build("none", "");
    build("missing", PLAIN "int nobody_has_this(void); int (*const of)(void) = nobody_has_this;"
                           "const struct mf_plugin mf_plugin = {MF_VERSION, &plain_device, MF_PLUGIN_SIZES};");
    snprintf(path, sizeof path, "%s/garbage.so", root);
    FILE *f = fopen(path, "w");
    fputs("no object\n", f);
    fclose(f);
    works();
    fails("old.so", "toy", "old.so is of version 0.0.9 and this program of " MF_VERSION);
    fails("other.so", "toy", "other.so is of another build");
    fails("none.so", "toy", "none.so is no plugin of maniflow");
    fails("garbage.so", "toy", "cannot be loaded");
    fails("missing.so", "toy", "nobody_has_this");
    fails("nowhere.so", "toy", "No such file");
    fails("good.so", "Toy", "there is no device 'Toy'; there are cpu, ref and cuda");
    fails("good.so", "toy:", "there is no device 'toy:'");
    fails(NULL, "toy", "there is no device 'toy'; there are cpu, ref and cuda");
    fails(NULL, "cuda:0", "device=cuda: this installation has no CUDA plugin (mf_cuda.so)");
    setenv("MF_TOY", "toy_nowhere.so", 1);
    ok(open_device("toy") == MF_EUSAGE && strstr(err.text, "./toy_nowhere.so"), "a file without a folder is here: %s",
       err.text);
    beside();
    snprintf(path, sizeof path, "rm -rf %s", root);
    return system(path) || done();
}
