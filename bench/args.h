/*
 * args.h - the arguments of a benchmark: --help, numbers and words. An invalid argument ends the
 * program with code 2 and one message.
 */
#ifndef NXB_ARGS_H
#define NXB_ARGS_H

#include <stddef.h>
#include <stdint.h>

typedef struct nxb_args {
    const char *program;
    char **words; /* without the program, borrowed from main */
    size_t n;
} nxb_args;

/* The arguments, at most |most|. --help or -h prints |help| and exits with 0; there are no other
 * options. */
nxb_args nxb_args_take(int argc, char **argv, size_t most, const char *help);

/* Word |i| as a number from |least| to |most|, of bytes if it has a unit such as "64k";
 * |otherwise| if there are fewer words. */
uint64_t nxb_args_number(const nxb_args *args, size_t i, uint64_t otherwise, uint64_t least,
                         uint64_t most);

/* Word |i| as seconds, more than 0 and at most a day, such as "0.5". */
double nxb_args_seconds(const nxb_args *args, size_t i, double otherwise);

/* The index of word |i| in the |n| |words|. */
size_t nxb_args_word(const nxb_args *args, size_t i, const char *const words[], size_t n);

#endif /* NXB_ARGS_H */
