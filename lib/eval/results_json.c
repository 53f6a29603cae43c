#include "eval/results_json.h"

#include <stdlib.h>

#include "base/publish.h"

int mf_results_json_open(struct mf_results_json *j, const char *path, const char *env, int n_seeds, const int64_t *seed,
                         struct mf_err *err)
{
    *j = (struct mf_results_json){.path = path};
    if (!(j->part = mf_publish_part(path, err)))
        return err->code;
    if (!(j->to = fopen(j->part, "we")))
        return mf_err_errno(err, "cannot create '%s'", j->part);
    fputs("{\"env\": ", j->to);
    int rc = mf_json_write(mf_json_text(env), "", j->to, err);
    fputs(n_seeds > 1 ? ", \"seeds\": [" : ", \"seed\": ", j->to);
    for (int i = 0; i < n_seeds; i++)
        fprintf(j->to, "%s%lld", i ? ", " : "", (long long)seed[i]);
    fputs(n_seeds > 1 ? "], \"results\": [" : ", \"results\": [", j->to);
    return rc;
}

int mf_results_json_add(struct mf_results_json *j, const struct mf_result *r, struct mf_err *err)
{
    if (!j->to)
        return 0;
    fputs(j->n++ ? ",\n" : "\n", j->to);
    return mf_json_write(mf_result_json(r), "", j->to, err);
}

int mf_results_json_close(struct mf_results_json *j, bool keep, struct mf_err *err)
{
    int rc = 0;
    if (j->to) {
        fputs("\n]}\n", j->to);
        bool failed = ferror(j->to);
        if (fclose(j->to) || failed)
            rc = mf_err_errno(err, "cannot write '%s'", j->part);
        if (rc == 0 && keep)
            rc = mf_publish(j->part, j->path, err);
        else
            remove(j->part);
    }
    free(j->part);
    *j = (struct mf_results_json){0};
    return rc;
}
