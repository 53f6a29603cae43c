/* err.h - how a library function reports an error.
 *
 * A function that may fail returns 0, or a negative enum mf_code, and takes a `struct mf_err *err` last. On failure
 * *err holds one whole sentence that reads well after "mf-gae: error: "; on success *err is untouched, so calls chain
 * with ||. Nothing under lib/ prints or exits but lib/stage.
 */
#ifndef MF_BASE_ERR_H
#define MF_BASE_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

enum mf_code {
    MF_EUSAGE = -1,  /* an option or a configuration is wrong      exit 2 */
    MF_EFORMAT = -2, /* the input is not a whole, valid stream     exit 3 */
    MF_EIO = -3,     /* open, read, write, a lost peer             exit 1 */
    MF_ENOMEM = -4,  /* an allocation whose size came from data    exit 1 */
    MF_EDEVICE = -5, /* the device cannot do it                    exit 1 */
    MF_EMATH = -6,   /* NaN, divergence                            exit 1 */
    MF_CLOSED = -7,  /* the reader downstream is gone              SIGPIPE */
    MF_STOPPED = -8, /* SIGINT or SIGTERM arrived                  by that signal */
};

struct mf_err {
    int code;
    char text[512];
};

/* Set *err and return code, for `return mf_err_set(...)`. */
int mf_err_set(struct mf_err *err, enum mf_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As mf_err_set(MF_EIO), with ": strerror(errno)" appended. */
int mf_err_errno(struct mf_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prepend "fmt: " to the sentence. Returns err->code. */
int mf_err_at(struct mf_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
