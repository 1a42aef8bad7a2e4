/*
 * ptx_run.c - parses an entry into instructions, then runs them.
 *
 * Registers have 64 bits; each instruction uses as many as its type has.
 */
#include "ptx_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduce/scalar.h"

enum { MAX_CODE = 64, CLASSES = 6, NUMBERS = 16, OPERANDS = 4, F16_NAN = 0x7fff };

typedef uint64_t (*value_fn)(uint64_t a, uint64_t b, uint64_t c);

typedef enum operand_kind {
    NONE,
    REGISTER,
    CONSTANT,
    ADDRESS,
    PARAM,
    CTAID,
    NTID,
    TID
} operand_kind;

typedef struct operand {
    operand_kind kind;
    unsigned class, number; /* of a register; |number| of a parameter */
    uint64_t value;
} operand;

typedef enum code_kind { VALUE, LOAD, STORE, LOAD_PARAM, RET } code_kind;

typedef struct code {
    code_kind kind;
    value_fn value;
    unsigned bytes; /* of memory */
    bool is_signed;
    bool guarded;
    operand guard;
    operand at[OPERANDS];
} code;

struct nxt_ptx_entry {
    size_t ncode, nparams;
    code codes[MAX_CODE];
    char params[NXT_PTX_PARAMS][16];
};

/* ---- computations ----------------------------------------------------------------------- */

static float f32(uint64_t bits)
{
    return nx_f32_of_bits((uint32_t)bits);
}

static double f64(uint64_t bits)
{
    return nx_f64_of_bits(bits);
}

#define VALUE_OF(NAME, RESULT)                               \
    static uint64_t NAME(uint64_t a, uint64_t b, uint64_t c) \
    {                                                        \
        (void)a;                                             \
        (void)b;                                             \
        (void)c;                                             \
        return (uint64_t)(RESULT);                           \
    }

VALUE_OF(same, a)
VALUE_OF(low32, (uint32_t)a)
VALUE_OF(low16, (uint16_t)a)
VALUE_OF(select_one, (c != 0) ? a : b)
VALUE_OF(add_f32, nx_f32_bits(f32(a) + f32(b)))
VALUE_OF(mul_f32, nx_f32_bits(f32(a) * f32(b)))
VALUE_OF(add_f64, nx_f64_bits(f64(a) + f64(b)))
VALUE_OF(mul_f64, nx_f64_bits(f64(a) * f64(b)))
VALUE_OF(nan_f32, (f32(a) != f32(a)) || (f32(b) != f32(b)))
VALUE_OF(nan_f64, (f64(a) != f64(a)) || (f64(b) != f64(b)))
VALUE_OF(ge_u64, a >= b)
VALUE_OF(add_u32, (uint32_t)(a + b))
VALUE_OF(add_u64, a + b)
VALUE_OF(mul_u32, (uint32_t)(a *b))
VALUE_OF(mul_u64, a *b)
VALUE_OF(wide_u32, (uint64_t)(uint32_t)a *(uint32_t)b)
VALUE_OF(min_s32, ((int32_t)a < (int32_t)b) ? (uint32_t)a : (uint32_t)b)
VALUE_OF(max_s32, ((int32_t)a > (int32_t)b) ? (uint32_t)a : (uint32_t)b)
VALUE_OF(min_u32, ((uint32_t)a < (uint32_t)b) ? (uint32_t)a : (uint32_t)b)
VALUE_OF(max_u32, ((uint32_t)a > (uint32_t)b) ? (uint32_t)a : (uint32_t)b)
VALUE_OF(min_s64, ((int64_t)a < (int64_t)b) ? a : b)
VALUE_OF(max_s64, ((int64_t)a > (int64_t)b) ? a : b)
VALUE_OF(min_u64, (a < b) ? a : b)
VALUE_OF(max_u64, (a > b) ? a : b)
VALUE_OF(and_64, a &b)
VALUE_OF(or_64, a | b)
VALUE_OF(xor_64, a ^ b)
VALUE_OF(and_32, (uint32_t)(a &b))
VALUE_OF(or_32, (uint32_t)(a | b))
VALUE_OF(xor_32, (uint32_t)(a ^ b))
VALUE_OF(shl_32, (b > 31) ? 0 : (uint32_t)(a << b))
VALUE_OF(shr_32, (b > 31) ? 0 : (uint32_t)a >> b)
VALUE_OF(f32_of_half, nx_f32_bits(nx_f32_of_f16((uint16_t)a)))
VALUE_OF(half_of_f32, (f32(a) != f32(a)) ? F16_NAN : nx_f16_of_f32(f32(a)))

