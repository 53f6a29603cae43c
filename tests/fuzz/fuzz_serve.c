/* Questions to mf-env, one frame after the other: each gets an answer, whatever it says.
 *
 * rooms: env
 */
#include <stdlib.h>

#include "env/serve.h"
#include "wire/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mf_err err;
    const struct mf_env *env;
    if (size < 1 || mf_env_find(&env, data[0] == 'l' ? "lift" : "point", &err))
        return 0;
    struct mf_service *v = mf_service_new(env, 1, 0);
    data++, size--;
    for (size_t n; (n = mf_token_span(data, size)); data += n, size -= n) {
        struct mf_frame *q, *a;
        const char *say;
        if (mf_frame_decode(&q, data, n, &err))
            break;
        if (mf_frame_get_str(q, "say", &say, &err) == 0) {
            if (!(a = mf_service_answer(v, q, say, 1)))
                abort();
            mf_frame_free(a);
        }
        mf_frame_free(q);
    }
    mf_service_free(v);
    return 0;
}
