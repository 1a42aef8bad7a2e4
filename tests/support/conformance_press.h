/* conformance_press.h - the part of the suite about a receiver that does not keep up. */
#ifndef NXT_CONFORMANCE_PRESS_H
#define NXT_CONFORMANCE_PRESS_H

/* A test for cmocka; |*state| is the harness. */
void nxt_test_a_receiver_that_stands_still_holds_the_sender_back(void **state);

#endif /* NXT_CONFORMANCE_PRESS_H */