/* If one operand is NaN, the other one; -0 is below +0. */
#define CHOICE_OF(NAME, TYPE, LESS)                                       \
    static uint64_t NAME(uint64_t a, uint64_t b, uint64_t c)              \
    {                                                                     \
        (void)c;                                                          \
        if (TYPE(a) != TYPE(a)) {                                         \
            return b;                                                     \
        }                                                                 \
        if (TYPE(b) != TYPE(b)) {                                         \
            return a;                                                     \
        }                                                                 \
        if (TYPE(a) == TYPE(b)) {                                         \
            return ((__builtin_signbit(TYPE(a)) != 0) == (LESS)) ? a : b; \
        }                                                                 \
        return ((TYPE(a) < TYPE(b)) == (LESS)) ? a : b;                   \
    }

CHOICE_OF(min_f32, f32, true)
CHOICE_OF(max_f32, f32, false)
CHOICE_OF(min_f64, f64, true)
CHOICE_OF(max_f64, f64, false)

static const struct instruction {
    const char *name;
    value_fn value;
    unsigned sources;
} instructions[] = {
    {"cvta.to.global.u64", same, 1},
    {"mov.u32", low32, 1},
    {"mov.b32", low32, 1},
    {"cvt.u64.u32", low32, 1},
    {"cvt.u32.u16", low16, 1},
    {"cvt.u16.u32", low16, 1},
    {"cvt.f32.f16", f32_of_half, 1},
    {"cvt.rn.f16.f32", half_of_f32, 1},
    {"selp.f32", select_one, 3},
    {"selp.f64", select_one, 3},
    {"selp.b16", select_one, 3},
    {"setp.nan.f32", nan_f32, 2},
    {"setp.nan.f64", nan_f64, 2},
    {"setp.ge.u64", ge_u64, 2},
    {"add.rn.f32", add_f32, 2},
    {"mul.rn.f32", mul_f32, 2},
    {"add.rn.f64", add_f64, 2},
    {"mul.rn.f64", mul_f64, 2},
    {"min.f32", min_f32, 2},
    {"max.f32", max_f32, 2},
    {"min.f64", min_f64, 2},
    {"max.f64", max_f64, 2},
    {"add.u32", add_u32, 2},
    {"add.u64", add_u64, 2},
    {"mul.lo.u32", mul_u32, 2},
    {"mul.lo.u64", mul_u64, 2},
    {"mul.wide.u32", wide_u32, 2},
    {"min.s32", min_s32, 2},
    {"max.s32", max_s32, 2},
    {"min.u32", min_u32, 2},
    {"max.u32", max_u32, 2},
    {"min.s64", min_s64, 2},
    {"max.s64", max_s64, 2},
    {"min.u64", min_u64, 2},
    {"max.u64", max_u64, 2},
    {"and.b32", and_32, 2},
    {"or.b32", or_32, 2},
    {"xor.b32", xor_32, 2},
    {"and.b64", and_64, 2},
    {"or.b64", or_64, 2},
    {"xor.b64", xor_64, 2},
    {"shl.b32", shl_32, 2},
    {"shr.u32", shr_32, 2},
};

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool read_register(const char *word, operand *out)
{
    static const char classes[] = "phrlfd";
    const char *class = (word[0] == '%') ? strchr(classes, word[1]) : NULL;
    unsigned number;
    char rest;

    if ((class == NULL) || (word[1] == '\0') ||
        (sscanf(word + 2, "%u%c", &number, &rest) != 1) || // NOLINT(cert-err34-c)
        (number >= NUMBERS)) {
        return false;
    }
    *out = (operand){.kind = REGISTER, .class = (unsigned)(class - classes), .number = number};
    return true;
}

static bool read_special(const char *word, operand *out)
{
    const struct {
        const char *name;
        operand_kind kind;
    } specials[] = {{"%ctaid.x", CTAID}, {"%ntid.x", NTID}, {"%tid.x", TID}};

    for (size_t i = 0; i < 3; i++) {
        if (strcmp(word, specials[i].name) == 0) {
            *out = (operand){.kind = specials[i].kind};
            return true;
        }
    }
    return false;
}

