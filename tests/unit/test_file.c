/* Files of others are regular files, names are no paths, ~ is $HOME, what is published is whole. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/name.h"
#include "base/publish.h"
#include "tap.h"

static struct mf_err err;

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        abort();
}

static bool reads(FILE *f, const char *want)
{
    char text[64];
    if (!f)
        return false;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return !strcmp(text, want);
}

static bool refuses(const char *path, const char *why)
{
    return mf_file_open(path, &err) == MF_EFORMAT && strstr(err.text, path) && strstr(err.text, why);
}

static void kinds(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    put("plain", "text");
    ok(reads(mf_file_read("plain", &err), "text") && symlink("plain", "link") == 0 &&
           reads(mf_file_read("link", &err), "text"),
       "a regular file is read, also behind a link");
    ok(mkfifo("fifo", 0666) == 0 && refuses("fifo", "is a pipe"), "a FIFO is refused at once: %s", err.text);
    ok(bind(s, (struct sockaddr *)&at, sizeof at) == 0 && refuses("socket", "is a socket"), "a socket");
    ok(refuses("/dev/null", "is a device") && refuses("/dev/zero", "is a device"), "a device");
    ok(mkdir("folder", 0777) == 0 && refuses("folder", "is a folder"), "a folder");
    ok(mf_file_open("nowhere", &err) == MF_EIO && strstr(err.text, "nowhere: No such file"), "a missing file is named");
    close(s);
}

static void inside(void)
{
    mkdir("run", 0777), mkdir("run/videos", 0777);
    put("run/videos/a.gif", "gif"), put("secret", "s"), mkdir("runs", 0777), put("runs/b", "b");
    ok(reads(mf_file_read_in("run", "videos/a.gif", &err), "gif"), "a file in a folder");
    ok(symlink("a.gif", "run/videos/b.gif") == 0 && reads(mf_file_read_in("run", "videos/b.gif", &err), "gif") &&
           symlink("run", "latest") == 0 && reads(mf_file_read_in("latest", "videos/b.gif", &err), "gif"),
       "a link within it, and to it");
    ok(symlink("../../secret", "run/videos/c.gif") == 0 && !mf_file_read_in("run", "videos/c.gif", &err) &&
           err.code == MF_EFORMAT && strstr(err.text, "c.gif is a link out of run"),
       "a link out of it is refused: %s", err.text);
    ok(!mf_file_read_in("run", "../secret", &err) && !mf_file_read_in("run", "../runs/b", &err) &&
           symlink("..", "run/up") == 0 && !mf_file_read_in("run", "up/secret", &err),
       "so are names that climb, and a folder whose name begins alike");
}

static void names(void)
{
    static const char *const bad[] = {"", ".", "..", "a/b", "../../x", "/etc", "a\nb", "\177"};
    char long_name[80], plain[MF_NAME_BYTES];
    int n = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        n += mf_name_fault(bad[i]) != NULL;
    memset(long_name, 'a', sizeof long_name - 1), long_name[sizeof long_name - 1] = '\0';
    ok(n == 8 && mf_name_fault(long_name), "invalid names");
    ok(!mf_name_fault("lift") && !mf_name_fault("Isaac Lift-v0") && !mf_name_fault("..a") &&
           !mf_name_fault("gr\xc3\xbcn"),
       "valid names");
    mf_name_plain(plain, "../../x");
    ok(!strcmp(plain, "_._.._x"), "a name for a path: %s", plain);
    mf_name_plain(plain, "ALE/Pong-v5");
    ok(!strcmp(plain, "ALE_Pong-v5"), "of the field's own: %s", plain);
    mf_name_plain(plain, "..");
    ok(!strcmp(plain, "_."), "%s", plain);
    mf_name_plain(plain, "");
    ok(!strcmp(plain, "_"), "of nothing: %s", plain);
    mf_name_plain(plain, long_name);
    ok(strlen(plain) == 63 && !mf_name_fault(plain), "a long one is cut");
}

/* Is it this, freed? */
static bool is(char *got, const char *want)
{
    const bool same = got && !strcmp(got, want);
    free(got);
    return same;
}

static void home(void)
{
    setenv("HOME", "/home/x", 1);
    ok(is(mf_home_path("~/runs/a", &err), "/home/x/runs/a") && is(mf_home_path("~", &err), "/home/x"), "~ and ~/");
    ok(is(mf_home_path("./~/a", &err), "./~/a") && is(mf_home_path("a~", &err), "a~"), "elsewhere it is a letter");
    ok(is(mf_home_address("ipc://~/s", &err), "ipc:///home/x/s") &&
           is(mf_home_address("@ipc://~/s", &err), "@ipc:///home/x/s") &&
           is(mf_home_address("~/a.mf", &err), "/home/x/a.mf") &&
           is(mf_home_address(">tcp://127.0.0.1:7", &err), ">tcp://127.0.0.1:7") && is(mf_home_address("-", &err), "-"),
       "in addresses");
    ok(!mf_home_path("~bob/a", &err) && err.code == MF_EUSAGE && strstr(err.text, "only ~ and ~/"), "%s", err.text);
    unsetenv("HOME");
    ok(!mf_home_path("~/a", &err) && strstr(err.text, "$HOME, which is not set"), "%s", err.text);
    ok(is(mf_home_path("a", &err), "a"), "a path without ~ needs no HOME");
}

static void published(void)
{
    ok(mf_publish_bytes("it", "first", 5, &err) == 0 && reads(mf_file_read("it", &err), "first") &&
           access("it.part", F_OK) < 0,
       "bytes become a file");
    ok(link("it", "before") == 0 && mf_publish_bytes("it", "", 0, &err) == 0 && reads(mf_file_read("it", &err), "") &&
           reads(mf_file_read("before", &err), "first"),
       "another file takes its place, and the one before is never changed");
    ok(mkdir("it2", 0777) == 0 && mf_publish_bytes("it2", "x", 1, &err) == MF_EUSAGE &&
           mf_publish_bytes("none/it", "x", 1, &err) == MF_EIO,
       "a folder is not replaced, nor made");
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    fputs("printed", f);
    ok(mf_publish_printed("printed", f, &text, &n, &err) == 0 && reads(mf_file_read("printed", &err), "printed") &&
           mf_publish_printed("none", NULL, &text, &n, &err) == MF_EIO && access("none", F_OK) < 0,
       "a printed file is published; without memory for it nothing is");
    if (access("/dev/full", W_OK) == 0) {
        put("kept", "kept");
        ok(symlink("/dev/full", "kept.part") == 0 && mf_publish_bytes("kept", "x", 1, &err) == MF_EIO &&
               strstr(err.text, "No space left") && reads(mf_file_read("kept", &err), "kept"),
           "on a full disk the old file stays: %s", err.text);
    }
}

int main(void)
{
    char where[] = "/tmp/mf-file-XXXXXX", command[64];
    if (!mkdtemp(where) || chdir(where))
        return 1;
    kinds();
    inside();
    names();
    home();
    published();
    snprintf(command, sizeof command, "rm -rf %s", where);
    return system(command) || done();
}
