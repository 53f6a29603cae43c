#include "env/mujoco.h"

#include <string.h>

#include "tap.h"

#define FALLING "<worldbody><body><freejoint/><geom size='.1'/></body></worldbody>"

static int load(mjModel **m, const char *name, const char *text, struct mf_err *err)
{
    return mf_mujoco_load(m, (const struct mf_mjcf[]){{name, text}, {NULL, NULL}}, err);
}

int main(void)
{
    struct mf_err err = {0};
    mjModel *m;
    mjData *d = NULL;
    ok(load(&m, "bad.xml", "<mujoco><option timestp='1'/></mujoco>", &err) == MF_EIO && strstr(err.text, "timestp") &&
           !strchr(err.text, '\n'),
       "the error for an invalid model has the reason: %s", err.text);

    ok(!load(&m, "ball.xml", "<mujoco>" FALLING "</mujoco>", &err) && !mf_mujoco_data(&d, m, &err), "a ball");
    ok(mf_mujoco_step(m, d, 50) && d->qpos[2] < 0, "falls");
    d->qvel[0] = NAN;
    ok(!mf_mujoco_step(m, d, 3), "a NaN velocity is a failed step");
    mj_deleteData(d);
    mj_deleteModel(m);

    load(&m, "tight.xml", "<mujoco>" FALLING "</mujoco>", &err);
    m->nstack = 10; /* too little for a step */
    ok(!mf_mujoco_data(&d, m, &err), "a simulation without working memory");
    ok(!mf_mujoco_step(m, d, 1), "fails its step; MuJoCo does not end the process");
    mj_deleteData(d);
    mj_deleteModel(m);
    return done();
}
