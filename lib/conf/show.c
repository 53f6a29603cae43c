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

/* What was kept beside a group's keys; of the top, what is no group. */
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
        fprintf(to, "%s%s: ", dot ? "  " : "", dot ? dot + 1 : name);
        print_value(&c->slot[i], &mf_keys[i], to);
    }
    print_rest(c->rest, "", to);
}

static void put_spaces(int n, FILE *to)
{
    fprintf(to, "%*s", n, "");
}

/* `text` from column `indent` on, broken at spaces before column HELP_COLUMNS. */
static void put_wrapped(const char *text, int indent, FILE *to)
{
    for (int room = HELP_COLUMNS - indent;;) {
        int n = (int)strlen(text), cut = n;
        if (n > room)
            for (cut = room; cut > 0 && text[cut] != ' ';)
                cut--;
        fprintf(to, "%.*s\n", cut ? cut : n, text);
        text += cut ? cut : n;
        if (!*text++)
            return;
        put_spaces(indent, to);
    }
}

static int pair_width(const struct mf_key *key)
{
    return (int)(strlen(key->name) + 1 + strlen(key->def ? key->def : "null"));
}

void mf_conf_help(const struct mf_bind *table, FILE *to)
{
    int wide = 0;
    for (const struct mf_bind *b = table; b->key; b++)
        wide = pair_width(&mf_keys[mf_key_find(b->key)]) > wide ? pair_width(&mf_keys[mf_key_find(b->key)]) : wide;
    for (const struct mf_bind *b = table; b->key; b++) {
        const struct mf_key *key = &mf_keys[mf_key_find(b->key)];
        const bool choice = key->type == MF_CHOICE;
        char text[512];
        snprintf(text, sizeof text, "%s%s%s%s%s", choice ? key->words : "", choice ? ": " : "",
                 key->unit ? key->unit : "", key->unit ? " " : "", key->help);
        fprintf(to, "  %s=%s", key->name, key->def ? key->def : "null");
        put_spaces(wide - pair_width(key) + 2, to);
        put_wrapped(text, wide + 4, to);
    }
}

void mf_conf_doc(FILE *to)
{
    struct mf_bind row[128];
    for (int i = 0; mf_keys[i].name;) {
        const size_t n = strcspn(mf_keys[i].name, ".");
        int k = 0;
        for (const char *group = mf_keys[i].name; k < 127 && mf_keys[i].name; i++)
            if (strncmp(group, mf_keys[i].name, n) || mf_keys[i].name[n] != group[n])
                break;
            else
                row[k++] = (struct mf_bind){.key = mf_keys[i].name};
        row[k].key = NULL;
        mf_conf_help(row, to);
        putc('\n', to);
    }
}
