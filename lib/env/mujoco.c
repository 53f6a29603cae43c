#include "env/mujoco.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The error handler must not return, as MuJoCo would continue after the failure; it leaves the call through this jump
 * buffer. */
struct trap {
    jmp_buf out;
    char text[256];
};

static _Thread_local struct trap *trap;

static void on_error(const char *text)
{
    if (!trap)
        abort();
    snprintf(trap->text, sizeof trap->text, "%s", text);
    longjmp(trap->out, 1);
}

static void on_warning(const char *text)
{
    (void)text; /* counted in mjData.warning, which mf_mujoco_step reads */
}

static mjModel *compile(mjVFS *vfs, const struct mf_mjcf *files, char *why, int room)
{
    mjModel *m = NULL;
    int n = 0;
    if (!files->text)
        return mj_loadXML(files->name, NULL, why, room);
    mj_defaultVFS(vfs);
    for (; files[n].name && mj_makeEmptyFileVFS(vfs, files[n].name, (int)strlen(files[n].text)) == 0; n++)
        memcpy(vfs->filedata[n], files[n].text, strlen(files[n].text));
    if (!files[n].name)
        m = mj_loadXML(files[0].name, vfs, why, room);
    mj_deleteVFS(vfs);
    return m;
}

int mf_mujoco_load(mjModel **m, const struct mf_mjcf *files, struct mf_err *err)
{
    struct trap t;
    char why[1000] = "";
    mjVFS *vfs = malloc(sizeof *vfs); /* 2 MB of names */
    if (!vfs)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes to load the model %s", sizeof *vfs, files->name);
    mju_user_error = on_error;
    mju_user_warning = on_warning;
    *m = NULL;
    if (setjmp(t.out)) {
        trap = NULL;
        free(vfs);
        return mf_err_set(err, MF_EIO, "MuJoCo cannot load the model %s: %s", files->name, t.text);
    }
    trap = &t;
    *m = compile(vfs, files, why, sizeof why);
    trap = NULL;
    free(vfs);
    for (char *at = why; (at = strchr(at, '\n'));)
        *at = ' '; /* one line */
    return *m ? 0 : mf_err_set(err, MF_EIO, "MuJoCo cannot load the model %s: %s", files->name, why);
}

int mf_mujoco_data(mjData **d, const mjModel *m, struct mf_err *err)
{
    struct trap t = {.text = "out of memory"};
    *d = NULL;
    trap = &t;
    if (!setjmp(t.out))
        *d = mj_makeData(m);
    trap = NULL;
    return *d ? 0 : mf_err_set(err, MF_ENOMEM, "MuJoCo cannot make a simulation: %s", t.text);
}

bool mf_mujoco_call(void (*function)(const mjModel *m, mjData *d), const mjModel *m, mjData *d, int n)
{
    struct trap t;
    if (setjmp(t.out)) {
        trap = NULL;
        return false;
    }
    trap = &t;
    for (int i = 0; i < n; i++)
        function(m, d);
    trap = NULL;
    return !d->warning[mjWARN_BADQPOS].number && !d->warning[mjWARN_BADQVEL].number &&
           !d->warning[mjWARN_BADQACC].number && !d->warning[mjWARN_BADCTRL].number;
}

bool mf_mujoco_step(const mjModel *m, mjData *d, int n)
{
    return mf_mujoco_call(mj_step, m, d, n);
}

void mf_mujoco_poses(const mjModel *m, mjData *d)
{
    mjMARKSTACK;
    mjtNum *qpos = mj_stackAlloc(d, m->nq);
    mju_copy(qpos, d->qpos, m->nq);
    mj_kinematics(m, d);
    mj_camlight(m, d);
    mju_copy(d->qpos, qpos, m->nq);
    mjFREESTACK;
}

struct state_field {
    mjtNum *at;
    int n;
};

enum { PARTS = 8 };

static void find_parts(const mjModel *m, mjData *d, struct state_field part[PARTS])
{
    part[0] = (struct state_field){&d->time, 1};
    part[1] = (struct state_field){d->qpos, m->nq};
    part[2] = (struct state_field){d->qvel, m->nv};
    part[3] = (struct state_field){d->act, m->na};
    part[4] = (struct state_field){d->ctrl, m->nu};
    part[5] = (struct state_field){d->qacc_warmstart, m->nv};
    part[6] = (struct state_field){d->mocap_pos, 3 * m->nmocap};
    part[7] = (struct state_field){d->mocap_quat, 4 * m->nmocap};
}

size_t mf_mujoco_state_size(const mjModel *m)
{
    return (size_t)(1 + m->nq + 2 * m->nv + m->na + m->nu + 7 * m->nmocap) * sizeof(mjtNum);
}

void mf_mujoco_save(const mjModel *m, const mjData *d, void *bytes)
{
    struct state_field part[PARTS];
    char *at = bytes;
    find_parts(m, (mjData *)d, part);
    for (int i = 0; i < PARTS; at += (size_t)part[i++].n * sizeof(mjtNum))
        memcpy(at, part[i].at, (size_t)part[i].n * sizeof(mjtNum));
}

void mf_mujoco_restore(const mjModel *m, mjData *d, const void *bytes)
{
    struct state_field part[PARTS];
    const char *at = bytes;
    mj_resetData(m, d);
    find_parts(m, d, part);
    for (int i = 0; i < PARTS; at += (size_t)part[i++].n * sizeof(mjtNum))
        memcpy(part[i].at, at, (size_t)part[i].n * sizeof(mjtNum));
}
