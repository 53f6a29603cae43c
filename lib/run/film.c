#include "run/film.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/publish.h"
#include "base/status.h"
#include "base/text.h"

extern char **environ;

struct mf_film {
    char *path, *part;
    size_t bytes; /* of a frame */
    int to;       /* ffmpeg's stdin */
    pid_t pid;
};

static const char *ending(const char *path)
{
    return mf_ends(path, ".mp4") ? "mp4" : mf_ends(path, ".gif") ? "gif" : NULL;
}

static int start(struct mf_film *f, int width, int height, double fps, struct mf_err *err)
{
    const bool gif = !strcmp(ending(f->path), "gif");
    char size[32], rate[32];
    int fd[2];
    snprintf(size, sizeof size, "%dx%d", width, height);
    snprintf(rate, sizeof rate, "%.6g", fps);
    const char *const filter = "split[a][b];[a]palettegen[p];[b][p]paletteuse"; /* colours of its own, for a GIF */
    const char *argv[] = {"ffmpeg",
                          "-loglevel",
                          "error",
                          "-y",
                          "-f",
                          "rawvideo",
                          "-pix_fmt",
                          "rgb24",
                          "-s",
                          size,
                          "-r",
                          rate,
                          "-i",
                          "-",
                          gif ? "-vf" : "-pix_fmt",
                          gif ? filter : "yuv420p",
                          "-threads",
                          "1",
                          "-f",
                          gif ? "gif" : "mp4",
                          f->part,
                          NULL};
    if (pipe2(fd, O_CLOEXEC) < 0)
        return mf_err_errno(err, "a pipe to ffmpeg");
    posix_spawn_file_actions_t act;
    posix_spawn_file_actions_init(&act);
    posix_spawn_file_actions_adddup2(&act, fd[0], STDIN_FILENO);
    posix_spawn_file_actions_addopen(&act, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    errno = posix_spawnp(&f->pid, "ffmpeg", &act, NULL, (char **)argv, environ);
    posix_spawn_file_actions_destroy(&act);
    close(fd[0]);
    f->to = fd[1];
    if (errno)
        f->pid = 0;
    return f->pid ? 0 : mf_err_errno(err, "%s is made by ffmpeg, which cannot be started (is it installed?)", f->path);
}

int mf_film_check(struct mf_err *err)
{
    const char *argv[] = {"ffmpeg", "-version", NULL};
    posix_spawn_file_actions_t act;
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_init(&act);
    posix_spawn_file_actions_addopen(&act, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    errno = posix_spawnp(&pid, "ffmpeg", &act, NULL, (char **)argv, environ);
    posix_spawn_file_actions_destroy(&act);
    if (errno)
        return mf_err_errno(err, "videos are made by ffmpeg, which cannot be started (is it installed?)");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status ? mf_err_set(err, MF_EIO, "videos are made by ffmpeg, and 'ffmpeg -version' fails here: it %s",
                               mf_status_text((char[MF_STATUS_TEXT]){0}, status))
                  : 0;
}

int mf_film_open(struct mf_film **out, const char *path, int width, int height, double fps, struct mf_err *err)
{
    char *part = ending(path) ? mf_publish_part(path, err) : NULL;
    if (!ending(path))
        return mf_err_set(err, MF_EUSAGE, "a video's name ends in .mp4 or .gif, not so '%.200s'", path);
    if (!part)
        return err->code;
    struct mf_film *f = mf_xcalloc(1, sizeof *f);
    f->to = -1;
    f->bytes = 3 * (size_t)width * (size_t)height;
    f->path = mf_xstrdup(path);
    f->part = part;
    int rc = start(f, width, height, fps, err);
    if (rc) {
        mf_film_drop(f);
        return rc;
    }
    *out = f;
    return 0;
}

/* ffmpeg's exit status; it ends when its input does. */
static int end(struct mf_film *f)
{
    int status = -1;
    if (f->to >= 0)
        close(f->to);
    while (f->pid && waitpid(f->pid, &status, 0) < 0 && errno == EINTR)
        ;
    f->to = -1;
    f->pid = 0;
    return status;
}

static int failed(const struct mf_film *f, int status, struct mf_err *err)
{
    return mf_err_set(err, MF_EIO, "ffmpeg %s before %s was made", mf_status_text((char[MF_STATUS_TEXT]){0}, status),
                      f->path);
}

int mf_film_add(struct mf_film *f, const uint8_t *rgb, struct mf_err *err)
{
    for (size_t at = 0; at < f->bytes;) {
        ssize_t n = write(f->to, rgb + at, f->bytes - at);
        if (n < 0 && errno == EPIPE)
            return failed(f, end(f), err);
        if (n < 0 && errno != EINTR)
            return mf_err_errno(err, "ffmpeg does not take the pictures of %s", f->path);
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void release(struct mf_film *f)
{
    free(f->path);
    free(f->part);
    free(f);
}

int mf_film_close(struct mf_film *f, struct mf_err *err)
{
    const int status = end(f);
    int rc = status ? failed(f, status, err) : mf_publish(f->part, f->path, err);
    if (rc)
        unlink(f->part);
    release(f);
    return rc;
}

void mf_film_drop(struct mf_film *f)
{
    if (!f)
        return;
    end(f);
    unlink(f->part);
    release(f);
}
