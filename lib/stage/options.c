#include "stage/options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "base/mem.h"

static bool has_in(const struct mf_stage *s)
{
    return s->role == MF_FILTER || s->role == MF_SINK;
}

static bool has_out(const struct mf_stage *s)
{
    return s->role != MF_TOOL && !s->text_out;
}

/* Tools that inspect a stream take its file as a word: mf-view rollouts.mf. */
static bool takes_file(const struct mf_stage *s)
{
    return s->role == MF_SINK && s->text_out;
}

/* Its own keys, and those that the frame reads for all programs, or for all with a stream. */
static void help_keys(const struct mf_options *o, const struct mf_stage *s)
{
    static const struct mf_bind all[] = {{"log.level", MF_BIND_NONE}, {"conf.unknown", MF_BIND_NONE}, {0}},
                                wire[] = {{"wire.secret", MF_BIND_NONE},
                                          {"wire.server", MF_BIND_NONE},
                                          {"wire.allowed", MF_BIND_NONE},
                                          {"wire.patience", MF_BIND_NONE},
                                          {0}},
                                ranks[] = {{"ranks", MF_BIND_NONE}, {"ranks_timeout", MF_BIND_NONE}, {0}};
    const struct mf_bind_table common[] = {
        {all, 0}, {has_in(s) || has_out(s) ? wire : NULL, 0}, {s->ranks ? ranks : NULL, 0}, {0}};
    struct mf_bind *binds = mf_bind_join(o->binds, common);
    mf_conf_help(binds, stdout);
    free(binds);
}

static void help(const struct mf_options *o, const struct mf_stage *s)
{
    const char *words = s->operands ? s->operands : takes_file(s) ? "[FILE|RUN]" : NULL;
    printf("Usage: %s [key=value]...%s%s%s%s [--config-name NAME] [--config FILE]...\n%s\n", o->program,
           words ? " " : "", words ? words : "", has_in(s) ? " [--in ADDRESS]" : "",
           has_out(s) ? " [--out ADDRESS]" : "", s->summary);
    puts("\nKeys with their defaults, choices and [units]:\n");
    help_keys(o, s);
    puts(
        "\nKeys of other programs are accepted and ignored, so a pipeline can pass the same words to all.\n\nOptions:");
    if (has_in(s))
        puts("  --in ADDRESS        read the stream from ADDRESS instead of stdin");
    if (has_out(s))
        puts("  --out ADDRESS       write the stream to ADDRESS instead of stdout");
    if (has_in(s) || has_out(s))
        puts("                      ADDRESS: -, a path, ipc://PATH or tcp://127.0.0.1:PORT. For a socket, a prefix @\n"
             "                      binds and > connects; without one, --in binds and --out connects");
    puts("  --config-name NAME  compose the configuration NAME.yaml, as Hydra does; -cn\n"
         "  --config-dir DIR    folder of NAME.yaml and its groups instead of configs/; -cd\n"
         "  --config FILE       YAML file of keys, overridden by the words; repeatable. MF_CONFIG=FILE sets it\n"
         "                      for all programs\n"
         "  --cfg               print the resolved configuration; -c job");
    if (s->composes)
        puts("  -m, --multirun      print the jobs of a sweep, one line of shell-quoted words per job:\n"
             "                      key=1,2, choice(a,b), range(1,4), GROUP=glob(*)\n"
             "  --doc [KEY]...      print all keys of all programs, or the given ones");
    puts("  --help, --version");
    if (s->examples)
        printf("\nExamples:\n%s", s->examples);
}

/* Is a word a key rather than a file? "training.lr=..", "+key=..", "~key", "nested/group=option" unless a file has that
 * name; ./ and / begin files. */
static bool is_override(const char *word)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@/-";
    const size_t plus = strspn(word, "+"), n = strspn(word + plus, name);
    if (*word == '~') /* ~/file is a path, ~key=.. removes a key */
        return word[1] && word[1] != '/';
    if (n == 0 || word[plus + n] != '=' || *word == '.' || *word == '/')
        return false;
    return !memchr(word, '/', plus + n) || access(word, F_OK) != 0;
}

