/* fixture.h - records of a file that tests/reference made: u32 length, name, u32 count, float32 values. */
#ifndef MF_FIXTURE_H
#define MF_FIXTURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    char *bytes;
    size_t size;
};

static inline struct fixture fixture_load(const char *path)
{
    struct fixture f = {0};
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        printf("Bail out! no %s: run the tests in the repository's root\n", path);
        exit(1);
    }
    f.size = (size_t)ftell(file);
    f.bytes = malloc(f.size);
    rewind(file);
    f.size = fread(f.bytes, 1, f.size, file);
    fclose(file);
    return f;
}

/* A copy of the record's values (the caller frees it) and their count; NULL: no such record. */
static inline float *fixture_find(const struct fixture *f, const char *name, size_t *count)
{
    for (size_t at = 0; at + 8 <= f->size;) {
        uint32_t length, n;
        memcpy(&length, f->bytes + at, 4);
        const char *key = f->bytes + at + 4;
        memcpy(&n, key + length, 4);
        if (length == strlen(name) && !memcmp(key, name, length)) {
            float *v = malloc(n * sizeof *v + 1);
            memcpy(v, key + length + 4, n * sizeof *v);
            if (count)
                *count = n;
            return v;
        }
        at += 8 + length + 4 * (size_t)n;
    }
    return NULL;
}

/* The record CASE/NAME. */
static inline float *fixture_case(const struct fixture *f, int i, const char *name, size_t *count)
{
    char key[64];
    snprintf(key, sizeof key, "%d/%s", i, name);
    return fixture_find(f, key, count);
}

/* The record KINDNAME, which is there. */
static inline float *fixture_record(const struct fixture *f, const char *kind, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s%s", kind, name);
    float *v = fixture_find(f, key, NULL);
    if (!v)
        printf("Bail out! the fixture has no %s\n", key), exit(1);
    return v;
}

#endif
