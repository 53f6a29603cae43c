#include "import/export_pi05.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "stream/frame.h"

static const char embedding[] = "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight",
                  words[] = "paligemma_with_expert.paligemma.lm_head.weight";

bool mf_pi05_export(struct mf_array *t, int *n, struct mf_meta *meta)
{
    bool tied = false;
    int kept = 0;
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
        return false;
    *n = kept;
    *meta = (struct mf_meta){embedding, words};
    return true;
}
