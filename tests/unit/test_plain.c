/* Text from files on a terminal: control characters, in ASCII and in UTF-8. */
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/plain.h"
#include "base/text.h"
#include "tap.h"

static void plain(const char *text, int width, const char *want)
{
    char got[64] = "", copy[64];
    FILE *to = fmemopen(got, sizeof got, "w");
    mf_plain(text, width, to);
    fclose(to);
    strcpy(copy, text);
    copy[mf_plain_copy(copy, copy, strlen(copy))] = '\0';
    ok(!strcmp(got, want) && !strncmp(got, copy, strlen(copy)), "'%s' is written '%s'", want, got);
}

int main(void)
{
    plain("net.0.weight", 14, "net.0.weight  ");
    plain("a\nb\tc\033[31m\177", 0, "a?b?c?[31m?");
    plain("a\302\23331mb\302\200\302\237", 0, "a?31mb??");
    plain("a\302\233b", 5, "a?b  ");
    plain("\303\251\302\240\342\202\254\360\237\230\200", 0,
          "\303\251\302\240\342\202\254\360\237\230\200"); /* letters */
    plain("\302", 0, "\302");

    char escaped[32], back[32];
    ok(!strcmp(mf_escape(escaped, "a.b\\c,d", "."), "a\\.b\\\\c,d") && mf_unescape(back, "a\\.b\\\\c,d.e", ".") == 9 &&
           !strcmp(back, "a.b\\c,d"),
       "escaped text reads back, up to the first invalid character: %s, %s", escaped, back);

    int n;
    const char *word = mf_word_at("joint|single|none", 1, &n);
    ok(n == 6 && !strncmp(word, "single", 6) && mf_word_find("joint|single|none", "none") == 2 &&
           mf_word_find("joint|single", "sing") == -1 && mf_word_find("joint|single", "joint|single") == -1,
       "words are found by position, and whole");
    ok(mf_text_hash("") == 0xcbf29ce484222325 && mf_text_hash("foobar") == 0x85944171f73967e8, "FNV-1a of 64 bits");

    int out[2], screen = dup(STDERR_FILENO);
    char line[64] = "";
    ok(pipe(out) == 0 && dup2(out[1], STDERR_FILENO) >= 0, "(stderr is looked at)");
    mf_log_open("mf-test", MF_LOG_INFO);
    mf_log(MF_LOG_WARN, "a\302\233b\033c %s", "\303\251\302\205");
    dup2(screen, STDERR_FILENO);
    ok(read(out[0], line, sizeof line - 1) > 0 && !strcmp(line, "mf-test: warn: a?b?c \303\251?\n"),
       "so is a line of the log");
    return done();
}