/* Is argv[*i] --name VALUE, --name=VALUE or -short VALUE? Then *value is it and *i its last word. */
static bool is_option(const char *name, const char *brief, char **argv, int *i, const char **value)
{
    const char *word = argv[*i] + 1;
    if (*word == '-')
        word++, brief = name;
    const size_t n = strlen(brief);
    if (!n || strncmp(word, brief, n) || (word[n] && word[n] != '='))
        return false;
    *value = word[n] ? word + n + 1 : argv[*i + 1];
    *i += !word[n] && *value;
    return true;
}

/* Expands a ~ that the shell has left in the word. */
static int in_full(struct mf_options *o, const char *word, const char **to, struct mf_err *err)
{
    char *full = mf_home_address(word, err);
    if (!full)
        return mf_err_at(err, "'%.128s'", word);
    *to = o->path[o->n_paths++] = full;
    return 0;
}

/* Requests that are answered at once. */
enum answer { ANSWER_NONE, ANSWER_HELP, ANSWER_VERSION, ANSWER_CFG, ANSWER_DOC, ANSWER_SWEEP };

struct words {
    const char **file, **pair; /* --config, and key=value */
    struct mf_sources from;
    enum answer answer;
};

static enum answer answer_of(const struct mf_stage *s, const char *word)
{
    static const struct {
        const char *word;
        enum answer answer;
    } all[] = {{"--help", ANSWER_HELP}, {"--version", ANSWER_VERSION}, {"--cfg", ANSWER_CFG},       {"-c", ANSWER_CFG},
               {"--doc", ANSWER_DOC},   {"-m", ANSWER_SWEEP},          {"--multirun", ANSWER_SWEEP}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(word, all[i].word) && (s->composes || all[i].answer < ANSWER_DOC))
            return all[i].answer;
    return ANSWER_NONE;
}

static int read_option(struct mf_options *o, const struct mf_stage *s, struct words *w, char **argv, int *i,
                       struct mf_err *err)
{
    const char *value, *word = argv[*i];
    const enum answer answer = answer_of(s, word);
    if (answer) {
        w->answer = answer;
        *i += answer == ANSWER_CFG && argv[*i + 1] && !strcmp(argv[*i + 1], "job"); /* Hydra's word for all of it */
        return 0;
    }
    const char **to;
    if (has_in(s) && is_option("in", "", argv, i, &value))
        to = &o->in;
    else if (has_out(s) && is_option("out", "", argv, i, &value))
        to = &o->out;
    else if (is_option("config", "", argv, i, &value))
        to = &w->file[w->from.n_files++];
    else if (is_option("config-name", "cn", argv, i, &value))
        to = &w->from.name;
    else if (is_option("config-dir", "cd", argv, i, &value))
        to = &w->from.dir;
    else if (!strcmp(word, "-m") || !strcmp(word, "--multirun"))
        return mf_err_set(err, MF_EUSAGE, "mf-conf -m prints the jobs of a sweep, and pipelines/sweep runs them");
    else
        return mf_err_set(err, MF_EUSAGE, "unknown option '%.128s'", word);
    if (!value || !*value)
        return mf_err_set(err, MF_EUSAGE, "%s needs a value", word);
    return in_full(o, value, to, err);
}

static int read_words(struct mf_options *o, const struct mf_stage *s, struct words *w, int argc, char **argv,
                      struct mf_err *err)
{
    for (int i = 1; i < argc; i++) {
        const char *in = o->in, *out = o->out;
        int first = i, rc = 0;
        if (!argv[i][0])
            rc = mf_err_set(err, MF_EUSAGE, "argument %d is empty: is a shell variable unset?", i);
        else if (argv[i][0] == '-' && argv[i][1])
            rc = read_option(o, s, w, argv, &i, err);
        else if (is_override(argv[i]))
            w->pair[w->from.n_words++] = argv[i];
        else if (s->operands)
            rc = in_full(o, argv[i], &o->operands[o->n_operands++], err);
        else if (takes_file(s) && !strcmp(o->in, "-"))
            rc = in_full(o, argv[i], &o->in, err);
        else
            rc = mf_err_set(err, MF_EUSAGE, "'%.128s' is neither key=value nor an option", argv[i]);
        if (rc || w->answer == ANSWER_HELP || w->answer == ANSWER_VERSION)
            return rc;
        while (in == o->in && out == o->out && first <= i)
            o->said[o->n_said++] = argv[first++];
    }
    return 0;
}

