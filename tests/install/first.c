/* first.c - the first program of README.md. */
#include <nexar.h>
#include <stdio.h>

int main(void)
{
    nexar_config *cfg = NULL;
    char segment[32];

    if ((nexar_config_create(&cfg) != NEXAR_OK) ||
        (nexar_config_set(cfg, "segment", "64k") != NEXAR_OK) ||
        (nexar_config_get(cfg, "segment", segment, sizeof(segment)) != NEXAR_OK)) {
        (void)fprintf(stderr, "%s\n", nexar_last_error());
        nexar_config_free(cfg);
        return 1;
    }
    (void)printf("nexar %s: %s has %zu bytes, long transfers are cut in %s\n", nexar_version(),
                 nexar_dtype_name(NEXAR_BF16), nexar_dtype_size(NEXAR_BF16), segment);
    nexar_config_free(cfg);
    return 0;
}
