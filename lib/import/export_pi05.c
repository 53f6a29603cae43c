#include "import/export_pi05.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "stream/frame.h"

static const char embedding[] = "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight",
                  words[] = "paligemma_with_expert.paligemma.lm_head.weight";

/* As a checkpoint has them, and as a file of others has its configuration. */
static const struct {
    const char *ours, *theirs;
} setting[] = {{"spec.encoder_heads", "cfg.policy.encoder_heads"},
               {"spec.horizon", "cfg.horizon"},
               {"spec.n_action_steps", "cfg.n_action_steps"},
               {"spec.denoising_steps", "cfg.policy.num_inference_steps"}};

int mf_pi05_export(const struct mf_safetensors *f, struct mf_array *t, int *n, struct mf_meta meta[MF_PI05_META])
{
    bool tied = false;
    int kept = 0, n_meta = 0;
    for (int i = 0; i < *n && !tied; i++)
        tied = !strcmp(t[i].name, embedding);
    for (int i = 0; i < *n && tied; i++) {
        if (mf_starts(t[i].name, "picture.") || mf_starts(t[i].name, "normalizer."))
            continue;
        t[kept] = t[i];
        if (!strcmp(t[kept++].name, embedding))
            strcpy(t[kept - 1].name, words);
    }
    if (!tied)
        return 0;
    *n = kept;
    meta[n_meta++] = (struct mf_meta){embedding, words};
    for (size_t i = 0; i < sizeof setting / sizeof *setting; i++) {
        const char *text = mf_safetensors_meta(f, setting[i].ours);
        if (text)
            meta[n_meta++] = (struct mf_meta){setting[i].theirs, text};
    }
    return n_meta;
}
