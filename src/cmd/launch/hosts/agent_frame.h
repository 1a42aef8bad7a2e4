/*
 * agent_frame.h - the protocol between the launcher and the agent of a host.
 *
 * The launcher starts `nexar run --agent` on a host by ssh or srun; stdin and stdout of that
 * process carry the protocol. The agent begins with a line of text, "nexar-agent VERSION". Frames
 * follow in both directions:
 *
 *     kind (1 byte), length of the payload (4 bytes, big-endian), payload, 0x0a
 *
 * The newline is for srun, which withholds output that does not end with one.
 *
 *     launcher                                agent
 *        |<--- "nexar-agent 0.1.0\n" ------------|
 *        |---- SETUP: directory, argv, env ----->|  checks them
 *        |<--- READY, or REFUSED: why -----------|
 *        |---- START: join string, ranks ------->|  when all hosts are ready
 *        |<--- STARTED: pids --------------------|
 *        |<--- OUTPUT, ENDED, STOPPED -----------|  of a rank
 *        |---- SIGNAL, INPUT, INPUT_END -------->|
 *        |<--- TAKEN: bytes of INPUT ------------|  at most NX_AGENT_WINDOW are in flight
 *        |---- PING ---- PONG ------------------>|  silence for too long ends both sides
 *        |<--- DONE -----------------------------|  all ranks have ended, all output is sent
 *
 * When stdin of the agent ends, the agent kills its ranks.
 */
#ifndef NX_AGENT_FRAME_H
#define NX_AGENT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cmd/launch/io/output_sink.h"

/* The line that the agent begins with, before the version. */
#define NX_AGENT_GREETING "nexar-agent "

enum {
    NX_AGENT_PAYLOAD_MAX = 8 << 20, /* more than the kernel allows for the arguments of a process */
    NX_AGENT_CHUNK = 16384,         /* bytes of output or input in one frame */
    NX_AGENT_WINDOW = 65536         /* bytes of input that rank 0 has not read */
};

typedef enum nx_agent_kind {
    NX_AGENT_SETUP = 1, /* nx_agent_setup */
    NX_AGENT_START,     /* nx_agent_start */
    NX_AGENT_SIGNAL,    /* a number: for all ranks */
    NX_AGENT_INPUT,     /* bytes for rank 0 */
    NX_AGENT_INPUT_END,
    NX_AGENT_PING,
    NX_AGENT_READY = 64,
    NX_AGENT_REFUSED, /* a message */
    NX_AGENT_STARTED, /* rank, pid */
    NX_AGENT_OUTPUT,  /* rank, stream (1: stdout, 2: stderr), bytes */
    NX_AGENT_ENDED,   /* rank, code, or NX_AGENT_KILLED + signal */
    NX_AGENT_STOPPED, /* rank, signal; 0: it was resumed */
    NX_AGENT_TAKEN,   /* bytes of INPUT that rank 0 has read; UINT32_MAX: it reads no more */
    NX_AGENT_WISH,    /* the agent has received this signal, which requests the end */
    NX_AGENT_PONG,
    NX_AGENT_DONE
} nx_agent_kind;

enum { NX_AGENT_KILLED = 256 };

/* The program to run: texts and arrays that end with NULL. */
typedef struct nx_agent_setup {
    uint32_t timeout_ms; /* silence of the launcher after which the agent ends; 0: no limit */
    const char *directory;
    const char **argv;
    const char **env; /* "NAME=VALUE", added to the environment of the agent */
} nx_agent_setup;

typedef struct nx_agent_start {
    const char *join;
    uint32_t size;          /* ranks of the world */
    uint32_t first, ranks;  /* those of this host */
    uint32_t output;        /* nx_spawn_output */
    uint32_t bind;          /* binds each rank to its own core */
    uint32_t joins;         /* the cluster of the join string assigns the ranks */
    uint32_t columns, rows; /* of the ptys; 0: no size */
} nx_agent_start;

/* ---- writing: a failure breaks the sink ---------------------------------------------- */

void nx_agent_put(nx_output_sink *to, nx_agent_kind kind, const void *payload, size_t len);
/* For kinds whose payload is numbers; a missing second number is 0. */
void nx_agent_put_numbers(nx_output_sink *to, nx_agent_kind kind, uint32_t a, uint32_t b);
void nx_agent_put_setup(nx_output_sink *to, const nx_agent_setup *setup);
void nx_agent_put_start(nx_output_sink *to, const nx_agent_start *start);
/* |payload| has NX_AGENT_OUTPUT_HEAD bytes of room before the |len| bytes of output. */
enum { NX_AGENT_OUTPUT_HEAD = 5 };
void nx_agent_put_output(nx_output_sink *to, uint32_t rank, uint8_t stream, uint8_t *payload,
                         size_t len);

/* ---- reading ------------------------------------------------------------------------- */

typedef struct nx_agent_frame {
    unsigned kind;       /* nx_agent_kind, or any other byte */
    const uint8_t *data; /* borrowed from the input until the next nx_agent_input_fill */
    size_t len;
} nx_agent_frame;

/* Received bytes. Zero-initialised is empty. */
typedef struct nx_agent_input {
    uint8_t *data;
    size_t at, len, room; /* |len| bytes from |at| on */
} nx_agent_input;

void nx_agent_input_fini(nx_agent_input *in);

/* Reads once from |fd|. Returns the number of bytes; 0: none available; -1: the end, or an
 * error. */
long nx_agent_input_fill(nx_agent_input *in, int fd);

/* Takes the next line, without its end, cut to fit |line|. False: no complete line yet. */
bool nx_agent_input_line(nx_agent_input *in, char *line, size_t size);

/* Takes the next frame: 1; 0: not complete yet; -1: malformed. */
int nx_agent_input_next(nx_agent_input *in, nx_agent_frame *frame);

/* Each returns false for a malformed payload. */
bool nx_agent_numbers(const nx_agent_frame *frame, uint32_t *a, uint32_t *b);
bool nx_agent_output(const nx_agent_frame *frame, uint32_t *rank, uint8_t *stream,
                     const char **bytes, size_t *len);
/* Cleaned for a line of text, cut at |size|. */
bool nx_agent_sentence(const nx_agent_frame *frame, char *text, size_t size);
/* |*start| points into |frame|. */
bool nx_agent_read_start(const nx_agent_frame *frame, nx_agent_start *start);
/* |*setup| points into |frame|; its arrays are the caller's, for nx_free.  NEXAR_EINVAL: malformed;
 * NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_agent_read_setup(const nx_agent_frame *frame, nx_agent_setup *setup);

#endif /* NX_AGENT_FRAME_H */