static bool read_constant(const char *word, operand *out)
{
    char *end;
    bool bits = (word[0] == '0') && ((word[1] == 'f') || (word[1] == 'd'));

    out->kind = CONSTANT;
    out->value = bits ? strtoull(word + 2, &end, 16) : strtoull(word, &end, 0);
    return (end != word) && (*end == '\0');
}

/* [%l0] or [name of a parameter]. */
static bool read_address(const nxt_ptx_entry *entry, char *word, operand *out)
{
    size_t len = strlen(word);

    if ((word[0] != '[') || (len < 3) || (word[len - 1] != ']')) {
        return false;
    }
    word[len - 1] = '\0';
    if (read_register(word + 1, out)) {
        out->kind = ADDRESS;
        return true;
    }
    for (unsigned i = 0; i < entry->nparams; i++) {
        if (strcmp(entry->params[i], word + 1) == 0) {
            *out = (operand){.kind = PARAM, .number = i};
            return true;
        }
    }
    return false;
}

static bool read_operand(const nxt_ptx_entry *entry, char *word, operand *out)
{
    return read_register(word, out) || read_special(word, out) || read_address(entry, word, out) ||
           read_constant(word, out);
}

/* Parses the opcode; returns its number of operands; 0: unknown. */
static unsigned read_opcode(const char *name, code *out)
{
    char sign;
    unsigned bits;

    if (strcmp(name, "ld.param.u64") == 0) {
        out->kind = LOAD_PARAM;
        return 2;
    }
    if ((sscanf(name, "ld.global.%c%u", &sign, &bits) == 2) || // NOLINT(cert-err34-c)
        (sscanf(name, "st.global.%c%u", &sign, &bits) == 2)) { // NOLINT(cert-err34-c)
        out->kind = (name[0] == 'l') ? LOAD : STORE;
        out->bytes = bits / 8;
        out->is_signed = (sign == 's');
        return 2;
    }
    for (size_t i = 0; i < sizeof(instructions) / sizeof(instructions[0]); i++) {
        if (strcmp(name, instructions[i].name) == 0) {
            out->kind = VALUE;
            out->value = instructions[i].value;
            return 1 + instructions[i].sources;
        }
    }
    return 0;
}

/* Parses one statement, without its semicolon. */
static bool read_statement(nxt_ptx_entry *entry, char *text)
{
    code *c = &entry->codes[entry->ncode];
    char *save = NULL, *word = strtok_r(text, " ,\n", &save);
    unsigned want;

    if ((word == NULL) || (strcmp(word, ".reg") == 0)) {
        return true;
    }
    if (entry->ncode == MAX_CODE) {
        return false;
    }
    if (word[0] == '@') {
        c->guarded = read_register(word + 1, &c->guard);
        word = strtok_r(NULL, " ,\n", &save);
        if (!c->guarded || (word == NULL)) {
            return false;
        }
    }
    entry->ncode++;
    if (strcmp(word, "ret") == 0) {
        c->kind = RET;
        return true;
    }
    want = read_opcode(word, c);
    for (unsigned i = 0; i < want; i++) {
        word = strtok_r(NULL, " ,\n", &save);
        if ((word == NULL) || !read_operand(entry, word, &c->at[i])) {
            return false;
        }
    }
    return (want != 0) && (strtok_r(NULL, " ,\n", &save) == NULL);
}

/* "(.param .u64 dst, .param .u64 src)": their names. */
static bool read_params(nxt_ptx_entry *entry, const char *text, const char *end)
{
    while ((text = strstr(text, ".param .u64 ")) != NULL && (text < end)) {
        text += strlen(".param .u64 ");
        if ((entry->nparams == NXT_PTX_PARAMS) ||
            (sscanf(text, "%15[a-z0-9_]", entry->params[entry->nparams]) != 1)) {
            return false;
        }
        entry->nparams++;
    }
    return true;
}

