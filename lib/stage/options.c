#include "stage/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static bool has_in(const struct mf_stage *s)
{
    return s->role == MF_FILTER || s->role == MF_SINK;
}

static bool has_out(const struct mf_stage *s)
{
    return s->role != MF_TOOL && !s->text_out;
}

/* What looks at a stream takes its file as a word: mf-view rollouts.mf. */
static bool takes_file(const struct mf_stage *s)
{
    return s->role == MF_SINK && s->text_out;
}

/* Its own keys, and the one that every program reads. */
static void help_keys(const struct mf_bind *own)
{
    size_t n = 0;
    while (own && own[n].key)
        n++;
    struct mf_bind *all = mf_xcalloc(n + 2, sizeof *all);
    if (n)
        memcpy(all, own, n * sizeof *all);
    all[n].key = "log.level";
    mf_conf_help(all, stdout);
    free(all);
}

static void help(const struct mf_options *o, const struct mf_stage *s)
{
    const char *words = s->operands ? s->operands : takes_file(s) ? "[FILE|RUN]" : NULL;
    printf("usage: %s [key=value]...%s%s%s%s [--config FILE]...\n%s\n", o->program, words ? " " : "",
           words ? words : "", has_in(s) ? " [--in ADDRESS]" : "", has_out(s) ? " [--out ADDRESS]" : "", s->summary);
    puts("\nkeys and their defaults:");
    help_keys(s->binds);
    puts("Keys of other programs are accepted too, so that a pipeline hands the same words to all.\n\noptions:");
    if (has_in(s))
        puts("  --in ADDRESS   read the stream from there, not from stdin");
    if (has_out(s))
        puts("  --out ADDRESS  write it there, not to stdout");
    if (has_in(s) || has_out(s))
        puts("                 an address: -, a path, ipc://PATH, tcp://127.0.0.1:PORT; @ before the latter two\n"
             "                 binds, > connects; of itself the reader binds");
    puts("  --config FILE  YAML of keys, before the words; again for more; MF_CONFIG names one for all\n"
         "  --cfg          print the resolved configuration\n"
         "  --help, --version");
    if (s->examples)
        printf("\nexamples:\n%s", s->examples);
}

/* "training.lr=..": a path with a slash before its '=' is none. */
static bool is_key_value(const char *word)
{
    size_t n = 0;
    while (isalnum((unsigned char)word[n]) || word[n] == '_' || word[n] == '.')
        n++;
    return n > 0 && word[n] == '=';
}

/* Is argv[*i] --name VALUE or --name=VALUE? Then *value is it and *i its last word. */
static bool is_option(const char *name, char **argv, int *i, const char **value)
{
    const char *word = argv[*i] + 2;
    size_t n = strlen(name);
    if (strncmp(word, name, n) || (word[n] && word[n] != '='))
        return false;
    *value = word[n] ? word + n + 1 : argv[*i + 1];
    *i += !word[n] && *value;
    return true;
}

struct words {
    const char **configs, **pairs;
    int n_configs, n_pairs;
};

static int read_option(struct mf_options *o, const struct mf_stage *s, struct words *w, char **argv, int *i,
                       struct mf_err *err)
{
    const char *value, *word = argv[*i];
    if (has_in(s) && is_option("in", argv, i, &value))
        o->in = value;
    else if (has_out(s) && is_option("out", argv, i, &value))
        o->out = value;
    else if (is_option("config", argv, i, &value))
        w->configs[w->n_configs++] = value;
    else
        return mf_err_set(err, MF_EUSAGE, "no option '%.128s' here", word);
    return value ? 0 : mf_err_set(err, MF_EUSAGE, "%s needs a value", word);
}

static int read_words(struct mf_options *o, const struct mf_stage *s, struct words *w, int argc, char **argv,
                      bool *print, struct mf_err *err)
{
    for (int i = 1; i < argc; i++) {
        const char *in = o->in, *out = o->out;
        int first = i, rc = 0;
        if (!strcmp(argv[i], "--help")) {
            help(o, s);
            return 1;
        } else if (!strcmp(argv[i], "--version")) {
            printf("%s %s\n", o->program, MF_VERSION);
            return 1;
        } else if (!strcmp(argv[i], "--cfg"))
            *print = true;
        else if (argv[i][0] == '-' && argv[i][1])
            rc = read_option(o, s, w, argv, &i, err);
        else if (is_key_value(argv[i]))
            w->pairs[w->n_pairs++] = argv[i];
        else if (s->operands)
            o->operands[o->n_operands++] = argv[i];
        else if (takes_file(s) && !strcmp(o->in, "-"))
            o->in = argv[i];
        else
            rc = mf_err_set(err, MF_EUSAGE, "'%.128s' is neither key=value nor an option", argv[i]);
        if (rc)
            return rc;
        while (in == o->in && out == o->out && first <= i)
            o->said[o->n_said++] = argv[first++];
    }
    return 0;
}

static int resolve(struct mf_options *o, const struct words *w, struct mf_err *err)
{
    const char *shared = getenv("MF_CONFIG");
    int rc = shared && *shared ? mf_conf_file(o->conf, shared, err) : 0;
    for (int i = 0; i < w->n_configs && rc == 0; i++)
        rc = mf_conf_file(o->conf, w->configs[i], err);
    for (int i = 0; i < w->n_pairs && rc == 0; i++)
        rc = mf_conf_word(o->conf, w->pairs[i], err);
    return rc;
}

int mf_options_read(struct mf_options *o, const struct mf_stage *s, int argc, char **argv, struct mf_err *err)
{
    const size_t n = (size_t)argc + 1;
    struct words w = {mf_xcalloc(n, sizeof(char *)), mf_xcalloc(n, sizeof(char *)), 0, 0};
    bool print = false;
    snprintf(o->program, sizeof o->program, "mf-%s", s->name);
    o->in = o->out = "-";
    o->conf = mf_conf_new();
    o->operands = mf_xcalloc(n, sizeof(char *));
    o->said = mf_xcalloc(n, sizeof(char *));
    o->said[o->n_said++] = o->program;
    int rc = read_words(o, s, &w, argc, argv, &print, err);
    if (rc == 0)
        rc = resolve(o, &w, err);
    if (rc == 0 && print) {
        mf_conf_print(o->conf, stdout);
        rc = 1;
    }
    free(w.configs);
    free(w.pairs);
    return rc;
}

void mf_options_release(struct mf_options *o)
{
    mf_conf_free(o->conf);
    free(o->operands);
    free(o->said);
}