/* The installed configurations: beside bin/, or where make install puts them. */
static const char *installed(char path[1024])
{
    static const char *const at[] = {"configs", "share/maniflow/configs"};
    ssize_t n = readlink("/proc/self/exe", path, 900);
    for (int up = 0; n > 0 && up < 2; n--)
        up += path[n - 1] == '/';
    for (int i = 0; n > 0 && i < 2; i++) {
        snprintf(path + n, 1024 - (size_t)n, "/%s", at[i]);
        if (access(path, F_OK) == 0)
            return path;
    }
    return NULL;
}

/* A word that is not a valid key may be meant as a file. */
static void or_a_file(const struct words *w, struct mf_err *err)
{
    const struct mf_err why = *err;
    for (int i = 0; i < w->from.n_words; i++)
        if (access(w->pair[i], F_OK) == 0)
            mf_err_set(err, why.code, "%s; for the file of that name write ./%.128s", why.text, w->pair[i]);
}

static int resolve(struct mf_options *o, const struct mf_stage *s, struct words *w, struct mf_err *err)
{
    char path[1024];
    w->from.file = w->file, w->from.word = w->pair, w->from.installed = installed(path);
    if (w->answer == ANSWER_SWEEP)
        return mf_conf_sweep(&w->from, stdout, err);
    int rc = mf_conf_load(o->conf, &w->from, err);
    if (rc && (s->operands || takes_file(s)))
        or_a_file(w, err);
    if (rc == 0 && *mf_conf_remark(o->conf) && strcmp(mf_conf_text(o->conf, "log.level"), "error") != 0)
        mf_log(MF_LOG_WARN, "unknown keys, ignored: %s", mf_conf_remark(o->conf));
    return rc;
}

int mf_options_read(struct mf_options *o, const struct mf_stage *s, int argc, char **argv, struct mf_err *err)
{
    const size_t n = (size_t)argc + 1;
    const char *shared = getenv("MF_CONFIG");
    struct words w = {.file = mf_xcalloc(n, sizeof(char *)), .pair = mf_xcalloc(n, sizeof(char *))};
    snprintf(o->program, sizeof o->program, "mf-%s", s->name);
    o->in = o->out = "-";
    o->conf = mf_conf_new();
    o->binds = mf_bind_join(s->binds, s->tables);
    o->operands = mf_xcalloc(n, sizeof(char *));
    o->path = mf_xcalloc(n, sizeof(char *));
    o->said = mf_xcalloc(n, sizeof(char *));
    o->said[o->n_said++] = o->program;
    int rc = shared && *shared ? in_full(o, shared, &w.file[w.from.n_files++], err) : 0;
    rc = rc ? rc : read_words(o, s, &w, argc, argv, err);
    if (rc == 0 && w.answer == ANSWER_HELP)
        help(o, s);
    else if (rc == 0 && w.answer == ANSWER_VERSION)
        printf("%s %s\n", o->program, MF_VERSION);
    else if (rc == 0 && w.answer == ANSWER_DOC)
        rc = mf_conf_doc(o->operands, o->n_operands, stdout, err);
    else if (rc == 0 && (rc = resolve(o, s, &w, err)) == 0 && w.answer == ANSWER_CFG)
        mf_conf_print(o->conf, stdout);
    free(w.file);
    free(w.pair);
    return rc ? rc : w.answer != ANSWER_NONE;
}

void mf_options_release(struct mf_options *o)
{
    mf_conf_free(o->conf);
    free(o->binds);
    for (int i = 0; i < o->n_paths; i++)
        free(o->path[i]);
    free(o->path);
    free(o->operands);
    free(o->said);
}
