/* Weights and moments on a device and on the host: which of both is newer, also after a transfer that failed. */
#include "plain_device.h"

#include "flow/usage.h"
#include "given_grads.h"
#include "tap.h"

enum { N = 16 };
static struct mf_err err;
static int puts_left = 1 << 20, gets_left = 1 << 20; /* transfers that succeed from now on */

static int put(struct mf_dev *d, float *to, const float *host, size_t floats, struct mf_err *e)
{
    return puts_left-- > 0 ? plain_put(d, to, host, floats, e) : mf_err_set(e, MF_EDEVICE, "the device is gone");
}

static int get(struct mf_dev *d, float *host, const float *from, size_t floats, struct mf_err *e)
{
    return gets_left-- > 0 ? plain_get(d, host, from, floats, e) : mf_err_set(e, MF_EDEVICE, "the device is gone");
}

struct setup {
    struct mf_engine *engine;
    struct mf_device device;
    struct mf_params ps;
    struct given given;
    struct mf_adam adam;
    float start[N], grads[N];
};

static void open_setup(struct setup *x)
{
    *x = (struct setup){.device = plain_device};
    x->device.put = put;
    x->device.get = get;
    puts_left = gets_left = 1 << 20;
    mf_engine_on(&x->engine, &x->device, "", 1, MF_FP32, &err);
    mf_param_add(&x->ps, "w", 1, N, 1, MF_GROUP_POLICY, MF_INIT_UNIFORM, 1);
    given_open(&x->given, x->engine, &x->ps, 1);
    mf_adam_init(&x->adam, NULL, &x->ps, &err);
    memcpy(x->start, x->ps.value, sizeof x->start);
    for (int i = 0; i < N; i++)
        x->grads[i] = 1;
}

static void close_setup(struct setup *x)
{
    mf_adam_release(&x->adam);
    given_close(&x->given);
    mf_engine_close(x->engine); /* aborts where device memory was not given back */
    mf_params_release(&x->ps);
}

static int learn(struct setup *x)
{
    struct mf_verdict v;
    return mf_plan_learn(x->given.plan, given_run(&x->given, x->grads), &(struct mf_step){.lr = {.1}}, &x->adam, &v,
                         &err);
}

static int settle(struct setup *x)
{
    return mf_engine_settle(x->engine, &x->ps, &x->adam, &err);
}

static void gets_fail(void)
{
    struct setup x;
    open_setup(&x);
    ok(learn(&x) == 0 && !memcmp(x.ps.value, x.start, sizeof x.start), "a step leaves the host's weights");
    gets_left = 0;
    ok(settle(&x) == MF_EDEVICE, "weights that cannot be fetched: %s", err.text);
    gets_left = 2;
    ok(settle(&x) == MF_EDEVICE, "nor the second moments");
    gets_left = 1 << 20;
    ok(settle(&x) == 0, "later they can");
    near((double)x.ps.value[3], (double)x.start[3] - .1, 1e-6, "the step's weights have arrived");
    near((double)x.adam.v[3], .001, 1e-7, "and its moments");
    close_setup(&x);
}

static void puts_fail(void)
{
    struct setup x;
    open_setup(&x);
    learn(&x);
    settle(&x);
    memset(x.ps.value, 0, sizeof x.start);
    mf_params_touch(&x.ps);
    puts_left = 0;
    ok(learn(&x) == MF_EDEVICE, "weights that cannot be sent: %s", err.text);
    puts_left = 1 << 20;
    ok(learn(&x) == 0 && settle(&x) == 0, "later they can");
    near((double)x.ps.value[3], -.1, 1e-6, "the step began from the host's weights");
    memset(x.adam.m, 0, sizeof x.start);
    mf_adam_touch(&x.adam);
    puts_left = 0;
    ok(learn(&x) == MF_EDEVICE, "moments that cannot be sent");
    puts_left = 1 << 20;
    ok(learn(&x) == 0 && settle(&x) == 0, "later they can");
    near((double)x.adam.m[3], .1, 1e-7, "the step began from the host's moments");
    close_setup(&x);
}

/* A step through one plan changes the weights of other plans over these parameters, and copies on the device. */
static void several_plans(void)
{
    struct setup x;
    struct mf_params copy;
    float out[2];
    open_setup(&x);
    copy = x.ps;
    copy.value = NULL;
    mf_params_alloc(&copy, &err);
    struct mf_graph *g = mf_graph_new(&x.ps), *of_copy = mf_graph_new(&copy);
    struct mf_val show = mf_input(g, 1, N), one = mf_linear(g, show, 0, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    struct mf_val same = mf_input(of_copy, 1, N);
    struct mf_val two = mf_linear(of_copy, same, 0, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    struct mf_plan *plan, *copied;
    struct mf_verdict v;
    mf_plan_new(&plan, x.engine, g, &(struct mf_plan_opts){0}, &err);
    mf_plan_new(&copied, x.engine, of_copy, &(struct mf_plan_opts){0}, &err);
    learn(&x);
    const float unit[N] = {[3] = 1};
    const struct mf_feed feed[] = {{.input = show, .base = unit, .stride = N},
                                   {.input = same, .base = unit, .stride = N}};
    const struct mf_fetch fetch[] = {{.value = one, .base = out, .stride = 1},
                                     {.value = two, .base = out + 1, .stride = 1}};
    ok(mf_plan_run(plan, &(struct mf_batch){.n = 1, .feed = feed, .n_feeds = 1, .fetch = fetch, .n_fetches = 1},
                   &err) == 0 &&
           mf_weights_copy(x.engine, &copy, &x.ps, NULL, MF_GROUP_POLICY, &err) == 0 &&
           mf_plan_run(copied,
                       &(struct mf_batch){.n = 1, .feed = feed + 1, .n_feeds = 1, .fetch = fetch + 1, .n_fetches = 1},
                       &err) == 0,
       "two plans of the parameters, and one of a copy");
    near((double)out[0], (double)x.start[3] - .1, 1e-6, "another plan uses the new weights");
    near((double)out[1], (double)x.start[3] - .1, 1e-6, "and so does the copy");
    const struct mf_batch batch = {.n = 1, .feed = feed, .n_feeds = 1};
    ok(mf_plan_learn(plan, &batch, &(struct mf_step){.lr = {.1}}, &x.adam, &v, &err) == MF_EUSAGE, "%s", err.text);
    mf_plan_free(plan);
    mf_plan_free(copied);
    mf_graph_free(g);
    mf_graph_free(of_copy);
    free(copy.value);
    close_setup(&x);
}

/* What the device holds is beside the memory of the host. */
static void memory(void)
{
    struct setup x;
    struct mf_memory m = {.beside = NULL};
    struct mf_frame *f = mf_frame_new(MF_METRICS);
    double gib = 0, busy;
    open_setup(&x);
    mf_engine_memory(x.engine, 1000, &m);
    ok(m.on_device == 4000 && mf_memory_sum(&m) == 0, "a copy on the device, not in the host's memory");
    mf_usage_report(x.engine, f);
    ok(mf_frame_get_num(f, "values.device/memory", &gib, &err) == 0 && gib == 1.0 / (1 << 30) &&
           mf_frame_get_num(f, "values.device/utilisation", &busy, &err) != 0,
       "its memory is reported, and no utilisation where it is unknown");
    mf_frame_free(f);
    close_setup(&x);
}

int main(void)
{
    memory();
    gets_fail();
    puts_fail();
    several_plans();
    return done();
}
