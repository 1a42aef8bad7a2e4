/*
 * control.h - what members say to each other about the world itself, by the first
 * byte of the frame.  All go over the control lane; msg/envelope.h has the numbers
 * below these.
 */
#ifndef NX_CONTROL_H
#define NX_CONTROL_H

typedef enum nx_control_type {
    NX_CONTROL_PING = 64, /* health.h */
    NX_CONTROL_PONG,
    NX_CONTROL_FLOOD, /* flood.h */
    NX_CONTROL_AGREE  /* agree_msg.h */
} nx_control_type;

#endif /* NX_CONTROL_H */
