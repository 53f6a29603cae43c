#include "import/torch_show.h"

#include <string.h>

#include "base/file.h"
#include "stream/json.h"

static const struct mf_torch_layout layouts[] = {
    {"workspace of diffusion policy or ManiFlow", "state_dicts.model", "state_dicts.ema_model", NULL},
    {"ReinFlow's or DPPO's cloning", "model", "ema", NULL},
    {"ReinFlow's or DPPO's fine-tuning", "model", NULL, NULL},
    {"a policy's state_dict among others", "policy_state_dict", NULL, NULL},
    {"the ReinFlow document's stages", "agent", "ema_agent", "visual_encoder"},
    {"PyTorch Lightning", "state_dict", NULL, NULL},
    {"a model's state_dict among others", "model_state_dict", NULL, NULL},
    {"DeepSpeed", "module", NULL, NULL},
    {"plain state_dict", "", NULL, NULL},
};

bool mf_torch_within(const struct mf_torch_tensor *t, const char *dictionary)
{
    size_t n = strlen(dictionary), before = (size_t)(t->key - t->name);
    return n ? before == n + 1 && !memcmp(t->name, dictionary, n) : before == 0;
}

static bool has(const struct mf_torch *f, const char *dictionary)
{
    for (int i = 0; dictionary && i < f->n; i++)
        if (mf_torch_within(&f->tensor[i], dictionary))
            return true;
    return false;
}

struct mf_torch_layout mf_torch_layout(const struct mf_torch *f)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct mf_torch_layout l = layouts[i];
        bool average = has(f, l.average);
        if (!has(f, l.weights) || (!strcmp(l.weights, "model") && l.average && !average))
            continue;
        l.average = average ? l.average : NULL;
        l.beside = has(f, l.beside) ? l.beside : NULL;
        return l;
    }
    return (struct mf_torch_layout){0};
}

static void show_text(const struct mf_torch *f, FILE *to)
{
    struct mf_torch_layout l = mf_torch_layout(f);
    fprintf(to, "%-24s %s", "layout", l.name ? l.name : "none that is known");
    if (l.name && *l.weights)
        fprintf(to, ": weights in %s", l.weights);
    if (l.average)
        fprintf(to, ", their average in %s", l.average);
    if (l.beside)
        fprintf(to, ", more in %s", l.beside);
    putc('\n', to);
    for (int i = 0; i < f->n_values; i++)
        fprintf(to, "%-24s %s\n", f->value[i].name, f->value[i].text);
    for (int i = 0; i < f->n; i++) {
        const struct mf_torch_tensor *t = &f->tensor[i];
        fprintf(to, "%-64s %s (", t->name, t->dtype->name);
        for (int d = 0; d < t->rank; d++)
            fprintf(to, d ? ", %zu" : "%zu", t->dim[d]);
        fputs(")\n", to);
    }
}

static void show_json(const struct mf_torch *f, FILE *to)
{
    json_t *values = json_object(), *all = json_pack("{s:o}", "__metadata__", values);
    for (int i = 0; i < f->n_values; i++)
        mf_json_set(values, f->value[i].name, mf_json_text(f->value[i].text));
    for (int i = 0; i < f->n; i++) {
        const struct mf_torch_tensor *t = &f->tensor[i];
        mf_json_set(all, t->name,
                    json_pack("{s:s, s:o}", "dtype", t->dtype->name, "shape", mf_json_sizes(t->dim, t->rank)));
    }
    struct mf_err ignored; /* the program checks its output when it closes it */
    (void)mf_json_write(all, "\n", to, &ignored);
}

void mf_torch_show(const struct mf_torch *f, bool json, FILE *to)
{
    (json ? show_json : show_text)(f, to);
}

bool mf_torch_is(const char *path)
{
    unsigned char head[9] = {0};
    struct mf_err ignored;
    FILE *from = mf_file_read(path, &ignored);
    if (!from)
        return false;
    size_t n = fread(head, 1, sizeof head, from);
    fclose(from);
    bool pickle = head[0] == 0x80 && head[1] <= 5 &&
                  head[8] != '{'; /* 0x80 .. '{' is a safetensors file whose header has 128 bytes */
    return n == sizeof head && (!memcmp(head, "PK\3\4", 4) || pickle);
}