static bool read_body(nxt_ptx_entry *entry, char *body, char *why)
{
    char *save = NULL;

    for (char *s = strtok_r(body, ";", &save); s != NULL; s = strtok_r(NULL, ";", &save)) {
        char copy[128];

        (void)snprintf(copy, sizeof(copy), "%s", s);
        if (!read_statement(entry, s)) {
            (void)snprintf(why, 128, "not understood: %.100s", copy);
            return false;
        }
    }
    return true;
}

nxt_ptx_entry *nxt_ptx_read(const char *text, const char *name, char *why)
{
    nxt_ptx_entry *entry = calloc(1, sizeof(*entry));
    const char *begin, *open, *close;
    char *body = NULL, head[64];

    (void)snprintf(head, sizeof(head), ".visible .entry %s(", name);
    (void)snprintf(why, 128, "no entry %s", name);
    begin = strstr(text, head);
    open = (begin == NULL) ? NULL : strchr(begin, '{');
    close = (open == NULL) ? NULL : strchr(open, '}');
    if ((entry != NULL) && (close != NULL) && read_params(entry, begin, open)) {
        body = strndup(open + 1, (size_t)(close - open - 1));
    }
    if ((body == NULL) || !read_body(entry, body, why)) {
        free(entry);
        entry = NULL;
    }
    free(body);
    return entry;
}

void nxt_ptx_free(nxt_ptx_entry *entry)
{
    free(entry);
}

size_t nxt_ptx_nparams(const nxt_ptx_entry *entry)
{
    return entry->nparams;
}

/* ---- running
 * ------------------------------------------------------------------------------------- */

typedef struct lane {
    const nxt_ptx_launch *launch;
    uint32_t ctaid, tid;
    uint64_t registers[CLASSES][NUMBERS];
} lane;

static uint64_t get(const lane *l, const operand *o)
{
    switch (o->kind) {
    case REGISTER:
    case ADDRESS:
        return l->registers[o->class][o->number];
    case CONSTANT:
        return o->value;
    case PARAM:
        return l->launch->params[o->number];
    case CTAID:
        return l->ctaid;
    case NTID:
        return l->launch->block;
    case TID:
        return l->tid;
    case NONE:
    default:
        return 0;
    }
}

static void set(lane *l, const operand *o, uint64_t value)
{
    l->registers[o->class][o->number] = value;
}

/* Loads into, or stores from, a register. */
static bool access_memory(lane *l, const code *c)
{
    const operand *address = (c->kind == LOAD) ? &c->at[1] : &c->at[0];
    const uint64_t at = get(l, address);
    void *memory = l->launch->memory(l->launch->ctx, at, c->bytes);
    uint64_t value = 0;

    if ((memory == NULL) || (at % c->bytes != 0)) {
        return false;
    }
    if (c->kind == STORE) {
        value = get(l, &c->at[1]);
        memcpy(memory, &value, c->bytes); /* little-endian, as the device is */
        return true;
    }
    memcpy(&value, memory, c->bytes);
    if (c->is_signed && (c->bytes < 8) && ((value >> (8 * c->bytes - 1)) != 0)) {
        value |= ~UINT64_C(0) << (8 * c->bytes);
    }
    set(l, &c->at[0], value);
    return true;
}

static bool run_lane(const nxt_ptx_entry *entry, lane *l)
{
    for (size_t i = 0; i < entry->ncode; i++) {
        const code *c = &entry->codes[i];

        if (c->guarded && (get(l, &c->guard) == 0)) {
            continue;
        }
        if (c->kind == RET) {
            return true;
        }
        if (c->kind == VALUE) {
            set(l, &c->at[0], c->value(get(l, &c->at[1]), get(l, &c->at[2]), get(l, &c->at[3])));
        } else if (c->kind == LOAD_PARAM) {
            set(l, &c->at[0], get(l, &c->at[1]));
        } else if (!access_memory(l, c)) {
            return false;
        }
    }
    return true;
}

bool nxt_ptx_run(const nxt_ptx_entry *entry, const nxt_ptx_launch *launch)
{
    for (uint32_t cta = 0; cta < launch->grid; cta++) {
        for (uint32_t t = 0; t < launch->block; t++) {
            lane l = {.launch = launch, .ctaid = cta, .tid = t};

            memset(l.registers, 0xa5, sizeof(l.registers)); /* registers are not zero at first */
            if (!run_lane(entry, &l)) {
                return false;
            }
        }
    }
    return true;
}
