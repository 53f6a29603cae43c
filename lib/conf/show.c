#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conf/conf_priv.h"

enum { HELP_COLUMNS = 100 };

static void print_value(const struct mf_slot *s, const struct mf_key *key, FILE *to)
{
    if (!s->text)
        fputs("null", to);
    else if (key->type == MF_STR)
        mf_value_print(s->text, to);
    else
        fputs(s->text, to);
    putc('\n', to);
}

/* Prints the unknown keys of a group; of the root, those outside all groups. */
static void print_rest(const struct mf_item *in, const char *indent, FILE *to)
{
    for (int i = 0; in && in->is == MF_IS_MAP && i < in->n; i++) {
        if (!*indent && mf_key_is_group(in->name[i]))
            continue;
        fputs(indent, to);
        mf_text_print(in->name[i], to);
        fputs(": ", to);
        mf_item_print(in->child[i], to);
        putc('\n', to);
    }
}

void mf_conf_print(const struct mf_conf *c, FILE *to)
{
    char group[64] = "";
    for (int i = 0; i < c->n; i++) {
        const char *name = mf_keys[i].name, *dot = strchr(name, '.');
        const int n = dot ? (int)(dot - name) : 0;
        if ((int)strlen(group) != n || strncmp(group, name, (size_t)n) != 0) {
            if (*group && c->rest)
                print_rest(mf_item_find(c->rest, group), "  ", to);
            snprintf(group, sizeof group, "%.*s", n, name);
            if (dot)
                fprintf(to, "%s:\n", group);
        }
        if (c->slot[i].omitted)
            continue;
        fprintf(to, "%s%s: ", dot ? "  " : "", dot ? dot + 1 : name);
        print_value(&c->slot[i], &mf_keys[i], to);
    }
    print_rest(c->rest, "", to);
}

static void put_spaces(int n, FILE *to)
{
    fprintf(to, "%*s", n, "");
}

/* Prints `text` from column `indent` on, wrapped at spaces before column HELP_COLUMNS. */
static void put_wrapped(const char *text, int indent, FILE *to)
{
    for (int room = HELP_COLUMNS - indent;;) {
        int n = (int)strlen(text), cut = n;
        if (n > room)
            for (cut = room; cut > 0 && text[cut] != ' ';)
                cut--;
        cut = cut ? cut : (int)strcspn(text, " "); /* a longer word has a line of its own */
        fprintf(to, "%.*s\n", cut, text);
        text += cut;
        if (!*text++)
            return;
        put_spaces(indent, to);
    }
}

static int pair_width(const struct mf_key *key)
{
    return (int)(strlen(key->name) + 1 + strlen(key->def ? key->def : "null"));
}

/* A section has the keys from its first one up to the next section, in the order of mf_keys. */
static const struct section {
    const char *first, *heading;
} sections[] = {
    {"eval.num_episodes", "Evaluation"},
    {"clone.dataset", "Cloning"},
    {"training.total_timesteps", "Training"},
    {"training.clip_range", "PPO"},
    {"advantage.advantage_type", "Advantages"},
    {"sac.form", "SAC"},
    {"collect.actor", "Collecting"},
    {"film.every", "Training videos"},
    {"view.arrays", "View"},
    {"top.interval", "Terminal"},
    {"plot.out", "Plot"},
    {"report.success", "Report"},
    {"compare.seeds", "Comparison"},
    {"log.formats", "Metrics files"},
    {"data.format", "Demonstrations"},
    {"ckpt.keep", "Checkpoints"},
    {"env.name", "Environments"},
    {"policy.checkpoint", "Policy"},
    {"policy.network", "Network of the policy"},
    {"policy.noise_method", "Noise of the denoising chain"},
    {"run.dir", "Run"},
    {"device", "Device"},
    {"use_wandb", "Weights & Biases"},
    {"wire.secret", "Sockets"},
    {"log.level", "Messages"},
    {"conf.unknown", "Configuration"},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static bool begins_section(int key)
{
    for (int i = 0; i < SECTIONS; i++)
        if (!strcmp(sections[i].first, mf_keys[key].name))
            return true;
    return false;
}

static bool is_bound(const struct mf_bind *table, const char *key)
{
    while (table->key && strcmp(table->key, key) != 0)
        table++;
    return table->key;
}

static void help_row(const struct mf_key *key, int wide, FILE *to)
{
    const bool choice = key->type == MF_CHOICE;
    char text[512];
    snprintf(text, sizeof text, "%s%s%s%s%s%s", choice ? key->words : "", choice ? ": " : "", key->help,
             key->unit ? " [" : "", key->unit ? key->unit : "", key->unit ? "]" : "");
    fprintf(to, "  %s=%s", key->name, key->def ? key->def : "null");
    put_spaces(wide - pair_width(key) + 2, to);
    put_wrapped(text, wide + 4, to);
}

void mf_conf_help(const struct mf_bind *table, FILE *to)
{
    int wide = 0;
    bool any = false;
    for (const struct mf_bind *b = table; b->key; b++)
        wide = pair_width(&mf_keys[mf_key_find(b->key)]) > wide ? pair_width(&mf_keys[mf_key_find(b->key)]) : wide;
    for (const struct section *s = sections; s < sections + SECTIONS; s++) {
        const char *heading = s->heading;
        int i = mf_key_find(s->first);
        do {
            if (!is_bound(table, mf_keys[i].name))
                continue;
            if (heading)
                fprintf(to, "%s%s:\n", any ? "\n" : "", heading);
            heading = NULL, any = true;
            help_row(&mf_keys[i], wide, to);
        } while (mf_keys[++i].name && !begins_section(i));
    }
}

int mf_conf_doc(const char *const *keys, int n, FILE *to, struct mf_err *err)
{
    int m = 0, rc = 0;
    while (mf_keys[m].name)
        m++;
    struct mf_bind *all = mf_xcalloc((size_t)(n > m ? n : m) + 1, sizeof *all);
    for (int i = 0; rc == 0 && i < n; i++)
        if (mf_key_find(all[i].key = keys[i]) < 0)
            rc = mf_err_set(err, MF_EUSAGE, "'%.128s' is not a key; mf-conf --doc lists all", keys[i]);
    for (int i = 0; n == 0 && i < m; i++)
        all[i].key = mf_keys[i].name;
    if (rc == 0)
        mf_conf_help(all, to);
    free(all);
    return rc;
}
